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
import types
from unittest import mock

import fixtures
import testtools
from cinder import objects

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.drain import vdisk_survey
from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer.disks import move_records
from nova_diskplacer.disks.location import Location
from nova_diskplacer.placement.client import GB
from nova_diskplacer.placement.client import MBPS
from tests.fakes import disks as fake_disks
from tests.unit.cinder_vdisk_mapper.attach import test_striped_binding

A, B, C = (f'0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d1{one}' for one in '123')
NAME = 'volume-1'
NO_DISKS = frozenset()


class Backend(test_striped_binding.StripingBackend):
    """Also knows the interrupted moves of legs to a disk."""

    moved_legs = None

    def interrupted_move(self, disk, name):
        return self.moved_legs


class VDiskSurveyorTestCase(testtools.TestCase):
    """Disk A has the vdisk of volume 1, which server s has attached."""

    def setUp(self):
        super().setUp()
        self.vdisk = fake_disks.make_vdisk('1', 's', 4)
        self.backend = Backend(
            fake_disks.make_disk(A, held=[self.vdisk]),
            fake_disks.make_disk(B),
            fake_disks.make_disk(C),
        )
        self.backend.disk_root = self.useFixture(fixtures.TempDir()).path
        self.backend.linked = {NAME: A}
        self.attachment = types.SimpleNamespace(
            instance_uuid='s',
            attach_status='attached',
            connection_info={'device_path': self.backend.link_path(NAME)},
        )
        self.volume = types.SimpleNamespace(
            id='1',
            host='host@vdisk#vdisk',
            size=4,
            status='in-use',
            migration_status=None,
            bootable=False,
            encryption_key_id=None,
            provider_location=A,
            volume_attachment=[self.attachment],
            volume_type=None,
        )
        self.servers = {'s': self.server(flavor.VDiskRequest(2, 4))}
        self.claims = {'s': {GB: 8, MBPS: 50}}
        self.guests = mock.Mock()
        self.snapshots = self.useFixture(
            fixtures.MockPatchObject(
                objects.SnapshotList,
                'get_all_for_volume',
                mock.Mock(return_value=[]),
            )
        ).mock

    def server(self, request, uuid='s'):
        return nova_api.Server(uuid, 'project', 'host', request)

    def survey(self, others=None):
        surveyor = vdisk_survey.VDiskSurveyor(
            mock.Mock(),
            self.backend,
            'host@vdisk',
            'round_robin',
            self.guests,
            A,
            self.servers,
            self.claims,
        )
        return surveyor.survey(
            self.vdisk, self.volume, others or {}, frozenset({C})
        )

    def stripe(self, *disks):
        """Make the volume a striped one, and return its other parts."""
        location = Location(disks)
        self.volume.provider_location = str(location)
        self.vdisk = dataclasses.replace(self.vdisk, stripe=location)
        return {disk: self.vdisk for disk in disks if disk != A}

    def test_it_can_be_moved(self):
        surveyed = self.survey()
        self.assertEqual('', surveyed.refusal)
        self.assertEqual(self.vdisk, surveyed.vdisk)
        self.assertEqual('s', surveyed.server)
        self.assertFalse(surveyed.is_elsewhere)
        self.assertIsNone(surveyed.begun_target)
        self.assertEqual(NO_DISKS, surveyed.apart_from)
        self.assertEqual({C}, surveyed.unfilled_claims)
        self.guests.find.assert_called_once_with('s', '1')

    def test_it_is_no_volume(self):
        self.volume = None
        self.assertIn('no volume of Cinder', self.survey().refusal)
        self.vdisk = dataclasses.replace(self.vdisk, name='snapshot-1')
        self.assertIn('is a snapshot', self.survey().refusal)

    def test_reasons_of_cinder(self):
        self.snapshots.return_value = ['snapshot']
        self.assertIn('has 1 snapshots', self.survey().refusal)
        self.attachment.instance_uuid = None
        self.snapshots.return_value = []
        self.assertIn('attached to a host', self.survey().refusal)
        self.volume.host = 'other@vdisk#vdisk'
        self.assertIn('backend other@vdisk', self.survey().refusal)

    def test_reasons_of_the_guest(self):
        self.volume.encryption_key_id = 'key'
        self.assertIn('its server runs', self.survey().refusal)
        self.guests.find.side_effect = exception.DiskError('is suspended')
        self.assertEqual('is suspended', self.survey().refusal)

    def test_link_that_is_not_known(self):
        self.backend.linked_disk = mock.Mock(
            side_effect=exception.DiskError('the link leads nowhere')
        )
        surveyed = self.survey()
        self.assertEqual('the link leads nowhere', surveyed.refusal)
        self.assertTrue(surveyed.is_elsewhere)

    def test_servers_whose_claims_may_change(self):
        bound, attached = self.server(None, 'b'), self.server(None)
        self.vdisk = fake_disks.make_vdisk('1', 'b', 4)
        for servers, movable in (
            ({'s': attached, 'b': bound}, True),
            # the server that it was bound for is gone, or changes
            ({'s': attached}, True),
            ({'s': attached, 'b': None}, False),
            # so does the one that has it attached, or is not here
            ({'s': None, 'b': bound}, False),
            ({'b': bound}, False),
        ):
            self.servers = servers
            self.assertEqual(
                movable, 'Nova builds' not in self.survey().refusal
            )

    def test_mapping(self):
        request = flavor.VDiskRequest(
            2, 4, mapping='consolidated', vdisks_per_disk=3
        )
        self.servers['s'] = self.server(request)
        surveyed = self.survey()
        self.assertEqual('consolidated', surveyed.mapping)
        self.assertEqual(3, surveyed.per_disk)
        # a volume beside those of the flavor goes by its type
        self.volume.size = 5
        self.assertEqual('round_robin', self.survey().mapping)
        specs = {'vdisk:mapping': 'consolidated'}
        self.volume.volume_type = types.SimpleNamespace(
            name='vdisk', extra_specs=specs
        )
        self.assertEqual('consolidated', self.survey().mapping)
        specs['vdisk:mapping'] = 'none'
        surveyed = self.survey()
        self.assertEqual('round_robin', surveyed.mapping)
        self.assertIn('vdisk:mapping=none', surveyed.refusal)

    def test_server_it_counts_for(self):
        self.vdisk = fake_disks.make_vdisk('1', 'b', 4)
        self.servers['b'] = self.server(None, 'b')
        self.assertEqual('s', self.survey().server)
        self.volume.volume_attachment = []
        self.assertEqual('b', self.survey().server)
        del self.servers['b']
        self.assertIsNone(self.survey().server)

    def test_claimed_throughput(self):
        for claim, mbps in (
            ({GB: 8, MBPS: 50}, 25),
            ({GB: 4, MBPS: 50}, 50),
            ({GB: 4}, 0),
            # the claim does not cover it
            ({GB: 3, MBPS: 50}, 0),
            ({}, 0),
        ):
            self.claims = {'s': claim}
            self.assertEqual(mbps, self.survey().mbps)
        self.claims = {}
        self.assertEqual(0, self.survey().mbps)

    def test_copy_that_a_drain_has_begun(self):
        move = move_records.Record(A, B)
        move_records.write(self.backend.disk_root, NAME, move)
        copy = self.vdisk
        self.assertEqual(B, self.survey({B: copy}).begun_target)
        # decided: the volume is there
        self.backend.linked = {NAME: B}
        surveyed = self.survey({B: copy})
        self.assertEqual(
            (B, True, ''),
            (
                surveyed.begun_target,
                surveyed.is_elsewhere,
                surveyed.refusal,
            ),
        )
        # not complete, or that of another move
        self.backend.linked = {NAME: A}
        partial = dataclasses.replace(copy, usable=False)
        for others in ({}, {B: partial}, {C: copy}):
            self.assertIsNone(self.survey(others).begun_target)
        move = move_records.Record(C, B)
        move_records.write(self.backend.disk_root, NAME, move)
        self.assertIsNone(self.survey({B: copy}).begun_target)

    def test_striped(self):
        others = self.stripe(A, B)
        surveyed = self.survey(others)
        self.assertEqual({B}, surveyed.apart_from)
        self.assertEqual('', surveyed.refusal)
        self.assertIsNone(surveyed.begun_target)

    def test_legs_that_a_drain_has_begun_to_move(self):
        others = self.stripe(A, B)
        others[C] = dataclasses.replace(self.vdisk, moving=True)
        self.backend.moved_legs = Location((A, B)), Location((C, B))
        self.assertEqual(C, self.survey(others).begun_target)
        # a move to more disks, or from another one
        for move in (
            (Location((A, B)), Location((A, B, C))),
            (Location((A, B)), Location((A, C))),
            None,
        ):
            self.backend.moved_legs = move
            self.assertIsNone(self.survey(others).begun_target)

    def test_legs_that_have_left(self):
        others = self.stripe(B, C)
        self.vdisk = dataclasses.replace(self.vdisk, stripe=Location())
        self.assertEqual(B, self.survey(others).begun_target)
