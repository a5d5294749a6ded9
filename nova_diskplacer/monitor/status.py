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

"""The state of a round, for whoever asks: metrics, ``top``, scripts.

The agent keeps what a round leaves anyway and makes a snapshot of it only
when somebody asks.
"""

import dataclasses
import json
from typing import Any

from nova_diskplacer import exception
from nova_diskplacer.monitor import totals

#: Version of the JSON form.
VERSION = 2


@dataclasses.dataclass(frozen=True)
class Disk:
    """A disk that is watched.

    Rates are bytes and requests per second of the last interval, the figures
    up to ``temperature`` as in ``types.DiskState``, ``totals`` since the
    agent began. ``controller`` is what makes the kernel honour weights there
    ('' if nothing does), and ``error`` why nothing does.
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
    controller: str
    error: str
    warnings: list[str]
    totals: totals.DiskTotals


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Consumers on disks, a list for each column, all of one length.

    ``servers`` are UUIDs of servers, or paths of other cgroups; ``domains``
    the names that libvirt has for them ('' for other cgroups). Rates are
    bytes and requests per second of the last interval. ``used_bytes`` is
    what the class follows from, ``weights`` are those that should be in
    force (None: none is set), ``errors`` why one is not. ``budgets`` are
    what was used over a fair share (None: not known yet). ``history`` has
    the columns of ``history.Summary``, ``unseen_bytes`` the bytes per second
    that the guest moved and accounts do not have.
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
    exempt: list[bool]
    seekers: list[bool]
    budgets: list[float | None]
    errors: list[str]
    total_read_bytes: list[int]
    total_write_bytes: list[int]
    total_reads: list[int]
    total_writes: list[int]
    history: dict[str, list[float]]
    unseen_bytes: list[float]


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """All that the agent saw and decided in a round.

    ``time`` is when the round ended (seconds since the epoch), ``interval``
    how long the looks are apart and ``cpu_seconds`` what the round cost.
    ``mode`` is that of ``[diskplacer_weights]``, and ``deciding`` whether
    weights were decided in the round. ``unwatched`` tells why a disk is not
    among ``disks``, by its UUID. ``hung`` are the UUIDs of disks that do not
    answer, which may be among either.
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
    pairs: Pairs
    guests: list[dict[str, Any]]


def to_json(snapshot: Snapshot | None) -> str:
    """Return the snapshot as JSON; None: there was no round yet."""
    if snapshot is None:
        return json.dumps(None)
    return json.dumps({'version': VERSION, **vars(snapshot)}, default=vars)


def from_json(text: str) -> Snapshot | None:
    """Return the snapshot that ``to_json`` made text of.

    :raises ContentionError: it is not one.
    """
    try:
        fields: Any = json.loads(text)
        if fields is None:
            return None
        if fields.pop('version') != VERSION:
            raise ValueError(f'its version is not {VERSION}')
        disks = [
            Disk(**{**disk, 'totals': totals.DiskTotals(**disk['totals'])})
            for disk in fields.pop('disks')
        ]
        pairs = Pairs(**fields.pop('pairs'))
        return Snapshot(disks=disks, pairs=pairs, **fields)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise exception.ContentionError(
            f'the agent tells of its rounds in another form ({error}): is it '
            'of another version?'
        ) from error
