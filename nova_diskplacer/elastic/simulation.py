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

"""Replays a load through the policy, on disks that exist on paper only.

The host has one vdisk and as many disks as its largest width, all equal and
without any other load. The vdisk gets the throughput that it demands, as far
as its disks have it; what it does not get is lost, not postponed. Moves take
as long as their bounded rate says and succeed.
"""

import collections.abc
import dataclasses
import itertools

from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.elastic import inputs
from nova_diskplacer.elastic import observations
from nova_diskplacer.elastic import policy
from nova_diskplacer.elastic import settings as settings_
from nova_diskplacer.elastic import width_changes
from nova_diskplacer.host import json_lines

_VDISK = 'vdisk'

#: Returns the mean demand in MB/s from a time to another, in seconds, of a
#: vdisk of the given width.
Load = collections.abc.Callable[[float, float, int], float]


@dataclasses.dataclass(frozen=True)
class Period:
    """A periodic load: ``mbps`` for ``on`` seconds, none for ``off``."""

    on: float
    off: float
    mbps: float

    def __call__(self, start: float, end: float, width: int) -> float:
        """Return the mean demand."""
        moved = self._seconds_on(end) - self._seconds_on(start)
        return self.mbps * moved / (end - start)

    def _seconds_on(self, until: float) -> float:
        whole, rest = divmod(until, self.on + self.off)
        return whole * self.on + min(rest, self.on)


@dataclasses.dataclass(frozen=True)
class Span:
    """A demand of ``mbps`` MB/s for some seconds: a line of a file."""

    seconds: float
    mbps: float

    def __post_init__(self) -> None:
        if self.seconds <= 0:
            raise ValueError(f'seconds={self.seconds:g} is not above 0')
        if self.mbps < 0:
            raise ValueError(f'mbps={self.mbps:g} is below 0')


@dataclasses.dataclass(frozen=True)
class Series:
    """A load of spans, one after the other, and no demand after them."""

    spans: tuple[Span, ...]

    @property
    def seconds(self) -> float:
        """The length of all spans."""
        return sum(span.seconds for span in self.spans)

    def __call__(self, start: float, end: float, width: int) -> float:
        """Return the mean demand."""
        moved = begin = 0.0
        for span in self.spans:
            shared = min(end, begin + span.seconds) - max(start, begin)
            moved += max(0.0, shared) * span.mbps
            begin += span.seconds
        return moved / (end - start)


def read(path: str) -> Series:
    """Return the load of a file of JSON lines, a ``Span`` each.

    :raises DiskPlacerError: the file or a line cannot be read.
    """
    spans = []
    for number, text in enumerate(json_lines.read(path), 1):
        with json_lines.line(path, number):
            spans.append(json_lines.parse(text, Span))
    return Series(tuple(spans))


@dataclasses.dataclass(frozen=True)
class Setup:
    """The vdisk, and the disks: throughput of each in MB/s, and medium."""

    size_gb: int
    minimum: int
    maximum: int
    mbps: float
    medium: str


@dataclasses.dataclass(frozen=True)
class Step:
    """An interval that begins at ``at``; times in seconds, rates in MB/s.

    ``served`` is what the vdisk got of its demand at ``width``. ``target`` is
    the width to which it is being moved, None without a move. ``why`` is the
    reason that the decision at the end of the interval gives, and ``began``
    the move that it begins.
    """

    at: float
    seconds: float
    width: int
    target: int | None
    demand: float
    served: float
    why: str
    began: width_changes.WidthChange | None


def run(
    load: Load, setup: Setup, seconds: float, settings: settings_.Settings
) -> list[Step]:
    """Return the steps of a simulation of so many seconds."""
    uuids = [f'disk{number:02}' for number in range(setup.maximum)]
    leg_gb = -(-setup.size_gb // setup.maximum)
    disk = inputs.Disk(
        setup.medium, setup.mbps, free_gb=leg_gb * setup.maximum
    )
    disks = dict.fromkeys(uuids, disk)
    vdisk = inputs.ElasticVDisk(
        leg_gb,
        setup.minimum,
        Location.narrowest(tuple(uuids[: setup.minimum]), setup.maximum),
    )
    state, steps = policy.State(), []
    for number in range(round(seconds / settings.interval)):
        start = number * settings.interval
        end = start + settings.interval
        move = state.move
        demand = load(start, end, vdisk.width)
        copied = _copied(move, vdisk, settings)
        # legs are read together: the disk with least for each leg counts
        most = min(
            setup.mbps
            * (1 - copied.get(uuid, 0.0))
            / vdisk.location.count(uuid)
            for uuid in vdisk.disks
        )
        served = min(demand, most * vdisk.maximum)
        leg = served / vdisk.maximum / setup.mbps
        parts = {
            (_VDISK, uuid): leg * vdisk.location.count(uuid)
            for uuid in vdisk.disks
        }
        used = {
            uuid: min(
                1.0, copied.get(uuid, 0.0) + parts.get((_VDISK, uuid), 0.0)
            )
            for uuid in uuids
        }
        decision = policy.decide(
            state,
            observations.Observation(end, settings.interval, used, parts),
            inputs.Host({_VDISK: vdisk}, disks),
            settings,
        )
        steps.append(
            Step(
                at=start,
                seconds=settings.interval,
                width=vdisk.width,
                target=move.width if move else None,
                demand=demand,
                served=served,
                why=decision.verdicts[_VDISK].why,
                began=decision.move,
            )
        )
        state = decision.state
        if state.move:
            location = _reached(state, vdisk, disks, end, settings)
            vdisk = dataclasses.replace(vdisk, location=location)
            if location == state.move.new:
                state = policy.finish(state, '', end, settings)
    return steps


def _copied(
    move: width_changes.WidthChange | None,
    vdisk: inputs.ElasticVDisk,
    settings: settings_.Settings,
) -> dict[str, float]:
    """Return the utilization of disks by a move, 0 to 1."""
    new = move.next(vdisk.location) if move else None
    if new is None:
        return {}
    step = vdisk.location.step_to(new)
    return dict.fromkeys((step.source, step.target), settings.copy_share)


def _reached(
    state: policy.State,
    vdisk: inputs.ElasticVDisk,
    disks: collections.abc.Mapping[str, inputs.Disk],
    now: float,
    settings: settings_.Settings,
) -> Location:
    """Return the location that a move has reached."""
    move = state.move
    assert move is not None  # noqa: S101
    left = now - state.begun
    for old, new in itertools.pairwise(move.path):
        left -= width_changes.step_seconds(
            old.step_to(new), vdisk.leg_gb, disks, settings
        )
        if left < 0:
            return old
    return move.new


@dataclasses.dataclass(frozen=True)
class Phase:
    """Steps in succession with one width, with a move or without.

    ``demand`` and ``served`` are means. ``why`` is the reason of the move, or
    without one the last reason.
    """

    begin: float
    end: float
    width: int
    target: int | None
    demand: float
    served: float
    why: str


def phases(steps: collections.abc.Iterable[Step]) -> list[Phase]:
    """Return the steps, joined until the width, a move or the load changes.

    Demand of any amount is one load.
    """
    groups: list[list[Step]] = []
    for step in steps:
        if groups and _alike(groups[-1][-1], step):
            groups[-1].append(step)
        else:
            groups.append([step])
    return [
        Phase(
            begin=group[0].at,
            end=group[-1].at + group[-1].seconds,
            width=group[0].width,
            target=group[0].target,
            demand=_mean(step.demand for step in group),
            served=_mean(step.served for step in group),
            why=group[-1].why,
        )
        for group in groups
    ]


def _alike(step: Step, other: Step) -> bool:
    return (step.width, step.target, bool(step.demand)) == (
        other.width,
        other.target,
        bool(other.demand),
    )


@dataclasses.dataclass(frozen=True)
class Summary:
    """The sums of a simulation.

    ``served`` is the share of the demand that the vdisk got, ``narrow`` and
    ``wide`` what it would have got with its least and its largest width
    throughout; 1 without demand. ``mean_width`` is over the time.
    """

    moves: int
    copied_gb: float
    mean_width: float
    served: float
    narrow: float
    wide: float


def summary(steps: collections.abc.Sequence[Step], setup: Setup) -> Summary:
    """Return the sums of steps."""
    demand = sum(step.demand for step in steps)

    def share(served: collections.abc.Iterable[float]) -> float:
        return sum(served) / demand if demand else 1.0

    def fixed(width: int) -> float:
        return share(min(step.demand, width * setup.mbps) for step in steps)

    begun_moves = [step.began for step in steps if step.began]
    return Summary(
        moves=len(begun_moves),
        copied_gb=sum(move.size_bytes for move in begun_moves) / GIB,
        mean_width=_mean(step.width for step in steps),
        served=share(step.served for step in steps),
        narrow=fixed(setup.minimum),
        wide=fixed(setup.maximum),
    )


def _mean(values: collections.abc.Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)
