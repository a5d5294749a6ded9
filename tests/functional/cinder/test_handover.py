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

"""Volumes that follow their server to another host."""

import os
from unittest import mock

from cinder import objects
from cinder.volume import rpcapi

from cinder_vdisk_mapper.attach import handover
from tests.functional.cinder import test_driver

HERE = 'host1@vdisk#vdisk'
THERE = 'host2@vdisk#vdisk'
ELSEWHERE = 'only to servers on the same host'


class HandoverTestCase(test_driver.DriverTestCase):
    """host2 has one disk, which a server there has claimed 2 GiB of."""

    def setUp(self):
        super().setUp()
        self.there = self.hosts['host2']
        (self.disk,) = self.there.disks()
        self.first = self.server()
        self.hints = {'local_to_instance': self.first}

    def claiming(self, **fields):
        """Make a server on host2 that has claimed 2 GiB there."""
        return self.server(
            'host2', {self.disk: 2}, vdisks=1, vdisk_gb=2, **fields
        )

    def row(self, volume):
        return objects.Volume.get_by_id(self.context, volume['id'])

    def place(self, volume):
        row = self.row(volume)
        return row.host, row.provider_location

    def attach_once(self, volume, server, host='host1'):
        """Attach and detach, as Nova does where it fails to spawn."""
        attachment = self.reserve(volume, server)
        path = self.connect(attachment, host)['device_path']
        self.api.api_delete(f'/attachments/{attachment}')
        return path

    def write(self, path):
        with open(path, 'r+b') as stream:
            stream.seek(1 << 29)
            stream.write(b'content')

    def assertHandedOver(self, volume, server):
        """The server's host attaches the volume on what is claimed."""
        attachment, path = self.attach(volume, server, 'host2')
        self.assertEqual((THERE, self.disk), self.place(volume))
        self.assertTrue(path.startswith(f'{self.there.root}/{self.disk}/'))
        self.assertEqual(2 << 30, os.stat(path).st_size)
        # the claim pays for it, and nothing is left here
        self.assertEqual({self.disk: 0}, self.there.reserved())
        self.assertEqual({}, self.held())
        self.assertEqual({0}, set(self.host.reserved().values()))
        (held,) = self.there.disks()[self.disk].vdisks
        self.assertEqual(server, held.server_id)
        return attachment, path

    def test_unbound(self):
        """A volume that was made before its server is anywhere."""
        volume = self.create(2, hints=self.hints)
        self.assertEqual((HERE, None), self.place(volume))
        server = self.claiming()
        attachment, path = self.assertHandedOver(volume, server)
        self.detach(volume, attachment)
        again, same = self.attach(volume, server, 'host2')
        self.assertEqual(path, same)
        self.detach(volume, again)
        self.delete(volume)
        self.assertEqual((), self.there.disks()[self.disk].vdisks)

    def reschedule(self, write=False, **fields):
        """Have Nova fail on host1; returns the server, now on host2."""
        here = self.disks[0]
        server = self.server(
            'host1', {here: 2}, vdisks=1, vdisk_gb=2, **fields
        )
        volume = self.create(2, f'{server}-blank-vol')
        path = self.attach_once(volume, server)
        self.assertEqual((HERE, here), self.place(volume))
        if write:
            self.write(path)
        self.placement._call('delete', f'/allocations/{server}')
        self.claim(server, {self.disk: 2})
        self.nova.servers[server] |= {
            'OS-EXT-SRV-ATTR:host': 'host2',
            'OS-EXT-STS:task_state': 'block_device_mapping',
        }
        return server, volume, path

    def test_rescheduled(self):
        server, volume, _ = self.reschedule()
        self.assertHandedOver(volume, server)

    def test_reserved_twice(self):
        """An attachment that was cut short has left its reservation."""
        server, volume, _ = self.reschedule()
        self.reserve(volume, server)
        row = self.row(volume)
        # what Nova does not know of, Cinder reserves once more
        row.status = 'available'
        row.save()
        path = self.connect(self.reserve(volume, server), 'host2')
        self.assertEqual((THERE, self.disk), self.place(volume))
        self.assertIn(self.disk, os.path.realpath(path['device_path']))

    def test_reserved_for_two(self):
        server, volume, _ = self.reschedule()
        self.reserve(volume, self.first)
        row = self.row(volume)
        row.status = 'available'
        row.save()
        self.assertRaises(
            test_driver.client.OpenStackApiException,
            self.connect,
            self.reserve(volume, server),
            'host2',
        )
        self.assertEqual((HERE, self.disks[0]), self.place(volume))

    def test_rescheduled_after_the_guest_had_started(self):
        """Nobody has seen what a server wrote that never was active."""
        server, volume, _ = self.reschedule(write=True, launched=False)
        _, path = self.assertHandedOver(volume, server)
        with open(path, 'rb') as stream:
            stream.seek(1 << 29)
            self.assertEqual(b'\0' * 7, stream.read(7))

    def test_written(self):
        server, volume, path = self.reschedule(write=True)
        self.assertRefused(
            ELSEWHERE, volume, server, 'host2', 'it has content on disk'
        )
        self.assertEqual((HERE, self.disks[0]), self.place(volume))
        with open(path, 'rb') as stream:
            stream.seek(1 << 29)
            self.assertEqual(b'content', stream.read(7))
        self.delete(volume)

    def interrupt(self, volume, server, target, name, done):
        """Have the process end at a call, and see where the volume is.

        :param done: whether it ends after the call, not before.
        """
        call = getattr(target, name)

        def end(*args, **kwargs):
            if done:
                call(*args, **kwargs)
            raise Killed

        attachment = self.reserve(volume, server)
        with mock.patch.object(target, name, end):
            self.assertRaises(
                test_driver.client.OpenStackApiException,
                self.connect,
                attachment,
                'host2',
            )
        self.api.api_delete(f'/attachments/{attachment}')
        return self.place(volume)

    def test_interrupted(self):
        server, volume, _ = self.reschedule()
        bound = self.place(volume)
        here, there = (manager.manager.driver for manager in self.volume)
        for target, name, done, place in (
            (handover, '_check_blank', False, bound),
            (here.operations, 'delete_everywhere', False, (HERE, None)),
            (here.operations, 'delete_everywhere', True, (HERE, None)),
            (handover, 'hand_over', True, (THERE, None)),
            (there, 'create_export', True, (THERE, self.disk)),
            (there, 'initialize_connection', False, (THERE, self.disk)),
        ):
            self.assertEqual(
                place,
                self.interrupt(volume, server, target, name, done),
                name,
            )
        self.assertHandedOver(volume, server)

    def test_written_where_it_was_left(self):
        """A guest that had the vdisk open may write after all."""
        server, volume, path = self.reschedule()
        place = self.interrupt(
            volume,
            server,
            self.volume[0].manager.driver.operations,
            'delete_everywhere',
            False,
        )
        self.assertEqual((HERE, None), place)
        self.write(path)
        self.assertRefused(
            ELSEWHERE, volume, server, 'host2', 'it has content on disk'
        )
        self.assertTrue(os.path.exists(path))

    def test_no_answer_from_there(self):
        volume = self.create(2, hints=self.hints)
        server = self.claiming()
        place = self.interrupt(
            volume, server, rpcapi.VolumeAPI, 'initialize_connection', False
        )
        self.assertEqual((THERE, None), place)
        self.assertHandedOver(volume, server)

    def test_not_there(self):
        volume = self.create(2, hints=self.hints)
        server = self.server('host3')
        self.assertRefused(
            ELSEWHERE, volume, server, 'host3', 'no backend host3@vdisk'
        )
        # the connector is the word of whoever calls the API
        self.assertRefused(
            ELSEWHERE, volume, server, 'host2', "no server on host 'host2'"
        )
        self.assertEqual((HERE, None), self.place(volume))

    def test_evacuation(self):
        """Nova attaches volumes to the host that their server comes to."""
        volume = self.create(2, hints=self.hints)
        server = self.server('lost', {self.disk: 2}, vdisks=1, vdisk_gb=2)
        refusal = ELSEWHERE, volume, server, 'host2', 'no server on host'
        self.assertRefused(*refusal)
        # any user can rebuild a server, and name any host
        self.nova.servers[server]['OS-EXT-STS:task_state'] = (
            'rebuild_block_device_mapping'
        )
        self.assertRefused(*refusal)
        self.nova.evacuate(server, 'host1')
        self.assertRefused(*refusal)
        self.nova.evacuate(server, 'host2')
        self.assertHandedOver(volume, server)

    def test_down(self):
        volume = self.create(2, hints=self.hints)
        server = self.claiming()
        service = objects.Service.get_by_args(
            self.context, 'host2@vdisk', 'cinder-volume'
        )
        service.disabled = True
        service.save()
        self.assertRefused(
            ELSEWHERE, volume, server, 'host2', 'is down or disabled'
        )
        service.disabled = False
        service.save()
        self.assertHandedOver(volume, server)

    def test_with_snapshots(self):
        volume = self.create(2, hints=self.hints)
        snapshot = self.api.post_snapshot(
            {'snapshot': {'volume_id': volume['id']}}
        )
        self.wait(snapshot['id'], 'available', 'snapshot')
        server = self.claiming()
        self.assertRefused(
            ELSEWHERE, volume, server, 'host2', 'it has snapshots'
        )
        self.assertEqual((HERE, None), self.place(volume))

    def test_attached_here(self):
        volume = self.create(2, hints=self.hints)
        self.attach(volume, self.first)
        disk = self.where(volume)
        self.nova.servers[self.first]['OS-EXT-SRV-ATTR:host'] = 'host2'
        self.assertRaises(
            test_driver.client.OpenStackApiException,
            self.connect,
            self.reserve(volume, self.first),
            'host2',
        )
        self.assertEqual((HERE, disk), self.place(volume))

    def test_no_room_there(self):
        """The other backend refuses; the volume is unbound there."""
        self.there.fill(self.disk, 3)
        self.there.publish()
        volume = self.create(2, hints=self.hints)
        server = self.server('host2')
        self.assertRefused(
            'has room for the volume',
            volume,
            server,
            'host2',
            'GiB not claimed by disk',
        )
        self.assertEqual((THERE, None), self.place(volume))
        # and back
        self.attach(volume, self.first)
        self.assertEqual(HERE, self.place(volume)[0])


class Killed(Exception):
    """The process ends here."""
