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


"""The service of Horizon, with its Python environment."""

import functools
import pathlib
import shutil

import requests

from tools.clients import environment
from tools.minicloud.process import Process
from tools.minicloud.state import State

_TOP = pathlib.Path(__file__).parents[2]
_CONSTRAINTS = _TOP / 'tools' / 'lib' / 'constraints.txt'
_REQUIREMENTS = pathlib.Path(__file__).with_name('horizon.txt')
_SETTINGS = pathlib.Path(__file__).with_name('local_settings.py')


def make() -> pathlib.Path:
    """Have the environment and return its directory.

    :raises MissingError: it could not be made.
    """
    files = (_REQUIREMENTS, _CONSTRAINTS, _SETTINGS)
    content = '\n'.join(file.read_text() for file in files)
    return environment.make('horizon', content, _install)


def versions() -> dict[str, str]:
    """Return the version of Horizon."""
    return environment.pinned(_REQUIREMENTS.read_text())


def service(
    state: State, path: pathlib.Path, directory: pathlib.Path, port: int
) -> Process:
    """Return the service for a cloud, on a port.

    :param path: of the environment.
    :param directory: for the sessions of its users.
    """
    return Process(
        'horizon',
        [
            f'{path}/bin/python',
            *('-m', 'django', 'runserver', '--noreload'),
            f'127.0.0.1:{port}',
        ],
        state.run,
        state.logs,
        env=_variables(
            path, state.secret, str(directory), state.url('keystone')
        ),
        ready=functools.partial(_answers, f'http://127.0.0.1:{port}'),
    )


def _answers(url: str) -> bool:
    """Return whether there is a page: the first one takes a minute."""
    try:
        answer = requests.get(f'{url}/auth/login/', timeout=300)
    except requests.RequestException:
        return False
    return answer.ok


def _variables(
    path: pathlib.Path, secret: str, sessions: str, keystone: str
) -> dict[str, str]:
    """Return what Django and ``local_settings`` read."""
    return {
        'DJANGO_SETTINGS_MODULE': 'openstack_dashboard.settings',
        'HORIZON_SECRET': secret,
        'HORIZON_SESSIONS': sessions,
        'HORIZON_STATIC': str(path / 'static'),
        'OS_AUTH_URL': keystone,
    }


def _install(path: pathlib.Path) -> None:
    """Install Horizon with our settings, and collect its static files."""
    environment.install_python(
        path, '-r', str(_REQUIREMENTS), '-c', str(_CONSTRAINTS)
    )
    (package,) = path.glob('lib/python3*/site-packages/openstack_dashboard')
    shutil.copy(_SETTINGS, package / 'local')
    environment.run(
        f'{path}/bin/python',
        *('-m', 'django', 'collectstatic', '--noinput'),
        **_variables(path, 'none', '', ''),
    )
