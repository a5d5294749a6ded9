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

"""The fleet of this scheduler worker, kept by the agents' reports.

Nova makes its filters before it forks its workers and shares them between
threads, so the listener starts with the first request that needs it.
"""

import collections.abc
import os
import threading
import time
import typing

import oslo_messaging
from oslo_log import log as logging

from nova_diskplacer import conf
from nova_diskplacer import reports
from nova_diskplacer.scheduler import fleet as fleets
from nova_diskplacer.scheduler import placement_queries

LOG = logging.getLogger(__name__)

# Time in seconds between two looks for hosts of which more is known than was
# reported. With the time that an answer takes it is less than a choice counts
# as used.
_RENEW_INTERVAL = 5.0


class FleetListener:
    """Keeps a fleet current from the agents' reports.

    :param expected: returns the providers of all hosts that have disks.
    :param timeout: time in seconds at most that the first callers of
        ``fleet`` wait until all of those have reported.
    """

    def __init__(
        self,
        transport: oslo_messaging.Transport,
        fleet: fleets.Fleet,
        expected: collections.abc.Callable[[], set[str]],
        timeout: float,
    ) -> None:
        self._transport = transport
        self._fleet = fleet
        self._expected = expected
        self._timeout = timeout
        self._heard = threading.Event()
        self._warm = threading.Event()
        self._stopped = threading.Event()
        self._listener: reports.ReportListener | None = None

    def start(self) -> None:
        """Listen, and call on all agents to report."""
        self._listener = reports.ReportListener(
            self._transport, self._take, heartbeat=self._confirm
        )
        self._listener.start()
        reports.request_reports(self._transport)
        threading.Thread(target=self._renew, daemon=True).start()
        threading.Thread(target=self._settle, daemon=True).start()

    def stop(self) -> None:
        """Stop listening."""
        self._stopped.set()
        if self._listener is not None:
            self._listener.stop()

    def fleet(self) -> fleets.Fleet:
        """Return the fleet, once all hosts with disks have reported."""
        self._warm.wait(self._timeout)
        return self._fleet

    def _take(self, report: dict[str, typing.Any]) -> None:
        self._fleet.update(report)
        self._heard.set()

    def _confirm(self, heartbeat: dict[str, typing.Any]) -> None:
        """Count a host's report as fresh; ask for it if it is missing."""
        if self._fleet.confirm(heartbeat['provider'], heartbeat['digest']):
            return
        # until it is warm, the answers to its first request are under way
        if self._warm.is_set():
            reports.renew_report(self._transport, heartbeat['host'])

    def _renew(self) -> None:
        """Have agents look that cannot know yet what was chosen here."""
        while not self._stopped.wait(_RENEW_INTERVAL):
            for host in self._fleet.ahead():
                try:
                    reports.renew_report(self._transport, host)
                except oslo_messaging.MessagingException as error:
                    LOG.debug('Host %s cannot be asked: %s', host, error)

    def _settle(self) -> None:
        try:
            self._wait_for_reports()
        except Exception:
            LOG.exception(
                'Placement did not tell which hosts have disks: requests do '
                'not wait for their reports.'
            )
        finally:
            self._warm.set()

    def _wait_for_reports(self) -> None:
        end = time.monotonic() + self._timeout
        missing = self._expected() - self._fleet.providers()
        while missing and (left := end - time.monotonic()) > 0:
            self._heard.wait(left)
            self._heard.clear()
            missing -= self._fleet.providers()
        LOG.info(
            'Know the disks of %d hosts; %d hosts with disks have not '
            'reported.',
            len(self._fleet),
            len(missing),
        )


_listeners: dict[int, FleetListener] = {}
_start = threading.Lock()


def get_fleet() -> fleets.Fleet:
    """Return the fleet of this process; the first call starts listening."""
    listener = _listeners.get(os.getpid())
    if listener is None:
        with _start:
            listener = _listeners.get(os.getpid())
            if listener is None:
                conf.register_opts(conf.CONF)
                options = conf.CONF.diskplacer_scheduler
                listener = FleetListener(
                    reports.get_transport(conf.CONF),
                    fleets.Fleet(options.report_timeout),
                    placement_queries.hosts,
                    options.warmup_timeout,
                )
                listener.start()
                _listeners[os.getpid()] = listener
    return listener.fleet()


def reset() -> None:
    """Stop listening and forget the fleet of this process."""
    listener = _listeners.pop(os.getpid(), None)
    if listener is not None:
        listener.stop()
