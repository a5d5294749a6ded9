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

"""Elastic vdisks as ``diskplacer-manage top`` and metrics show them."""

import collections.abc
import dataclasses

from nova_diskplacer.elastic import host as host_
from nova_diskplacer.elastic import policy
from nova_diskplacer.monitor import metric

#: The columns of ``row``.
COLUMNS = ('VDISK', 'WIDTH', 'RANGE', 'PRESSURE', 'USE', 'MOVE', 'WHY')

_LABELS = ('host', 'vdisk')


@dataclasses.dataclass(frozen=True)
class VDiskStatus:
    """An elastic vdisk after a decision.

    ``pressure`` and ``use`` are those of ``verdicts.Figures``, None while they
    are not known. ``target`` is the width to which the vdisk is being moved,
    and ``seconds_left`` the time that this is expected to take yet; None
    without a move. ``why`` is the reason for the move, or for none.
    """

    uuid: str
    width: int
    minimum: int
    maximum: int
    pressure: float | None
    use: float | None
    target: int | None
    seconds_left: float | None
    why: str


@dataclasses.dataclass(frozen=True)
class ElasticStatus:
    """The elastic vdisks of the host of this name."""

    host: str
    vdisks: tuple[VDiskStatus, ...]


def statuses(
    decision: policy.Decision, host: host_.Host, now: float
) -> tuple[VDiskStatus, ...]:
    """Return the statuses of all vdisks, sorted by UUID.

    :param host: the host of the decision.
    :param now: on the clock of observations.
    """
    state = decision.state
    found = []
    for uuid, verdict in sorted(decision.verdicts.items()):
        vdisk, figures = host.vdisks[uuid], verdict.figures
        move = state.move
        if move and move.vdisk != uuid:
            move = None
        left = max(0.0, state.begun + move.seconds - now) if move else None
        found.append(
            VDiskStatus(
                uuid=uuid,
                width=vdisk.width,
                minimum=vdisk.minimum,
                maximum=vdisk.maximum,
                pressure=figures.pressure if figures else None,
                use=figures.use if figures else None,
                target=len(move.new) if move else None,
                seconds_left=left,
                why=verdict.why,
            )
        )
    return tuple(found)


def row(vdisk: VDiskStatus) -> tuple[str, ...]:
    """Return the texts of a vdisk for ``COLUMNS``."""
    moving = '-'
    if vdisk.target is not None:
        moving = f'→{vdisk.target}, {vdisk.seconds_left:.0f} s left'
    return (
        vdisk.uuid,
        f'{vdisk.width}',
        f'{vdisk.minimum}-{vdisk.maximum}',
        _percent(vdisk.pressure),
        _percent(vdisk.use),
        moving,
        vdisk.why,
    )


def _percent(value: float | None) -> str:
    return '-' if value is None else f'{value:.0%}'


def _of_vdisks(
    name: str,
    text: str,
    figure: collections.abc.Callable[[VDiskStatus], float | None],
) -> metric.Metric:
    def samples(state: ElasticStatus) -> metric.Samples:
        for vdisk in state.vdisks:
            value = figure(vdisk)
            if value is not None:
                yield (state.host, vdisk.uuid), value

    return metric.Metric(metric.GAUGE, name, text, _LABELS, samples)


#: The metrics of an ``ElasticStatus``.
METRICS = (
    _of_vdisks(
        'vdisk_width',
        'Number of disks over which the elastic vdisk is striped.',
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
        'vdisk_move_left_seconds',
        'Time that the move of the elastic vdisk is expected to take yet. '
        'Absent without a move.',
        lambda vdisk: vdisk.seconds_left,
    ),
)
