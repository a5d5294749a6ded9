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

"""How many servers have their disks on the NUMA cell of their vCPUs.

The same stream of requests, boots and deletions, on the same random hosts of
2 and of 4 cells, each time in a cloud of its own: Nova's API, conductor,
scheduler and computes with Placement in one process, Nova's fake libvirt, and
simulated disks. Nova claims and pins the vCPUs; what is printed is read from
its database and from Placement when a server is there.

The rows are what the flavors say of ``diskplacer:numa``. With ``none`` Nova
does what it does anyway and the disks follow their mapping alone: that is
stock. ``steered`` is where the operator has given each cell a physical network
of its own. A server counts as aligned when all of its disks are on one of its
cells. With ``required`` servers are refused that others would have misplaced.
"""

import argparse
import collections
import logging
import os
import random
import sys
import unittest

import _report

os.environ.setdefault('OS_NOVA_DISABLE_EVENTLET_PATCHING', 'true')

import nova.tests.functional  # noqa: F401  isort: skip
from tests.functional.nova import base
from tests.functional.nova import numa

DISKS = 8
SHAPES = (
    {'numa_nodes': '1'},
    {'numa_nodes': '1'},
    {'cpu_policy': 'dedicated'},
    {'cpu_policy': 'dedicated'},
    {'numa_nodes': '2'},
)
# (row, what the flavors say, whether the operator lets vCPUs be steered)
WAYS = (
    ('stock', 'none', False),
    ('preferred', 'preferred', False),
    ('preferred steered', 'preferred', True),
    ('required', 'required', False),
    ('required steered', 'required', True),
)


class Cloud(numa.NumaCloudTestCase):
    """One cloud for one stream of requests."""

    def __init__(self, cells, say, steered, stream, hosts, counts):
        super().__init__('run_stream')
        self.cells = cells
        self.steered = steered
        self._say = say
        self._stream = stream
        self._random_hosts = hosts
        self._counts = counts

    def run_stream(self):
        for number, disks in enumerate(self._random_hosts):
            self.add_host(
                f'host{number}', [base.Disk(**disk) for disk in disks]
            )
        self.report()
        alive = {}
        for number, (request, gone) in enumerate(self._stream):
            server = self._boot(request)
            if server is not None:
                alive[number] = server
                self._counts['placed'] += 1
                if self.nodes_of(server) <= self.cells_of(server):
                    self._counts['aligned'] += 1
            if gone in alive:
                self._delete_server(alive.pop(gone))
            self.report()
        self.assert_not_oversold()

    def _boot(self, request):
        flavor = self.numa_flavor(**request, numa=self._say)
        server = self.settled(self.api.post_server(self.request(flavor)))
        if server['status'] == 'ACTIVE':
            return server
        if 'No valid host' not in server['fault']['message']:
            raise RuntimeError(server['fault'])
        self._delete_server(server)
        return None


def random_hosts(dice, hosts, cells):
    """Hosts with disks on any of their cells, taken in part or in full."""
    return [
        [
            {
                'numa_node': dice.randrange(cells),
                'total_gb': 300,
                'reserved_gb': dice.choice((0, 100, 200, 300)),
            }
            for _ in range(DISKS)
        ]
        for _ in range(hosts)
    ]


def random_stream(dice, servers):
    """[(a flavor, number of a server that is deleted then or None)]."""
    return [
        (
            {
                'vcpu': dice.choice((2, 4)),
                'hw': dice.choice(SHAPES),
                'vdisks': dice.choice((1, 2, 2, 3)),
                'vdisk_gb': 100,
                'mapping': dice.choice(('round_robin', 'consolidated')),
            },
            dice.randrange(number + 1) if dice.random() < 0.3 else None,
        )
        for number in range(servers)
    ]


def measure(cells, say, steered, args):
    """Return (servers aligned, servers placed)."""
    dice = random.Random(f'{args.seed} {cells}')  # noqa: S311
    hosts = random_hosts(dice, args.hosts, cells)
    stream = random_stream(dice, args.servers)
    counts = collections.Counter()
    cloud = Cloud(cells, say, steered, stream, hosts, counts)
    result = unittest.TestResult()
    cloud.run(result)
    for _, trace in result.errors + result.failures:
        raise RuntimeError(trace)
    return counts['aligned'], counts['placed']


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--json', metavar='FILE', help='write figures here')
    parser.add_argument('--hosts', type=int, default=4)
    parser.add_argument('--servers', type=int, default=20)
    parser.add_argument('--cells', type=int, nargs='+', default=[2, 4])
    parser.add_argument('--seed', type=int, default=1)
    args = parser.parse_args()

    # Nova tells of every thread pool that it shuts down
    logging.disable(logging.INFO)
    figures = {}
    goals = []
    for cells in args.cells:
        rows = []
        for name, say, steered in WAYS:
            aligned, placed = measure(cells, say, steered, args)
            key = f'{name.replace(" ", "_")}_{cells}'
            figures[f'share_{key}'] = aligned / placed if placed else None
            figures[f'aligned_{key}'] = aligned
            figures[f'refused_{key}'] = args.servers - placed
            rows.append(
                (
                    name,
                    placed,
                    args.servers - placed,
                    aligned,
                    f'{aligned / placed:.3f}' if placed else '',
                )
            )
            print(f'{cells} cells, {name}', file=sys.stderr, flush=True)
        gain = f'gain_preferred_steered_{cells}'
        figures[gain] = (
            figures[f'aligned_preferred_steered_{cells}']
            - figures[f'aligned_stock_{cells}']
        )
        goals += [
            _report.Goal(f'share_required_{cells}', '==', 1),
            _report.Goal(f'share_required_steered_{cells}', '==', 1),
            _report.Goal(gain, '>=', 1),
        ]
        print(
            f'{args.hosts} hosts of {cells} cells and {DISKS} disks, '
            f'{args.servers} requests, seed {args.seed}'
        )
        _report.table(
            ('diskplacer:numa', 'placed', 'refused', 'aligned', 'share'), rows
        )
    _report.show_goals(figures, goals)
    if args.json:
        _report.write(args.json, 'numa_alignment', figures, goals)
    return 0


if __name__ == '__main__':
    sys.exit(main())
