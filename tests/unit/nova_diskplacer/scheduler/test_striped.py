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

import numpy as np

from nova_diskplacer import flavor
from nova_diskplacer.scheduler import plan
from nova_diskplacer.scheduler.plan import BoundVDisk
from tests.unit.nova_diskplacer.scheduler import fakes

SERVER = 'server'


def request(**changes):
    fields = {
        'vdisks': 1,
        'vdisk_gb': 100,
        'mapping': 'striped',
        'stripe_disks': 3,
        'vdisk_mbps': 100,
        **changes,
    }
    return flavor.VDiskRequest(**fields)


def disks(number, held=(), **changes):
    return [
        fakes.disk(
            number,
            index,
            vdisks=list(held) if index < 3 else [],
            **{'can_stripe': True, **changes},
        )
        for index in range(4)
    ]


class StripedPlanTest(unittest.TestCase):
    def choose(self, cache, what, bound=False):
        own = ()
        if bound:
            own = tuple(cache.bound_vdisks(['volume']))
        found = plan.DiskPlan(what, own)
        free = cache.free_capacity(cache.rows([fakes.host_uuid(0)]))
        choice = found.choose(free)
        return (
            choice,
            free.disks[0],
            found.allocations(free, choice.counts[0]),
        )

    def test_claims(self):
        cache = fakes.make_cache(fakes.report(0, *disks(0)))
        choice, uuids, claims = self.choose(cache, request())
        self.assertTrue(choice.fits[0])
        part = {plan.GB: 34, plan.MBPS: 34}
        self.assertEqual(dict.fromkeys(uuids[:3], part), claims)

    def test_a_disk_of_the_stripe_is_missing(self):
        """The piece that nobody reports is not chosen again."""
        piece = fakes.vdisk('volume', SERVER, 34)
        report = fakes.report(0, *disks(0, [piece])[1:])
        cache = fakes.make_cache(report)
        choice, uuids, claims = self.choose(cache, request(), bound=True)
        self.assertTrue(choice.fits[0])
        part = {plan.GB: 34, plan.MBPS: 34}
        self.assertEqual(dict.fromkeys(uuids[:2], part), claims)

    def test_several_vdisks(self):
        cache = fakes.make_cache(fakes.report(0, *disks(0)))
        what = {'vdisks': 3, 'vdisk_gb': 30, 'vdisk_mbps': 0}
        # a disk for each piece without more: 9 of them
        self.assertFalse(self.choose(cache, request(**what))[0].fits[0])
        for per_disk in (3, 64):
            choice, _, claims = self.choose(
                cache, request(vdisks_per_disk=per_disk, **what)
            )
            self.assertEqual([3, 2, 2, 2], choice.counts[0].tolist())
            self.assertEqual(90, sum(one[plan.GB] for one in claims.values()))
        # one vdisk cannot have two pieces on a disk
        what = request(vdisks=1, stripe_disks=5, vdisks_per_disk=2)
        self.assertFalse(self.choose(cache, what)[0].fits[0])

    def test_only_where_a_backend_can_stripe(self):
        for one in (
            fakes.report(0, *disks(0, can_stripe=False)),
            # an agent of an earlier release
            fakes.report(0, *(fakes.disk(0, index) for index in range(4))),
            fakes.report(0, *disks(0)[:2], fakes.disk(0, 2), fakes.disk(0, 3)),
        ):
            cache = fakes.make_cache(one)
            self.assertFalse(self.choose(cache, request())[0].fits[0])
            plain = request(stripe_disks=1, mapping='round_robin')
            self.assertTrue(self.choose(cache, plain)[0].fits[0])

    def test_bound_pieces(self):
        """A server that comes back keeps its stripe."""
        held = [fakes.vdisk('volume', SERVER, 34)]
        cache = fakes.make_cache(fakes.report(0, *disks(0, held)))
        pieces = cache.bound_vdisks(['volume', 'other'])
        self.assertEqual(
            [
                BoundVDisk(
                    'volume',
                    fakes.host_uuid(0),
                    fakes.disk_uuid(0, index),
                    SERVER,
                    34,
                    'host0',
                )
                for index in range(3)
            ],
            pieces,
        )
        choice, uuids, claims = self.choose(cache, request(), bound=True)
        self.assertTrue(choice.fits[0])
        self.assertFalse(np.any(choice.counts))
        self.assertEqual(
            dict.fromkeys(uuids[:3], {plan.GB: 34, plan.MBPS: 34}), claims
        )
        # and gets its other vdisk beside it
        choice, _, _ = self.choose(
            cache, request(vdisks=2, vdisks_per_disk=2), bound=True
        )
        self.assertEqual(3, choice.counts[0].sum())
        self.assertEqual(1, choice.counts[0].max())
        # a new report without them
        cache.update(fakes.report(0, *disks(0)))
        self.assertEqual([], cache.bound_vdisks(['volume']))

    def test_elastic(self):
        """The narrowest stripe is claimed, and what a wide one has is kept."""
        what = request(mapping='elastic', stripe_disks=1, widest_disks=4)
        cache = fakes.make_cache(fakes.report(0, *disks(0)))
        choice, uuids, claims = self.choose(cache, what)
        self.assertTrue(choice.fits[0])
        self.assertEqual({uuids[0]: {plan.GB: 100, plan.MBPS: 100}}, claims)
        two = request(
            mapping='elastic', stripe_disks=2, widest_disks=4, vdisk_gb=90
        )
        _, uuids, claims = self.choose(cache, two)
        part = {plan.GB: 46, plan.MBPS: 50}
        self.assertEqual(dict.fromkeys(uuids[:2], part), claims)
        # it was widened
        wide = [
            fakes.disk(
                0,
                index,
                vdisks=[fakes.vdisk('volume', SERVER, gb)] if gb else [],
                can_stripe=True,
            )
            for index, gb in enumerate((50, 25, 25, 0))
        ]
        cache = fakes.make_cache(fakes.report(0, *wide))
        for vdisks, more in ((1, 0), (2, 1)):
            several = dataclasses.replace(what, vdisks=vdisks)
            choice, uuids, claims = self.choose(cache, several, bound=True)
            self.assertTrue(choice.fits[0])
            self.assertEqual(more, choice.counts[0].sum())
        claims = self.choose(cache, what, bound=True)[2]
        self.assertEqual(
            {
                uuids[0]: {plan.GB: 50, plan.MBPS: 50},
                uuids[1]: {plan.GB: 25, plan.MBPS: 25},
                uuids[2]: {plan.GB: 25, plan.MBPS: 25},
            },
            claims,
        )
        # not on disks without legs
        plain = [fakes.disk(0, index) for index in range(4)]
        cache = fakes.make_cache(fakes.report(0, *plain))
        self.assertFalse(self.choose(cache, what)[0].fits[0])
