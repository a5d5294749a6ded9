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


"""A project whose user the clients log in as, and what they leave in it."""

import collections.abc
import contextlib
import typing

from tools.minicloud import checks
from tools.minicloud import config
from tools.minicloud import process
from tools.minicloud.api import ApiError
from tools.minicloud.cloud import Cloud
from tools.minicloud.process import ProcessError
from tools.minicloud.tenant import Tenant

FLAVOR = 'round-robin-4'
#: What a server is expected to have of that flavor.
ALL_VDISKS = 'ACTIVE, 4 vdisks on 4 disks'
NOTHING = 'nothing is left'
VDISK_TYPE = 'vdisk'
# Seconds: services share processors with clients that compile and render.
_TIMEOUT = 600
_LEFT_TIMEOUT = 180


class Project(Tenant):
    """A new project with a new user, both called ``name``.

    :param default_type: the project's default volume type; '': the cloud's,
        which is that of the vdisks.
    """

    def __init__(
        self, cloud: Cloud, name: str, default_type: str = ''
    ) -> None:
        super().__init__(cloud, name)
        self.name = name
        self.uuid = str(self.api.session.get_project_id())
        if default_type:
            cloud.api.call(
                'volumev3',
                'PUT',
                f'/default-types/{self.uuid}',
                json={'default_type': {'volume_type': default_type}},
            )

    def login(self) -> dict[str, str]:
        """Return the variables that the user's clients log in with."""
        return config.login(self.cloud.state, self.name, self.name)

    def server(self, name: str, timeout: float = _TIMEOUT) -> str:
        """Wait until a server has been created and return its ID.

        :raises ProcessError: there is none in so many seconds.
        """

        def found() -> str:
            servers = [one for one in self._servers() if one['name'] == name]
            return str(servers[0]['id']) if servers else ''

        return str(process.wait(f'server {name}', found, timeout, 1))

    def outcome(self, server: str) -> str:
        """Wait until a server is built, and return what came of it."""
        try:
            found = self.cloud.api.wait_server(server, timeout=_TIMEOUT)
        except ApiError as error:
            return f'ERROR {error}'
        attached = {
            volume: self.cloud.api.volume(volume)
            for volume in self.cloud.api.attachments(server)
        }
        roots = [one for one in attached.values() if _is_root(one)]
        files = checks.by_files(self.cloud, found['OS-EXT-SRV-ATTR:host'])
        disks = [
            files.get(volume)
            for volume, one in attached.items()
            if one['volume_type'] == VDISK_TYPE and not _is_root(one)
        ]
        text = f'ACTIVE, {len(disks)} vdisks on {len(set(disks))} disks'
        return ', '.join([text, *map(_described, roots)])

    def volumes(self) -> list[str]:
        """Return the IDs of the project's volumes, sorted."""
        return sorted(one['id'] for one in self._volumes())

    def left(self) -> str:
        """Return what is left when all servers have been deleted."""

        def settled() -> bool:
            return not self._servers() and all(
                one['status'] == 'available' for one in self._volumes()
            )

        with contextlib.suppress(ProcessError):
            process.wait('deletion', settled, _LEFT_TIMEOUT, 1)
        texts = [
            f'server {one["name"]} {one["status"]}' for one in self._servers()
        ]
        texts += [
            f'{_described(one)}, {one["status"]}' for one in self._volumes()
        ]
        return '; '.join(texts) or NOTHING

    def clear(self) -> None:
        """Delete all servers, and then the volumes that are left."""
        for one in self._servers():
            self.cloud.api.delete_server(one['id'])
        self.left()
        for one in self._volumes():
            self.cloud.api.delete_volume(one['id'])

    def _servers(self) -> list[dict[str, typing.Any]]:
        found = self.api.get('compute', '/servers/detail')['servers']
        return list(found)

    def _volumes(self) -> list[dict[str, typing.Any]]:
        found = self.api.get('volumev3', '/volumes/detail')['volumes']
        return list(found)


def _is_root(volume: collections.abc.Mapping[str, typing.Any]) -> bool:
    return volume['bootable'] == 'true'


def _described(volume: collections.abc.Mapping[str, typing.Any]) -> str:
    kind = 'root volume' if _is_root(volume) else 'volume'
    return f'{kind} of type {volume["volume_type"]}'
