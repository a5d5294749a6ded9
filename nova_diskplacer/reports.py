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
workers and ``diskplacer-manage map``. Whoever needs them at once casts a
request to all agents. Nothing is lost for good: agents report at an interval.
"""

import collections.abc
import typing

import oslo_messaging
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

VERSION = 1

#: What the health of a disk can be; only ``ok`` disks are offered. A
#: ``foreign`` disk's provider belongs to another host and has allocations.
HEALTH = ('ok', 'missing', 'hung', 'read-only', 'foreign')

_EXCHANGE = 'diskplacer'
_REPORTS = 'diskplacer_reports'
_AGENTS = 'diskplacer_agents'

Report = dict[str, typing.Any]
Callback = collections.abc.Callable[[Report], None]

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
_LATER_KEYS = {'cache_mode': (str, type(None))}
# ``pressure`` is what a disk is under for minutes, in per cent.
_LATER_DISK_KEYS = {'pressure': int}


def check(report: object) -> Report:
    """Return ``report`` if it is one that this version understands.

    :raises ValueError: it is not; names the key and what it should be.
    """
    checked = _check(report, _REPORT_KEYS, 'report')
    _check_later(checked, _LATER_KEYS, 'report')
    if checked['version'] != VERSION:
        raise ValueError(
            f'report version {checked["version"]} is not {VERSION}'
        )
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
    :param server_name: distinguishes this listener from all others.
    """

    def __init__(
        self,
        transport: oslo_messaging.Transport,
        callback: Callback,
        server_name: str,
    ) -> None:
        super().__init__(
            transport, _REPORTS, server_name, _ReportEndpoint(callback)
        )


class _ReportEndpoint:
    def __init__(self, callback: Callback) -> None:
        self._callback = callback

    def report(self, context: object, report: object) -> None:
        try:
            checked = check(report)
        except ValueError as error:
            LOG.warning('Ignored a malformed report: %s', error)
            return
        self._callback(checked)


class RequestListener(_Server):
    """Hears requests to report, for an agent.

    :param callback: is called for each request.
    """

    def __init__(
        self,
        transport: oslo_messaging.Transport,
        callback: collections.abc.Callable[[], None],
        server_name: str,
    ) -> None:
        super().__init__(
            transport, _AGENTS, server_name, _RequestEndpoint(callback)
        )


class _RequestEndpoint:
    def __init__(self, callback: collections.abc.Callable[[], None]) -> None:
        self._callback = callback

    def send_report(self, context: object) -> None:
        self._callback()


def send_report(transport: oslo_messaging.Transport, report: Report) -> None:
    """Cast a report to everybody who listens.

    :raises oslo_messaging.MessagingException: it could not be sent.
    """
    _cast(transport, _REPORTS, 'report', report=report)


def request_reports(transport: oslo_messaging.Transport) -> None:
    """Call on all agents to report now.

    :raises oslo_messaging.MessagingException: it could not be sent.
    """
    _cast(transport, _AGENTS, 'send_report')


def _cast(
    transport: oslo_messaging.Transport,
    topic: str,
    method: str,
    **arguments: object,
) -> None:
    target = oslo_messaging.Target(
        exchange=_EXCHANGE, topic=topic, fanout=True
    )
    client = oslo_messaging.get_rpc_client(transport, target)
    client.cast({}, method, **arguments)
