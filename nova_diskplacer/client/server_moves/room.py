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

"""Reads the hosts that take servers and have disks for them."""

import collections
import collections.abc

from nova_diskplacer.client import capacity
from nova_diskplacer.client import cinder_volumes
from nova_diskplacer.client import cloud
from nova_diskplacer.client import facts as facts_
from nova_diskplacer.client import placement_disks
from nova_diskplacer.client.server_moves import facts


class Room:
    """The room of all hosts, read once, until ``forget``.

    :param chosen: the disks of all hosts.
    """

    def __init__(
        self, connection: cloud.Connection, chosen: placement_disks.Chosen
    ) -> None:
        self._connection = connection
        self._chosen = chosen
        self._disks: list[facts_.Disk] | None = None
        self._hosts_of_nodes: dict[str, str] = {}
        self._computes = facts_.HostNames(())
        self._backends: dict[str, facts_.HostNames] = {}

    def forget(self) -> None:
        """Have the room be read anew: servers have moved."""
        self._disks = None

    def hosts(self, server: facts.Server) -> list[str] | None:
        """Return the other hosts with disks for a server's vdisks.

        Their nova-compute is up and enabled, and so is cinder-volume of the
        backends that the volumes have, by the names of their sections.

        :returns: None for a server whose flavor has no vdisks.
        :raises DiskPlacerError: an API does not answer.
        """
        if server.request is None:
            return None
        if self._disks is None:
            self._hosts_of_nodes = cloud.read_hosts_of_nodes(self._connection)
            self._computes = facts_.HostNames(
                service['host']
                for service in cloud.read_compute_services(self._connection)
                if _serves(service)
            )
            self._backends = _by_section(
                cinder_volumes.backend_of(service)
                for service in cloud.read_volume_services(self._connection)
                if _serves(service)
            )
            self._disks = placement_disks.read_room(
                cloud.placement(self._connection), self._chosen
            )
        backends = [
            self._backends.get(section, facts_.HostNames(()))
            for section in {volume.section for volume in server.volumes}
        ]
        with_room = (
            self._hosts_of_nodes.get(room.host, room.host)
            for room in capacity.capacities(self._disks, server.request)
            if room.servers
        )
        return [
            host
            for host in with_room
            if not facts_.is_host(host, server.host)
            and host in self._computes
            and all(host in hosts for hosts in backends)
        ]


def _serves(service: cloud.Item) -> bool:
    return bool(service['status'] == 'enabled' and service['state'] == 'up')


def _by_section(
    backends: collections.abc.Iterable[tuple[str, str]],
) -> dict[str, facts_.HostNames]:
    """Return the hosts of the backends with each name of a section."""
    hosts = collections.defaultdict(list)
    for host, section in backends:
        hosts[section].append(host)
    return {
        section: facts_.HostNames(names) for section, names in hosts.items()
    }
