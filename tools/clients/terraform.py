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


"""Terraform of this machine, with its provider for OpenStack."""

import json
import os
import pathlib
import shutil
import typing

from tools.clients import client
from tools.clients import environment
from tools.clients import provider
from tools.clients.checks import Step
from tools.clients.project import ALL_VDISKS
from tools.clients.project import FLAVOR
from tools.clients.project import NOTHING
from tools.clients.project import Project
from tools.minicloud import cloud as clouds
from tools.minicloud import network
from tools.minicloud import process
from tools.minicloud import tenant

# "plan -detailed-exitcode" ends so if there is a difference.
_DIFFERENCE = 2
_SAME = 'no difference'


class Configuration(typing.NamedTuple):
    """A file of Terraform that has one server."""

    path: pathlib.Path
    server: str
    variables: dict[str, str]


_EXAMPLE = Configuration(
    tenant.EXAMPLES / 'terraform' / 'main.tf',
    'worker-1',
    {
        'flavor': FLAVOR,
        'image': clouds.IMAGE,
        'network': network.NAME,
        'vdisk_gb': '1',
    },
)
# Its mapping leaves room for a further volume on other disks.
_FURTHER = Configuration(
    pathlib.Path(__file__).with_name('further_volume.tf'),
    'worker-2',
    {
        'flavor': 'consolidated-4',
        'image': clouds.IMAGE,
        'network': network.NAME,
    },
)


class Terraform(client.Client):
    """The example of the documentation as it is, and what it tells besides."""

    name = 'Terraform'
    key = 'terraform'

    def __init__(self) -> None:
        super().__init__()
        self._terraform = ''
        self._settings = ''

    def make(self) -> dict[str, str]:
        self._terraform = environment.program('terraform')
        self._settings = provider.make()
        shown = json.loads(
            process.run(
                self._terraform,
                'version',
                '-json',
                env={'TF_CLI_CONFIG_FILE': os.devnull},
            )
        )
        return {
            'terraform': shown['terraform_version'],
            provider.NAME: provider.VERSION,
        }

    def cases(self, projects: client.Projects) -> list[client.Case]:
        return [
            self._case(
                _EXAMPLE,
                projects.other,
                f'the example, {client.DEFAULT_IS_OTHER}',
                ALL_VDISKS,
            ),
            self._case(
                _FURTHER,
                projects.vdisks,
                'flavor and image, and a further volume, '
                f'{client.DEFAULT_IS_VDISKS}',
                'ACTIVE, 5 vdisks on 2 disks',
            ),
        ]

    def _case(
        self,
        configuration: Configuration,
        project: Project,
        name: str,
        expected: str,
    ) -> client.Case:
        steps = (
            Step(
                f'apply {name}',
                expected,
                lambda: self._apply(configuration, project),
            ),
            Step(
                'second plan',
                _SAME,
                lambda: self._plan(configuration, project),
            ),
            Step(
                'destroy',
                NOTHING,
                lambda: self._destroy(configuration, project),
            ),
        )
        return client.Case(project, steps)

    def _apply(self, configuration: Configuration, project: Project) -> str:
        self._run(configuration, project, 'apply', '-auto-approve')
        return project.outcome(project.server(configuration.server))

    def _plan(self, configuration: Configuration, project: Project) -> str:
        status, printed = self._run(
            configuration,
            project,
            'plan',
            '-detailed-exitcode',
            allowed=(0, _DIFFERENCE),
        )
        return printed if status == _DIFFERENCE else _SAME

    def _destroy(self, configuration: Configuration, project: Project) -> str:
        self._run(configuration, project, 'destroy', '-auto-approve')
        return project.left()

    def _run(
        self,
        configuration: Configuration,
        project: Project,
        command: str,
        *options: str,
        allowed: tuple[int, ...] = (0,),
    ) -> tuple[int, str]:
        directory = self.directory / configuration.server
        directory.mkdir(exist_ok=True)
        shutil.copy(configuration.path, directory)
        settings = self.directory / 'terraformrc'
        settings.write_text(self._settings)
        values = configuration.variables.items()
        return self.run(
            self._terraform,
            f'-chdir={directory}',
            command,
            '-no-color',
            '-input=false',
            *(f'-var={name}={value}' for name, value in values),
            *options,
            allowed=allowed,
            TF_CLI_CONFIG_FILE=str(settings),
            CHECKPOINT_DISABLE='1',
            **project.login(),
        )
