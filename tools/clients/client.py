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


"""What the clients have in common."""

import pathlib
import typing

from tools.clients.checks import Step
from tools.clients.project import Project
from tools.minicloud.cloud import Cloud
from tools.minicloud.process import Process
from tools.minicloud.process import ProcessError

#: Requests name no volume type, or must name one.
DEFAULT_IS_VDISKS = "default type is the vdisks'"
DEFAULT_IS_OTHER = 'default type is another one'


class Case(typing.NamedTuple):
    """Steps of a user of a project, each of which needs those before it."""

    project: Project
    steps: tuple[Step, ...]


class Projects(typing.NamedTuple):
    """Two projects, by their default volume type."""

    vdisks: Project
    other: Project


class Client:
    """A client, which nobody of the project has written.

    ``name`` is what the user calls it, ``key`` the word of the command line.
    """

    name = ''
    key = ''

    def __init__(self) -> None:
        self.cloud: Cloud
        self._runs = 0

    def make(self) -> dict[str, str]:
        """Have the client, and return versions by the names of programs.

        :raises MissingError: it cannot be had.
        """
        raise NotImplementedError

    def start(self, cloud: Cloud) -> None:
        """Make the client ready for a cloud, which ends what it starts.

        :raises ProcessError: something did not start.
        """
        self.cloud = cloud

    def cases(self, projects: Projects) -> list[Case]:
        """Return what the client is to do."""
        raise NotImplementedError

    @property
    def directory(self) -> pathlib.Path:
        """A directory of the client, which goes with the cloud."""
        path = self.cloud.state.path / 'clients' / self.key
        path.mkdir(parents=True, exist_ok=True)
        return path

    def run(
        self, *argv: str, allowed: tuple[int, ...] = (0,), **env: str
    ) -> tuple[int, str]:
        """Run a program, and return its exit status and what it printed.

        The cloud ends it if this program is interrupted.

        :raises ProcessError: another exit status than these.
        """
        state = self.cloud.state
        self._runs += 1
        program = Process(
            f'{self.key}-{self._runs}',
            list(argv),
            state.run,
            state.logs,
            env={'HOME': str(self.directory), **env},
        )
        program.start()
        assert program.popen
        status = program.popen.wait()
        program.record.unlink()
        printed = program.log.read_text(errors='replace')
        if status not in allowed:
            raise ProcessError(f'exit {status}: {printed[-1500:]}')
        return status, printed
