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

"""Watches the I/O of servers and weighs it, a round at each interval."""

import collections.abc
import functools
import threading
import time

from oslo_config import cfg

from nova_diskplacer.agent import io_background
from nova_diskplacer.agent import io_exporters
from nova_diskplacer.agent import io_status
from nova_diskplacer.agent import restore
from nova_diskplacer.disks import discover
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host import log_once
from nova_diskplacer.host import systemd
from nova_diskplacer.io_weights import manager
from nova_diskplacer.monitor import fair_share
from nova_diskplacer.monitor import sampler
from nova_diskplacer.monitor import status
from nova_diskplacer.monitor import totals

# For how many rounds nothing is weighed after that has failed.
_REST = 10

Servers = collections.abc.Callable[[], list[libvirt_servers.Server] | None]
Disks = collections.abc.Callable[[], list[discover.Disk] | None]


class Rounds:
    """The rounds of an agent.

    While they fail, no weight is left in force that nobody looks after.

    :param servers: returns the servers as they were last looked for; None:
        they were not yet.
    :param disks: returns the disks in the same way.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, servers: Servers, disks: Disks
    ) -> None:
        self._conf = conf
        self._servers, self._disks = servers, disks
        self._mode: str = conf.diskplacer_weights.mode
        self._asides = io_background.Asides(conf)
        self._budget = fair_share.Budget(conf.diskplacer_monitor.budget_window)
        self._watch: sampler.Watch | None = None
        self._weighing: manager.Weighing | None = None
        self._decision: manager.Decision | None = None
        # whether there may be weights in force that nobody looks after
        self._left = True
        self._rest = 0
        self._totals = totals.Totals()
        self._outcome: io_status.Outcome | None = None
        self._watching = log_once.RetryLogger(
            'The I/O of servers is not watched',
            'The I/O of servers is watched again',
        )
        self._deciding = log_once.RetryLogger(
            'The I/O of servers is not weighed',
            'The I/O of servers is weighed again',
        )
        self._restoring = log_once.RetryLogger(
            'I/O weights are not given back', 'I/O weights are given back'
        )
        #: what each disk is under for minutes, in per cent, by UUID
        self.pressure: dict[str, int] = {}

    def run(self, stopped: threading.Event) -> None:
        """Work until ``stopped`` is set, then give weights back."""
        interval: float = self._conf.diskplacer_monitor.interval
        io_exporters.serve(self._conf, self.take)
        self._asides.start(stopped)
        due = time.monotonic()
        while not stopped.is_set():
            if not self._watching.run(self.round):
                self._watch = self._weighing = None
                self.pressure = {}
            if self._weighing is None and self._left:
                self._left = not self._restoring.run(self._restore)
            systemd.notify_watchdog()
            # rounds that were missed are not made up for
            due = max(due + interval, time.monotonic())
            stopped.wait(due - time.monotonic())
        self._restoring.run(self._restore)

    def round(self) -> None:
        """Look once, and decide.

        :raises DiskPlacerError: something cannot be watched.
        :raises OSError: the kernel does not tell.
        """
        servers, disks = self._servers(), self._disks()
        if servers is None or disks is None:
            return
        now, began = time.monotonic(), time.thread_time()
        if self._watch is None:
            before = now - self._conf.diskplacer_monitor.interval
            self._watch = sampler.Watch(
                self._conf, before, self._asides.health
            )
        sight = self._watch.look(servers, disks, now)
        self._decide(sight)
        decision = self._decision
        budgets = self._budget.update(sight.round)
        self.pressure = {
            uuid: round(100 * state.pressure)
            for uuid, state in sight.states.items()
        }
        self._asides.seen = io_background.Seen(sight, servers, disks)
        spent = time.thread_time() - began
        self._totals = totals.add(
            self._totals,
            sight.round,
            sight.states,
            spent,
            decision.changes if decision else 0,
        )
        self._outcome = io_status.Outcome(
            host=self._conf.host,
            mode=self._mode,
            time=time.time(),
            cpu_seconds=spent,
            sight=sight,
            decision=decision,
            seekers=self._asides.seekers,
            budgets=budgets,
            totals=self._totals,
            guests=self._asides.guests,
            hung=[one.uuid for one in disks if one.health == discover.HUNG],
        )

    def take(self) -> status.Snapshot | None:
        """Return what the last round left; None: there was none yet."""
        last = self._outcome
        return last.take() if last else None

    def _decide(self, sight: sampler.Sight) -> None:
        self._decision = None
        if self._mode == manager.OFF or self._rest:
            self._rest = max(0, self._rest - 1)
            return
        if not self._deciding.run(functools.partial(self._weigh, sight)):
            self._weighing = None
            self._rest = _REST

    def _weigh(self, sight: sampler.Sight) -> None:
        if self._weighing is None:
            self._weighing = manager.Weighing(self._conf, sight.hierarchy)
        self._left = True
        self._decision = self._weighing.weigh(sight, self._asides.seekers)

    def _restore(self) -> None:
        restore.restore_kernel_state(self._conf)
