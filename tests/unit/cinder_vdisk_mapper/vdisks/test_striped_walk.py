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

import itertools

from cinder_vdisk_mapper.attach import bind_request
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
    stripe = LOCATION
    sizes = 3, 6

    def _setUp(self):
        super()._setUp()
        self.placement.claim('server', dict.fromkeys(UUIDS, 1))

    def detach(self):
        """Detach the volume."""
        self.driver.remove_export(None, self.volume)

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


class StripeWalkTestCase(test_lvm_walk.OperationTestCase):
    """Has a test for each operation."""

    stand_ins = ((bind_request, '_attaching_server', SERVER),)
    world = World
    operations = OPERATIONS

    def cases(self, count):
        content = ZERO if count % 2 else 'old'
        # that takes most of the time
        ways = (AGAIN,) if count % 6 else (AGAIN, DELETE)
        return itertools.product([content], ways)

    def assertHolds(self, world, expected):
        super().assertHolds(world, expected)
        if expected:
            self.assertEqual(str(LOCATION), world.volume.provider_location)


StripeWalkTestCase.add_tests()
