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

"""Kills operations on a striped volume at each step, and repeats them."""

from cinder_vdisk_mapper.attach import connections
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.placement import ledger
from tests.unit.cinder_vdisk_mapper import fakes
from tests.unit.cinder_vdisk_mapper import test_lvm_walk
from tests.unit.cinder_vdisk_mapper.attach import test_binding
from tests.unit.nova_diskplacer.disks.lvm import fake_lvm
from tests.unit.nova_diskplacer.disks.lvm import fake_stripes

LOCATION = fake_stripes.LOCATION
UUIDS = fake_stripes.UUIDS
ZERO = fake_lvm.ZERO
PART = test_lvm_walk.PART
AGAIN, DELETE = test_lvm_walk.AGAIN, test_lvm_walk.DELETE

SERVER = test_binding.server(
    host='node', vdisks=1, vdisk_gb=3, mapping='striped', stripe_disks=3
)


class World(test_lvm_walk.World):
    """A server has claimed a GiB on each of the three disks."""

    lvm_class = fake_stripes.FakeStripes
    uuids = UUIDS
    sizes = 3, 6

    def _setUp(self):
        super()._setUp()
        self.placement.claim('server', dict.fromkeys(UUIDS, 1))

    def detach(self):
        """Detach the volume."""
        self.driver.remove_export(None, self.volume)

    def write(self):
        """Have the server write to all of the volume."""
        for uuid in UUIDS:
            self.lvm.of(uuid).write('volume-1', 'own')

    def copy_in_use(self):
        """Clone the volume, which is attached."""
        self.copy()


def everywhere(**vdisks):
    return {name.replace('_', '-'): words for name, words in vdisks.items()}


OWN = ['own'] * PART
ZEROS = [ZERO] * PART

#: what is done before each operation, and what each disk holds afterwards
OPERATIONS = {
    'bind': ((), everywhere(volume_1=ZEROS)),
    'detach': (('bind', 'write'), everywhere(volume_1=OWN)),
    'extend': (
        ('bind', 'write', 'detach'),
        everywhere(volume_1=OWN + ZEROS),
    ),
    'freeze': (
        ('bind', 'write'),
        everywhere(volume_1=OWN, snapshot_s=OWN),
    ),
    'copy': (
        ('bind', 'write', 'detach'),
        everywhere(volume_1=OWN, volume_2=OWN + ZEROS),
    ),
    'copy_in_use': (
        ('bind', 'write'),
        everywhere(volume_1=OWN, volume_2=OWN + ZEROS),
    ),
    'revert': (
        ('bind', 'freeze', 'write', 'detach'),
        everywhere(volume_1=ZEROS, snapshot_s=ZEROS),
    ),
    'thaw': (('bind', 'write', 'freeze'), everywhere(volume_1=OWN)),
    'delete': (('bind', 'write', 'detach'), {}),
}


class StripeWalkTestCase(test_lvm_walk.DriverTestCase):
    """Has a test for each operation, made below."""

    stand_ins = ((connections, '_attaching_server', SERVER),)

    def walk(self, name):
        """Kill an operation at each step; returns how many it has."""
        before, expected = OPERATIONS[name]
        for count in range(test_lvm_walk.MOST):
            # that takes most of the time
            for way in (AGAIN,) if count % 6 else (AGAIN, DELETE):
                content = ZERO if count % 2 else 'old'
                with World(content) as world:
                    for step in before:
                        getattr(world, step)()
                    killed = False
                    try:
                        with world.killed_at(count):
                            getattr(world, name)()
                    except fake_lvm.Killed:
                        killed = True
                    self.assertNothingOfOthers(world)
                    if way == AGAIN:
                        getattr(world, name)()
                        self.assertHolds(world, expected)
                    world.clear()
                    self.assertNothingIsLeft(world)
            if not killed:
                return count
        raise AssertionError(f'{name} has too many steps')

    def assertNothingOfOthers(self, world):
        """What may be used holds the volume's bytes and zeros only."""
        for uuid in UUIDS:
            for vdisk in groups.require(uuid).vdisks:
                if vdisk.usable:
                    words = {*world.lvm.of(uuid).read(vdisk.name)}
                    self.assertTrue(words <= {'own', ZERO})

    def assertHolds(self, world, expected):
        self.assertEqual(set(), world.lvm.suspended)
        for uuid in UUIDS:
            held = groups.require(uuid).vdisks
            self.assertEqual({one.name for one in held}, {*expected})
            for vdisk in held:
                self.assertTrue(vdisk.usable)
                self.assertEqual(UUIDS, vdisk.stripe)
                self.assertEqual(
                    expected[vdisk.name], world.lvm.of(uuid).read(vdisk.name)
                )
            offered = world.placement.offered[uuid]
            self.assertEqual(
                ledger.reserved_gb(held, {'server': 1}),
                offered[fakes.placement_client.GB]['reserved'],
            )
        if expected:
            self.assertEqual(str(LOCATION), world.volume.provider_location)

    def assertNothingIsLeft(self, world):
        """All is free, and the next volume reads as zeros."""
        self.assertEqual({}, world.lvm.devices)
        for uuid in UUIDS:
            self.assertEqual((), groups.require(uuid).vdisks)
            world.driver.backend.create(uuid, 'volume-9', '9', None, 9)
            words = {*world.lvm.of(uuid).read('volume-9')}
            self.assertEqual({ZERO}, words)


def _walk(name):
    def test(self):
        self.assertGreater(self.walk(name), 0)

    return test


for _name in OPERATIONS:
    setattr(StripeWalkTestCase, f'test_{_name}', _walk(_name))
