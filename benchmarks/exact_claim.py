#!/usr/bin/env python3
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

"""What it takes to claim K distinct disks exactly.

Placement runs in this process on SQLite, with hosts of 12 disks each. The
time from the request for allocation candidates to the claim is taken

* with granular groups: ``resources1`` to ``resourcesK`` with
  ``group_policy=isolate``, the way Placement itself offers, and
* with ours: candidates without disks, the filter, its last look at the host
  in Placement, and the claim of the disks that it wrote in.

Each granular request runs in a process of its own that is ended at the time
limit, and is then reported as over it; so is every larger K.
"""

import argparse
import multiprocessing
import os
import statistics
import sys
import time
import unittest
import uuid

import _report

os.environ.setdefault('OS_NOVA_DISABLE_EVENTLET_PATCHING', 'true')

import nova.tests.functional  # noqa: F401  isort: skip
from nova import context
from nova import objects
from nova import test
from nova.scheduler import host_manager
from nova.scheduler.client import report as report_client
from nova.tests.functional import fixtures as placement_fixtures

from nova_diskplacer import conf
from nova_diskplacer.scheduler import filter as disk_filter
from nova_diskplacer.scheduler import report_listener

DISKS = 12
MOST = 8
VDISK_GB = 100
VERSION = '1.36'
GRANULAR = 'granular'
OURS = 'ours'


class Cloud(test.TestCase):
    """Placement with hosts of 12 disks, and Nova's client of it."""

    def __init__(self, hosts, measure):
        super().__init__('run_measure')
        self._hosts = hosts
        self._measure = measure

    def setUp(self):
        super().setUp()
        conf.register_opts(conf.CONF)
        self.flags(warmup_timeout=0.0, group='diskplacer_scheduler')
        self.placement = self.useFixture(
            placement_fixtures.PlacementFixture()
        ).api
        self.addCleanup(report_listener.reset)
        self.call('put', '/resource_classes/CUSTOM_VDISK_GB', None)
        self.hosts = [self.add_host(number) for number in range(self._hosts)]

    def run_measure(self):
        self._measure(self)

    def call(self, method, url, *body):
        response = getattr(self.placement, method)(url, *body, version=VERSION)
        if response.status >= 300:
            raise RuntimeError(f'{method} {url}: {response.body}')
        return response.body

    def add_provider(self, name, inventories, parent=None):
        created = self.call(
            'post',
            '/resource_providers',
            {
                'name': name,
                'uuid': str(uuid.uuid4()),
                'parent_provider_uuid': parent,
            },
        )
        self.call(
            'put',
            f'/resource_providers/{created["uuid"]}/inventories',
            {
                'resource_provider_generation': created['generation'],
                'inventories': inventories,
            },
        )
        return created['uuid']

    def add_host(self, number):
        """A host with its disks, as an agent reports it."""
        root = self.add_provider(
            f'host{number}',
            {'VCPU': {'total': 128}, 'MEMORY_MB': {'total': 1048576}},
        )
        disks = [
            self.add_provider(
                f'host{number}_disk_{disk}',
                {'CUSTOM_VDISK_GB': {'total': 4000}},
                parent=root,
            )
            for disk in range(DISKS)
        ]
        return {
            'version': 1,
            'host': f'host{number}',
            'compute_node': f'host{number}',
            'provider': root,
            'disks': [
                {
                    'uuid': disk,
                    'medium': 'hdd',
                    'model': 'simulated',
                    'numa_node': None,
                    'total_gb': 4000,
                    'reserved_gb': 0,
                    'used_gb': 0,
                    'total_mbps': 150,
                    'used_mbps': 0,
                    'health': 'ok',
                    'vdisks': [],
                }
                for disk in disks
            ],
        }

    def candidates(self, query):
        url = '/allocation_candidates?resources=VCPU:2,MEMORY_MB:4096'
        return self.call('get', url + query + '&limit=1000')[
            'allocation_requests'
        ]

    def claim(self, server, candidate):
        claimed = report_client.report_client_singleton().claim_resources(
            context.get_admin_context(),
            server,
            candidate,
            'bench',
            'bench',
            VERSION,
        )
        if not claimed:
            raise RuntimeError(f'not claimed: {candidate}')

    def check(self, server, vdisks):
        """Fail unless the server claims so many distinct disks."""
        allocations = self.call('get', f'/allocations/{server}')
        disks = [
            allocation
            for allocation in allocations['allocations'].values()
            if 'CUSTOM_VDISK_GB' in allocation['resources']
        ]
        if len(disks) != vdisks:
            raise RuntimeError(f'{len(disks)} disks claimed, not {vdisks}')

    def claim_granular(self, vdisks):
        """Claim as Placement offers it; seconds."""
        server = str(uuid.uuid4())
        start = time.perf_counter()
        query = ''.join(
            f'&resources{number}=CUSTOM_VDISK_GB:{VDISK_GB}'
            for number in range(1, vdisks + 1)
        )
        found = self.candidates(query + '&group_policy=isolate')
        self.claim(server, found[0])
        elapsed = time.perf_counter() - start
        self.check(server, vdisks)
        return elapsed

    def claim_ours(self, vdisks):
        """Claim what the filter writes into the candidate; seconds."""
        cache = report_listener.get_cache()
        for report in self.hosts:
            cache.update(report)
        server = str(uuid.uuid4())
        spec = objects.RequestSpec(
            context=context.get_admin_context(),
            instance_uuid=server,
            flavor=objects.Flavor(
                name='bench',
                extra_specs={
                    'diskplacer:vdisks': str(vdisks),
                    'diskplacer:vdisk_gb': str(VDISK_GB),
                },
            ),
        )
        start = time.perf_counter()
        found = {
            next(iter(candidate['allocations'])): candidate
            for candidate in self.candidates('')
        }
        hosts = [self.host_state(*item) for item in found.items()]
        filter_ = disk_filter.DiskPlacementFilter()
        passed = list(filter_.filter_all(hosts, spec))
        self.claim(server, passed[0].allocation_candidates[0])
        elapsed = time.perf_counter() - start
        self.check(server, vdisks)
        return elapsed

    @staticmethod
    def host_state(provider, candidate):
        state = host_manager.HostState(provider, provider, provider)
        state.uuid = provider
        state.allocation_candidates = [candidate]
        return state


def work(hosts, way, vdisks, rounds, results):
    """Measure in this process; put 'ready', then seconds of each round."""

    def measure(cloud):
        claim = getattr(cloud, f'claim_{way}')
        if way == OURS:
            claim(vdisks)  # starts the listener
        results.put('ready')
        for _ in range(rounds):
            results.put(claim(vdisks))

    result = unittest.TestResult()
    Cloud(hosts, measure).run(result)
    for _, trace in result.errors + result.failures:
        sys.stderr.write(trace)


def measure(hosts, way, vdisks, rounds, limit):
    """Return the seconds of each claim, sorted; None if over the limit.

    :param limit: seconds for a single claim.
    """
    spawn = multiprocessing.get_context('spawn')
    results = spawn.Queue()
    process = spawn.Process(
        target=work, args=(hosts, way, vdisks, rounds, results)
    )
    process.start()
    try:
        wait(process, results, 600)
        seconds = [wait(process, results, limit) for _ in range(rounds)]
    except TimeoutError:
        return None
    finally:
        process.kill()
        process.join()
    return sorted(seconds)


def wait(process, results, limit):
    """Return the next result.

    :raises TimeoutError: there is none within the limit.
    """
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if not results.empty():
            return results.get()
        if not process.is_alive() and results.empty():
            raise RuntimeError('the measurement failed')
        time.sleep(0.05)
    raise TimeoutError


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--json', metavar='FILE', help='write figures here')
    parser.add_argument('--hosts', type=int, default=1)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument(
        '--limit', type=float, default=60.0, help='seconds for one claim'
    )
    args = parser.parse_args()

    figures = {}
    over = False
    print(
        f'{args.hosts} host(s) x {DISKS} disks, limit {args.limit:g} s, '
        f'median of {args.rounds} claims'
    )
    rows = []
    for vdisks in range(1, MOST + 1):
        row = {}
        for way in (GRANULAR, OURS):
            if way == GRANULAR and over:
                row[way] = None
            else:
                row[way] = measure(
                    args.hosts, way, vdisks, args.rounds, args.limit
                )
            over = over or row[GRANULAR] is None
            name = f'{way}_seconds_{vdisks}'
            figures[name] = row[way] and statistics.median(row[way])
            if row[way]:
                figures[f'{name}_min'] = row[way][0]
                figures[f'{name}_max'] = row[way][-1]
        rows.append(
            (
                vdisks,
                *(
                    'over limit'
                    if row[way] is None
                    else f'{statistics.median(row[way]):.3f}'
                    for way in (GRANULAR, OURS)
                ),
            )
        )
        print(f'{vdisks} of {MOST}', file=sys.stderr, flush=True)
    _report.table(('Disks', 'granular groups, s', 'ours, s'), rows)
    if args.json:
        _report.write(args.json, 'exact_claim', figures, [])
    return 0


if __name__ == '__main__':
    sys.exit(main())
