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

"""What tools/guide/cloud.sh enters into the APIs of its cloud.

Runs on its machine, logged in as the administrator, with the argument
``services`` for Keystone's entries and ``resources`` for those of the others.
"""

import collections.abc
import sys
import time

import openstack
from openstack import exceptions

ENDPOINTS = (
    ('compute', 'nova', 'controller:8774/v2.1'),
    ('volumev3', 'cinder', 'controller:8776/v3'),
    ('image', 'glance', 'controller:9292'),
    ('placement', 'placement', 'controller:8778'),
    # the stand-in listens there only
    ('network', 'neutron', '127.0.0.1:9696'),
)
USERS = 'nova', 'placement', 'glance', 'cinder'
ROLES = 'admin', 'service'

#: seconds until a service answers, or nova-compute is known
PATIENCE = 300


def enter_services(cloud: openstack.connection.Connection) -> None:
    """Make the users of services and the catalog."""
    identity = cloud.identity
    wait('Keystone', lambda: list(identity.projects()))
    project = identity.create_project(name='service', domain_id='default')
    for name in USERS:
        user = identity.create_user(
            name=name,
            password=f'{name.upper()}_PASS',
            domain_id='default',
            default_project_id=project.id,
        )
        for role in ROLES:
            identity.assign_project_role_to_user(
                project, user, identity.find_role(role)
            )
    for kind, name, place in ENDPOINTS:
        service = identity.create_service(type=kind, name=name)
        identity.create_endpoint(
            service_id=service.id,
            interface='public',
            region_id='RegionOne',
            url=f'http://{place}',
        )


def enter_resources(cloud: openstack.connection.Connection) -> None:
    """Make what every cloud has: a flavor, an image, a volume type."""
    # once the conductor has a cell and Placement a provider
    wait('hypervisor', lambda: list(cloud.compute.hypervisors()))
    cloud.compute.create_flavor(name='m1.tiny', ram=512, vcpus=1, disk=1)
    wait('Glance', lambda: list(cloud.image.images()) or True)
    cloud.image.create_image(
        name='debian-12',
        data=b'\0' * 2**20,
        disk_format='raw',
        container_format='bare',
        visibility='public',
    )
    wait('Cinder', lambda: list(cloud.block_storage.types()))
    cloud.block_storage.create_type(
        name='other', extra_specs={'volume_backend_name': 'other'}
    )


def wait(what: str, find: collections.abc.Callable[[], object]) -> None:
    """Wait until something is found."""
    deadline = time.monotonic() + PATIENCE
    while True:
        reason = ''
        try:
            if find():
                return
        except exceptions.SDKException as error:
            reason = str(error)
        if time.monotonic() > deadline:
            sys.exit(f'{what}: in vain for {PATIENCE} s: {reason}')
        time.sleep(2)


if __name__ == '__main__':
    connection = openstack.connect()
    if sys.argv[1] == 'services':
        enter_services(connection)
    else:
        enter_resources(connection)
