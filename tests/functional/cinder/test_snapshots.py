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

"""Snapshots, reverts and clones, through Cinder's API."""

import os

from cinder import objects

from tests.functional.cinder import test_driver

GIB = 1 << 30


class SnapshotTestCase(test_driver.DriverTestCase):
    def setUp(self):
        super().setUp()
        self.server_id = self.server()
        self.hints = {'local_to_instance': self.server_id}

    def bound(self, size=1, content=b'one'):
        """Make a volume that is bound and has been written to."""
        volume = self.create(size, hints=self.hints)
        attachment, path = self.attach(volume, self.server_id)
        self.write(path, content)
        self.detach(volume, attachment)
        return volume, path

    def write(self, path, content, offset=0):
        with open(path, 'r+b') as stream:
            stream.seek(offset)
            stream.write(content)
            os.fsync(stream.fileno())

    def read(self, path, count=3, offset=0):
        with open(path, 'rb') as stream:
            stream.seek(offset)
            return stream.read(count)

    def snapshot(self, volume, status='available'):
        """Take a snapshot and return its row."""
        snapshot = self.api.post_snapshot(
            {'snapshot': {'volume_id': volume['id']}}
        )
        self.wait(snapshot['id'], status, 'snapshot')
        return objects.Snapshot.get_by_id(self.context, snapshot['id'])

    def delete_snapshot(self, snapshot):
        """Delete a snapshot and wait until it is gone."""
        self.api.delete_snapshot(snapshot.id)
        self.wait(snapshot.id, None, 'snapshot')

    def post(self, status='available', **body):
        """Create a volume by what the API takes, and wait."""
        volume = self.api.post_volume({'volume': body})
        return self.wait(volume['id'], status)

    def revert(self, volume, snapshot, status='available'):
        """Revert a volume and wait."""
        self.api.api_post(
            f'/volumes/{volume["id"]}/action',
            {'revert': {'snapshot_id': snapshot.id}},
        )
        self.wait(volume['id'], status)
        self.wait(snapshot.id, 'available', 'snapshot')

    def attached_path(self, volume):
        """Attach a volume to another server and return its path."""
        return self.attach(volume, self.server())[1]

    def reserved(self):
        """Return the GiB reserved on all disks."""
        return sum(self.host.reserved().values())

    def assertAllocated(self, path, gib):
        status = os.stat(path)
        self.assertEqual(gib * GIB, status.st_size)
        self.assertGreaterEqual(status.st_blocks * 512, gib * GIB)


class BoundTestCase(SnapshotTestCase):
    def test_volume_from_snapshot(self):
        volume, path = self.bound()
        snapshot = self.snapshot(volume)
        self.assertEqual(self.where(volume), snapshot.provider_location)
        self.write(path, b'two')
        for size in (1, 2):
            copy = self.post(size=size, snapshot_id=snapshot.id)
            self.assertEqual(self.where(volume), self.where(copy))
            self.assertEqual(2 + size, self.reserved())
            copied = self.attached_path(copy)
            self.assertEqual(b'one', self.read(copied))
            self.assertAllocated(copied, size)
            self.assertEqual(
                b'\0' * 3, self.read(copied, offset=size * GIB - 3)
            )
            self.delete_bound(copy)
        self.delete_snapshot(snapshot)
        self.assertEqual(1, self.reserved())
        self.delete(volume)
        self.assertEqual({}, self.held())

    def test_snapshot_and_clone_of_attached_volume(self):
        volume = self.create(1, hints=self.hints)
        attachment, path = self.attach(volume, self.server_id)
        self.write(path, b'one')
        snapshot = self.snapshot(volume)
        clone = self.post(size=1, source_volid=volume['id'])
        self.write(path, b'two')
        for copy in (self.post(size=1, snapshot_id=snapshot.id), clone):
            self.assertEqual(b'one', self.read(self.attached_path(copy)))
        self.assertEqual(b'two', self.read(path))
        self.detach(volume, attachment)

    def test_clone(self):
        volume, path = self.bound()
        clone = self.post(size=2, source_volid=volume['id'])
        self.assertEqual(self.where(volume), self.where(clone))
        self.assertEqual(3, self.reserved())
        self.delete(volume)
        copied = self.attached_path(clone)
        self.assertEqual(b'one', self.read(copied))
        self.assertAllocated(copied, 2)
        self.assertEqual(2, self.reserved())

    def test_revert(self):
        volume, path = self.bound()
        snapshot = self.snapshot(volume)
        # which needs no room of its own
        for disk in self.disks:
            free = 4 - self.host.reserved()[disk]
            self.server(claims={disk: free}, vdisks=1, vdisk_gb=free)
        for content in (b'two', b'six'):
            self.write(path, content)
            self.revert(volume, snapshot)
            self.assertEqual(b'one', self.read(path))
        self.assertAllocated(path, 1)
        self.assertEqual(2, self.reserved())

    def test_revert_to_when_it_was_unbound(self):
        volume = self.create(1, hints=self.hints)
        snapshot = self.snapshot(volume)
        attachment, path = self.attach(volume, self.server_id)
        self.write(path, b'one')
        self.detach(volume, attachment)
        self.revert(volume, snapshot)
        self.assertEqual(b'\0' * 3, self.read(path))
        self.assertAllocated(path, 1)

    def test_a_snapshot_that_was_not_completed(self):
        """cinder-volume was killed, and its status was set to available."""
        volume, path = self.bound()
        snapshot = self.snapshot(volume)
        snapshot.provider_location = None
        snapshot.save()
        self.revert(volume, snapshot, 'error')
        self.assertEqual(b'one', self.read(path))
        copy = self.api.post_volume(
            {'volume': {'size': 1, 'snapshot_id': snapshot.id}}
        )
        self.wait(copy['id'], 'error')
        self.assertIn('was not completed', self.log.output)

    def test_no_room(self):
        volume, _ = self.bound(2)
        snapshot = self.snapshot(volume)
        self.assertEqual(4, self.reserved())
        refused = self.snapshot(volume, 'error')
        self.assertIn('has no room to keep snapshot-', self.log.output)
        self.post('error', size=2, snapshot_id=snapshot.id)
        self.assertIn('has no room to keep volume-', self.log.output)
        self.post('error', size=2, source_volid=volume['id'])
        self.assertEqual(4, self.reserved())
        self.delete_snapshot(refused)
        self.assertEqual(4, self.reserved())

    def test_room_that_others_claim(self):
        volume, _ = self.bound(2)
        self.server(claims={self.where(volume): 1}, vdisks=1, vdisk_gb=1)
        self.snapshot(volume, 'error')
        self.assertIn('1 GiB of it are neither claimed', self.log.output)
        self.assertEqual(2, self.reserved())

    def test_disk_away(self):
        volume, _ = self.bound()
        snapshot = self.snapshot(volume)
        entry = os.path.join(self.host.root, self.where(volume))
        os.rename(entry + '/.diskplacer.json', entry + '/hidden')
        self.snapshot(volume, 'error')
        self.api.delete_snapshot(snapshot.id)
        self.wait(snapshot.id, 'error_deleting', 'snapshot')
        self.assertIn('is missing', self.log.output)
        os.rename(entry + '/hidden', entry + '/.diskplacer.json')
        self.api.api_post(
            f'/snapshots/{snapshot.id}/action',
            {'os-reset_status': {'status': 'available'}},
            check_response_status=[202],
        )
        self.delete_snapshot(snapshot)
        self.assertEqual(1, self.reserved())


class UnboundTestCase(SnapshotTestCase):
    def test_all_made_of_an_unbound_volume_is_unbound(self):
        volume = self.create(1, hints=self.hints)
        snapshot = self.snapshot(volume)
        copies = [
            self.post(size=2, snapshot_id=snapshot.id),
            self.post(size=2, source_volid=volume['id']),
        ]
        self.assertEqual({}, self.held())
        for copy in copies:
            self.assertIsNone(self.where(copy))
            self.assertAllocated(self.attached_path(copy), 2)
        self.revert(volume, snapshot)
        self.delete_snapshot(snapshot)
        self.delete(volume)
        for copy in copies:
            self.delete_bound(copy)
        self.assertEqual({}, self.held())
        self.assertEqual(0, self.reserved())
