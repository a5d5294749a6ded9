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


"""INI files, and what the files of several services say alike."""

import math
import os
import pathlib
import sys

from tools.minicloud.process import SLOWER
from tools.minicloud.state import State

Section = dict[str, str | int | list[str]]
Config = dict[str, Section]

BIN = os.path.join(sys.prefix, 'bin')
PROJECT = 'service'
USER = 'openstack'
# Seconds that a service has to answer another: the machine may be slow.
ANSWER = round(120 * SLOWER)


def interval(seconds: float) -> int:
    """Return how often services do what they do again and again.

    A slower machine would do little else.
    """
    return round(seconds * math.sqrt(SLOWER))


def write(path: pathlib.Path, config: Config) -> None:
    """Write an INI file; a list is written as one line per item."""
    lines = []
    for section, options in config.items():
        lines.append(f'[{section}]')
        for key, value in options.items():
            values = value if isinstance(value, list) else [value]
            lines += [f'{key} = {item}' for item in values]
        lines.append('')
    write_text(path, '\n'.join(lines))


def write_text(path: pathlib.Path, text: str) -> None:
    """Write a file that nobody else can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)


def shipped(path: str) -> str:
    """Return the path of a file that a service ships under etc/."""
    return os.path.join(sys.prefix, 'etc', path)


def database(state: State, name: str) -> Section:
    return {
        'connection': f'mysql+pymysql://openstack:{state.secret}'
        f'@127.0.0.1:{state.ports["mariadb"]}/{name}?charset=utf8mb4',
        'max_pool_size': 5,
        'max_overflow': 20,
    }


def auth(state: State, **extra: str) -> Section:
    return {
        'auth_type': 'password',
        'auth_url': state.url('keystone'),
        'username': USER,
        'password': state.secret,
        'project_name': PROJECT,
        'user_domain_id': 'default',
        'project_domain_id': 'default',
        'region_name': 'RegionOne',
        'valid_interfaces': 'public',
        # what services have by default may not do on a slower machine
        **({'timeout': ANSWER} if SLOWER > 1 else {}),
        **extra,
    }


def authtoken(state: State) -> Section:
    return auth(
        state,
        www_authenticate_uri=state.url('keystone'),
        memcached_servers=f'127.0.0.1:{state.ports["memcached"]}',
        service_token_roles='service',
        service_token_roles_required='true',
        interface='public',
    )


def transport(state: State) -> str:
    port = state.ports['rabbitmq']
    return f'rabbit://openstack:{state.secret}@127.0.0.1:{port}/'


def helper(command_line: str) -> Section:
    return {'helper_command': f'{BIN}/privsep-helper {command_line}'}


def rabbit() -> Section:
    return {
        'heartbeat_in_pthread': 'false',
        'heartbeat_timeout_threshold': round(60 * SLOWER),
    }
