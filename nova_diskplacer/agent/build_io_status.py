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

"""Builds the status of the I/O loop from an interval and slower checks.

Any thread may build it, long after the interval: its inputs never change.
"""

import collections.abc
import dataclasses
from typing import Any

import numpy

from nova_diskplacer.agent import spindown
from nova_diskplacer.io_weights import disk_trials
from nova_diskplacer.io_weights import manager
from nova_diskplacer.io_weights import policy
from nova_diskplacer.monitor import elastic_status
from nova_diskplacer.monitor import guest_stats
from nova_diskplacer.monitor import status
from nova_diskplacer.monitor import types

_RATES = ('read_bytes', 'write_bytes', 'reads', 'writes')


@dataclasses.dataclass(frozen=True)
class Interval:
    """An interval of the I/O loop: its sample, and what was decided on it.

    ``time`` is its end, in seconds since the epoch. ``decision`` is None if
    weights are not decided. ``fair_shares`` are ratios of use to fair share.
    ``rounds`` is the number of intervals, including this one,
    ``total_cpu_seconds`` their CPU time, and ``weight_changes`` the number of
    weights that were changed in them, or in a dry run would have been.
    """

    time: float
    cpu_seconds: float
    sample: types.Sample
    decision: manager.Decision | None
    fair_shares: types.Floats
    rounds: int
    total_cpu_seconds: float
    weight_changes: int
    seekers: collections.abc.Collection[types.ConsumerDisk]


def build_status(
    host: str,
    mode: str,
    interval: Interval,
    guests: guest_stats.GuestStats | None,
    standby: collections.abc.Mapping[str, spindown.Standby],
    elastic: elastic_status.ElasticStatus | None,
) -> status.Status:
    """Return the status after an interval; see its fields.

    :param guests: None if unknown.
    :param standby: of disks with a standby timeout, by UUID.
    :param elastic: None while elastic vdisks are not decided on.
    """
    sample, decision = interval.sample, interval.decision
    return status.Status(
        host=host,
        mode=mode,
        deciding=decision is not None,
        time=interval.time,
        interval=sample.seconds,
        cpu_seconds=interval.cpu_seconds,
        rounds=interval.rounds,
        total_cpu_seconds=interval.total_cpu_seconds,
        weight_changes=interval.weight_changes,
        disks=[
            _disk(state, decision, standby.get(uuid))
            for uuid, state in sorted(sample.disks.items())
        ],
        unwatched=dict(sample.unwatched),
        hung=sorted(sample.hung),
        pairs=status.ConsumerDiskColumns(
            **_consumers(sample, interval.seekers, guests),
            **_decided(sample.pairs, decision),
            budgets=interval.fair_shares.tolist(),
            **{
                f'total_{name}': sample.history['totals'][:, column].tolist()
                for column, name in enumerate(_RATES)
            },
            history=_history(sample.history),
        ),
        guests=[
            {'server': server, **dataclasses.asdict(use)}
            for server, uses in sorted(guests.uses.items())
            for use in uses
        ]
        if guests
        else [],
        resources=_resources(sample, guests) if guests else [],
        elastic=elastic,
    )


def _disk(
    state: types.DiskState,
    decision: manager.Decision | None,
    standby: spindown.Standby | None,
) -> status.Disk:
    figures = {**vars(state), 'warnings': dict(state.warnings)}
    device = figures.pop('device')
    for name in ('iocost_usage', 'seconds', 'totals_seconds', 'used_seconds'):
        del figures[name]
    controller = decision and decision.controllers.get(device.uuid)
    trial = decision.trials.get(device.uuid) if decision else None
    return status.Disk(
        uuid=device.uuid,
        device=device.name,
        rotational=device.rotational,
        controller=controller.name if controller else '',
        in_standby=standby.now if standby else None,
        standby_seconds=standby.seconds if standby else None,
        saved_joules=standby.joules if standby else None,
        speed=device.mbps * 1e6 or None,
        turn_seconds=disk_trials.turn_s(device, trial) if trial else None,
        lost=trial.lost if trial else None,
        error=decision.refusals.get(device.uuid, '') if decision else '',
        left_out=decision.left_out.get(device.uuid, '') if decision else '',
        **figures,
    )


def _consumers(
    sample: types.Sample,
    seekers: collections.abc.Collection[types.ConsumerDisk],
    guests: guest_stats.GuestStats | None,
) -> dict[str, list[Any]]:
    unaccounted = guests.unaccounted if guests else {}
    latencies = guest_stats.latencies(guests) if guests else {}
    consumers = [
        sample.consumers.get(key, types.Consumer(key, ''))
        for key, _ in sample.pairs
    ]
    return {
        'servers': [consumer.key for consumer in consumers],
        'domains': [consumer.domain for consumer in consumers],
        'projects': [consumer.project for consumer in consumers],
        'disks': [uuid for _, uuid in sample.pairs],
        **{
            name: (getattr(sample, name) / sample.seconds).tolist()
            for name in _RATES
        },
        'idle': sample.idle.tolist(),
        'seekers': [pair in seekers for pair in sample.pairs],
        'guest_latencies': [latencies.get(pair) for pair in sample.pairs],
        'unseen_bytes': [unaccounted.get(pair, 0.0) for pair in sample.pairs],
    }


def _resources(
    sample: types.Sample, guests: guest_stats.GuestStats
) -> list[dict[str, Any]]:
    return [
        {
            'server': server,
            'project': sample.consumers[server].project,
            **dataclasses.asdict(resources),
        }
        for server, resources in sorted(guests.resources.items())
        # libvirt also runs domains that are not Nova's
        if server in sample.consumers
    ]


def _decided(
    pairs: types.Pairs, decision: manager.Decision | None
) -> dict[str, list[Any]]:
    if decision is None:
        unknown = [None] * len(pairs)
        return {
            'classes': unknown,
            'used_bytes': unknown,
            'weights': unknown,
            'reasons': [''] * len(pairs),
            'exempt': [False] * len(pairs),
            'errors': [''] * len(pairs),
        }
    return {
        'classes': decision.shares.classes.tolist(),
        'used_bytes': decision.shares.used_bytes.tolist(),
        'weights': [decision.weights.get(pair) for pair in pairs],
        'reasons': [
            policy.REASONS[number] for number in decision.shares.reasons
        ],
        'exempt': decision.shares.exempt.tolist(),
        'errors': [decision.errors.get(pair, '') for pair in pairs],
    }


def _history(history: types.PairTable) -> dict[str, list[float]]:
    active = history['active']
    columns = {
        'active_intervals': active.tolist(),
        'idle_seconds': history['idle_seconds'].tolist(),
    }
    rates = {
        **history.columns,
        # the population's standard deviation
        'deviation': numpy.sqrt(
            history['squares'] / numpy.maximum(active, 1)[:, None]
        ),
    }
    for name in ('minimum', 'maximum', 'mean', 'deviation'):
        values = rates[name]
        for index, direction in enumerate(('read_bytes', 'write_bytes')):
            columns[f'{direction}_{name}'] = values[:, index].tolist()
    return columns
