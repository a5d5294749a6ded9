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

import json

import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks import identity
from nova_diskplacer.disks.lvm import report
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk

UUID = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'
NAME = f'diskplacer-{UUID}'
TAGS = (
    'diskplacer,diskplacer.mbps=150,diskplacer.medium=hdd,'
    f'diskplacer.uuid={UUID}'
)


def volume(name, size_gb=1, tags='', **fields):
    """Return a volume as LVM reports it."""
    return {
        'lv_name': name,
        'lv_uuid': f'uuid-{name}',
        'lv_tags': tags,
        'lv_size': str(int(size_gb * GIB)),
        'lv_layout': 'linear',
        'origin': '',
        'origin_size': '',
        'pool_lv': '',
        **fields,
    }


def group(*volumes, size_gb=10, free_gb=10, **fields):
    """Return the report of one group."""
    return {
        'vg': [
            {
                'vg_name': NAME,
                'vg_tags': TAGS,
                'vg_size': str(size_gb * GIB),
                'vg_free': str(int(free_gb * GIB)),
                'vg_permissions': 'writeable',
                'vg_partial': '',
                'vg_exported': '',
                'vg_seqno': '7',
                **fields,
            }
        ],
        'pv': [{'pv_name': '/dev/sdx'}],
        'lv': list(volumes),
        'pvseg': [{'pvseg_start': '0'}],
        'seg': [],
    }


def to_json(*groups):
    return json.dumps({'report': list(groups)})


def parsed(*volumes, **fields):
    return report.parse(to_json(group(*volumes, **fields)))[NAME]


class ParseTestCase(testtools.TestCase):
    def test_no_groups(self):
        self.assertEqual({}, report.parse(to_json()))

    def test_messages_around_the_report(self):
        text = to_json(group(volume('volume-1')))
        self.assertEqual(
            report.parse(text),
            report.parse(f'Ignoring {{x}}.\n  {text}\nMore {{x}}.\n'),
        )

    def test_a_report_of_another_form(self):
        text = to_json(group(volume('volume-1')))
        for bad in (
            '',
            'lvm: ' + text,
            'null',
            '[]',
            '{"log": []}',
            text.replace('vg_size', 'VSize'),
            text.replace(str(10 << 30), '10.00g'),
            text.replace('[{', '{').replace('}]', '}'),
            text.replace('pool_lv', 'pool'),
            text.replace(f'"{TAGS}"', 'null'),
        ):
            error = self.assertRaises(exception.DiskError, report.parse, bad)
            self.assertIn(repr(bad[:80]), str(error))

    def test_identity(self):
        self.assertEqual(
            identity.Identity(UUID, 'hdd', 150), parsed().identity
        )
        for tags, reason in (
            ('', 'medium'),
            (TAGS.replace('hdd', 'tape'), "'tape'"),
            (TAGS.replace('=150', '=fast'), 'mbps None'),
            (TAGS.replace('=150', f'={1 << 30}'), f'mbps {1 << 30} is not'),
            (TAGS.replace(UUID, 'x'), 'UUID'),
            (TAGS + ',diskplacer.mbps=200', 'mbps None'),
        ):
            error = self.assertRaises(
                exception.DiskError,
                lambda tags: parsed(vg_tags=tags).identity,
                tags,
            )
            self.assertIn(reason, str(error))

    def test_thick(self):
        found = parsed(
            volume('volume-1', 2, 'diskplacer.server=s,diskplacer.volume=1'),
            volume(
                '_snapshot-2',
                2.125,
                'diskplacer.volume=2',
                origin='volume-1',
                origin_size=str(2 * GIB),
            ),
            volume('somebody', 1),
            free_gb=4.875,
        )
        self.assertEqual(
            (
                VDisk('snapshot-2', '2', None, 2 * GIB),
                VDisk('somebody', '', None, GIB),
                VDisk('volume-1', '1', 's', 2 * GIB),
            ),
            found.vdisks,
        )
        self.assertFalse(found.thin)
        # the map of the snapshot's changes takes space
        self.assertEqual(
            (9, int(4.875 * GIB)), (found.total_gb, found.free_bytes)
        )
        self.assertEqual('volume-1', found.find('snapshot-2').origin)
        self.assertEqual('', found.find('volume-1').origin)
        self.assertIsNone(found.find('volume-2'))

    def test_thin(self):
        found = parsed(
            volume('pool', 9, lv_layout='thin,pool'),
            volume('volume-1', 4, lv_layout='thin,sparse', pool_lv='pool'),
            volume(
                '_snapshot-1',
                4,
                lv_layout='thin,sparse',
                pool_lv='pool',
                origin='volume-1',
            ),  # fmt: skip
            free_gb=0,
        )
        self.assertTrue(found.thin)
        self.assertEqual(
            (9 * GIB, GIB, 8),
            (found.size_bytes, found.free_bytes, found.total_gb),
        )
        self.assertEqual('', found.find('snapshot-1').origin)
        # the name alone does not make a volume a pool
        self.assertFalse(parsed(volume('pool')).thin)

    def test_states(self):
        self.assertTrue(parsed(vg_exported='exported').exported)
        self.assertTrue(parsed(vg_partial='partial').partial)
        self.assertTrue(parsed(vg_permissions='read-only').read_only)
