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

"""Kills the evacuation of a disk by a striped vdisk, and repeats it."""

from cinder_vdisk_mapper.attach import bind_request
from cinder_vdisk_mapper.moves import leg_mover
from nova_diskplacer import exception
from tests.unit.cinder_vdisk_mapper.attach import test_binding
from tests.unit.cinder_vdisk_mapper.moves import test_leg_walk

A, B, C = test_leg_walk.UUIDS
OLD, NEW = (A, B), (C, B)
SERVER = test_binding.server(
    host='node', vdisks=1, vdisk_gb=4, mapping='striped', stripe_disks=2
)


class World(test_leg_walk.World):
    """A server has claimed 2 GiB on each of two disks."""

    claim = {A: 2, B: 2}  # noqa: RUF012

    def start_at(self, location):
        self.attach()
        self.lvm.write_all('volume-1', 'own')

    def move(self, location):
        """Have the vdisk leave the first disk, or one move to a location."""
        if location != NEW:
            super().move(location)
        leg_mover.LegMover().evacuate('1', A, C, lambda done, total: None, 0)

    def recover(self):
        leg_mover.LegMover().take_back('1')


class EvacuateTestCase(test_leg_walk.Walks):
    stand_ins = ((bind_request, '_attaching_server', SERVER),)
    world = World
    minimum = 0

    def test_repeated(self):
        self._repeated(OLD, NEW)

    def test_recovered(self):
        self._recovered(OLD, NEW)

    def test_deleted(self):
        def after(world, count):
            world.remove()
            leg_mover.LegMover().recover()

        self.walk(OLD, NEW, after)

    def test_pieces_share_no_disk(self):
        with World('old') as world:
            world.start_at(OLD)
            error = self.assertRaises(
                exception.DiskPlacerError, world.move, (A, A)
            )
            self.assertIn('is not elastic', str(error))
            self.assertWhole(world, OLD, 'own')

    def test_what_is_no_part_of_it(self):
        with World('old') as world:
            world.start_at(OLD)
            world.driver.backend.create(C, 'volume-1', '1', None, 1)
            error = self.assertRaises(
                exception.DiskPlacerError,
                leg_mover.LegMover().evacuate,
                '1',
                C,
                A,
                lambda done, total: None,
                0,
            )
            self.assertIn('is no part of its volume', str(error))
            world.driver.backend.delete(C, 'volume-1')
            self.assertWhole(world, OLD, 'own')

    def test_rate(self):
        with World('old') as world:
            world.start_at(OLD)
            leg_mover.LegMover().evacuate(
                '1', A, C, lambda done, total: None, 1
            )
            self.assertWhole(world, NEW, 'own')
