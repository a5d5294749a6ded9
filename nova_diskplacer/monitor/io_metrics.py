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

"""Metrics of servers and disks: the I/O of the last interval."""

import collections.abc
from importlib import metadata

from nova_diskplacer.monitor import metric
from nova_diskplacer.monitor import status
from nova_diskplacer.monitor import types


def _server(
    kind: str,
    name: str,
    text: str,
    column: collections.abc.Callable[
        [status.ConsumerDiskColumns], collections.abc.Iterable[float | None]
    ],
) -> metric.Metric:
    def samples(state: status.Status) -> metric.Samples:
        pairs = state.pairs
        columns = pairs.servers, pairs.projects, pairs.disks, column(pairs)
        for *names, value in zip(*columns, strict=True):
            if value is not None:
                yield (state.host, *names), value

    return metric.Metric(kind, name, text, metric.SERVER_ON_DISK, samples)


def _server_flag(
    name: str,
    text: str,
    column: collections.abc.Callable[
        [status.ConsumerDiskColumns], collections.abc.Iterable[object]
    ],
) -> metric.Metric:
    """Return a metric that is 1 where the column is true, and else absent."""
    return _server(
        metric.GAUGE,
        name,
        text,
        lambda pairs: (1 if holds else None for holds in column(pairs)),
    )


def _agent_info(state: status.Status) -> metric.Samples:
    yield (state.host, metadata.version('nova-diskplacer'), state.mode), 1


def _disk_info(state: status.Status) -> metric.Samples:
    for disk in state.disks:
        rotational = '1' if disk.rotational else '0'
        labels = (disk.uuid, disk.device, rotational, disk.controller)
        yield (state.host, *labels), 1


def _hung(state: status.Status) -> metric.Samples:
    for uuid in sorted({*state.hung, *(disk.uuid for disk in state.disks)}):
        yield (state.host, uuid), uuid in state.hung


def _warnings(state: status.Status) -> metric.Samples:
    for disk in state.disks:
        for kind in types.WARNINGS:
            yield (state.host, disk.uuid, kind), kind in disk.warnings


def _unwatched(state: status.Status) -> metric.Samples:
    for uuid in state.unwatched:
        yield (state.host, uuid), 1


#: Every metric of the I/O loop, in the order of exposition.
METRICS = (
    metric.Metric(
        metric.INFO,
        'agent',
        'The version of the agent and [diskplacer_weights] mode.',
        (*metric.AGENT, 'version', 'mode'),
        _agent_info,
    ),
    metric.of_agent(
        metric.COUNTER, 'rounds', 'Completed rounds.', lambda s: s.rounds
    ),
    metric.of_agent(
        metric.COUNTER,
        'round_cpu_seconds',
        'CPU time of rounds.',
        lambda s: s.total_cpu_seconds,
    ),
    metric.of_agent(
        metric.GAUGE,
        'last_round_timestamp_seconds',
        'End of the last round, since the epoch.',
        lambda s: s.time,
    ),
    metric.of_agent(
        metric.GAUGE,
        'weights_decided',
        '1 if weights were decided in the last round, 0 if that failed or '
        '[diskplacer_weights] mode is off.',
        lambda s: s.deciding,
    ),
    metric.of_agent(
        metric.COUNTER,
        'weight_changes',
        'Weights that were changed, or in a dry run would have been.',
        lambda s: s.weight_changes,
    ),
    metric.Metric(
        metric.INFO,
        'disk',
        'A monitored disk: its device, 1 if it is rotational, and the '
        'controller that honours weights on it (empty: none).',
        (*metric.DISK, 'device', 'rotational', 'controller'),
        _disk_info,
    ),
    metric.Metric(
        metric.GAUGE,
        'disk_unwatched',
        '1 for each disk that cannot be monitored.',
        metric.DISK,
        _unwatched,
    ),
    metric.of_disks(
        metric.COUNTER,
        'disk_read_bytes',
        'All bytes read from the disk.',
        lambda d: d.totals.read_bytes,
    ),
    metric.of_disks(
        metric.COUNTER,
        'disk_written_bytes',
        'All bytes written to the disk.',
        lambda d: d.totals.write_bytes,
    ),
    metric.of_disks(
        metric.COUNTER,
        'disk_reads',
        'Read requests that the disk completed.',
        lambda d: d.totals.reads,
    ),
    metric.of_disks(
        metric.COUNTER,
        'disk_writes',
        'Write requests that the disk completed.',
        lambda d: d.totals.writes,
    ),
    metric.of_disks(
        metric.COUNTER,
        'disk_busy_seconds',
        'Time with requests in flight. Its rate is the utilisation.',
        lambda d: d.totals.busy_seconds,
    ),
    metric.of_disks(
        metric.COUNTER,
        'disk_request_seconds',
        'Sum of the times of all requests. Its rate is the mean number in '
        'flight; divided by the rate of reads and writes, the mean latency.',
        lambda d: d.totals.request_seconds,
    ),
    metric.of_disks(
        metric.GAUGE,
        'disk_speed_bytes_per_second',
        'Known throughput of the disk: as measured, or that of its medium. '
        'Absent if unknown.',
        lambda d: d.speed,
    ),
    metric.of_disks(
        metric.GAUGE,
        'disk_turn_seconds',
        'Turns of servers that the agent has set in BFQ. Absent while the '
        "disk has BFQ's own settings, or another controller.",
        lambda d: d.turn_seconds,
    ),
    metric.of_disks(
        metric.GAUGE,
        'disk_weights_cost_ratio',
        'Share of the throughput of the disk that the settings of BFQ cost '
        'when they were tried last. Absent while they were not.',
        lambda d: d.lost,
    ),
    metric.of_disks(
        metric.GAUGE,
        'disk_score_bytes_per_second',
        "Fennel's throughput score: throughput divided by the busy share and "
        'the number of consumers. Absent while no consumer uses the disk.',
        lambda d: d.score,
    ),
    metric.of_disks(
        metric.GAUGE,
        'disk_flagged',
        '1 while servers on the disk are to be checked for seeks.',
        lambda d: d.flagged,
    ),
    metric.of_disks(
        metric.GAUGE,
        'disk_pressure_ratio',
        'Sustained pressure on the disk, 0 to 1, as reported to schedulers.',
        lambda d: d.pressure,
    ),
    metric.of_disks(
        metric.GAUGE,
        'disk_idle',
        '1 while the disk is idle: without I/O for [diskplacer_monitor] '
        'idle_after.',
        lambda d: d.idle,
    ),
    metric.of_disks(
        metric.GAUGE,
        'disk_idle_seconds',
        'Time without I/O, at most since the start of the agent.',
        lambda d: d.idle_seconds,
    ),
    metric.of_disks(
        metric.GAUGE,
        'disk_standby',
        '1 while the disk is in standby. Absent without [diskplacer_agent] '
        'spindown.',
        lambda d: d.in_standby,
    ),
    metric.of_disks(
        metric.COUNTER,
        'disk_standby_seconds',
        'Time in standby. Absent without [diskplacer_agent] spindown.',
        lambda d: d.standby_seconds,
    ),
    metric.of_disks(
        metric.COUNTER,
        'disk_energy_saved_joules',
        'Estimate of the energy that standby has saved: its time, times the '
        'difference of the figures in [diskplacer_agent] disk_power. Absent '
        'for models without figures.',
        lambda d: d.saved_joules,
    ),
    metric.of_disks(
        metric.GAUGE,
        'disk_temperature_celsius',
        'Temperature of the disk, if smartctl reports it.',
        lambda d: d.temperature,
    ),
    metric.Metric(
        metric.GAUGE,
        'disk_hung',
        '1 while the disk is hung: it does not answer and is not offered.',
        metric.DISK,
        _hung,
    ),
    metric.Metric(
        metric.GAUGE,
        'disk_warnings',
        '1 while the warning of this kind is in force for the disk, else 0. '
        f'Kinds: {", ".join(types.WARNINGS)}.',
        (*metric.DISK, 'kind'),
        _warnings,
    ),
    metric.of_disks(
        metric.GAUGE,
        'disk_weights_error',
        '1 while no controller honours weights on the disk; none are set.',
        lambda d: bool(d.error),
    ),
    _server(
        metric.COUNTER,
        'server_read_bytes',
        'Bytes that the server read from the disk.',
        lambda p: p.total_read_bytes,
    ),
    _server(
        metric.COUNTER,
        'server_written_bytes',
        'Bytes that the server wrote to the disk.',
        lambda p: p.total_write_bytes,
    ),
    _server(
        metric.COUNTER,
        'server_reads',
        'Read requests of the server to the disk.',
        lambda p: p.total_reads,
    ),
    _server(
        metric.COUNTER,
        'server_writes',
        'Write requests of the server to the disk.',
        lambda p: p.total_writes,
    ),
    _server(
        metric.GAUGE,
        'server_class',
        'Class of the server on the disk; absent while none is decided.',
        lambda p: p.classes,
    ),
    _server(
        metric.GAUGE,
        'server_used_bytes',
        'Use of the disk that determines the class: bytes read and written, '
        'or with io.cost those that the disk reads in the time that was '
        'charged, of the recent past.',
        lambda p: p.used_bytes,
    ),
    _server(
        metric.GAUGE,
        'server_weight',
        'I/O weight of the server on the disk, in a dry run the one that it '
        'would have; absent if none is set.',
        lambda p: p.weights,
    ),
    _server(
        metric.GAUGE,
        'server_latency_seconds',
        "Mean latency of the guest's requests to the disk, including the "
        "host's queues, between the last two polls of libvirt. Absent without "
        'requests.',
        lambda p: p.guest_latencies,
    ),
    _server_flag(
        'server_weight_error',
        '1 for each weight that could not be set.',
        lambda p: p.errors,
    ),
    _server_flag(
        'server_seeker',
        '1 for each server that seeks excessively on the disk.',
        lambda p: p.seekers,
    ),
    _server_flag(
        'server_exempt',
        '1 for each server whose weight is never changed.',
        lambda p: p.exempt,
    ),
    _server(
        metric.GAUGE,
        'server_budget_ratio',
        'Use of the disk by the server divided by its fair share, over '
        '[diskplacer_monitor] budget_window.',
        lambda p: p.budgets,
    ),
)
