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

import datetime

from hypothesis import given
from hypothesis import strategies as st
from oslotest import base

from nova_diskplacer import constants
from nova_diskplacer.client import facts as facts_
from nova_diskplacer.client import vdisk_map

NOW = datetime.datetime(2026, 11, 23, 12, tzinfo=datetime.UTC)


def minutes_ago(minutes):
    return NOW - datetime.timedelta(minutes=minutes)


def facts(**fields):
    """Return facts of two hosts and a server on each."""
    return facts_.Facts(
        **{
            'disks': {
                uuid: facts_.Disk(uuid, host, total_gb=100)
                for uuid, host in (
                    ('a1', 'host-a'),
                    ('a2', 'host-a'),
                    ('b1', 'host-b'),
                )
            },
            'claims': {'a1': {'s1': 10}, 'a2': {'s1': 10}, 'b1': {'s2': 20}},
            'vdisks': [
                facts_.VDisk('v1', 'a1', 10, 's1', device='vdb'),
                facts_.VDisk('v2', 'a2', 10, 's1', device='vdc'),
                facts_.VDisk('v3', 'b1', 5),
            ],
            'servers': {
                's1': facts_.Server('s1', 'web', 'ACTIVE', minutes_ago(60)),
                's2': facts_.Server('s2', 'db', 'ACTIVE', minutes_ago(60)),
            },
            **fields,
        }
    )


def rows(found):
    return [
        (one.host, one.server, one.device, one.disk, one.row.status)
        for one in vdisk_map.entries(found)
    ]


class EntriesTest(base.BaseTestCase):
    def test_claims_beside_vdisks(self):
        self.assertEqual(
            [
                ('host-a', 'web', 'vdb', 'a1', 'ok'),
                ('host-a', 'web', 'vdc', 'a2', 'ok'),
                ('host-b', 'db', '', 'b1', 'pending'),
                ('host-b', '', '', 'b1', 'unclaimed'),
            ],
            rows(facts()),
        )

    def test_one_host(self):
        self.assertEqual(
            ['host-b'],
            [*{row[0] for row in rows(facts().of_host('host-b'))}],
        )

    def test_host_without_its_domain(self):
        disks = {'a1': facts_.Disk('a1', 'host-a.example.org')}
        found = facts(disks=disks).of_host('host-a')
        self.assertEqual(['a1'], list(found.disks))
        self.assertEqual(['a1'], list(found.claims))

    def test_select(self):
        found = vdisk_map.entries(facts())
        for server in ('web', 's1'):
            self.assertEqual(
                ['v1', 'v2'],
                [
                    one.row.volume_id
                    for one in vdisk_map.select(found, server=server)
                ],
            )
        self.assertEqual(
            ['db'],
            [one.server for one in vdisk_map.select(found, status='pending')],
        )


class MovingTest(base.BaseTestCase):
    """A server has moved to host-b, and its data is on host-c."""

    def moving(
        self, *sizes_gb, claims=None, source='host-c.example.org', **fields
    ):
        return facts(
            claims=claims or {'b1': {'s2': 20}},
            vdisks=[],
            moving=[
                facts_.MovingVDisk(
                    f'v{n}', size, 's2', 'host-b', source, 'vdb'
                )
                for n, size in enumerate(sizes_gb)
            ],
            **fields,
        )

    def rows(self, found):
        return [
            (
                one.host,
                one.device,
                one.row.claimed_disk,
                one.row.actual_disk,
                one.row.size_gb,
                one.status,
            )
            for one in vdisk_map.entries(found)
        ]

    def test_it_fills_its_claim(self):
        moving = ('host-b', 'vdb', 'b1', None, 10, 'moving from host-c')
        self.assertEqual([moving] * 2, self.rows(self.moving(10, 10)))
        pending = ('host-b', '', 'b1', None, 10, 'pending')
        self.assertEqual([moving, pending], self.rows(self.moving(10)))

    def test_move_that_ends(self):
        found = self.moving(20, source='', down_hosts=frozenset(['host-c']))
        row = ('host-b', 'vdb', 'b1', None, 20, 'moving')
        self.assertEqual([row], self.rows(found))
        entries = vdisk_map.entries(found)
        self.assertEqual([], vdisk_map.findings(found, entries, NOW))

    def test_without_a_claim(self):
        self.assertEqual(
            [
                ('host-b', 'vdb', None, None, 30, 'moving from host-c'),
                ('host-b', '', 'b1', None, 20, 'pending'),
            ],
            self.rows(self.moving(30)),
        )
        unclaimed = self.moving(30, claims={'a1': {'s1': 10}})
        self.assertIn(
            ('host-b', 'vdb', None, None, 30, 'moving from host-c'),
            self.rows(unclaimed),
        )

    def test_findings(self):
        for down, expected in (
            ((), []),
            (('host-a',), []),
            (('host-c.example.org',), [('moving', 'host-b', 'v0')]),
        ):
            found = self.moving(20, down_hosts=frozenset(down))
            self.assertEqual(
                expected,
                [
                    (one.kind, one.host, one.subject)
                    for one in vdisk_map.findings(
                        found, vdisk_map.entries(found), NOW
                    )
                ],
            )

    def test_one_host(self):
        found = self.moving(20)
        self.assertEqual(1, len(self.rows(found.of_host('host-b'))))
        self.assertEqual(0, len(self.rows(found.of_host('host-a'))))


class FindingsTest(base.BaseTestCase):
    def kinds(self, found, minutes=10):
        return [
            (one.kind, one.host, one.subject)
            for one in vdisk_map.findings(
                found, vdisk_map.entries(found), NOW, minutes
            )
        ]

    def test_claim_without_vdisks(self):
        self.assertEqual([('pending', 'host-b', 's2')], self.kinds(facts()))
        self.assertEqual([], self.kinds(facts(), minutes=61))

    def test_claim_that_may_still_be_filled(self):
        for server in (
            facts_.Server('s2', 'db', 'ACTIVE', minutes_ago(9)),
            facts_.Server('s2', 'db', 'BUILD', minutes_ago(60)),
            facts_.Server('s2', 'db', 'VERIFY_RESIZE', minutes_ago(60)),
        ):
            self.assertEqual([], self.kinds(facts(servers={'s2': server})))

    def test_consumer_that_is_no_server(self):
        self.assertEqual([], self.kinds(facts(servers={})))

    def test_host_whose_vdisks_are_not_known(self):
        self.assertEqual(
            [('silent', 'host-b', 'host-b')],
            self.kinds(facts(missing_hosts=('host-b',))),
        )

    def test_disk_that_nobody_could_look_at(self):
        found = facts(
            vdisks=[facts_.VDisk('v1', 'a1', 10, 's1')],
            unseen=frozenset(['a2', 'b1']),
        )
        self.assertEqual([], self.kinds(found))
        # it takes no vdisk of another disk for its own
        found = facts(
            vdisks=[facts_.VDisk(f'v{n}', 'a1', 10, 's1') for n in range(2)],
            unseen=frozenset(['a2', 'b1']),
        )
        self.assertEqual(
            ['ok', 'unclaimed', 'pending', 'pending'],
            [row[-1] for row in rows(found)],
        )

    def test_claims_of_a_server_are_one_finding(self):
        found = facts(claims={'a1': {'s2': 1}, 'a2': {'s2': 2}}, vdisks=[])
        texts = [
            one.text
            for one in vdisk_map.findings(found, vdisk_map.entries(found), NOW)
        ]
        self.assertEqual(1, len(texts))
        self.assertIn('3 GiB', texts[0])

    def test_elsewhere_than_claimed(self):
        disks = dict(facts().disks)
        disks['a2'] = facts_.Disk('a2', 'host-a', health=constants.HUNG)
        found = facts(
            disks=disks,
            claims={'a1': {'s1': 10}},
            vdisks=[facts_.VDisk('v1', 'a2', 10, 's1')],
        )
        self.assertEqual(
            [('health', 'host-a', 'a2'), ('pending', 'host-a', 's1')],
            self.kinds(found),
        )

    def test_a_vdisk_that_was_extended(self):
        vdisks = [
            facts_.VDisk('v1', 'a1', 30, 's1'),
            facts_.VDisk('v2', 'a2', 10, 's1'),
        ]
        found = facts(
            claims={'a1': {'s1': 10}, 'a2': {'s1': 10}}, vdisks=vdisks
        )
        self.assertEqual([], self.kinds(found))


class DiskTest(base.BaseTestCase):
    def test_room(self):
        disk = facts_.Disk('d', 'h', total_gb=9, reserved_gb=2, claimed_gb=3)
        self.assertEqual(4, disk.free_gb)

    def test_oversold(self):
        self.assertEqual(
            0, facts_.Disk('d', 'h', total_gb=5, claimed_gb=9).free_gb
        )

    def test_not_offered(self):
        disk = facts_.Disk('d', 'h', total_gb=9, health=constants.MISSING)
        self.assertEqual(0, disk.free_gb)


class ShortNamesTest(base.BaseTestCase):
    @given(st.lists(st.uuids().map(str), max_size=20))
    def test_they_tell_names_apart(self, names):
        short = facts_.short_names(names)
        self.assertEqual(set(names), set(short))
        self.assertEqual(len(set(names)), len(set(short.values())))
        for name, start in short.items():
            self.assertTrue(name.startswith(start))
            self.assertLessEqual(4, len(start))

    def test_no_longer_than_needed(self):
        self.assertEqual(
            {'abcdef': 'abcde', 'abcdxx': 'abcdx'},
            facts_.short_names(['abcdef', 'abcdxx']),
        )
