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

"""diskplacer-manage map: claimed and actual disks of servers' vdisks.

Claims come from Placement, vdisks from reports that the command requests from
the agents.
"""

import argparse
import collections
import collections.abc
import dataclasses
import json
import queue
import sys
import threading
import time
import typing

import oslo_messaging
import prettytable
from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer import reports
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import match_claims
from nova_diskplacer.disks import discover
from nova_diskplacer.placement import client as placement_client

# Seconds between two requests for reports.
_REQUEST_INTERVAL = 2.0

# Maximum of --timeout in seconds.
_MAX_TIMEOUT = 3600

_COLUMNS = [
    'Server',
    'Host',
    'Volume',
    'GiB',
    'Claimed disk',
    'Actual disk',
    'Pressure',
    'Status',
]

#: GiB on each disk by server.
Claims = dict[str, dict[str, int]]


@dataclasses.dataclass(frozen=True)
class ServerMap:
    """The rows of a server; ``server_id`` is None for vdisks of no server."""

    server_id: str | None
    host: str
    rows: list[match_claims.Row]


@dataclasses.dataclass(frozen=True)
class Map:
    """The vdisks of servers, and the disks that agents report.

    Each of ``unhealthy_disks`` has ``disk``, ``host`` and ``health``; each of
    ``disks`` has ``disk``, ``host`` and ``pressure`` in per cent, None if it
    is not known. ``missing_hosts`` are the hosts without a report.
    """

    servers: list[ServerMap]
    unhealthy_disks: list[dict[str, str]]
    missing_hosts: list[str]
    disks: list[dict[str, typing.Any]]

    @property
    def disagrees(self) -> bool:
        """Return whether a vdisk is not on the disk claimed for it."""
        return any(
            row.status == match_claims.MISMATCH
            for server in self.servers
            for row in server.rows
        )


def register(subparsers: typing.Any) -> None:
    """Add the ``map`` command to an argparse parser's subparsers."""
    parser = subparsers.add_parser(
        'map',
        help='list the disks of the vdisks of each server',
        description='Shows the claimed and the actual disk of each vdisk. The '
        'exit status is 1 if any differ.',
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument('--server', metavar='ID', help='only this server')
    which.add_argument(
        '--host', metavar='HOST', help='only this compute node or host'
    )
    parser.add_argument('--format', choices=('table', 'json'), default='table')
    add_timeout(parser)
    parser.set_defaults(handler=_map)


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Add the option for the time to wait for reports."""
    parser.add_argument(
        '--timeout',
        type=_seconds,
        default=10.0,
        metavar='SECONDS',
        help='maximum time to wait for the agents (default: 10)',
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _MAX_TIMEOUT:
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a number of seconds above 0 and up to '
            f'{_MAX_TIMEOUT}'
        )
    return seconds


def _map(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    client = placement_client.PlacementClient.from_conf(conf)
    disks = client.disks()
    roots = {disk.root for disk in disks}
    node = client.provider_by_name(args.host) if args.host else None
    if node is not None:
        roots &= {node.uuid}
    heard = collect_reports(common.transport(), roots, args.timeout)
    if args.host and node is None:
        # no compute node has this name, so it may be a host's
        heard = {
            root: report
            for root, report in heard.items()
            if report['host'] == args.host
        }
        roots = set(heard)
    if args.host and not roots:
        print(
            f'diskplacer-manage: --host {args.host}: no compute node of that '
            'name has disks in Placement, and no agent of a host of that '
            'name has reported any',
            file=sys.stderr,
        )
        return 2
    names = {
        root: heard[root]['host'] if root in heard else _name(client, root)
        for root in roots
    }
    shown = [disk for disk in disks if disk.root in roots]
    result = Map(
        assemble(
            _claims(client, shown, args.server),
            {root: heard[root] for root in roots & heard.keys()},
            {disk.uuid: names[disk.root] for disk in shown},
            args.server,
        ),
        unhealthy(heard[root] for root in roots & heard.keys()),
        sorted(names[root] for root in roots - heard.keys()),
        reported(heard[root] for root in roots & heard.keys()),
    )
    show = _json if args.format == 'json' else _table
    print(show(result))
    return int(result.disagrees)


def _name(client: placement_client.PlacementClient, root: str) -> str:
    provider = client.provider(root)
    return provider.name if provider else root


def _claims(
    client: placement_client.PlacementClient,
    disks: list[placement_client.Provider],
    server: str | None,
) -> Claims:
    if server:
        allocations = client.allocations(server).resources
        return {
            disk.uuid: {server: allocations[disk.uuid][placement_client.GB]}
            for disk in disks
            if placement_client.GB in allocations.get(disk.uuid, {})
        }
    return {
        disk.uuid: {
            consumer: resources[placement_client.GB]
            for consumer, resources in client.provider_allocations(
                disk.uuid
            ).items()
            if placement_client.GB in resources
        }
        for disk in disks
    }


def collect_reports(
    transport: oslo_messaging.Transport, roots: set[str], timeout: float
) -> dict[str, reports.Report]:
    """Request reports of all agents; return them by root provider.

    :param roots: providers of the compute nodes to wait for.
    :param timeout: maximum time to wait in seconds.
    :raises DiskPlacerError: the message bus does not answer, or fails.
    """
    arrived: queue.Queue[reports.Report] = queue.Queue()
    heard: dict[str, reports.Report] = {}
    listener = reports.ReportListener(transport, arrived.put)
    end = time.monotonic() + timeout
    _call_with_timeout(timeout, listener.start)
    try:
        while roots - heard.keys() and (left := end - time.monotonic()) > 0:
            _call_with_timeout(
                left, lambda: reports.request_reports(transport)
            )
            again = min(end, time.monotonic() + _REQUEST_INTERVAL)
            while roots - heard.keys():
                left = again - time.monotonic()
                if left <= 0:
                    break
                try:
                    report = arrived.get(timeout=left)
                except queue.Empty:
                    break
                heard[report['provider']] = report
    finally:
        listener.stop()
    return heard


def _call_with_timeout(
    seconds: float, call: collections.abc.Callable[[], object]
) -> None:
    """Call a function that blocks while the message bus is away.

    :raises DiskPlacerError: the message bus does not answer, or fails.
    """
    done: queue.Queue[Exception | None] = queue.Queue()

    def run() -> None:
        try:
            call()
        except Exception as error:
            # each driver of the transport raises errors of its own
            done.put(error)
        else:
            done.put(None)

    threading.Thread(target=run, daemon=True).start()
    try:
        error = done.get(timeout=seconds)
    except queue.Empty:
        raise exception.DiskPlacerError(
            'the message bus does not answer, see [DEFAULT] transport_url'
        ) from None
    if error is not None:
        raise exception.DiskPlacerError(
            f'the message bus, see [DEFAULT] transport_url: {error}'
        ) from error


def assemble(
    claims: Claims,
    heard: dict[str, reports.Report],
    hosts: dict[str, str],
    only: str | None = None,
) -> list[ServerMap]:
    """Match claims with vdisks for each server and host.

    :param claims: GiB on each disk by server.
    :param heard: the agents' reports.
    :param hosts: the host of each disk.
    :param only: the UUID of the only server to return.
    """
    by_server: dict[tuple[str, str | None], dict[str, int]] = (
        collections.defaultdict(dict)
    )
    for disk, consumers in claims.items():
        for server, gb in consumers.items():
            by_server[hosts.get(disk, ''), server][disk] = gb
    vdisks: dict[tuple[str, str | None], list[match_claims.Actual]] = (
        collections.defaultdict(list)
    )
    for report in heard.values():
        for disk in report['disks']:
            for vdisk in disk['vdisks']:
                server = vdisk['server_id']
                vdisks[report['host'], server].append(
                    match_claims.Actual(
                        vdisk['volume_id'],
                        server,
                        disk['uuid'],
                        vdisk['size_gb'],
                        vdisk.get('is_snapshot', False),
                    )
                )
    keys = sorted(
        by_server.keys() | vdisks.keys(), key=lambda k: (k[0], k[1] or '')
    )
    return [
        ServerMap(
            server, host, match_claims.match(by_server[key], vdisks[key])
        )
        for key in keys
        for host, server in [key]
        if only in (None, server)
    ]


def unhealthy(
    heard: collections.abc.Iterable[reports.Report],
) -> list[dict[str, str]]:
    """Return the disks of reports that are not ``ok``."""
    return [
        {
            'disk': disk['uuid'],
            'host': report['host'],
            'health': disk['health'],
        }
        for report in sorted(heard, key=lambda report: str(report['host']))
        for disk in report['disks']
        if disk['health'] != discover.OK
    ]


def reported(
    heard: collections.abc.Iterable[reports.Report],
) -> list[dict[str, typing.Any]]:
    """Return all disks of reports, with the pressure on them."""
    return [
        {
            'disk': disk['uuid'],
            'host': report['host'],
            'pressure': disk.get('pressure'),
        }
        for report in sorted(heard, key=lambda report: str(report['host']))
        for disk in report['disks']
    ]


def _json(result: Map) -> str:
    return json.dumps(
        {
            'servers': [
                {
                    'server_id': server.server_id,
                    'host': server.host,
                    'vdisks': [dataclasses.asdict(row) for row in server.rows],
                }
                for server in result.servers
            ],
            'unhealthy_disks': result.unhealthy_disks,
            'missing_hosts': result.missing_hosts,
            'disks': result.disks,
        },
        indent=2,
    )


def _content(row: match_claims.Row) -> str:
    if row.snapshot_id:
        return f'snapshot {row.snapshot_id}'
    return row.volume_id or '-'


def _table(result: Map) -> str:
    table = prettytable.PrettyTable(_COLUMNS, align='l')
    pressure = {
        disk['disk']: f'{disk["pressure"]} %'
        for disk in result.disks
        if disk['pressure'] is not None
    }
    for server in result.servers:
        for row in server.rows:
            table.add_row(
                [
                    server.server_id or '-',
                    server.host,
                    _content(row),
                    row.size_gb,
                    row.claimed_disk or '-',
                    row.actual_disk or '-',
                    pressure.get(row.actual_disk or row.claimed_disk, '-'),
                    row.status,
                ]
            )
    lines = [table.get_string()]
    lines += [
        f'Disk {disk["disk"]} of {disk["host"]} is {disk["health"]}.'
        for disk in result.unhealthy_disks
    ]
    if result.missing_hosts:
        lines.append(
            'No report from the agents of: '
            + ', '.join(result.missing_hosts)
            + '. Their vdisks are not shown, their claims look pending.'
        )
    return '\n'.join(lines)
