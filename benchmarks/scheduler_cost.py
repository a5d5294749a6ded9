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

"""What the filters and the weighers cost nova-scheduler.

Runs Nova's own filter and weight handlers over real HostState objects with
Nova's default filters, NUMATopologyFilter, all stock weighers, a no-op filter
and a no-op weigher, and ours, in one process, and prints microseconds per
host. The filter's look at the server's block device mapping is made for real,
on SQLite, by a connection that is kept as those to MySQL are; the reading of
disks from Placement happens at the claim, for one host, and is no part of
this: see ``exact_claim.py``. A request that no host has room for looks for
room in Placement once a second and worker; that is left out, too.

For ``diskplacer:numa`` the filter may have to ask Nova where the vCPUs go. Its
three rows, behind NUMATopologyFilter, are hosts where every cell's disks have
room (it asks about none of them), hosts where one cell's have (about all), and
hosts where the vCPUs must be steered to that cell (twice about all).

A weigher that does nothing gives all hosts the same weight. One row has a
weigher that does nothing but give them unlike ones, which take Nova longer: no
weigher that prefers some hosts can take less.

Both our weighers together have two rows, for no pressure on any host, where
the pressure weigher gives Nova no weights to work on, and for pressure on all.

The ratio of ours to Nova's own is given in total and above no-op: without what
Nova's handlers take for a filter and for weighers that do nothing, as many as
give Nova weights.

The filter blends the pack score into the score of the mapping in a fleet that
fills. It does in all ratios; one row shows the filter in a fleet that is empty
enough to spread.

The log level is INFO, Nova's default. The rounds visit all rows in turn. Each
row shows the median of the rounds, and each ratio is the mean of those of the
rounds, with its 95 % interval. Time is CPU time of the scheduler's thread,
which includes SQLite's, so that other work on the machine counts less.
"""

import argparse
import collections
import datetime
import gc
import itertools
import logging
import os
import re
import statistics
import sys
import time
import unittest
import uuid
from unittest import mock

os.environ.setdefault('OS_NOVA_DISABLE_EVENTLET_PATCHING', 'true')

import nova.tests.functional  # noqa: F401  isort: skip
import numpy as np
from nova import context
from nova import objects
from nova import test
from nova.db.api import api as api_db
from nova.scheduler import filters
from nova.scheduler import host_manager
from nova.scheduler import weights
from nova.scheduler.filters import numa_topology_filter
from oslo_utils import timeutils
from sqlalchemy import pool

import _report
from diskplacer_measure import stats
from nova_diskplacer import conf
from nova_diskplacer.scheduler import filter as disk_filter
from nova_diskplacer.scheduler import host_disk_cache
from nova_diskplacer.scheduler import placement_queries
from nova_diskplacer.scheduler import pressure_weigher
from nova_diskplacer.scheduler import report_listener
from nova_diskplacer.scheduler import request as disk_request
from nova_diskplacer.scheduler import room
from nova_diskplacer.scheduler import weigher as disk_weigher

DISKS = 12
VDISKS = 4
GOAL = 0.10
GOAL_ABOVE = 0.05
GOAL_INFEASIBLE = 2.0

NOVA_FILTERS = 'Nova default filters'
NUMA = 'NUMATopologyFilter'
NOVA_WEIGHERS = 'Nova stock weighers'
NOOP_FILTER = 'no-op filter'
NOOP_WEIGHER = 'no-op weigher'
NOOP_WEIGHERS = 'two no-op weighers'
UNLIKE = 'no-op weigher, unlike weights'
OUR_FILTER = 'DiskPlacementFilter'
SPREADS = 'the same, does not pack'
NO_ROOM = 'the same, no host has room'
OUR_WEIGHER = 'DiskPlacementWeigher'
BOTH_WEIGHERS = 'both our weighers'
PRESSED = 'both, all hosts pressed'
ROOM = 'DiskRoomFilter'

# name of the row: {NUMA node of a disk: how many}
ALIGNED = {
    'NUMA, any cell': {0: 6, 1: 6},
    'NUMA, one cell': {0: 9, 1: 3},
    'NUMA, steered': {0: 3, 1: 9},
}
FEW = 500

# {row: pressure on all disks, in per cent}
PRESSURE = {BOTH_WEIGHERS: 0, PRESSED: 50}


class NoopFilter(filters.BaseHostFilter):
    """What the handler itself costs."""

    def filter_all(self, filter_obj_list, spec_obj):
        return filter_obj_list


class NoopWeigher(weights.BaseHostWeigher):
    """What the handler itself costs."""

    def weigh_objects(self, weighed_obj_list, weight_properties):
        return [0.0] * len(weighed_obj_list)

    def _weigh_object(self, obj, weight_properties):
        return 0.0


class UnlikeWeigher(weights.BaseHostWeigher):
    """What the handler itself costs if hosts have weights of their own."""

    minval = 0.0
    maxval = 1.0

    def __init__(self, hosts):
        self._weights = [number % 9973 / 1e4 for number in range(hosts)]

    def weigh_objects(self, weighed_obj_list, weight_properties):
        return self._weights

    def _weigh_object(self, obj, weight_properties):
        return 0.0


def numa_topology():
    """Two cells of 16 CPUs and 64 GiB."""
    return objects.NUMATopology(
        cells=[
            objects.NUMACell(
                id=cell,
                socket=cell,
                cpuset=set(range(16 * cell, 16 * cell + 16)),
                pcpuset=set(),
                memory=65536,
                cpu_usage=0,
                memory_usage=0,
                pinned_cpus=set(),
                siblings=[
                    {16 * cell + 2 * core, 16 * cell + 2 * core + 1}
                    for core in range(8)
                ],
                mempages=[
                    objects.NUMAPagesTopology(
                        size_kb=4, total=16777216, used=0
                    )
                ],
                network_metadata=objects.NetworkMetadata(
                    physnets={f'cell{cell}'}, tunneled=False
                ),
            )
            for cell in range(2)
        ]
    )


def host_state(number, topology):
    """A host of 32 CPUs and 128 GiB as the host manager makes it."""
    name = f'compute-{number:05d}'
    used = number % 16
    now = timeutils.utcnow()
    state = host_manager.HostState(name, name, uuid.UUID(int=1))
    state.update(
        objects.ComputeNode(
            uuid=str(uuid.UUID(int=2**64 + number)),
            id=number,
            host=name,
            hypervisor_hostname=name,
            vcpus=32,
            vcpus_used=used,
            memory_mb=131072,
            free_ram_mb=131072 - 2048 * used,
            local_gb=1000,
            local_gb_used=20 * used,
            free_disk_gb=1000 - 20 * used,
            disk_available_least=None,
            host_ip='192.0.2.1',
            hypervisor_type='QEMU',
            hypervisor_version=9000000,
            numa_topology=topology,
            supported_hv_specs=[
                objects.HVSpec.from_list(['x86_64', 'qemu', 'hvm']),
                objects.HVSpec.from_list(['x86_64', 'kvm', 'hvm']),
            ],
            pci_device_pools=None,
            cpu_info='{"arch": "x86_64", "vendor": "Intel"}',
            stats={
                'num_instances': str(used),
                'io_workload': '0',
                'failed_builds': '0',
            },
            metrics='[]',
            updated_at=now.replace(tzinfo=datetime.UTC),
            cpu_allocation_ratio=4.0,
            ram_allocation_ratio=1.0,
            disk_allocation_ratio=1.0,
        ),
        service=dict(
            objects.Service(
                id=number,
                host=name,
                binary='nova-compute',
                topic='compute',
                report_count=1,
                disabled=False,
                disabled_reason=None,
                forced_down=False,
                created_at=now,
                updated_at=now,
                last_seen_up=now,
            )
        ),
        aggregates=[],
        inst_dict={},
    )
    return state


def candidates(provider):
    """What Placement offers on a host without the filter."""
    return [
        {
            'allocations': {
                provider: {
                    'resources': {
                        'VCPU': 2,
                        'MEMORY_MB': 4096,
                        'DISK_GB': 20,
                    }
                }
            },
            'mappings': {'': [provider]},
        }
    ]


def report(host, nodes=ALIGNED['NUMA, any cell']):
    """An agent's report: some disks are more committed than others."""
    of_disk = [node for node, disks in nodes.items() for _ in range(disks)]
    number = int(host.host.rpartition('-')[2])
    return {
        'version': 1,
        'host': host.host,
        'compute_node': host.host,
        'provider': host.uuid,
        'disks': [
            {
                'uuid': str(uuid.UUID(int=2**96 + number * DISKS + disk)),
                'medium': 'hdd',
                'model': 'simulated',
                'numa_node': of_disk[disk],
                'total_gb': 4000,
                'reserved_gb': 0,
                'used_gb': 100 * ((7 * number + 5 * disk) % 20),
                'total_mbps': 150,
                'used_mbps': 0,
                'health': 'ok',
                'vdisks': [],
            }
            for disk in range(DISKS)
        ],
    }


def request_spec(ctxt, numa='none', vdisk_gb=100):
    """A server of a flavor with K vdisks that is being built."""
    flavor = objects.Flavor(
        context=ctxt,
        flavorid=f'bench-{numa}-{vdisk_gb}',
        name=f'bench-{numa}-{vdisk_gb}',
        memory_mb=4096,
        vcpus=2,
        root_gb=20,
        ephemeral_gb=0,
        swap=0,
        rxtx_factor=1.0,
        disabled=False,
        is_public=True,
        extra_specs={
            'hw:numa_nodes': '1',
            'diskplacer:vdisks': str(VDISKS),
            'diskplacer:vdisk_gb': str(vdisk_gb),
            'diskplacer:mapping': 'round_robin',
            'diskplacer:numa': numa,
        },
    )
    flavor.create()
    spec = objects.RequestSpec(
        context=ctxt,
        instance_uuid=str(uuid.uuid4()),
        project_id=ctxt.project_id,
        user_id=ctxt.user_id,
        flavor=flavor,
        image=objects.ImageMeta.from_dict(
            {
                'id': str(uuid.uuid4()),
                'name': 'debian-12',
                'status': 'active',
                'container_format': 'bare',
                'disk_format': 'qcow2',
                'size': 346947584,
                'min_ram': 0,
                'min_disk': 2,
                'properties': {'hw_disk_bus': 'virtio', 'os_type': 'linux'},
            }
        ),
        num_instances=1,
        availability_zone=None,
        pci_requests=objects.InstancePCIRequests(requests=[]),
        numa_topology=objects.InstanceNUMATopology(
            cells=[
                objects.InstanceNUMACell(
                    id=0, cpuset={0, 1}, pcpuset=set(), memory=4096
                )
            ]
        ),
        instance_group=None,
        scheduler_hints={},
        ignore_hosts=None,
        force_hosts=None,
        force_nodes=None,
        requested_destination=None,
        requested_resources=[],
        retry=None,
        limits=objects.SchedulerLimits(),
        is_bfv=False,
    )
    build(ctxt, spec)
    return spec


def build(ctxt, spec):
    """Put the server that is being built, with its volumes, in the API DB."""
    objects.InstanceMapping(
        context=ctxt,
        instance_uuid=spec.instance_uuid,
        project_id=spec.project_id,
        user_id=spec.user_id,
        cell_mapping=None,
    ).create()
    blank = [
        objects.BlockDeviceMapping(
            context=ctxt,
            instance_uuid=spec.instance_uuid,
            source_type='blank',
            destination_type='volume',
            device_type='disk',
            volume_id=None,
            connection_info=None,
            volume_size=100,
            boot_index=-1,
            delete_on_termination=True,
        )
        for _ in range(VDISKS)
    ]
    objects.BuildRequest(
        context=ctxt,
        instance_uuid=spec.instance_uuid,
        project_id=spec.project_id,
        instance=objects.Instance(
            context=ctxt,
            uuid=spec.instance_uuid,
            project_id=spec.project_id,
            user_id=spec.user_id,
            created_at=timeutils.utcnow(),
        ),
        block_device_mappings=objects.BlockDeviceMappingList(objects=blank),
        tags=objects.TagList(objects=[]),
    ).create()


def keep_connections():
    """Keep connections to the API database, as oslo.db does for MySQL."""
    engine = api_db.context_manager.reader.get_engine()
    engine.pool = pool.SingletonThreadPool(
        engine.pool._creator,
        dialect=engine.dialect,
        _dispatch=engine.pool.dispatch,
    )


class Nova(test.TestCase):
    """Nova's databases and configuration, for one measurement."""

    def __init__(self, hosts, rounds, seconds):
        super().__init__('measure')
        self.hosts = hosts
        self.rounds = rounds
        self.seconds = seconds

    def setUp(self):
        super().setUp()
        logging.getLogger().setLevel(logging.INFO)
        conf.register_opts(conf.CONF)
        self.flags(track_instance_changes=False, group='filter_scheduler')
        # the slower rows take minutes, and nobody reports meanwhile
        self.flags(service_down_time=24 * 3600)
        self.flags(
            warmup_timeout=0.0,
            report_timeout=3600,
            group='diskplacer_scheduler',
        )
        self.addCleanup(report_listener.reset)
        patch = mock.patch.object(
            placement_queries, 'compute_nodes_with_room', lambda _: set()
        )
        patch.start()
        self.addCleanup(patch.stop)
        keep_connections()

    def measure(self):
        topology = numa_topology()._to_json()
        hosts = [host_state(n, topology) for n in range(self.hosts)]
        cache = report_listener.get_cache()
        for host in hosts:
            cache.update(report(host))
        numa = {}
        for number, (name, nodes) in enumerate(ALIGNED.items(), 1):
            first = self.hosts + number * FEW
            numa[name] = [
                host_state(n, topology) for n in range(first, first + FEW)
            ]
            for host in numa[name]:
                cache.update(report(host, nodes))
        ctxt = context.RequestContext('bench', 'bench', is_admin=True)
        specs = (
            request_spec(ctxt),
            request_spec(ctxt, 'required'),
            request_spec(ctxt, vdisk_gb=5000),
        )
        self.seconds.update(run(hosts, numa, specs, self.rounds))


def rows(hosts, numa_hosts, specs):
    """Return the rows and what they leave behind.

    :returns: the hosts that have passed the filters of a row, and the state
        of its request, by row; {row: (function, how many hosts it visits)}.
    """
    spec, numa_spec, large_spec = specs
    manager = host_manager.HostManager()
    few = hosts[: min(len(hosts), FEW)]
    kept, states = {}, {}

    def filtered(name, chosen, visited=hosts, spec=spec):
        def run_filters():
            # each row reads the server's volumes and plans for itself
            spec.__dict__.pop(disk_request.ATTRIBUTE, None)
            kept[name] = manager.filter_handler.get_filtered_objects(
                chosen, visited, spec
            )
            states[name] = disk_request.state_of(spec)

        return run_filters, len(visited)

    def weighed(chosen):
        def run_weighers():
            passed = kept[OUR_FILTER]
            setattr(spec, disk_request.ATTRIBUTE, states[OUR_FILTER])
            manager.weight_handler.get_weighed_objects(chosen, passed, spec)

        return run_weighers, len(hosts)

    our_filter = disk_filter.DiskPlacementFilter()
    our_weigher = disk_weigher.DiskPlacementWeigher()
    both = [our_weigher, pressure_weigher.DiskPressureWeigher()]
    numa = numa_topology_filter.NUMATopologyFilter()
    for visited in numa_hosts.values():
        for host in visited:
            host.allocation_candidates = candidates(host.uuid)
            if not numa.host_passes(host, numa_spec):
                raise RuntimeError(f'{host} does not pass')
    aligned = {
        name: filtered(name, [our_filter], visited, numa_spec)
        for name, visited in numa_hosts.items()
    }
    return (
        kept,
        states,
        {
            NOVA_FILTERS: filtered(NOVA_FILTERS, manager.enabled_filters),
            NUMA: filtered(NUMA, [numa], few),
            NOOP_FILTER: filtered(NOOP_FILTER, [NoopFilter()]),
            OUR_FILTER: filtered(OUR_FILTER, [our_filter]),
            NO_ROOM: filtered(NO_ROOM, [our_filter], spec=large_spec),
            SPREADS: filtered(SPREADS, [our_filter]),
            ROOM: filtered(ROOM, [room.DiskRoomFilter()]),
            **aligned,
            NOVA_WEIGHERS: weighed(manager.weighers),
            NOOP_WEIGHER: weighed([NoopWeigher()]),
            NOOP_WEIGHERS: weighed([NoopWeigher(), NoopWeigher()]),
            UNLIKE: weighed([UnlikeWeigher(len(hosts))]),
            OUR_WEIGHER: weighed([our_weigher]),
            BOTH_WEIGHERS: weighed(both),
            PRESSED: weighed(both),
        },
    )


def set_pack_from(share):
    """Have the filter spread up to a committed share, and pack from it on.

    That makes oslo.config forget the values of all options, which it then
    parses anew, so an option that has the value already is not set.
    """
    if conf.CONF.diskplacer_scheduler.disk_pack_from == share:
        return
    for name in ('disk_spread_up_to', 'disk_pack_from'):
        conf.CONF.set_override(name, share, 'diskplacer_scheduler')


def press(state, per_cent):
    """Have the agents of hosts that have passed the filter report that."""
    run = state.last_run
    run.cache._figures[host_disk_cache._PRESSURE] = per_cent
    run.__dict__.pop('pressures', None)


def run(hosts, numa_hosts, specs, rounds):
    """Return {row: [seconds per host of each round]}."""
    kept, states, functions = rows(hosts, numa_hosts, specs)
    seconds = collections.defaultdict(list)
    for number in range(rounds + 1):
        for host in itertools.chain(hosts, *numa_hosts.values()):
            host.allocation_candidates = candidates(host.uuid)
        for name, (function, visited) in functions.items():
            set_pack_from(1.0 if name == SPREADS else 0.0)
            if name in PRESSURE:
                press(states[OUR_FILTER], PRESSURE[name])
            gc.collect()
            start = time.thread_time()
            function()
            elapsed = time.thread_time() - start
            if number:  # the first round warms up
                seconds[name].append(elapsed / visited)
    for name, passed in kept.items():
        expected = 0 if name == NO_ROOM else functions[name][1]
        if len(passed) != expected:
            raise RuntimeError(
                f'{name}: {len(passed)} hosts passed, not {expected}'
            )
    return seconds


def measure(hosts, rounds):
    """Return {row: [seconds per host]} of ``hosts`` hosts."""
    seconds = {}
    result = unittest.TestResult()
    Nova(hosts, rounds, seconds).run(result)
    for _, trace in result.errors + result.failures:
        raise RuntimeError(trace)
    return seconds


def ratio(row, weighers, nothing=None):
    """Ours over Nova's default filters and weighers, in each round.

    :param row: {row: seconds of each round, (R,)}.
    :param nothing: the row of no-op weighers to give ours above no-op.
    """
    ours = row[OUR_FILTER] + row[weighers]
    if nothing:
        ours = ours - row[NOOP_FILTER] - row[nothing]
    return ours / (row[NOVA_FILTERS] + row[NOVA_WEIGHERS])


def ratios(row, hosts):
    """{figure: values of the rounds} of what there are goals for."""
    return {
        f'ratio_{hosts}': ratio(row, BOTH_WEIGHERS),
        f'ratio_{hosts}_pressed': ratio(row, PRESSED),
        f'ratio_above_noop_{hosts}': ratio(row, BOTH_WEIGHERS, NOOP_WEIGHER),
        f'ratio_above_noop_{hosts}_pressed': ratio(
            row, PRESSED, NOOP_WEIGHERS
        ),
        f'no_room_to_room_{hosts}': row[NO_ROOM] / row[OUR_FILTER],
    }


def goal_of(figure):
    if figure.startswith('no_room'):
        value = GOAL_INFEASIBLE
    else:
        value = GOAL_ABOVE if 'above' in figure else GOAL
    return _report.Goal(figure, '<=', value)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--json', metavar='FILE', help='write figures here')
    parser.add_argument('--hosts', type=int, nargs='+', default=[1000, 10000])
    parser.add_argument('--rounds', type=int, default=9)
    args = parser.parse_args()

    figures = {}
    goals = []
    for hosts in args.hosts:
        seconds = measure(hosts, args.rounds)
        medians = {
            name: statistics.median(values) * 1e6
            for name, values in seconds.items()
        }
        for name, value in medians.items():
            key = re.sub('[^a-z]+', '_', name.lower())
            figures[f'{key}_us_per_host_{hosts}'] = round(value, 3)
        rounds = {name: np.array(values) for name, values in seconds.items()}
        for figure, values in ratios(rounds, hosts).items():
            interval = stats.interval(values.tolist())
            figures[figure] = round(interval.mean, 4)
            figures[f'{figure}_low'] = round(interval.low, 4)
            figures[f'{figure}_high'] = round(interval.high, 4)
            goals.append(goal_of(figure))
        ours = medians[OUR_FILTER] + medians[BOTH_WEIGHERS]
        figures[f'ours_us_per_host_{hosts}'] = round(ours, 3)
        print(
            f'{hosts} hosts x {DISKS} disks, {VDISKS} vdisks, '
            f'median of {args.rounds} rounds'
        )
        _report.table(
            ('', 'us per host', 'least', 'most'),
            [
                (
                    name,
                    f'{medians[name]:.2f}',
                    f'{min(values) * 1e6:.2f}',
                    f'{max(values) * 1e6:.2f}',
                )
                for name, values in seconds.items()
            ],
        )
        print()
    _report.show_goals(figures, goals)
    if args.json:
        _report.write(args.json, 'scheduler_cost', figures, goals)
    return 0


if __name__ == '__main__':
    sys.exit(main())
