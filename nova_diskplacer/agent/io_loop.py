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

"""Measures the I/O of servers and sets I/O weights in each interval."""

import collections.abc
import functools
import threading
import time

from oslo_config import cfg

from nova_diskplacer.agent import build_io_status
from nova_diskplacer.agent import restore
from nova_diskplacer.agent import slow_checks
from nova_diskplacer.disks import discover
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host import retry_logger
from nova_diskplacer.host import systemd
from nova_diskplacer.io_weights import manager
from nova_diskplacer.monitor import history
from nova_diskplacer.monitor import sampler
from nova_diskplacer.monitor import types

# Intervals without decisions after a failed one.
_BACKOFF_INTERVALS = 10

Servers = collections.abc.Callable[[], list[libvirt_servers.Server] | None]
Disks = collections.abc.Callable[[], list[discover.Disk] | None]


class IOLoop:
    """The I/O loop of the agent.

    While it fails, the kernel's original weights are in force. ``sample`` is
    the last sample and ``interval`` the last interval, None before the first;
    any thread may read them.

    :param servers: returns the servers of this host, None until they are
        known.
    :param disks: returns the prepared disks, None until they are known.
    :param checks: what they find counts from the next interval on.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        servers: Servers,
        disks: Disks,
        checks: slow_checks.SlowChecks,
    ) -> None:
        self._conf = conf
        self._servers, self._disks = servers, disks
        self._mode: str = conf.diskplacer_weights.mode
        self._checks = checks
        self.sample: types.Sample | None = None
        self.interval: build_io_status.Interval | None = None
        self._decision: manager.Decision | None = None
        self._fair_share = history.FairShare(
            conf.diskplacer_monitor.budget_window
        )
        self._rounds = self._weight_changes = 0
        self._cpu_seconds = 0.0
        self._sampler: sampler.Sampler | None = None
        self._manager: manager.WeightManager | None = None
        self._backoff_intervals = 0
        # weights of this or an earlier agent may be in force
        self._needs_restore = True
        self._measuring = retry_logger.RetryLogger(
            'The I/O of servers cannot be measured',
            'The I/O of servers is measured again',
        )
        self._deciding = retry_logger.RetryLogger(
            'I/O weights cannot be decided', 'I/O weights are decided again'
        )
        self._restoring = retry_logger.RetryLogger(
            'I/O weights cannot be restored', 'I/O weights are restored'
        )

    @property
    def disk_states(self) -> collections.abc.Mapping[str, types.DiskState]:
        """The state of each disk, by UUID; none while nothing is measured."""
        return self.sample.disks if self._sampler and self.sample else {}

    def run(self, stopped: threading.Event) -> None:
        """Run until ``stopped`` is set, then restore weights."""
        interval: float = self._conf.diskplacer_monitor.interval
        due = time.monotonic()
        while not stopped.is_set():
            if not self._measuring.run(self.run_once):
                self._forget()
            sets_none = self._manager is None or self._mode != manager.ON
            if sets_none and self._needs_restore:
                self._needs_restore = not self._restore()
            systemd.notify_watchdog()
            # missed intervals are skipped
            due = max(due + interval, time.monotonic())
            stopped.wait(due - time.monotonic())
        self._restore()

    def run_once(self) -> None:
        """Measure an interval, and decide on the weights of the next one.

        :raises DiskPlacerError: I/O cannot be measured.
        :raises OSError: the kernel's statistics cannot be read.
        """
        servers, disks = self._servers(), self._disks()
        if servers is None or disks is None:
            # what is in force would stay for as long as nothing is known
            self._forget()
            return
        now, began = time.monotonic(), time.thread_time()
        if self._sampler is None:
            before = now - self._conf.diskplacer_monitor.interval
            self._sampler = sampler.Sampler(
                self._conf, before, self._checks.health
            )
        self.sample = sample = self._sampler.sample(servers, disks, now)
        self._decide(sample)
        decision = self._decision
        fair_shares = self._fair_share.update(sample)
        cpu_seconds = time.thread_time() - began
        self._rounds += 1
        self._cpu_seconds += cpu_seconds
        self._weight_changes += decision.changes if decision else 0
        self.interval = build_io_status.Interval(
            time=time.time(),
            cpu_seconds=cpu_seconds,
            sample=sample,
            decision=decision,
            fair_shares=fair_shares,
            rounds=self._rounds,
            total_cpu_seconds=self._cpu_seconds,
            weight_changes=self._weight_changes,
            seekers=self._checks.seekers,
        )

    def _forget(self) -> None:
        """Begin anew, and show nothing: what was in force is restored."""
        self._sampler = self._manager = None
        self._decision = self.interval = None

    def _decide(self, sample: types.Sample) -> None:
        self._decision = None
        if self._mode == manager.OFF or self._backoff_intervals:
            self._backoff_intervals = max(0, self._backoff_intervals - 1)
        elif not self._deciding.run(functools.partial(self._apply, sample)):
            self._manager = None
            self._backoff_intervals = _BACKOFF_INTERVALS

    def _apply(self, sample: types.Sample) -> None:
        if self._manager is None:
            self._manager = manager.WeightManager(self._conf, sample.hierarchy)
        self._needs_restore |= self._mode == manager.ON
        self._decision = self._manager.apply(sample, self._checks.seekers)

    def _restore(self) -> bool:
        return self._restoring.run(lambda: restore.restore_weights(self._conf))
