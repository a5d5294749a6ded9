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

"""Requests at once, in one scheduler worker and in several."""

import collections
import concurrent.futures
import random
import threading
import time
import unittest
import uuid
from unittest import mock

import numpy as np
from nova import exception
from nova import objects

from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.scheduler import filter as filters
from nova_diskplacer.scheduler import placement_queries
from nova_diskplacer.scheduler import server_volumes
from tests.unit.nova_diskplacer.scheduler import fakes
from tests.unit.nova_diskplacer.scheduler import schedulers
from tests.unit.nova_diskplacer.scheduler import simulated

SERVERS = 32

# Time in seconds that a request to Placement takes at the most, either way.
LATENCY = 0.02

# How often requests meet in several workers.
RUNS = 50
REQUESTS = 8


class SlowPlacement(simulated.Placement):
    """Answers late, so that threads meet."""

    def __init__(self):
        super().__init__()
        self._lock = threading.Lock()

    def _late(self, method, *args):
        time.sleep(random.uniform(0, LATENCY))
        with self._lock:
            answer = method(*args)
        time.sleep(random.uniform(0, LATENCY))
        return answer

    def claim(self, *args):
        return self._late(super().claim, *args)

    def of_host(self, *args):
        return self._late(super().of_host, *args)

    def with_room(self, *args):
        return self._late(super().with_room, *args)


class LockstepPlacement(simulated.Placement):
    """Answers claims when all requests that go on have made theirs.

    So nobody has seen what anybody else was about to claim, which is the worst
    that can happen.
    """

    def __init__(self, requests):
        super().__init__()
        self._going_on = requests
        self._made = {}
        self._answers = {}
        self._changed = threading.Condition()

    def claim(self, consumer, allocations):
        with self._changed:
            self._made[consumer] = allocations
            self._answer()
            self._changed.wait_for(lambda: consumer in self._answers)
            return self._answers.pop(consumer)

    def leave(self):
        """Go on without one of the requests."""
        with self._changed:
            self._going_on -= 1
            self._answer()

    def _answer(self):
        if len(self._made) < self._going_on:
            return
        for consumer, allocations in sorted(self._made.items()):
            self._answers[consumer] = super().claim(consumer, allocations)
        self._made = {}
        self._changed.notify_all()


class RaceTestCase(unittest.TestCase):
    def setUp(self):
        objects.register_all()

    def patch(self, *patches):
        for where, name, value in patches:
            patch = mock.patch.object(where, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def start(self, placement, get_cache):
        self.placement = placement
        self.patch(
            (filters.report_listener, 'get_cache', get_cache),
            (
                server_volumes,
                'read',
                lambda *_: server_volumes.ServerVolumes(),
            ),
            (placement_queries, 'disks_in_tree', placement.of_host),
            (placement_queries, 'claims_of', placement.claims_of),
            (
                placement_queries,
                'compute_nodes_with_room',
                placement.with_room,
            ),
        )

    def report(self, caches, hosts, disks_each, free_gb, reserved_gb=0):
        """Have agents report.

        :param reserved_gb: how much more of a disk than of the one before is
            reserved.
        """
        self.hosts = hosts
        for host in range(hosts):
            disks = []
            for index in range(disks_each):
                reserved = index * reserved_gb
                disk = fakes.disk(
                    host,
                    index,
                    total_gb=free_gb + reserved,
                    reserved_gb=reserved,
                )
                disks.append(disk)
                self.placement.disks[disk['uuid']] = simulated.Disk(
                    disk['uuid'], host, 'hdd', disk['total_gb'], 150, reserved
                )
            for cache in caches:
                cache.update(fakes.report(host, *disks))

    def schedule(self, spec):
        """Do what nova-scheduler does; say whether a claim succeeded."""
        hosts = [schedulers.host_state(host) for host in range(self.hosts)]
        try:
            schedulers.Scheduler(self.placement.claim).schedule(spec, hosts)
        except exception.NoValidHost:
            return False
        return True


class RaceTest(RaceTestCase):
    """Many threads of one worker."""

    def setUp(self):
        super().setUp()
        self.cache = fakes.make_cache()
        self.start(SlowPlacement(), lambda: self.cache)

    def _report(self, hosts, disks_each):
        self.report([self.cache], hosts, disks_each, 400)

    def _boot(self, barrier):
        spec = schedulers.request(vdisks=4, vdisk_gb=100)
        barrier.wait()
        return self.schedule(spec)

    def _boot_at_once(self, number):
        barrier = threading.Barrier(number)
        with concurrent.futures.ThreadPoolExecutor(number) as pool:
            return sum(pool.map(self._boot, [barrier] * number))

    def _check(self):
        """All succeed at the first try, and there is no room for more."""
        self.assertEqual(SERVERS, self._boot_at_once(SERVERS))
        for disk in self.placement.disks.values():
            self.assertEqual(0, self.placement.room_gb(disk))
        for claims in self.placement.allocations.values():
            self.assertEqual(
                [{placement_client.GB: 100}] * 4, [*claims.values()]
            )
        self.assertEqual(0, self._boot_at_once(1))

    def test_four_hosts(self):
        self._report(4, 8)
        self._check()

    def test_one_host_and_no_other_to_try(self):
        self._report(1, 32)
        self._check()


class WorkersTest(RaceTestCase):
    """One request in each of several workers, which know nothing of another.

    A vdisk fills a disk, and there are disks for twice as many servers.
    """

    def setUp(self):
        super().setUp()
        self._of_thread = threading.local()

    def _boot(self, run, number, specs):
        self._of_thread.cache = self.caches[number]
        server = str(
            uuid.UUID(int=random.Random(f'{run} {number}').getrandbits(128))
        )
        try:
            return self.schedule(schedulers.request(server, **specs))
        finally:
            self.placement.leave()

    def _run(self, run, hosts, reserved_gb=0, **specs):
        self.start(LockstepPlacement(REQUESTS), lambda: self._of_thread.cache)
        self.caches = [fakes.make_cache() for _ in range(REQUESTS)]
        disks = 2 * REQUESTS * specs['vdisks'] // hosts
        self.report(self.caches, hosts, disks, 100, reserved_gb)
        with concurrent.futures.ThreadPoolExecutor(REQUESTS) as pool:
            booted = [
                pool.submit(self._boot, run, number, specs)
                for number in range(REQUESTS)
            ]
            made = sum(boot.result() for boot in booted)
        claims = self.placement.allocations.values()
        self.assertEqual(made, len(claims))
        taken = collections.Counter(disk for one in claims for disk in one)
        self.assertEqual(made * specs['vdisks'], len(taken))
        self.assertEqual({1}, set(taken.values()))
        return made

    def _made(self, hosts, **specs):
        """Return how many servers found a host in each run."""
        return [
            self._run(run, hosts, **{'vdisk_gb': 100, **specs})
            for run in range(RUNS)
        ]

    def test_one_host(self):
        self.assertGreaterEqual(np.mean(self._made(1, vdisks=1)), 7)

    def test_several_vdisks(self):
        made = self._made(1, vdisks=4, mapping='consolidated')
        self.assertGreaterEqual(np.mean(made), 7)

    def test_all_prefer_the_same_disks(self):
        made = self._made(1, vdisks=2, reserved_gb=10)
        self.assertGreaterEqual(np.mean(made), 7)

    def test_two_hosts(self):
        made = self._made(2, vdisks=1)
        self.assertGreaterEqual(made.count(REQUESTS), 0.9 * RUNS)
