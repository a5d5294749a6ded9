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
    copies=('d2',),
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
            ('several disks have a copy: d2, d3', {'copies': ('d2', 'd3')}),
        ):
            self.assertIn(word, self.reason(**changes))
