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

from hypothesis import given
from hypothesis import strategies as st
from oslotest import base

from nova_diskplacer.agent import build_host_status
from nova_diskplacer.agent import reported_disks
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement import inventory
from tests.fakes import disks as fake_disks

GIB = 1 << 30


def vdisk(volume, server, gb):
    return VDisk(f'volume-{volume}', volume, server, gb * GIB)


def reported(uuid, claims, vdisks=(), **fields):
    disk = fake_disks.make_disk(uuid, vdisks=tuple(vdisks), **fields)
    figures = inventory.DiskFigures(
        100, 0, sum(claims.values()), 150, 0, claims
    )
    return reported_disks.ReportedDisk(disk, figures)


def build(found, since=None, disks=None):
    return build_host_status.build_disks(
        disks or [one.disk for one in found], found, since or {}
    )


class BuildDisksTest(base.BaseTestCase):
    def test_a_filled_claim(self):
        (disk,) = build([reported('a', {'s': 10}, [vdisk('1', 's', 10)])])
        self.assertEqual(1, disk.vdisks)
        self.assertEqual(
            (0, None),
            (disk.pending_gb, disk.pending_since),
        )

    def test_claims_without_vdisks_are_pending(self):
        found = [reported('a', {'s': 10, 't': 20}), reported('b', {})]
        since = {('s', 'a'): 7.0, ('t', 'a'): 5.0, ('u', 'b'): 1.0}
        a, b = build(found, since)
        self.assertEqual((30, 5.0), (a.pending_gb, a.pending_since))
        self.assertEqual((0, None), (b.pending_gb, b.pending_since))

    def test_a_vdisk_that_was_extended_fills_its_claim(self):
        found = [reported('a', {'s': 10}, [vdisk('1', 's', 30)])]
        self.assertEqual({}, build_host_status.pending_since(found, {}, 5.0))
        (disk,) = build(found)
        self.assertEqual(0, disk.pending_gb)

    def test_vdisks_without_server_are_counted_only(self):
        (disk,) = build([reported('a', {}, [vdisk('1', None, 10)])])
        self.assertEqual((1, 0), (disk.vdisks, disk.pending_gb))

    def test_claims_on_a_missing_disk_are_not_pending(self):
        (disk,) = build([reported('a', {'s': 10}, health=discover.MISSING)])
        self.assertEqual((0, 'missing'), (disk.pending_gb, disk.health))

    def test_a_disk_without_provider_has_no_figures(self):
        (disk,) = build([], disks=[fake_disks.make_disk('a')])
        self.assertIsNone(disk.figures)

    @given(
        st.dictionaries(
            st.sampled_from('stu'), st.integers(1, 30), min_size=1
        ),
        st.lists(st.tuples(st.sampled_from('stu'), st.integers(1, 10))),
    )
    def test_no_more_is_pending_than_is_claimed(self, claims, held):
        vdisks = [
            vdisk(str(number), server, gb)
            for number, (server, gb) in enumerate(held)
        ]
        (disk,) = build([reported('a', claims, vdisks)])
        self.assertLessEqual(disk.pending_gb, sum(claims.values()))
        self.assertGreaterEqual(
            disk.pending_gb,
            sum(claims.values()) - sum(gb for _, gb in held),
        )


class PendingSinceTest(base.BaseTestCase):
    def test_a_claim_keeps_the_time_when_it_was_first_seen(self):
        found = [reported('a', {'s': 10})]
        since = build_host_status.pending_since(found, {}, 1.0)
        self.assertEqual({('s', 'a'): 1.0}, since)
        found = [reported('a', {'s': 10, 't': 10})]
        since = build_host_status.pending_since(found, since, 2.0)
        self.assertEqual({('s', 'a'): 1.0, ('t', 'a'): 2.0}, since)

    def test_a_claim_that_is_filled_or_gone_is_forgotten(self):
        found = [reported('a', {'s': 10}, [vdisk('1', 's', 10)])]
        before = {('s', 'a'): 1.0, ('t', 'a'): 1.0}
        self.assertEqual(
            {}, build_host_status.pending_since(found, before, 2.0)
        )
