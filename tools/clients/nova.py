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


"""python-novaclient's Python API, at microversions new and old."""

import importlib.metadata

import keystoneauth1.session
from keystoneauth1.identity import v3
from novaclient import client as novaclient
from novaclient import exceptions

from tools.clients import client
from tools.clients.checks import Step
from tools.clients.project import ALL_VDISKS
from tools.clients.project import FLAVOR
from tools.clients.project import NOTHING
from tools.clients.project import Project
from tools.minicloud import cloud as clouds

_REFUSED = '400: cannot name a volume type'
_DELETED = f'{ALL_VDISKS}; deleted: {NOTHING}'
# The first of all, that of Horizon 23 to 25.3, and the first that names types.
VERSIONS = ('2.1', '2.60', '2.67')
_NAMES_TYPES = '2.67'
# From this one on a request says which networks, or none.
_NAMES_NETWORKS = (2, 37)


class NovaClient(client.Client):
    """python-novaclient of the project's own environment."""

    name = 'python-novaclient'
    key = 'novaclient'

    def make(self) -> dict[str, str]:
        return {self.name: importlib.metadata.version(self.name)}

    def cases(self, projects: client.Projects) -> list[client.Case]:
        return [
            client.Case(project, (self._step(project, version, default),))
            for project, default in (
                (projects.vdisks, client.DEFAULT_IS_VDISKS),
                (projects.other, client.DEFAULT_IS_OTHER),
            )
            for version in VERSIONS
        ]

    def _step(self, project: Project, version: str, default: str) -> Step:
        refused = (
            default == client.DEFAULT_IS_OTHER and version != _NAMES_TYPES
        )
        return Step(
            f'create and delete, {version}, {default}',
            _REFUSED if refused else _DELETED,
            lambda: self._create_and_delete(project, version),
        )

    def _create_and_delete(self, project: Project, version: str) -> str:
        """Create a server by flavor and image alone, and delete it."""
        login = project.login()
        auth = v3.Password(
            auth_url=login['OS_AUTH_URL'],
            username=login['OS_USERNAME'],
            password=login['OS_PASSWORD'],
            project_name=login['OS_PROJECT_NAME'],
            user_domain_id=login['OS_USER_DOMAIN_ID'],
            project_domain_id=login['OS_PROJECT_DOMAIN_ID'],
        )
        nova = novaclient.Client(
            version, session=keystoneauth1.session.Session(auth)
        )
        number = tuple(map(int, version.split('.')))
        try:
            server = nova.servers.create(
                f'novaclient-{version}',
                nova.glance.find_image(clouds.IMAGE),
                nova.flavors.find(name=FLAVOR),
                **({'nics': 'none'} if number >= _NAMES_NETWORKS else {}),
            )
        except exceptions.BadRequest as error:
            cause = 'cannot name a volume type'
            return f'400: {cause if cause in str(error) else error}'
        outcome = project.outcome(server.id)
        server.delete()
        return f'{outcome}; deleted: {project.left()}'
