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

"""A round of two disks, two servers and another cgroup, as an example."""

import dataclasses

import numpy

from nova_diskplacer.agent import io_status
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import controllers
from nova_diskplacer.io_weights import manager
from nova_diskplacer.io_weights import policy
from nova_diskplacer.monitor import guest_stats
from nova_diskplacer.monitor import history
from nova_diskplacer.monitor import io_stat
from nova_diskplacer.monitor import sampler
from nova_diskplacer.monitor import totals
from nova_diskplacer.monitor import types

HDD = '0a4c7a40-0000-4000-8000-000000000001'
NVME = '77c1d2e3-0000-4000-8000-000000000002'
LOST = 'f3b37f32-0000-4000-8000-000000000003'
LONG = '53d1f9d2-0000-4000-8000-00000000000a'
SMALL = '8f0c2a4e-0000-4000-8000-00000000000b'
BACKUP = 'backup.slice/restic.service'
PAIRS = ((LONG, HDD), (SMALL, HDD), (SMALL, NVME), (BACKUP, HDD))

CONSUMERS = {
    LONG: types.Consumer(LONG, '/m/1', 'instance-00000001', 'alpha'),
    SMALL: types.Consumer(SMALL, '/m/2', 'instance-00000002', 'beta'),
    BACKUP: types.Consumer(BACKUP, BACKUP),
}


def integers(*values):
    return numpy.array(values, dtype=numpy.int64)


def round_(seconds=2.0, pairs=PAIRS, bytes_=(200_000_000, 2_000_000, 0, 0)):
    bytes_ = integers(*bytes_)
    return types.Round(
        seconds,
        pairs,
        read_bytes=bytes_,
        write_bytes=bytes_ // 2,
        reads=bytes_ // 100_000,
        writes=bytes_ // 200_000,
        idle=bytes_ == 0,
    )


def state(uuid=HDD, name='sda', number='8:0', **changes):
    return types.DiskState(
        **{
            'device': Device(uuid, name, number, name == 'sda'),
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
            **changes,
        }
    )


def summary():
    """Return what is known after two rounds of 2 s, of 200 and 100 MB."""
    past = history.History(0.0)
    for now, megabytes in ((1.0, 0), (3.0, 200), (5.0, 300)):
        values = numpy.zeros((4, 4), dtype=numpy.int64)
        values[0, 0] = megabytes * 1_000_000
        first = numpy.full(4, now == 1.0)
        past.update(now, io_stat.Counters(PAIRS, values, first))
    return past.summary()


def states():
    return {
        HDD: state(temperature=61, warnings=('temperature is 61 °C',)),
        NVME: state(
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


def _sight(changes):
    return sampler.Sight(
        **{
            'round': round_(),
            'states': states(),
            'devices': {},
            'unwatched': {LOST: 'it has no device'},
            'consumers': CONSUMERS,
            'counters': None,
            'summary': summary(),
            'hierarchy': None,
            **changes,
        }
    )


def _decision():
    return manager.Decision(
        directives=policy.Directives(
            PAIRS,
            classes=numpy.array([1.0, 9.5, 10.0, 10.0]),
            shares=numpy.array([0.05, 0.947, 1.0, 1.0]),
            cumulative=numpy.array([3e9, 64e6, 0.0, 0.0]),
            exempt=numpy.array([False, False, False, True]),
        ),
        controllers={HDD: controllers.Controller('bfq', 5, 100, '')},
        refusals={NVME: 'io.cost has no model of it'},
        weights={(LONG, HDD): 5, (SMALL, HDD): 94},
        errors={(SMALL, HDD): 'libvirt refuses'},
        changes=2,
    )


def take(**changes):
    """Return what makes the example's snapshot.

    :param changes: fields of the outcome, or of what was seen.
    """
    names = {field.name for field in dataclasses.fields(sampler.Sight)}
    seen = {name: changes.pop(name) for name in names & changes.keys()}
    use = guest_stats.Use(
        '/disks/vdisk', NVME, 1e6, 0.0, 10.0, 0.0, 0.0, 0.02, None, None
    )
    return io_status.Outcome(
        **{
            'host': 'compute-3',
            'mode': 'on',
            'time': 1000.0,
            'cpu_seconds': 0.004,
            'sight': _sight(seen),
            'decision': _decision(),
            'seekers': frozenset({(LONG, HDD)}),
            'budgets': numpy.array([2.97, 0.03, 0.0, 0.0]),
            'totals': totals.add(
                totals.Totals(), round_(), states(), 0.004, 2
            ),
            'hung': [],
            'guests': guest_stats.Look({SMALL: [use]}, {(SMALL, NVME): 1e6}),
            **changes,
        }
    ).take
