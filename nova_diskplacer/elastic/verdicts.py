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

"""Judges one elastic vdisk: should it have another width, and why."""

import collections.abc
import dataclasses
import math

from nova_diskplacer.disks.location import Location
from nova_diskplacer.elastic import inputs
from nova_diskplacer.elastic import observations
from nova_diskplacer.elastic import paths
from nova_diskplacer.elastic import settings as settings_

# The order of vdisks that should be moved.
FORCED, WIDEN, NARROW = range(3)


@dataclasses.dataclass(frozen=True)
class VDiskState:
    """The past of a vdisk; times are on the clock of observations.

    It was measured at ``location`` since ``since``. ``quiet`` is, by width,
    since when the vdisk would have fitted so many disks. ``moved`` is the end
    of the last move, ``narrowed`` that of the last narrowing by load, None
    once the vdisk was widened. ``level`` is the number of doublings of
    ``narrow_after``. ``failures`` is the number of moves in succession that
    failed, ``refusal`` the reason of the last of them.
    """

    location: Location
    since: float
    quiet: collections.abc.Mapping[int, float] = dataclasses.field(
        default_factory=dict
    )
    moved: float | None = None
    narrowed: float | None = None
    level: int = 0
    failures: int = 0
    refusal: str = ''


@dataclasses.dataclass(frozen=True)
class Figures:
    """The means of a vdisk's disks, 0 to 1.

    ``pressure`` is the utilization of the busiest disk, ``use`` the largest
    part that the vdisk causes of one, and ``leg_use`` what one leg causes at
    most. ``own_pressure`` is the utilization of the busiest disk among those
    whose users it is a main one of (``widen_share``), 0 without any.
    """

    pressure: float
    use: float
    leg_use: float
    own_pressure: float


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The judgement of a vdisk.

    ``figures`` are None while they are not known. ``widths`` are those to
    which it should be moved, the best first, ``why`` is the reason for them,
    or for none. ``kind`` is FORCED, WIDEN or NARROW; of one kind, the vdisk
    with the largest ``need`` is moved first.
    """

    figures: Figures | None
    why: str
    widths: tuple[int, ...] = ()
    kind: int = NARROW
    need: float = 0.0

    def stays(self, hindrance: str) -> 'Verdict':
        """Return the verdict if it cannot be followed now."""
        why = f'{self.why}, but {hindrance}'
        return Verdict(self.figures, why)


def observe(
    past: VDiskState | None,
    uuid: str,
    vdisk: inputs.ElasticVDisk,
    window: observations.Window,
    means: observations.Means,
    settings: settings_.Settings,
) -> tuple[VDiskState, Figures | None]:
    """Return the state and the figures of a vdisk after an observation.

    There are no figures before the vdisk was measured for ``widen_after`` at
    its present location.

    :param past: None if the vdisk is new.
    :param window: the observations up to the last one.
    :param means: those of the window.
    """
    start, now = window[-1].start, window[-1].end
    state = past or VDiskState(vdisk.location, since=start)
    measured = all(disk in means.utilization for disk in vdisk.disks)
    if state.location != vdisk.location or not measured:
        state = dataclasses.replace(
            state, location=vdisk.location, since=start, quiet={}
        )
    if (
        not measured
        or not observations.covers(window, settings.widen_after)
        or window[0].start < state.since
    ):
        return state, None
    figures = _figures(uuid, vdisk, means, settings.widen_share)
    quiet = {}
    for path in paths.narrower(vdisk.location, vdisk.minimum):
        width = vdisk.width - len(path) + 1
        expected = figures.leg_use * paths.fullest(path[-1])
        if (
            expected < settings.narrow_pressure
            # else the vdisk may use little because it gets little
            and figures.pressure < settings.widen_pressure
        ):
            quiet[width] = state.quiet.get(width, now)
    return dataclasses.replace(state, quiet=quiet), figures


def _figures(
    uuid: str,
    vdisk: inputs.ElasticVDisk,
    means: observations.Means,
    widen_share: float,
) -> Figures:
    parts = {disk: means.parts.get((uuid, disk), 0.0) for disk in vdisk.disks}
    pressed = (
        means.utilization[disk]
        for disk, own in parts.items()
        if own and own >= widen_share * means.largest_other(uuid, disk)
    )
    return Figures(
        pressure=max(means.utilization[disk] for disk in vdisk.disks),
        use=max(parts.values()),
        leg_use=max(
            own / vdisk.location.count(disk) for disk, own in parts.items()
        ),
        own_pressure=max(pressed, default=0.0),
    )


def judge(
    state: VDiskState,
    figures: Figures | None,
    uuid: str,
    vdisk: inputs.ElasticVDisk,
    now: float,
    settings: settings_.Settings,
    overrides: inputs.Overrides,
) -> Verdict:
    """Return the verdict on a vdisk, all of whose disks are there.

    :param state: the state and figures that ``observe`` has returned.
    """
    if overrides.forbid(uuid):
        return Verdict(figures, 'the operator forbids moves')
    ago = 0.0 if state.moved is None else now - state.moved
    if state.failures and ago < settings.retry_time(state.failures):
        left = settings.retry_time(state.failures) - ago
        return Verdict(
            figures,
            f'its last move failed, next try in {left:.0f} s: {state.refusal}',
        )
    if uuid in overrides.forced:
        return _forced(figures, vdisk, overrides.forced[uuid])
    if figures is None:
        return Verdict(
            None,
            f'measured for {now - state.since:.0f} of '
            f'{settings.widen_after:.0f} s on its disks',
        )
    if figures.own_pressure >= settings.widen_pressure:
        verdict = _widen(figures, vdisk, settings)
    elif figures.pressure >= settings.widen_pressure:
        return Verdict(
            figures,
            f'others cause the pressure of {figures.pressure:.0%}',
        )
    elif path := paths.as_good(vdisk.location, vdisk.minimum):
        width = vdisk.width - len(path) + 1
        why = f'{width} disks do as well: an earlier move was not finished'
        verdict = Verdict(figures, why, (width,), NARROW, math.inf)
    else:
        verdict = _narrow(state, figures, vdisk, now, settings)
    moved = state.moved is not None
    if verdict.widths and moved and ago < settings.min_interval:
        return verdict.stays(
            f'its last move ended {ago:.0f} s ago, not '
            f'{settings.min_interval:.0f} s'
        )
    return verdict


def _forced(
    figures: Figures | None, vdisk: inputs.ElasticVDisk, width: int
) -> Verdict:
    why = f'the operator forces a width of {width}'
    if width == vdisk.width:
        return Verdict(figures, why)
    if not vdisk.minimum <= width <= vdisk.maximum:
        return Verdict(
            figures,
            f'{why}, which is not from {vdisk.minimum} to {vdisk.maximum}',
        )
    return Verdict(figures, why, (width,), FORCED)


def _widen(
    figures: Figures,
    vdisk: inputs.ElasticVDisk,
    settings: settings_.Settings,
) -> Verdict:
    pressure = figures.own_pressure
    why = f'pressure of {pressure:.0%} for {settings.widen_after:.0f} s'
    wider = paths.wider(vdisk.location, settings.widen_factor)
    if not wider:
        return Verdict(figures, f'{why}, at its largest width')
    return Verdict(figures, why, wider, WIDEN, pressure)


def _narrow(
    state: VDiskState,
    figures: Figures,
    vdisk: inputs.ElasticVDisk,
    now: float,
    settings: settings_.Settings,
) -> Verdict:
    if not state.quiet:
        why = f'pressure of {figures.pressure:.0%}'
        if vdisk.width <= vdisk.minimum:
            return Verdict(figures, f'{why}, at its least width')
        return Verdict(figures, f'{why}, too much use for fewer disks')
    needed = settings.quiet_time(state.level)
    # it fits more disks for at least as long; one move is better than two
    quiet = now - max(state.quiet.values())
    why = f'quiet for {quiet:.0f} s'
    if quiet < needed:
        return Verdict(figures, f'{why} of {needed:.0f} s')
    return Verdict(figures, why, tuple(sorted(state.quiet)), NARROW, quiet)
