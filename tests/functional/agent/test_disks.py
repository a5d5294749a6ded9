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

import os

import fixtures

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.vdisk import GIB
from tests import loops
from tests import shell
from tests.functional.agent import base


@loops.needs_root
class DisksTest(base.AgentTestCase):
    """The agent with real disks, which are loop devices."""

    simulated = False

    def setUp(self):
        super().setUp()
        self.temporary = self.useFixture(fixtures.TempDir()).path
        self.disk_root = os.path.join(self.temporary, 'disks')
        self.conf.set_override('disk_root', self.disk_root, 'diskplacer')
        self.placement.start_compute()

    def prepare(self):
        device = self.useFixture(loops.LoopDevice(5)).device
        disk = prepare.prepare(
            self.disk_root,
            device,
            medium='ssd',
            fstab=os.path.join(self.temporary, 'fstab'),
        )
        return disk, device

    def forget(self, disk):
        """Forget a disk as soon as the agent is not just looking at it."""

        def done():
            try:
                prepare.forget(
                    self.disk_root,
                    disk.uuid,
                    os.path.join(self.temporary, 'fstab'),
                )
            except exception.DiskError as error:
                self.assertIn('busy', str(error))
                return False
            return True

        self.wait_for(done)

    def test_a_disk_from_its_preparation_to_its_end(self):
        self.start_agent()
        disk, device = self.prepare()
        self.wait_for(lambda: self.health(disk.uuid) == 'ok')
        self.assertEqual((4, 0), self.placement.inventory(disk.uuid))

        vdisks.create(disk.path, 'volume-1', '1', None, GIB)
        self.wait_for(lambda: self.placement.inventory(disk.uuid) == (4, 1))
        vdisk = {
            'volume_id': '1',
            'server_id': None,
            'size_gb': 1,
            'is_snapshot': False,
        }
        self.wait_for(
            lambda: self.reports.disk(disk.uuid)['vdisks'] == [vdisk]
        )

        shell.run('mount', '-o', 'remount,ro', disk.path)
        self.wait_for(lambda: self.health(disk.uuid) == 'read-only')
        self.wait_for(lambda: self.placement.inventory(disk.uuid) == (4, 4))
        shell.run('mount', '-o', 'remount,rw', disk.path)
        self.wait_for(lambda: self.health(disk.uuid) == 'ok')
        self.wait_for(lambda: self.placement.inventory(disk.uuid) == (4, 1))

        shell.run_retry('umount', disk.path)
        self.wait_for(lambda: self.health(disk.uuid) == 'missing')
        self.wait_for(lambda: self.placement.inventory(disk.uuid) == (4, 4))
        shell.run('mount', device, disk.path)
        self.wait_for(lambda: self.health(disk.uuid) == 'ok')
        self.wait_for(lambda: self.placement.inventory(disk.uuid) == (4, 1))

        vdisks.delete(disk.path, 'volume-1')
        self.wait_for(lambda: self.placement.inventory(disk.uuid) == (4, 0))
        self.forget(disk)
        self.wait_for(lambda: self.placement.inventory(disk.uuid) is None)
        self.wait_for(lambda: self.reports.disk(disk.uuid) is None)

    def test_the_filesystem_shuts_down(self):
        # as it does when the device fails below it
        disk, _ = self.prepare()
        other, _ = self.prepare()
        self.start_agent()
        self.wait_for(lambda: self.health(disk.uuid) == 'ok')
        shell.run('xfs_io', '-x', '-c', 'shutdown', disk.path)
        self.wait_for(lambda: self.health(disk.uuid) == discover.MISSING)
        self.wait_for(lambda: self.placement.inventory(disk.uuid) == (4, 4))
        self.assertEqual('ok', self.health(other.uuid))
        self.assertEqual((4, 0), self.placement.inventory(other.uuid))
