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

"""Decides on the widths of elastic vdisks, and on the next step of a move.

The agent runs it beside the I/O loop, on the samples of that: a disk root or a
file that hangs delays only the decisions.
"""

import collections.abc
import time
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer.disks import discover
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.elastic import discovery
from nova_diskplacer.elastic import disk_use
from nova_diskplacer.elastic import inputs
from nova_diskplacer.elastic import policy
from nova_diskplacer.elastic import settings
from nova_diskplacer.elastic import status
from nova_diskplacer.elastic import verdicts
from nova_diskplacer.elastic import width_changes
from nova_diskplacer.elastic.processes import operator_overrides
from nova_diskplacer.elastic.processes import progress as progress_
from nova_diskplacer.host import json_store
from nova_diskplacer.host import sysfs
from nova_diskplacer.monitor import elastic_status
from nova_diskplacer.monitor import guest_stats
from nova_diskplacer.monitor import types

LOG = logging.getLogger(__name__)

#: Returns the GiB of each disk that no claim and no vdisk takes, by UUID.
FreeGB = collections.abc.Callable[[], collections.abc.Mapping[str, int]]

# Of a vdisk's past, what a restart of the agent must not forget.
_KEPT = ('moved', 'narrowed', 'level', 'failures', 'refusal')


class WidthDecider:
    """Decides in each ``[diskplacer_elastic] interval``.

    ``status`` is that of the last decision, None before the first.

    :param guests: returns the last statistics of guests, None while libvirt
        has none.
    :param clock: seconds of a monotonic clock, that of the whole host.
    :raises ElasticError: options contradict each other.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        free_gb: FreeGB,
        guests: collections.abc.Callable[[], guest_stats.GuestStats | None],
        clock: collections.abc.Callable[[], float] = time.monotonic,
    ) -> None:
        self.status: elastic_status.ElasticStatus | None = None
        self._settings = settings.from_conf(conf)
        self._disk_root: str = conf.diskplacer.disk_root
        self._free_gb, self._guests, self._clock = free_gb, guests, clock
        # the kernel's clock and this directory both begin anew at a boot
        self._store = json_store.JsonStore(
            f'{conf.diskplacer_agent.state_dir}/elastic'
        )
        self._state = policy.State(vdisks=self._load())
        self._moves = elastic_status.no_moves()
        self._found: discovery.VDisks = {}
        self._before: tuple[float, types.Sample] | None = None
        # the move that was asked for last, and when
        self._requested: tuple[width_changes.WidthChange | None, float] = (
            None,
            0.0,
        )

    def run(self, sample: types.Sample) -> None:
        """Decide after one more sample.

        :raises ElasticError: the overrides of the operator cannot be read.
        """
        if self._before and self._before[1] is sample:
            return
        now, wall = self._clock(), time.time()
        before, self._before = self._before, (now, sample)
        self._found = discovery.find(sample.prepared_disks, self._found)
        if before is None or not (self._found or self._state.move):
            self.status = elastic_status.ElasticStatus((), None, self._moves)
            return
        overrides = operator_overrides.read(self._disk_root)
        progress = progress_.FILE.read(self._disk_root)
        host = self._host(sample)
        self._follow(host, overrides, progress, now)
        decision = policy.decide(
            self._state,
            disk_use.observe(
                before[1],
                sample,
                self._found,
                self._guests(),
                now,
                now - before[0],
            ),
            host,
            self._settings,
            overrides,
            busy=_is_busy(progress, wall),
        )
        self._state = decision.state
        if decision.move:
            self._ask(decision.move, wall)
        step = self._step(host)
        mine = _of(progress, step)
        self.status = elastic_status.ElasticStatus(
            vdisks=status.statuses(decision, host, mine.done if mine else 0),
            step=step,
            moves=self._moves,
            executor=progress_.describe(
                progress, wall, progress_.FILE.age(self._disk_root, wall)
            ),
        )

    def _host(self, sample: types.Sample) -> inputs.Host:
        free_gb = self._free_gb()
        return inputs.Host(
            {uuid: elastic.vdisk for uuid, elastic in self._found.items()},
            {
                disk.uuid: inputs.Disk(
                    disk.medium,
                    disk.mbps,
                    free_gb.get(disk.uuid, 0),
                    sysfs.logical_block_size(disk.device),
                )
                for disk in sample.prepared_disks
                if disk.health == discover.OK
                and not (disk.draining or disk.late)
            },
        )

    def _follow(
        self,
        host: inputs.Host,
        overrides: inputs.Overrides,
        progress: progress_.Progress | None,
        now: float,
    ) -> None:
        """Follow the move under way: it goes on, has ended or is withdrawn."""
        move = self._state.move
        if move is None:
            return
        vdisk = host.vdisks.get(move.vdisk)
        step = self._step(host)
        mine = _of(progress, step)
        is_begun = vdisk and vdisk.location != move.old
        if vdisk is None:
            self._finish(move, 'the vdisk is gone', now)
        elif vdisk.location == move.new:
            self._finish(move, '', now)
        elif step is None:
            self._finish(move, 'something else has moved it', now)
        elif mine and mine.state == progress_.FAILED:
            self._finish(move, mine.reason, now)
        elif overrides.forbid(move.vdisk) or not (is_begun or mine):
            # nothing is begun, and what was decided may no longer hold
            self._state = policy.withdraw(self._state)

    def _finish(
        self, move: width_changes.WidthChange, refusal: str, now: float
    ) -> None:
        direction = (
            elastic_status.WIDEN if move.widens else elastic_status.NARROW
        )
        outcome = elastic_status.FAILED if refusal else elastic_status.DONE
        counts = self._moves[direction]
        self._moves = {
            **self._moves,
            direction: {**counts, outcome: counts[outcome] + 1},
        }
        if refusal:
            LOG.warning('Vdisk %s was not moved: %s', move.vdisk, refusal)
        else:
            LOG.info('Vdisk %s has %d disks now.', move.vdisk, move.width)
        self._state = policy.finish(self._state, refusal, now, self._settings)
        self._requested = None, 0.0
        self._store.save(
            'vdisks',
            {
                uuid: {name: getattr(past, name) for name in _KEPT}
                for uuid, past in self._state.vdisks.items()
            },
        )

    def _ask(self, move: width_changes.WidthChange, wall: float) -> None:
        """Ask for a move, which is a new one if it differs from the last."""
        last, last_time = self._requested
        if last and (last.vdisk, last.path) == (move.vdisk, move.path):
            wall = last_time
        else:
            LOG.info(
                'Vdisk %s is to have %d disks: %s',
                move.vdisk,
                move.width,
                move.why,
            )
        self._requested = move, wall

    def _step(self, host: inputs.Host) -> elastic_status.WantedStep | None:
        """Return the step of the move under way that is next, if any."""
        move = self._state.move
        vdisk = host.vdisks.get(move.vdisk) if move else None
        location = move.next(vdisk.location) if move and vdisk else None
        if move is None or vdisk is None or location is None:
            return None
        step = vdisk.location.step_to(location)
        return elastic_status.WantedStep(
            vdisk=move.vdisk,
            old=vdisk.location,
            location=location,
            size_bytes=len(step.legs) * vdisk.leg_gb * GIB,
            asked=self._requested[1],
        )

    def _load(self) -> dict[str, verdicts.VDiskState]:
        """Return what an agent before knew of vdisks."""
        kept: Any = self._store.load('vdisks')
        now = self._clock()
        try:
            return {
                uuid: verdicts.VDiskState(Location(), now, **fields)
                for uuid, fields in (kept or {}).items()
                if fields['moved'] is None or fields['moved'] <= now
            }
        except (AttributeError, KeyError, TypeError) as error:
            LOG.warning('The past of elastic vdisks is not used: %s', error)
            return {}


def _of(
    progress: progress_.Progress | None,
    step: elastic_status.WantedStep | None,
) -> progress_.Progress | None:
    """Return the state of the executor if it is that of a step."""
    if progress is None or step is None or not progress.is_of(step):
        return None
    return None if progress.state == progress_.IDLE else progress


def _is_busy(progress: progress_.Progress | None, wall: float) -> bool:
    """Tell whether the executor moves legs."""
    return (
        progress is not None
        and progress.state == progress_.MOVING
        and wall - progress.time < progress_.SILENT
    )
