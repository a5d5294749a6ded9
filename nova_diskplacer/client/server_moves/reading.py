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

"""Reads the facts of servers that are to move from Nova and Cinder."""

import collections.abc
import dataclasses
import typing

from openstack import exceptions as sdk_exc

from nova_diskplacer import constants
from nova_diskplacer import flavor
from nova_diskplacer import terminal
from nova_diskplacer.client import cinder_volumes
from nova_diskplacer.client import cloud
from nova_diskplacer.client import facts as facts_
from nova_diskplacer.client import placement_disks
from nova_diskplacer.client.server_moves import facts
from nova_diskplacer.client.server_moves import room
from nova_diskplacer.disks.location import Location

# The first microversion of Cinder with attachments. To administrators alone,
# an attachment shows the connection.
_ATTACHMENTS = '3.27'

# Statuses of a volume that Cinder does not migrate.
_AT_REST = (None, 'deleting', 'error', 'none', 'success')

# Status of the volumes of a shelved server.
_RESERVED = 'reserved'

# Power state of a guest that runs.
_RUNNING = 1

# Connection type of a volume that QEMU opens as a file.
_FILE = 'gpfs'

Item = cloud.Item


class Reader:
    """Reads servers and volumes with all that their moves depend on.

    :param connection: with the rights of an administrator.
    :param profiles: of the flavors.
    :raises DiskPlacerError: Placement does not answer, or refuses.
    """

    def __init__(
        self, connection: cloud.Connection, profiles: flavor.Profiles
    ) -> None:
        self._connection = connection
        self._profiles = profiles
        chosen = placement_disks.choose(cloud.placement(connection))
        self._disks = {provider.uuid for provider in chosen.providers}
        self._room = room.Room(connection, chosen)

    def find_server(self, name_or_id: str) -> facts.Server:
        """Return a server of any project, by name or ID.

        :raises DiskPlacerError: there is none or several, or an API does not
            answer.
        """
        with cloud.convert_errors(f'server {name_or_id}'):
            server = self._connection.compute.find_server(
                name_or_id, ignore_missing=False, all_projects=True
            )
            server = self._connection.compute.get_server(server['id'])
        return self.with_volumes(server)

    def with_volumes(self, server: Item) -> facts.Server:
        """Return a server of Nova's with its volumes.

        :raises DiskPlacerError: an API does not answer.
        """
        storage = self._connection.block_storage
        with cloud.convert_errors(f'server {server["id"]}'):
            volumes = [
                volume
                for attached in server['attached_volumes'] or ()
                if (volume := self._volume(attached['id']))
            ]
            connections = self._connections(server['id']) if volumes else {}
            with_snapshots = {
                volume['id']
                for volume in volumes
                if any(
                    storage.snapshots(
                        details=False,
                        all_projects=True,
                        volume_id=volume['id'],
                    )
                )
            }
        return server_of(
            server,
            self._profiles,
            [
                volume_of(
                    volume,
                    server,
                    connections.get(volume['id'], {}),
                    volume['id'] in with_snapshots,
                )
                for volume in volumes
                if self._has_data(volume)
                or 'vdisk' in connections.get(volume['id'], {})
            ],
        )

    def without_volumes(self, server: Item) -> facts.Server:
        """Return a server of Nova's, and nothing of its volumes."""
        return server_of(server, self._profiles)

    def forget_room(self) -> None:
        """Have the room be read anew: servers have moved."""
        self._room.forget()

    def volumes_of(self, host: str) -> list[facts.Volume]:
        """Return the volumes that have data on a host.

        That of a volume that has moved may be there until it is deleted. The
        server of a volume that is attached to none may be a shelved one.

        :raises DiskPlacerError: Cinder does not answer.
        """
        with cloud.convert_errors(f'volumes of host {host}'):
            volumes = list(
                self._connection.block_storage.volumes(
                    details=True, all_projects=True
                )
            )
            moving = {
                volume['id'] for volume in cinder_volumes.exported(volumes)
            }
            here = [
                volume_of(volume)
                for volume in volumes
                if (
                    facts_.is_host(cinder_volumes.host_of(volume), host)
                    and (volume['id'] in moving or self._has_data(volume))
                )
                or (volume['id'] in moving and self._has_left(volume, host))
            ]
            return [
                dataclasses.replace(
                    volume, server_id=self._server_of(volume.id)
                )
                if volume.status == _RESERVED
                else volume
                for volume in here
            ]

    def hosts_with_room(self, server: facts.Server) -> list[str] | None:
        """Return the other hosts for a server, see ``room.Room.hosts``."""
        return self._room.hosts(server)

    def _volume(self, id_: str) -> Item | None:
        """Return a volume, None if it is deleted."""
        try:
            volume: Item = self._connection.block_storage.get_volume(id_)
        except sdk_exc.NotFoundException:
            return None
        return volume

    def _has_data(self, volume: Item) -> bool:
        return not self._disks.isdisjoint(cinder_volumes.location_of(volume))

    def _connections(self, server_id: str) -> dict[str, Item]:
        """Return the connections of a server's attachments, by volume."""
        return {
            attachment['volume_id']: attachment['connection_info'] or {}
            for attachment in self._attachments(instance_id=server_id)
        }

    def _has_left(self, volume: Item, host: str) -> bool:
        """Return whether a volume that is exported has come from a host."""
        return any(
            facts_.is_host(vdisk.get(constants.MOVING_FROM) or '', host)
            for attachment in self._attachments(volume_id=volume['id'])
            if (vdisk := (attachment['connection_info'] or {}).get('vdisk'))
        )

    def _server_of(self, volume_id: str) -> str | None:
        """Return the server that a volume is reserved for."""
        for attachment in self._attachments(volume_id=volume_id):
            return str(attachment['instance'])
        return None

    def _attachments(self, **filters: str) -> list[Item]:
        response = self._connection.block_storage.get(
            '/attachments/detail',
            params={**filters, 'all_tenants': '1'},
            microversion=_ATTACHMENTS,
        )
        sdk_exc.raise_from_response(response)
        attachments: list[Item] = response.json()['attachments']
        return attachments


def server_of(
    server: Item,
    profiles: flavor.Profiles,
    volumes: collections.abc.Iterable[facts.Volume] = (),
) -> facts.Server:
    """Return a server as Nova's API shows it, with its volumes."""
    request, error = None, ''
    try:
        request = flavor.parse(
            (server['flavor'] or {}).get('extra_specs') or {}, profiles
        )
    except ValueError as invalid:
        error = str(invalid)
    return facts.Server(
        server['id'],
        terminal.printable(server['name'] or ''),
        server['compute_host'] or '',
        server['status'] or '',
        server['vm_state'] or '',
        server['task_state'] or '',
        bool(server['is_locked']),
        terminal.printable(server['locked_reason'] or ''),
        server['power_state'] == _RUNNING,
        request,
        error,
        tuple(volumes),
    )


def volume_of(
    volume: Item,
    server: Item | None = None,
    connection: collections.abc.Mapping[str, typing.Any] | None = None,
    has_snapshots: bool = False,
) -> facts.Volume:
    """Return a volume as Cinder's API shows it to administrators.

    :param server: that it is attached to.
    :param connection: its connection there.
    """
    attached: Item = next(
        (
            attached
            for attached in volume['attachments'] or ()
            if server is None or attached['server_id'] == server['id']
        ),
        {},
    )
    root = server['root_device_name'] if server else None
    location = cinder_volumes.location_of(volume)
    host, section = cinder_volumes.backend_of(volume)
    return facts.Volume(
        volume['id'],
        volume['size'],
        host,
        section,
        location if cinder_volumes.is_location(location) else Location(),
        attached.get('server_id'),
        volume['status'] or '',
        volume['volume_type'],
        is_file=(connection or {}).get('driver_volume_type') == _FILE,
        is_bootable=bool(volume['is_bootable'])
        or (root is not None and attached.get('device') == root),
        is_encrypted=bool(volume['is_encrypted']),
        is_multiattach=bool(volume['is_multiattach']),
        is_migrating=volume['migration_status'] not in _AT_REST,
        in_group=bool(volume['group_id'] or volume['consistency_group_id']),
        has_snapshots=has_snapshots,
    )
