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

Version 2 of the format has digests and heartbeats. Agents of version 1 send
reports only and are understood; services of version 1 refuse the messages of
version 2 and log the version.
"""

import collections.abc
import hashlib
import json
import types
import typing

import jsonschema
import oslo_messaging
from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import constants
from nova_diskplacer import json_schema
from nova_diskplacer.host import log_once

LOG = logging.getLogger(__name__)

VERSION = 2

_EXCHANGE = 'diskplacer'
_REPORTS = 'diskplacer_reports'
_AGENTS = 'diskplacer_agents'
_SCHEDULERS = 'diskplacer_schedulers'

# Time in seconds for which RabbitMQ keeps the fanout queue of a listener that
# is gone, and the messages in it.
_ORPHAN_SECONDS = 60

Report = dict[str, typing.Any]
Callback = collections.abc.Callable[[Report], None]

_TEXT = {'type': 'string'}
_HEARTBEAT = {
    'version': {'enum': [1, 2]},
    'host': _TEXT,
    'provider': _TEXT,
    'digest': _TEXT,
}
# The release of nova-diskplacer, and the digest of the sender's profiles.
_SOFTWARE = {'release': _TEXT, 'profiles': _TEXT}
# Agents of earlier releases send neither ``digest`` nor ``cache_mode``, the
# host cache mode of vdisks, null if it is not known, nor ``_SOFTWARE``.
_REPORT = {
    **_HEARTBEAT,
    'compute_node': _TEXT,
    'disks': {'type': 'array', 'items': {'type': 'object'}},
    'cache_mode': {'type': ['string', 'null']},
    **_SOFTWARE,
}
_REPORT_VALIDATOR = jsonschema.Draft202012Validator(
    {
        'type': 'object',
        'properties': _REPORT,
        'required': ['version', 'host', 'compute_node', 'provider', 'disks'],
    }
)
_SCHEDULER_VALIDATOR = jsonschema.Draft202012Validator(
    {
        'type': 'object',
        'properties': {'host': _TEXT, **_SOFTWARE},
        'required': ['host', *_SOFTWARE],
    }
)
_HEARTBEAT_VALIDATOR = jsonschema.Draft202012Validator(
    {'type': 'object', 'properties': _HEARTBEAT, 'required': list(_HEARTBEAT)}
)


class _Rule(typing.NamedTuple):
    """The rule for a value of a disk or a vdisk."""

    allowed: str
    accepts: collections.abc.Callable[[typing.Any], bool]
    required: bool = True


def _integer(maximum: int) -> _Rule:
    return _Rule(
        f'an integer from 0 to {maximum}',
        lambda value: type(value) is int and 0 <= value <= maximum,
    )


def _or_null(rule: _Rule) -> _Rule:
    return _Rule(
        f'{rule.allowed} or null',
        lambda value: value is None or rule.accepts(value),
    )


def _one_of(*values: str) -> _Rule:
    return _Rule(f'one of: {", ".join(values)}', lambda value: value in values)


# A JSON schema of disks was measured too: a report of 12 disks took 2.2 ms
# without vdisks and 5.0 ms with 48, these rules 0.06 and 0.13 ms. A scheduler
# worker checks the reports of all hosts when it starts.
_STRING = _Rule('a string', lambda value: isinstance(value, str))
_BOOLEAN = _Rule('true or false', lambda value: isinstance(value, bool))
_LIST = _Rule('a list', lambda value: isinstance(value, list))
_FIGURE = _integer(constants.MAX_FIGURE)
_DISK_RULES = {
    'uuid': _STRING,
    # empty if the disk was never seen
    'medium': _one_of(*constants.MEDIA, ''),
    'model': _STRING,
    'numa_node': _or_null(_FIGURE),
    'total_gb': _FIGURE,
    'reserved_gb': _FIGURE,
    'used_gb': _FIGURE,
    'total_mbps': _FIGURE,
    'used_mbps': _FIGURE,
    'health': _one_of(*constants.HEALTH),
    'vdisks': _LIST,
    # mean of some minutes in per cent; earlier releases do not send it
    'pressure': _integer(100)._replace(required=False),
    # no I/O for a while; earlier releases do not send it
    'idle': _BOOLEAN._replace(required=False),
    # may hold pieces of striped vdisks; earlier releases do not send it
    'can_stripe': _BOOLEAN._replace(required=False),
}
_VDISK_RULES = {
    # the id of the snapshot, if it is one
    'volume_id': _STRING,
    'server_id': _or_null(_STRING),
    'size_gb': _FIGURE,
    # earlier releases do not send it
    'is_snapshot': _BOOLEAN._replace(required=False),
    # where an elastic vdisk is being moved to, and why; not sent without a
    # move, nor by earlier releases
    'move': _STRING._replace(required=False),
}


def check(report: object) -> Report:
    """Return ``report`` if it is valid.

    :raises ValueError: it is not; the message has the key and allowed values.
    """
    checked = _validate(report, _REPORT_VALIDATOR, 'report')
    for number, disk in enumerate(checked['disks']):
        where = f'disks.{number}'
        _check(disk, _DISK_RULES, where)
        if disk['health'] == constants.OK and not disk['medium']:
            allowed = ', '.join(constants.MEDIA)
            raise ValueError(f'{where}.medium= is not one of: {allowed}')
        for index, vdisk in enumerate(disk['vdisks']):
            _check(vdisk, _VDISK_RULES, f'{where}.vdisks.{index}')
    uuids = [disk['uuid'] for disk in checked['disks']]
    if len(set(uuids)) < len(uuids):
        raise ValueError(f'report has a disk twice: {sorted(uuids)}')
    return checked


def check_heartbeat(heartbeat: object) -> Report:
    """Return ``heartbeat`` if it is valid; raises as ``check``."""
    return _validate(heartbeat, _HEARTBEAT_VALIDATOR, 'heartbeat')


def check_scheduler(message: object) -> Report:
    """Return what a scheduler tells, if it is valid; raises as ``check``."""
    return _validate(message, _SCHEDULER_VALIDATOR, 'scheduler')


def _validate(
    message: object, validator: typing.Any, kind: str
) -> dict[str, typing.Any]:
    problem = json_schema.problem(message, validator)
    if problem:
        raise ValueError(f'{kind}: {problem}')
    return typing.cast(dict[str, typing.Any], message)


def _check(
    values: object, rules: collections.abc.Mapping[str, _Rule], where: str
) -> None:
    if not isinstance(values, dict):
        raise ValueError(f'{where}={values!r} is not a dictionary')
    for key, rule in rules.items():
        if key not in values:
            if rule.required:
                raise ValueError(f'{where} has no {key!r}')
        elif not rule.accepts(values[key]):
            raise ValueError(
                f'{where}.{key}={values[key]!r} is not {rule.allowed}'
            )


def with_digest(report: Report) -> Report:
    """Return a report with the digest of its contents."""
    text = json.dumps(report, sort_keys=True).encode()
    return {**report, 'digest': hashlib.sha256(text).hexdigest()[:32]}


def heartbeat(report: Report) -> Report:
    """Return the heartbeat that confirms a report with a digest."""
    return {key: report[key] for key in _HEARTBEAT}


def is_heartbeat(message: object) -> bool:
    """Return whether a message is a heartbeat, not a report."""
    return isinstance(message, dict) and 'disks' not in message


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

    :param methods: the methods that clients call, by name.
    """

    def __init__(
        self,
        transport: oslo_messaging.Transport,
        topic: str,
        server_name: str,
        **methods: collections.abc.Callable[..., None],
    ) -> None:
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
        self._server.start()

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
            subject = is_heartbeat(report), str(host)
            try:
                if is_heartbeat(report):
                    heartbeat(check_heartbeat(report))
                else:
                    callback(check(report))
            except ValueError as error:
                malformed.log(subject, 'Ignored a malformed report: %s', error)
            else:
                malformed.clear(subject)

        name = server_name or listener_name()
        super().__init__(
            transport,
            _REPORTS,
            name,
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
                callback(check_scheduler(scheduler))
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


def send_report(transport: oslo_messaging.Transport, report: Report) -> None:
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
    transport: oslo_messaging.Transport, host: str, software: Report
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
