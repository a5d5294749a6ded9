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

"""Metrics of the agent for Prometheus.

``METRICS`` lists every metric; the documentation is made from it too, and the
dashboard in ``etc/grafana`` shows each. A request from Prometheus gets the
figures of the last interval.
"""

import collections.abc
import dataclasses
from importlib import metadata

from prometheus_client import core
from prometheus_client import registry

from nova_diskplacer.monitor import status

COUNTER = 'counter'
GAUGE = 'gauge'
INFO = 'info'

AGENT = ('host',)
DISK = ('host', 'disk')
SERVER = ('host', 'server', 'project', 'disk')

_UNITS = ('bytes', 'seconds', 'bytes_per_second', 'ratio', 'celsius')

Samples = collections.abc.Iterable[tuple[tuple[str, ...], float]]


@dataclasses.dataclass(frozen=True)
class Metric:
    """A metric; its samples are the values of ``labels`` and a number.

    The number of an ``INFO`` is always 1. ``name`` lacks the prefix
    ``diskplacer_`` and the suffix ``_total`` or ``_info``.
    """

    kind: str
    name: str
    text: str
    labels: tuple[str, ...]
    samples: collections.abc.Callable[[status.Status], Samples]

    @property
    def unit(self) -> str:
        """The unit, with which the name ends, '' if it has none."""
        ends = (unit for unit in _UNITS if self.name.endswith(f'_{unit}'))
        return next(ends, '')

    @property
    def full_name(self) -> str:
        """The name in Prometheus."""
        suffix = {COUNTER: '_total', INFO: '_info'}.get(self.kind, '')
        return f'diskplacer_{self.name}{suffix}'


def _agent(
    kind: str,
    name: str,
    text: str,
    value: collections.abc.Callable[[status.Status], float],
) -> Metric:
    return Metric(
        kind, name, text, AGENT, lambda state: [((state.host,), value(state))]
    )


def _disk(
    kind: str,
    name: str,
    text: str,
    figure: collections.abc.Callable[[status.Disk], float | None],
) -> Metric:
    def samples(state: status.Status) -> Samples:
        for disk in state.disks:
            value = figure(disk)
            if value is not None:
                yield (state.host, disk.uuid), value

    return Metric(kind, name, text, DISK, samples)


def _server(
    kind: str,
    name: str,
    text: str,
    column: collections.abc.Callable[
        [status.ConsumerDiskColumns], collections.abc.Iterable[float | None]
    ],
) -> Metric:
    def samples(state: status.Status) -> Samples:
        pairs = state.pairs
        columns = pairs.servers, pairs.projects, pairs.disks, column(pairs)
        for *names, value in zip(*columns, strict=True):
            if value is not None:
                yield (state.host, *names), value

    return Metric(kind, name, text, SERVER, samples)


def _server_flag(
    name: str,
    text: str,
    column: collections.abc.Callable[
        [status.ConsumerDiskColumns], collections.abc.Iterable[object]
    ],
) -> Metric:
    """Return a metric that is 1 where the column is true, and else absent."""
    return _server(
        GAUGE,
        name,
        text,
        lambda pairs: (1 if holds else None for holds in column(pairs)),
    )


def _agent_info(state: status.Status) -> Samples:
    yield (state.host, metadata.version('nova-diskplacer'), state.mode), 1


def _disk_info(state: status.Status) -> Samples:
    for disk in state.disks:
        rotational = '1' if disk.rotational else '0'
        labels = (disk.uuid, disk.device, rotational, disk.controller)
        yield (state.host, *labels), 1


def _hung(state: status.Status) -> Samples:
    for uuid in sorted({*state.hung, *(disk.uuid for disk in state.disks)}):
        yield (state.host, uuid), uuid in state.hung


def _unwatched(state: status.Status) -> Samples:
    for uuid in state.unwatched:
        yield (state.host, uuid), 1


#: Every metric, in the order of exposition.
METRICS = (
    Metric(
        INFO,
        'agent',
        'The version of the agent and [diskplacer_weights] mode.',
        (*AGENT, 'version', 'mode'),
        _agent_info,
    ),
    _agent(COUNTER, 'rounds', 'Completed rounds.', lambda s: s.rounds),
    _agent(
        COUNTER,
        'round_cpu_seconds',
        'CPU time of rounds.',
        lambda s: s.total_cpu_seconds,
    ),
    _agent(
        GAUGE,
        'last_round_timestamp_seconds',
        'End of the last round, since the epoch.',
        lambda s: s.time,
    ),
    _agent(
        GAUGE,
        'weights_decided',
        '1 if weights were decided in the last round, 0 if that failed or '
        '[diskplacer_weights] mode is off.',
        lambda s: s.deciding,
    ),
    _agent(
        COUNTER,
        'weight_changes',
        'Weights that were written.',
        lambda s: s.weight_changes,
    ),
    Metric(
        INFO,
        'disk',
        'A monitored disk: its device, 1 if it is rotational, and the '
        'controller that honours weights on it (empty: none).',
        (*DISK, 'device', 'rotational', 'controller'),
        _disk_info,
    ),
    Metric(
        GAUGE,
        'disk_unwatched',
        '1 for each disk that cannot be monitored.',
        DISK,
        _unwatched,
    ),
    _disk(
        COUNTER,
        'disk_read_bytes',
        'All bytes read from the disk.',
        lambda d: d.totals.read_bytes,
    ),
    _disk(
        COUNTER,
        'disk_written_bytes',
        'All bytes written to the disk.',
        lambda d: d.totals.write_bytes,
    ),
    _disk(
        COUNTER,
        'disk_reads',
        'Read requests that the disk completed.',
        lambda d: d.totals.reads,
    ),
    _disk(
        COUNTER,
        'disk_writes',
        'Write requests that the disk completed.',
        lambda d: d.totals.writes,
    ),
    _disk(
        COUNTER,
        'disk_busy_seconds',
        'Time with requests in flight. Its rate is the utilisation.',
        lambda d: d.totals.busy_seconds,
    ),
    _disk(
        COUNTER,
        'disk_request_seconds',
        'Sum of the times of all requests. Its rate is the mean number in '
        'flight; divided by the rate of reads and writes, the mean latency.',
        lambda d: d.totals.request_seconds,
    ),
    _disk(
        GAUGE,
        'disk_score_bytes_per_second',
        "Fennel's throughput score: throughput divided by the busy share and "
        'the number of consumers. Absent while no consumer uses the disk.',
        lambda d: d.score,
    ),
    _disk(
        GAUGE,
        'disk_flagged',
        '1 while servers on the disk are to be checked for seeks.',
        lambda d: d.flagged,
    ),
    _disk(
        GAUGE,
        'disk_pressure_ratio',
        'Sustained pressure on the disk, 0 to 1, as reported to schedulers.',
        lambda d: d.pressure,
    ),
    _disk(
        GAUGE,
        'disk_temperature_celsius',
        'Temperature of the disk, if smartctl reports it.',
        lambda d: d.temperature,
    ),
    Metric(
        GAUGE,
        'disk_hung',
        '1 while the disk is hung: it does not answer and is not offered.',
        DISK,
        _hung,
    ),
    _disk(
        GAUGE,
        'disk_warnings',
        'Warnings in force for the disk.',
        lambda d: len(d.warnings),
    ),
    _disk(
        GAUGE,
        'disk_weights_error',
        '1 while no controller honours weights on the disk; none are set.',
        lambda d: bool(d.error),
    ),
    _server(
        COUNTER,
        'server_read_bytes',
        'Bytes that the server read from the disk.',
        lambda p: p.total_read_bytes,
    ),
    _server(
        COUNTER,
        'server_written_bytes',
        'Bytes that the server wrote to the disk.',
        lambda p: p.total_write_bytes,
    ),
    _server(
        COUNTER,
        'server_reads',
        'Read requests of the server to the disk.',
        lambda p: p.total_reads,
    ),
    _server(
        COUNTER,
        'server_writes',
        'Write requests of the server to the disk.',
        lambda p: p.total_writes,
    ),
    _server(
        GAUGE,
        'server_class',
        'Class of the server on the disk; absent while none is decided.',
        lambda p: p.classes,
    ),
    _server(
        GAUGE,
        'server_used_bytes',
        'Use of the disk that determines the class: bytes read and written, '
        'less the recovery of idle intervals.',
        lambda p: p.used_bytes,
    ),
    _server(
        GAUGE,
        'server_weight',
        'I/O weight of the server on the disk; absent if none is set.',
        lambda p: p.weights,
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
        GAUGE,
        'server_budget_ratio',
        'Use of the disk by the server divided by its fair share, over '
        '[diskplacer_monitor] budget_window.',
        lambda p: p.budgets,
    ),
)


class Collector(registry.Collector):
    """Collects the metrics of the last interval for prometheus_client."""

    def __init__(self, provider: status.StatusProvider) -> None:
        self._provider = provider

    def collect(self) -> collections.abc.Iterator[core.Metric]:
        """Yield the metric families with samples."""
        state = self._provider()
        if state is None:
            return
        for metric in METRICS:
            family = core.Metric(
                f'diskplacer_{metric.name}',
                metric.text,
                metric.kind,
                metric.unit,
            )
            for labels, value in metric.samples(state):
                family.add_sample(
                    metric.full_name,
                    dict(zip(metric.labels, labels, strict=True)),
                    value,
                )
            yield family
