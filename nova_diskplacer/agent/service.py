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

"""The agent: checks the disks, updates Placement and sends reports."""

import contextlib
import os
import threading
import time

import oslo_messaging
from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer import reports
from nova_diskplacer.agent import cache_mode
from nova_diskplacer.agent import compute_node
from nova_diskplacer.agent import exporters
from nova_diskplacer.agent import forgotten
from nova_diskplacer.agent import io_control
from nova_diskplacer.agent import known_disks
from nova_diskplacer.agent import placement_sync
from nova_diskplacer.agent import reported_disks
from nova_diskplacer.agent import reporter
from nova_diskplacer.agent import server_tasks
from nova_diskplacer.disks import bind_failures
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import settling
from nova_diskplacer.host import retry_logger
from nova_diskplacer.io_weights import manager
from nova_diskplacer.monitor import host_status as status
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.profiles import catalogue

LOG = logging.getLogger(__name__)

# Time in seconds before the agent retries to listen.
_LISTEN_RETRY = 5

# Time in seconds for which the agent collects requests for one report.
_GATHER_REQUESTS = 1.0


class Agent:
    """The agent of one compute node.

    Each of these has a thread of its own, so that none waits for another's
    peer: the check of the disks, the update of Placement, the tasks for
    servers, the I/O loop, the sender of reports and the listener for
    requests. While Placement or nova-compute is away, the agent reports the
    current disks with the last known figures.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        client: placement_client.PlacementClient,
        transport: oslo_messaging.Transport,
    ) -> None:
        self._conf = conf
        self._transport = transport
        self._node = compute_node.ComputeNode(conf)
        self._placement_sync = placement_sync.PlacementSync(
            client,
            self._node.name,
            forgotten.retention_from(conf.diskplacer_agent.nova_conf),
        )
        self._server_tasks = server_tasks.ServerTasks(conf)
        self._cache_modes = cache_mode.CacheModes(
            conf.diskplacer_agent.nova_conf
        )
        self._sender = reporter.ReportSender(transport)
        self._stopped = threading.Event()
        self._check_now = threading.Event()
        self._reconcile_now = threading.Event()
        self._known = known_disks.KnownDisks()
        self._requested = self._fresh_requested = False
        self._last_change = 0.0
        self._reporter = reporter.Reporter(
            self._sender,
            conf.host,
            self._node.name,
            conf.diskplacer_agent.heartbeat_interval,
            software=catalogue.software(conf.diskplacer.profile_dirs),
            weights=conf.diskplacer_weights.controller
            if conf.diskplacer_weights.mode == manager.ON
            else '',
        )
        self._io_control = io_control.IOControl(
            conf,
            lambda: self._server_tasks.servers,
            lambda: self._known.disks,
            self._known.free_gb,
        )
        self._watch_log = retry_logger.RetryLogger(
            f'{conf.diskplacer.disk_root} cannot be read',
            'The disks can be read again',
        )
        self._placement_log = retry_logger.RetryLogger(
            'Placement is not up to date', 'Placement is up to date again'
        )
        self._listen_log = retry_logger.RetryLogger(
            'The agent does not receive requests for reports',
            'The agent receives requests for reports again',
        )

    def run(self) -> None:
        """Work until ``stop`` is called."""
        LOG.info(
            'The agent of compute node %s watches %s.',
            self._node.name,
            self._conf.diskplacer.disk_root,
        )
        exporters.start_exporters(
            self._conf,
            self._io_control.current_status,
            self.current_status,
            self._io_control.wanted_step,
        )
        io_thread = threading.Thread(
            target=self._io_control.run, args=(self._stopped,), daemon=True
        )
        io_thread.start()
        for work in (
            self._sender.run,
            self._listen,
            self._update_placement,
            self._run_server_tasks,
        ):
            threading.Thread(target=work, daemon=True).start()
        while not self._stopped.is_set():
            self._check_now.clear()
            self._watch_log.run(self.check_disks)
            interval = self._conf.diskplacer_agent.watch_interval
            self._check_now.wait(until_next(interval, time.time()))
            if self._requested:
                self._stopped.wait(_GATHER_REQUESTS)
        LOG.info('The agent stops.')
        # The I/O loop restores weights.
        io_thread.join()

    def stop(self) -> None:
        """Make ``run`` return."""
        self._stopped.set()
        self._check_now.set()
        self._reconcile_now.set()

    def request(self) -> None:
        """Check the disks and report them soon."""
        self._requested = True
        self._check_now.set()

    def request_fresh(self) -> None:
        """Update Placement and report all disks soon.

        The requester lacks the last report or knows of newer claims.
        """
        self._fresh_requested = True
        self._reconcile_now.set()

    def check_disks(self) -> None:
        """Check the disks, and report them if necessary.

        A change of health is reported at once, every other change as soon as
        Placement has it.

        :raises DiskError: there is no disk root.
        :raises OSError: the disk root cannot be read.
        """
        requested, self._requested = self._requested, False
        before, modes_before = self._known.checked()
        disks = None
        try:
            disks = discover_disks(self._conf.diskplacer.disk_root)
        finally:
            # Nothing is reported of disks that cannot be read.
            self._known.set_disks(disks)
        modes = self._cache_modes.determine(
            disks, self._server_tasks.servers or []
        )
        self._known.set_modes(modes)
        if (disks, modes) != (before, modes_before):
            self._poll_often()
        if (
            requested
            or _health_by_disk(disks) != _health_by_disk(before or [])
            or self._reporter.due
        ):
            self._report(requested)

    def reconcile(self) -> None:
        """Update Placement by the last check of the disks, and report them.

        :raises PlacementError: the update is not complete.
        """
        disks, modes = self._known.checked()
        if disks is None:
            return
        fresh_requested, self._fresh_requested = self._fresh_requested, False
        try:
            self._placement_sync.reconcile(disks, modes)
            self._node.present()
        except exception.NoComputeNode:
            self._node.missing()
            raise
        finally:
            self._known.set_reported(
                self._placement_sync.root, self._placement_sync.reported
            )
            self._report(fresh_requested)

    def current_status(self) -> status.HostStatus:
        """Return the status of the host; any thread may call it."""
        return status.HostStatus(
            host=self._conf.host,
            disks=self._known.status(),
            checked=self._watch_log.succeeded,
            placement_updated=self._placement_log.succeeded,
            reported=self._sender.sending.succeeded,
            placement_errors=self._placement_log.failures,
            report_errors=self._sender.sending.failures,
            bind_failures=bind_failures.read(self._conf.diskplacer.disk_root),
            settling=self._settling(),
        )

    def _settling(self) -> tuple[settling.VDisk, ...]:
        """Return the vdisks of servers that have moved here before them."""
        with contextlib.suppress(exception.DiskError):
            root = self._conf.diskplacer.disk_root
            return settling.of_host(root, time.time())
        # the check of the disks logs what is wrong
        return ()

    def _update_placement(self) -> None:
        options = self._conf.diskplacer_agent
        pause = options.watch_interval
        while not self._stopped.is_set():
            self._reconcile_now.clear()
            if self._placement_log.run(self.reconcile):
                pause = options.watch_interval
                self._reconcile_now.wait(self._until_next_round())
            else:
                self._reconcile_now.wait(pause)
                pause = min(2 * pause, options.report_interval)
            if self._fresh_requested:
                self._stopped.wait(_GATHER_REQUESTS)

    def _until_next_round(self) -> float:
        """Return the time in seconds until the next update of Placement.

        It is short for a while after a change, because Nova deletes the
        claims of a server some time after the server.
        """
        options = self._conf.diskplacer_agent
        quiet: float = options.idle_interval
        if time.monotonic() - self._last_change < quiet:
            return min(quiet, float(options.report_interval))
        return quiet

    def _poll_often(self) -> None:
        """Update Placement at once, and often for a while."""
        self._last_change = time.monotonic()
        self._reconcile_now.set()

    def _run_server_tasks(self) -> None:
        interval = self._conf.diskplacer_agent.watch_interval
        before: set[str] | None = None
        while not self._stopped.wait(interval):
            if (disks := self._known.disks) is not None:
                self._server_tasks.run(disks)
            servers = {
                server.uuid for server in self._server_tasks.servers or ()
            }
            if servers != before:
                self._poll_often()
            before = servers

    def _listen(self) -> None:
        while not self._stopped.is_set():
            # A listener cannot be started a second time.
            requests = reports.RequestListener(
                self._transport,
                self.request,
                self.request_fresh,
                self._conf.host,
            )
            # The call blocks while the message bus is away.
            if self._listen_log.run(requests.start):
                return
            self._stopped.wait(_LISTEN_RETRY)

    def _report(self, requested: bool) -> None:
        self._known.report(
            lambda root, mode, disks: self._reporter.update(
                root,
                mode,
                disks,
                self._io_control.disk_activity(),
                requested,
            )
        )


def until_next(interval: float, now: float) -> float:
    """Return the time in seconds until the clock is at a multiple of one.

    By it the agents of all hosts send heartbeats at the same moments. A
    scheduler worker spends much less CPU time on messages that arrive
    together, because its listener polls often for a while after each message.
    """
    return interval - now % interval


def discover_disks(disk_root: str) -> list[discover.Disk]:
    """Return the disks under ``disk_root``, in comparable form.

    :raises DiskError: there is no disk root. A missing disk root does not
        mean that all disks are forgotten.
    :raises OSError: the disk root cannot be read.
    """
    disks = [
        reported_disks.comparable(disk)
        for disk in discover.discover(disk_root)
    ]
    if not disks and not os.path.isdir(disk_root):
        raise exception.DiskError(
            f'[diskplacer] disk_root {disk_root} does not exist: '
            'diskplacer-manage disk prepare creates it'
        )
    return disks


def _health_by_disk(disks: list[discover.Disk]) -> dict[str, str]:
    return {disk.uuid: disk.health for disk in disks}
