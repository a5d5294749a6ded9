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

"""Reads the facts of the map from Placement, Cinder and Nova's REST APIs.

What no API tells: the pressure on a disk, whether an agent is alive, vdisks
that are no volumes of Cinder (leftovers, snapshots), and for which server a
vdisk was bound that is attached to none.
"""

import collections.abc
import datetime

from nova_diskplacer import terminal
from nova_diskplacer.client import cinder_volumes
from nova_diskplacer.client import cloud
from nova_diskplacer.client import facts
from nova_diskplacer.client import placement_disks

# Nova names a volume that it creates for a server so.
_BLANK = '-blank-vol'


def read(
    connection: cloud.Connection,
    host: str | None = None,
    disk: str | None = None,
) -> facts.Facts:
    """Return the facts of all disks, of those of a host, or of one.

    :param connection: an ``openstack.connection.Connection`` with the rights
        of an administrator.
    :param host: name of a compute node, with or without its domain.
    :param disk: start of a disk's UUID.
    :raises DiskPlacerError: an API does not answer or refuses, or there is no
        such disk.
    """
    client = cloud.placement(connection)
    disks, claims = placement_disks.read(
        client, placement_disks.choose(client, host, disk)
    )
    with cloud.convert_errors('Nova and Cinder'):
        servers = read_servers(connection)
        volumes = list(
            connection.block_storage.volumes(details=True, all_projects=True)
        )
    moving = moving_of(volumes, disks.values(), servers)
    return facts.Facts(
        disks,
        claims,
        vdisks_of(volumes, disks, servers),
        servers_of(servers),
        moving=moving,
        down_hosts=_down_hosts(connection) if moving else frozenset(),
    )


def vdisks_of(
    volumes: collections.abc.Iterable[cloud.Item],
    disks: collections.abc.Container[str],
    servers: collections.abc.Mapping[str, cloud.Item],
) -> list[facts.VDisk]:
    """Return the volumes that are on disks.

    A striped volume has equal parts on its disks.

    A volume counts for the server that it is attached to, or else for that
    which Nova created it for, if it is of the same project.

    :param volumes: as Cinder's API shows them to administrators.
    """
    vdisks = []
    for volume in volumes:
        location = cinder_volumes.location_of(volume)
        pieces_gb = {
            disk: size_gb
            for disk, size_gb in location.pieces_gb(volume['size']).items()
            if disk in disks
        }
        if not pieces_gb:
            continue
        attached: cloud.Item = next(iter(volume['attachments'] or ()), {})
        server = attached.get('server_id')
        name = volume['name'] or ''
        created_for = servers.get(name.removesuffix(_BLANK))
        if (
            not server
            and created_for
            and name.endswith(_BLANK)
            and created_for['project_id'] == volume['project_id']
        ):
            server = created_for['id']
        vdisks += [
            facts.VDisk(
                volume['id'],
                disk,
                size_gb,
                server,
                device=cinder_volumes.short_device(attached.get('device')),
            )
            for disk, size_gb in pieces_gb.items()
        ]
    return vdisks


def moving_of(
    volumes: collections.abc.Iterable[cloud.Item],
    disks: collections.abc.Iterable[facts.Disk],
    servers: collections.abc.Mapping[str, cloud.Item],
) -> list[facts.MovingVDisk]:
    """Return the vdisks that follow their servers to other hosts.

    :param disks: of the hosts that are asked for.
    :param servers: all servers.
    """
    hosts = {disk.host for disk in disks}
    moving = []
    for volume in cinder_volumes.exported(volumes):
        attached: cloud.Item = next(iter(volume['attachments'] or ()), {})
        server = servers.get(attached.get('server_id') or '')
        there = server['compute_host'] if server else None
        if server is None or not there:
            continue
        source = cinder_volumes.host_of(volume)
        # as a disk has it
        node = server['hypervisor_hostname'] or there
        moving += [
            facts.MovingVDisk(
                volume['id'],
                volume['size'],
                server['id'],
                host,
                source if source != there else '',
                cinder_volumes.short_device(attached.get('device')),
            )
            for host in hosts
            if facts.is_host(host, node)
        ]
    return moving


def read_servers(connection: cloud.Connection) -> dict[str, cloud.Item]:
    """Return all servers by ID, as Nova's API shows them."""
    return {
        server['id']: server
        for server in connection.compute.servers(
            details=True, all_projects=True
        )
    }


def servers_of(
    servers: collections.abc.Mapping[str, cloud.Item],
) -> dict[str, facts.Server]:
    """Return the servers of ``read_servers``."""
    return {id_: _server(server) for id_, server in servers.items()}


def _server(server: cloud.Item) -> facts.Server:
    changed = server['updated_at']
    return facts.Server(
        server['id'],
        terminal.printable(server['name'] or ''),
        server['status'] or '',
        datetime.datetime.fromisoformat(changed) if changed else None,
    )


def _down_hosts(connection: cloud.Connection) -> frozenset[str]:
    return frozenset(
        service['host']
        for service in cloud.read_compute_services(connection)
        if service['state'] != 'up'
    )
