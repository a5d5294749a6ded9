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

from hypothesis import given
from hypothesis import strategies as st
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.placement import inventory
from nova_diskplacer.placement.client import GB
from nova_diskplacer.placement.client import MBPS
from tests.fakes import disks as fake_disks

SERVERS = ['server-1', 'server-2', 'server-3']


def disk(*owned, **values):
    """Return a disk of 100 GiB with a vdisk for each (owner, GiB)."""
    held = [
        fake_disks.make_vdisk(n, owner, gb)
        for n, (owner, gb) in enumerate(owned)
    ]
    return fake_disks.make_disk('disk', held=held, **values)


def total(owned, server):
    return sum(gb for owner, gb in owned if owner == server)


class FiguresTest(base.BaseTestCase):
    def test_an_empty_disk(self):
        self.assertEqual(
            inventory.DiskFigures(100, 0, 0, 150, 0),
            inventory.compute_figures(disk(), {}),
        )

    def test_claims_are_not_reserved(self):
        found = inventory.compute_figures(
            disk(('server-1', 30)), {'server-1': {GB: 30, MBPS: 50}}
        )
        self.assertEqual(inventory.DiskFigures(100, 0, 30, 150, 50), found)
        self.assertEqual(70, found.free_gb)

    def test_what_no_claim_covers_is_reserved(self):
        found = inventory.compute_figures(
            disk(
                ('server-1', 30), ('server-1', 5), ('server-2', 7), (None, 2)
            ),
            {'server-1': {GB: 30}, 'server-3': {GB: 20}},
        )
        self.assertEqual(5 + 7 + 2, found.reserved_gb)
        self.assertEqual(50, found.used_gb)
        self.assertEqual(36, found.free_gb)

    def test_a_disk_without_a_whole_gib_offers_nothing(self):
        # an inventory of 0 is not possible
        found = inventory.compute_figures(disk(total_gb=0), {})
        self.assertEqual((1, 1), (found.total_gb, found.reserved_gb))

    def test_a_disk_that_is_drained(self):
        """It offers nothing, and has the room that it has."""
        owned = (None, 2), ('server-1', 30)
        claims = {'server-1': {GB: 30, MBPS: 50}}
        idle = inventory.compute_figures(disk(*owned), claims)
        found = inventory.compute_figures(disk(*owned, draining=True), claims)
        self.assertEqual(idle, found)
        self.assertEqual(68, found.free_gb)
        self.assertEqual(
            (100, -30), (found.offered.reserved_gb, found.offered.free_gb)
        )
        self.assertEqual(idle, idle.offered)

    def test_oversold(self):
        found = inventory.compute_figures(
            disk((None, 60)), {'server-1': {GB: 60}}
        )
        self.assertEqual(-20, found.free_gb)

    @given(
        st.lists(
            st.tuples(
                st.sampled_from([None, *SERVERS, 'stranger']),
                st.integers(1, 30),
            ),
            max_size=8,
        ),
        st.dictionaries(st.sampled_from(SERVERS), st.integers(0, 60)),
    )
    def test_room_is_what_neither_claim_nor_vdisk_takes(self, owned, claims):
        found = inventory.compute_figures(
            disk(*owned), {server: {GB: gb} for server, gb in claims.items()}
        )
        # each server takes what it claims, or what it has if that is more
        taken = total(owned, None) + sum(
            max(total(owned, server), claims.get(server, 0))
            for server in [*SERVERS, 'stranger']
        )
        self.assertEqual(100 - taken, found.free_gb)
        self.assertEqual(sum(claims.values()), found.used_gb)
        self.assertGreaterEqual(found.reserved_gb, 0)
        self.assertLessEqual(found.reserved_gb, sum(gb for _, gb in owned))


class WithdrawnTest(base.BaseTestCase):
    def test_all_is_reserved(self):
        self.assertEqual(
            inventory.DiskFigures(100, 100, 30, 150, 20),
            inventory.fully_reserved(
                {GB: {'total': 100, 'reserved': 5}, MBPS: {'total': 150}},
                {'server-1': {GB: 30, MBPS: 20}},
            ),
        )

    def test_never_published(self):
        self.assertEqual(
            inventory.DiskFigures(1, 1, 0, 1, 0),
            inventory.fully_reserved({}, {}),
        )


class Provider:
    """A client that knows one provider.

    ``rivals`` are called, one for each writing, just before it.
    """

    def __init__(self, *rivals):
        self.generation = 1
        self.held = {}
        self.claims = {}
        self.rivals = list(rivals)
        self.writes = 0

    def inventories(self, uuid):
        return self.generation, dict(self.held)

    def provider_allocations(self, uuid):
        return dict(self.claims)

    def set_inventories(self, uuid, generation, inventories):
        if self.rivals:
            self.rivals.pop(0)()
        if generation != self.generation:
            raise exception.Conflict('generation')
        self.writes += 1
        self.generation += 1
        self.held = inventories

    def claim(self, server, gb):
        self.claims[server] = {GB: gb}
        self.generation += 1

    @property
    def gb(self):
        return self.held[GB]['total'], self.held[GB]['reserved']


class SyncDiskTest(base.BaseTestCase):
    def sync(self, provider, found):
        return inventory.sync_disk(provider, 'disk', lambda: found)

    def test_publishes(self):
        provider = Provider()
        found = self.sync(provider, disk((None, 10)))
        self.assertEqual(inventory.DiskFigures(100, 10, 0, 150, 0), found)
        self.assertEqual(
            {
                GB: {
                    'total': 100,
                    'reserved': 10,
                    'min_unit': 1,
                    'max_unit': 2147483647,
                    'step_size': 1,
                    'allocation_ratio': 1.0,
                },
                MBPS: {
                    'total': 150,
                    'reserved': 0,
                    'min_unit': 1,
                    'max_unit': 2147483647,
                    'step_size': 1,
                    'allocation_ratio': 1.0,
                },
            },
            provider.held,
        )

    def test_a_disk_that_has_less_than_is_claimed(self):
        """Placement changes no claim above the largest unit, even to less."""
        provider = Provider()
        self.sync(provider, disk())
        provider.claim('server-1', 90)
        self.sync(provider, disk(total_gb=80, mbps=120))
        for name, before in ((GB, 100), (MBPS, 150)):
            self.assertLess(provider.held[name]['total'], before)
            self.assertGreaterEqual(provider.held[name]['max_unit'], before)

    def test_writes_nothing_that_is_there_already(self):
        provider = Provider()
        self.sync(provider, disk())
        self.assertEqual(1, provider.writes)
        self.sync(provider, disk())
        self.assertEqual(1, provider.writes)

    def test_corrects_what_somebody_changed(self):
        provider = Provider()
        self.sync(provider, disk())
        provider.held[GB]['allocation_ratio'] = 16.0
        self.sync(provider, disk())
        self.assertEqual(1.0, provider.held[GB]['allocation_ratio'])

    def test_removes_what_somebody_added(self):
        provider = Provider()
        provider.held['DISK_GB'] = {'total': 100}
        self.sync(provider, disk())
        self.assertEqual({GB, MBPS}, provider.held.keys())

    def test_sees_a_claim_that_comes_while_it_writes(self):
        provider = Provider()
        provider.rivals.append(lambda: provider.claim('server-1', 30))
        found = self.sync(provider, disk(('server-1', 30)))
        self.assertEqual((0, 30), (found.reserved_gb, found.used_gb))
        self.assertEqual((100, 0), provider.gb)

    def test_sees_a_claim_that_comes_while_there_is_nothing_to_write(self):
        provider = Provider()
        self.sync(provider, disk())
        read = provider.provider_allocations

        def rival(uuid):
            claims = read(uuid)
            if not provider.claims:
                provider.claim('server-1', 30)
            return claims

        provider.provider_allocations = rival
        self.assertEqual(30, self.sync(provider, disk()).used_gb)

    def test_looks_at_the_disk_after_the_provider_was_read(self):
        provider = Provider()
        looks = []

        def look():
            # the driver has just bound a vdisk and said so
            if not looks:
                self.sync(provider, disk((None, 10)))
            looks.append(provider.generation)
            return disk((None, 10)) if len(looks) > 1 else disk()

        inventory.sync_disk(provider, 'disk', look)
        self.assertEqual(2, len(looks))
        self.assertEqual((100, 10), provider.gb)

    def test_gives_up_on_endless_conflicts(self):
        provider = Provider()
        provider.rivals.extend([lambda: provider.claim('server-1', 1)] * 1000)
        error = self.assertRaises(
            exception.Conflict, self.sync, provider, disk()
        )
        self.assertIn('disk', str(error))
        self.assertEqual(0, provider.writes)

    def test_of_a_disk_that_is_drained_nothing_is_offered(self):
        provider = Provider()
        provider.claim('server-1', 10)
        found = self.sync(
            provider, disk(('server-1', 10), (None, 5), draining=True)
        )
        self.assertEqual((5, 85), (found.reserved_gb, found.free_gb))
        self.assertEqual((100, 100), provider.gb)
        self.sync(provider, disk(('server-1', 10), (None, 5)))
        self.assertEqual((100, 5), provider.gb)

    def test_more_reserved_than_there_is(self):
        # Placement refuses a reserve above the total
        provider = Provider()
        found = self.sync(provider, disk((None, 90), total_gb=80))
        self.assertEqual((80, 80), provider.gb)
        self.assertEqual(-10, found.free_gb)

    def test_unhealthy_disks_are_not_offered_but_keep_their_size(self):
        provider = Provider()
        self.sync(provider, disk(('server-1', 10)))
        provider.claim('server-1', 10)
        for health in (discover.READ_ONLY, discover.MISSING):
            gone = discover.missing('disk', '/disks/disk')
            found = self.sync(
                provider, dataclasses.replace(gone, health=health)
            )
            self.assertEqual((100, 100), provider.gb)
            self.assertEqual(150, provider.held[MBPS]['total'])
            self.assertEqual(10, found.used_gb)
        self.sync(provider, disk(('server-1', 10)))
        self.assertEqual((100, 0), provider.gb)


class FitsTestCase(base.BaseTestCase):
    def test_what_fits(self):
        for reserved, claimed, mbps, fits in (
            (40, 60, 150, True),
            (41, 60, 150, False),
            (40, 61, 150, False),
            (40, 60, 151, False),
        ):
            figures = inventory.DiskFigures(100, reserved, claimed, 150, mbps)
            if fits:
                inventory.check_fits('disk', figures)
                continue
            error = self.assertRaises(
                exception.DiskError, inventory.check_fits, 'disk', figures
            )
            self.assertIn('disk disk', str(error))
