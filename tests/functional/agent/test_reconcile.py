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

import uuid
from unittest import mock

from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer.agent import placement_sync
from nova_diskplacer.disks import discover
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import inventory
from tests.functional.agent import base


class ReconcileTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.root = self.placement.start_compute()
        self.sync = placement_sync.PlacementSync(self.client, base.NODE)

    def reconcile(self):
        """Reconcile, and return {disk: offer}."""
        offers = self.sync.reconcile(self.disks.all())
        return {offer.disk.uuid: offer for offer in offers}

    def settle(self):
        """Reconcile until a round finds nothing to do."""
        for _ in range(3):
            offers = self.reconcile()
        self.placement.requests.clear()
        return offers

    def test_each_disk_becomes_a_provider(self):
        hdd = self.disks.add()
        ssd = self.disks.add(medium='ssd', total_gb=50, mbps=400)
        self.reconcile()
        provider = self.placement.provider(hdd)
        self.assertEqual(f'{base.NODE}_disk_{hdd}', provider['name'])
        self.assertEqual(self.root, provider['parent_provider_uuid'])
        self.assertEqual(
            {'STORAGE_DISK_HDD', 'CUSTOM_DISKPLACER'},
            self.placement.traits(hdd),
        )
        self.assertEqual((100, 0), self.placement.inventory(hdd))
        self.assertEqual(
            (150, 0), self.placement.inventory(hdd, placement_client.MBPS)
        )
        self.assertEqual(
            {'STORAGE_DISK_SSD', 'CUSTOM_DISKPLACER'},
            self.placement.traits(ssd),
        )
        self.assertEqual((50, 0), self.placement.inventory(ssd))
        self.assertEqual(
            (400, 0), self.placement.inventory(ssd, placement_client.MBPS)
        )

    def test_volume_groups_have_a_trait(self):
        group, other = self.disks.add(), self.disks.add()
        naming = mock.Mock(is_entry=lambda path: path.endswith(group))
        with mock.patch(
            'nova_diskplacer.agent.provider_traits.naming', naming
        ):
            self.reconcile()
        plain = {'STORAGE_DISK_HDD', 'CUSTOM_DISKPLACER'}
        self.assertEqual(
            plain | {'CUSTOM_DISKPLACER_LVM'}, self.placement.traits(group)
        )
        self.assertEqual(plain, self.placement.traits(other))
        # prepared anew as a filesystem
        self.reconcile()
        self.assertEqual(plain, self.placement.traits(group))

    def test_the_cache_mode_is_a_trait(self):
        hdd, ssd = self.disks.add(), self.disks.add(medium='ssd')
        disks = self.disks.all()
        expected = {'STORAGE_DISK_HDD', 'CUSTOM_DISKPLACER'}
        for mode, names in (
            ('none', {'CUSTOM_DISKPLACER_CACHE_NONE'}),
            ('writeback', {'CUSTOM_DISKPLACER_CACHE_WRITEBACK'}),
            (None, set()),
        ):
            self.sync.reconcile(disks, {hdd: mode})
            self.assertEqual(expected | names, self.placement.traits(hdd))
            self.assertEqual(
                {'STORAGE_DISK_SSD', 'CUSTOM_DISKPLACER'},
                self.placement.traits(ssd),
            )
        self.sync.reconcile(disks, {hdd: 'none'})
        self.sync.reconcile(disks, {hdd: 'none'})
        self.placement.requests.clear()
        self.sync.reconcile(disks, {hdd: 'none'})
        self.assertEqual(2, len(self.placement.requests))

    def marked(self):
        """Tell whether the compute node has the trait of hosts with disks."""
        return 'CUSTOM_DISKPLACER_HOST' in self.placement.traits(self.root)

    def test_a_host_with_disks_has_a_trait(self):
        self.reconcile()
        self.assertFalse(self.marked())
        disk = self.disks.add()
        self.reconcile()
        self.assertTrue(self.marked())
        self.disks.forget(disk)
        self.reconcile()
        self.assertFalse(self.marked())

    def test_the_trait_of_the_host_is_set_beside_nova_compute(self):
        self.placement.ask('put', '/traits/CUSTOM_RACK_7')
        self.disks.add()

        def before(method, url):
            if method == 'put' and url.endswith(f'{self.root}/traits'):
                self.placement.before = lambda method, url: None
                self.placement.ask(
                    'put',
                    f'/resource_providers/{self.root}/traits',
                    {
                        'resource_provider_generation': 0,
                        'traits': ['CUSTOM_RACK_7'],
                    },
                )

        self.placement.before = before
        self.reconcile()
        self.assertEqual(
            {'CUSTOM_RACK_7', 'CUSTOM_DISKPLACER_HOST'},
            self.placement.traits(self.root),
        )
        # somebody takes it away
        self.placement.ask('delete', f'/resource_providers/{self.root}/traits')
        self.reconcile()
        self.assertTrue(self.marked())

    def test_a_host_with_a_foreign_disk_alone_has_no_trait(self):
        disk = self.disks.add()
        self.reconcile()
        self.placement.claim(
            str(uuid.uuid4()), {disk: {placement_client.GB: 10}}
        )
        there = self.placement.start_compute('compute-2')
        placement_sync.PlacementSync(self.client, 'compute-2').reconcile(
            self.disks.all()
        )
        self.assertEqual(set(), self.placement.traits(there))

    def test_a_quiet_round_asks_twice(self):
        for _ in range(12):
            self.disks.add()
        self.settle()
        self.reconcile()
        self.assertEqual(
            ['get', 'get'], [method for method, _ in self.placement.requests]
        )

    def test_a_change_touches_its_disk_alone(self):
        disk, other = self.disks.add(), self.disks.add()
        self.settle()
        self.placement.claim(
            str(uuid.uuid4()),
            {disk: {placement_client.GB: 30, placement_client.MBPS: 20}},
        )
        offers = self.reconcile()
        self.assertEqual((30, 20), offers[disk].used)
        self.assertEqual((0, 0), offers[other].used)
        self.assertFalse(
            [url for _, url in self.placement.requests if other in url]
        )

    def test_a_deleted_claim_is_noticed(self):
        # which leaves the provider's generation as it is
        disk = self.disks.add()
        server = str(uuid.uuid4())
        self.reconcile()
        self.placement.claim(server, {disk: {placement_client.GB: 30}})
        self.disks.hold(disk, server, size_gb=30)
        offers = self.settle()
        self.assertEqual((30, 0), offers[disk].used)
        self.assertEqual((100, 0), self.placement.inventory(disk))
        generation = self.placement.provider(disk)['generation']
        self.placement.unclaim(server)
        self.assertEqual(
            generation, self.placement.provider(disk)['generation']
        )
        offers = self.reconcile()
        self.assertEqual((0, 0), offers[disk].used)
        self.assertEqual((100, 30), self.placement.inventory(disk))

    def test_a_deleted_claim_is_noticed_where_all_was_full(self):
        disk = self.disks.add()
        server = str(uuid.uuid4())
        self.reconcile()
        self.placement.claim(server, {disk: {placement_client.GB: 100}})
        self.assertEqual((100, 0), self.settle()[disk].used)
        self.placement.unclaim(server)
        self.assertEqual((0, 0), self.reconcile()[disk].used)

    def test_vdisks_without_a_claim_are_reserved(self):
        disk = self.disks.add()
        server = str(uuid.uuid4())
        self.reconcile()
        self.placement.claim(server, {disk: {placement_client.GB: 10}})
        # one fills the claim, one more of the server, one of nobody
        self.disks.hold(disk, server, server, None)
        offers = self.reconcile()
        self.assertEqual((100, 20), self.placement.inventory(disk))
        self.assertEqual(20, offers[disk].figures.reserved_gb)
        self.assertEqual(10, offers[disk].figures.used_gb)
        self.disks.hold(disk)
        self.reconcile()
        self.assertEqual((100, 0), self.placement.inventory(disk))

    def test_a_conflict_is_read_again(self):
        disk = self.disks.add()
        self.settle()
        self.disks.hold(disk, None)
        rivals = []

        def before(method, url):
            if method == 'put' and not rivals:
                rivals.append(str(uuid.uuid4()))
                self.placement.claim(
                    rivals[0], {disk: {placement_client.GB: 5}}
                )

        self.placement.before = before
        offers = self.reconcile()
        self.assertEqual(1, len(rivals))
        self.assertEqual((5, 0), offers[disk].used)
        self.assertEqual((100, 10), self.placement.inventory(disk))

    def test_endless_conflicts_spoil_no_other_disk(self):
        disk, other = self.disks.add(), self.disks.add()
        self.settle()
        self.disks.hold(disk, None)
        self.disks.hold(other, None)

        def before(method, url):
            if method == 'put' and disk in url:
                self.placement.claim(
                    str(uuid.uuid4()), {disk: {placement_client.GB: 1}}
                )

        self.placement.before = before
        self.assertRaises(exception.Conflict, self.reconcile)
        self.assertEqual((100, 10), self.placement.inventory(other))
        self.placement.before = lambda method, url: None
        self.reconcile()
        self.assertEqual((100, 10), self.placement.inventory(disk))

    def test_what_is_newer_is_not_undone(self):
        # the driver makes a vdisk and reserves it between the agent's look
        # at the disks and its writing
        disk = self.disks.add()
        self.settle()
        seen = self.disks.all()
        self.disks.hold(disk, None)
        inventory.sync_disk(
            self.client, disk, lambda: discover.inspect('', disk)
        )
        self.assertEqual((100, 10), self.placement.inventory(disk))
        self.sync.reconcile(seen)
        self.assertEqual((100, 10), self.placement.inventory(disk))

    def test_unhealthy_disks_are_not_offered(self):
        disk = self.disks.add()
        server = str(uuid.uuid4())
        self.reconcile()
        self.placement.claim(server, {disk: {placement_client.GB: 10}})
        whole = self.disks.all()[0]
        self.disks.change(disk, health=discover.READ_ONLY)
        offers = self.reconcile()
        self.assertEqual((100, 100), self.placement.inventory(disk))
        self.assertEqual(discover.READ_ONLY, offers[disk].disk.health)
        self.assertIn(
            'CUSTOM_DISKPLACER_READ_ONLY', self.placement.traits(disk)
        )
        self.disks.lose(disk)
        offers = self.reconcile()
        self.assertEqual((100, 100), self.placement.inventory(disk))
        self.assertEqual(discover.MISSING, offers[disk].disk.health)
        self.assertEqual((10, 0), offers[disk].used)
        self.assertIn('CUSTOM_DISKPLACER_MISSING', self.placement.traits(disk))
        self.assertNotIn(
            'CUSTOM_DISKPLACER_READ_ONLY', self.placement.traits(disk)
        )
        self.disks.put_back(whole)
        offers = self.reconcile()
        self.assertEqual((100, 0), self.placement.inventory(disk))
        self.assertEqual(discover.OK, offers[disk].disk.health)
        self.assertNotIn(
            'CUSTOM_DISKPLACER_MISSING', self.placement.traits(disk)
        )

    def test_a_missing_disk_that_placement_never_saw(self):
        disk, other = self.disks.add(), self.disks.add()
        self.disks.lose(disk)
        self.assertEqual([other], list(self.reconcile()))
        self.assertIsNone(self.placement.inventory(disk))

    def test_a_disk_of_no_room_is_full(self):
        disk = self.disks.add(total_gb=0)
        self.reconcile()
        total, reserved = self.placement.inventory(disk)
        self.assertEqual(total, reserved)

    def test_a_forgotten_disk_loses_its_provider(self):
        disk, other = self.disks.add(), self.disks.add()
        self.reconcile()
        self.disks.forget(disk)
        self.assertEqual([other], list(self.reconcile()))
        self.assertIsNone(self.placement.inventory(disk))

    def test_a_forgotten_disk_with_claims_keeps_it(self):
        disk = self.disks.add()
        server = str(uuid.uuid4())
        self.reconcile()
        self.placement.claim(server, {disk: {placement_client.GB: 10}})
        self.disks.forget(disk)
        # as a new agent finds it, which has never seen the disk
        self.sync = placement_sync.PlacementSync(self.client, base.NODE)
        for _ in range(3):
            self.assertEqual({}, self.reconcile())
        self.assertEqual((100, 100), self.placement.inventory(disk))
        self.assertEqual(1, self.logged('servers have claims on it'))
        self.placement.unclaim(server)
        self.reconcile()
        self.assertIsNone(self.placement.inventory(disk))

    def test_a_forgotten_disk_that_comes_back(self):
        disk = self.disks.add()
        server = str(uuid.uuid4())
        self.reconcile()
        self.placement.claim(server, {disk: {placement_client.GB: 10}})
        forgotten = self.disks.forget(disk)
        self.reconcile()
        self.disks.put_back(forgotten)
        self.reconcile()
        self.assertEqual((100, 0), self.placement.inventory(disk))
        self.disks.forget(disk)
        self.reconcile()
        self.assertEqual(2, self.logged('servers have claims on it'))

    def test_a_claim_beats_the_end_of_a_provider(self):
        disk = self.disks.add()
        server = str(uuid.uuid4())
        self.settle()
        self.disks.forget(disk)

        def before(method, url):
            if method == 'put':
                self.placement.before = lambda method, url: None
                self.placement.claim(server, {disk: {placement_client.GB: 10}})

        self.placement.before = before
        self.assertRaises(exception.Conflict, self.reconcile)
        self.reconcile()
        self.assertEqual((100, 100), self.placement.inventory(disk))
        self.assertEqual(
            self.root, self.placement.provider(disk)['parent_provider_uuid']
        )

    def test_a_crash_while_a_disk_is_forgotten_is_made_good(self):
        for step in range(14, 30):
            disk = self.disks.add()
            self.reconcile()
            self.disks.forget(disk)
            left = [step]

            def before(method, url, left=left):
                left[0] -= 1
                if left[0] < 0:
                    raise InterruptedError

            self.placement.before = before
            self.sync = placement_sync.PlacementSync(self.client, base.NODE)
            ended = True
            try:
                self.reconcile()
            except InterruptedError:
                ended = False
            self.placement.before = lambda method, url: None
            # the next agent goes on, and finds it if it is in no tree
            sync = placement_sync.PlacementSync(
                self.client, base.NODE, lambda: -1
            )
            for _ in range(2):
                sync.reconcile(self.disks.all())
            self.assertIsNone(self.client.provider(disk))
            if ended:
                return
        self.fail('it never came to an end')

    def forget(self, keep):
        """Forget a disk at time 0; returns it and a clock to set."""
        clock = [0]
        self.sync = placement_sync.PlacementSync(self.client, base.NODE, keep)
        self.sync._tree._forgotten._clock = lambda: clock[0]
        disk = self.disks.add()
        self.reconcile()
        forgotten = self.disks.forget(disk)
        self.reconcile()
        return forgotten, clock

    def test_a_forgotten_disk_keeps_its_provider_for_a_while(self):
        disk, clock = self.forget(lambda: 600)
        clock[0] = 600
        self.placement.requests.clear()
        self.reconcile()
        # it waits without asking
        self.assertEqual(1, len(self.placement.requests))
        self.assertIsNone(self.client.provider(disk.uuid).parent)
        clock[0] = 601
        self.reconcile()
        self.assertIsNone(self.client.provider(disk.uuid))

    def test_a_provider_is_kept_for_good(self):
        disk, clock = self.forget(lambda: None)
        clock[0] = 1e9
        self.reconcile()
        self.assertIsNone(self.client.provider(disk.uuid).parent)

    def test_the_time_begins_anew_when_a_disk_was_back(self):
        disk, clock = self.forget(lambda: 600)
        clock[0] = 500
        self.disks.put_back(disk)
        self.reconcile()
        self.assertEqual((100, 0), self.placement.inventory(disk.uuid))
        self.disks.forget(disk.uuid)
        self.reconcile()
        clock[0] = 700
        self.reconcile()
        self.assertIsNone(self.client.provider(disk.uuid).parent)

    def test_what_another_host_has_now_is_not_deleted(self):
        disk, clock = self.forget(lambda: 600)
        there = self.placement.start_compute('compute-2')
        placement_sync.PlacementSync(self.client, 'compute-2').reconcile(
            [disk]
        )
        clock[0] = 700
        self.reconcile()
        self.assertEqual(there, self.client.provider(disk.uuid).parent)

    def test_what_another_host_has_forgotten_is_not_deleted(self):
        disk, clock = self.forget(lambda: 600)
        self.placement.start_compute('compute-2')
        other = placement_sync.PlacementSync(self.client, 'compute-2')
        other.reconcile([disk])
        other.reconcile([])
        clock[0] = 700
        self.reconcile()
        self.assertIsNone(self.client.provider(disk.uuid).parent)

    def test_the_compute_node_comes_late(self):
        sync = placement_sync.PlacementSync(self.client, 'compute-2')
        disk = self.disks.add()
        for _ in range(2):
            error = self.assertRaises(
                exception.NoComputeNode,
                sync.reconcile,
                self.disks.all(),
            )
            self.assertIn('compute-2', str(error))
            self.assertIsNone(sync.root)
        root = self.placement.start_compute('compute-2')
        sync.reconcile(self.disks.all())
        self.assertEqual(root, sync.root)
        self.assertEqual(
            root, self.placement.provider(disk)['parent_provider_uuid']
        )

    def test_the_compute_node_is_made_anew(self):
        disk = self.disks.add()
        self.settle()
        self.placement.ask('delete', f'/resource_providers/{disk}')
        self.placement.ask('delete', f'/resource_providers/{self.root}')
        self.assertRaises(exception.NoComputeNode, self.reconcile)
        root = self.placement.start_compute()
        self.reconcile()
        self.assertEqual(
            root, self.placement.provider(disk)['parent_provider_uuid']
        )

    def test_a_crash_between_the_steps_is_made_good(self):
        disk = self.disks.add()
        for step in range(4, 30):
            left = [step]

            def before(method, url, left=left):
                left[0] -= 1
                if left[0] < 0:
                    raise InterruptedError

            self.placement.before = before
            try:
                placement_sync.PlacementSync(self.client, base.NODE).reconcile(
                    self.disks.all()
                )
            except InterruptedError:
                continue
            break
        else:
            self.fail('it never came to an end')
        self.assertEqual((100, 0), self.placement.inventory(disk))
        self.assertEqual(
            {'STORAGE_DISK_HDD', 'CUSTOM_DISKPLACER'},
            self.placement.traits(disk),
        )

    def test_a_disk_comes_from_another_host(self):
        disk = self.disks.add()
        self.reconcile()
        there = self.placement.start_compute('compute-2')
        self.placement.requests.clear()
        placement_sync.PlacementSync(self.client, 'compute-2').reconcile(
            self.disks.all()
        )
        # there is no moment at which nova-compute does not find it
        self.assertNotIn(
            'delete', [method for method, _ in self.placement.requests]
        )
        self.assertEqual(
            there, self.placement.provider(disk)['parent_provider_uuid']
        )
        # where it was, only its mount point is left
        self.disks.lose(disk)
        self.assertEqual({}, self.reconcile())
        self.assertEqual(
            there, self.placement.provider(disk)['parent_provider_uuid']
        )

    def test_two_hosts_have_the_same_disk(self):
        disk = self.disks.add()
        self.reconcile()
        there = self.placement.start_compute('compute-2')
        other = placement_sync.PlacementSync(self.client, 'compute-2')
        offers = []
        for _ in range(3):
            offers += other.reconcile(self.disks.all())
            self.assertIn(disk, self.reconcile())
        # it was taken once, and once back
        self.assertEqual(
            [discover.OK, constants.FOREIGN, constants.FOREIGN],
            [offer.disk.health for offer in offers],
        )
        self.assertEqual(
            self.root, self.placement.provider(disk)['parent_provider_uuid']
        )
        self.assertEqual(
            1,
            self.logged(
                f'Disk {disk} is on two hosts: {base.NODE} has taken its '
                'provider back from compute node compute-2'
            ),
        )
        # it is forgotten there
        self.sync.reconcile([])
        (offer,) = other.reconcile(self.disks.all())
        self.assertEqual(discover.OK, offer.disk.health)
        self.assertEqual(
            there, self.placement.provider(disk)['parent_provider_uuid']
        )

    def test_a_disk_goes_to_and_fro(self):
        disk = self.disks.add()
        self.placement.start_compute('compute-2')
        other = placement_sync.PlacementSync(self.client, 'compute-2')
        path = self.disks.all()[0].path
        here, there = self.sync, other
        for _ in range(4):
            (offer,) = here.reconcile(self.disks.all())
            self.assertEqual(discover.OK, offer.disk.health)
            there.reconcile([discover.missing(disk, path)])
            here, there = there, here

    def test_a_disk_with_claims_comes_from_another_host(self):
        disk = self.disks.add()
        server = str(uuid.uuid4())
        self.reconcile()
        self.placement.claim(server, {disk: {placement_client.GB: 10}})
        there = self.placement.start_compute('compute-2')
        sync = placement_sync.PlacementSync(self.client, 'compute-2')
        for _ in range(3):
            offers = sync.reconcile(self.disks.all())
        self.assertEqual(constants.FOREIGN, offers[0].disk.health)
        self.assertEqual(
            self.root, self.placement.provider(disk)['parent_provider_uuid']
        )
        self.assertEqual(1, self.logged('still has allocations'))
        self.placement.unclaim(server)
        offers = sync.reconcile(self.disks.all())
        self.assertEqual(discover.OK, offers[0].disk.health)
        self.assertEqual(
            there, self.placement.provider(disk)['parent_provider_uuid']
        )

    def test_placement_is_emptied(self):
        disk = self.disks.add()
        self.settle()
        for url in (
            f'/resource_providers/{disk}',
            f'/resource_providers/{self.root}',
            '/resource_classes/CUSTOM_VDISK_GB',
            '/resource_classes/CUSTOM_VDISK_MBPS',
            '/traits/CUSTOM_DISKPLACER',
        ):
            self.placement.ask('delete', url)
        self.assertRaises(exception.PlacementError, self.reconcile)
        self.placement.ask(
            'post',
            '/resource_providers',
            {'name': base.NODE, 'uuid': self.root},
        )
        self.reconcile()
        self.assertEqual((100, 0), self.placement.inventory(disk))

    def test_placement_is_away(self):
        disk = self.disks.add()
        self.settle()
        self.placement.away = True
        self.disks.hold(disk, None)
        self.assertRaises(exception.PlacementError, self.reconcile)
        self.placement.away = False
        self.reconcile()
        self.assertEqual((100, 10), self.placement.inventory(disk))

    def test_others_traits_are_kept(self):
        disk = self.disks.add()
        self.reconcile()
        self.placement.ask('put', '/traits/CUSTOM_RACK_7')
        self.placement.ask(
            'put',
            f'/resource_providers/{disk}/traits',
            {
                'resource_provider_generation': self.placement.provider(disk)[
                    'generation'
                ],
                'traits': ['CUSTOM_DISKPLACER', 'CUSTOM_RACK_7'],
            },
        )
        self.disks.change(disk, medium='ssd')
        self.reconcile()
        self.assertEqual(
            {'CUSTOM_DISKPLACER', 'CUSTOM_RACK_7', 'STORAGE_DISK_SSD'},
            self.placement.traits(disk),
        )
