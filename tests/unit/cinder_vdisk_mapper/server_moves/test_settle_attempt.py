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

import dataclasses
from unittest import mock

from cinder_vdisk_mapper.server_moves import at_rest
from cinder_vdisk_mapper.server_moves import other_host
from cinder_vdisk_mapper.server_moves import record
from nova_diskplacer import exception
from nova_diskplacer.disks import remote as remote_vdisks
from tests.unit.cinder_vdisk_mapper.moves.world import A
from tests.unit.cinder_vdisk_mapper.server_moves import test_settle_move


class AttemptTestCase(test_settle_move.SettlingTestCase):
    def test_this_host_is_booted_while_the_other_one_is_away(self):
        for phase in (record.LEFT, record.DECIDING):
            world = self.make_world(False)
            world.gone = True
            world.go_away()
            world.record = dataclasses.replace(world.record, phase=phase)
            if phase == record.DECIDING:
                # what the start of the driver does
                world.start_driver()
            for _ in range(2):
                self.assertRaises(remote_vdisks.Away, world.command, 'settle')
            self.assertEqual((A, A), (world.saved, world.link))
            world.come_back()
            self.assertTrue(world.command('settle'))
            self.assert_settled(world)

    def test_processes_that_are_not_seen(self):
        """Such as from a container: nobody seems to use any vdisk."""
        world = self.make_world()
        with mock.patch.object(remote_vdisks, 'in_use', lambda device: False):
            with self.assertRaisesRegex(exception.DiskError, 'PID namespace'):
                world.command('settle')
        self.assertFalse(world.copying)
        self.finish(world)

    def test_the_source_records_that_the_server_has_left(self):
        for answers in (False, True):
            world = self.make_world(False)
            before = world.record
            world.record = dataclasses.replace(before, phase=record.ATTACHED)

            def ask(volume, source, host, world=world, answers=answers):
                if answers:
                    world.record = dataclasses.replace(
                        world.record, phase=record.LEFT
                    )

            with (
                mock.patch.object(other_host, 'go_on', ask),
                # Nova has detached it there
                mock.patch.object(at_rest, 'check'),
            ):
                if answers:
                    self.assertTrue(world.command('settle'))
                    self.assert_settled(world)
                    continue
                with self.assertRaisesRegex(at_rest.Waits, 'not answer'):
                    world.command('settle')
            self.assertEqual(0, world.data[test_settle_move.B])
