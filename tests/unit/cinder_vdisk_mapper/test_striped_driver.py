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

from unittest import mock

from cinder import exception as cinder_exc
from cinder import objects
from cinder.volume import volume_utils

from cinder_vdisk_mapper import nova_api
from tests.fakes import disks as fake_disks
from tests.unit.cinder_vdisk_mapper import fakes
from tests.unit.cinder_vdisk_mapper import test_driver
from tests.unit.cinder_vdisk_mapper.attach import test_striped_binding

LOCATION = 'a,b,c'


class Backend(test_striped_binding.StripingBackend):
    """Keeps the sizes of the devices that it has made."""

    def __init__(self, *disks):
        super().__init__(*disks)
        self.made = []

    def activate_stripe(self, location, name, size_gb):
        self.check_location(location, name)
        self.made.append((str(location), name, size_gb))
        self.active.add(name)

    def device_path(self, disk, name):
        return f'/dev/{disk}/{name}'

    def striped_path(self, name):
        return f'/dev/mapper/{name}'


class DriverTestCase(test_driver.DriverTestCase):
    """A server has claimed a third of its volume on each of three disks."""

    def setUp(self):
        super().setUp()
        disks = [fake_disks.make_disk(uuid) for uuid in 'abcd']
        self.backend = self.driver.backend = Backend(*disks)
        self.placement = self.driver.placement = fakes.Placement(*disks)
        self.placement.claim('server', dict.fromkeys('abc', 10))
        request = test_striped_binding.server().request
        self.get.side_effect = lambda context, uuid: nova_api.Server(
            uuid, fakes.PROJECT, 'node', request
        )
        self.volume = test_driver.volume(
            size=30, volume_attachment=[test_driver.attachment('server')]
        )

    def bind(self):
        self.volume.provider_location = self.export(self.volume)
        self.volume.provider_id = self.volume.provider_location

    def assertRefused(self, public, reason, method, *arguments):
        error = self.assertRaises(
            cinder_exc.VolumeDriverException, method, *arguments
        )
        self.assertIn(public, str(error))
        self.assertIn(reason, self.log.output)

    def test_attach_and_detach(self):
        self.bind()
        self.assertEqual(LOCATION, self.volume.provider_location)
        connection = self.driver.initialize_connection(
            self.volume, {'host': 'node'}
        )
        self.assertEqual(
            {
                'device_path': '/dev/mapper/volume-id',
                'vdisk': {'disk': LOCATION, 'host': 'node'},
            },
            connection['data'],
        )
        # once for an attachment
        self.assertEqual([(LOCATION, 'volume-id', 30)], self.backend.made)
        # attached to a second server later
        self.assertIsNone(self.export(self.volume))
        with mock.patch.object(
            self.backend,
            'deactivate_stripe',
            side_effect=test_driver.DiskError('in use'),
        ):
            self.driver.remove_export(None, self.volume)
        self.assertEqual({'volume-id'}, self.backend.active)
        self.driver.remove_export(None, self.volume)
        self.assertEqual(set(), self.backend.active)

    def test_start(self):
        self.bind()
        self.backend.active.clear()
        self.backend.made.clear()
        self.driver.ensure_export(None, self.volume)
        self.assertEqual({'volume-id'}, self.backend.active)
        # only those that are attached
        self.backend.active.clear()
        self.volume.volume_attachment = []
        self.driver.ensure_export(None, self.volume)
        self.assertEqual(set(), self.backend.active)
        self.backend.made.clear()
        self.volume.volume_attachment = [test_driver.attachment('server')]
        for uuid in 'abc':
            self.backend.known[uuid] = fake_disks.make_disk(
                uuid, health='missing'
            )
        self.driver.ensure_export(None, self.volume)
        self.assertEqual([], self.backend.made)
        self.assertIn('disk a of this host is missing', self.log.output)

    def test_start_while_it_is_backed_up(self):
        """Cinder exports only volumes anew that are in-use."""
        self.bind()
        for status, active in (
            ('backing-up', {'volume-id'}),
            ('error_backing-up', {'volume-id'}),
            # Nova does not go on with it, and the server needs it
            ('detaching', {'volume-id'}),
            ('in-use', set()),
        ):
            self.backend.active.clear()
            self.volume.status = status
            self.driver.update_provider_info([self.volume], [])
            self.assertEqual(active, self.backend.active)
        self.volume.volume_attachment = []
        self.volume.status = 'backing-up'
        self.driver.update_provider_info([self.volume], [])
        self.assertEqual(set(), self.backend.active)

    def test_one_that_cannot_be_linked_at_start(self):
        self.bind()
        self.volume.status = 'backing-up'
        for error in (test_driver.DiskError('gone'), RuntimeError('bug')):
            with mock.patch.object(
                self.backend, 'check_location', side_effect=error
            ):
                self.driver.update_provider_info([self.volume], [])
            self.assertIn(str(error), self.log.output)

    def test_suspended_ones_are_resumed_at_start(self):
        with mock.patch.object(self.backend, 'resume_stripes') as resume:
            self.driver.check_for_setup_error()
            resume.assert_called_once_with()
            resume.side_effect = test_driver.DiskError('no dmsetup')
            self.driver.check_for_setup_error()
        self.assertIn('may be suspended: no dmsetup', self.log.output)

    def test_server_with_its_vdisks_on_all_disks(self):
        """Volumes of another server count on each of their disks."""
        self.bind()
        other = test_driver.volume(
            id='2',
            name_id='2',
            size=30,
            volume_attachment=[test_driver.attachment('other')],
        )
        self.placement.claim('other', dict.fromkeys('abcd', 10))
        attached = mock.Mock(volume=self.volume)
        with mock.patch.object(
            objects.VolumeAttachmentList,
            'get_all_by_instance_uuid',
            return_value=[attached],
        ):
            error = self.assertRaises(
                cinder_exc.VolumeDriverException,
                self.driver.create_export,
                None,
                other,
                {'host': 'node'},
            )
        self.assertIn('no disk of the host has room', str(error))

    def test_migrate(self):
        self.bind()
        self.assertRefused(
            'a striped volume cannot be migrated',
            f'striped over disks {LOCATION}',
            self.driver.migrate_volume,
            None,
            self.volume,
            {'capabilities': {}},
        )
        # its pieces are no copies of a move
        updates, _ = self.driver.update_provider_info([self.volume], [])
        self.assertEqual([], updates)
        self.assertTrue(self.backend.known['b'].vdisks)

    def test_unmanage(self):
        self.bind()
        self.assertRefused(
            'cannot be unmanaged',
            'volume-id is striped',
            self.driver.unmanage,
            self.volume,
        )
        listed = self.driver.get_manageable_volumes(
            [], None, 10, 0, ['size'], ['asc']
        )
        self.assertEqual([], listed)

    def test_group_snapshot(self):
        self.bind()
        self.volume.volume_attachment = []
        snapshot = mock.Mock(id='s', volume_id='id', volume=self.volume)
        with (
            mock.patch.object(
                volume_utils, 'is_group_a_cg_snapshot_type', return_value=True
            ),
            mock.patch.object(
                objects.Volume, 'get_by_id', return_value=self.volume
            ),
        ):
            _, (update,) = self.driver.create_group_snapshot(
                None, None, [snapshot]
            )
        self.assertEqual(LOCATION, update['provider_location'])
        held = {
            uuid
            for uuid, disk in self.backend.known.items()
            if any(vdisk.name == 'snapshot-s' for vdisk in disk.vdisks)
        }
        self.assertEqual({*'abc'}, held)

    def test_image(self):
        """What a new image has left out is allocated on each disk."""
        self.bind()
        with (
            mock.patch.object(self.driver, '_fetched') as fetched,
            mock.patch('cinder_vdisk_mapper.features.qemu_img.convert'),
            mock.patch.object(self.backend, 'extend') as extend,
        ):
            fetched.return_value.__enter__.return_value = (
                'image',
                self.volume,
                'device',
            )
            self.driver.copy_image_to_volume(None, self.volume, None, 'image')
        self.assertEqual(
            [mock.call(uuid, 'volume-id', 10) for uuid in 'abc'],
            extend.call_args_list,
        )
