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

"""What a round of the agent leaves, of which a snapshot can be made.

That is made long after the round, by other threads, and only when somebody
asks: what is in an outcome is not changed in place.
"""

import collections.abc
import dataclasses
from typing import Any

from nova_diskplacer.io_weights import manager
from nova_diskplacer.monitor import guest_stats
from nova_diskplacer.monitor import history
from nova_diskplacer.monitor import sampler
from nova_diskplacer.monitor import status
from nova_diskplacer.monitor import totals as totals_
from nova_diskplacer.monitor import types


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What was seen and decided in a round.

    ``host`` is Nova's name of the host, ``mode`` that of
    ``[diskplacer_weights]``. ``time`` is when the round ended (seconds since
    the epoch), ``cpu_seconds`` the CPU time that it took. ``decision`` is None
    where nothing is decided. ``budgets`` (shape (R,)) is what pairs used over
    their fair share, None while that is not known. ``totals`` have this round,
    and ``guests`` is what libvirt told last, None if nothing. ``hung`` are the
    UUIDs of disks that do not answer.
    """

    host: str
    mode: str
    time: float
    cpu_seconds: float
    sight: sampler.Sight
    decision: manager.Decision | None
    seekers: collections.abc.Collection[types.ConsumerDisk]
    budgets: types.Floats | None
    totals: totals_.Totals
    guests: guest_stats.Look | None
    hung: collections.abc.Collection[str]

    def take(self) -> status.Snapshot:
        """Return it in the form in which others are told of it."""
        return status.Snapshot(
            host=self.host,
            mode=self.mode,
            deciding=self.decision is not None,
            time=self.time,
            interval=self.sight.round.seconds,
            cpu_seconds=self.cpu_seconds,
            rounds=self.totals.rounds,
            total_cpu_seconds=self.totals.cpu_seconds,
            weight_changes=self.totals.weight_changes,
            disks=self._disks(),
            unwatched=dict(self.sight.unwatched),
            hung=sorted(self.hung),
            pairs=self._pairs(),
            guests=[
                {'server': server, **dataclasses.asdict(use)}
                for server, uses in sorted(self.guests.uses.items())
                for use in uses
            ]
            if self.guests
            else [],
        )

    def _disks(self) -> list[status.Disk]:
        decision, counted = self.decision, self.totals.disks
        names = {}
        if decision is not None:
            names = {
                uuid: one.name for uuid, one in decision.controllers.items()
            }
        refusals = decision.refusals if decision is not None else {}
        return [
            _disk(
                state,
                names.get(uuid, ''),
                refusals.get(uuid, ''),
                counted.get(uuid, totals_.DiskTotals()),
            )
            for uuid, state in sorted(self.sight.states.items())
        ]

    def _pairs(self) -> status.Pairs:
        round_, pairs = self.sight.round, self.sight.round.pairs
        none: list[Any] = [None] * len(pairs)
        classes, used, weights = none, none, none
        exempt, errors = [False] * len(pairs), [''] * len(pairs)
        if self.decision is not None:
            decided = self.decision.directives
            classes = decided.classes.tolist()
            used = decided.cumulative.tolist()
            exempt = decided.exempt.tolist()
            weights = [self.decision.weights.get(pair) for pair in pairs]
            errors = [self.decision.errors.get(pair, '') for pair in pairs]
        unseen = self.guests.unseen if self.guests else {}
        who = [
            self.sight.consumers.get(key, types.Consumer(key, ''))
            for key, disk in pairs
        ]
        return status.Pairs(
            servers=[key for key, disk in pairs],
            domains=[consumer.domain for consumer in who],
            projects=[consumer.project for consumer in who],
            disks=[disk for key, disk in pairs],
            read_bytes=(round_.read_bytes / round_.seconds).tolist(),
            write_bytes=(round_.write_bytes / round_.seconds).tolist(),
            reads=(round_.reads / round_.seconds).tolist(),
            writes=(round_.writes / round_.seconds).tolist(),
            idle=round_.idle.tolist(),
            classes=classes,
            used_bytes=used,
            weights=weights,
            exempt=exempt,
            seekers=[pair in self.seekers for pair in pairs],
            budgets=none if self.budgets is None else self.budgets.tolist(),
            errors=errors,
            total_read_bytes=self.totals.read_bytes.tolist(),
            total_write_bytes=self.totals.write_bytes.tolist(),
            total_reads=self.totals.reads.tolist(),
            total_writes=self.totals.writes.tolist(),
            history=_columns(self.sight.summary),
            unseen_bytes=[unseen.get(pair, 0.0) for pair in pairs],
        )


def _disk(
    state: types.DiskState,
    controller: str,
    error: str,
    counted: totals_.DiskTotals,
) -> status.Disk:
    return status.Disk(
        uuid=state.device.uuid,
        device=state.device.name,
        rotational=state.device.rotational,
        read_bytes=state.read_bytes,
        write_bytes=state.write_bytes,
        reads=state.reads,
        writes=state.writes,
        busy=state.busy,
        queue=state.queue,
        latency=state.latency,
        score=state.score,
        flagged=state.flagged,
        pressure=state.pressure,
        temperature=state.temperature,
        controller=controller,
        error=error,
        warnings=list(state.warnings),
        totals=counted,
    )


def _columns(summary: history.Summary) -> dict[str, list[float]]:
    found = {
        'active_intervals': summary.active.tolist(),
        'idle_seconds': summary.idle_seconds.tolist(),
    }
    for name in ('minimum', 'maximum', 'mean', 'deviation'):
        values = getattr(summary, name)
        for column, what in enumerate(('read_bytes', 'write_bytes')):
            found[f'{what}_{name}'] = values[:, column].tolist()
    return found
