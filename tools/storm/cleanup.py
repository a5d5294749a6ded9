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


"""Deletes servers, snapshots and volumes, as an administrator can.

What hangs in a status is reset first, once it has had time.
"""

import collections.abc
import contextlib
import time
import typing

import keystoneauth1.exceptions
import requests

from tools.minicloud.api import Api
from tools.minicloud.api import ApiError

# Seconds until statuses are reset, and until it is given up.
_GENTLE = 45
_LIMIT = 240
_INTERVAL = 4
_REFUSALS = (
    ApiError,
    keystoneauth1.exceptions.ClientException,
    requests.RequestException,
)


def sweep(api: Api, kept: collections.abc.Container[str]) -> None:
    """Delete all that is not kept, by ids; gives up after a while."""
    begun = time.monotonic()
    while time.monotonic() < begun + _LIMIT:
        reset = time.monotonic() > begun + _GENTLE
        # an API may not answer at once
        with contextlib.suppress(*_REFUSALS):
            if not _sweep_once(api, kept, reset):
                return
        time.sleep(_INTERVAL)


def _sweep_once(
    api: Api, kept: collections.abc.Container[str], reset: bool
) -> int:
    """Ask to delete all; returns how much was there."""
    servers = _others(api, 'compute', '/servers', 'servers', kept)
    for one in servers:
        path = f'/servers/{one["id"]}'
        if reset:
            _try(
                api,
                'compute',
                f'{path}/action',
                {'os-resetState': {'state': 'error'}},
            )
        _try(api, 'compute', path)
    snapshots = _others(api, 'volumev3', '/snapshots', 'snapshots', kept)
    for one in snapshots:
        _delete(api, f'/snapshots/{one["id"]}', {'status': 'error'}, reset)
    volumes = _others(api, 'volumev3', '/volumes', 'volumes', kept)
    for one in volumes:
        alive = {server['id'] for server in servers}
        attached = {each['server_id'] for each in one['attachments']}
        if attached & alive:
            continue
        status = {'status': 'error', 'attach_status': 'detached'}
        _delete(api, f'/volumes/{one["id"]}', status, reset)
    return len(servers) + len(snapshots) + len(volumes)


def _others(
    api: Api,
    service: str,
    path: str,
    key: str,
    kept: collections.abc.Container[str],
) -> list[typing.Any]:
    found = api.get(service, f'{path}/detail?all_tenants=1')[key]
    return [one for one in found if one['id'] not in kept]


def _delete(api: Api, path: str, status: dict[str, str], reset: bool) -> None:
    if reset:
        _try(api, 'volumev3', f'{path}/action', {'os-reset_status': status})
    _try(api, 'volumev3', path)


def _try(api: Api, service: str, path: str, body: typing.Any = None) -> None:
    """Post a body, or delete without one; a refusal is no matter."""
    with contextlib.suppress(*_REFUSALS):
        if body:
            api.post(service, path, body)
        else:
            api.delete(service, path)
