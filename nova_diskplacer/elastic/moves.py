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

"""Moves of a vdisk to other disks: how much is copied, and how fast."""

import collections.abc
import dataclasses

from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.elastic import host as host_
from nova_diskplacer.elastic import settings as settings_
from nova_diskplacer.elastic import targets

MB = 10**6


@dataclasses.dataclass(frozen=True)
class Move:
    """A move of ``vdisk`` from the disks ``old`` to the disks ``new``.

    ``size_bytes`` are copied at ``mbps`` (MB/s) at most, which takes
    ``seconds``. ``forced`` moves are the operator's. ``why`` is the reason.
    """

    vdisk: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    size_bytes: int
    mbps: float
    seconds: float
    forced: bool
    why: str

    @property
    def widens(self) -> bool:
        """True if the vdisk has more disks afterwards."""
        return len(self.new) > len(self.old)


@dataclasses.dataclass(frozen=True)
class Plan:
    """A move, or the reason why there is none."""

    move: Move | None = None
    reason: str = ''


def loads(
    old: collections.abc.Collection[str], new: collections.abc.Collection[str]
) -> dict[str, float]:
    """Return the bytes that a disk reads and writes for each byte copied.

    A disk of both sets reads its old piece and writes its new one.
    """
    found: dict[str, float] = {}
    for disks in (old, new):
        for uuid in disks:
            found[uuid] = found.get(uuid, 0.0) + 1 / len(disks)
    return found


def plan(
    uuid: str,
    vdisk: host_.ElasticVDisk,
    widths: collections.abc.Sequence[int],
    disks: collections.abc.Mapping[str, host_.Disk],
    others: collections.abc.Mapping[str, float],
    settings: settings_.Settings,
    forced: bool,
    why: str,
) -> Plan:
    """Plan the move of a vdisk to the first possible one of some widths.

    :param widths: at least one, the best first.
    :param others: the utilization of each disk by others than the vdisk.
    :returns: the move, or the reason against the best width.
    """
    tried = []
    for width in widths:
        found = targets.choose(
            vdisk, width, disks, others, settings.target_pressure
        )
        if not found.disks:
            tried.append(found.reason)
            continue
        copied = loads(vdisk.disks, found.disks)
        unknown = sorted(disk for disk in copied if not disks[disk].mbps)
        if unknown:
            tried.append(f'the throughput of {", ".join(unknown)} is unknown')
            continue
        mbps = settings.copy_share * min(
            disks[disk].mbps / load for disk, load in copied.items()
        )
        size_bytes = vdisk.size_gb * GIB
        seconds = size_bytes / (mbps * MB)
        if seconds > settings.max_move_time:
            tried.append(
                f'to copy {vdisk.size_gb} GiB at {mbps:.1f} MB/s takes '
                f'{seconds:.0f} s, [diskplacer_elastic] max_move_time='
                f'{settings.max_move_time:g}'
            )
            continue
        move = Move(
            vdisk=uuid,
            old=vdisk.disks,
            new=found.disks,
            size_bytes=size_bytes,
            mbps=mbps,
            seconds=seconds,
            forced=forced,
            why=why,
        )
        return Plan(move)
    return Plan(reason=tried[0])
