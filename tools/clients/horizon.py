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


"""Horizon, whose pages are used in a browser without a window."""

import collections.abc
import contextlib
import pathlib

from tools import browser
from tools.clients import client
from tools.clients import dashboard
from tools.clients import environment
from tools.clients.checks import Step
from tools.clients.pages import Pages
from tools.clients.project import ALL_VDISKS
from tools.clients.project import NOTHING
from tools.clients.project import VDISK_TYPE
from tools.clients.project import Project
from tools.minicloud import process
from tools.minicloud import state as states
from tools.minicloud.cloud import Cloud

_SIZE = (1500, 1100)
_ROOT = f'root volume of type {VDISK_TYPE}'


class Horizon(client.Client):
    """Its dialog Launch Instance, and the deletion of servers."""

    name = 'Horizon'
    key = 'horizon'

    def __init__(self) -> None:
        super().__init__()
        self._environment = pathlib.Path()
        self._url = ''

    def make(self) -> dict[str, str]:
        chromium = process.run(environment.program('chromium'), '--version')
        self._environment = dashboard.make()
        return {**dashboard.versions(), 'chromium': chromium.split()[1]}

    def start(self, cloud: Cloud) -> None:
        super().start(cloud)
        port = states.free_port()
        self._url = f'http://127.0.0.1:{port}'
        service = dashboard.service(
            cloud.state, self._environment, self.directory, port
        )
        service.start()
        service.wait_ready()

    def cases(self, projects: client.Projects) -> list[client.Case]:
        both = (
            (projects.vdisks, client.DEFAULT_IS_VDISKS),
            (projects.other, client.DEFAULT_IS_OTHER),
        )
        without = [
            self._case(
                project,
                f'without a new volume, {default}',
                ALL_VDISKS,
                NOTHING,
                new_volume=False,
            )
            for project, default in both
        ]
        with_volume = self._case(
            projects.vdisks,
            'with a new volume, as the dialog begins',
            f'{ALL_VDISKS}, {_ROOT}',
            f'{_ROOT}, available',
            new_volume=True,
        )
        return [*without, with_volume]

    def _case(
        self,
        project: Project,
        name: str,
        expected: str,
        left: str,
        new_volume: bool,
    ) -> client.Case:
        server = f'horizon-{"yes" if new_volume else "no"}'
        return client.Case(
            project,
            (
                Step(
                    f'Launch Instance {name}',
                    expected,
                    lambda: self._launch(project, server, new_volume),
                ),
                Step(
                    f'Delete Instance {name}',
                    left,
                    lambda: self._delete(project, server),
                ),
            ),
        )

    def _launch(self, project: Project, server: str, new_volume: bool) -> str:
        with self._pages(project) as pages:
            begun_with = pages.launch(server, new_volume)
            created = project.server(server, timeout=120)
        # the dialog is to begin with a new volume
        begun = '' if begun_with == 'Yes' else f'; began with {begun_with}'
        return project.outcome(created) + begun

    def _delete(self, project: Project, server: str) -> str:
        with self._pages(project) as pages:
            pages.delete(project.server(server))
            return project.left()

    @contextlib.contextmanager
    def _pages(self, project: Project) -> collections.abc.Iterator[Pages]:
        """Yield pages of the project's user; a failure leaves a picture."""
        with browser.open_page(*_SIZE) as page:
            pages = Pages(page, self._url)
            try:
                pages.log_in(project.login())
                yield pages
            except Exception:
                path = self.cloud.state.logs / f'{self.key}-failed.png'
                page.screenshot(path)
                raise
