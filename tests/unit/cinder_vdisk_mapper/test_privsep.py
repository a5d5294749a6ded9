#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The allow-lists of root's helper processes and their checks."""

import inspect
import os
import threading
from unittest import mock

import fixtures
import testtools
from oslo_config import cfg

from cinder_vdisk_mapper import privsep
from cinder_vdisk_mapper import privsep_lvm
from cinder_vdisk_mapper.backend import filesystem
from cinder_vdisk_mapper.backend import lvm
from nova_diskplacer import exception
from nova_diskplacer.conf import diskplacer
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import copies
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import leg_moves
from nova_diskplacer.disks.lvm import resync_throttle
from nova_diskplacer.disks.lvm import volumes
from nova_diskplacer.host import files

UUID = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'
OTHER = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d12'

# Values of the parameters of the backends' methods.
VALUES = {
    int: 1,
    str: 'name',
    bool: True,
    str | None: None,
    bool | None: None,
    Location: Location(('name', 'other')),
}

#: as the helper process gets them
SENT = {**VALUES, Location: 'name,other'}


class AllowListTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        for module in (privsep, privsep_lvm):
            self.addCleanup(
                module.context.set_client_mode, module.context.client_mode
            )
            module.context.set_client_mode(False)
        self.root = self.useFixture(fixtures.TempDir()).path
        for target, name, value in (
            (commands, '_launcher', ()),
            (files, '_lock_directory', ''),
            (
                discover,
                'run_unless_hung',
                lambda root, uuid, work: work(),
            ),
            (discover, 'require_mounted', os.path.join),
            (groups, 'run_unless_hung', lambda uuid, work: work()),
        ):
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def assertRefused(self, reason, call, *arguments):
        error = self.assertRaises(exception.DiskError, call, *arguments)
        self.assertIn(reason, str(error))

    def test_other_operations(self):
        for module, names in (
            (privsep, ('', 'call', '_copy', 'scan', 'allocate_clone')),
            (privsep_lvm, ('delete', 'sweep', 'create_temporary', 'run')),
        ):
            for name in (*names, None, 1, ('create',)):
                self.assertRefused(
                    'is not an allowed operation',
                    module.run,
                    self.root,
                    name,
                    UUID,
                )

    def test_arguments(self):
        create = [UUID, 'volume-1', '1', 'server', 4096]
        for position, value in (
            (0, None),
            (1, b'volume-1'),
            (2, 1),
            (3, ('server',)),
            (4, True),
            (4, '4096'),
            (4, 4096.0),
        ):
            bad = create.copy()
            bad[position] = value
            for module in (privsep, privsep_lvm):
                self.assertRefused(
                    'operation create does not take',
                    module.run,
                    self.root,
                    'create',
                    *bad,
                )
        for arguments in (create[:-1], [*create, 1], []):
            for module in (privsep, privsep_lvm):
                self.assertRefused(
                    'does not take',
                    module.run,
                    self.root,
                    'create',
                    *arguments,
                )
        for root in (None, self.root.encode(), 1):
            for module in (privsep, privsep_lvm):
                self.assertRefused(
                    'does not take', module.run, root, 'disks', False
                )
        self.assertRefused(
            'does not take', privsep_lvm.run, self.root, 'remove', UUID, 'a', 1
        )

    def test_no_error_has_a_secret(self):
        for module in (privsep, privsep_lvm):
            error = self.assertRaises(
                exception.DiskError,
                module.run,
                self.root,
                'admit',
                'iqn',
                None,
                'user',
                'secret',
            )
            self.assertNotIn('secret', str(error))

    def test_locks_are_where_cinder_conf_says(self):
        cfg.CONF.register_opt(diskplacer.LOCK_DIR, group='diskplacer')
        cfg.CONF.set_override('lock_dir', self.root + '/locks', 'diskplacer')
        self.addCleanup(cfg.CONF.clear_override, 'lock_dir', 'diskplacer')
        privsep_lvm.run(self.root, 'disks', False)
        self.assertEqual(self.root + '/locks', files.lock_directory())
        self.assertEqual(['locks'], os.listdir(self.root))

    def test_nothing_by_keyword(self):
        for module in (privsep, privsep_lvm):
            self.assertRaises(
                TypeError, module.run, self.root, 'disk', UUID, root='/'
            )

    def test_disk_root(self):
        os.chmod(self.root, 0o777)  # noqa: S103
        for module in (privsep, privsep_lvm):
            for operation in module.OPERATIONS:
                types = privsep.declared_types(module.OPERATIONS[operation])
                self.assertRefused(
                    'owned and writable by root only',
                    module.run,
                    self.root,
                    operation,
                    *(SENT[one] for one in types),
                )

    def test_every_operation_declares_its_types(self):
        known = {str, int, bool, str | None, bool | None, Location}
        for module in (privsep, privsep_lvm):
            for operation in module.OPERATIONS.values():
                self.assertTrue({*privsep.declared_types(operation)} <= known)

    def test_hung_disks(self):
        """Operations that change a disk are refused while it hangs."""

        def hung(*arguments):
            raise exception.DiskHung('hung')

        for module, target in ((privsep, discover), (privsep_lvm, groups)):
            for name, operation in module.OPERATIONS.items():
                if name in WITHOUT_DISK:
                    continue
                types = privsep.declared_types(operation)
                with mock.patch.object(target, 'run_unless_hung', hung):
                    self.assertRaises(
                        exception.DiskHung,
                        module.run,
                        self.root,
                        name,
                        *(SENT[one] for one in types),
                    )

    def test_copy_to_a_hung_disk(self):
        def work_on(*arguments):
            if OTHER in arguments:
                raise exception.DiskHung('hung')
            return arguments[-1]()

        with (
            mock.patch.object(discover, 'run_unless_hung', work_on),
            mock.patch.object(groups, 'run_unless_hung', work_on),
        ):
            for run, start in ((privsep.run, [0]), (privsep_lvm.run, [9])):
                self.assertRaises(
                    exception.DiskHung,
                    run,
                    self.root,
                    'copy',
                    UUID,
                    'volume-1',
                    OTHER,
                    *start,
                )

    def test_move_of_legs_to_a_hung_disk(self):
        asked = []

        def work_on(uuid, work):
            asked.append(uuid)
            if uuid == OTHER:
                raise exception.DiskHung('hung')
            return work()

        with mock.patch.object(groups, 'run_unless_hung', work_on):
            for name, rest in (
                ('create_legs', ()),
                ('begin_move', (1, 1)),
                ('complete_legs', ()),
                ('settle_legs', (False,)),
            ):
                for old, new in ((UUID, OTHER), (OTHER, UUID)):
                    self.assertRaises(
                        exception.DiskHung,
                        privsep_lvm.run,
                        self.root,
                        name,
                        old,
                        'volume-1',
                        new,
                        *rest,
                    )
            # the source is healthy, and the volume group is missing
            asked.clear()
            self.assertRaises(
                exception.DiskError,
                privsep_lvm.run,
                self.root,
                'move_progress',
                UUID,
                'volume-1',
                OTHER,
            )
            self.assertEqual([UUID], asked)

    def test_writes_that_wait_for_a_hung_disk(self):
        """They are repeated when it answers: nothing else would do it."""
        answers, ended = threading.Event(), threading.Event()

        def release(*arguments):
            answers.wait()
            ended.set()

        with (
            mock.patch.object(leg_moves, 'release_writes', release),
            mock.patch.object(privsep_lvm.probes, 'HUNG_AFTER', 0),
        ):
            self.assertRaises(
                exception.DiskHung,
                privsep_lvm.run,
                self.root,
                'release_writes',
                'volume-1',
                False,
            )
            answers.set()
            self.assertTrue(ended.wait(60))
        with mock.patch.object(
            leg_moves, 'release_writes', side_effect=exception.DiskError('x')
        ) as released:
            self.assertRefused(
                'x',
                privsep_lvm.run,
                self.root,
                'release_writes',
                'volume-1',
                True,
            )
        released.assert_called_once_with('volume-1', True)

    def test_copy(self):
        with mock.patch.object(
            privsep.copies, 'copy', return_value=7
        ) as copied:
            self.assertEqual(
                7, privsep.run(self.root, 'copy', UUID, 'volume-1', OTHER, 5)
            )
        copied.assert_called_once_with(
            os.path.join(self.root, UUID),
            'volume-1',
            os.path.join(self.root, OTHER),
            5,
        )
        with mock.patch.object(copies, 'copy') as copied:
            privsep_lvm.run(self.root, 'copy', UUID, 'volume-1', OTHER, 9)
        copied.assert_called_once_with(UUID, 'volume-1', OTHER, 9)

    def test_lvm_is_confined(self):
        with mock.patch.object(discover, 'discover', return_value=[]):
            privsep_lvm.run(self.root, 'disks', False)
        self.assertEqual('setpriv', commands._launcher[0])
        self.assertIn(
            '--bounding-set=-all,+sys_admin,+sys_module', commands._launcher
        )


class BackendsTestCase(testtools.TestCase):
    """Backends run allowed operations with arguments of the right types."""

    def check(self, backend, operations, moves=()):
        ran = set()

        def run(disk_root, operation, *arguments):
            types = privsep.declared_types(operations[operation])
            self.assertEqual(len(types), len(arguments), operation)
            for value, declared in zip(arguments, types, strict=True):
                self.assertTrue(privsep._is_a(value, declared), operation)
            ran.add(operation)
            return RESULTS.get(operation)

        with (
            mock.patch.object(backend.helper, 'run', run),
            mock.patch.object(files, 'exists', return_value=True),
            mock.patch.object(os, 'readlink', side_effect=PermissionError),
            mock.patch.object(os, 'listdir', side_effect=PermissionError),
            mock.patch('builtins.open', side_effect=PermissionError),
        ):
            for name in methods(type(backend)):
                parameters = inspect.signature(
                    getattr(type(backend), name)
                ).parameters
                getattr(backend, name)(
                    *(
                        VALUES[one.annotation]
                        for one in list(parameters.values())[1:]
                    )
                )
            for function in moves:
                types = privsep.declared_types(function)
                backend.as_root(function, *(VALUES[one] for one in types))
        self.assertEqual({*operations} - {'disk', 'zero'}, ran)

    def test_filesystem(self):
        self.check(filesystem.FilesystemBackend('/disks'), privsep.OPERATIONS)

    def test_lvm(self):
        moves = (
            leg_moves.create_legs,
            leg_moves.begin_move,
            leg_moves.move_progress,
            leg_moves.complete_legs,
            leg_moves.end_move,
            leg_moves.release_writes,
            leg_moves.settle_legs,
            resync_throttle.limit_copies,
            resync_throttle.release_throttle,
        )
        self.check(lvm.LVMBackend('/disks'), privsep_lvm.OPERATIONS, moves)

    def test_operations(self):
        """Each operation calls the function of its name."""
        for operations, name, function in (
            (privsep.OPERATIONS, 'create', vdisks.create),
            (privsep.OPERATIONS, 'delete', vdisks.delete),
            (privsep_lvm.OPERATIONS, 'create', volumes.create),
            (privsep_lvm.OPERATIONS, 'clone', copies.clone),
        ):
            self.assertIs(function, operations[name].__wrapped__)
        for operations in (privsep.OPERATIONS, privsep_lvm.OPERATIONS):
            for name in {*operations} - {'disks', 'disk', 'copy'}:
                self.assertEqual(name, operations[name].__name__)


#: methods of a backend that run no operation of their own
LOOKUPS = (
    'as_root',
    'attached_path',
    'check_disk',
    'check_location',
    'device_path',
    'disk',
    'disks_holding',
    'find_vdisk',
    'forgotten',
    'has_entry',
    'link_path',
    'remote_in_use',
    'stripe_is_active',
    'striped_path',
    'usable_vdisk',
)


#: operations of no disk
RESULTS = {
    'disks': [],
    'is_parked': True,
    'is_to_device': True,
    'with_device': [],
    'legs': ['volume-1'],
    'moving_legs': ['volume-1.2'],
    'move_progress': (1, 2),
}

WITHOUT_DISK = (
    'disks',
    'disk',
    'count_bind_failure',
    'limit_copies',
    'release_throttle',
    'release_writes',
    'add_remote',
    'admit',
    'all_links',
    'is_parked',
    'is_to_device',
    'park',
    'unpark',
    'link',
    'link_remote',
    'remote_device',
    'remotes',
    'remove_remote',
    'linked_disk',
    'recorded_move',
    'resume_stripes',
    'unlink',
)


def methods(backend):
    """Return the names of a backend's methods that run an operation."""
    return [
        name
        for name, _ in inspect.getmembers(backend, inspect.isfunction)
        if not name.startswith('_') and name not in LOOKUPS
    ]


class RootOwnedTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.parent = self.useFixture(fixtures.TempDir()).path
        self.root = os.path.join(self.parent, 'disks')
        os.mkdir(self.root)

    def test_modes(self):
        for parent, root, good in (
            (0o755, 0o755, True),
            (0o700, 0o700, True),
            (0o1777, 0o755, True),
            (0o777, 0o755, False),
            (0o755, 0o775, False),
            (0o755, 0o757, False),
            (0o755, 0o1777, False),
        ):
            os.chmod(self.parent, parent)
            os.chmod(self.root, root)
            if good:
                self.assertEqual(
                    self.root, privsep.check_root_owned(self.root)
                )
                continue
            error = self.assertRaises(
                exception.DiskError, privsep.check_root_owned, self.root
            )
            self.assertIn(f'vdisk_disk_root {self.root}', str(error))

    def test_of_another_user(self):
        status = os.stat(self.root)
        with mock.patch.object(os, 'geteuid', return_value=status.st_uid + 1):
            if status.st_uid == 0:
                privsep.check_root_owned(self.root)
            else:
                self.assertRaises(
                    exception.DiskError, privsep.check_root_owned, self.root
                )

    def test_links_are_resolved_once(self):
        link = os.path.join(self.parent, 'link')
        os.symlink(self.root, link)
        self.assertEqual(self.root, privsep.check_root_owned(link))

    def test_none_there(self):
        none = os.path.join(self.root, 'none')
        self.assertEqual(none, privsep.check_root_owned(none))
        # others could make it, also where they cannot replace it
        for mode in (0o777, 0o1777):
            os.chmod(self.root, mode)
            for path in (none, os.path.join(none, 'below')):
                self.assertRaises(
                    exception.DiskError, privsep.check_root_owned, path
                )


class SetupTestCase(testtools.TestCase):
    def test_the_helper_is_used_unless_it_is_root(self):
        self.addCleanup(privsep.context.set_client_mode, True)
        for user, helped in ((1000, True), (0, False)):
            privsep.context.set_client_mode(True)
            with mock.patch.object(os, 'geteuid', return_value=user):
                filesystem.FilesystemBackend('/disks')
            self.assertEqual(helped, privsep.context.client_mode)
