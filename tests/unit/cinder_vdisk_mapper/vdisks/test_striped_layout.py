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

"""Changes of striped vdisks."""

import contextlib
import dataclasses
from unittest import mock

import fixtures
import testtools

from cinder_vdisk_mapper.backend import striping
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import striped_layout
from nova_diskplacer import exception
from nova_diskplacer.disks.location import Location
from tests.fakes import disks as fake_disks
from tests.unit.cinder_vdisk_mapper import fakes
from tests.unit.cinder_vdisk_mapper.attach import test_striped_binding
from tests.unit.cinder_vdisk_mapper.attach.test_striped_binding import request
from tests.unit.cinder_vdisk_mapper.attach.test_striped_binding import server

OLD, NEW = 'a,a', 'a,b'


class ActivateTestCase(testtools.TestCase):
    def test_legs_that_have_moved_since_the_volume_was_read(self):
        """Its device would be on legs that are to be wiped."""
        held = []
        volume = mock.Mock(id='1', name_id='1', size=2, provider_location=OLD)

        def refresh():
            self.assertEqual(['volume-1'], held)
            volume.provider_location = NEW

        volume.refresh = refresh

        @contextlib.contextmanager
        def hold(name, *_):
            held.append(name)
            yield
            held.remove(name)

        self.useFixture(
            fixtures.MockPatchObject(striped_layout.locks, 'hold', hold)
        )
        backend = mock.Mock(spec=striping.StripingBackend)
        operations = mock.Mock(backend=backend)

        def activate(location, name, size):
            self.assertEqual(['volume-1'], held)
            self.assertEqual(
                (Location.parse(NEW), 'volume-1', 2), (location, name, size)
            )

        backend.activate_stripe.side_effect = activate
        vdisk = striped_layout.Striped(
            operations, Location.parse(OLD), 'volume-1'
        )
        vdisk.activate(volume)
        backend.activate_stripe.assert_called_once()


class StripedTestCase(test_striped_binding.StripingTestCase):
    """Disks a, b and c hold volume-1 of 30 GiB."""

    def setUp(self):
        super().setUp()
        self.claim('a', 'b', 'c')
        self.location = self.binder.bind(request('1', 30, server()))
        for uuid in 'abc':
            self.backend.content[uuid, 'volume-1'] = f'data {uuid}'
        self.vdisk = self.operations.at(self.location, 'volume-1')

    def assertRefusedChange(self, reason, method, *arguments):
        before, reserved = self.backend.disks(), self.reserved()
        error = self.assertRaises(
            exception.DiskPlacerError, method, *arguments
        )
        self.assertRegex(str(error), reason)
        self.assertEqual(before, self.backend.disks())
        self.assertEqual(reserved, self.reserved())

    def test_its_device_needs_no_link(self):
        for path in (
            self.vdisk.device_path(),
            self.vdisk.stable_path(mock.Mock()),
        ):
            self.assertEqual('/dev/mapper/diskplacer-striped-volume-1', path)
        self.assertEqual({}, self.backend.linked)

    def test_extend(self):
        self.backend.active.add('volume-1')
        self.vdisk.extend(100)
        self.assertEqual(dict.fromkeys('abc', 34), self.pieces())
        self.assertEqual(set(), self.backend.active)
        self.assertEqual({'a': 24, 'b': 24, 'c': 24, 'd': 0}, self.reserved())
        self.vdisk.extend(100)
        self.placement.claim('other', {'c': 60})
        self.assertRefusedChange(
            'disk c has no room',
            self.vdisk.extend,
            200,
        )

    def test_snapshot_and_revert(self):
        arguments = 'snapshot-s', 's'
        self.placement.claim('other', {'b': 81})
        self.assertRefusedChange(
            'disk b has no room', self.vdisk.snapshot, *arguments
        )
        self.placement.claims['b'].pop('other')
        self.backend.changed = lambda: self.placement.claim('x', {'c': 85})
        self.assertRefusedChange(
            'disk c has no room', self.vdisk.snapshot, *arguments
        )
        self.placement.claims['c'].pop('x')
        self.backend.changed = lambda: None
        with mock.patch.object(locks, 'hold', wraps=locks.hold) as hold:
            self.vdisk.snapshot(*arguments)
        self.assertEqual(
            ['legs-volume-1', 'disk-a', 'disk-b', 'disk-c'],
            [call.args[0] for call in hold.call_args_list],
        )
        self.vdisk.snapshot(*arguments)
        self.assertEqual({'a': 10, 'b': 10, 'c': 10, 'd': 0}, self.reserved())
        # what exists is not undone
        self.placement.claim('other', {'b': 80})
        with mock.patch.object(self.operations, 'reserve', return_value=False):
            self.assertRaises(
                errors.BindingError, self.vdisk.snapshot, *arguments
            )
        self.assertEqual(3, len(self.pieces('snapshot-s')))
        self.backend.content['b', 'volume-1'] = 'new'
        self.vdisk.revert('snapshot-s')
        self.assertEqual('data b', self.backend.content['b', 'volume-1'])
        self.vdisk.revert(None)
        self.assertEqual('', self.backend.content['b', 'volume-1'])

    def clone(self):
        self.vdisk.clone('volume-2', '2', 60)

    def test_clone(self):
        self.backend.full = {'c'}
        self.assertRefusedChange('c is full', self.clone)
        self.backend.full = set()
        self.backend.writes = ['1 0', '2 0']
        self.assertRefusedChange('was attached and written to', self.clone)
        self.clone()
        self.assertEqual(dict.fromkeys('abc', 20), self.pieces('volume-2'))
        self.assertEqual('data c', self.backend.content['c', 'volume-2'])

    def test_clone_that_was_killed(self):
        """No piece of another moment is kept."""
        self.backend.clone('a', 'volume-1', 'volume-2', '2', 20)
        self.backend.content['a', 'volume-1'] = 'new'
        self.clone()
        self.assertEqual('new', self.backend.content['a', 'volume-2'])
        # one from a snapshot goes on with that
        self.operations.delete_everywhere(self.location, 'volume-2')
        self.backend.snapshot_stripe(
            self.location, 'volume-1', 'cloning-2', '2'
        )
        self.backend.clone('a', 'cloning-2', 'volume-2', '2', 20)
        for uuid in 'abc':
            self.backend.content[uuid, 'volume-1'] = 'newer'
        self.clone()
        self.assertEqual('new', self.backend.content['a', 'volume-2'])
        self.assertEqual('data c', self.backend.content['c', 'volume-2'])
        self.assertEqual({}, self.pieces('cloning-2'))

    def test_clone_of_one_in_use(self):
        self.backend.active.add('volume-1')
        with mock.patch.object(
            self.backend, 'snapshot_stripe', wraps=self.backend.snapshot_stripe
        ) as made:
            self.clone()
        made.assert_called_once_with(
            Location('abc'), 'volume-1', 'cloning-2', '2'
        )
        self.assertEqual({}, self.pieces('cloning-2'))
        self.assertEqual(dict.fromkeys('abc', 20), self.pieces('volume-2'))
        self.assertEqual({'volume-1'}, self.backend.active)
        self.assertEqual({'a': 20, 'b': 20, 'c': 20, 'd': 0}, self.reserved())

    def test_delete(self):
        disk = self.backend.known['b']
        self.backend.known['b'] = fake_disks.make_disk('b', health='missing')
        before = self.backend.disks()
        self.assertRaises(
            exception.DiskError,
            self.operations.delete_everywhere,
            self.location,
            'volume-1',
        )
        self.assertEqual(before, self.backend.disks())
        self.backend.known['b'] = disk
        # what is on a forgotten disk is gone
        del self.backend.known['c']
        self.operations.delete_everywhere(self.location, 'volume-1')
        self.assertEqual({}, self.pieces())
        self.assertEqual(0, self.reserved()['a'])

    def test_a_backend_without_stripes(self):
        self.operations.backend = fakes.Backend(*self.backend.disks())
        self.assertRaises(
            exception.DiskError,
            self.vdisk.extend,
            60,
        )

    def change(self, disk, **fields):
        """Change a disk, or its piece of volume-1."""
        vdisk = {
            one: fields.pop(one)
            for one in ('moving', 'stripe', 'usable')
            if one in fields
        }
        found = self.backend.known[disk]
        self.backend.known[disk] = dataclasses.replace(
            found,
            vdisks=tuple(
                dataclasses.replace(one, **vdisk) for one in found.vdisks
            ),
            **fields,
        )

    def test_nothing_is_changed_while_legs_move(self):
        self.backend.create_piece(
            'd', 'volume-1', '1', None, 10, self.location, 0
        )
        self.change('d', moving=True)
        for operation, *arguments in (
            (self.vdisk.extend, 60),
            (self.vdisk.snapshot, 'snapshot-s', 's'),
            (self.vdisk.clone, 'volume-2', '2', 60),
            (self.vdisk.revert, None),
        ):
            self.assertRefusedChange('is being moved', operation, *arguments)

    def test_nothing_is_changed_where_legs_have_moved_since(self):
        # the volume was read before
        for uuid in 'abc':
            self.change(uuid, stripe=Location('abd'))
        self.assertRefusedChange(
            'was moved to a,b,d: repeat',
            self.vdisk.extend,
            60,
        )
        self.change('a', stripe=Location('abc'))
        self.assertRefusedChange(
            'was moved to a,b,c, a,b,d: repeat',
            self.vdisk.extend,
            60,
        )

    def test_one_of_the_disks_is_being_drained(self):
        self.change('b', draining=True)
        for operation, *arguments in (
            (self.vdisk.extend, 60),
            (self.vdisk.snapshot, 'snapshot-s', 's'),
            (self.vdisk.clone, 'volume-2', '2', 60),
        ):
            self.assertRefusedChange(
                'disk b is being drained',
                operation,
                *arguments,
            )
        # of its own size, as after a backup was restored
        self.vdisk.extend(30)
        self.assertEqual(dict.fromkeys('abc', 10), self.pieces())

    def test_an_extension_that_cannot_be_undone(self):
        self.placement.claim('other', {'c': 90})
        with (
            mock.patch.object(
                self.backend,
                'shrink',
                side_effect=[exception.DiskError('in use'), None],
            ) as shrink,
            self.assertLogs('cinder_vdisk_mapper', 'WARNING') as logs,
        ):
            error = self.assertRaises(
                errors.BindingError,
                self.vdisk.extend,
                60,
            )
        self.assertIn('disk c has no room', str(error))
        # the next one is undone all the same
        self.assertEqual(
            [mock.call('a', 'volume-1', 10), mock.call('b', 'volume-1', 10)],
            shrink.mock_calls,
        )
        self.assertIn('stays extended on disk a: in use', logs.output[0])
        # and what was not undone is not sold twice
        self.assertEqual({'a': 10, 'b': 10, 'c': 0, 'd': 0}, self.reserved())

    def test_leftovers_of_a_clone_go_with_the_volume(self):
        for uuid in 'ab':
            self.backend.clone(uuid, 'volume-1', 'cloning-1', '1', 10)
            self.backend.clone(uuid, 'volume-1', 'cloning-2', '2', 10)
        self.operations.delete_everywhere(self.location, 'volume-1')
        self.assertEqual({}, self.pieces('cloning-1'))
        self.assertEqual(dict.fromkeys('ab', 10), self.pieces('cloning-2'))
        # a snapshot has none
        self.operations.delete_everywhere(Location(), 'snapshot-2')
        self.assertEqual(dict.fromkeys('ab', 10), self.pieces('cloning-2'))
