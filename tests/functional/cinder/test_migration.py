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

"""Volumes that change their disk, their host or their type."""

import os

from cinder import objects
from cinder.volume import configuration
from cinder.volume import driver

from cinder_vdisk_mapper import conf
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.vdisk import GIB
from tests.functional.cinder import base
from tests.functional.cinder import test_snapshots

SSD = 'host1@ssd#ssd'
HDD = 'host1@vdisk#vdisk'


class MigrationTestCase(test_snapshots.SnapshotTestCase):
    """host1 has a backend of three HDDs and one of one SSD."""

    def setUp(self):
        super().setUp()
        self.without_sudo()
        hdds = set(self.host.disks())
        self.add_disk(os.path.dirname(self.host.root), 'ssd')
        self.host.publish()
        (self.ssd,) = set(self.host.disks()) - hdds
        self.override_config('vdisk_media', 'hdd', 'host1')
        configuration.Configuration(
            [*conf.OPTS, *driver.volume_opts], config_group='ssd'
        )
        for option, value in (
            ('vdisk_disk_root', self.host.root),
            ('vdisk_media', 'ssd'),
            ('volume_backend_name', 'ssd'),
        ):
            self.override_config(option, value, 'ssd')
        self.volume.append(self.start_backend('ssd'))
        for service in self.volume:
            service.manager.publish_service_capabilities(self.context)
        host_manager = self.scheduler.manager.driver.host_manager
        self.wait_until(
            lambda: (
                {HDD, SSD}
                <= {
                    pool.host
                    for pool in host_manager.get_all_backend_states(
                        self.context
                    )
                }
            ),
            'the scheduler knows both backends',
        )

    def start_backend(self, backend):
        """Start cinder-volume of one backend of host1."""
        return super(base.CinderTestCase, self).start_service(
            'volume',
            host=f'host1@{backend}',
            service_name='ssd' if backend == 'ssd' else 'host1',
        )

    def migrate(self, volume, host, success=True, **options):
        """Migrate a volume and wait; returns its row."""
        self.api.api_post(
            f'/volumes/{volume["id"]}/action',
            {'os-migrate_volume': {'host': host, **options}},
            check_response_status=[202],
        )
        status = 'success' if success else 'error'
        self.wait_for(volume, 'migration_status', status)
        return objects.Volume.get_by_id(self.context, volume['id'])

    def wait_for(self, volume, field, value):
        """Wait until a field of a volume's row has a value."""

        def found():
            row = objects.Volume.get_by_id(self.context, volume['id'])
            return row[field] == value

        self.wait_until(found, f'{field} of {volume["id"]} is {value}')

    def disks_of(self, volume):
        """Return the disks that have a vdisk of a volume."""
        row = objects.Volume.get_by_id(self.context, volume['id'])
        return [
            uuid
            for uuid, disk in self.host.disks().items()
            for vdisk in disk.vdisks
            if vdisk.name == f'volume-{row.name_id}'
        ]


class HostTestCase(MigrationTestCase):
    def test_to_another_medium_and_back(self):
        self.patch(
            'cinder.volume.manager.VolumeManager._migrate_volume_generic',
            side_effect=AssertionError('copied by Cinder'),
        )
        volume, _ = self.bound(2)
        row = self.migrate(volume, SSD)
        self.assertEqual((SSD, self.ssd), (row.host, row.provider_location))
        self.assertEqual([self.ssd], self.disks_of(volume))
        self.assertEqual(
            {self.ssd: 2}, {k: v for k, v in self.host.reserved().items() if v}
        )
        attachment, path = self.attach(volume, self.server_id)
        self.assertEqual(b'one', self.read(path))
        self.assertAllocated(path, 2)
        self.detach(volume, attachment)
        row = self.migrate(volume, HDD)
        self.assertIn(row.provider_location, self.disks)
        self.assertEqual([row.provider_location], self.disks_of(volume))
        self.delete(volume)
        self.assertEqual({}, self.held())
        self.assertEqual(0, self.reserved())

    def test_unbound(self):
        volume = self.create(1, hints=self.hints)
        for host in (SSD, 'host2@vdisk#vdisk', HDD):
            row = self.migrate(volume, host)
            self.assertEqual((host, None), (row.host, row.provider_location))
        self.assertEqual({}, self.held())

    def test_no_room(self):
        volume, _ = self.bound(2)
        self.server(claims={self.ssd: 3}, vdisks=1, vdisk_gb=3)
        row = self.migrate(volume, SSD, False)
        self.assertEqual(HDD, row.host)
        self.assertEqual([row.provider_location], self.disks_of(volume))
        self.assertIn('no disk for volume', self.log.output)

    def test_leftover_of_a_killed_move(self):
        volume, _ = self.bound()
        where = self.where(volume)
        name = f'volume-{volume["id"]}'
        root = os.path.join(self.host.root, self.ssd)
        vdisks.create(root, name, volume['id'], None, GIB)
        self.volume[0].stop()
        self.volume[0] = self.start_backend('vdisk')
        self.assertEqual([where], self.disks_of(volume))
        vdisks.create(root, name, volume['id'], None, GIB)
        self.delete(volume)
        self.assertEqual({}, self.held())

    def test_by_cinder(self):
        for bound in (True, False):
            volume = (
                self.bound()[0] if bound else self.create(1, hints=self.hints)
            )
            row = self.migrate(volume, SSD, force_host_copy=True)
            self.assertEqual(
                (SSD, self.ssd), (row.host, row.provider_location)
            )
            self.assertNotEqual(volume['id'], row.name_id)
            # what the API shows, and by what an export is told
            self.assertEqual(row.provider_location, row.provider_id)
            self.wait_until(
                lambda: len(self.held()) == 1, 'the original is deleted'
            )
            # the vdisk has the name of the volume that it was made for
            self.assertEqual({self.ssd: {volume['id']}}, self.held())
            attachment, path = self.attach(volume, self.server_id)
            self.assertEqual(b'one' if bound else b'\0' * 3, self.read(path))
            self.assertAllocated(path, 1)
            self.detach(volume, attachment)
            # and can go back in our way
            self.assertIn(
                self.migrate(volume, HDD).provider_location, self.disks
            )
            self.delete(volume)
            self.assertEqual({}, self.held())
            self.assertEqual(0, self.reserved())


class RetypeTestCase(MigrationTestCase):
    def retype(self, volume, policy='never', **extra_specs):
        """Give a volume a new type; returns its row."""
        name = f'type of {volume["id"]}'
        type_id = self.api.create_type(name)['id']
        self.api.create_volume_type_extra_specs(type_id, extra_specs)
        self.api.api_post(
            f'/volumes/{volume["id"]}/action',
            {'os-retype': {'new_type': name, 'migration_policy': policy}},
            check_response_status=[202],
        )
        self.wait_for(volume, 'volume_type_id', type_id)
        self.wait(volume['id'], 'available')
        return objects.Volume.get_by_id(self.context, volume['id'])

    def test_in_place(self):
        for volume in (self.bound()[0], self.create(1, hints=self.hints)):
            where = self.where(volume)
            row = self.retype(volume, **{'vdisk:mapping': 'consolidated'})
            self.assertEqual(where, row.provider_location)
            self.assertEqual(HDD, row.host)

    def test_to_another_medium(self):
        volume, _ = self.bound()
        row = self.retype(volume, 'on-demand', volume_backend_name='ssd')
        self.assertEqual((SSD, self.ssd), (row.host, row.provider_location))
        self.assertEqual([self.ssd], self.disks_of(volume))
        self.wait_until(
            lambda: set(self.held()) == {self.ssd}, 'the original is deleted'
        )
