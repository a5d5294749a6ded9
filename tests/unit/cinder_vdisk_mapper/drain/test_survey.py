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
from cinder import exception as cinder_exc
from cinder import objects

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.attach import bind_request
from cinder_vdisk_mapper.drain import plan
from cinder_vdisk_mapper.drain import survey
from cinder_vdisk_mapper.drain import vdisk_survey
from cinder_vdisk_mapper.vdisks import records
from nova_diskplacer import exception
from nova_diskplacer.placement.client import GB
from nova_diskplacer.placement.client import MBPS
from tests.fakes import disks as fake_disks
from tests.unit.cinder_vdisk_mapper import fakes

SERVER = nova_api.Server('s', 'project', 'host', None)


class SurveyorTestCase(testtools.TestCase):
    """Disk a has the vdisks of volumes 1 and 2, and one of no volume."""

    def setUp(self):
        super().setUp()
        self.held = [
            fake_disks.make_vdisk('1', 's', 4),
            fake_disks.make_vdisk('2', None, 4),
            fake_disks.make_vdisk('3', None, 4),
        ]
        self.copy = fake_disks.make_vdisk('1', 's', 4)
        self.backend = fakes.Backend(
            fake_disks.make_disk('a', held=self.held),
            fake_disks.make_disk('b', held=[self.copy]),
            fake_disks.make_disk('c', medium='ssd'),
            fake_disks.make_disk('d', draining=True),
            fake_disks.make_disk('e', late=True),
            fake_disks.make_disk('f', health='missing', held=[self.copy]),
        )
        self.operations = mock.Mock(backend=self.backend)
        self.claims = {'a': {'s': {GB: 4, MBPS: 20}}, 'b': {}}
        self.operations.placement.provider_allocations = lambda uuid: (
            self.claims.get(uuid, {})
        )
        self.records = [self.record('1'), self.record('2')]
        self.patch(records.Records, 'others', lambda *_: self.records)
        self.volumes = {
            number: types.SimpleNamespace(id=number) for number in '12'
        }
        self.patch(objects.Volume, 'get_by_id', self.get_volume)
        self.servers = {'s': SERVER, 't': None}
        self.patch(nova_api, 'of_hosts', lambda *_: self.servers)
        self.attached = self.patch(bind_request, 'attached', mock.Mock())
        self.attached.return_value = {'b': frozenset({'volume-9'})}
        self.surveyed = {}
        self.patch(vdisk_survey.VDiskSurveyor, 'survey', self.survey_vdisk)
        self.surveyor = survey.Surveyor(
            mock.Mock(),
            self.operations,
            'host@vdisk',
            'hdd',
            'round_robin',
            frozenset({'host'}),
            mock.Mock(),
        )

    def patch(self, *arguments):
        self.useFixture(fixtures.MockPatchObject(*arguments))
        return arguments[2]

    def record(self, number, **fields):
        return mock.Mock(
            **{
                'kind': 'volume',
                'id': number,
                'vdisk': f'volume-{number}',
                'deleted': False,
                **fields,
            }
        )

    def get_volume(self, context, volume_id):
        if volume_id not in self.volumes:
            raise cinder_exc.VolumeNotFound(volume_id=volume_id)
        return self.volumes[volume_id]

    def survey_vdisk(self, vdisk, volume, others, unfilled_claims):
        self.surveyed[vdisk.name] = volume, others, unfilled_claims
        return plan.VDiskToMove(
            vdisk,
            server=vdisk.server_id,
            mapping='round_robin',
            mbps=20,
        )

    def test_disks_that_may_take_vdisks(self):
        surveyed = self.surveyor.survey('a')
        # of the medium, healthy, neither late nor drained
        self.assertEqual(['b'], [disk.uuid for disk in surveyed.disks])
        self.assertEqual({'b': plan.Room(96, 150)}, surveyed.room)

    def test_room(self):
        self.claims['b'] = {'t': {GB: 10, MBPS: 60}, 'u': {MBPS: 100}}
        surveyed = self.surveyor.survey('a')
        self.assertEqual(plan.Room(86, -10), surveyed.room['b'])

    def test_vdisks(self):
        surveyed = self.surveyor.survey('a')
        self.assertEqual(
            ['volume-1', 'volume-2', 'volume-3'],
            [vdisk.name for vdisk in surveyed.vdisks],
        )
        self.assertEqual(
            {
                'volume-1': self.volumes['1'],
                'volume-2': self.volumes['2'],
            },
            surveyed.volumes,
        )
        volume, others, unfilled_claims = self.surveyed['volume-1']
        self.assertEqual(self.volumes['1'], volume)
        # wherever they are
        self.assertEqual({'b': self.copy, 'f': self.copy}, others)
        self.assertEqual(frozenset(), unfilled_claims)
        self.assertEqual((None, {}, frozenset()), self.surveyed['volume-3'])

    def test_volumes_that_were_deleted(self):
        self.records[0].deleted = True
        del self.volumes['2']
        surveyed = self.surveyor.survey('a')
        self.assertEqual({}, surveyed.volumes)

    def test_vdisks_that_are_deleted_meanwhile(self):
        def delete(*_):
            self.backend.delete('a', 'volume-2')
            return self.records

        self.patch(records.Records, 'others', delete)
        surveyed = self.surveyor.survey('a')
        self.assertEqual(
            ['volume-1', 'volume-3'],
            [vdisk.name for vdisk in surveyed.vdisks],
        )

    def test_claims_that_no_vdisk_fills(self):
        # volume-1 fills 4 GiB on disk b
        for gb, disks in ((4, frozenset()), (5, frozenset('b'))):
            self.claims['b'] = {'s': {GB: gb}}
            self.surveyor.survey('a')
            self.assertEqual(disks, self.surveyed['volume-1'][2])
            self.assertEqual(frozenset(), self.surveyed['volume-2'][2])

    def test_vdisks_of_servers(self):
        snapshot = dataclasses.replace(
            self.copy, name='snapshot-1', volume_id='snapshot'
        )
        self.backend.known['b'] = fake_disks.make_disk(
            'b', held=[self.copy, snapshot]
        )
        # no server of a vdisk on disk a
        self.servers['u'] = dataclasses.replace(SERVER, uuid='u')
        surveyed = self.surveyor.survey('a')
        self.assertEqual(
            {'s': {'b': {'volume-1', 'volume-9'}}}, surveyed.server_vdisks
        )
        self.attached.assert_called_once_with(mock.ANY, SERVER)

    def test_disk_that_is_not_healthy(self):
        error = self.assertRaises(
            exception.DiskError, self.surveyor.survey, 'f'
        )
        self.assertIn('is missing', str(error))

    def test_target_that_holds(self):
        self.assertFalse(self.surveyor.check_target('volume-2', 'a', 'b'))
        self.patch(
            vdisk_survey.VDiskSurveyor,
            'survey',
            lambda self, vdisk, *_: plan.VDiskToMove(vdisk, begun_target='b'),
        )
        self.assertTrue(self.surveyor.check_target('volume-2', 'a', 'b'))

    def test_target_that_does_not_hold(self):
        for name, target, reason in (
            # round_robin: the server has a vdisk there
            ('volume-1', 'b', 'round_robin allows 1'),
            ('volume-2', 'c', 'no other disk'),
            ('volume-4', 'b', 'it is not here'),
        ):
            error = self.assertRaises(
                exception.DiskError,
                self.surveyor.check_target,
                name,
                'a',
                target,
            )
            self.assertIn(f'disk {target} any more', str(error))
            self.assertIn(reason, str(error))
        self.backend.known['b'] = dataclasses.replace(
            self.backend.known['b'], mbps=10
        )
        error = self.assertRaises(
            exception.DiskError,
            self.surveyor.check_target,
            'volume-2',
            'a',
            'b',
        )
        self.assertIn('lacks 10 MB/s', str(error))
