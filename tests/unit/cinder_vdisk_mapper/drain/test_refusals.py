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
    is_attached_to_host=False,
    paths=(LINK,),
    link=LINK,
    is_encrypted=False,
    snapshots=0,
    is_settled=True,
    is_running=True,
    is_striped=False,
    guest_problem='',
    disk='d1',
    volume_disk='d1',
    link_problem='',
    copies=('d2',),
    recorded_move=None,
)


class ReasonTestCase(unittest.TestCase):
    def reason(self, **changes):
        return refusals.reason(dataclasses.replace(MOVABLE, **changes), HERE)

    def test_movable(self):
        self.assertEqual('', self.reason())
        self.assertEqual('', self.reason(is_encrypted=True, is_running=False))
        self.assertEqual('', self.reason(migration_status='success'))
        self.assertEqual(
            '',
            self.reason(
                status='available', servers=(), paths=(), is_running=False
            ),
        )

    def test_striped(self):
        # the kernel copies it below its device
        striped = {'is_striped': True, 'copies': ()}
        for changes in (
            {'guest_problem': 'server s is suspended'},
            {'paths': ('/dev/mapper/striped',)},
            {'is_encrypted': True},
        ):
            self.assertEqual('', self.reason(**striped, **changes))
        self.assertIn('2 snapshots', self.reason(**striped, snapshots=2))
        self.assertIn('builds', self.reason(**striped, is_settled=False))

    def test_move_that_is_decided(self):
        move = move_records.Record('d1', 'd2')
        self.assertEqual('', self.reason(volume_disk='d2', recorded_move=move))
        self.assertEqual('', self.reason(volume_disk='d1', recorded_move=move))
        # the target is gone, or the record is that of another move
        for changes in (
            {'copies': ()},
            {'recorded_move': move_records.Record('d1', 'd3')},
            {'recorded_move': move_records.Record('d3', 'd2')},
        ):
            told = self.reason(
                **{'volume_disk': 'd2', 'recorded_move': move} | changes
            )
            self.assertIn('its volume is on disk d2', told)

    def test_target_of_another_move(self):
        # decided or not
        for place in ('d1', 'd2'):
            told = self.reason(
                volume_disk=place,
                recorded_move=move_records.Record('d2', 'd1'),
            )
            self.assertIn('a drain of disk d2 has begun', told)
        ended = move_records.Record('d3', 'd1')
        self.assertEqual('', self.reason(recorded_move=ended))

    def test_reasons(self):
        for word, changes in (
            ('no link', {'link_problem': 'no link', 'backend': 'other'}),
            ('other@vdisk', {'backend': 'other@vdisk'}),
            ('2 snapshots', {'snapshots': 2}),
            ('is extending', {'status': 'extending'}),
            ('migrates', {'migration_status': 'migrating'}),
            ('attached to a host', {'is_attached_to_host': True}),
            ('several servers: s, t', {'servers': ('s', 't')}),
            ('builds, moves', {'is_settled': False}),
            ('is suspended', {'guest_problem': 'server s is suspended'}),
            ('detach and attach', {'paths': ('/disks/d1/vdisks/volume-1',)}),
            ('encrypted', {'is_encrypted': True}),
            ('its volume is on disk d2', {'volume_disk': 'd2'}),
            ('its volume is on disk None', {'volume_disk': None}),
        ):
            self.assertIn(word, self.reason(**changes))
