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

"""Agents' reports of their disks, over oslo.messaging.

Agents cast reports to all listeners (a fanout topic): the scheduler workers
and ``diskplacer-manage map``. An agent casts a report when something has
changed. Otherwise it casts a heartbeat at an interval, with the digest of the
last report. A listener that does not have that report requests it from the
agent, and a new listener requests reports of all agents.

``diskplacer-status`` requests reports too, and requests all scheduler workers
that listen to tell their release and profiles. Workers of earlier releases log
that they do not know that request.
"""

import collections.abc
import types

import oslo_messaging
from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import report_format
from nova_diskplacer.host import log_once

LOG = logging.getLogger(__name__)

_EXCHANGE = 'diskplacer'
_REPORTS = 'diskplacer_reports'
_AGENTS = 'diskplacer_agents'
_SCHEDULERS = 'diskplacer_schedulers'

# Time in seconds for which RabbitMQ keeps the fanout queue of a listener that
# is gone, and the messages in it.
_ORPHAN_SECONDS = 60

Callback = collections.abc.Callable[[report_format.Report], None]


def listener_name() -> str:
    """Return the server name that all report listeners share.

    RabbitMQ keeps the queue of each name forever, and nothing is sent to this
    one. With messaging inside a process each listener needs its own name.
    """
    return 'all'


def get_transport(conf: cfg.ConfigOpts) -> oslo_messaging.Transport:
    """Return the transport that ``[DEFAULT] transport_url`` describes.

    RabbitMQ keeps the queue of a killed listener for at most a minute instead
    of ``[oslo_messaging_rabbit] rabbit_transient_queues_ttl``, half an hour by
    default. Where all listeners share a queue
    (``rabbit_stream_fanout``) or the name of one is used again
    (``use_queue_manager``), it is left as configured.

    :raises DriverLoadFailure: there is no driver for that URL.
    :raises InvalidTransportURL: the URL is not valid.
    """
    transport = oslo_messaging.get_rpc_transport(conf)
    url = oslo_messaging.TransportURL.parse(conf)
    name = 'rabbit_transient_queues_ttl'
    if url.transport not in ('rabbit', 'kombu') or name in url.query:
        return transport
    # the driver has registered its options
    options = conf.oslo_messaging_rabbit
    for reason in ('rabbit_stream_fanout', 'use_queue_manager'):
        if reason in options and options[reason]:
            return transport
    configured = options[name] or _ORPHAN_SECONDS
    url.query[name] = str(min(configured, _ORPHAN_SECONDS))
    return oslo_messaging.get_rpc_transport(conf, url=url)


class _Server:
    """A fanout server of one topic.

    :param threads: number of threads that call the methods, None for what is
        configured.
    :param methods: the methods that clients call, by name.
    """

    def __init__(
        self,
        transport: oslo_messaging.Transport,
        topic: str,
        server_name: str,
        threads: int | None = None,
        **methods: collections.abc.Callable[..., None],
    ) -> None:
        self._threads = threads
        self._server = oslo_messaging.get_rpc_server(
            transport,
            oslo_messaging.Target(
                exchange=_EXCHANGE, topic=topic, server=server_name
            ),
            [types.SimpleNamespace(**methods)],
            executor='threading',
        )

    def start(self) -> None:
        """Start receiving."""
        self._server.start(override_pool_size=self._threads)

    def stop(self) -> None:
        """Stop receiving, and wait for callbacks to end."""
        self._server.stop()
        self._server.wait()


class ReportListener(_Server):
    """Receives every report that agents cast.

    :param callback: called with each valid report, in another thread.
    :param server_name: replaces ``listener_name()``.
    :param heartbeat: called with each valid heartbeat, in another thread.
    :param send_software: called for each request of ``request_software``.
    """

    def __init__(
        self,
        transport: oslo_messaging.Transport,
        callback: Callback,
        server_name: str | None = None,
        heartbeat: Callback = lambda heartbeat: None,
        send_software: collections.abc.Callable[[], None] = lambda: None,
    ) -> None:
        # an agent of another release sends one after the other
        malformed = log_once.ChangeLogger(LOG)

        def receive(context: object, report: object) -> None:
            host = report.get('host') if isinstance(report, dict) else None
            subject = report_format.is_heartbeat(report), str(host)
            try:
                if report_format.is_heartbeat(report):
                    heartbeat(report_format.check_heartbeat(report))
                else:
                    callback(report_format.check(report))
            except ValueError as error:
                malformed.log(subject, 'Ignored a malformed report: %s', error)
            else:
                malformed.clear(subject)

        name = server_name or listener_name()
        super().__init__(
            transport,
            _REPORTS,
            name,
            # several might call back with two reports of a host in the wrong
            # order
            threads=1,
            report=receive,
            tell_software=lambda context: send_software(),
        )


class SchedulerListener(_Server):
    """Receives what schedulers tell of their software.

    :param callback: called with the ``host``, ``release`` and ``profiles`` of
        each worker, in another thread.
    """

    def __init__(
        self, transport: oslo_messaging.Transport, callback: Callback
    ) -> None:
        def receive(context: object, scheduler: object) -> None:
            try:
                callback(report_format.check_scheduler(scheduler))
            except ValueError as error:
                LOG.warning('Ignored a malformed message: %s', error)

        super().__init__(
            transport, _SCHEDULERS, listener_name(), software=receive
        )


class RequestListener(_Server):
    """Receives requests for reports, for an agent.

    :param report: called for each request to all agents.
    :param renew: called for each request to this agent, whose last report is
        missing or out of date somewhere.
    :param host: the host name in the agent's reports.
    """

    def __init__(
        self,
        transport: oslo_messaging.Transport,
        report: collections.abc.Callable[[], None],
        renew: collections.abc.Callable[[], None],
        host: str,
    ) -> None:
        super().__init__(
            transport,
            _AGENTS,
            host,
            send_report=lambda context: report(),
            renew_report=lambda context: renew(),
        )


def send_report(
    transport: oslo_messaging.Transport, report: report_format.Report
) -> None:
    """Cast a report or a heartbeat to all listeners.

    :raises oslo_messaging.MessagingException: it could not be sent.
    """
    _cast(transport, _REPORTS, 'report', report=report)


def request_reports(transport: oslo_messaging.Transport) -> None:
    """Request a report of each agent.

    :raises oslo_messaging.MessagingException: it could not be sent.
    """
    _cast(transport, _AGENTS, 'send_report')


def renew_report(transport: oslo_messaging.Transport, host: str) -> None:
    """Request a report of one host's agent, with fresh figures of Placement.

    Only agents that send heartbeats listen to this request.

    :raises oslo_messaging.MessagingException: it could not be sent.
    """
    _cast(transport, _AGENTS, 'renew_report', host)


def request_software(transport: oslo_messaging.Transport) -> None:
    """Request the software of all schedulers that listen.

    :raises oslo_messaging.MessagingException: it could not be sent.
    """
    _cast(transport, _REPORTS, 'tell_software')


def send_software(
    transport: oslo_messaging.Transport,
    host: str,
    software: report_format.Report,
) -> None:
    """Send the release and the profiles of a scheduler.

    :raises oslo_messaging.MessagingException: it could not be sent.
    """
    scheduler = {'host': host, **software}
    _cast(transport, _SCHEDULERS, 'software', scheduler=scheduler)


def _cast(
    transport: oslo_messaging.Transport,
    topic: str,
    method: str,
    server: str | None = None,
    **arguments: object,
) -> None:
    target = oslo_messaging.Target(
        exchange=_EXCHANGE, topic=topic, server=server, fanout=server is None
    )
    client = oslo_messaging.get_rpc_client(transport, target)
    client.cast({}, method, **arguments)
