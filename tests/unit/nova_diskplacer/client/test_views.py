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

"""The tables of vdisks that both command lines show."""

import collections
import dataclasses

from oslotest import base

from nova_diskplacer.client import facts
from nova_diskplacer.client import vdisk_map
from nova_diskplacer.client import views
from nova_diskplacer.cmd import shell

DISKS = {
    uuid: facts.Disk(uuid, host, pressure=pressure)
    for uuid, host, pressure in (
        ('a1', 'host-a.example.org', 7),
        ('a2', 'host-a.example.org', None),
        ('b1', 'host-b.example.org', 0),
    )
}
SERVER = '53d1f9d2-0c4e-4a52-9a4f-3f0f6f1f7a10'


class TableTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.facts = facts.Facts(
            DISKS,
            {'a1': {'s1': 10}, 'b1': {'s2': 5}},
            [
                facts.VDisk('v1', 'a2', 10, 's1', device='vdb'),
                facts.VDisk('v2', 'a1', 5),
                facts.VDisk('v3', 'a1', 5, is_snapshot=True),
            ],
            {'s1': facts.Server('s1', 'web')},
        )

    def table(self, long=False):
        """Return the rows by their server, as text."""
        rows = vdisk_map.entries(self.facts)
        names, cells = views.table(self.facts, rows, long)
        server = names.index('Server')
        texts = collections.defaultdict(list)
        for row in cells:
            texts[str(row[server])].append(tuple(map(str, row)))
        return texts

    def test_short(self):
        rows = self.table()
        self.assertEqual(
            [
                (
                    'host-a',
                    'web',
                    'vdb→a2 claim→a1',
                    '20',
                    '1 pending\n1\nunclaimed',
                )
            ],
            rows['web'],
        )
        self.assertEqual(
            [('host-b', 's2', 'claim→b1', '5', 'pending')], rows['s2']
        )
        self.assertEqual(
            [('host-a', '-', 'v2→a1 snapshot-v3→a1', '10', 'unclaimed')],
            rows['-'],
        )

    def test_cells_for_programs(self):
        _, (row, *_) = views.table(self.facts, vdisk_map.entries(self.facts))
        host, server, vdisks, *_ = row
        self.assertEqual('host-a.example.org', host.data)
        self.assertEqual('web', server.data)
        self.assertEqual(
            [('vdb', None, 'a2'), (None, 'a1', None)],
            [
                (one['device'], one['claimed_disk'], one['actual_disk'])
                for one in vdisks.data
            ],
        )

    def test_striped(self):
        """Disks of one vdisk are in one place."""
        self.facts = facts.Facts(
            DISKS,
            {'a1': {'s1': 5}, 'a2': {'s1': 5}},
            [facts.VDisk('v1', disk, 5, 's1') for disk in ('a1', 'a2')],
            {},
        )
        (row,) = self.table()['s1']
        self.assertEqual(('v1→a1+a2', '10', 'ok'), row[2:])

    def test_long(self):
        rows = self.table(long=True)
        host = 'host-a.example.org'
        self.assertIn(
            (host, 'web', 's1', 'vdb', 'v1')
            + ('10', '-', 'a2', '-', 'unclaimed'),
            rows['web'],
        )
        self.assertIn(
            (host, '-', '-', '-', 'snapshot v3')
            + ('5', '-', 'a1', '7 %', 'unclaimed'),
            rows['-'],
        )

    def test_widths_make_100_columns(self):
        columns = views._WIDTHS.values()
        self.assertEqual(100, sum(columns) + 3 * len(columns) + 1)

    def test_it_fits_100_columns(self):
        hosts = [f'{"h" * 40}-{n}.example.org' for n in range(50)]
        disks = {
            f'{n:04x}{SERVER[4:]}': facts.Disk(
                '', hosts[n % len(hosts)], total_gb=99999
            )
            for n in range(400)
        }
        # the number of a server is in the last line of its name
        name = 'n' * 4 * views._WIDTHS['Server']
        servers = {
            f'{n}{SERVER}': facts.Server(f'{n}{SERVER}', f'{name}-{n}')
            for n in range(len(hosts))
        }
        claims = collections.defaultdict(dict)
        vdisks = []
        for number, uuid in enumerate(disks):
            owner = f'{number % len(hosts)}{SERVER}'
            # two vdisks on each of eight disks, the last one elsewhere
            if number < 350:
                claims[uuid][owner] = 1800
            if number >= 50:
                vdisks += [
                    facts.VDisk(f'{name}{number}{SERVER}', uuid, 900, owner)
                    for name in 'ab'
                ]
        vdisks = [
            dataclasses.replace(one, device=f'vd{"abcdefgh"[n % 8]}a')
            for n, one in enumerate(vdisks)
        ]
        shown = facts.Facts(disks, claims, vdisks, servers)
        table = views.table(shown, vdisk_map.entries(shown))
        text = shell.make_table(*table).get_string()
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        for expected in ('claim→', 'pending', 'ok', '| -49 ', 'h-49'):
            self.assertIn(expected, text)
