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
import collections.abc
import contextlib
import dataclasses
import queue
import sys
import time
from typing import Any

import openstack.connection
import oslo_messaging
from oslo_config import cfg

from nova_diskplacer import arguments
from nova_diskplacer import exception
from nova_diskplacer import report_format
from nova_diskplacer import reports
from nova_diskplacer.client import cinder_volumes
from nova_diskplacer.client import cloud
from nova_diskplacer.client import facts as facts_
from nova_diskplacer.client import map_facts
from nova_diskplacer.client import placement_disks
from nova_diskplacer.client import vdisk_map
from nova_diskplacer.client import views
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import shell
from nova_diskplacer.disks import discover
from nova_diskplacer.host import probes
from nova_diskplacer.placement import client as placement_client

# Seconds between two requests for reports.
_REQUEST_INTERVAL = 2.0


def register(subparsers: Any) -> None:
    """Add the ``map`` command to an argparse parser's subparsers."""
    parser = shell.add_command(
        subparsers,
        'map',
        _map,
        'list the disks of the vdisks of each server',
        'Shows the vdisks of each server and the disks that they are on. The '
        'exit status is 3 if space is claimed for long without vdisks.',
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        '--server', metavar='ID', help='only this server, by name or ID'
    )
    which.add_argument(
        '--host', metavar='HOST', help='only this compute node or host'
    )
    parser.add_argument(
        '--long',
        action='store_true',
        help='show a row for each vdisk, with all UUIDs',
    )
    shell.add_format(parser)
    views.add_options(parser)
    parser.add_argument(
        '--timeout',
        type=arguments.number(float, 0.1, 3600),
        default=10.0,
        metavar='SECONDS',
        help='maximum time to wait for the agents (default: 10)',
    )


def _map(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    client = placement_client.PlacementClient.from_conf(conf, patient=False)
    providers = client.disks()
    roots = {disk.root for disk in providers}
    node = client.provider_by_name(args.host) if args.host else None
    if node is not None:
        roots &= {node.uuid}
    reported = collect_reports(common.transport(), roots, args.timeout)
    if args.host and node is None:
        # no compute node has this name, so it may be a host's
        reported = {
            root: report
            for root, report in reported.items()
            if report['host'] == args.host
        }
        roots = set(reported)
    if args.host and not roots:
        raise exception.DiskPlacerError(
            f'--host {args.host}: no compute node of that name has disks in '
            'Placement, and no agent of a host of that name has reported any'
        )
    reported = {root: reported[root] for root in roots & reported.keys()}
    names = placement_disks.names_of(client, roots - reported.keys())
    names |= {root: report['host'] for root, report in reported.items()}
    disks, claims = placement_disks.read(
        client,
        placement_disks.Chosen(
            [disk for disk in providers if disk.root in roots], names
        ),
    )
    servers, devices = _read_names(client)
    facts = with_reports(
        disks,
        claims,
        reported,
        servers,
        devices,
        tuple(sorted(names[root] for root in roots - reported.keys())),
    )
    rows, findings = views.make_map(facts, args)
    if args.format == 'json':
        shell.print_json(
            {
                'servers': by_server(rows),
                'missing_hosts': facts.missing_hosts,
                **list_disks(reported.values()),
                'moves': moves(facts),
                'findings': findings,
            }
        )
    else:
        print(_table(facts, rows, findings, args.long))
    return views.status_of(findings)


def _read_names(
    client: placement_client.PlacementClient,
) -> tuple[dict[str, facts_.Server], dict[str, str]]:
    """Return the servers by ID, and the devices of volumes by ID.

    The credentials are those for Placement. Without the rights of an
    administrator in Nova and Cinder, the map shows IDs.
    """
    connection = openstack.connection.Connection(
        session=client.session,
        region_name=client.region,
        compute_api_version='2',
        block_storage_api_version='3',
    )
    try:
        with cloud.convert_errors('the map shows IDs instead of names'):
            servers = map_facts.servers_of(map_facts.read_servers(connection))
            volumes = connection.block_storage.volumes(
                details=True, all_projects=True
            )
            return servers, cinder_volumes.devices_of(volumes)
    except exception.DiskPlacerError as error:
        print(f'diskplacer-manage: {error}', file=sys.stderr)
        return {}, {}


def collect_reports(
    transport: oslo_messaging.Transport, roots: set[str], timeout: float
) -> dict[str, report_format.Report]:
    """Request reports of all agents; return them by root provider.

    :param roots: providers of the compute nodes to wait for.
    :param timeout: maximum time to wait in seconds.
    :raises DiskPlacerError: the message bus does not answer, or fails.
    """
    arrived: queue.Queue[report_format.Report] = queue.Queue()
    reported: dict[str, report_format.Report] = {}
    listener = reports.ReportListener(transport, arrived.put)
    end = time.monotonic() + timeout
    call_with_timeout(timeout, listener.start)
    try:
        while roots - reported.keys() and (left := end - time.monotonic()) > 0:
            call_with_timeout(left, lambda: reports.request_reports(transport))
            again = min(end, time.monotonic() + _REQUEST_INTERVAL)
            with contextlib.suppress(queue.Empty):
                while roots - reported.keys():
                    left = max(0.0, again - time.monotonic())
                    report = arrived.get(timeout=left)
                    reported[report['provider']] = report
    finally:
        listener.stop()
    return reported


def call_with_timeout(
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


def with_reports(
    disks: collections.abc.Mapping[str, facts_.Disk],
    claims: facts_.Claims,
    reported: collections.abc.Mapping[str, report_format.Report],
    servers: collections.abc.Mapping[str, facts_.Server] | None = None,
    devices: collections.abc.Mapping[str, str] | None = None,
    missing: tuple[str, ...] = (),
) -> facts_.Facts:
    """Return the facts of Placement with those of agents' reports.

    :param devices: of attached volumes, by volume.
    :param missing: the hosts that have not reported.
    """
    all_disks = dict(disks)
    vdisks = []
    unseen = set()
    for report in reported.values():
        for disk in report['disks']:
            uuid = disk['uuid']
            in_placement = all_disks.get(uuid) or facts_.Disk(
                uuid, report['host']
            )
            all_disks[uuid] = dataclasses.replace(
                in_placement,
                host=report['host'],
                medium=disk.get('medium') or in_placement.medium,
                health=disk['health'],
                pressure=disk.get('pressure'),
                idle=disk.get('idle'),
            )
            if disk['health'] in discover.UNAVAILABLE:
                unseen.add(uuid)
            vdisks += [
                facts_.VDisk(
                    vdisk['volume_id'],
                    uuid,
                    vdisk['size_gb'],
                    vdisk['server_id'],
                    vdisk.get('is_snapshot', False),
                    (devices or {}).get(vdisk['volume_id'], ''),
                    vdisk.get('move', ''),
                )
                for vdisk in disk['vdisks']
            ]
    return facts_.Facts(
        all_disks, claims, vdisks, servers or {}, missing, frozenset(unseen)
    )


def by_server(
    rows: collections.abc.Iterable[vdisk_map.Entry],
) -> list[dict[str, Any]]:
    """Return the rows of each server and host.

    :returns: ``server_id``, None for vdisks of no server, ``name``, ``host``
        and ``vdisks``, which are rows.
    """
    servers: dict[tuple[str, str | None], dict[str, Any]] = {}
    for entry in rows:
        server = servers.setdefault(
            (entry.host, entry.server_id),
            {
                'server_id': entry.server_id,
                'name': entry.server,
                'host': entry.host,
                'vdisks': [],
            },
        )
        server['vdisks'].append(entry.row)
    return list(servers.values())


def list_disks(
    reported: collections.abc.Iterable[report_format.Report],
) -> dict[str, list[dict[str, Any]]]:
    """Return the pressure of all disks of reports, and those not ``ok``."""
    disks = [
        ({'disk': disk['uuid'], 'host': report['host']}, disk)
        for report in sorted(reported, key=lambda report: str(report['host']))
        for disk in report['disks']
    ]
    return {
        'unhealthy_disks': [
            {**place, 'health': disk['health']}
            for place, disk in disks
            if disk['health'] != discover.OK
        ],
        'disks': [
            {
                **place,
                'pressure': disk.get('pressure'),
                'idle': disk.get('idle'),
            }
            for place, disk in disks
        ],
    }


def moves(facts: facts_.Facts) -> dict[str, str]:
    """Return the moves of elastic volumes, by their IDs."""
    return {vdisk.id: vdisk.move for vdisk in facts.vdisks if vdisk.move}


def _table(
    facts: facts_.Facts,
    rows: list[vdisk_map.Entry],
    findings: list[vdisk_map.Finding],
    long: bool = False,
) -> str:
    lines = [shell.make_table(*views.table(facts, rows, long)).get_string()]
    lines += views.finding_lines(
        finding for finding in findings if finding.kind != 'silent'
    )
    idle = [
        f'{facts_.short_host(disk.host)} {disk.uuid}'
        for disk in facts_.ordered(facts.disks.values())
        if disk.idle
    ]
    if idle:
        lines.append(f'Idle disks: {", ".join(idle)}.')
    lines += [
        f'Volume {volume} is being moved {move}.'
        for volume, move in sorted(moves(facts).items())
    ]
    if facts.missing_hosts:
        lines.append(
            'No report from the agents of: '
            + ', '.join(facts.missing_hosts)
            + '. Their vdisks are not shown, their claims look pending.'
        )
    return '\n'.join(lines)
