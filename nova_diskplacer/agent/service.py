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

import os
import socket
import threading
import time
import typing

import oslo_messaging
from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer import placement
from nova_diskplacer import reports
from nova_diskplacer.agent import outbox
from nova_diskplacer.agent import reconcile
from nova_diskplacer.disks import discover

LOG = logging.getLogger(__name__)


class Agent:
    """The agent of one compute node.

    It survives Placement, the message bus and nova-compute being away: it
    keeps looking, says so once in its log, and reports what it last knew.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        client: placement.PlacementClient,
        transport: oslo_messaging.Transport,
    ) -> None:
        self._conf = conf
        self._host: str = conf.host
        self._node: str = conf.diskplacer.compute_node or socket.getfqdn()
        self._reconciler = reconcile.Reconciler(client, self._node)
        self._outbox = outbox.Outbox(transport)
        self._requests = reports.RequestListener(
            transport, self.wake, f'{self._host}-{os.getpid()}'
        )
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._asked = False
        self._due = 0.0
        self._disks: list[discover.Disk] | None = None
        self._offers: list[reconcile.Offer] = []
        self._trouble: str | None = None

    def run(self) -> None:
        """Work until ``stop`` is called."""
        LOG.info(
            'The agent of compute node %s watches %s.',
            self._node,
            self._conf.diskplacer.disk_root,
        )
        self._outbox.start()
        # it blocks while the message bus is away
        threading.Thread(target=self._requests.start, daemon=True).start()
        while not self._stopped.is_set():
            try:
                self.round()
            except Exception:
                LOG.exception('A round failed; the next one tries again.')
            self._wake.wait(self._conf.diskplacer_agent.watch_interval)
            self._wake.clear()
        LOG.info('The agent stops.')

    def stop(self) -> None:
        """Have ``run`` return; may be called from a signal handler."""
        self._stopped.set()
        self._wake.set()

    def wake(self) -> None:
        """Have ``run`` report at once."""
        self._asked = True
        self._wake.set()

    def round(self) -> None:
        """Look at the disks; reconcile and report if there is reason to."""
        now = time.monotonic()
        asked, self._asked = self._asked, False
        disks = [
            reconcile.settled(disk)
            for disk in discover.discover(self._conf.diskplacer.disk_root)
        ]
        if disks == self._disks and now < self._due and not asked:
            return
        options = self._conf.diskplacer_agent
        try:
            self._offers = self._reconciler.reconcile(disks)
        except exception.PlacementError as error:
            self._say(str(error))
            self._due = now + options.watch_interval
            self._offers = last_known(self._offers, disks)
        else:
            self._say(None)
            self._due = now + options.report_interval
        self._disks = disks
        if self._reconciler.root is not None:
            self._outbox.put(self._report(self._reconciler.root))

    def _say(self, trouble: str | None) -> None:
        if trouble != self._trouble:
            if trouble:
                LOG.warning('Will try again: %s', trouble)
            else:
                LOG.info('Placement is up to date again.')
            self._trouble = trouble

    def _report(self, root: str) -> reports.Report:
        return {
            'version': reports.VERSION,
            'host': self._host,
            'compute_node': self._node,
            'provider': root,
            'disks': [_disk(offer) for offer in self._offers],
        }


def last_known(
    offers: list[reconcile.Offer], disks: list[discover.Disk]
) -> list[reconcile.Offer]:
    """Return the disks as they are now with the figures last read."""
    figures = {offer.disk.uuid: offer.figures for offer in offers}
    return [
        reconcile.Offer(disk, figures[disk.uuid])
        for disk in disks
        if disk.uuid in figures
    ]


def _disk(offer: reconcile.Offer) -> dict[str, typing.Any]:
    disk, figures = offer.disk, offer.figures
    return {
        'uuid': disk.uuid,
        'medium': disk.medium,
        'model': disk.model,
        'numa_node': disk.numa_node,
        'total_gb': figures.total_gb,
        'reserved_gb': figures.reserved_gb,
        'used_gb': figures.used_gb,
        'total_mbps': figures.total_mbps,
        'used_mbps': figures.used_mbps,
        'health': disk.health,
        'vdisks': [
            {
                'volume_id': vdisk.volume_id,
                'server_id': vdisk.server_id,
                'size_gb': vdisk.size_gb,
            }
            for vdisk in disk.vdisks
        ],
    }
