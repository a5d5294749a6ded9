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

"""Requests in many threads of one scheduler worker."""

import concurrent.futures
import random
import threading
import time
import types
import unittest
import uuid
from unittest import mock

from nova import objects

from nova_diskplacer import placement
from nova_diskplacer.scheduler import filter as filters
from nova_diskplacer.scheduler import weigher
from tests.unit.nova_diskplacer.scheduler import fakes
from tests.unit.nova_diskplacer.scheduler import simulated

SERVERS = 32

# Time in seconds that a request to Placement takes at the most, either way.
LATENCY = 0.02


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


class RaceTest(unittest.TestCase):
    def setUp(self):
        objects.register_all()
        self.placement = SlowPlacement()
        self.fleet = fakes.make_fleet()
        for where, name, value in (
            (filters.listener, 'get_fleet', lambda: self.fleet),
            (filters.bound, 'volumes', lambda *_: []),
            (filters.capacities, 'of_host', self.placement.of_host),
            (filters.capacities, 'with_room', self.placement.with_room),
        ):
            patch = mock.patch.object(where, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def _report(self, hosts, disks_each):
        self.hosts = hosts
        for host in range(hosts):
            disks = []
            for index in range(disks_each):
                disk = fakes.disk(host, index, total_gb=400)
                disks.append(disk)
                self.placement.disks[disk['uuid']] = simulated.Disk(
                    disk['uuid'], host, 'hdd', 400, 150
                )
            self.fleet.update(fakes.report(host, *disks))

    def _boot(self, barrier):
        """Do what nova-scheduler does; say whether a claim succeeded."""
        spec = objects.RequestSpec(
            instance_uuid=str(uuid.uuid4()),
            flavor=objects.Flavor(
                name='any',
                extra_specs={
                    'diskplacer:vdisks': '4',
                    'diskplacer:vdisk_gb': '100',
                },
            ),
        )
        hosts = [fakes.host_state(host) for host in range(self.hosts)]
        barrier.wait()
        hosts = filters.DiskPlacementFilter().filter_all(hosts, spec)
        weighed = [types.SimpleNamespace(obj=host) for host in hosts]
        weights = weigher.DiskPlacementWeigher().weigh_objects(weighed, spec)
        for _, host in sorted(
            zip(weights, hosts, strict=True), key=lambda pair: -pair[0]
        ):
            allocations = host.allocation_candidates[0]['allocations']
            claims = {
                disk: allocation['resources']
                for disk, allocation in allocations.items()
                if disk != host.uuid
            }
            if self.placement.claim(spec.instance_uuid, claims):
                host.num_instances += 1
                return True
        return False

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
            self.assertEqual([{placement.GB: 100}] * 4, [*claims.values()])
        self.assertEqual(0, self._boot_at_once(1))

    def test_four_hosts(self):
        self._report(4, 8)
        self._check()

    def test_one_host_and_no_other_to_try(self):
        self._report(1, 32)
        self._check()
