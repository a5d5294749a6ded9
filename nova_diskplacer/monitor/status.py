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

"""The status of the I/O loop after an interval.

Metrics, ``diskplacer-manage top`` and scripts read it.
"""

import collections.abc
import dataclasses
import json
from typing import Any

from nova_diskplacer import exception
from nova_diskplacer.host import json_fields
from nova_diskplacer.monitor import diskstats
from nova_diskplacer.monitor import elastic_status

#: Version of the JSON format.
VERSION = 7


@dataclasses.dataclass(frozen=True)
class Disk:
    """A monitored disk.

    The figures up to ``idle`` are those of ``types.DiskState``.
    ``in_standby`` tells whether the disk is in standby, ``standby_seconds``
    how long it was and ``saved_joules`` what that saved since the start of the
    agent: None without a standby timeout, the last also without figures for
    its model. ``speed`` is its known throughput in bytes/s (None: unknown).
    ``turn_seconds`` are the turns of servers that the agent has set in BFQ
    (None: it has set none), and ``lost`` the share of the throughput that they
    cost when they were tried (None: they were not).
    ``controller`` is the name of the controller that applies I/O weights
    (empty: none). ``error`` is the reason why there is none, or ``left_out``
    if it has none on purpose.
    """

    uuid: str
    device: str
    rotational: bool
    read_bytes: float
    write_bytes: float
    reads: float
    writes: float
    busy: float
    queue: float
    latency: float | None
    score: float | None
    flagged: bool
    pressure: float
    temperature: int | None
    idle_seconds: float
    idle: bool
    in_standby: bool | None
    standby_seconds: float | None
    saved_joules: float | None
    speed: float | None
    turn_seconds: float | None
    lost: float | None
    controller: str
    error: str
    left_out: str
    warnings: collections.abc.Mapping[str, str]
    totals: diskstats.Counters


@dataclasses.dataclass(frozen=True)
class ConsumerDiskColumns:
    """Consumers on disks: lists of one length, with a value for each pair.

    ``servers`` are UUIDs of servers or paths of other cgroups, ``domains``
    libvirt's names of servers (empty for other cgroups). Rates are bytes and
    requests per second of the interval. ``used_bytes`` is the use that
    determines the class. ``weights`` are those that should be in force (None:
    none is set), ``reasons`` the reasons for them (empty: none is decided) and
    ``errors`` the reasons why they are not in force. ``budgets`` are ratios of
    use to fair share. ``history`` has columns of ``history.History``.
    ``guest_latencies`` are the mean latencies of a guest's requests in seconds
    between the last two polls of libvirt, including the host's queues (None
    without requests). ``unseen_bytes`` are the bytes per second of a guest
    that the kernel's counters lack.
    """

    servers: list[str]
    domains: list[str]
    projects: list[str]
    disks: list[str]
    read_bytes: list[float]
    write_bytes: list[float]
    reads: list[float]
    writes: list[float]
    idle: list[bool]
    classes: list[float | None]
    used_bytes: list[float | None]
    weights: list[int | None]
    reasons: list[str]
    exempt: list[bool]
    seekers: list[bool]
    budgets: list[float | None]
    errors: list[str]
    total_read_bytes: list[int]
    total_write_bytes: list[int]
    total_reads: list[int]
    total_writes: list[int]
    history: dict[str, list[float]]
    guest_latencies: list[float | None]
    unseen_bytes: list[float]


@dataclasses.dataclass(frozen=True)
class Status:
    """The status after an interval.

    ``time`` is the end of the interval (seconds since the epoch),
    ``interval`` its length and ``cpu_seconds`` its CPU time. ``mode`` is
    ``[diskplacer_weights] mode``; ``deciding`` is false if weights are not
    decided. ``rounds`` is the number of intervals. ``unwatched`` is the reason
    why a disk is not among ``disks``, by its UUID. ``hung`` are the UUIDs of
    disks that do not answer; they may be among either. ``guests`` and
    ``resources`` are of the last poll of libvirt: the fields of
    ``guest_stats.GuestDiskUse`` and the ``server`` of each guest disk, and
    those of ``guest_counters.GuestResources`` with the ``server`` and its
    ``project``. ``elastic`` is None while elastic vdisks are not decided on.
    """

    host: str
    mode: str
    deciding: bool
    time: float
    interval: float
    cpu_seconds: float
    rounds: int
    total_cpu_seconds: float
    weight_changes: int
    disks: list[Disk]
    unwatched: dict[str, str]
    hung: list[str]
    pairs: ConsumerDiskColumns
    guests: list[dict[str, Any]]
    resources: list[dict[str, Any]]
    elastic: elastic_status.ElasticStatus | None


#: Returns the status, None before the first interval.
StatusProvider = collections.abc.Callable[[], Status | None]


def to_json(status: Status | None) -> str:
    """Return the status as JSON."""
    fields = {'version': VERSION, **vars(status)} if status else None
    return json.dumps(fields, default=vars)


def from_json(text: str) -> Status | None:
    """Return the status from the JSON of ``to_json``.

    :raises AgentError: the format is unknown.
    """
    try:
        fields: Any = json.loads(text)
        if fields is None:
            return None
        if fields.pop('version') != VERSION:
            raise ValueError(f'its version is not {VERSION}')
        disks = [
            Disk(**{**disk, 'totals': diskstats.Counters(**disk['totals'])})
            for disk in fields.pop('disks')
        ]
        pairs = ConsumerDiskColumns(**fields.pop('pairs'))
        elastic = fields.pop('elastic')
        if elastic is not None:
            elastic = json_fields.typed(elastic_status.ElasticStatus, elastic)
        return Status(disks=disks, pairs=pairs, elastic=elastic, **fields)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise exception.AgentError(
            f'the status of the agent has an unknown format ({error}): is '
            'the agent of another version?'
        ) from error
