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

"""Vdisks that Cinder manages and unmanages, in memory."""

from unittest import mock

from cinder import exception as cinder_exc
from cinder.api.schemas import snapshot_manage
from cinder.api.schemas import volume_manage
from cinder.api.validation import validators
from cinder.privsep import format_inspector
from cinder.volume import volume_types

from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks import records
from nova_diskplacer.disks.vdisk import VDisk
from tests.fakes import disks as fake_disks
from tests.unit.cinder_vdisk_mapper import test_driver

GIB = fake_disks.GIB
UUID = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'

# References that Cinder's API lets pass, and that name no vdisk.
_NO_REFERENCES = (
    '',
    'a/old',
    {},
    {'source-id': 'a/old'},
    {'source-name': 'a/old', 'source-id': 'x'},
    *({'source-name': one} for one in (None, 5, True, {}, ['a/old'], [[]])),
)


def snapshot(**fields):
    """Return a snapshot as the manager hands it to a driver."""
    return mock.Mock(
        **{
            'id': 'sid',
            'provider_location': None,
            'volume': test_driver.volume(provider_location='a'),
            **fields,
        }
    )


class ManageTestCase(test_driver.DriverTestCase):
    def setUp(self):
        super().setUp()
        self.queries = []
        self.patch(records, 'managed', self.managed)
        self.patch(
            volume_types, 'is_encrypted', lambda _, type_: type_ == 'secret'
        )
        self.format = self.patch(
            format_inspector, 'get_format_if_safe', mock.Mock()
        )
        self.format.return_value = 'raw'
        self.known = set()

    def patch(self, target, name, new):
        patch = mock.patch.object(target, name, new)
        patch.start()
        self.addCleanup(patch.stop)
        return new

    def managed(self, context, names):
        self.queries.append(names)
        return {name for name in names if name.partition('-')[2] in self.known}

    def put(self, name='old', size=10, disk='a', owner=''):
        """Put a vdisk on a disk; returns the reference to it."""
        self.driver.backend.create(disk, name, owner, None, size)
        return {'source-name': f'{disk}/{name}'}

    def on(self, disk):
        """Return (name, owner, GiB) of the vdisks on a disk."""
        return [
            (vdisk.name, vdisk.volume_id, vdisk.size_gb)
            for vdisk in self.driver.backend.known[disk].vdisks
        ]

    def refused(self, reason, method, *arguments, error=None):
        error = self.assertRaises(
            error or cinder_exc.ManageExistingInvalidReference,
            method,
            *arguments,
        )
        # what the owner of the volume may read, or the log
        self.assertIn(reason, f'{error} {self.log.output}')


class VolumeTestCase(ManageTestCase):
    def setUp(self):
        super().setUp()
        self.volume = test_driver.volume(volume_type_id=None)

    def test_manage(self):
        reference = self.put()
        self.assertEqual(
            10, self.driver.manage_existing_get_size(self.volume, reference)
        )
        for _ in range(2):
            self.assertEqual(
                naming.created() | naming.bound_to('a'),
                self.driver.manage_existing(self.volume, reference),
            )
            self.assertEqual([('volume-id', 'id', 10)], self.on('a'))
        self.assertEqual(90, self.placement.room_of('a'))

    def test_whole_gib(self):
        reference = self.put()
        self.driver.backend._set('a', [VDisk('old', '', None, 10 * GIB - 512)])
        self.assertEqual(
            10, self.driver.manage_existing_get_size(self.volume, reference)
        )
        self.driver.manage_existing(self.volume, reference)
        (vdisk,) = self.driver.backend.known['a'].vdisks
        self.assertEqual(10 * GIB, vdisk.size_bytes)

    def test_no_room(self):
        reference = self.put()
        self.assertTrue(self.placement.claim('server', {'a': 95}))
        self.refused(
            'disk a has no room',
            self.driver.manage_existing,
            self.volume,
            reference,
            error=cinder_exc.VolumeDriverException,
        )
        self.assertEqual([('old', '', 10)], self.on('a'))

    def test_references(self):
        self.put()
        schema = validators._SchemaValidator(
            volume_manage.volume_manage_create
        )
        for reference in _NO_REFERENCES:
            schema.validate({'volume': {'ref': reference}})
            self.refused(
                "it must be {'source-name': '<UUID of a disk of the backend>"
                "/<vdisk>'}",
                self.driver.manage_existing_get_size,
                self.volume,
                reference,
            )
        for source in ('a/new', 'b/old', 'c/old', 'new', 'a/../a/old', '/old'):
            self.refused(
                f"reference {{'source-name': '{source}'}}: there is no such "
                'vdisk',
                self.driver.manage_existing_get_size,
                self.volume,
                {'source-name': source},
            )

    def test_medium(self):
        reference = self.put()
        self.driver.configuration.vdisk_media = 'ssd'
        self.refused(
            "disks are ['b']",
            self.driver.manage_existing,
            self.volume,
            reference,
        )

    def test_already_managed(self):
        self.known = {'other', 'sother', 'migrated'}
        for name in ('volume-other', 'snapshot-sother', 'volume-migrated'):
            self.refused(
                f'Volume a/{name} already managed',
                self.driver.manage_existing,
                self.volume,
                self.put(name),
                error=cinder_exc.ManageExistingAlreadyManaged,
            )
        # one of a volume that is no more
        self.driver.manage_existing(self.volume, self.put('volume-gone'))

    def test_formats(self):
        reference = self.put()
        for format_, named in (('qcow2', 'qcow2'), (None, 'an unsafe image')):
            self.format.return_value = format_
            self.refused(
                f'its content is {named}, and must be raw',
                self.driver.manage_existing,
                self.volume,
                reference,
            )
        self.format.assert_called_with(
            path='/disks/a/old', allow_qcow2_backing_file=False
        )
        self.assertEqual([('old', '', 10)], self.on('a'))

    def test_encrypted_type(self):
        self.volume.volume_type_id = 'secret'
        self.refused(
            'volumes of type secret are encrypted',
            self.driver.manage_existing_get_size,
            self.volume,
            self.put(),
            error=cinder_exc.ManageExistingVolumeTypeMismatch,
        )

    def test_unmanage(self):
        self.put('volume-id', owner='id')
        self.volume.provider_location = 'a'
        for _ in range(2):
            self.driver.unmanage(self.volume)
            self.assertEqual([('unmanaged-id', '', 10)], self.on('a'))
        self.assertEqual(90, self.placement.room_of('a'))

    def test_unmanage_what_a_claim_pays_for(self):
        self.volume.provider_location = 'b'
        self.assertTrue(self.placement.claim('server', {'b': 30}))
        self.driver.backend.create('b', 'volume-id', 'id', 'server', 30)
        self.refused(
            'disk b has no room to keep volume-id of 30 GiB beside the '
            'claims of server server: 20 GiB',
            self.driver.unmanage,
            self.volume,
            error=cinder_exc.VolumeDriverException,
        )
        self.assertEqual([('volume-id', 'id', 30)], self.on('b'))
        # the server has gone
        self.placement.claims['b'].clear()
        self.driver.unmanage(self.volume)
        self.assertEqual([('unmanaged-id', '', 30)], self.on('b'))

    def test_unmanage_unbound(self):
        for _ in range(2):
            # as if killed before Cinder knew where it was
            self.volume.provider_location = None
            self.driver.unmanage(self.volume)
            self.assertEqual([('unmanaged-id', '', 10)], self.on('a'))
            self.assertEqual([], self.on('b'))
        self.assertEqual(90, self.placement.room_of('a'))

    def test_without_disk(self):
        self.put()
        reference = {'source-name': 'old'}
        self.assertEqual(
            naming.created() | naming.bound_to('a'),
            self.driver.manage_existing(self.volume, reference),
        )
        self.put('twice')
        self.put('twice', disk='b')
        self.refused(
            'there are several such vdisks',
            self.driver.manage_existing_get_size,
            test_driver.volume(id='2', name_id='2', volume_type_id=None),
            {'source-name': 'twice'},
        )

    def test_unmanage_what_is_away(self):
        self.volume.provider_location = 'c'
        self.refused(
            'disk c of this host is missing',
            self.driver.unmanage,
            self.volume,
            error=cinder_exc.VolumeDriverException,
        )

    def test_failed_manage_is_undone_not_deleted(self):
        self.volume.status = 'error_managing_deleting'
        self.driver.delete_volume(self.volume)
        self.assertEqual([], self.on('a'))
        self.driver.manage_existing(self.volume, self.put())
        self.driver.delete_volume(self.volume)
        self.assertEqual([('unmanaged-id', '', 10)], self.on('a'))

    def test_pages_that_the_api_lets_pass(self):
        self.put('volume-1')
        for marker in ('x', '5', 'null', '[]', '"a/volume-1"', '{"a": [1]}'):
            for list_ in (
                self.driver.get_manageable_volumes,
                self.driver.get_manageable_snapshots,
            ):
                self.assertRaises(
                    cinder_exc.InvalidInput,
                    list_,
                    [],
                    marker,
                    10,
                    0,
                    ['reference', 'size'],
                    ['asc', 'desc'],
                )

    def test_list(self):
        self.known = {'1', '2'}
        self.put('volume-1', 1)
        self.put('snapshot-2', 2)
        self.put('volume-3', 3, 'b')
        self.put('unmanaged-4', 4)
        ours = [mock.Mock(id='1', name_id='1')]
        everything = self.driver.get_manageable_volumes(
            ours, None, 10, 0, ['size'], ['desc']
        )
        # one question, however many there are
        self.assertEqual(1, len(self.queries))
        self.assertEqual(
            [
                ('a/unmanaged-4', 4, True, None),
                ('b/volume-3', 3, True, None),
                ('a/volume-1', 1, False, '1'),
            ],
            [
                (
                    entry['reference']['source-name'],
                    entry['size'],
                    entry['safe_to_manage'],
                    entry['cinder_id'],
                )
                for entry in everything
            ],
        )
        self.assertEqual(
            ('already managed', None),
            (
                everything[2]['reason_not_safe'],
                everything[0]['reason_not_safe'],
            ),
        )
        self.assertEqual(
            everything[1:2],
            self.driver.get_manageable_volumes(
                ours,
                everything[0]['reference'],
                1,
                0,
                ['size'],
                ['desc'],
            ),
        )


class SnapshotTestCase(ManageTestCase):
    def test_manage(self):
        reference = self.put('unmanaged-x', 5)
        what = snapshot()
        self.assertEqual(
            5, self.driver.manage_existing_snapshot_get_size(what, reference)
        )
        for _ in range(2):
            self.assertEqual(
                {'provider_location': 'a'},
                self.driver.manage_existing_snapshot(what, reference),
            )
            self.assertEqual([('snapshot-sid', 'sid', 5)], self.on('a'))

    def test_references(self):
        self.put()
        schema = validators._SchemaValidator(snapshot_manage.create)
        for reference in (None, *_NO_REFERENCES):
            schema.validate(
                {'snapshot': {'ref': reference, 'volume_id': UUID}}
            )
            for method in (
                self.driver.manage_existing_snapshot_get_size,
                self.driver.manage_existing_snapshot,
            ):
                self.refused(
                    "it must be {'source-name':", method, snapshot(), reference
                )
        self.assertEqual([('old', '', 10)], self.on('a'))

    def test_disk_of_the_volume(self):
        for location in ('b', None):
            self.refused(
                f'which is {location} for volume id',
                self.driver.manage_existing_snapshot_get_size,
                snapshot(
                    volume=test_driver.volume(provider_location=location)
                ),
                self.put(f'x{location}'),
            )

    def test_larger_than_the_volume(self):
        self.refused(
            'it has 11 GiB, which is more than the 10 GiB of volume id',
            self.driver.manage_existing_snapshot,
            snapshot(),
            self.put('x', 11),
        )

    def test_unmanage(self):
        what = snapshot()
        self.put('snapshot-sid', owner='sid')
        what.provider_location = 'a'
        for _ in range(2):
            self.driver.unmanage_snapshot(what)
            self.assertEqual([('unmanaged-sid', '', 10)], self.on('a'))

    def test_unmanage_unbound(self):
        volume = test_driver.volume()
        what = snapshot(volume=volume, volume_size=4)
        for _ in range(2):
            self.driver.unmanage_snapshot(what)
            self.assertEqual(
                [('volume-id', 'id', 10), ('unmanaged-sid', '', 4)],
                self.on('a'),
            )
        self.assertEqual('a', volume.provider_location)
        volume.save.assert_called_once_with()
        self.assertEqual(86, self.placement.room_of('a'))

    def test_list(self):
        self.known = {'1'}
        self.put('volume-1', 1)
        self.put('snapshot-2', 2)
        self.put('unmanaged-4', 4)
        volume = mock.Mock(name_id='n')
        entries = self.driver.get_manageable_snapshots(
            [mock.Mock(id='2', volume=volume)],
            None,
            10,
            0,
            ['size'],
            ['asc'],
        )
        self.assertEqual(
            [
                ('a/snapshot-2', '2', {'source-name': 'a/volume-n'}),
                ('a/unmanaged-4', None, None),
            ],
            [
                (
                    entry['reference']['source-name'],
                    entry['cinder_id'],
                    entry['source_reference'],
                )
                for entry in entries
            ],
        )
