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
import contextlib
import queue
import time
from typing import Any

import oslo_messaging
from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer import reports
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import match_claims
from nova_diskplacer.cmd import shell
from nova_diskplacer.disks import discover
from nova_diskplacer.host import probes
from nova_diskplacer.placement import client as placement_client

# Seconds between two requests for reports.
_REQUEST_INTERVAL = 2.0

_COLUMNS = (
    'Server', 'Host', 'Volume', 'GiB', 'Claimed disk', 'Actual disk',
    'Pressure', 'Status',
)  # fmt: skip

#: GiB on each disk by server.
Claims = dict[str, dict[str, int]]


def register(subparsers: Any) -> None:
    """Add the ``map`` command to an argparse parser's subparsers."""
    parser = shell.add_command(
        subparsers,
        'map',
        _map,
        'list the disks of the vdisks of each server',
        'Shows the claimed and the actual disk of each vdisk. The '
        'exit status is 1 if any differ.',
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument('--server', metavar='ID', help='only this server')
    which.add_argument(
        '--host', metavar='HOST', help='only this compute node or host'
    )
    shell.add_format(parser)
    add_timeout(parser)


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Add the option for the time to wait for reports."""
    parser.add_argument(
        '--timeout',
        type=shell.number(float, 0.1, 3600),
        default=10.0,
        metavar='SECONDS',
        help='maximum time to wait for the agents (default: 10)',
    )


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
        raise exception.DiskPlacerError(
            f'--host {args.host}: no compute node of that name has disks in '
            'Placement, and no agent of a host of that name has reported any'
        )
    heard = {root: heard[root] for root in roots & heard.keys()}
    names = {
        root: heard[root]['host'] if root in heard else _name(client, root)
        for root in roots
    }
    shown = [disk for disk in disks if disk.root in roots]
    servers = assemble(
        _claims(client, shown, args.server),
        heard,
        {disk.uuid: names[disk.root] for disk in shown},
        args.server,
    )
    missing = sorted(names[root] for root in roots - heard.keys())
    found = {'servers': servers, 'missing_hosts': missing}
    found |= list_disks(heard.values())
    if args.format == 'json':
        shell.print_json(found)
    else:
        print(_table(found))
    return int(
        any(
            row.status == match_claims.MISMATCH
            for server in servers
            for row in server['vdisks']
        )
    )


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
            with contextlib.suppress(queue.Empty):
                while roots - heard.keys():
                    left = max(0.0, again - time.monotonic())
                    report = arrived.get(timeout=left)
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
    job = probes.Job(call)
    if not job.wait(seconds):
        raise exception.DiskPlacerError(
            'the message bus does not answer, see [DEFAULT] transport_url'
        )
    try:
        job.result()
    except Exception as error:
        # each driver of the transport raises errors of its own
        raise exception.DiskPlacerError(
            f'the message bus, see [DEFAULT] transport_url: {error}'
        ) from error


def assemble(
    claims: Claims,
    heard: dict[str, reports.Report],
    hosts: dict[str, str],
    only: str | None = None,
) -> list[dict[str, Any]]:
    """Match claims with vdisks for each server and host.

    :param hosts: the host of each disk.
    :param only: the UUID of the only server to return.
    :returns: ``server_id``, None for vdisks of no server, ``host`` and
        ``vdisks``, which are rows.
    """
    by_server: dict[tuple[str, str | None], dict[str, int]] = (
        collections.defaultdict(dict)
    )
    for uuid, consumers in claims.items():
        for server, gb in consumers.items():
            by_server[hosts.get(uuid, ''), server][uuid] = gb
    vdisks: dict[tuple[str, str | None], list[match_claims.VDisk]] = (
        collections.defaultdict(list)
    )
    for report in heard.values():
        for disk in report['disks']:
            for vdisk in disk['vdisks']:
                vdisks[report['host'], vdisk['server_id']].append(
                    {**vdisk, 'disk': disk['uuid']}
                )
    return [
        {
            'server_id': server,
            'host': host,
            'vdisks': match_claims.match(
                by_server[host, server], vdisks[host, server]
            ),
        }
        for host, server in sorted(
            by_server.keys() | vdisks.keys(),
            key=lambda key: (key[0], key[1] or ''),
        )
        if only in (None, server)
    ]


def list_disks(
    heard: collections.abc.Iterable[reports.Report],
) -> dict[str, list[dict[str, Any]]]:
    """Return the pressure on all disks of reports, and those not ``ok``."""
    found = [
        ({'disk': disk['uuid'], 'host': report['host']}, disk)
        for report in sorted(heard, key=lambda report: str(report['host']))
        for disk in report['disks']
    ]
    return {
        'unhealthy_disks': [
            {**place, 'health': disk['health']}
            for place, disk in found
            if disk['health'] != discover.OK
        ],
        'disks': [
            {**place, 'pressure': disk.get('pressure')}
            for place, disk in found
        ],
    }


def _table(found: dict[str, Any]) -> str:
    pressure = {
        disk['disk']: f'{disk["pressure"]} %'
        for disk in found['disks']
        if disk['pressure'] is not None
    }
    rows = [
        (
            server['server_id'] or '-',
            server['host'],
            row.volume_id
            or (f'snapshot {row.snapshot_id}' if row.snapshot_id else '-'),
            row.size_gb,
            row.claimed_disk or '-',
            row.actual_disk or '-',
            pressure.get(row.actual_disk or row.claimed_disk, '-'),
            row.status,
        )
        for server in found['servers']
        for row in server['vdisks']
    ]
    lines = [shell.make_table(_COLUMNS, rows).get_string()]
    lines += [
        f'Disk {disk["disk"]} of {disk["host"]} is {disk["health"]}.'
        for disk in found['unhealthy_disks']
    ]
    if found['missing_hosts']:
        lines.append(
            'No report from the agents of: '
            + ', '.join(found['missing_hosts'])
            + '. Their vdisks are not shown, their claims look pending.'
        )
    return '\n'.join(lines)
