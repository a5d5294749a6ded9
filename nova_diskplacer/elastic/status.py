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

"""The status of elastic vdisks after a decision."""

import itertools

from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.elastic import inputs
from nova_diskplacer.elastic import policy
from nova_diskplacer.elastic import verdicts
from nova_diskplacer.elastic import width_changes
from nova_diskplacer.monitor import elastic_status

#: The columns of ``row``.
COLUMNS = ('VDISK', 'WIDTH', 'RANGE', 'PRESSURE', 'USE', 'MOVE', 'WHY')

_KINDS = {
    verdicts.FORCED: 'forced',
    verdicts.WIDEN: elastic_status.WIDEN,
    verdicts.NARROW: elastic_status.NARROW,
}


def statuses(
    decision: policy.Decision,
    host: inputs.Host,
    copied: int = 0,
) -> tuple[elastic_status.ElasticVDisk, ...]:
    """Return the statuses of all vdisks, sorted by UUID.

    :param host: the host of the decision.
    :param copied: bytes of the step under way that are copied.
    """
    rows = []
    for uuid, verdict in sorted(decision.verdicts.items()):
        vdisk, figures = host.vdisks[uuid], verdict.figures
        move = decision.state.move
        if move and move.vdisk != uuid:
            move = None
        left = _left_bytes(move, vdisk, copied) if move else None
        rows.append(
            elastic_status.ElasticVDisk(
                uuid=uuid,
                location=vdisk.location,
                width=vdisk.width,
                minimum=vdisk.minimum,
                maximum=vdisk.maximum,
                pressure=figures.pressure if figures else None,
                use=figures.use if figures else None,
                verdict=_kind(verdict, move),
                why=verdict.why,
                target=move.width if move else None,
                left_bytes=left,
                left_seconds=left / (move.mbps * width_changes.MB)
                if move and left is not None
                else None,
            )
        )
    return tuple(rows)


def _kind(
    verdict: verdicts.Verdict, move: width_changes.WidthChange | None
) -> str:
    if move:
        if move.forced:
            return _KINDS[verdicts.FORCED]
        return elastic_status.WIDEN if move.widens else elastic_status.NARROW
    return _KINDS[verdict.kind] if verdict.widths else 'stay'


def _left_bytes(
    move: width_changes.WidthChange, vdisk: inputs.ElasticVDisk, copied: int
) -> int:
    """Return the bytes that a move has to copy yet."""
    left = 0
    for old, new in reversed(list(itertools.pairwise(move.path))):
        left += len(old.step_to(new).legs) * vdisk.leg_gb * GIB
        if old == vdisk.location:
            return max(0, left - copied)
    return 0


def row(vdisk: elastic_status.ElasticVDisk) -> tuple[str, ...]:
    """Return the texts of a vdisk for ``COLUMNS``."""
    moving = '-'
    if vdisk.target is not None and vdisk.left_bytes is not None:
        moving = (
            f'→{vdisk.target}, {vdisk.left_bytes / GIB:.1f} GiB, '
            f'{vdisk.left_seconds:.0f} s left'
        )
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
