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

Agents cast reports to everybody who listens (a fanout topic): the scheduler
workers and ``diskplacer-manage map``. A report tells all when something has
changed. While nothing has, a heartbeat at an interval names the digest of the
last report. Whoever does not have that report asks the agent for it, and
whoever begins to listen asks all agents.

Version 2 of the format has digests and heartbeats. Agents of version 1 send
reports only and are understood; services of version 1 refuse what agents of
version 2 send and log the version.
"""

import collections.abc
import hashlib
import json
import typing

import oslo_messaging
from oslo_config import cfg
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

VERSION = 2

_UNDERSTOOD = (1, 2)

#: What the health of a disk can be; only ``ok`` disks are offered. A
#: ``foreign`` disk's provider belongs to another host and has allocations.
HEALTH = ('ok', 'missing', 'hung', 'read-only', 'foreign')

_EXCHANGE = 'diskplacer'
_REPORTS = 'diskplacer_reports'
_AGENTS = 'diskplacer_agents'

# Time in seconds for which RabbitMQ keeps the fanout queue, and what is in it,
# of a listener that is gone.
_ORPHAN_SECONDS = 60

Report = dict[str, typing.Any]
Callback = collections.abc.Callable[[Report], None]
Request = collections.abc.Callable[[], None]

_MEDIA = ('hdd', 'ssd')

# Sums of figures below it stay far from what an int64 holds.
_LIMIT = 1 << 48
_PER_CENT = 100
_REPORT_KEYS = {
    'version': int,
    'host': str,
    'compute_node': str,
    'provider': str,
    'disks': list,
}
_DISK_KEYS = {
    'uuid': str,
    'medium': str,
    'model': str,
    'numa_node': (int, type(None)),
    'total_gb': int,
    'reserved_gb': int,
    'used_gb': int,
    'total_mbps': int,
    'used_mbps': int,
    'health': str,
    'vdisks': list,
}
# ``volume_id`` of a snapshot's vdisk is the id of the snapshot.
_VDISK_KEYS = {
    'volume_id': str,
    'server_id': (str, type(None)),
    'size_gb': int,
}
# What agents of earlier releases do not say. ``cache_mode`` is the host cache
# mode that vdisks are attached with, None if it is not known or not one.
_LATER_KEYS = {'cache_mode': (str, type(None)), 'digest': str}
_HEARTBEAT_KEYS = {
    'version': int,
    'host': str,
    'provider': str,
    'digest': str,
}
# ``pressure`` is what a disk is under for minutes, in per cent.
_LATER_DISK_KEYS = {'pressure': int}


def check(report: object) -> Report:
    """Return ``report`` if it is one that this version understands.

    :raises ValueError: it is not; names the key and what it should be.
    """
    checked = _check(report, _REPORT_KEYS, 'report')
    _check_later(checked, _LATER_KEYS, 'report')
    _check_version(checked)
    for disk in checked['disks']:
        _check(disk, _DISK_KEYS, 'disk')
        _check_later(disk, _LATER_DISK_KEYS, 'disk')
        if disk.get('pressure', 0) > _PER_CENT:
            raise ValueError(
                f'disk {disk["uuid"]} has pressure {disk["pressure"]}, which '
                f'is not between 0 and {_PER_CENT} per cent'
            )
        if disk['health'] == 'ok' and disk['medium'] not in _MEDIA:
            raise ValueError(
                f'medium {disk["medium"]!r} is not one of: '
                + ', '.join(_MEDIA)
            )
        if disk['health'] not in HEALTH:
            raise ValueError(
                f'health {disk["health"]!r} is not one of: '
                + ', '.join(HEALTH)
            )
        for vdisk in disk['vdisks']:
            _check(vdisk, _VDISK_KEYS, 'vdisk')
            # agents of before there were snapshots do not say
            told = vdisk.get('is_snapshot', False)
            if not isinstance(told, bool):
                raise ValueError(f'is_snapshot {told!r} is not a boolean')
    uuids = [disk['uuid'] for disk in checked['disks']]
    if len(set(uuids)) < len(uuids):
        raise ValueError(f'report has a disk twice: {sorted(uuids)}')
    return checked


def check_heartbeat(heartbeat: object) -> Report:
    """Return ``heartbeat`` if it is one that this version understands.

    :raises ValueError: it is not; names the key and what it should be.
    """
    checked = _check(heartbeat, _HEARTBEAT_KEYS, 'heartbeat')
    _check_version(checked)
    return checked


def with_digest(report: Report) -> Report:
    """Return a report with the digest of all that it tells."""
    text = json.dumps(report, sort_keys=True).encode()
    return {**report, 'digest': hashlib.sha256(text).hexdigest()[:32]}


def heartbeat(report: Report) -> Report:
    """Return the heartbeat that confirms a report with a digest."""
    return {key: report[key] for key in _HEARTBEAT_KEYS}


def is_heartbeat(message: object) -> bool:
    """Tell a heartbeat from a report."""
    return isinstance(message, dict) and 'disks' not in message


def _check_version(message: Report) -> None:
    if message['version'] not in _UNDERSTOOD:
        raise ValueError(
            f'report version {message["version"]} is not one of: '
            + ', '.join(map(str, _UNDERSTOOD))
        )


def _check(
    value: object, keys: collections.abc.Mapping[str, typing.Any], what: str
) -> dict[str, typing.Any]:
    if not isinstance(value, dict):
        raise ValueError(f'{what} is not a dictionary: {value!r}')
    for key, kind in keys.items():
        if key not in value:
            raise ValueError(f'{what} has no {key!r}')
        if not isinstance(value[key], kind) or not _sound(value[key]):
            raise ValueError(f'{what} has a bad {key!r}: {value[key]!r}')
    return value


def _check_later(
    value: dict[str, typing.Any],
    keys: collections.abc.Mapping[str, typing.Any],
    what: str,
) -> None:
    there = {key: kind for key, kind in keys.items() if key in value}
    _check(value, there, what)


def _sound(value: object) -> bool:
    """Whether it is no number, or one that figures are made of."""
    return not isinstance(value, int) or (
        not isinstance(value, bool) and 0 <= value < _LIMIT
    )


def listener_name() -> str:
    """Return the one name of all who hear reports.

    Nothing is sent to it, and RabbitMQ keeps the queue of each name for good.
    Where messages do not leave the process each listener needs its own.
    """
    return 'all'


def get_transport(conf: cfg.ConfigOpts) -> oslo_messaging.Transport:
    """Return the transport that ``[DEFAULT] transport_url`` describes.

    RabbitMQ keeps the queue of a listener that was killed for a minute at most
    instead of ``[oslo_messaging_rabbit] rabbit_transient_queues_ttl``, half an
    hour by default. Where all listeners share a queue
    (``rabbit_stream_fanout``) or the name of one is used again
    (``use_queue_manager``), it is left as configured.

    :raises DriverLoadFailure: there is no driver for that URL.
    :raises InvalidTransportURL: the URL is not as it should be.
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
    """A fanout server of one topic."""

    def __init__(
        self,
        transport: oslo_messaging.Transport,
        topic: str,
        server_name: str,
        endpoint: object,
    ) -> None:
        self._server = oslo_messaging.get_rpc_server(
            transport,
            oslo_messaging.Target(
                exchange=_EXCHANGE, topic=topic, server=server_name
            ),
            [endpoint],
            executor='threading',
        )

    def start(self) -> None:
        """Begin to receive."""
        self._server.start()

    def stop(self) -> None:
        """Stop receiving and wait for what is under way."""
        self._server.stop()
        self._server.wait()


class ReportListener(_Server):
    """Hears every report that agents cast.

    :param callback: is given each report that ``check`` accepts, from a
        thread of its own.
    :param server_name: instead of ``listener_name``.
    :param heartbeat: is given each heartbeat that ``check_heartbeat``
        accepts, from a thread of its own.
    """

    def __init__(
        self,
        transport: oslo_messaging.Transport,
        callback: Callback,
        server_name: str | None = None,
        heartbeat: Callback = lambda heartbeat: None,
    ) -> None:
        super().__init__(
            transport,
            _REPORTS,
            server_name or listener_name(),
            _ReportEndpoint(callback, heartbeat),
        )


class _ReportEndpoint:
    def __init__(self, callback: Callback, heartbeat: Callback) -> None:
        self._callback = callback
        self._heartbeat = heartbeat

    def report(self, context: object, report: object) -> None:
        try:
            if is_heartbeat(report):
                self._heartbeat(check_heartbeat(report))
            else:
                self._callback(check(report))
        except ValueError as error:
            LOG.warning('Ignored a malformed report: %s', error)


class RequestListener(_Server):
    """Hears requests to report, for an agent.

    :param report: is called for each request to all agents.
    :param renew: is called for each request to this agent, whose last report
        somebody does not have or has newer figures than.
    :param host: the host that the agent's reports name.
    """

    def __init__(
        self,
        transport: oslo_messaging.Transport,
        report: Request,
        renew: Request,
        host: str,
    ) -> None:
        super().__init__(
            transport, _AGENTS, host, _RequestEndpoint(report, renew)
        )


class _RequestEndpoint:
    def __init__(self, report: Request, renew: Request) -> None:
        self._report = report
        self._renew = renew

    def send_report(self, context: object) -> None:
        self._report()

    def renew_report(self, context: object) -> None:
        self._renew()


def send_report(transport: oslo_messaging.Transport, report: Report) -> None:
    """Cast a report, or a heartbeat, to everybody who listens.

    :raises oslo_messaging.MessagingException: it could not be sent.
    """
    _cast(transport, _REPORTS, 'report', report=report)


def request_reports(transport: oslo_messaging.Transport) -> None:
    """Call on all agents to report now.

    :raises oslo_messaging.MessagingException: it could not be sent.
    """
    _cast(transport, _AGENTS, 'send_report')


def renew_report(transport: oslo_messaging.Transport, host: str) -> None:
    """Call on the agent of one host to look at Placement and report.

    Only for agents that send heartbeats.

    :raises oslo_messaging.MessagingException: it could not be sent.
    """
    _cast(transport, _AGENTS, 'renew_report', host)


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
