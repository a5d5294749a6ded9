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
"""The driver on a volume group in memory is killed at each of its steps.

Steps are changes of LVM's metadata, of the content of an extent, and of
Placement.
"""

import contextlib
import itertools
import threading
import types
from unittest import mock

import fixtures
import testtools
from cinder import exception as cinder_exc
from cinder import objects
from cinder.volume import configuration
from oslo_concurrency import lockutils
from oslo_config import fixture as config_fixture

from cinder_vdisk_mapper import driver
from cinder_vdisk_mapper import privsep_lvm
from cinder_vdisk_mapper.backend import lvm as backend_lvm
from nova_diskplacer.disks.lvm import group_changes
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.placement import ledger
from tests.unit.cinder_vdisk_mapper import fakes
from tests.unit.cinder_vdisk_mapper import test_driver
from tests.unit.nova_diskplacer.disks.lvm import fake_lvm

UUID = fake_lvm.UUID
ZERO = fake_lvm.ZERO
PART = 4  # extents of a GiB

AGAIN, DELETE = 'repeated', 'deleted'

# Steps that no operation has.
_MOST = 99


class SameThread:
    """Runs at once what a thread is to run; no disk here hangs."""

    def __init__(self, target, daemon):
        self.start = target


class World(fixtures.Fixture):
    """A driver, and what it knows of its volumes and snapshots.

    :param content: of what is free on the disk; zeros are known to be such.
    """

    lvm_class = fake_lvm.FakeLVM
    uuids = (UUID,)
    # location that the pieces of the volume name
    stripe = ()
    # GiB of the volume and of its clone
    sizes = 1, 2

    def __init__(self, content):
        super().__init__()
        self.content = content

    def _setUp(self):
        # a thread for each look at a disk takes longer than all else
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.probes.threading',
                types.SimpleNamespace(
                    Thread=SameThread, Condition=threading.Condition
                ),
            )
        )
        self.lvm = self.useFixture(self.lvm_class(content=self.content))
        if self.content == ZERO:
            for uuid in self.uuids:
                group_changes.mark_zeroed(uuid)
        self.addCleanup(
            privsep_lvm.context.set_client_mode,
            privsep_lvm.context.client_mode,
        )
        privsep_lvm.context.set_client_mode(False)
        # no volume here is in a database
        self.useFixture(
            fixtures.MonkeyPatch(
                'cinder_vdisk_mapper.driver.VDiskMapperDriver._server_moves',
                lambda *_: None,
            )
        )
        self.driver = driver.VDiskMapperDriver(
            host='node@vdisk#vdisk',
            configuration=configuration.Configuration([]),
        )
        self.driver.backend = backend_lvm.LVMBackend(self.lvm.root)
        self.placement = fakes.Placement(*self.driver.backend.disks())
        self.driver.placement = self.placement
        self.volume, self.clone = (
            test_driver.volume(id=id_, name_id=id_, size=size)
            for id_, size in zip('12', self.sizes, strict=True)
        )
        self.snapshot = mock.Mock(
            id='s', volume=self.volume, provider_location=None
        )

    @contextlib.contextmanager
    def killed_at(self, count):
        """Kill the driver before its step ``count``, from 0 on."""
        write = self.placement.set_inventories

        def counted(*arguments):
            self.lvm.step('placement')
            write(*arguments)

        with (
            self.lvm.killed_at(count),
            mock.patch.object(self.placement, 'set_inventories', counted),
        ):
            yield

    def is_killed(self, count, operation):
        """Perform an operation; return whether it was killed at a step."""
        try:
            with self.killed_at(count):
                operation()
        except fake_lvm.Killed:
            return True
        return False

    def bind(self):
        """Have the volume bound, as Cinder does when it is attached."""
        update = self.driver.create_export(None, self.volume, {'host': 'node'})
        self.volume.provider_location = (update or {}).get(
            'provider_location', self.volume.provider_location
        )
        self.driver.initialize_connection(self.volume, {'host': 'node'})

    def write(self):
        """Have the server write to all of the volume."""
        for uuid in self.uuids:
            self.lvm.of(uuid).write('volume-1', 'own')

    def extend(self):
        """Extend the volume to the size of its clone."""
        self.driver.extend_volume(self.volume, self.sizes[1])

    def freeze(self):
        """Take a snapshot of the volume."""
        update = self.driver.create_snapshot(self.snapshot)
        self.snapshot.provider_location = update['provider_location']

    def copy(self):
        """Clone the volume."""
        update = self.driver.create_cloned_volume(self.clone, self.volume)
        self.clone.provider_location = update['provider_location']

    def revert(self):
        """Revert the volume to its snapshot."""
        self.driver.revert_to_snapshot(None, self.volume, self.snapshot)

    def delete(self):
        """Delete the volume."""
        self.driver.delete_volume(self.volume)

    def thaw(self):
        """Delete the snapshot."""
        self.driver.delete_snapshot(self.snapshot)

    def clear(self):
        """Delete all."""
        self.thaw()
        self.delete()
        self.driver.delete_volume(self.clone)

    def attachable(self, volume):
        """Tell whether the driver lets a volume be attached."""
        volume = mock.Mock(wraps=volume, provider_location=UUID)
        volume.name_id, volume.provider_id = volume._mock_wraps.name_id, None
        volume.volume_attachment, volume.encryption_key_id = [], None
        try:
            self.driver.initialize_connection(volume, {'host': 'node'})
        except cinder_exc.VolumeDriverException:
            return False
        return True


#: what is done before each operation, and what the vdisks hold afterwards
OPERATIONS = {
    'bind': ((), {'volume-1': [ZERO] * PART}),
    'extend': (
        ('bind', 'write'),
        {'volume-1': ['own'] * PART + [ZERO] * PART},
    ),
    'freeze': (
        ('bind', 'write'),
        {'volume-1': ['own'] * PART, 'snapshot-s': ['own'] * PART},
    ),
    'copy': (
        ('bind', 'write'),
        {
            'volume-1': ['own'] * PART,
            'volume-2': ['own'] * PART + [ZERO] * PART,
        },
    ),
    'revert': (
        ('bind', 'freeze', 'write'),
        {'volume-1': [ZERO] * PART, 'snapshot-s': [ZERO] * PART},
    ),
    'thaw': (('bind', 'write', 'freeze'), {'volume-1': ['own'] * PART}),
    'delete': (('bind', 'write'), {}),
}


class DriverTestCase(testtools.TestCase):
    """A test of the driver without Cinder's database.

    ``stand_ins`` are further functions that return a value: the object that
    has it, the name and the value.
    """

    stand_ins = ()

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        conf = self.useFixture(config_fixture.Config(lockutils.CONF))
        path = self.useFixture(fixtures.TempDir()).path
        conf.config(lock_path=path, group='oslo_concurrency')
        for target, name, value in (
            (objects.VolumeAttachmentList, 'get_all_by_instance_uuid', []),
            (backend_lvm, '_supports_write_zeroes', True),
            *self.stand_ins,
        ):
            patch = mock.patch.object(target, name, return_value=value)
            patch.start()
            self.addCleanup(patch.stop)

    def count_steps(self, kill):
        """Kill something at each step; return the number of steps.

        :param kill: kills it at a step, from 0 on, and returns whether it has
            that step.
        """
        for count in range(_MOST):
            if not kill(count):
                return count
        raise AssertionError(f'there are {_MOST} steps or more')

    def assertNothingIsLeft(self, world):
        """All is free, and the next volume reads as zeros."""
        self.assertEqual({}, world.lvm.devices)
        for uuid in world.uuids:
            self.assertEqual((), groups.require(uuid).vdisks)
            world.driver.backend.create(uuid, 'volume-9', '9', None, 9)
            words = {*world.lvm.of(uuid).read('volume-9')}
            self.assertEqual({ZERO}, words)


class OperationTestCase(DriverTestCase):
    """Kills the operations of a world at each step.

    ``operations`` has what is done before each, and what each disk holds
    afterwards.
    """

    world = World
    operations = OPERATIONS

    def cases(self, count):
        """Return what is free on the disks, and what is done after a kill."""
        return itertools.product(('old', ZERO), (AGAIN, DELETE))

    def walk(self, name):
        """Kill an operation at each step; return how many it has."""
        before, expected = self.operations[name]

        def kill(count):
            for content, way in self.cases(count):
                with self.world(content) as world:
                    for step in before:
                        getattr(world, step)()
                    operation = getattr(world, name)
                    killed = world.is_killed(count, operation)
                    self.assertNothingOfOthers(world)
                    if way == AGAIN:
                        operation()
                        self.assertHolds(world, expected)
                    world.clear()
                    self.assertNothingIsLeft(world)
            return killed

        return self.count_steps(kill)

    def assertNothingOfOthers(self, world):
        """What may be used holds the volume's bytes and zeros only."""
        for uuid in world.uuids:
            for vdisk in groups.require(uuid).vdisks:
                if vdisk.usable:
                    words = {*world.lvm.of(uuid).read(vdisk.name)}
                    self.assertTrue(words <= {'own', ZERO})

    def assertHolds(self, world, expected):
        self.assertEqual(set(), world.lvm.suspended)
        for uuid in world.uuids:
            held = groups.require(uuid).vdisks
            self.assertEqual({one.name for one in held}, {*expected})
            for vdisk in held:
                self.assertTrue(vdisk.usable)
                self.assertEqual(world.stripe, vdisk.stripe)
                self.assertEqual(
                    expected[vdisk.name], world.lvm.of(uuid).read(vdisk.name)
                )
            offered = world.placement.offered[uuid]
            self.assertEqual(
                ledger.reserved_gb(held, world.placement.claims[uuid]),
                offered[fakes.placement_client.GB]['reserved'],
            )

    @classmethod
    def add_tests(cls):
        """Make a test of each operation."""
        for name in cls.operations:
            setattr(cls, f'test_{name}', _walk(name))


def _walk(name):
    def test(self):
        self.assertGreater(self.walk(name), 0)

    return test


class AttachTestCase(DriverTestCase):
    def test_extension_of_a_volume_with_snapshots(self):
        """LVM deactivates it, and the process is killed."""
        with World(ZERO) as world:
            world.bind()
            world.freeze()
            with world.killed_at(0):
                self.assertRaises(fake_lvm.Killed, world.extend)
            held = world.lvm.volumes['volume-1']
            self.assertFalse(held.active)
            self.assertTrue(world.attachable(world.volume))
            self.assertTrue(held.active)


class WalkTestCase(OperationTestCase):
    """Has a test for each operation."""

    def assertNothingOfOthers(self, world):
        super().assertNothingOfOthers(world)
        for volume in (world.volume, world.clone):
            found = groups.require(UUID).find(f'volume-{volume.id}')
            self.assertEqual(
                found is not None and found.vdisk.usable,
                world.attachable(volume),
            )


WalkTestCase.add_tests()
