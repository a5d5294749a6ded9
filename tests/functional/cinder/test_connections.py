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

"""Vdisks that are attached as loop devices, with the real cinder-volume."""

import contextlib
import os
import stat
from unittest import mock

from cinder_vdisk_mapper.vdisks import records
from nova_diskplacer import exception
from nova_diskplacer.disks.filesystem import devices
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.host import loop_devices
from tests.functional.cinder import base
from tests.functional.cinder import test_drain

FILE = 'file'
BLOCK = 'block'
TYPES = {FILE: 'gpfs', BLOCK: 'local'}


class ConnectionTestCase(test_drain.DrainerTestCase):
    def setUp(self):
        super().setUp()
        self.configure(BLOCK)
        # before the disks are unmounted
        self.addCleanup(self.detach_devices)

    def detach_devices(self):
        """Make a failed test end: a bound device keeps its disk mounted."""
        for disk in self.host.disks().values():
            for vdisk in disk.vdisks:
                with contextlib.suppress(exception.DiskError):
                    vdisks.detach_device(disk.path, vdisk.name)

    def configure(self, connection):
        self.override_config('vdisk_connection', connection, 'host1')

    def restart_service(self):
        self.volume[0].stop()
        self.volume[0] = self.restart('host1')

    def reboot(self):
        """Have the host without loop devices, as a reboot would."""
        self.volume[0].stop()
        for disk in self.host.disks().values():
            for vdisk in disk.vdisks:
                vdisks.detach_device(disk.path, vdisk.name)
        self.volume[0] = self.restart('host1')

    def link(self, volume):
        return f'{self.host.root}/by-volume/volume-{volume["id"]}'

    def file(self, volume):
        name = f'volume-{volume["id"]}'
        return vdisks.path(f'{self.host.root}/{self.where(volume)}', name)

    def device_of(self, volume, disk=None):
        return devices.path(
            disk or self.where(volume), f'volume-{volume["id"]}'
        )

    def attached(self, content=b'one', connection=BLOCK):
        """Return a volume, an attachment and the path that Nova keeps."""
        self.configure(connection)
        volume = self.create(1, hints=self.hints)
        attachment, path = self.connected(volume)
        self.assertKind(connection, path)
        self.write(path, content)
        return volume, attachment, path

    def connected(self, volume, server=None):
        """Attach a volume, and check the connection."""
        attachment = self.reserve(volume, server or self.server_id)
        info = self.connect(attachment)
        self.assertEqual(self.link(volume), info['device_path'])
        kind = self.kind(info['device_path'])
        self.assertEqual(TYPES[kind], info['driver_volume_type'])
        self.api.api_post(
            f'/attachments/{attachment}/action',
            {'os-complete': {}},
            check_response_status=[204],
        )
        self.wait(volume['id'], 'in-use')
        return attachment, info['device_path']

    @staticmethod
    def kind(path):
        return BLOCK if stat.S_ISBLK(os.stat(path).st_mode) else FILE

    def assertKind(self, connection, path):
        self.assertEqual(connection, self.kind(path))

    def assertNoDevice(self, volume):
        with open(self.file(volume), 'rb') as stream:
            name = f'volume-{volume["id"]}'
            self.assertEqual([], loop_devices.find(stream.fileno(), name))


class KindTestCase(ConnectionTestCase):
    def test_each_attachment_chooses(self):
        """Content stays, whatever it is attached as."""
        volume, attachment, path = self.attached()
        self.assertEqual(b'one', self.read(self.file(volume)))
        for connection in (FILE, FILE, BLOCK, BLOCK, FILE):
            self.detach(volume, attachment)
            self.assertNoDevice(volume)
            self.configure(connection)
            attachment, path = self.connected(volume)
            self.assertKind(connection, path)
            self.assertEqual(b'one', self.read(path))
        self.detach(volume, attachment)
        self.delete(volume)
        self.assertEqual({}, self.held())
        self.assertFalse(os.path.lexists(path))

    def test_what_is_attached_stays_as_it_is(self):
        """A hard reboot finds at the path what the server had there."""
        files, blocks = self.attached(connection=FILE), self.attached(b'two')
        for connection in (FILE, BLOCK):
            self.configure(connection)
            for again in (self.restart_service, self.reboot):
                again()
                for (volume, _, path), kind, content in (
                    (files, FILE, b'one'),
                    (blocks, BLOCK, b'two'),
                ):
                    self.assertKind(kind, path)
                    self.assertEqual(content, self.read(path))
                    self.assertEqual(content, self.read(self.file(volume)))
        # by the connection that Nova has, where no link tells
        for _, _, path in (files, blocks):
            os.unlink(path)
        self.configure(FILE)
        self.restart_service()
        self.assertKind(FILE, files[2])
        self.assertKind(BLOCK, blocks[2])
        for volume, attachment, _ in (files, blocks):
            self.detach(volume, attachment)
            self.assertNoDevice(volume)

    def test_a_start_disturbs_no_server(self):
        """Neither a running one, which is not waited for, nor its device."""
        volume, attachment, path = self.attached()
        with (
            open(path, 'rb') as stream,
            mock.patch.object(loop_devices, 'release') as release,
        ):
            device = os.fstat(stream.fileno()).st_rdev
            self.restart_service()
            self.assertEqual(device, os.stat(path).st_rdev)
        release.assert_not_called()
        self.detach(volume, attachment)

    def test_another_attachment_keeps_the_device(self):
        """Nova makes the new one of a server first, when it is resized."""
        volume, old, path = self.attached()
        new = self.reserve(volume, self.server_id)
        self.api.api_delete(f'/attachments/{old}')
        self.assertKind(BLOCK, path)
        self.connect(new)
        self.assertEqual(b'one', self.read(path))
        self.api.api_delete(f'/attachments/{new}')
        self.wait(volume['id'], 'available')
        self.assertNoDevice(volume)

    def test_in_use_after_its_attachment(self):
        """What still has it open keeps it, and the next one finds it."""
        volume, attachment, path = self.attached()
        with open(path, 'rb') as stream:
            device = os.fstat(stream.fileno()).st_rdev
            self.detach(volume, attachment)
            self.assertEqual(device, os.stat(path).st_rdev)
            attachment, _ = self.connected(volume)
            self.assertEqual(device, os.stat(path).st_rdev)
        self.detach(volume, attachment)
        self.assertNoDevice(volume)

    def test_snapshots_and_copies(self):
        volume, attachment, path = self.attached()
        snapshot = self.api.post_snapshot(
            {'snapshot': {'volume_id': volume['id'], 'force': True}}
        )
        self.wait(snapshot['id'], 'available', 'snapshot')
        clone = self.post(size=1, source_volid=volume['id'])
        self.write(path, b'two')
        copy = self.post(size=1, snapshot_id=snapshot['id'])
        for copied in (clone, copy):
            own, copied_path = self.connected(copied, self.server())
            self.assertEqual(b'one', self.read(copied_path))
            self.detach(copied, own)
            self.delete(copied)
        self.detach(volume, attachment)
        self.api.api_post(
            f'/volumes/{volume["id"]}/action', {'os-extend': {'new_size': 2}}
        )
        self.wait(volume['id'], 'available')
        attachment, path = self.connected(volume)
        with open(path, 'rb') as stream:
            self.assertEqual(2 * base.GIB, stream.seek(0, os.SEEK_END))
        self.assertEqual(b'two', self.read(path))
        self.detach(volume, attachment)


class DrainTestCase(ConnectionTestCase):
    def test_of_a_stopped_server(self):
        volume, attachment, path = self.attached()
        disk = self.where(volume)
        self.assertEqual('', self.stays(disk))
        target = self.where(volume)
        self.assertNotEqual(disk, target)
        self.assertEqual(self.device_of(volume), os.readlink(path))
        self.assertFalse(os.path.lexists(self.device_of(volume, disk)))
        self.assertKind(BLOCK, path)
        self.assertEqual(b'one', self.read(path))
        self.write(path, b'two')
        self.assertEqual(b'two', self.read(self.file(volume)))
        self.reboot()
        self.assertEqual(b'two', self.read(path))
        self.detach(volume, attachment)
        self.assertNoDevice(volume)

    def test_without_a_link(self):
        """It leads again to what Nova keeps."""
        for connection in (FILE, BLOCK):
            volume, attachment, path = self.attached(connection=connection)
            read = records.Records(self.context, ('host1@vdisk',), 0)
            self.assertEqual(
                [{TYPES[connection]}],
                [one.connections for one in read.of_host()],
            )
            disk = self.where(volume)
            os.unlink(path)
            self.assertEqual('', self.stays(disk))
            self.assertKind(connection, path)
            self.assertEqual(b'one', self.read(path))
            self.drainer.cancel(disk)
            self.detach(volume, attachment)
            self.assertEqual(
                [set()], [one.connections for one in read.of_host()]
            )
            self.delete(volume)

    def test_of_one_in_use(self):
        volume, attachment, path = self.attached()
        disk = self.where(volume)
        with open(path, 'rb'):
            self.assertIn('it is in use', self.stays(disk))
        self.assertEqual(disk, self.where(volume))
        self.assertEqual(b'one', self.read(path))
        self.detach(volume, attachment)

    def test_a_server_starts_meanwhile(self):
        """It finds its vdisk while that is copied, and its writes count."""
        volume, attachment, path = self.attached()
        disk = self.where(volume)
        with self.after_the_copy(lambda: self.write(path, b'two')):
            self.assertIn('was written to', self.stays(disk))
        self.assertEqual(disk, self.where(volume))
        self.assertEqual(b'two', self.read(path))
        self.assertEqual('', self.stays(disk))
        self.assertEqual(b'two', self.read(path))
        self.detach(volume, attachment)

    def test_killed(self):
        """The link leads to a device at every moment."""
        volume, attachment, path = self.attached()
        for function in ('link', 'attach_device', 'delete'):
            disk = self.where(volume)
            backend = type(self.drainer.operations.backend)
            with (
                mock.patch.object(
                    backend, function, side_effect=KeyboardInterrupt
                ),
                contextlib.suppress(KeyboardInterrupt),
            ):
                self.drainer.drain(disk)
            self.assertEqual(b'one', self.read(path))
            self.assertEqual('', self.stays(disk))
            self.assertNotEqual(disk, self.where(volume))
            self.assertEqual(b'one', self.read(path))
            self.drainer.cancel(disk)
        self.detach(volume, attachment)
