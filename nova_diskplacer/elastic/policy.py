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

"""Decides which elastic vdisk of a host is moved, and when.

A load that comes and goes does not make a vdisk oscillate:

- A steady load does not. A vdisk is narrowed if it will use less than
  ``narrow_pressure`` of disks that others use to ``target_pressure`` at most,
  and is not widened again below ``widen_pressure``, which is no less than the
  sum (``settings.Settings`` demands it).
- Any other load does so less and less. Let L be ``narrow_after_max`` and K the
  number of doublings from ``narrow_after`` to L. A vdisk that is widened again
  within L after it was narrowed needs twice the quiet before it is narrowed
  the next time. So of any K such turns from wide to narrow in succession, one
  begins L or more after the one before: in a time T there are at most
  max(K, 1) * (1 + T / L), under any load. A turn may take several moves, as
  each doubles or halves the width.
- A periodic load with pauses shorter than L, which widens the vdisk each time
  that it comes back, has it narrowed in K pauses at most, ever: then no pause
  is long enough, and the vdisk stays wide. With longer pauses it is narrowed
  in each.

Moves that an operator forces, and those that fail, count for none of this. A
move that fails is tried again after a time that doubles with each failure.
"""

import collections.abc
import dataclasses

from nova_diskplacer.elastic import inputs
from nova_diskplacer.elastic import observations
from nova_diskplacer.elastic import settings as settings_
from nova_diskplacer.elastic import verdicts
from nova_diskplacer.elastic import width_changes

_NO_OVERRIDES = inputs.Overrides()


@dataclasses.dataclass(frozen=True)
class State:
    """The state of a host: its vdisks, and the move under way.

    ``begun`` is the time when the move began.
    """

    vdisks: collections.abc.Mapping[str, verdicts.VDiskState] = (
        dataclasses.field(default_factory=dict)
    )
    window: observations.Window = ()
    move: width_changes.WidthChange | None = None
    begun: float = 0.0


@dataclasses.dataclass(frozen=True)
class Decision:
    """The new state, the move to begin (None: none), and all verdicts.

    The verdict on the vdisk of a move has the reason of the move. A caller
    that has begun the move reports its end with :func:`finish`.
    """

    state: State
    move: width_changes.WidthChange | None
    verdicts: collections.abc.Mapping[str, verdicts.Verdict]


def decide(
    state: State,
    observation: observations.Observation,
    host: inputs.Host,
    settings: settings_.Settings,
    overrides: inputs.Overrides = _NO_OVERRIDES,
    busy: bool = False,
) -> Decision:
    """Return what to do after one more observation.

    One vdisk at a time moves on a host. A forced move goes first, then the
    vdisk under the highest pressure, then the one that was quiet for longest;
    of equals, the one whose UUID is least.

    :param busy: a step that this has not decided is under way.
    """
    states = state.vdisks
    if not observations.follows(state.window, observation):
        states = {
            uuid: dataclasses.replace(past, since=observation.start, quiet={})
            for uuid, past in states.items()
        }
    window = observations.add(state.window, observation, settings.widen_after)
    means = observations.means(window)
    vdisks, by_vdisk = {}, {}
    for uuid, vdisk in sorted(host.vdisks.items()):
        vdisks[uuid], figures = verdicts.observe(
            states.get(uuid), uuid, vdisk, window, means, settings
        )
        missing = sorted(set(vdisk.disks) - host.disks.keys())
        by_vdisk[uuid] = (
            verdicts.Verdict(figures, f'disk {missing[0]} is not ok')
            if missing
            else verdicts.judge(
                vdisks[uuid],
                figures,
                uuid,
                vdisk,
                observation.end,
                settings,
                overrides,
            )
        )
    move = None
    if not (state.move or busy):
        move = _first(by_vdisk, means, host, settings)
    state = dataclasses.replace(state, vdisks=vdisks, window=window)
    if move:
        state = dataclasses.replace(state, move=move, begun=observation.end)
    moving = state.move.vdisk if state.move else None
    for uuid, verdict in by_vdisk.items():
        if uuid == moving and state.move:
            by_vdisk[uuid] = dataclasses.replace(verdict, why=state.move.why)
        elif verdict.widths:
            by_vdisk[uuid] = verdict.stays('another vdisk is moved')
    return Decision(state, move, by_vdisk)


def _first(
    by_vdisk: dict[str, verdicts.Verdict],
    means: observations.Means,
    host: inputs.Host,
    settings: settings_.Settings,
) -> width_changes.WidthChange | None:
    """Return the first possible move.

    The verdicts on vdisks that cannot be moved are replaced in ``by_vdisk``.
    """
    wanting = [uuid for uuid, verdict in by_vdisk.items() if verdict.widths]
    for uuid in sorted(
        wanting,
        key=lambda uuid: (by_vdisk[uuid].kind, -by_vdisk[uuid].need, uuid),
    ):
        verdict = by_vdisk[uuid]
        plan = width_changes.plan(
            uuid,
            host.vdisks[uuid],
            verdict,
            host.disks,
            means.others(uuid),
            settings,
        )
        if plan.move:
            return plan.move
        by_vdisk[uuid] = verdict.stays(plan.reason)
    return None


def withdraw(state: State) -> State:
    """Return the state without the move, of which nothing was begun."""
    return dataclasses.replace(state, move=None)


def finish(
    state: State, refusal: str, now: float, settings: settings_.Settings
) -> State:
    """Return the state at the end of the move under way.

    :param refusal: '' if the vdisk is at its new location, otherwise why it
        is not; it may have gone a part of the way.
    """
    move, began = state.move, state.begun
    state = dataclasses.replace(state, move=None)
    if move is None or move.vdisk not in state.vdisks:
        return state
    past = state.vdisks[move.vdisk]
    if refusal:
        after = dataclasses.replace(
            past, moved=now, failures=past.failures + 1, refusal=refusal
        )
    else:
        narrowed, level = past.narrowed, past.level
        if not move.forced and not move.widens:
            narrowed = now
        elif not move.forced and narrowed is not None:
            again = began - narrowed < settings.narrow_after_max
            level = min(level + 1, settings.levels) if again else 0
            narrowed = None
        after = verdicts.VDiskState(
            location=move.new,
            since=now,
            moved=now,
            narrowed=narrowed,
            level=level,
        )
    return dataclasses.replace(
        state, vdisks={**state.vdisks, move.vdisk: after}
    )
