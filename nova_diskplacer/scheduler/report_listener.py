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

"""Updates this worker's cache of all hosts' disks by the agents' reports.

Nova creates its filters before it forks its workers and shares them between
threads, so the listener starts with the first request that needs it. It stops
with the worker's nova-scheduler, and starts again if that does.
"""

import collections.abc
import dataclasses
import functools
import os
import threading
import time
import typing

import oslo_messaging
from oslo_log import log as logging

from nova_diskplacer import conf
from nova_diskplacer import exception
from nova_diskplacer import reports
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.scheduler import host_disk_cache
from nova_diskplacer.scheduler import placement_queries

LOG = logging.getLogger(__name__)

# Interval in seconds between requests for reports that are out of date. With
# the time of the answer it is shorter than a choice stays pending.
_RENEW_INTERVAL = 5.0


@dataclasses.dataclass
class CacheUpdater:
    """Keeps a cache current by the agents' reports.

    ``compute_nodes`` returns the providers of all compute nodes with disks.
    The first callers of ``get_cache`` wait until all of those have reported,
    for ``timeout`` seconds at most.
    """

    transport: oslo_messaging.Transport
    disk_cache: host_disk_cache.HostDiskCache
    compute_nodes: collections.abc.Callable[[], set[str]]
    timeout: float

    def __post_init__(self) -> None:
        self._report_event = threading.Event()
        self._ready = threading.Event()
        self._stopped = threading.Event()
        self._listener: reports.ReportListener | None = None

    def start(self) -> None:
        """Start listening, and request reports of all agents.

        :raises oslo_messaging.MessagingException: there is no request.
        """
        self._listener = reports.ReportListener(
            self.transport,
            self._update,
            heartbeat=self._confirm,
            send_software=self._send_software,
        )
        self._listener.start()
        try:
            reports.request_reports(self.transport)
        except BaseException:
            self._listener.stop()
            raise
        threading.Thread(target=self._renew, daemon=True).start()
        threading.Thread(target=self._become_ready, daemon=True).start()

    def stop(self) -> None:
        """Stop listening; who waits for reports waits no longer."""
        self._stopped.set()
        self._report_event.set()
        if self._listener is not None:
            self._listener.stop()

    def cache(self) -> host_disk_cache.HostDiskCache:
        """Return the cache when all hosts with disks have reported."""
        self._ready.wait(self.timeout)
        return self.disk_cache

    def _send_software(self) -> None:
        try:
            reports.send_software(
                self.transport,
                conf.CONF.host,
                catalogue.software(conf.CONF.diskplacer.profile_dirs),
            )
        except (
            exception.ProfileError,
            oslo_messaging.MessagingException,
        ) as error:
            LOG.warning('The release is not sent: %s', error)

    def _update(self, report: dict[str, typing.Any]) -> None:
        self.disk_cache.update(report)
        self._report_event.set()

    def _confirm(self, heartbeat: dict[str, typing.Any]) -> None:
        """Count a host's report as fresh; request it if it is missing."""
        if self.disk_cache.confirm(heartbeat['provider'], heartbeat['digest']):
            return
        # before that, answers to the first request are on their way
        if self._ready.is_set():
            reports.renew_report(self.transport, heartbeat['host'])

    def _renew(self) -> None:
        """Request new reports of hosts whose last ones are out of date."""
        while not self._stopped.wait(_RENEW_INTERVAL):
            for host in self.disk_cache.hosts_to_renew():
                try:
                    reports.renew_report(self.transport, host)
                except oslo_messaging.MessagingException as error:
                    LOG.debug(
                        'No request to host %s for a report: %s', host, error
                    )

    def _become_ready(self) -> None:
        end = time.monotonic() + self.timeout
        try:
            missing = self.compute_nodes() - self.disk_cache.providers()
            while missing and (left := end - time.monotonic()) > 0:
                self._report_event.wait(left)
                self._report_event.clear()
                if self._stopped.is_set():
                    return
                missing -= self.disk_cache.providers()
            LOG.info(
                'The disks of %d hosts are known; %d hosts with disks have '
                'not reported.',
                len(self.disk_cache),
                len(missing),
            )
        except Exception:
            LOG.exception(
                'Compute nodes with disks are unknown: requests do not wait '
                'for their reports.'
            )
        finally:
            self._ready.set()


_listeners: dict[int, CacheUpdater] = {}
_start = threading.Lock()


def get_cache() -> host_disk_cache.HostDiskCache:
    """Return the cache of this process; the first call starts to listen.

    :raises oslo_messaging.MessagingException: agents are not requested to
        report.
    """
    with _start:
        listener = _listeners.get(os.getpid())
        if listener is None:
            conf.register_opts(conf.CONF)
            options = conf.CONF.diskplacer_scheduler
            listener = CacheUpdater(
                _transport(os.getpid()),
                host_disk_cache.HostDiskCache(options.report_timeout),
                placement_queries.compute_nodes_with_disks,
                options.warmup_timeout,
            )
            listener.start()
            _listeners[os.getpid()] = listener
    return listener.cache()


def reset() -> None:
    """Stop listening and drop the cache of this process, if there is one."""
    listener = _listeners.pop(os.getpid(), None)
    if listener is not None:
        listener.stop()


@functools.cache
def _transport(pid: int) -> oslo_messaging.Transport:
    """Return the transport of a process, for every listener that it starts.

    Processes share no connections.
    """
    return reports.get_transport(conf.CONF)
