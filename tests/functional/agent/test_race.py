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

import contextlib
import random
import threading
import time
import uuid

from nova_diskplacer import exception
from nova_diskplacer.agent import placement_sync
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import inventory
from tests.functional.agent import base

SIZE_GB = 10


class RaceTest(base.TestCase):
    """Schedulers, drivers and the agent fill the same disks at once."""

    def setUp(self):
        super().setUp()
        self.placement.start_compute()
        self.uuids = [self.disks.add(total_gb=2 * SIZE_GB) for _ in range(8)]
        self.sync = placement_sync.PlacementSync(self.client, base.NODE)
        self.sync.reconcile(self.disks.all())
        self.locks = {disk: threading.Lock() for disk in self.uuids}
        self.done = threading.Event()
        for method in ('get', 'put'):
            setattr(self.placement, method, self.slow(method))

    def slow(self, method):
        """Return a method of Placement that others may come before."""
        call = getattr(self.placement, method)

        def called(url, **arguments):
            time.sleep(random.uniform(0, 0.01))
            return call(url, **arguments)

        return called

    def alter(self, disk, added=(), removed=None):
        """Change the vdisks of a disk as the driver does: one at a time."""
        with self.locks[disk]:
            kept = discover.inspect('', disk).vdisks
            self.disks.change(
                disk,
                vdisks=(*(v for v in kept if v is not removed), *added),
            )

    def vdisk(self, server):
        volume = str(uuid.uuid4())
        return VDisk(f'volume-{volume}', volume, server, SIZE_GB * base.GIB)

    def bind_claimed(self, disk):
        """Claim a disk for a server and bind its vdisk; False if full."""
        server = str(uuid.uuid4())
        time.sleep(random.uniform(0, 0.02))
        try:
            self.placement.claim(
                server, {disk: {placement_client.GB: SIZE_GB}}
            )
        except AssertionError as error:
            self.assertIn('Unable to allocate inventory', str(error))
            return False
        self.alter(disk, [self.vdisk(server)])
        return True

    def bind_unclaimed(self, disk):
        """Bind a vdisk without a claim, as the driver does; False if full.

        True also where it is to be tried again.
        """
        vdisk = self.vdisk(None)
        self.alter(disk, [vdisk])
        try:
            if self.sync_disk(disk).free_gb >= 0:
                return True
        except exception.Conflict:
            self.alter(disk, removed=vdisk)
            return True
        self.alter(disk, removed=vdisk)
        self.sync_disk(disk)
        return False

    def sync_disk(self, disk):
        return inventory.sync_disk(
            self.client, disk, lambda: discover.inspect('', disk)
        )

    def fill(self, bind):
        """Bind on one disk after the other until it is full."""
        for disk in self.uuids:
            while bind(disk):
                pass

    def keep(self):
        while not self.done.wait(0.1):
            with contextlib.suppress(exception.Conflict):
                self.sync.reconcile(self.disks.all())

    def run_all(self, *works):
        """Run functions at once, each in a thread of its own."""
        errors = []

        def run(work, *arguments):
            try:
                work(*arguments)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=work) for work in works]
        agent = threading.Thread(target=run, args=(self.keep,))
        for thread in [agent, *threads]:
            thread.start()
        for thread in threads:
            thread.join(3 * base.PATIENCE)
        self.done.set()
        agent.join(base.PATIENCE)
        self.assertEqual([], errors)
        for thread in [agent, *threads]:
            self.assertFalse(thread.is_alive())

    def test_a_disk_is_never_oversold(self):
        self.run_all(
            (self.fill, self.bind_claimed),
            (self.fill, self.bind_claimed),
            (self.fill, self.bind_unclaimed),
        )
        # a failed attempt may have been in the way of another for a moment
        self.fill(self.bind_claimed)
        offers = self.sync.reconcile(self.disks.all())
        for offer in offers:
            found = offer.disk.vdisks
            unclaimed = [v for v in found if v.server_id is None]
            claims = self.client.provider_allocations(offer.disk.uuid)
            self.assertEqual(2, len(found))
            self.assertEqual(
                {vdisk.server_id for vdisk in found} - {None}, claims.keys()
            )
            self.assertEqual(
                (2 * SIZE_GB, SIZE_GB * len(unclaimed)),
                self.placement.inventory(offer.disk.uuid),
            )

    def test_two_agents_of_one_host(self):
        # one is being replaced by the other
        other = placement_sync.PlacementSync(self.client, base.NODE)

        def keep():
            for _ in range(4):
                with contextlib.suppress(exception.Conflict):
                    other.reconcile(self.disks.all())

        self.run_all((keep,), (self.fill, self.bind_unclaimed))
        self.sync.reconcile(self.disks.all())
        for disk in self.uuids:
            self.assertEqual(
                (2 * SIZE_GB, 2 * SIZE_GB), self.placement.inventory(disk)
            )
