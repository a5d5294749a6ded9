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

"""The agent: watches the disks, keeps Placement true, reports."""

import dataclasses
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
from nova_diskplacer.agent import forgotten
from nova_diskplacer.agent import inventory
from nova_diskplacer.agent import io_loop
from nova_diskplacer.agent import report_sender
from nova_diskplacer.agent import reporter
from nova_diskplacer.agent import server_tasks
from nova_diskplacer.disks import discover
from nova_diskplacer.host import log_once
from nova_diskplacer.placement import client as placement_client

LOG = logging.getLogger(__name__)

# Seconds to wait before listening is tried again.
_LISTEN_AGAIN = 5

# Seconds within which all who ask for a report get one together.
_GATHER = 1.0


class Agent:
    """The agent of one compute node.

    One thread looks at the disks, one keeps Placement true, one looks after
    servers, one watches and weighs their I/O, one sends and one hears
    requests, so that none waits for what another talks to. While Placement or
    nova-compute is away the figures last known are reported, with the disks
    as they are.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        client: placement_client.PlacementClient,
        transport: oslo_messaging.Transport,
    ) -> None:
        self._conf = conf
        self._transport = transport
        self._host: str = conf.host
        node = compute_node.configured(conf)
        self._node = node.name
        self._lookout = compute_node.Lookout(node)
        self._reconciler = inventory.Reconciler(
            client,
            self._node,
            forgotten.keep_by(conf.diskplacer_agent.nova_conf),
        )
        self._steering = server_tasks.Steering(conf)
        self._cache_modes = cache_mode.CacheModes(
            conf.diskplacer_agent.nova_conf
        )
        self._outbox = report_sender.Outbox(transport)
        self._stopped = threading.Event()
        self._look_now = threading.Event()
        self._reconcile_now = threading.Event()
        self._state = threading.Lock()
        self._asked = self._renewed = False
        self._stirred = 0.0
        self._disks: list[discover.Disk] | None = None
        self._modes: cache_mode.Modes = {}
        self._offers: list[inventory.Offer] = []
        self._root: str | None = None
        self._reporter = reporter.Reporter(
            self._outbox,
            self._host,
            self._node,
            conf.diskplacer_agent.heartbeat_interval,
        )
        self._io_loop = io_loop.IOLoop(
            conf, lambda: self._steering.servers, lambda: self._disks
        )
        self._looking = log_once.RetryLogger(
            f'{conf.diskplacer.disk_root} cannot be watched',
            'The disks are watched again',
        )
        self._keeping = log_once.RetryLogger(
            'Placement is not up to date', 'Placement is up to date again'
        )
        self._hearing = log_once.RetryLogger(
            'Requests for reports are not heard',
            'Requests for reports are heard again',
        )

    def run(self) -> None:
        """Work until ``stop`` is called."""
        LOG.info(
            'The agent of compute node %s watches %s.',
            self._node,
            self._conf.diskplacer.disk_root,
        )
        self._outbox.start()
        weighing = threading.Thread(target=self._weigh, daemon=True)
        weighing.start()
        for work in (self._listen, self._keep, self._steer):
            threading.Thread(target=work, daemon=True).start()
        while not self._stopped.is_set():
            self._look_now.clear()
            self._looking.run(self.look)
            interval = self._conf.diskplacer_agent.watch_interval
            self._look_now.wait(until_next(interval, time.time()))
            if self._asked:
                self._stopped.wait(_GATHER)
        LOG.info('The agent stops.')
        # it gives weights back
        weighing.join()

    def stop(self) -> None:
        """Have ``run`` return."""
        self._stopped.set()
        self._look_now.set()
        self._reconcile_now.set()

    def request(self) -> None:
        """Have the disks looked at and reported soon."""
        self._asked = True
        self._look_now.set()

    def renew(self) -> None:
        """Have Placement looked at and all reported soon.

        Somebody does not have the last report, or knows of claims that were
        made since.
        """
        self._renewed = True
        self._reconcile_now.set()

    def look(self) -> None:
        """Look at the disks; report if there is reason to.

        A change is reported when Placement knows of it; at once if it is one
        of health.

        :raises DiskError: there is no disk root.
        :raises OSError: the disk root cannot be read.
        """
        asked, self._asked = self._asked, False
        before, modes_before = self._disks, self._modes
        disks = None
        try:
            disks = find(self._conf.diskplacer.disk_root)
        finally:
            # of disks that cannot be seen nothing is reported
            with self._state:
                self._disks = disks
        modes = self._cache_modes.of(disks, self._steering.servers or [])
        with self._state:
            self._modes = modes
        if (disks, modes) != (before, modes_before):
            self._stir()
        if (
            asked
            or _healths(disks) != _healths(before or [])
            or self._reporter.due
        ):
            self._report(asked)

    def reconcile(self) -> None:
        """Make Placement agree with the disks last seen, and report.

        :raises PlacementError: it does not agree yet.
        """
        with self._state:
            disks, modes = self._disks, self._modes
        if disks is None:
            return
        offers = None
        renewed, self._renewed = self._renewed, False
        try:
            offers = self._reconciler.reconcile(disks, modes)
            self._lookout.found()
        except exception.NoComputeNode:
            self._lookout.missed()
            raise
        finally:
            # at once: what looks at disks meanwhile may report them
            with self._state:
                self._root = self._reconciler.root
                if offers is not None:
                    self._offers = offers
            self._report(renewed)

    def _keep(self) -> None:
        options = self._conf.diskplacer_agent
        pause = options.watch_interval
        while not self._stopped.is_set():
            self._reconcile_now.clear()
            if self._keeping.run(self.reconcile):
                pause = options.watch_interval
                self._reconcile_now.wait(self._until_next_round())
            else:
                self._reconcile_now.wait(pause)
                pause = min(2 * pause, options.report_interval)
            if self._renewed:
                self._stopped.wait(_GATHER)

    def _until_next_round(self) -> float:
        """Return the time in seconds until Placement is asked again.

        It is short for a while after a change: Nova deletes the claims of a
        server some time after the server itself.
        """
        options = self._conf.diskplacer_agent
        quiet: float = options.idle_interval
        if time.monotonic() - self._stirred < quiet:
            return min(quiet, float(options.report_interval))
        return quiet

    def _stir(self) -> None:
        """Have Placement asked at once, and often for a while."""
        self._stirred = time.monotonic()
        self._reconcile_now.set()

    def _steer(self) -> None:
        interval = self._conf.diskplacer_agent.watch_interval
        before: set[str] | None = None
        while not self._stopped.wait(interval):
            with self._state:
                disks = self._disks
            if disks is not None:
                self._steering.steer(disks)
            servers = {one.uuid for one in self._steering.servers or ()}
            if servers != before:
                self._stir()
            before = servers

    def _weigh(self) -> None:
        self._io_loop.run(self._stopped)

    def _listen(self) -> None:
        while not self._stopped.is_set():
            # one that could not be started cannot be started again
            requests = reports.RequestListener(
                self._transport, self.request, self.renew, self._host
            )
            # it blocks while the message bus is away
            if self._hearing.run(requests.start):
                return
            self._stopped.wait(_LISTEN_AGAIN)

    def _report(self, asked: bool) -> None:
        with self._state:
            if self._root is None or self._disks is None:
                return
            self._reporter.tell(
                self._root,
                cache_mode.common(self._modes.values()),
                as_seen(self._offers, self._disks),
                self._io_loop.pressure,
                asked,
            )


def until_next(interval: float, now: float) -> float:
    """Return the time in seconds until the clock is at a multiple of one.

    So the agents of all hosts look, and send heartbeats, at the same moments.
    Messages that come together cost a scheduler worker much less than as many
    single ones: its listener polls often for a while after each.
    """
    return interval - now % interval


def find(disk_root: str) -> list[discover.Disk]:
    """Return the disks under ``disk_root``, settled.

    :raises DiskError: there is no disk root. That is not taken for disks
        that were forgotten.
    :raises OSError: the disk root cannot be read.
    """
    disks = [inventory.settled(disk) for disk in discover.discover(disk_root)]
    if not disks and not os.path.isdir(disk_root):
        raise exception.DiskError(
            f'[diskplacer] disk_root {disk_root} does not exist: '
            'diskplacer-manage disk prepare makes it'
        )
    return disks


def as_seen(
    offers: list[inventory.Offer], disks: list[discover.Disk]
) -> list[inventory.Offer]:
    """Return the disks as they are now, with the figures last known.

    A disk is left out until Placement has been told of it.
    """
    known = {offer.disk.uuid: offer for offer in offers}
    return [
        inventory.Offer(
            dataclasses.replace(disk, health=inventory.FOREIGN)
            if known[disk.uuid].disk.health == inventory.FOREIGN
            else disk,
            known[disk.uuid].figures,
        )
        for disk in disks
        if disk.uuid in known
    ]


def _healths(disks: list[discover.Disk]) -> dict[str, str]:
    return {disk.uuid: disk.health for disk in disks}
