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

import functools
from unittest import mock

from cinder import exception as cinder_exc
from cinder import objects

from cinder_vdisk_mapper.attach import handover
from cinder_vdisk_mapper.cinder_api.releases import models
from cinder_vdisk_mapper.vdisks import layouts
from cinder_vdisk_mapper.vdisks import locks
from nova_diskplacer import exception
from tests.unit.cinder_vdisk_mapper import test_driver

NAME = 'volume-id'
CONNECTOR = {'host': 'node'}


class ConnectionsTestCase(test_driver.DriverTestCase):
    def setUp(self):
        super().setUp()
        self.connections = self.driver._connections
        self.operations = self.connections.operations

    def test_cinder_passes_a_row_after_a_restoration(self):
        self.operations.backend.create('a', 'volume-id', 'id', None, 5)
        row = models.Volume(id='id', provider_location='a')
        found = test_driver.volume(
            provider_location='a',
            provider_id='a',
            size=7,
            status='restoring-backup',
        )
        with mock.patch.object(
            objects.Volume, 'get_by_id', return_value=found
        ) as get:
            self.connections.remove_export(mock.sentinel.context, row)
        get.assert_called_once_with(mock.sentinel.context, 'id')
        found.refresh.assert_called_with()
        (vdisk,) = self.operations.backend.known['a'].vdisks
        self.assertEqual(7, vdisk.size_gb)

    def attached_as_device(self, *attachments):
        """Return a volume with these attachments, and its connection."""
        backend = self.operations.backend
        backend.makes_devices = True
        self.connections.configuration = mock.Mock(vdisk_connection='block')
        backend.create('a', NAME, 'id', None, 10)
        volume = test_driver.volume(
            provider_location='a',
            provider_id='a',
            volume_attachment=list(attachments),
        )
        return volume, self.connections.initialize_connection(
            volume, CONNECTOR
        )

    def test_block_devices(self):
        volume, connection = self.attached_as_device(
            test_driver.attachment('server')
        )
        self.assertEqual('local', connection['driver_volume_type'])
        self.assertEqual('local', self.connections.protocol)
        self.assertEqual(
            f'/disks/by-volume/{NAME}', connection['data']['device_path']
        )
        self.assertEqual({('a', NAME)}, self.operations.backend.has_device)
        self.connections.remove_export(None, volume)
        self.assertEqual(set(), self.operations.backend.has_device)

    def test_a_host_that_gets_another_name(self):
        with mock.patch('socket.gethostname', return_value='other'):
            self.assertIn('other', self.connections.names)
        self.assertNotIn('other', self.connections.names)

    def test_a_device_that_cannot_be_made_is_counted(self):
        error = exception.DiskError('no loop device')
        with mock.patch.object(layouts.OneDisk, 'activate', side_effect=error):
            self.assertRaises(
                exception.DiskError,
                self.attached_as_device,
                test_driver.attachment('server'),
            )
        self.assertEqual(['disk'], self.operations.backend.bind_failures)

    def test_what_the_backend_reports(self):
        self.assertEqual('fake', self.connections.protocol)
        self.operations.backend.makes_devices = True
        self.assertEqual('fake', self.connections.protocol)

    def test_cinder_itself_fills_the_file(self):
        _, connection = self.attached_as_device()
        self.assertEqual('fake', connection['driver_volume_type'])
        self.assertEqual(f'/disks/a/{NAME}', connection['data']['device_path'])
        self.assertEqual(set(), self.operations.backend.has_device)

    def test_a_device_that_another_attachment_needs(self):
        volume, _ = self.attached_as_device(
            test_driver.attachment('server'), test_driver.attachment('server')
        )
        self.connections.remove_export(None, volume)
        self.assertEqual({('a', NAME)}, self.operations.backend.has_device)

    def test_a_server_keeps_what_it_has(self):
        """While Cinder copies the volume, or a user attaches it again."""
        attachment = test_driver.attachment('server')
        volume, _ = self.attached_as_device(attachment)
        backend = self.operations.backend
        for type_, configured, others in (
            ('local', 'file', []),
            ('gpfs', 'block', []),
            ('local', 'file', ['server']),
            ('gpfs', 'block', ['server']),
        ):
            is_device = type_ == 'local'
            backend.link('a', NAME, is_device)
            attachment.connection_info = {'driver_volume_type': type_}
            others = [test_driver.attachment(one) for one in others]
            for other in others:
                other.connection_info = {}
            volume.volume_attachment = [attachment, *others]
            self.connections.configuration.vdisk_connection = configured
            connection = self.connections.initialize_connection(
                volume, CONNECTOR
            )
            self.assertEqual(is_device, NAME in backend.to_devices)
            self.assertEqual(
                is_device, connection['driver_volume_type'] == 'local'
            )

    def test_an_image_of_a_volume_of_a_server_that_is_off(self):
        """Cinder attaches and detaches the volume; nobody has it open."""
        volume, _ = self.attached_as_device(test_driver.attachment('server'))
        volume.status = 'uploading'
        self.connections.remove_export(None, volume)
        self.assertEqual({('a', NAME)}, self.operations.backend.has_device)

    def test_a_start_makes_what_servers_expect(self):
        """By the connections that Nova keeps, whatever is configured."""
        attachment = test_driver.attachment('server')
        volume, _ = self.attached_as_device(attachment)
        backend = self.operations.backend
        for types, is_device in (
            (['gpfs'], False),
            (['gpfs', 'local'], False),
            (['local'], True),
            ([], True),
            (['gpfs', 'local'], True),
        ):
            volume.volume_attachment = [
                test_driver.attachment('server') for _ in types
            ] or [attachment]
            attachment.connection_info = {}
            for one, type_ in zip(
                volume.volume_attachment, types, strict=False
            ):
                one.connection_info = {'driver_volume_type': type_}
            backend.has_device.clear()
            self.connections.ensure_export(None, volume)
            self.assertEqual(is_device, NAME in backend.to_devices, types)
            self.assertEqual(
                is_device, ('a', NAME) in backend.has_device, types
            )

    def test_a_start_whose_export_cannot_be_removed(self):
        """The server needs its link and its device all the same."""
        backend = self.operations.backend
        volume, _ = self.attached_as_device(test_driver.attachment('server'))
        self.connections.moves = mock.Mock()
        self.connections.moves.remove_export.side_effect = (
            exception.DiskPlacerError('no tool')
        )
        backend.linked.clear()
        backend.has_device.clear()
        self.connections.ensure_export(None, volume)
        self.assertEqual({NAME: 'a'}, backend.linked)
        self.assertEqual({('a', NAME)}, backend.has_device)
        self.assertIn('Volume id: no tool', self.log.output)

    def test_only_an_unbound_volume_is_bound_for_no_server(self):
        volume = test_driver.volume()
        disk = self.connections.bind(volume)
        self.assertEqual([disk], self.operations.backend.disks_holding(NAME))
        self.assertEqual(
            (disk, disk), (volume.provider_location, volume.provider_id)
        )
        volume.save.assert_called_once_with()
        self.assertEqual(disk, self.connections.bind(volume))
        volume.save.assert_called_once_with()

    def attach_after(self, **changed):
        """Attach an unbound volume that changes before it is locked."""
        volume = test_driver.volume(
            volume_attachment=[test_driver.attachment('server')]
        )
        times = iter(range(9))

        def refresh():
            # the first time is to find out whether it is bound
            if next(times):
                volume.configure_mock(**changed)

        volume.refresh.side_effect = refresh
        return self.export(volume)

    def test_another_request_has_bound_it(self):
        self.operations.backend.create('b', NAME, 'id', None, 10)
        self.assertEqual(
            'b', self.attach_after(provider_location='b', provider_id='b')
        )
        self.assertEqual(['b'], self.operations.backend.disks_holding(NAME))

    def test_a_volume_that_is_gone_is_not_bound(self):
        for changed, reason in (
            ({'status': 'deleting'}, 'is being deleted'),
            ({'migration_status': 'migrating'}, 'is being migrated'),
            ({'host': 'there@vdisk#vdisk'}, 'has moved to another host'),
        ):
            error = self.assertRaises(
                cinder_exc.VolumeDriverException, self.attach_after, **changed
            )
            self.assertIn(reason, str(error))
            self.assertEqual([], self.operations.backend.disks_holding(NAME))

    def test_what_may_be_attached_while_it_is_migrated(self):
        """Cinder attaches what it copies, and Nova what a server has."""
        self.operations.backend.create('a', NAME, 'id', None, 10)
        attached = test_driver.attachment('server', 'attached')
        reserved = test_driver.attachment('server')
        for status, attachments, may in (
            ('migrating', [], True),
            ('migrating', [attached, reserved], True),
            ('target:other', [reserved], True),
            ('migrating', [reserved], False),
        ):
            volume = test_driver.volume(
                provider_location='a',
                migration_status=status,
                volume_attachment=attachments,
            )
            if may:
                self.assertIsNone(self.export(volume))
            else:
                self.assertRaises(
                    cinder_exc.VolumeDriverException, self.export, volume
                )

    def test_a_server_for_which_nova_copied_it(self):
        """Its nova-compute has died: the server goes on with what it had."""
        self.operations.backend.create('a', NAME, 'id', None, 10)
        for status, target, target_is, may in (
            ('migrating', 'target:id', 'reserved', True),
            ('migrating', 'target:id', 'attaching', True),
            # the server has written to the target since
            ('migrating', 'target:id', 'attached', False),
            ('completing', 'target:id', 'reserved', False),
            ('migrating', 'target:other', 'reserved', False),
            # Cinder copies it: it was detached before
            ('migrating', None, 'reserved', False),
        ):
            volume = test_driver.volume(
                provider_location='a',
                migration_status=status,
                volume_attachment=[test_driver.attachment('server')],
            )
            copy = test_driver.attachment('server', target_is)
            copy.volume = test_driver.volume(
                id='copy', name_id='copy', migration_status=target
            )
            with mock.patch.object(
                objects.VolumeAttachmentList,
                'get_all_by_instance_uuid',
                return_value=[copy],
            ):
                attach = functools.partial(
                    self.driver.create_export, None, volume, CONNECTOR
                )
                if may:
                    self.assertIsNone(attach())
                else:
                    self.assertRaises(cinder_exc.VolumeDriverException, attach)

    def test_what_cinder_may_attach_while_it_migrates(self):
        """Its copy to another host, and no image or backup."""
        self.operations.backend.create('a', NAME, 'id', None, 10)
        for status, may in (
            ('available', True),
            ('maintenance', True),
            ('retyping', True),
            ('uploading', False),
            ('downloading', False),
            ('backing-up', False),
            ('restoring-backup', False),
        ):
            for location in ('a', None):
                volume = test_driver.volume(
                    provider_location=location,
                    status=status,
                    migration_status='migrating',
                )
                if may:
                    self.export(volume)
                else:
                    error = self.assertRaises(
                        cinder_exc.VolumeDriverException, self.export, volume
                    )
                    self.assertIn('is being migrated', str(error))

    def test_the_disk_is_saved_while_the_volume_is_locked(self):
        volume = test_driver.volume()

        def save():
            self.assertIsNotNone(volume.provider_location)
            self.assertRaises(
                locks.Held, locks.hold('volume-id', wait=False).__enter__
            )

        volume.save.side_effect = save
        self.export(volume)
        volume.save.assert_called_once_with()

    def test_of_a_volume_that_was_handed_over(self):
        volume = test_driver.volume(
            host='there@vdisk#vdisk', provider_location='a'
        )
        with mock.patch.object(
            handover, 'connect_by_new_backend', return_value='there'
        ) as connect:
            self.assertEqual(
                'there',
                self.connections.initialize_connection(volume, CONNECTOR),
            )
        connect.assert_called_once_with(volume, CONNECTOR)

    def test_another_backend_of_this_host(self):
        """Each backend binds and connects its own volumes."""
        volume = test_driver.volume(host='node@other#other')
        with mock.patch.object(handover, 'connect_by_new_backend') as connect:
            self.connections.initialize_connection(volume, CONNECTOR)
        connect.assert_called_once_with(volume, CONNECTOR)

    def exported(self, **fields):
        """Return the target of a migration, and what exports it."""
        self.operations.backend.create('a', NAME, 'id', None, 10)
        volume = test_driver.volume(
            **{
                'provider_location': 'a',
                'provider_id': '192.0.2.1:3260,1 iqn.test:volume-id 1',
                'migration_status': 'target:other',
                'status': 'available',
                **fields,
            }
        )

        def remove(context, volume, path):
            try:
                with locks.hold('volume-id', wait=False):
                    self.fail('the volume is not locked')
            except locks.Held:
                volume.provider_id = volume.provider_location

        exporter = self.connections.exporter = mock.Mock()
        exporter.remove.side_effect = remove
        return volume, exporter

    def test_an_export_ends_before_the_migration(self):
        """Cinder asks for that too, but does not wait for it."""
        for later in (True, False):
            volume, exporter = self.exported()
            stale = test_driver.volume(
                provider_location='a',
                provider_id=volume.provider_id,
                status='available',
            )
            stale.refresh.side_effect = lambda stale=stale, volume=volume: (
                stale.configure_mock(provider_id=volume.provider_id)
            )
            if later:
                self.connections.end_copy(None, volume)
            else:
                self.connections.remove_export(None, volume)
                self.connections.end_copy(None, volume)
            self.assertEqual('a', volume.provider_id)
            self.connections.remove_export(None, stale)
            exporter.remove.assert_called_once_with(
                None, volume, f'/disks/a/{NAME}'
            )

    def test_disks_that_cinder_is_exchanging(self):
        """The driver has given the volume its disk, and Cinder the rest not.

        That is no export.
        """
        volume, exporter = self.exported(
            provider_id='0f6a4b1e-6b0a-4a0e-9f0b-5a2d1f0c7e11'
        )
        self.connections.remove_export(None, volume)
        exporter.remove.assert_not_called()

    def test_a_device_that_is_still_open(self):
        self.connections.operations = mock.Mock()
        vdisk = self.connections.operations.of.return_value
        vdisk.deactivate.side_effect = exception.DiskError('in use')
        self.connections.remove_export(
            None,
            test_driver.volume(
                provider_location='a,b',
                provider_id='a,b',
                status='in-use',
            ),
        )
        self.assertIn('Volume id keeps its device: in use', self.log.output)
