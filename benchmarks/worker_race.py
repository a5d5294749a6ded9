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

"""How many of eight requests at once find room, by workers and hosts.

Nova's own scheduling runs in threads, with Placement in the same process on
SQLite. Each worker has a cache of its own, so what it chooses is nothing that
the others know. One vdisk fills a disk, and the hosts have disks for twice as
many servers. Each request to Placement takes a random time more than it does
in one process. No request is repeated: a server either gets its disks or is in
ERROR.
"""

import argparse
import collections
import concurrent.futures
import os
import random
import statistics
import sys
import threading
import time
import unittest
from unittest import mock

import _report

os.environ.setdefault('OS_NOVA_DISABLE_EVENTLET_PATCHING', 'true')

import nova.tests.functional  # noqa: F401  isort: skip
from nova import context
from nova import exception
from nova import test
from nova.scheduler.client import report as report_client
from nova.tests.functional import fixtures as placement_fixtures

from nova_diskplacer import conf
from nova_diskplacer.scheduler import host_disk_cache
from nova_diskplacer.scheduler import report_listener
from nova_diskplacer.scheduler import server_volumes
from tests.unit.nova_diskplacer.scheduler import fakes
from tests.unit.nova_diskplacer.scheduler import schedulers

REQUESTS = 8
VERSION = '1.36'
GB = 'CUSTOM_VDISK_GB'


class Worker(schedulers.Scheduler):
    """A scheduler worker that claims in Placement."""

    placement_client = property(
        lambda self: report_client.report_client_singleton()
    )

    def __init__(self):
        super().__init__(None)


class Cloud(test.TestCase):
    """Placement with hosts that have disks for twice as many servers."""

    def __init__(self, hosts, vdisks, measure):
        super().__init__('run_measure')
        self.hosts = hosts
        self._vdisks = vdisks
        self._measure = measure

    def setUp(self):
        super().setUp()
        conf.register_opts(conf.CONF)
        self.placement = self.useFixture(
            placement_fixtures.PlacementFixture()
        ).api
        self.call('put', f'/resource_classes/{GB}', None)
        disks = 2 * REQUESTS * self._vdisks // self.hosts
        self.reports = [
            self.add(number, disks) for number in range(self.hosts)
        ]

    def run_measure(self):
        self._measure(self)

    def call(self, method, url, *body):
        response = getattr(self.placement, method)(url, *body, version=VERSION)
        if response.status >= 300:
            raise RuntimeError(f'{method} {url}: {response.body}')
        return response.body

    def add(self, number, disks):
        """Return the report of a new host."""
        report = fakes.report(
            number,
            *(fakes.disk(number, index) for index in range(disks)),
        )
        root = report['provider']
        self.provide(root, None, {'VCPU': {'total': 128}})
        for disk in report['disks']:
            self.provide(disk['uuid'], root, {GB: {'total': disk['total_gb']}})
        return report

    def provide(self, name, parent, inventories):
        created = self.call(
            'post',
            '/resource_providers',
            {'name': name, 'uuid': name, 'parent_provider_uuid': parent},
        )
        self.call(
            'put',
            f'/resource_providers/{name}/inventories',
            {
                'resource_provider_generation': created['generation'],
                'inventories': inventories,
            },
        )

    def claims(self, server):
        """Return the disks that a server has claimed."""
        found = self.call('get', f'/allocations/{server}')['allocations']
        return [
            provider
            for provider, allocation in found.items()
            if GB in allocation['resources']
        ]


def race(cloud, workers, vdisks, latency):
    """Return how many of the requests succeed."""
    caches = [host_disk_cache.HostDiskCache(3600) for _ in range(workers)]
    for report in cloud.reports:
        for one in caches:
            one.update(report)
    of_thread = threading.local()
    start = threading.Barrier(REQUESTS)
    call = report_client.SchedulerReportClient.get
    put = report_client.SchedulerReportClient.put

    def late(function):
        def called(*args, **kwargs):
            time.sleep(random.uniform(0, latency))
            answer = function(*args, **kwargs)
            time.sleep(random.uniform(0, latency))
            return answer

        return called

    def boot(number):
        of_thread.cache = caches[number % workers]
        spec = schedulers.request(vdisks=vdisks, vdisk_gb=100)
        hosts = [schedulers.host_state(host) for host in range(cloud.hosts)]
        start.wait()
        try:
            Worker().schedule(spec, hosts, context=context.get_admin_context())
        except exception.NoValidHost:
            return spec.instance_uuid, False
        return spec.instance_uuid, True

    with (
        mock.patch.object(
            report_listener, 'get_cache', lambda: of_thread.cache
        ),
        mock.patch.object(
            server_volumes,
            'read',
            lambda *_: server_volumes.ServerVolumes(),
        ),
        mock.patch.object(
            report_client.SchedulerReportClient, 'get', late(call)
        ),
        mock.patch.object(
            report_client.SchedulerReportClient, 'put', late(put)
        ),
        concurrent.futures.ThreadPoolExecutor(REQUESTS) as pool,
    ):
        booted = dict(pool.map(boot, range(REQUESTS)))
    taken = collections.Counter()
    for server, made in booted.items():
        disks = cloud.claims(server)
        if len(disks) != made * vdisks:
            raise RuntimeError(f'{server} has claimed {disks}')
        taken.update(disks)
        if made:
            cloud.call('delete', f'/allocations/{server}')
    if any(times > 1 for times in taken.values()):
        raise RuntimeError(f'a disk was claimed twice: {taken}')
    return sum(booted.values())


def measure(hosts, workers, vdisks, runs, latency):
    """Return {workers: [how many requests succeed in each run]}."""
    found = {}

    def run(cloud):
        for number in workers:
            found[number] = [
                race(cloud, number, vdisks, latency) for _ in range(runs)
            ]

    result = unittest.TestResult()
    Cloud(hosts, vdisks, run).run(result)
    for _, trace in result.errors + result.failures:
        raise RuntimeError(trace)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--json', metavar='FILE', help='write figures here')
    parser.add_argument('--hosts', type=int, nargs='+', default=[1, 2, 4])
    parser.add_argument('--workers', type=int, nargs='+', default=[1, 2, 8])
    parser.add_argument('--vdisks', type=int, default=1)
    parser.add_argument('--runs', type=int, default=50)
    parser.add_argument(
        '--latency',
        type=float,
        default=0.02,
        help='seconds at the most, on the way to Placement and back each',
    )
    args = parser.parse_args()

    figures = {}
    cells = collections.defaultdict(dict)
    for hosts in args.hosts:
        found = measure(
            hosts, args.workers, args.vdisks, args.runs, args.latency
        )
        for workers, made in found.items():
            name = f'{workers}_workers_{hosts}_hosts'
            figures[f'succeed_{name}'] = round(statistics.mean(made), 2)
            figures[f'succeed_{name}_min'] = min(made)
            figures[f'succeed_{name}_max'] = max(made)
            figures[f'all_succeed_{name}'] = made.count(REQUESTS) / len(made)
            cells[workers][hosts] = (
                f'{statistics.mean(made):.2f} ({min(made)}-{max(made)})'
            )
    print(f'Of {REQUESTS} requests at once, {args.runs} runs, succeed:')
    _report.table(
        ('Workers', *(f'{hosts} hosts' for hosts in args.hosts)),
        [(workers, *row.values()) for workers, row in cells.items()],
    )
    goals = [
        _report.Goal('succeed_8_workers_1_hosts', '>=', 7),
        _report.Goal('all_succeed_8_workers_2_hosts', '>=', 0.9),
    ]
    _report.show_goals(figures, goals)
    if args.json:
        _report.write(args.json, 'worker_race', figures, goals)
    return 0


if __name__ == '__main__':
    sys.exit(main())
