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
import unittest

from cinder_vdisk_mapper.drain import refusals
from nova_diskplacer.disks import move_records

HERE = 'host@vdisk'
LINK = '/disks/by-volume/volume-1'

MOVABLE = refusals.Facts(
    status='in-use',
    migration_status=None,
    backend=HERE,
    servers=('s',),
    attached_to_host=False,
    paths=(LINK,),
    link=LINK,
    encrypted=False,
    snapshots=0,
    settled=True,
    runs=True,
    striped=False,
    problem='',
    disk='d1',
    place='d1',
    copies=('d2',),
    record=None,
)


class ReasonTestCase(unittest.TestCase):
    def reason(self, **changes):
        return refusals.reason(dataclasses.replace(MOVABLE, **changes), HERE)

    def test_movable(self):
        self.assertEqual('', self.reason())
        self.assertEqual('', self.reason(encrypted=True, runs=False))
        self.assertEqual('', self.reason(migration_status='success'))
        self.assertEqual(
            '',
            self.reason(status='available', servers=(), paths=(), runs=False),
        )

    def test_striped(self):
        # the kernel copies it below its device
        striped = {'striped': True, 'copies': ()}
        for changes in (
            {'problem': 'server s is suspended'},
            {'paths': ('/dev/mapper/striped',)},
            {'encrypted': True},
        ):
            self.assertEqual('', self.reason(**striped, **changes))
        self.assertIn('2 snapshots', self.reason(**striped, snapshots=2))
        self.assertIn('builds', self.reason(**striped, settled=False))

    def test_move_that_is_decided(self):
        begun = move_records.Record('d1', 'd2')
        self.assertEqual('', self.reason(place='d2', record=begun))
        self.assertEqual('', self.reason(place='d1', record=begun))
        # the target is gone, or the record is that of another move
        for changes in (
            {'copies': ()},
            {'record': move_records.Record('d1', 'd3')},
            {'record': move_records.Record('d3', 'd2')},
        ):
            told = self.reason(**{'place': 'd2', 'record': begun} | changes)
            self.assertIn('its volume is on disk d2', told)

    def test_target_of_another_move(self):
        # decided or not
        for place in ('d1', 'd2'):
            told = self.reason(
                place=place, record=move_records.Record('d2', 'd1')
            )
            self.assertIn('a drain of disk d2 has begun', told)
        ended = move_records.Record('d3', 'd1')
        self.assertEqual('', self.reason(record=ended))

    def test_reasons(self):
        for word, changes in (
            ('other@vdisk', {'backend': 'other@vdisk'}),
            ('2 snapshots', {'snapshots': 2}),
            ('is extending', {'status': 'extending'}),
            ('migrates', {'migration_status': 'migrating'}),
            ('attached to a host', {'attached_to_host': True}),
            ('several servers: s, t', {'servers': ('s', 't')}),
            ('builds, moves', {'settled': False}),
            ('is suspended', {'problem': 'server s is suspended'}),
            ('detach and attach', {'paths': ('/disks/d1/vdisks/volume-1',)}),
            ('encrypted', {'encrypted': True}),
            ('its volume is on disk d2', {'place': 'd2'}),
            ('its volume is on disk None', {'place': None}),
        ):
            self.assertIn(word, self.reason(**changes))
