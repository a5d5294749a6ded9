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

"""The life of volumes, through Cinder's API."""

import contextlib
import os
import threading
import uuid

import fixtures
from cinder import exception
from cinder import objects
from cinder.tests.functional.api import client
from cinder.volume.flows.manager import create_volume
from os_brick.initiator import utils as initiator_utils

from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.filesystem import vdisks
from tests import shell
from tests.functional.cinder import base

GIB = 1 << 30


class DriverTestCase(base.CinderTestCase):
    def setUp(self):
        super().setUp()
        self.host = self.hosts['host1']
        self.disks = sorted(self.host.disks())

    def where(self, volume):
        """Return the disk that a volume is bound to, None if none."""
        row = objects.Volume.get_by_id(self.context, volume['id'])
        self.assertEqual(row.provider_location, row.provider_id)
        return row.provider_location

    def held(self):
        """Return the volumes on each disk of host1 that has any."""
        return {
            uuid: {vdisk.volume_id for vdisk in disk.vdisks}
            for uuid, disk in self.host.disks().items()
            if disk.vdisks
        }

    def assertRefused(
        self, pattern, volume, server, host='host1', logged=None
    ):
        """Attaching fails with a message, and leaves nothing behind.

        :param pattern: what the owner of the volume reads, who is told of
            nothing that is not the owner's.
        :param logged: what operators read.
        """
        before = self.held()
        attachment = self.reserve(volume, server)
        error = self.assertRaises(
            client.OpenStackApiException, self.connect, attachment, host
        )
        self.api.api_delete(f'/attachments/{attachment}')
        self.assertPublic(error.response.text)
        self.assertRegex(error.response.text, pattern)
        if logged:
            self.assertRegex(self.log.output, logged)
        self.assertEqual(before, self.held())

    def assertPublic(self, text):
        """A text names no host, disk, server, project or free space."""
        hosts = '|'.join(base.HOSTS)
        self.assertNotRegex(text, f'(?i){hosts}|[0-9a-f]{{8}}-|GiB|somebody')

    def delete_bound(self, volume):
        """Detach and delete a volume."""
        attachments = self.api.api_get(
            f'/attachments?volume_id={volume["id"]}'
        )['attachments']
        self.detach(volume, attachments[0]['id'])
        self.delete(volume)


class ClaimedTestCase(DriverTestCase):
    def test_life(self):
        disk = self.disks[1]
        server = self.server(claims={disk: 2}, vdisks=1, vdisk_gb=2)
        volume = self.create(2, f'{server}-blank-vol')
        self.assertEqual('host1@vdisk#vdisk', volume['os-vol-host-attr:host'])
        self.assertEqual({}, self.held())
        attachment, path = self.attach(volume, server)
        self.assertEqual(
            f'{self.host.root}/{disk}/vdisks/volume-{volume["id"]}', path
        )
        # the API tells administrators the disk
        told = self.api.get_volume(volume['id'])
        self.assertEqual(disk, told['provider_id'])
        status = os.stat(path)
        self.assertEqual(2 * GIB, status.st_size)
        self.assertGreaterEqual(status.st_blocks * 512, 2 * GIB)
        self.assertEqual({0}, set(self.host.reserved().values()))
        self.detach(volume, attachment)
        attachment, again = self.attach(volume, server)
        self.assertEqual(path, again)
        self.detach(volume, attachment)
        self.delete(volume)
        self.assertEqual({}, self.held())

    def test_attached_before_cinder_has_saved_its_service(self):
        saved = threading.Event()
        self.addCleanup(saved.set)
        self.patch(
            'cinder.volume.manager.VolumeManager._driver_shares_targets',
            side_effect=lambda: not saved.wait(base.PATIENCE),
        )
        server = self.server(claims={self.disks[0]: 1}, vdisks=1, vdisk_gb=1)
        volume = self.create(1, f'{server}-blank-vol')
        self.assertIsNone(volume['service_uuid'])
        # without Open-iSCSI
        self.patch(
            'os_brick.initiator.utils.ISCSI_SUPPORTS_MANUAL_SCAN', False
        )
        with initiator_utils.guard_connection(volume):
            attachment, _ = self.attach(volume, server)
        saved.set()
        self.detach(volume, attachment)

    def test_each_claim_is_filled_once(self):
        server = self.server(
            claims=dict.fromkeys(self.disks, 1), vdisks=3, vdisk_gb=1
        )
        volumes = [self.create(1, f'{server}-blank-vol') for _ in range(4)]
        places = set()
        for volume in volumes[:3]:
            self.attach(volume, server)
            places.add(self.where(volume))
        self.assertEqual(set(self.disks), places)
        self.assertRefused(
            'does not fit the flavor',
            volumes[3],
            server,
            logged='does not fit the claims of server .*: GiB by disk',
        )

    def test_a_claimed_disk_is_missing(self):
        server = self.server(
            claims={self.disks[0]: 1, self.disks[1]: 1}, vdisks=2, vdisk_gb=1
        )
        volumes = [self.create(1, f'{server}-blank-vol') for _ in range(2)]
        away = os.path.join(self.host.root, self.disks[1])
        os.rename(away + '/.diskplacer.json', away + '/hidden')
        self.attach(volumes[0], server)
        self.assertEqual(self.disks[0], self.where(volumes[0]))
        self.assertRefused(
            'a disk that was chosen for the server is not usable',
            volumes[1],
            server,
            logged=f'disk {self.disks[1]}, which server {server} claims, is '
            'missing',
        )
        os.rename(away + '/hidden', away + '/.diskplacer.json')
        self.attach(volumes[1], server)
        self.assertEqual(self.disks[1], self.where(volumes[1]))

    def test_restart(self):
        server = self.server(
            claims={self.disks[0]: 1, self.disks[1]: 1}, vdisks=2, vdisk_gb=1
        )
        volumes = [self.create(1, f'{server}-blank-vol') for _ in range(2)]
        before = [self.attach(volume, server) for volume in volumes]
        self.volume[0].stop()
        # a disk that is away does not set what is on it to error
        away = os.path.join(self.host.root, self.where(volumes[1]))
        os.rename(away + '/.diskplacer.json', away + '/hidden')
        self.volume[0] = self.restart('host1')
        self.assertIn('is missing', self.log.output)
        os.rename(away + '/hidden', away + '/.diskplacer.json')
        for volume, (attachment, path) in zip(volumes, before, strict=True):
            self.wait(volume['id'], 'in-use')
            self.detach(volume, attachment)
            self.assertEqual(path, self.attach(volume, server)[1])

    def test_consolidated_claim(self):
        server = self.server(
            claims={self.disks[2]: 3},
            vdisks=3,
            vdisk_gb=1,
            mapping='consolidated',
        )
        for _ in range(3):
            volume = self.create(1, f'{server}-blank-vol')
            self.attach(volume, server)
            self.assertEqual(self.disks[2], self.where(volume))

    def test_what_is_left_of_a_killed_attempt_is_used(self):
        disk = self.disks[0]
        server = self.server(claims={disk: 1}, vdisks=1, vdisk_gb=1)
        volume = self.create(1, f'{server}-blank-vol')
        path = os.path.join(self.host.root, disk)
        name = f'volume-{volume["id"]}'
        vdisks.create(path, name, volume['id'], server, GIB)
        attachment, device = self.attach(volume, server)
        self.assertEqual(f'{path}/vdisks/{name}', device)
        self.detach(volume, attachment)
        # and a delete that was killed after the file was gone is completed
        vdisks.delete(path, name)
        self.delete(volume)


class OtherVolumesTestCase(DriverTestCase):
    """Volumes of a server that are none of the vdisks of its flavor."""

    def bootable(self, size, server):
        """Make a volume like one of an image, on the server's host."""
        volume = self.create(size, '', {'local_to_instance': server})
        self.api.api_post(
            f'/volumes/{volume["id"]}/action',
            {'os-set_bootable': {'bootable': True}},
            check_response_status=[200],
        )
        return volume

    def of_other_type(self, size, server):
        """Make a volume of another type of the same backends."""
        if not hasattr(self, 'other_type'):
            self.other_type = self.api.create_type('other')['id']
        body = {'size': size, 'volume_type': self.other_type}
        hints = {'local_to_instance': server}
        created = self.api.post_volume(
            {'volume': body, 'OS-SCH-HNT:scheduler_hints': hints}
        )
        return self.wait(created['id'], 'available')

    def check(self, others, **specs):
        """Attach volumes, then the vdisks; returns what is reserved."""
        server = self.server(
            claims=dict.fromkeys(self.disks, 2),
            vdisks=3,
            vdisk_gb=2,
            volume_type='vdisk',
            **specs,
        )
        attached = [
            (one, self.attach(one, server)[0]) for one in others(server)
        ]
        vdisks = [self.create(2, f'{server}-blank-vol') for _ in self.disks]
        for vdisk in vdisks:
            self.attach(vdisk, server)
        # each where it is claimed
        self.assertEqual(set(self.disks), set(map(self.where, vdisks)))
        # as a server that is unshelved
        for one, attachment in attached:
            self.detach(one, attachment)
            self.attach(one, server)
        return sorted(self.host.reserved().values())

    def test_root_smaller_than_a_vdisk(self):
        reserved = self.check(lambda server: [self.bootable(1, server)])
        self.assertEqual([0, 0, 1], reserved)

    def test_root_as_large_as_a_vdisk(self):
        reserved = self.check(
            lambda server: [self.bootable(2, server)],
            mapping='consolidated',
        )
        self.assertEqual([0, 0, 2], reserved)

    def test_extra_volumes(self):
        """More than there are disks, of other sizes, and of another type."""
        reserved = self.check(
            lambda server: [
                self.create(1, f'{server}-blank-vol'),
                self.create(1, '', {'local_to_instance': server}),
                self.of_other_type(2, server),
                self.bootable(1, server),
            ]
        )
        self.assertEqual(5, sum(reserved))

    def test_root_that_fits_beside_no_claim(self):
        server = self.server(
            claims=dict.fromkeys(self.disks, 3), vdisks=3, vdisk_gb=3
        )
        root = self.bootable(2, server)
        self.assertRefused('has room for the volume', root, server)
        for _ in self.disks:
            self.attach(self.create(3, f'{server}-blank-vol'), server)

    def test_attached_later(self):
        server = self.server(claims={self.disks[0]: 2}, vdisks=1, vdisk_gb=2)
        small, vdisk = self.create(1), self.create(2)
        self.attach(small, server)
        self.assertNotEqual(self.disks[0], self.where(small))
        self.attach(vdisk, server)
        self.assertEqual(self.disks[0], self.where(vdisk))


class HotPluggedTestCase(DriverTestCase):
    def test_round_robin(self):
        server = self.server()
        for count in range(1, 4):
            volume = self.create(1)
            self.attach(volume, server)
            self.assertEqual(count, len(self.held()))
        # what nobody claims is withheld from the scheduler
        self.assertEqual({1}, set(self.host.reserved().values()))
        volume = self.create(1)
        self.assertRefused('round_robin', volume, server)
        self.assertEqual({1}, set(self.host.reserved().values()))

    def test_bound_for_another_server(self):
        one, other = self.server(), self.server()
        volume = self.create(1)
        attachment, _ = self.attach(volume, one)
        self.detach(volume, attachment)
        disk = self.where(volume)
        others = [self.create(1) for _ in self.disks]
        for another in others:
            self.attach(another, other)
        self.assertRefused(
            'as round_robin puts on one disk',
            volume,
            other,
            logged=f'is on disk {disk}, where',
        )
        self.delete_bound(
            next(one for one in others if self.where(one) == disk)
        )
        self.attach(volume, other)
        # the disk holds a vdisk of its new server, whoever it was bound for
        self.assertRefused('round_robin', self.create(1), other)

    def type(self, mapping):
        """Make a volume type with a mapping."""
        type_id = self.api.create_type(mapping)['id']
        self.api.create_volume_type_extra_specs(
            type_id, {'vdisk:mapping': mapping}
        )
        return type_id

    def test_consolidated_type(self):
        type_ = self.type('consolidated')
        server = self.server()
        for _ in range(3):
            volume = self.wait(
                self.api.post_volume(
                    {'volume': {'size': 1, 'volume_type': type_}}
                )['id'],
                'available',
            )
            self.attach(volume, server)
        self.assertEqual([3], [len(found) for found in self.held().values()])

    def test_bad_mapping_of_type(self):
        type_ = self.type('scattered')
        volume = self.api.post_volume(
            {'volume': {'size': 1, 'volume_type': type_}}
        )
        self.wait(volume['id'], 'error')
        self.assertIn('vdisk:mapping=scattered is not', self.log.output)

    def test_claims_of_others_are_respected(self):
        for disk in self.disks[:2]:
            self.server(claims={disk: 3}, vdisks=1, vdisk_gb=3)
        server = self.server()
        volume = self.create(2)
        self.attach(volume, server)
        self.assertEqual(self.disks[2], self.where(volume))
        self.assertRefused('has room for the volume', self.create(2), server)

    def test_claim_that_is_not_filled_comes_first(self):
        server = self.server(claims={self.disks[1]: 2}, vdisks=1, vdisk_gb=2)
        volume = self.create(2)
        self.attach(volume, server)
        self.assertEqual(self.disks[1], self.where(volume))
        self.assertEqual({0}, set(self.host.reserved().values()))

    def test_extend(self):
        server = self.server()
        volume = self.create(1)
        url = f'/volumes/{volume["id"]}/action'
        self.api.api_post(url, {'os-extend': {'new_size': 2}})
        self.wait(volume['id'], 'available')
        attachment, path = self.attach(volume, server)
        self.assertEqual(2 * GIB, os.stat(path).st_size)
        self.detach(volume, attachment)
        with open(path, 'r+b') as stream:
            stream.write(b'kept')
        self.api.api_post(url, {'os-extend': {'new_size': 3}})
        self.wait(volume['id'], 'available')
        self.assertEqual(3 * GIB, os.stat(path).st_size)
        self.assertGreaterEqual(os.stat(path).st_blocks * 512, 3 * GIB)
        with open(path, 'rb') as stream:
            self.assertEqual(b'kept', stream.read(4))
        disk = self.where(volume)
        self.assertEqual(3, self.host.reserved()[disk])
        self.server(claims={disk: 1}, vdisks=1, vdisk_gb=1)
        self.api.api_post(url, {'os-extend': {'new_size': 4}})
        self.wait(volume['id'], 'error_extending')
        self.assertIn('has no room to extend', self.log.output)
        self.assertEqual(3 * GIB, os.stat(path).st_size)
        self.assertEqual(3, self.host.reserved()[disk])

    def test_deleted_space_is_offered_again_and_reads_as_zeros(self):
        server = self.server()
        hints = {'local_to_instance': server}
        volume = self.create(4, hints=hints)
        attachment, path = self.attach(volume, server)
        with open(path, 'r+b') as stream:
            stream.write(b'secret' * 100000)
            os.fsync(stream.fileno())
        self.detach(volume, attachment)
        self.delete(volume)
        self.assertEqual({0}, set(self.host.reserved().values()))
        for _ in self.disks:
            volume = self.create(4, hints=hints)
            _, path = self.attach(volume, server)
            with open(path, 'rb') as stream:
                self.assertEqual(b'\0' * 600000, stream.read(600000))


class ImageTestCase(DriverTestCase):
    """Volumes whose bytes are needed before there is a server."""

    def setUp(self):
        super().setUp()
        self.without_sudo()
        self.driver = self.volume[0].manager.driver
        # the scheduler may have chosen either host
        self.server_id = self.server()
        volume = self.create(2, hints={'local_to_instance': self.server_id})
        self.row = objects.Volume.get_by_id(self.context, volume['id'])
        self.created = volume

    def test_image_to_volume_and_back(self):
        images = Images(b'image' * 100000)
        self.driver.copy_image_to_volume(
            self.context, self.row, images, 'an-image'
        )
        path = self.driver.local_path(self.row)
        with open(path, 'rb') as stream:
            self.assertEqual(images.content, stream.read(500000))
        # all of it is allocated, as of any other volume
        self.assertEqual(2 * GIB, os.stat(path).st_size)
        self.assertGreaterEqual(os.stat(path).st_blocks * 512, 2 * GIB)
        self.assertEqual(2, self.host.reserved()[self.where(self.created)])
        self.driver.copy_volume_to_image(
            self.context,
            self.row,
            images,
            {'id': 'an-image', 'disk_format': 'raw'},
        )
        self.assertEqual(2 * GIB, images.uploaded)
        self.attach(self.created, self.server_id)
        self.assertEqual(1, sum(map(len, self.held().values())))

    def test_volume_of_an_image_stays_on_the_disk_that_has_it(self):
        """Cinder saves what create_volume returns when the image is there."""
        images = Images(b'image' * 100000)
        manager = self.volume[0].manager
        task = create_volume.CreateVolumeFromSpecTask(
            manager, manager.db, self.driver
        )
        meta = images.show(self.context, 'an-image')
        self.patch('cinder.image.image_utils.check_available_space')
        task.execute(
            self.context,
            self.row,
            {
                'type': 'image',
                'image_id': 'an-image',
                'image_location': (None, None),
                'image_meta': meta,
                'image_service': images,
            },
        )
        self.assertIn(
            self.created['id'], self.held()[self.where(self.created)]
        )
        self.row.refresh()
        with open(self.driver.local_path(self.row), 'rb') as stream:
            self.assertEqual(images.content, stream.read(500000))

    def test_a_raw_image_that_names_a_file_of_the_host(self):
        """A user says that a QCOW2 image is raw, for QEMU to open the file."""
        secret, image = (
            os.path.join(self.useFixture(fixtures.TempDir()).path, name)
            for name in ('secret', 'image')
        )
        with open(secret, 'wb') as stream:
            stream.write(b'secret of the host' * 8192)
        shell.run(
            *('qemu-img', 'create', '-q', '-f', 'qcow2'),
            *('-F', 'raw', '-b', secret, image),
        )
        with open(image, 'rb') as stream:
            images = Images(stream.read())
        with contextlib.suppress(exception.CinderException):
            self.driver.copy_image_to_volume(
                self.context, self.row, images, 'an-image'
            )
        if self.held():
            with open(self.driver.local_path(self.row), 'rb') as stream:
                self.assertNotIn(b'secret of the host', stream.read(1 << 20))

    def test_volume_without_bytes_to_image(self):
        images = Images(b'')
        self.driver.copy_volume_to_image(
            self.context,
            self.row,
            images,
            {'id': 'an-image', 'disk_format': 'raw'},
        )
        self.assertEqual(2 * GIB, images.uploaded)

    def test_restored_backup(self):
        attachment, path = self.attach(self.created, self.server_id)
        self.detach(self.created, attachment)
        # as cinder-backup writes one that ends in zeros
        with open(path, 'wb') as stream:
            stream.write(b'one')
        self.row.refresh()
        self.row.status = 'restoring-backup'
        self.driver.remove_export(self.context, self.row)
        with open(path, 'rb') as stream:
            self.assertEqual(b'one\0', stream.read(4))
        self.assertEqual(2 * GIB, os.stat(path).st_size)
        self.assertGreaterEqual(os.stat(path).st_blocks * 512, 2 * GIB)
        self.assertEqual(2, self.host.reserved()[self.where(self.created)])

    def test_no_room(self):
        for disk in self.disks:
            self.server(claims={disk: 3}, vdisks=1, vdisk_gb=3)
        self.assertRaises(
            exception.CinderException,
            self.driver.copy_image_to_volume,
            self.context,
            self.row,
            Images(b'image'),
            'an-image',
        )
        self.assertIn('no disk for volume', self.log.output)
        self.assertEqual({}, self.held())


class Images:
    """An image service with one raw image."""

    temp_images = None

    def __init__(self, content):
        self.content = content
        self.uploaded = None

    def show(self, context, image_id):
        return {
            'id': image_id,
            'disk_format': 'raw',
            'container_format': 'bare',
            'size': len(self.content),
            'properties': {},
        }

    def get_location(self, context, image_id):
        return None, None

    def download(self, context, image_id, stream):
        stream.write(self.content)

    def update(self, context, image_id, metadata, data, **kwargs):
        data.seek(0, os.SEEK_END)
        self.uploaded = data.tell()


class RefusedTestCase(DriverTestCase):
    def test_foreign_host(self):
        server = self.server()
        volume = self.create(1, hints={'local_to_instance': server})
        self.assertRefused(
            'only to servers on the same host',
            volume,
            server,
            'host2',
            "no server on host 'host2' attaches it",
        )

    def test_server_of_another_project(self):
        server = self.server(project='somebody')
        self.assertForeign(server, 'of project somebody')

    def test_claims_of_another_project(self):
        server = self.server()
        self.claim(server, {self.disks[0]: 1}, 'somebody')
        self.assertForeign(server, 'of project somebody')

    def test_unknown_server(self):
        self.assertForeign(str(uuid.uuid4()), 'Nova knows no server')

    def assertForeign(self, server, logged):
        """The owner cannot tell if there is a server of somebody else."""
        self.assertRefused(
            'only to a server of its own project',
            self.create(1),
            server,
            logged=logged,
        )

    def test_nova_away(self):
        server = self.server()
        volume = self.create(1)
        self.nova.down = True
        self.assertRefused(
            'log of cinder-volume',
            volume,
            server,
            logged='Nova does not answer',
        )
        self.nova.down = False
        self.attach(volume, server)

    def test_placement_away(self):
        server = self.server()
        volume = self.create(1)
        for method in ('GET', 'PUT'):
            self.placement_away = method
            self.assertRefused(
                'log of cinder-volume',
                volume,
                server,
                logged=f'Placement: {method} .* 503',
            )
        self.placement_away = None
        self.assertEqual({0}, set(self.host.reserved().values()))
        self.attach(volume, server)

    def test_services_away_for_seconds(self):
        self.useFixture(
            fixtures.MonkeyPatch('nova_diskplacer.http_retries.SECONDS', 30.0)
        )

        def come_back():
            self.placement_away = None
            self.nova.down = False

        server = self.server()
        for method in ('GET', 'PUT'):
            self.placement_away, self.nova.down = method, True
            timer = threading.Timer(1, come_back)
            timer.start()
            self.addCleanup(timer.join)
            self.attach(self.create(1), server)

    def test_disk_away(self):
        server = self.server(claims={self.disks[0]: 1}, vdisks=1, vdisk_gb=1)
        volume = self.create(1, f'{server}-blank-vol')
        attachment, _ = self.attach(volume, server)
        self.detach(volume, attachment)
        entry = os.path.join(self.host.root, self.disks[0])
        os.rename(entry + '/.diskplacer.json', entry + '/hidden')
        self.assertRefused(
            'log of cinder-volume', volume, server, logged='is missing'
        )
        self.api.delete_volume(volume['id'])
        self.wait(volume['id'], 'error_deleting')
        os.rename(entry + '/hidden', entry + '/.diskplacer.json')
        self.attach_again(volume)

    def attach_again(self, volume):
        """Reset a volume whose disk is back, and delete it."""
        self.api.api_post(
            f'/volumes/{volume["id"]}/action',
            {'os-reset_status': {'status': 'available'}},
            check_response_status=[202],
        )
        self.delete(volume)
        self.assertEqual({}, self.held())

    def test_disk_root_whose_mounts_cannot_be_seen(self):
        server = self.server(claims={self.disks[0]: 1}, vdisks=1, vdisk_gb=1)
        volume = self.create(1, f'{server}-blank-vol')
        attachment, _ = self.attach(volume, server)
        self.detach(volume, attachment)
        root = self.host.root
        os.rename(root, root + '-hidden')
        # as in a container that lacks the mounts of its host
        os.mkdir(root)
        self.api.delete_volume(volume['id'])
        self.wait(volume['id'], 'error_deleting')
        os.rmdir(root)
        os.rename(root + '-hidden', root)
        self.attach_again(volume)

    def test_disk_that_will_not_come_back(self):
        server = self.server(claims={self.disks[0]: 1}, vdisks=1, vdisk_gb=1)
        volume = self.create(1, f'{server}-blank-vol')
        attachment, _ = self.attach(volume, server)
        self.detach(volume, attachment)
        shell.run_retry('umount', os.path.join(self.host.root, self.disks[0]))
        prepare.forget(
            self.host.root, self.disks[0], self.host.root + '/../fstab'
        )
        self.delete(volume)
