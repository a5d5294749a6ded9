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

import testtools

from nova_diskplacer import exception
from nova_diskplacer.placement import claim_moves
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import inventory
from tests.fakes import disks as fake_disks
from tests.functional.agent import base

DISK = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'
TARGET = '7d1f2b0c-5e0f-4a63-9a55-0e9f5b1c2d22'
SERVER, OTHER = (
    f'7f3c2f1e-0000-4000-8000-00000000000{number}' for number in (1, 2)
)
GB, MBPS = placement_client.GB, placement_client.MBPS


class ClaimHeldTestCase(testtools.TestCase):
    """A disk of 10 GiB, of which a vdisk of a server takes 6."""

    def setUp(self):
        super().setUp()
        self.placement = self.useFixture(base.Placement())
        self.client = placement_client.PlacementClient(self.placement)
        self.root = self.placement.start_compute()
        self.placement.ask(
            'put',
            f'/resource_providers/{self.root}/inventories',
            {
                'resource_provider_generation': 0,
                'inventories': {'VCPU': {'total': 4}},
            },
        )
        self.disk = fake_disks.make_disk(
            DISK, 10, held=[fake_disks.make_vdisk('volume', SERVER, 6)]
        )
        self.client.ensure_names()
        self.client.create_provider(DISK, 'disk', self.root)
        self.sync()
        self.placement.claim(SERVER, {self.root: {'VCPU': 1}})

    def sync(self):
        return inventory.sync_disk(self.client, DISK, lambda: self.disk)

    def lose_answer(self, name):
        """Repeat the next request of a method, as after a lost answer."""
        send = getattr(self.placement, name)

        def twice(url, **arguments):
            setattr(self.placement, name, send)
            send(url, **arguments)
            return send(url, **arguments)

        setattr(self.placement, name, twice)

    def claim(self, gb=6, mbps=50):
        inventory.ensure_claim(
            self.client,
            DISK,
            SERVER,
            {GB: gb, MBPS: mbps},
            lambda: self.disk,
        )

    def test_what_was_reserved_is_claimed(self):
        self.assertEqual((10, 6), self.placement.inventory(DISK))
        for _ in range(2):
            self.claim()
            self.assertEqual((10, 0), self.placement.inventory(DISK))
            self.assertEqual(
                {
                    self.root: {'VCPU': 1},
                    DISK: {GB: 6, MBPS: 50},
                },
                self.client.allocations(SERVER).resources,
            )
        self.assertEqual('project', self.client.allocations(SERVER).project_id)
        # agent and driver have nothing to add
        self.assertEqual(4, self.sync().free_gb)
        self.assertEqual((10, 0), self.placement.inventory(DISK))

    def test_lost_answers(self):
        self.lose_answer('post')
        self.test_what_was_reserved_is_claimed()
        self.placement.unclaim(SERVER)
        self.lose_answer('put')
        self.sync()
        self.assertEqual((10, 6), self.placement.inventory(DISK))
        self.lose_answer('post')
        self.release({self.root: {'VCPU': 2}, DISK: {GB: 6}})

    def test_lost_answers_while_a_claim_moves(self):
        disks = {
            DISK: dataclasses.replace(self.disk, vdisks=()),
            TARGET: dataclasses.replace(self.disk, uuid=TARGET),
        }
        self.client.create_provider(TARGET, 'target', self.root)
        self.lose_answer('post')
        for uuid, disk in disks.items():
            inventory.sync_disk(self.client, uuid, lambda disk=disk: disk)
        self.placement.unclaim(SERVER)
        others = {self.root: {'VCPU': 1}}
        claim = {GB: 6, MBPS: 50}
        self.placement.claim(SERVER, {**others, DISK: claim})
        move = claim_moves.VDiskMove(
            self.client, SERVER, DISK, TARGET, 6, disks.__getitem__
        )
        for _ in range(2):
            move.follow()
            self.assertEqual(
                {**others, TARGET: claim},
                self.client.allocations(SERVER).resources,
            )
            for disk in disks:
                self.assertEqual((10, 0), self.placement.inventory(disk))

    def test_what_is_to_come_while_a_claim_moves(self):
        """It stays, whatever is lost or repeated."""
        beside = fake_disks.make_vdisk('2', SERVER, 2)
        disks = {
            DISK: self.disk,
            TARGET: dataclasses.replace(
                self.disk, uuid=TARGET, vdisks=(*self.disk.vdisks, beside)
            ),
        }
        self.client.create_provider(TARGET, 'target', self.root)
        for uuid, disk in disks.items():
            inventory.sync_disk(self.client, uuid, lambda disk=disk: disk)
        self.claim(8, 80)
        others = {self.root: {'VCPU': 1}}
        move = claim_moves.VDiskMove(
            self.client, SERVER, DISK, TARGET, 6, disks.__getitem__, 2
        )
        self.lose_answer('post')
        for _ in range(2):
            move.follow()
            self.assertEqual(
                {**others, DISK: {GB: 2, MBPS: 20}, TARGET: {GB: 6, MBPS: 60}},
                self.client.allocations(SERVER).resources,
            )
            self.assertEqual((10, 4), self.placement.inventory(DISK))
            self.assertEqual((10, 2), self.placement.inventory(TARGET))
        disks[TARGET] = dataclasses.replace(self.disk, uuid=TARGET, vdisks=())
        self.lose_answer('post')
        for _ in range(2):
            move.give_back()
            self.assertEqual(
                {**others, DISK: {GB: 8, MBPS: 80}},
                self.client.allocations(SERVER).resources,
            )
            for disk in disks:
                self.assertEqual((10, 0), self.placement.inventory(disk))

    def test_on_a_full_disk(self):
        self.placement.claim(OTHER, {DISK: {GB: 4}})
        self.claim()
        self.assertEqual(0, self.sync().free_gb)

    def test_what_is_claimed_in_part(self):
        self.placement.unclaim(SERVER)
        self.placement.claim(
            SERVER, {self.root: {'VCPU': 1}, DISK: {GB: 2, MBPS: 80}}
        )
        self.sync()
        self.assertEqual((10, 4), self.placement.inventory(DISK))
        self.claim()
        self.assertEqual(
            {GB: 6, MBPS: 80}, self.client.allocations(SERVER).resources[DISK]
        )
        self.assertEqual((10, 0), self.placement.inventory(DISK))

    def test_no_room(self):
        self.placement.claim(OTHER, {DISK: {GB: 4, MBPS: 120}})
        error = self.assertRaises(exception.DiskError, self.claim)
        self.assertIn('170 of 150 MB/s', str(error))
        self.assertNotIn(DISK, self.client.allocations(SERVER).resources)
        self.assertEqual((10, 6), self.placement.inventory(DISK))

    def test_a_server_that_is_deleted_meanwhile(self):
        def deleted(method, url):
            if url == '/reshaper':
                self.placement.before = lambda *_: None
                self.placement.unclaim(SERVER)

        self.placement.before = deleted
        error = self.assertRaises(exception.PlacementError, self.claim)
        self.assertIn('no allocations', str(error))
        self.assertEqual({}, self.client.provider_allocations(DISK))

    def test_a_claim_that_comes_in_between(self):
        def claimed(method, url):
            if url == '/reshaper':
                self.placement.before = lambda *_: None
                self.placement.claim(OTHER, {DISK: {GB: 4}})

        self.placement.before = claimed
        self.claim()
        self.assertEqual(
            {SERVER, OTHER}, {*self.client.provider_allocations(DISK)}
        )
        self.assertEqual((10, 0), self.placement.inventory(DISK))

    def release(self, claims):
        """Drop a migration's claim on the disk.

        :param claims: of the migration; the agent has not looked yet.
        """
        self.claim_unreserved(claims)
        for _ in range(2):
            inventory.release_claim(
                self.client, DISK, OTHER, lambda: self.disk
            )
        self.assertEqual({}, self.client.provider_allocations(DISK))
        # the vdisk that it was for is reserved in the same moment
        self.assertEqual((10, 6), self.placement.inventory(DISK))

    def claim_unreserved(self, claims):
        generation, found = self.client.inventories(DISK)
        found[GB]['reserved'] = 0
        self.client.set_inventories(DISK, generation, found)
        self.placement.claim(OTHER, claims)

    def test_the_claim_of_a_migration_is_dropped(self):
        self.release({DISK: {GB: 6, MBPS: 50}})
        self.assertEqual({}, self.client.allocations(OTHER).resources)

    def test_what_else_a_migration_claims_stays(self):
        self.release({self.root: {'VCPU': 2}, DISK: {GB: 6}})
        self.assertEqual(
            {self.root: {'VCPU': 2}}, self.client.allocations(OTHER).resources
        )

    def test_a_migration_that_gives_its_claim_back_meanwhile(self):
        def given_back(method, url):
            if url == '/reshaper':
                self.placement.before = lambda *_: None
                self.placement.unclaim(OTHER)
                self.placement.unclaim(SERVER)
                self.placement.claim(SERVER, {DISK: {GB: 6}})

        self.claim_unreserved({DISK: {GB: 6}})
        self.placement.before = given_back
        inventory.release_claim(self.client, DISK, OTHER, lambda: self.disk)
        self.assertEqual(
            {SERVER: {GB: 6}}, self.client.provider_allocations(DISK)
        )
        self.assertEqual({}, self.client.allocations(OTHER).resources)
