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

"""An interval of two disks, two servers and another cgroup."""

import dataclasses
import functools

import numpy

from nova_diskplacer.agent import build_io_status
from nova_diskplacer.agent import spindown
from nova_diskplacer.disks import settling
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import controllers
from nova_diskplacer.io_weights import manager
from nova_diskplacer.io_weights import policy
from nova_diskplacer.io_weights import turns
from nova_diskplacer.monitor import diskstats
from nova_diskplacer.monitor import elastic_status as elastic_status_
from nova_diskplacer.monitor import guest_counters
from nova_diskplacer.monitor import guest_stats
from nova_diskplacer.monitor import history
from nova_diskplacer.monitor import host_status
from nova_diskplacer.monitor import types
from nova_diskplacer.placement import inventory
from tests.unit.nova_diskplacer.monitor import samples

HDD = '0a4c7a40-0000-4000-8000-000000000001'
NVME = '77c1d2e3-0000-4000-8000-000000000002'
LOST = 'f3b37f32-0000-4000-8000-000000000003'
LONG = '53d1f9d2-0000-4000-8000-00000000000a'
SMALL = '8f0c2a4e-0000-4000-8000-00000000000b'
VOLUME = '9d0c4f71-0000-4000-8000-00000000000c'
BACKUP = 'backup.slice/restic.service'
PAIRS = ((LONG, HDD), (SMALL, HDD), (SMALL, NVME), (BACKUP, HDD))

CONSUMERS = {
    LONG: types.Consumer(LONG, '/m/1', 'instance-00000001', 'alpha'),
    SMALL: types.Consumer(SMALL, '/m/2', 'instance-00000002', 'beta'),
    BACKUP: types.Consumer(BACKUP, BACKUP),
}


def disk_state(uuid=HDD, name='sda', number='8:0', **fields):
    return types.DiskState(
        **{
            'device': Device(
                uuid, name, number, name == 'sda', 160 * (name == 'sda')
            ),
            'seconds': 2.0,
            'read_bytes': 101e6,
            'write_bytes': 50.5e6,
            'reads': 1010.0,
            'writes': 505.0,
            'busy': 0.75,
            'queue': 12.5,
            'latency': 0.008,
            'score': 67e6,
            'flagged': False,
            'pressure': 0.5,
            'totals': diskstats.Counters(
                2020, 1010, 202_000_000, 101_000_000, 1.5, 25.0
            ),
            **fields,
        }
    )


def disk_states():
    return {
        HDD: disk_state(
            idle_seconds=900.0,
            idle=True,
            temperature=61,
            warnings={'temperature': 'temperature is 61 °C'},
        ),
        NVME: disk_state(
            NVME,
            'nvme0n1',
            '259:0',
            read_bytes=0.0,
            write_bytes=0.0,
            reads=0.0,
            writes=0.0,
            busy=0.0,
            queue=0.0,
            latency=None,
            score=None,
        ),
    }


def make_history(pairs):
    """Return the table after two intervals of 2 s, of 200 and 100 MB."""
    past = history.History()
    for seconds, megabytes in ((1.0, 0), (2.0, 200), (2.0, 300)):
        values = numpy.zeros((len(pairs), types.COUNTERS), dtype=numpy.int64)
        values[:1, :2] = [megabytes * 10**6, megabytes * 500_000]
        first = numpy.full(len(pairs), not megabytes)
        past.update(seconds, types.Counters(pairs, values, first))
    return past.table


def make_sample(
    pairs=PAIRS, moved=(200_000_000, 2_000_000, 0, 0), seconds=2.0, **fields
):
    """Return a sample of the bytes that each pair read."""
    moved = numpy.array(moved, numpy.int64)
    pairs = types.Pairs(pairs)
    disks = fields.setdefault('disks', disk_states())
    return samples.make_sample(
        pairs,
        **{
            'seconds': seconds,
            'read_bytes': moved,
            'write_bytes': moved // 2,
            'reads': moved // 100_000,
            'writes': moved // 200_000,
            'idle': moved == 0,
            'devices': {uuid: disk.device for uuid, disk in disks.items()},
            'unwatched': {LOST: 'it has no device'},
            'consumers': CONSUMERS,
            'history': make_history(pairs),
            **fields,
        },
    )


def make_decision():
    return manager.Decision(
        shares=policy.Shares(
            PAIRS,
            classes=numpy.array([1.0, 9.0, 10.0, 10.0]),
            group_classes=numpy.array([1.0, 9.0, 10.0, 10.0]),
            shares=numpy.array([0.05, 0.947, 1.0, 1.0]),
            used_bytes=numpy.array([3e9, 64e6, 0.0, 0.0]),
            reasons=numpy.array([4, 4, 0, 1]),
            exempt=numpy.array([False, False, False, True]),
        ),
        controllers={HDD: controllers.Controller('bfq', '')},
        refusals={NVME: 'io.cost has no model of it'},
        left_out={},
        weights={(LONG, HDD): 5, (SMALL, HDD): 94},
        errors={(SMALL, HDD): 'libvirt refuses'},
        changes=2,
        trials={HDD: turns.Trial(choice=1, lost=0.18)},
    )


def elastic_status(**fields):
    """Return the status of a vdisk that is being widened."""
    location = (HDD,) * 4
    vdisk = elastic_status_.ElasticVDisk(
        uuid=VOLUME,
        location=location,
        width=1,
        minimum=1,
        maximum=4,
        pressure=0.9,
        use=0.8,
        verdict='widen',
        why='pressure of 90% for 120 s',
        target=2,
        left_bytes=3 << 29,
        left_seconds=16.1061,
    )
    step = elastic_status_.WantedStep(
        VOLUME, location, (HDD, HDD, LOST, LOST), 2 << 30, 990.0
    )
    return elastic_status_.ElasticStatus(
        **{
            'vdisks': (vdisk,),
            'step': step,
            'moves': {
                'widen': {'done': 3, 'failed': 1},
                'narrow': {'done': 2, 'failed': 0},
            },
            'executor': 'waits',
            **fields,
        }
    )


def status_provider(sample=None, **arguments):
    """Return a provider of the example's status.

    :param arguments: other arguments of ``build_status``, or fields of the
        interval.
    """
    interval = build_io_status.Interval(
        time=1000.0,
        cpu_seconds=0.004,
        sample=sample or make_sample(),
        decision=make_decision(),
        fair_shares=numpy.array([2.97, 0.03, 0.0, 0.0]),
        rounds=1,
        total_cpu_seconds=0.004,
        weight_changes=2,
        seekers=frozenset({(LONG, HDD)}),
    )
    changed = arguments.keys() & vars(interval).keys()
    fields = {name: arguments.pop(name) for name in changed}
    use = guest_stats.GuestDiskUse(
        '/disks/vdisk', NVME, 1e6, 0.0, 10.0, 0.0, 0.0, 0.02, None, None
    )
    resources = guest_counters.GuestResources(
        cpu_seconds=12.5,
        memory_bytes=2 << 30,
        memory_used_bytes=1 << 30,
        received_bytes={'tap0': 90, 'tap1': 5},
        transmitted_bytes={'tap0': 70, 'tap1': 6},
    )
    return functools.partial(
        build_io_status.build_status,
        **{
            'host': 'compute-3',
            'mode': 'on',
            'interval': dataclasses.replace(interval, **fields),
            'elastic': elastic_status(),
            'standby': {HDD: spindown.Standby(True, 9.0, 600.0, 2400.0)},
            'guests': guest_stats.GuestStats(
                {SMALL: [use]}, {(SMALL, NVME): 1e6}, {SMALL: resources}
            ),
            **arguments,
        },
    )


def host_status_provider(**fields):
    """Return a provider of the example's status of the host."""
    figures = inventory.DiskFigures(1000, 100, 400, 150, 0)
    state = host_status.HostStatus(
        **{
            'host': 'compute-3',
            'disks': [
                host_status.Disk(HDD, 'ok', 5, figures, 200, 900.0),
                host_status.Disk(LOST, 'missing', 0, None),
            ],
            'checked': 999.0,
            'placement_updated': 990.0,
            'reported': 980.0,
            'placement_errors': 2,
            'report_errors': 3,
            'bind_failures': {'refused': 4, 'disk': 0},
            'settling': (
                settling.VDisk(
                    'v',
                    'volume-v',
                    SMALL,
                    'compute-1',
                    HDD,
                    settling.COPYING,
                    0.0,
                    done=40,
                    total=100,
                ),
            ),
            **fields,
        }
    )
    return lambda: state
