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

import collections

from hypothesis import given
from hypothesis import strategies as st
from oslotest import base

from nova_diskplacer.placement import match_claims

DISKS = st.sampled_from(['disk-a', 'disk-b', 'disk-c', 'disk-d'])
CLAIMS = st.dictionaries(DISKS, st.integers(0, 40))
VDISKS = st.lists(st.tuples(DISKS, st.integers(1, 20)), max_size=10)


def actual(places):
    """Return a vdisk for each (disk, GiB)."""
    return [
        {'volume_id': f'volume-{number}', 'disk': disk, 'size_gb': gb}
        for number, (disk, gb) in enumerate(places)
    ]


def match(claims, *places):
    """Return the rows of (disk, GiB) vdisks, as tuples."""
    return [
        (row.volume_id, row.claimed_disk, row.actual_disk, row.size_gb,
         row.status)
        for row in match_claims.match(claims, actual(places))
    ]  # fmt: skip


class PairTest(base.BaseTestCase):
    def test_nothing(self):
        self.assertEqual([], match({}))
        self.assertEqual([], match({'a': 0}))

    def test_claimed_and_there(self):
        self.assertEqual(
            [('volume-0', 'a', 'a', 10, 'ok')], match({'a': 10}, ('a', 10))
        )

    def test_claimed_and_not_bound(self):
        self.assertEqual([(None, 'a', None, 10, 'pending')], match({'a': 10}))

    def test_bound_without_a_claim(self):
        self.assertEqual(
            [('volume-0', None, 'a', 10, 'unclaimed')], match({}, ('a', 10))
        )

    def test_claims_are_filled_one_by_one(self):
        self.assertEqual(
            [
                ('volume-1', 'a', 'a', 10, 'ok'),
                ('volume-0', 'b', 'b', 10, 'ok'),
                (None, 'b', None, 10, 'pending'),
            ],
            match({'a': 10, 'b': 20}, ('b', 10), ('a', 10)),
        )

    def test_elsewhere_than_claimed(self):
        # moved by hand, or unshelved with a vdisk to come on the other disk,
        # or attached to the running server before another was deleted
        self.assertEqual(
            [
                ('volume-0', None, 'b', 10, 'unclaimed'),
                (None, 'a', None, 10, 'pending'),
            ],
            match({'a': 10}, ('b', 10)),
        )

    def test_extended_beyond_its_claim(self):
        self.assertEqual(
            [('volume-0', None, 'a', 30, 'unclaimed')],
            match({'a': 10}, ('a', 30)),
        )
        # two of 10, of which one was extended, and one to come
        self.assertEqual(
            [
                ('volume-0', 'a', 'a', 10, 'ok'),
                ('volume-1', 'a', 'a', 15, 'ok'),
                (None, 'a', None, 5, 'pending'),
            ],
            match({'a': 30}, ('a', 10), ('a', 15)),
        )

    def test_hot_plugged_beside_what_fills_the_claim(self):
        # in whatever order their volumes' names are
        self.assertEqual(
            [
                ('volume-1', 'a', 'a', 10, 'ok'),
                ('volume-0', None, 'a', 4, 'unclaimed'),
            ],
            match({'a': 10}, ('a', 4), ('a', 10)),
        )

    def test_too_large_for_a_claim_that_is_yet_to_be_filled(self):
        self.assertEqual(
            [
                ('volume-0', None, 'b', 30, 'unclaimed'),
                (None, 'a', None, 10, 'pending'),
            ],
            match({'a': 10}, ('b', 30)),
        )

    def test_two_files_of_one_volume(self):
        # copied by hand: one of them is too much
        vdisk = {'volume_id': 'volume', 'disk': 'a', 'size_gb': 10}
        rows = match_claims.match({'a': 10}, [vdisk, vdisk])
        self.assertEqual(['ok', 'unclaimed'], [row.status for row in rows])

    @given(CLAIMS, VDISKS)
    def test_conservation(self, claims, places):
        vdisks = actual(places)
        rows = match_claims.match(claims, vdisks)
        # each vdisk is in one row, with its own place and size
        self.assertEqual(
            sorted((v['volume_id'], v['disk'], v['size_gb']) for v in vdisks),
            sorted(
                (row.volume_id, row.actual_disk, row.size_gb)
                for row in rows
                if row.volume_id is not None
            ),
        )
        # what no vdisk fills of each claim is to come
        there = collections.Counter()
        for disk, gb in places:
            there[disk] += gb
        self.assertEqual(
            {
                disk: gb - there[disk]
                for disk, gb in claims.items()
                if gb > there[disk]
            },
            {
                row.claimed_disk: row.size_gb
                for row in rows
                if row.status == match_claims.PENDING
            },
        )
        # no claim covers more than it has
        covered = collections.Counter()
        for row in rows:
            if row.status == match_claims.OK:
                covered[row.claimed_disk] += row.size_gb
        for disk, gb in covered.items():
            self.assertLessEqual(gb, claims[disk])

    @given(CLAIMS, VDISKS)
    def test_status_says_what_the_row_shows(self, claims, places):
        for row in match_claims.match(claims, actual(places)):
            shown = {
                (True, True): match_claims.PENDING,
                (True, False): match_claims.OK,
                (False, False): match_claims.UNCLAIMED,
            }[row.claimed_disk is not None, row.actual_disk is None]
            self.assertEqual(shown, row.status)

    @given(VDISKS, VDISKS)
    def test_nothing_is_to_come_where_claims_are_filled(self, bound, plugged):
        claims = collections.Counter()
        for disk, gb in bound:
            claims[disk] += gb
        statuses = [
            row.status
            for row in match_claims.match(claims, actual(bound + plugged))
        ]
        self.assertNotIn(match_claims.PENDING, statuses)
