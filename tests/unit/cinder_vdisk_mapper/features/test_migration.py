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

import dataclasses
import functools
from unittest import mock

from cinder import exception as cinder_exc

from cinder_vdisk_mapper.features import migration
from cinder_vdisk_mapper.vdisks import naming
from nova_diskplacer import exception
from nova_diskplacer.placement import client as placement_client
from tests.unit.cinder_vdisk_mapper import test_driver


class Killed(BaseException):
    """The process is no more."""


class MigrationTestCase(test_driver.DriverTestCase):
    """A volume of 10 GiB on disk a, which is a hdd; disk b is a ssd."""

    def setUp(self):
        super().setUp()
        self.driver.configuration.vdisk_media = 'hdd'
        self.volume = test_driver.volume(provider_location='a')
        self.driver.backend.create('a', 'volume-id', 'id', 'server', 10)
        self.driver.backend.content['a', 'volume-id'] = 'data'

    def host(self, **fields):
        """Return a host as Cinder's manager hands it to a driver."""
        location = {
            'host': 'node',
            'backend': 'filesystem',
            'disk_root': '/var/lib/diskplacer/disks',
            'media': 'ssd',
            **fields,
        }
        return {
            'host': 'node@ssd#vdisk',
            'capabilities': {
                'location_info': str(migration.BackendDisks(**location))
            },
        }

    def migrate(self, **location):
        """Migrate the volume; returns what the driver does."""
        return self.driver.migrate_volume(
            None, self.volume, self.host(**location)
        )

    def reserved(self):
        """Return the reserved GiB of disks a and b."""
        return tuple(
            self.placement.offered[disk][placement_client.GB]['reserved']
            for disk in 'ab'
        )

    def assertMoved(self):
        self.assertEqual('b', self.volume.provider_location)
        self.assertEqual(
            {('b', 'volume-id'): 'data'}, self.driver.backend.content
        )
        self.assertEqual((0, 10), self.reserved())
        (vdisk,) = self.driver.backend.known['b'].vdisks
        self.assertEqual((10, None), (vdisk.size_gb, vdisk.server_id))

    def assertStayed(self):
        self.assertEqual('a', self.volume.provider_location)
        self.assertEqual(
            {('a', 'volume-id'): 'data'}, self.driver.backend.content
        )
        self.assertEqual(0, self.reserved()[1])


class MigrateTestCase(MigrationTestCase):
    def test_to_another_medium(self):
        self.assertEqual((True, naming.bound_to('b')), self.migrate())
        self.volume.save.assert_called_once_with()
        self.assertMoved()
        self.assertIn(
            '10 GiB of volume id have moved from disk a to disk b for ',
            self.log.output,
        )

    def test_its_link_follows(self):
        self.driver.backend.link('a', 'volume-id')
        self.migrate()
        self.assertMoved()
        self.assertEqual({'volume-id': 'b'}, self.driver.backend.linked)

    def test_elsewhere(self):
        for location in (
            {'host': 'other'},
            {'backend': 'lvm'},
            {'disk_root': '/other'},
        ):
            self.assertEqual((False, None), self.migrate(**location))
        for capabilities in (
            None,
            {},
            {'location_info': 'LVMVolumeDriver:node:vg:default:0'},
        ):
            self.assertEqual(
                (False, None),
                self.driver.migrate_volume(
                    None, self.volume, {'capabilities': capabilities}
                ),
            )
        self.assertStayed()

    def test_unbound(self):
        volume = test_driver.volume(name_id='other')
        # left by an attempt to bind it that was killed
        self.driver.backend.create('a', 'volume-other', 'id', None, 1)
        for host in (self.host(), self.host(host='other')):
            self.assertEqual(
                (True, None), self.driver.migrate_volume(None, volume, host)
            )
        self.assertStayed()

    def test_no_room(self):
        self.placement.claim('other', {'b': 41})
        self.assertRaises(cinder_exc.VolumeDriverException, self.migrate)
        self.assertIn('no disk for volume id of 10 GiB', self.log.output)
        self.assertStayed()

    def test_copy_that_fails(self):
        def copy(*arguments):
            raise exception.DiskError('read error')

        self.driver.backend.copy = copy
        self.assertRaises(cinder_exc.VolumeDriverException, self.migrate)
        self.assertStayed()

    def test_larger_than_its_row_says(self):
        # an extension was killed before Cinder knew
        self.driver.backend.extend('a', 'volume-id', 15)
        self.migrate()
        (vdisk,) = self.driver.backend.known['b'].vdisks
        self.assertEqual(15, vdisk.size_gb)

    def test_killed_at_each_step(self):
        backend = self.driver.backend
        steps = (
            (backend, 'create'),
            (backend, 'copy'),
            (self.volume, 'save'),
            (backend, 'delete'),
        )
        for owner, step in steps:
            for after in (False, True):
                for recover in (self.migrate, self.start):
                    self.kill(owner, step, after)
                    recover()
                    self.look()
                    if self.volume.provider_location == 'a':
                        self.assertStayed()
                        self.migrate()
                    self.assertMoved()
                    self.back()

    def kill(self, owner, step, after):
        """Migrate, and die before or after a step."""
        real = getattr(owner, step)

        def die(*arguments):
            if after:
                real(*arguments)
            raise Killed

        with mock.patch.object(owner, step, die):
            self.assertRaises(Killed, self.migrate)

    def start(self):
        """Start the driver anew."""
        updates, snapshots = self.driver.update_provider_info(
            [self.volume], []
        )
        for update in updates:
            self.volume.provider_id = update['provider_id']
        self.assertEqual(
            self.volume.provider_location, self.volume.provider_id
        )
        self.assertEqual([], snapshots)

    def back(self):
        """Have all as it was."""
        backend = self.driver.backend
        backend.delete('b', 'volume-id')
        backend.create('a', 'volume-id', 'id', None, 10)
        backend.content['a', 'volume-id'] = 'data'
        self.volume.provider_location = self.volume.provider_id = 'a'
        self.look()

    def look(self):
        """Do as the agent does."""
        for disk in 'ab':
            self.driver.operations.try_reserve(disk)


class StartTestCase(MigrationTestCase):
    def test_disks_that_earlier_releases_did_not_tell(self):
        told = test_driver.volume(
            id='told', provider_location='c', provider_id='c'
        )
        exported = test_driver.volume(
            id='exported', provider_location='c', provider_id='192.0.2.1:3260'
        )
        begun = test_driver.volume(
            id='begun', provider_location='c', provider_id='begun'
        )
        copied = test_driver.volume(
            id='copied',
            provider_location='a',
            provider_id='0f6a4b1e-6b0a-4a0e-9f0b-5a2d1f0c7e11',
        )
        unbound = test_driver.volume(id='unbound')
        self.assertEqual(
            (
                [
                    {'id': 'id', 'provider_id': 'a'},
                    {'id': 'copied', 'provider_id': 'a'},
                ],
                [],
            ),
            self.driver.update_provider_info(
                [self.volume, told, exported, begun, copied, unbound], []
            ),
        )

    def test_snapshots_of_earlier_releases(self):
        """Cinder wants an entry for each one without an owner, or for none."""
        volumes = {
            'id': self.volume,
            'unbound': test_driver.volume(id='unbound'),
        }
        cases = (
            # volume, status, disk and owner of the snapshot, and the new owner
            ('unbound', 'available', None, None, 'unbound'),
            ('unbound', 'creating', None, None, None),
            # it may be one that was not completed
            ('id', 'available', None, None, None),
            ('id', 'available', 'a', None, 'a'),
            ('unbound', 'available', None, 'unbound', ''),
        )
        snapshots = [
            mock.Mock(
                id=str(number),
                volume=volumes[volume],
                status=status,
                provider_location=disk,
                provider_id=owner,
            )
            for number, (volume, status, disk, owner, _) in enumerate(cases)
        ]
        # Cinder may hand over the volumes separately, in parts
        for found in (list(volumes.values()), []):
            _, updates = self.driver.update_provider_info(found, snapshots)
            self.assertEqual(
                [
                    {'id': str(number), 'provider_id': case[-1]}
                    for number, case in enumerate(cases)
                    if case[-1] != ''
                ],
                updates,
            )

    def test_copies_of_a_drain_are_kept(self):
        backend = self.driver.backend
        backend.create('b', 'volume-id', 'id', 'server', 10)
        for drained in 'ab':
            for disk in 'ab':
                backend.known[disk] = dataclasses.replace(
                    backend.known[disk], draining=disk == drained
                )
            self.driver.update_provider_info([self.volume], [])
            self.assertEqual(['a', 'b'], backend.disks_holding('volume-id'))
        backend.known['b'] = dataclasses.replace(
            backend.known['b'], draining=False
        )
        backend.link('a', 'volume-id')
        self.driver.update_provider_info([self.volume], [])
        self.assertEqual(['a'], backend.disks_holding('volume-id'))

    def test_what_is_no_leftover_stays(self):
        backend = self.driver.backend
        # the disk that has the volume is away
        away = test_driver.volume(name_id='away', provider_location='c')
        unbound = test_driver.volume(name_id='unbound')
        for name in ('away', 'unbound', 'foreign'):
            backend.create('b', f'volume-{name}', 'id', None, 1)
        before = backend.disks()
        self.driver.update_provider_info([self.volume, away, unbound], [])
        self.assertEqual(before, backend.disks())

    def test_disk_that_refuses(self):
        backend = self.driver.backend
        backend.create('b', 'volume-id', 'id', None, 10)

        def delete(*arguments):
            raise exception.DiskError('read-only')

        with mock.patch.object(backend, 'delete', delete):
            self.driver.update_provider_info([self.volume], [])
        self.driver.update_provider_info([self.volume], [])
        self.assertStayed()


class AttachedTestCase(MigrationTestCase):
    def attach(self):
        # Cinder hands the driver what its API has read long before
        self.volume.refresh.side_effect = lambda: setattr(
            self.volume, 'volume_attachment', [test_driver.attachment('s')]
        )

    def test_a_volume_that_was_attached_meanwhile_stays(self):
        self.attach()
        error = self.assertRaises(
            cinder_exc.VolumeDriverException, self.migrate
        )
        self.assertIn('is attached', str(error))
        self.assertStayed()

    def test_a_volume_that_cinder_itself_has_attached_stays(self):
        """Its attachments to images and backups are in no database."""
        for unbound in (False, True):
            for status in ('uploading', 'backing-up', 'restoring-backup'):
                volume = self.volume
                if unbound:
                    volume = test_driver.volume(name_id='unbound')
                volume.status = status
                error = self.assertRaises(
                    cinder_exc.VolumeDriverException,
                    self.driver.migrate_volume,
                    None,
                    volume,
                    self.host(),
                )
                self.assertIn(f'that is {status}', str(error))
        self.assertStayed()

    def test_an_unbound_one_too(self):
        self.volume = test_driver.volume()
        self.attach()
        self.assertRaises(cinder_exc.VolumeDriverException, self.migrate)


class MigratedTestCase(MigrationTestCase):
    def test_vdisk_is_given_to_the_volume(self):
        new = test_driver.volume(
            id='temporary', name_id='temporary', provider_location='b'
        )
        self.driver.backend.create(
            'b', 'volume-temporary', 'temporary', None, 10
        )
        for status, owner in (('in-use', 'temporary'), ('available', 'id')):
            self.assertEqual(
                {'_name_id': 'temporary', 'provider_location': 'b'},
                self.driver.update_migrated_volume(
                    None, self.volume, new, status
                ),
            )
            (vdisk,) = self.driver.backend.known['b'].vdisks
            self.assertEqual(
                ('volume-temporary', owner), (vdisk.name, vdisk.volume_id)
            )
        self.assertEqual('data', self.driver.backend.content['a', 'volume-id'])

    def test_all_of_the_copy_is_allocated(self):
        """Or the migration fails: the original is there still."""
        backend = self.driver.backend
        new = test_driver.volume(
            id='temporary',
            name_id='temporary',
            provider_location='b',
            migration_status='target:id',
        )
        backend.create('b', 'volume-temporary', 'temporary', None, 7)
        migrated = functools.partial(
            self.driver.update_migrated_volume,
            None,
            self.volume,
            new,
            'available',
        )
        with mock.patch.object(
            backend, 'extend', side_effect=exception.DiskError('full')
        ):
            self.assertRaises(cinder_exc.VolumeDriverException, migrated)
        migrated()
        (vdisk,) = backend.known['b'].vdisks
        self.assertEqual(10, vdisk.size_gb)
        self.assertEqual(10, self.reserved()[1])

    def test_unbound(self):
        new = test_driver.volume(id='temporary', name_id='temporary')
        self.assertEqual(
            {'_name_id': 'temporary', 'provider_location': None},
            self.driver.update_migrated_volume(
                None, self.volume, new, 'available'
            ),
        )


class RetypeTestCase(MigrationTestCase):
    def retype(self, diff, **extra_specs):
        """Retype the volume; tells whether it is done in place."""
        done, update = self.driver.retype(
            None,
            self.volume,
            mock.Mock(extra_specs=extra_specs),
            {'encryption': {}, 'qos_specs': {}, 'extra_specs': {}, **diff},
            self.host(),
        )
        self.assertIsNone(update)
        return done

    def test_in_place(self):
        self.assertTrue(
            self.retype({'extra_specs': {'vdisk:mapping': (None, 'x')}})
        )
        self.assertTrue(self.retype({'qos_specs': {'total_iops': (1, 2)}}))

    def test_encryption(self):
        self.assertFalse(
            self.retype({'encryption': {'cipher': (None, 'aes')}})
        )

    def test_bad_mapping(self):
        self.assertRaises(
            cinder_exc.InvalidVolumeType,
            self.retype,
            {},
            **{'vdisk:mapping': 'scattered'},
        )
