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

"""What a member of one project can do to the servers of another."""

import uuid

from cinder import objects

from tests.functional.cinder import test_driver

STRANGER = str(uuid.uuid4()).replace('-', '')


class StrangerTestCase(test_driver.DriverTestCase):
    def stranger_volume(self):
        """Make a bound volume of a stranger, who is a mere member."""
        server = self.server(project=STRANGER)
        hints = {'local_to_instance': server}
        volume = self.create(1, hints=hints)
        attachment, _ = self.attach(volume, server)
        self.detach(volume, attachment)
        return volume

    def test_bound_volume_for_the_server_of_another(self):
        victim = self.server()
        with self.as_member(STRANGER):
            volume = self.stranger_volume()
            self.assertRefused(
                'only to a server of its own project',
                volume,
                victim,
                logged=f'server {victim} of project',
            )

    def test_attachments_by_strangers_take_no_disk_of_a_server(self):
        with self.as_member(STRANGER):
            volume = self.stranger_volume()
        disk = self.where(volume)
        victim = self.server(claims={disk: 1}, vdisks=1, vdisk_gb=1)
        with self.as_member(STRANGER):
            self.reserve(volume, victim)
        attachments = objects.VolumeAttachmentList.get_all_by_instance_uuid(
            self.context, victim
        )
        self.assertEqual(
            [STRANGER], [one.volume.project_id for one in attachments]
        )
        own = self.create(1, f'{victim}-blank-vol')
        self.attach(own, victim)
        self.assertEqual(disk, self.where(own))
