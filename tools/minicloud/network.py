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


"""What the stand-in for Neutron has: nothing, or one network and its ports.

Some clients, such as Horizon, create no server without a network. Ports have
addresses and lead nowhere; everything is in memory.
"""

import collections.abc
import itertools
import typing
import uuid

Resource = dict[str, typing.Any]

NAME = 'private'
_NETWORK, _SUBNET, _GROUP = (
    str(uuid.uuid5(uuid.NAMESPACE_DNS, f'{kind}.{NAME}'))
    for kind in ('network', 'subnet', 'group')
)
_PROJECT = ('tenant_id', 'project_id')
# what belongs to no project is found by all of them
_OF_NONE: Resource = {**dict.fromkeys(_PROJECT, ''), 'tags': []}
_NETWORKS = {
    'id': _NETWORK,
    'name': NAME,
    'subnets': [_SUBNET],
    'shared': True,
    'status': 'ACTIVE',
    'admin_state_up': True,
    'router:external': False,
    'mtu': 1500,
    'port_security_enabled': True,
    'availability_zones': [],
    'availability_zone_hints': [],
}
_SUBNETS = {
    'id': _SUBNET,
    'name': NAME,
    'network_id': _NETWORK,
    'ip_version': 4,
    'cidr': '10.99.0.0/16',
    'gateway_ip': '10.99.0.1',
    'enable_dhcp': False,
    'dns_nameservers': [],
    'host_routes': [],
    'allocation_pools': [],
    'ipv6_ra_mode': None,
    'ipv6_address_mode': None,
}
_GROUPS = {
    'id': _GROUP,
    'name': 'default',
    'description': 'default',
    'security_group_rules': [],
    'stateful': True,
    'shared': True,
}
# Nova makes a device of the kind tap for a port.
_PORTS = {
    'name': '',
    'status': 'ACTIVE',
    'admin_state_up': True,
    'network_id': _NETWORK,
    'device_id': '',
    'device_owner': '',
    'security_groups': [_GROUP],
    'binding:vif_type': 'tap',
    'binding:vnic_type': 'normal',
    'binding:vif_details': {},
    'binding:profile': {},
    'binding:host_id': '',
    'allowed_address_pairs': [],
    'port_security_enabled': True,
}
_FIRST_ADDRESS = 10


def devices(service: int) -> str:
    """Return how the names of the devices of a cloud's ports begin.

    :param service: the TCP port of the cloud's stand-in for Neutron.
    """
    return f'tap{service:04x}'


class Networking:
    """Resources by kind and ID.

    :param service: the TCP port of the stand-in.
    :param network: whether there is a network.
    """

    def __init__(self, service: int, network: bool) -> None:
        self._service = service
        self._numbers = itertools.count(_FIRST_ADDRESS)
        self.resources: dict[str, dict[str, Resource]] = {'ports': {}}
        if network:
            self.resources |= {
                'networks': {_NETWORK: _OF_NONE | _NETWORKS},
                'subnets': {_SUBNET: _OF_NONE | _SUBNETS},
                'security_groups': {_GROUP: _OF_NONE | _GROUPS},
            }

    def find(
        self,
        kind: str,
        query: collections.abc.Mapping[str, collections.abc.Sequence[str]],
    ) -> list[Resource]:
        """Return the resources of a kind whose fields have such values."""
        return [
            one
            for one in self.resources.get(kind, {}).values()
            if all(
                str(one[field]).lower() in [value.lower() for value in values]
                for field, values in query.items()
                if field in one and (one[field] or field not in _PROJECT)
            )
        ]

    def create_port(self, asked: Resource) -> Resource:
        """Create a port of the network and return it."""
        number = next(self._numbers)
        high, low = divmod(number, 256)
        # Nova names the device tap, and as much of the ID as there is room
        identity = f'{self._service:04x}{number:04x}{str(uuid.uuid4())[8:]}'
        address = {'subnet_id': _SUBNET, 'ip_address': f'10.99.{high}.{low}'}
        port = {
            **_OF_NONE,
            **_PORTS,
            'mac_address': f'fa:16:3e:00:{high:02x}:{low:02x}',
            **asked,
            'id': identity,
            'fixed_ips': [address],
        }
        self.resources['ports'][identity] = port
        return port
