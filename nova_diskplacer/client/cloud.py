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

Also reads flavors, and writes the extra specs of profiles to them.

What no API tells: the pressure on a disk, whether an agent is alive, vdisks
that are no volumes of Cinder (leftovers, snapshots), and for which server a
vdisk was bound that is attached to none.
"""

import collections
import collections.abc
import contextlib
import dataclasses
import datetime
import typing

from keystoneauth1 import exceptions as ks_exc
from openstack import exceptions as sdk_exc
from openstack import resource
from openstack.compute.v2 import flavor as sdk_flavor
from oslo_utils import uuidutils

from nova_diskplacer import exception
from nova_diskplacer import terminal
from nova_diskplacer.client import facts
from nova_diskplacer.client import flavors
from nova_diskplacer.client import placement_disks
from nova_diskplacer.disks.location import Location
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.profiles import advice
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions

# Nova names a volume that it creates for a server so.
_BLANK = '-blank-vol'

# The first microversion that validates extra specs.
_VALIDATES = '2.86'

Connection = typing.Any
Item = collections.abc.Mapping[str, typing.Any]


def read(
    connection: Connection, host: str | None = None, disk: str | None = None
) -> facts.Facts:
    """Return the facts of all disks, of those of a host, or of one.

    :param connection: an ``openstack.connection.Connection`` with the rights
        of an administrator.
    :param host: name of a compute node, with or without its domain.
    :param disk: start of a disk's UUID.
    :raises DiskPlacerError: an API does not answer or refuses, or there is no
        such disk.
    """
    client = placement(connection)
    disks, claims = placement_disks.read(
        client, placement_disks.choose(client, host, disk)
    )
    with convert_errors('Nova and Cinder'):
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


def read_servers(connection: Connection) -> dict[str, Item]:
    """Return all servers by ID, as Nova's API shows them."""
    return {
        server['id']: server
        for server in connection.compute.servers(
            details=True, all_projects=True
        )
    }


def vdisks_of(
    volumes: collections.abc.Iterable[Item],
    disks: collections.abc.Container[str],
    servers: collections.abc.Mapping[str, Item],
) -> list[facts.VDisk]:
    """Return the volumes that are on disks.

    A striped volume has equal parts on its disks.

    A volume counts for the server that it is attached to, or else for that
    which Nova created it for, if it is of the same project.

    :param volumes: as Cinder's API shows them to administrators.
    """
    vdisks = []
    for volume in volumes:
        location = location_of(volume)
        pieces_gb = {
            disk: size_gb
            for disk, size_gb in location.pieces_gb(volume['size']).items()
            if disk in disks
        }
        if not pieces_gb:
            continue
        attached: Item = next(iter(volume['attachments'] or ()), {})
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
                device=short_device(attached.get('device')),
            )
            for disk, size_gb in pieces_gb.items()
        ]
    return vdisks


def moving_of(
    volumes: collections.abc.Iterable[Item],
    disks: collections.abc.Iterable[facts.Disk],
    servers: collections.abc.Mapping[str, Item],
) -> list[facts.MovingVDisk]:
    """Return the vdisks that follow their servers to other hosts.

    :param disks: of the hosts that are asked for.
    :param servers: all servers.
    """
    hosts = {disk.host for disk in disks}
    moving = []
    for volume in exported(volumes):
        attached: Item = next(iter(volume['attachments'] or ()), {})
        server = servers.get(attached.get('server_id') or '')
        there = server['compute_host'] if server else None
        if server is None or not there:
            continue
        source = host_of(volume)
        # as a disk has it
        node = server['hypervisor_hostname'] or there
        moving += [
            facts.MovingVDisk(
                volume['id'],
                volume['size'],
                server['id'],
                host,
                source if source != there else '',
                short_device(attached.get('device')),
            )
            for host in hosts
            if facts.is_host(host, node)
        ]
    return moving


def _down_hosts(connection: Connection) -> frozenset[str]:
    return frozenset(
        service['host']
        for service in read_compute_services(connection)
        if service['state'] != 'up'
    )


def location_of(volume: Item) -> Location:
    """Return the location of a volume, empty for one that is not bound."""
    return Location.parse(volume['provider_id'])


def is_location(location: Location) -> bool:
    """Return whether a location is that of a vdisk.

    While a volume is exported, Cinder shows the export in its place.
    """
    return bool(location) and all(map(uuidutils.is_uuid_like, location))


def host_of(volume: Item) -> str:
    """Return the host of a volume's backend, empty if it has none."""
    return backend_of(volume)[0]


def exported(volumes: collections.abc.Iterable[Item]) -> list[Item]:
    """Return the vdisks among volumes that are exported to another host.

    The export is in the place of the location. Other drivers may keep such
    values, too, so a volume is a vdisk only if a backend of the same name has
    one.
    """
    volumes = list(volumes)
    sections = {
        backend_of(volume)[1]
        for volume in volumes
        if is_location(location_of(volume))
    }
    return [
        volume
        for volume in volumes
        if volume['provider_id']
        and not is_location(location_of(volume))
        and backend_of(volume)[1] in sections
    ]


def backend_of(item: Item) -> tuple[str, str]:
    """Return the host and section of the backend of a volume or service."""
    host, _, backend = (item['host'] or '').partition('@')
    return host, backend.partition('#')[0]


def devices_of(volumes: collections.abc.Iterable[Item]) -> dict[str, str]:
    """Return the devices of attached volumes, by volume."""
    return {
        volume['id']: short_device(attached.get('device'))
        for volume in volumes
        for attached in volume['attachments'] or ()
    }


def short_device(device: str | None) -> str:
    """Return the name of a device without ``/dev/``.

    Users can give any name to the device of an attachment.
    """
    return terminal.printable((device or '').removeprefix('/dev/'))


def _server(server: Item) -> facts.Server:
    changed = server['updated_at']
    return facts.Server(
        server['id'],
        terminal.printable(server['name'] or ''),
        server['status'] or '',
        datetime.datetime.fromisoformat(changed) if changed else None,
    )


def servers_of(
    servers: collections.abc.Mapping[str, Item],
) -> dict[str, facts.Server]:
    """Return the servers of ``read_servers``."""
    return {id_: _server(server) for id_, server in servers.items()}


@contextlib.contextmanager
def convert_errors(subject: str) -> collections.abc.Iterator[None]:
    """Convert errors of the client libraries to ``DiskPlacerError``.

    :param subject: the subject of the request, for the message.
    """
    try:
        yield
    except (ks_exc.ClientException, sdk_exc.SDKException) as error:
        raise exception.DiskPlacerError(f'{subject}: {error}') from error


class _Flavor(sdk_flavor.Flavor):
    """A flavor of the SDK; its extra specs are None if Nova hides them."""

    extra_specs = resource.Body('extra_specs', type=dict)


@dataclasses.dataclass(frozen=True)
class NamedFlavor:
    """A flavor of Nova's with its ID."""

    id: str
    flavor: advice.Flavor

    @property
    def name(self) -> str:
        """The flavor's name."""
        return self.flavor.name


def placement(connection: Connection) -> placement_client.PlacementClient:
    """Return a client of Placement.

    :raises DiskPlacerError: there is none, or it does not answer.
    """
    with convert_errors('Placement'):
        return placement_client.PlacementClient(connection.placement)


def read_flavors(
    connection: Connection, names: collections.abc.Collection[str] = ()
) -> list[NamedFlavor]:
    """Return the flavors with these names or IDs, all without any.

    :raises DiskPlacerError: there is no such flavor, Nova does not show its
        extra specs, or does not answer.
    """
    with convert_errors('flavors'):
        # None: private flavors too, which only administrators can list
        listed = list(_Flavor.list(connection.compute, is_public='None'))
    return [
        NamedFlavor(
            nova_flavor.id,
            advice.Flavor(
                nova_flavor.name,
                nova_flavor.vcpus,
                nova_flavor.ram,
                _extra_specs(nova_flavor),
            ),
        )
        for nova_flavor in flavors.choose(
            listed,
            names,
            lambda nova_flavor: str(nova_flavor.name),
            lambda nova_flavor: str(nova_flavor.id),
        )
    ]


def _extra_specs(nova_flavor: _Flavor) -> dict[str, str]:
    if nova_flavor.extra_specs is None:
        raise exception.DiskPlacerError(
            'Nova does not show the extra specs of flavor '
            f'{nova_flavor.name}: the account needs the right to see them'
        )
    return dict(nova_flavor.extra_specs)


def apply_profile(
    chosen: collections.abc.Iterable[NamedFlavor],
    profile: definitions.Profile,
    profiles: catalogue.Catalogue,
    volume_type: str | None,
    write: collections.abc.Callable[[str, flavors.Change], None] | None,
) -> collections.abc.Iterator[str]:
    """Give flavors a profile, and yield the lines to print.

    :param volume_type: that of the vdisks of a flavor and profile without one.
    :param write: changes the flavor with an ID; None to change nothing.
    :raises DiskPlacerError: ``write`` raises it.
    """
    ids = {named.name: named.id for named in chosen}
    return flavors.apply(
        [
            flavors.change(named.flavor, profile, profiles, volume_type)
            for named in chosen
        ],
        write and (lambda change: write(ids[change.flavor.name], change)),
    )


def read_services(connection: Connection) -> list[Item]:
    """Return all services of Nova.

    :raises DiskPlacerError: Nova does not answer.
    """
    with convert_errors('services'):
        return list(connection.compute.services())


def read_compute_services(connection: Connection) -> list[Item]:
    """Return the services nova-compute of all hosts.

    :raises DiskPlacerError: Nova does not answer.
    """
    with convert_errors('compute services'):
        return list(connection.compute.services(binary='nova-compute'))


def read_hosts_of_nodes(connection: Connection) -> dict[str, str]:
    """Return the host of nova-compute of each compute node, by its name.

    A host with a name of its own (``host`` in nova.conf) has another one as
    its node, which is that of its hypervisor.

    :raises DiskPlacerError: Nova does not answer.
    """
    with convert_errors('compute nodes'):
        return {
            node['name']: node['service_details']['host']
            for node in connection.compute.hypervisors(details=True)
        }


def read_volume_services(connection: Connection) -> list[Item]:
    """Return the services cinder-volume of all hosts.

    :raises DiskPlacerError: Cinder does not answer.
    """
    with convert_errors('volume services'):
        return list(connection.block_storage.services(binary='cinder-volume'))


def read_aggregates(connection: Connection) -> dict[str, list[str]]:
    """Return the compute nodes of each aggregate, by its name.

    An aggregate has hosts of nova-compute; a disk has its compute node.

    :raises DiskPlacerError: Nova does not answer.
    """
    with convert_errors('aggregates'):
        members = {
            aggregate['name']: frozenset(aggregate['hosts'] or ())
            for aggregate in connection.compute.aggregates()
        }
    hosts = read_hosts_of_nodes(connection) if members else {}
    return {
        name: [node for node, host in hosts.items() if host in of_one]
        for name, of_one in members.items()
    }


def change_flavor(
    connection: Connection, id_: str, change: flavors.Change
) -> None:
    """Unset and set extra specs of a flavor.

    :raises DiskPlacerError: Nova does not answer or refuses.
    """
    url = f'/flavors/{id_}/os-extra_specs'

    def unset(key: str) -> None:
        # by another operator, or a request whose answer was lost
        with contextlib.suppress(sdk_exc.NotFoundException):
            _ask(connection, 'delete', f'{url}/{key}')

    def set_(specs: dict[str, str]) -> None:
        _ask(connection, 'post', url, json={'extra_specs': specs})

    with convert_errors(f'flavor {change.flavor.name}'):
        change.write(unset, set_)


def _ask(
    connection: Connection, method: str, url: str, **body: typing.Any
) -> None:
    """Send a request to Nova with the microversion that validates specs."""
    response = getattr(connection.compute, method)(
        url, microversion=_VALIDATES, **body
    )
    sdk_exc.raise_from_response(response)


def read_server(
    connection: Connection, name_or_id: str
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the extra specs of a server's flavor and its vdisks' volumes.

    :raises DiskPlacerError: there is no such server, none of its volumes is a
        vdisk, or an API does not answer.
    """
    disks = {disk.uuid for disk in placement(connection).disks()}
    with convert_errors(f'server {name_or_id}'):
        server = connection.compute.find_server(
            name_or_id, ignore_missing=False, all_projects=True
        )
        server = connection.compute.get_server(server['id'])
        volumes = [
            connection.block_storage.get_volume(attached['id'])
            for attached in server['attached_volumes'] or ()
        ]
    volume_ids = tuple(
        volume['id']
        for volume in volumes
        if not disks.isdisjoint(location_of(volume))
    )
    if not volume_ids:
        raise exception.DiskPlacerError(
            f'server {name_or_id}: none of its {len(volumes)} volumes is a '
            'vdisk'
        )
    return dict(server['flavor']['extra_specs'] or {}), volume_ids
