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

"""The REST APIs of a cloud: their errors, and the services and hosts."""

import collections.abc
import contextlib
import typing

from keystoneauth1 import exceptions as ks_exc
from openstack import exceptions as sdk_exc

from nova_diskplacer import exception
from nova_diskplacer.placement import client as placement_client

Connection = typing.Any
Item = collections.abc.Mapping[str, typing.Any]


@contextlib.contextmanager
def convert_errors(subject: str) -> collections.abc.Iterator[None]:
    """Convert errors of the client libraries to ``DiskPlacerError``.

    :param subject: the subject of the request, for the message.
    """
    try:
        yield
    except (ks_exc.ClientException, sdk_exc.SDKException) as error:
        raise exception.DiskPlacerError(f'{subject}: {error}') from error


def placement(connection: Connection) -> placement_client.PlacementClient:
    """Return a client of Placement.

    :raises DiskPlacerError: there is none, or it does not answer.
    """
    with convert_errors('Placement'):
        return placement_client.PlacementClient(connection.placement)


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
