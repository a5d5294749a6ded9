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

"""Moves of a vdisk's legs to other disks: how much is copied, how fast."""

import collections.abc
import dataclasses
import itertools

from nova_diskplacer.disks import copy_pace
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.location import Step
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.elastic import inputs
from nova_diskplacer.elastic import paths
from nova_diskplacer.elastic import settings as settings_
from nova_diskplacer.elastic import targets
from nova_diskplacer.elastic import verdicts

MB = 10**6


@dataclasses.dataclass(frozen=True)
class WidthChange:
    """A move of ``vdisk`` along ``path``, step by step.

    ``size_bytes`` are copied in all, at most with the bounded rates of the
    disks, which takes ``seconds``. ``forced`` moves are the operator's.
    ``why`` is the reason.
    """

    vdisk: str
    path: paths.Path
    size_bytes: int
    seconds: float
    forced: bool
    why: str

    @property
    def old(self) -> Location:
        """The location at the begin."""
        return self.path[0]

    @property
    def new(self) -> Location:
        """The location at the end."""
        return self.path[-1]

    @property
    def width(self) -> int:
        """The width at the end."""
        return self.new.width

    @property
    def widens(self) -> bool:
        """True if the vdisk has more disks afterwards."""
        return self.width > self.old.width

    @property
    def mbps(self) -> float:
        """The mean rate in MB/s."""
        return self.size_bytes / MB / self.seconds

    def next(self, location: Location) -> Location | None:
        """Return the location that follows one, None if none does."""
        if location not in self.path[:-1]:
            return None
        return self.path[self.path.index(location) + 1]


@dataclasses.dataclass(frozen=True)
class Plan:
    """A move, or the reason why there is none."""

    move: WidthChange | None = None
    reason: str = ''


def plan(
    uuid: str,
    vdisk: inputs.ElasticVDisk,
    verdict: verdicts.Verdict,
    disks: collections.abc.Mapping[str, inputs.Disk],
    others: collections.abc.Mapping[str, float],
    settings: settings_.Settings,
) -> Plan:
    """Plan the move of a vdisk to the first possible width of a verdict.

    :param verdict: has at least one width.
    :param others: the utilization of each disk by others than the vdisk.
    :returns: the move, or the reason against the best width.
    """
    reasons = []
    for width in verdict.widths:
        choice = targets.choose(
            vdisk, width, disks, others, settings.target_pressure
        )
        if not choice.path:
            reasons.append(choice.reason)
            continue
        try:
            gb, seconds = _copying(choice.path, vdisk.leg_gb, disks, settings)
        except ValueError as error:
            reasons.append(str(error))
            continue
        forced = verdict.kind == verdicts.FORCED
        return Plan(
            WidthChange(
                uuid, choice.path, gb * GIB, seconds, forced, verdict.why
            )
        )
    return Plan(reason=reasons[0])


def _copying(
    path: paths.Path,
    leg_gb: int,
    disks: collections.abc.Mapping[str, inputs.Disk],
    settings: settings_.Settings,
) -> tuple[int, float]:
    """Return the GiB that a path copies, and the seconds that takes.

    A step reads one disk and writes to another: the slower one bounds its
    rate.

    :raises ValueError: the rate is unknown, or it takes too long.
    """
    steps = [old.step_to(new) for old, new in itertools.pairwise(path)]
    used = {disk for step in steps for disk in (step.source, step.target)}
    unknown = sorted(disk for disk in used if not disks[disk].mbps)
    if unknown:
        raise ValueError(f'the throughput of {", ".join(unknown)} is unknown')
    size_gb = sum(len(step.legs) for step in steps) * leg_gb
    seconds = sum(
        step_seconds(step, leg_gb, disks, settings) for step in steps
    )
    if seconds > settings.max_move_time:
        raise ValueError(
            f'to copy {size_gb} GiB takes {seconds:.0f} s, '
            '[diskplacer_elastic] max_move_time='
            f'{settings.max_move_time:g}'
        )
    return size_gb, seconds


def step_seconds(
    step: Step,
    leg_gb: int,
    disks: collections.abc.Mapping[str, inputs.Disk],
    settings: settings_.Settings,
) -> float:
    """Return the time that a step takes."""
    both = disks[step.source], disks[step.target]
    mbps = copy_pace.step_mbps(settings.copy_share, both)
    return len(step.legs) * leg_gb * GIB / (mbps * MB)
