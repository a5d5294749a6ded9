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

"""A user of a project who creates servers in the ways of tenants.

No way names a volume: the flavor gives the server its vdisks.
"""

import pathlib
import typing

from tools.minicloud import api
from tools.minicloud import cloud as clouds
from tools.minicloud import config
from tools.minicloud import ini

EXAMPLES = pathlib.Path(__file__).parents[2] / 'doc' / 'examples'
HEAT_EXAMPLE = EXAMPLES / 'heat' / 'server.yaml'
SDK_EXAMPLE = EXAMPLES / 'sdk' / 'create_server.py'
# Microversions: the first of all, and the first that names volume types.
FIRST = '2.1'
NAMES_TYPES = '2.67'


class Tenant:
    """A new user ``name`` of a new project of the same name."""

    def __init__(self, cloud: clouds.Cloud, name: str) -> None:
        self.cloud = cloud
        self.openrc = f'{name}-openrc'
        cloud.api.create_user(name, name)
        ini.write_text(
            cloud.state.path / self.openrc,
            config.openrc(cloud.state, name, name),
        )
        self.api = api.Api(cloud.state, name, name)

    def run(self, *argv: str) -> str:
        """Run a program with the user's openrc and return its output."""
        return self.cloud.run(*argv, openrc=self.openrc)

    def by_api(self, name: str, flavor: str, **options: typing.Any) -> str:
        """Create a server by Nova's API and return its ID."""
        return self.api.create_server(
            name, self.cloud.flavors[flavor], self.cloud.image, **options
        )

    def by_command(self, name: str, flavor: str, version: str = '') -> str:
        """Create a server by the openstack command and return its ID.

        :param version: the microversion; the command chooses by default.
        """
        microversion = (f'--os-compute-api-version={version}',)
        return self.run(
            'openstack',
            *(microversion if version else ()),
            'server',
            'create',
            f'--flavor={flavor}',
            f'--image={clouds.IMAGE}',
            # the first one cannot say so
            *(() if version == FIRST else ('--no-network',)),
            '--format=value',
            '--column=id',
            name,
        ).strip()

    def by_sdk(self, name: str, flavor: str) -> str:
        """Create a server by openstacksdk and return its ID."""
        self.run(
            'python',
            str(SDK_EXAMPLE),
            '--network=none',
            flavor,
            clouds.IMAGE,
            name,
        )
        return self._id(name)

    def by_heat(self, name: str, flavor: str) -> str:
        """Create a server by a stack of the same name and return its ID."""
        self.run(
            'openstack',
            'stack',
            'create',
            '--wait',
            f'--template={HEAT_EXAMPLE}',
            f'--parameter=name={name}',
            f'--parameter=flavor={flavor}',
            f'--parameter=image={clouds.IMAGE}',
            '--parameter=networks=[{"allocate_network": "none"}]',
            name,
        )
        return self._id(name)

    def delete_stack(self, name: str) -> None:
        """Delete a stack and wait until it is gone."""
        self.run('openstack', 'stack', 'delete', '--yes', '--wait', name)

    def _id(self, name: str) -> str:
        found = self.api.get('compute', f'/servers?name={name}')['servers']
        return str(found[0]['id'])
