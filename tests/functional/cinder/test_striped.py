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
import os
from unittest import mock

from cinder import objects
from cinder.tests.functional.api import client

from cinder_vdisk_mapper.backend import filesystem
from cinder_vdisk_mapper.backend import striping
from nova_diskplacer.disks.location import Location
from tests.functional.cinder import base


class FileStripes(filesystem.FilesystemBackend, striping.StripingBackend):
    """Stores the pieces of striped vdisks as files, without a device.

    ``tags`` is the location of each vdisk.
    """

    def __init__(self, root):
        super().__init__(root)
        self.tags = {}

    def disks(self, wait=False):
        return [self._tagged(disk) for disk in super().disks(wait)]

    def disk(self, uuid):
        return self._tagged(super().disk(uuid))

    def _tagged(self, disk):
        vdisks = (
            dataclasses.replace(
                vdisk, stripe=self.tags.get(vdisk.name, Location())
            )
            for vdisk in disk.vdisks
        )
        return dataclasses.replace(disk, vdisks=tuple(vdisks))

    def create_piece(
        self, disk, name, volume_id, server_id, size_gb, stripe, minimum
    ):
        self.create(disk, name, volume_id, server_id, size_gb)
        self.tags[name] = stripe

    def striped_path(self, name):
        return self.device_path(self.tags[name][0], name)

    def activate_stripe(self, location, name, size_gb):
        self.check_location(location, name)

    def deactivate_stripe(self, location, name):
        pass

    def delete_moving(self, disk, name):
        raise NotImplementedError

    def resume_stripes(self):
        pass

    def snapshot_stripe(self, location, name, snapshot, snapshot_id):
        for disk in location.disks:
            self.snapshot(disk, name, snapshot, snapshot_id)


class StripedTestCase(base.CinderTestCase):
    def setUp(self):
        patch = mock.patch(
            'cinder_vdisk_mapper.backend.base.load',
            lambda options: self.backend(options.vdisk_disk_root),
        )
        patch.start()
        self.addCleanup(patch.stop)
        self.backend = FileStripes
        if 'filesystem' in self.id():
            self.backend = filesystem.FilesystemBackend
        super().setUp()
        self.host = self.hosts['host1']
        self.disks = sorted(self.host.disks())
        self.claimant = self.server(
            claims=dict.fromkeys(self.disks, 1),
            vdisks=1,
            vdisk_gb=3,
            mapping='striped',
            stripe_disks=3,
        )

    def held(self):
        """Return the names of the vdisks on each disk."""
        return [
            sorted(vdisk.name.partition('-')[0] for vdisk in disk.vdisks)
            for disk in self.host.disks().values()
        ]

    def test_life(self):
        # it is larger than what any disk has left
        for disk in self.disks:
            self.host.fill(disk, 2)
        self.host.publish()
        volume = self.create(3, name=f'{self.claimant}-blank-vol')
        attachment, path = self.attach(volume, self.claimant)
        self.assertTrue(os.path.exists(path))
        row = objects.Volume.get_by_id(self.context, volume['id'])
        self.assertEqual(','.join(self.disks), row.provider_location)
        self.assertEqual([['theirs', 'volume']] * 3, self.held())
        self.assertEqual(dict.fromkeys(self.disks, 2), self.host.reserved())
        # the scheduler knows that no disk has room for all of it
        self.volume[0].manager.publish_service_capabilities(self.context)
        snapshot = self.api.api_post(
            '/snapshots',
            {'snapshot': {'volume_id': volume['id'], 'force': True}},
        )['snapshot']
        self.wait(snapshot['id'], 'available', 'snapshot')
        self.assertEqual([['snapshot', 'theirs', 'volume']] * 3, self.held())
        self.assertEqual(dict.fromkeys(self.disks, 3), self.host.reserved())
        self.detach(volume, attachment)
        self.api.api_delete(f'/snapshots/{snapshot["id"]}')
        self.wait(snapshot['id'], None, 'snapshot')
        self.delete(volume)
        self.assertEqual([['theirs']] * 3, self.held())
        self.assertEqual(dict.fromkeys(self.disks, 2), self.host.reserved())

    def test_filesystem(self):
        volume = self.create(3, name=f'{self.claimant}-blank-vol')
        attachment = self.reserve(volume, self.claimant)
        error = self.assertRaises(
            client.OpenStackApiException, self.connect, attachment
        )
        self.assertIn('cannot stripe a volume', error.response.text)
        self.assertIn('guest-config --layout stripe', self.log.output)
        self.assertEqual([[]] * 3, self.held())
