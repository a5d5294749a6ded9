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

"""The elastic vdisks of a host, as the status and the metrics have them."""

import collections.abc
import dataclasses
from typing import Any

from nova_diskplacer.monitor import metric

_VDISK = ('host', 'vdisk')

WIDEN, NARROW = 'widen', 'narrow'
DONE, FAILED = 'done', 'failed'


@dataclasses.dataclass(frozen=True)
class WantedStep:
    """The step that the agent wants next, of a vdisk from ``old``.

    ``old`` and ``location`` have the disk of each leg. ``asked`` tells this
    attempt from others: seconds since the epoch.
    """

    vdisk: str
    old: tuple[str, ...]
    location: tuple[str, ...]
    size_bytes: int
    asked: float


@dataclasses.dataclass(frozen=True)
class ElasticVDisk:
    """An elastic vdisk after a decision.

    ``location`` has the disk of each leg. ``pressure`` is the utilization of
    its busiest disk and ``use`` the largest part that it causes of one, 0 to
    1; both are None while they are not known. ``target`` is the width to which
    the vdisk is being moved, ``left_bytes`` are copied yet and take
    ``left_seconds`` at the bounded rate; None without a move. ``verdict`` is
    'widen', 'narrow', 'forced' or 'stay', and ``why`` the reason.
    """

    uuid: str
    location: tuple[str, ...]
    width: int
    minimum: int
    maximum: int
    pressure: float | None
    use: float | None
    verdict: str
    why: str
    target: int | None = None
    left_bytes: int | None = None
    left_seconds: float | None = None


@dataclasses.dataclass(frozen=True)
class ElasticStatus:
    """The elastic vdisks of a host.

    ``step`` is the step that is wanted, None without a move. ``moves`` counts
    the moves since the start of the agent, by direction and outcome.
    ``executor`` tells what carries out the moves, or that nothing does.
    """

    vdisks: tuple[ElasticVDisk, ...]
    step: WantedStep | None
    moves: dict[str, dict[str, int]]
    executor: str = ''


def no_moves() -> dict[str, dict[str, int]]:
    """Return ``moves`` at the start."""
    return {direction: {DONE: 0, FAILED: 0} for direction in (WIDEN, NARROW)}


def moves(elastic: ElasticStatus) -> dict[str, str]:
    """Return where vdisks are being moved to and why, by volume."""
    return {
        vdisk.uuid: f'to {vdisk.target} disks: {vdisk.why}'
        for vdisk in elastic.vdisks
        if vdisk.target is not None
    }


def _of_vdisks(
    name: str,
    text: str,
    figure: collections.abc.Callable[[ElasticVDisk], float | None],
) -> metric.Metric:
    def samples(state: Any) -> metric.Samples:
        for vdisk in state.elastic.vdisks if state.elastic else ():
            value = figure(vdisk)
            if value is not None:
                yield (state.host, vdisk.uuid), value

    return metric.Metric(metric.GAUGE, name, text, _VDISK, samples)


def _moves(state: Any) -> metric.Samples:
    if state.elastic:
        for direction, counts in state.elastic.moves.items():
            for outcome, count in counts.items():
                yield (state.host, direction, outcome), count


#: The metrics of a status with an ``elastic`` one.
METRICS = (
    metric.Metric(
        metric.COUNTER,
        'elastic_moves',
        'Moves of elastic vdisks that have ended. Directions: widen, narrow. '
        'Outcomes: done, failed.',
        (*metric.AGENT, 'direction', 'outcome'),
        _moves,
    ),
    _of_vdisks(
        'vdisk_width',
        'Number of disks that hold the elastic vdisk.',
        lambda vdisk: vdisk.width,
    ),
    _of_vdisks(
        'vdisk_pressure_ratio',
        'Utilization of the busiest disk of the elastic vdisk, 0 to 1, over '
        '[diskplacer_elastic] widen_after.',
        lambda vdisk: vdisk.pressure,
    ),
    _of_vdisks(
        'vdisk_use_ratio',
        'Largest utilization that the elastic vdisk itself causes of one of '
        'its disks, 0 to 1, over the same time.',
        lambda vdisk: vdisk.use,
    ),
    _of_vdisks(
        'vdisk_move_target_width',
        'Width to which the elastic vdisk is being moved. Absent without a '
        'move.',
        lambda vdisk: vdisk.target,
    ),
    _of_vdisks(
        'vdisk_move_left_bytes',
        'Bytes that the move of the elastic vdisk has to copy yet. Absent '
        'without a move.',
        lambda vdisk: vdisk.left_bytes,
    ),
)
