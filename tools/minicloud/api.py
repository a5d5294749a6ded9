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


"""The OpenStack APIs, as little of each as the cloud's users need."""

import itertools
import json
import typing
import uuid

import keystoneauth1.adapter
import keystoneauth1.identity
import keystoneauth1.session
import requests

from tools.minicloud import ini
from tools.minicloud import process
from tools.minicloud.state import State

Json = typing.Any

ENDPOINTS = {
    'compute': ('nova', '/v2.1'),
    'volumev3': ('cinder', '/v3'),
    'image': ('glance', ''),
    'placement': ('placement', ''),
    'network': ('neutron', ''),
}
VERSIONS = {
    'compute': 'compute 2.96',
    'volumev3': 'volume 3.70',
    'placement': 'placement 1.39',
}
SERVER_TIMEOUT = 600
# times to look at a server in ERROR for the reason
_FAULT_LOOKS = 10


def with_volumes(image: str, count: int, size_gb: int) -> Json:
    """Return what a request adds to bring blank volumes of its own."""
    blank = {
        'source_type': 'blank',
        'destination_type': 'volume',
        'volume_size': size_gb,
        'volume_type': 'vdisk',
        'boot_index': -1,
        'delete_on_termination': True,
    }
    root = {
        'source_type': 'image',
        'destination_type': 'local',
        'uuid': image,
        'boot_index': 0,
        'delete_on_termination': True,
    }
    return {'block_device_mapping_v2': [root] + [blank] * count}


class ApiError(Exception):
    """An API refused; ``status`` is the HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f'{status}: {text}')
        self.status = status


class Api:
    """The cloud's APIs as a user of a project, its administrator first."""

    def __init__(
        self, state: State, username: str = 'admin', project: str = 'admin'
    ) -> None:
        self.state = state
        auth = keystoneauth1.identity.V3Password(
            auth_url=state.url('keystone'),
            username=username,
            password=state.secret,
            project_name=project,
            user_domain_id='default',
            project_domain_id='default',
        )
        self.session = keystoneauth1.session.Session(
            auth, timeout=300 * process.SLOWER
        )

    def call(
        self, service: str, method: str, path: str, **kwargs: typing.Any
    ) -> Json:
        """Call an API of a service type and return the decoded answer.

        :raises ApiError: the status is 400 or above.
        """
        headers = kwargs.pop('headers', {})
        if service in VERSIONS:
            headers.setdefault('OpenStack-API-Version', VERSIONS[service])
        if service == 'identity':
            root = self.state.url('keystone')
        else:
            name, suffix = ENDPOINTS[service]
            root = self.state.url(name) + suffix
        answer = self.session.request(
            root + path, method, headers=headers, raise_exc=False, **kwargs
        )
        if answer.status_code >= 400:
            raise ApiError(answer.status_code, answer.text)
        return answer.json() if answer.text else None

    def get(self, service: str, path: str) -> Json:
        return self.call(service, 'GET', path)

    def post(self, service: str, path: str, body: Json) -> Json:
        return self.call(service, 'POST', path, json=body)

    def delete(self, service: str, path: str) -> None:
        self.call(service, 'DELETE', path)

    # servers

    def create_server(
        self,
        name: str,
        flavor: str,
        image: str,
        **options: typing.Any,
    ) -> str:
        """Ask for a server and return its id; its flavor gives the vdisks."""
        body = {
            'name': name,
            'flavorRef': flavor,
            'imageRef': image,
            'networks': 'none',
            **options,
        }
        answer = self.post('compute', '/servers', {'server': body})
        return str(answer['server']['id'])

    def server(self, server: str) -> Json:
        return self.get('compute', f'/servers/{server}')['server']

    def wait_server(
        self,
        server: str,
        status: str = 'ACTIVE',
        timeout: float = SERVER_TIMEOUT,
    ) -> Json:
        """Wait until a server has a status, and return it.

        :raises ApiError: it went to ERROR instead; says why.
        """

        looks = itertools.count()

        def ready() -> Json:
            found = self.server(server)
            if found['status'] == 'ERROR' != status:
                # Nova saves it after the status
                if not found.get('fault') and next(looks) < _FAULT_LOOKS:
                    return None
                raise ApiError(0, json.dumps(found.get('fault')))
            busy = found['OS-EXT-STS:task_state']
            return found if found['status'] == status and not busy else None

        return process.wait(f'server {server} {status}', ready, timeout, 1)

    def delete_server(self, server: str) -> None:
        """Delete a server and wait until it is gone."""
        self.delete('compute', f'/servers/{server}')
        self.wait_server_gone(server)

    def wait_server_gone(self, server: str) -> None:
        self._wait_gone('compute', f'/servers/{server}')

    def action(self, server: str, **action: Json) -> None:
        self.post('compute', f'/servers/{server}/action', action)

    def console(self, server: str) -> str:
        answer = self.call(
            'compute',
            'POST',
            f'/servers/{server}/action',
            json={'os-getConsoleOutput': {}},
        )
        return str(answer['output'])

    def attachments(self, server: str) -> list[str]:
        """Return the ids of the volumes attached to a server."""
        found = self.get('compute', f'/servers/{server}/os-volume_attachments')
        return [one['volumeId'] for one in found['volumeAttachments']]

    def allocations(self, server: str) -> Json:
        """Return {provider: {resource class: amount}} that is claimed."""
        found = self.get('placement', f'/allocations/{server}')
        return {
            provider: one['resources']
            for provider, one in found['allocations'].items()
        }

    # volumes

    def volume(self, volume: str) -> Json:
        return self.get('volumev3', f'/volumes/{volume}')['volume']

    def volumes(self) -> Json:
        return self.get('volumev3', '/volumes/detail?all_tenants=1')['volumes']

    def create_volume(self, size_gb: int, **hints: str) -> str:
        """Create a volume of type vdisk and return its id once available.

        :param hints: scheduler hints.
        """
        body = {
            'volume': {'size': size_gb, 'volume_type': 'vdisk'},
            'OS-SCH-HNT:scheduler_hints': hints,
        }
        answer = self.post('volumev3', '/volumes', body)
        volume = str(answer['volume']['id'])
        self.wait_volume(volume, 'available')
        return volume

    def wait_volume(self, volume: str, status: str) -> Json:
        """Wait until a volume has a status, and return it.

        :raises ApiError: it went to an error status instead.
        """

        def ready() -> Json:
            found = self.volume(volume)
            if 'error' in found['status'] and found['status'] != status:
                raise ApiError(0, f'volume {volume}: {found["status"]}')
            return found if found['status'] == status else None

        return process.wait(f'volume {volume} {status}', ready, interval=1)

    def delete_volume(self, volume: str) -> None:
        """Delete a volume and wait until it is gone."""
        self.delete('volumev3', f'/volumes/{volume}')
        self._wait_gone('volumev3', f'/volumes/{volume}')

    def attach(self, server: str, volume: str) -> None:
        """Attach a volume to a running server and wait until it is."""
        self.post(
            'compute',
            f'/servers/{server}/os-volume_attachments',
            {'volumeAttachment': {'volumeId': volume}},
        )
        self.wait_volume(volume, 'in-use')

    def detach(self, server: str, volume: str) -> None:
        """Detach a volume and wait until Nova and Cinder say so."""
        path = f'/servers/{server}/os-volume_attachments/{volume}'
        self.delete('compute', path)
        self._wait_gone('compute', path)
        self.wait_volume(volume, 'available')

    def _wait_gone(self, service: str, path: str) -> None:
        def gone() -> bool:
            try:
                self.get(service, path)
            except ApiError as error:
                if error.status == requests.codes.not_found:
                    return True
                raise
            return False

        process.wait(f'{path}: gone', gone, SERVER_TIMEOUT, 0.5)

    # what the cloud needs once

    def register_endpoints(self) -> None:
        """Fill the service catalog and make the services' own user."""
        for kind, (name, suffix) in ENDPOINTS.items():
            self.register_endpoint(kind, name, suffix)
        self.create_user(ini.USER, ini.PROJECT, ('admin', 'service'))

    def register_endpoint(self, kind: str, name: str, suffix: str) -> None:
        """Enter a service in the catalog; ``suffix`` is added to its URL."""
        service = self.post(
            'identity',
            '/services',
            {'service': {'type': kind, 'name': name}},
        )['service']
        endpoint = {
            'service_id': service['id'],
            'interface': 'public',
            'region_id': 'RegionOne',
            'url': self.state.url(name) + suffix,
        }
        self.post('identity', '/endpoints', {'endpoint': endpoint})

    def create_user(
        self, name: str, project: str, roles: tuple[str, ...] = ('member',)
    ) -> None:
        """Make a project and a user with roles in it."""
        found = self.post(
            'identity', '/projects', {'project': {'name': project}}
        )
        user = self.post(
            'identity',
            '/users',
            {'user': {'name': name, 'password': self.state.secret}},
        )
        ids = {
            role['name']: role['id']
            for role in self.get('identity', '/roles')['roles']
        }
        for role in roles:
            self.call(
                'identity',
                'PUT',
                f'/projects/{found["project"]["id"]}'
                f'/users/{user["user"]["id"]}/roles/{ids[role]}',
            )

    def create_image(
        self,
        name: str,
        content: bytes,
        disk_format: str = 'raw',
        container_format: str = 'bare',
        **properties: str,
    ) -> str:
        """Upload an image and return its id."""
        body = {
            'name': name,
            'disk_format': disk_format,
            'container_format': container_format,
            'visibility': 'public',
            **properties,
        }
        image = str(self.post('image', '/v2/images', body)['id'])
        self.call(
            'image',
            'PUT',
            f'/v2/images/{image}/file',
            data=content,
            headers={'Content-Type': 'application/octet-stream'},
        )
        return image

    def create_flavor(
        self, name: str, ram: int = 128, **extra_specs: str | int
    ) -> str:
        """Make a small flavor; extra specs without ``diskplacer:``.

        :param ram: in MiB.
        """
        flavor = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
        body = {
            'id': flavor,
            'name': name,
            'vcpus': 1,
            'ram': ram,
            'disk': 1,
        }
        self.post('compute', '/flavors', {'flavor': body})
        specs = {f'diskplacer:{k}': str(v) for k, v in extra_specs.items()}
        if 'vdisks' in extra_specs:
            specs['trait:CUSTOM_DISKPLACER_HOST'] = 'required'
        if specs:
            self.post(
                'compute',
                f'/flavors/{flavor}/os-extra_specs',
                {'extra_specs': specs},
            )
        return flavor

    def create_volume_type(self, name: str, **extra_specs: str) -> None:
        body = {'name': name, 'extra_specs': extra_specs}
        self.post('volumev3', '/types', {'volume_type': body})
