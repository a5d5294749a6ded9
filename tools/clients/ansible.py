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


"""Ansible, with its collection openstack.cloud."""

import pathlib
import re

from tools.clients import client
from tools.clients import environment
from tools.clients.checks import Step
from tools.clients.project import ALL_VDISKS
from tools.clients.project import FLAVOR
from tools.clients.project import NOTHING
from tools.clients.project import Project
from tools.minicloud import cloud as clouds
from tools.minicloud import network

_PLAYBOOK = pathlib.Path(__file__).with_name('server.yaml')
_REQUIREMENTS = pathlib.Path(__file__).with_name('ansible.txt')
_SERVER = 'ansible'
_SAME = 'not changed; the same server and volumes'


class Ansible(client.Client):
    """A server that a playbook wants to be present, and then absent."""

    name = 'Ansible'
    key = 'ansible'

    def __init__(self) -> None:
        super().__init__()
        self._bin = pathlib.Path()

    def make(self) -> dict[str, str]:
        text = _REQUIREMENTS.read_text()
        path = environment.make('ansible', text, _install)
        self._bin = path / 'bin'
        return environment.pinned(text)

    def cases(self, projects: client.Projects) -> list[client.Case]:
        project = projects.other
        steps = (
            Step(
                f'present, {client.DEFAULT_IS_OTHER}',
                f'changed; {ALL_VDISKS}',
                lambda: self._create(project),
            ),
            Step('present again', _SAME, lambda: self._repeat(project)),
            Step(
                'absent',
                f'changed; {NOTHING}',
                lambda: f'{self._play(project, "absent")}; {project.left()}',
            ),
            Step(
                'absent again',
                'not changed',
                lambda: self._play(project, 'absent'),
            ),
        )
        return [client.Case(project, steps)]

    def _create(self, project: Project) -> str:
        changed = self._play(project, 'present')
        return f'{changed}; {project.outcome(project.server(_SERVER))}'

    def _repeat(self, project: Project) -> str:
        before = project.server(_SERVER), project.volumes()
        changed = self._play(project, 'present')
        after = project.server(_SERVER), project.volumes()
        if before == after:
            return f'{changed}; the same server and volumes'
        return f'{changed}; {before} and then {after}'

    def _play(self, project: Project, wanted: str) -> str:
        """Run the playbook, and return whether it has changed something."""
        values = {
            'ansible_python_interpreter': f'{self._bin}/python',
            'wanted': wanted,
            'server_name': _SERVER,
            'flavor': FLAVOR,
            'image': clouds.IMAGE,
            'network': network.NAME,
        }
        _, printed = self.run(
            f'{self._bin}/ansible-playbook',
            '--inventory=localhost,',
            *(f'--extra-vars={name}={one}' for name, one in values.items()),
            str(_PLAYBOOK),
            **project.login(),
        )
        found = re.search(r'changed=(\d+)', printed)
        return 'changed' if found and int(found[1]) else 'not changed'


def _install(path: pathlib.Path) -> None:
    environment.install_python(path, '-r', str(_REQUIREMENTS))
