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


"""Removes what Nova leaves of a live migration that it does not end.

nova-compute that is killed meanwhile forgets it. The server runs where it was,
and has attachments, and claims, of both hosts. An operator does what is in
doc/source/admin/repair-migration.rst.
"""

import pathlib
import shutil
import typing

from tools.minicloud import hypervisor
from tools.minicloud import ini
from tools.minicloud import process
from tools.storm import moved_server


class Remains:
    """What Nova has left of the migrations of a server, which has no task."""

    def __init__(self, server: moved_server.Server) -> None:
        self._cloud = server.cloud
        self._api = server.cloud.api
        self._server = server

    def is_nothing(self) -> bool:
        return not (
            self._misled()
            or self._unknown()
            or self._migrations()
            or self._directories()
        )

    def remove(self) -> list[str]:
        """Remove them, and return what was done."""
        means = []
        if migrations := self._migrations():
            means.append('resource provider allocation set')
            for migration in migrations:
                self._take_back(migration)
        misled = self._misled()
        if misled:
            self._set_power('os-stop', 'SHUTOFF')
        if unknown := self._unknown():
            means.append('volume attachment delete')
            for attachment in unknown:
                self._api.delete('volumev3', f'/attachments/{attachment}')
        if misled:
            # Cinder refuses a second attachment to one host
            means.append('nova-manage volume_attachment refresh')
            self._refresh(misled)
            means.append('server start')
            self._set_power('os-start', 'ACTIVE')
        if directories := self._directories():
            means.append('rm -r of its directory')
            for directory in directories:
                shutil.rmtree(directory)
        return means

    def _known(self) -> dict[str, str]:
        """Return the attachment that Nova has of each volume."""
        path = f'/servers/{self._server.uuid}/os-volume_attachments'
        found = self._api.get('compute', path)['volumeAttachments']
        return {one['volumeId']: one['attachment_id'] for one in found}

    def _misled(self) -> list[str]:
        """Return the volumes that Nova has attached to another host."""
        host = self._server.host()
        found = []
        for volume, known in self._known().items():
            hosts = {
                one['attachment_id']: one['host_name']
                for one in self._api.volume(volume)['attachments']
            }
            if hosts.get(known) != host:
                found.append(volume)
        return found

    def _unknown(self) -> list[str]:
        """Return the attachments of the volumes that Nova does not have."""
        found = []
        for volume, known in self._known().items():
            path = f'/attachments?volume_id={volume}'
            attachments = self._api.get('volumev3', path)['attachments']
            found += [one['id'] for one in attachments if one['id'] != known]
        return found

    def _migrations(self) -> list[dict[str, typing.Any]]:
        """Return the migrations of the server that have its claims."""
        path = f'/os-migrations?instance_uuid={self._server.uuid}'
        return [
            one
            for one in self._api.get('compute', path)['migrations']
            if self._api.allocations(one['uuid'])
        ]

    def _directories(self) -> list[pathlib.Path]:
        """Return the directories that other hosts have of the server.

        Nova lets no server migrate to a host that has one.
        """
        state, host = self._cloud.state, self._server.host()
        paths = [
            state.host_dir(one.name) / 'nova/instances' / self._server.uuid
            for one in state.hosts
            if one.name != host
        ]
        return [path for path in paths if path.exists()]

    def _take_back(self, migration: dict[str, typing.Any]) -> None:
        """Have a server have the claims that its migration has, if any."""
        before = self._claims(migration['uuid'])
        after = {migration['uuid']: before | {'allocations': {}}}
        if migration['source_compute'] == self._server.host():
            own = self._claims(self._server.uuid)
            after[self._server.uuid] = own | {
                'allocations': before['allocations']
            }
        self._place('POST', '/allocations', json=after)

    def _claims(self, consumer: str) -> dict[str, typing.Any]:
        """Return the claims of a consumer, as they can be written."""
        found = dict(self._place('GET', f'/allocations/{consumer}'))
        found['allocations'] = {
            provider: {'resources': one['resources']}
            for provider, one in found['allocations'].items()
        }
        return found

    def _place(
        self, method: str, path: str, **body: typing.Any
    ) -> dict[str, typing.Any]:
        """Call Placement, for which consumers have no types."""
        headers = {'OpenStack-API-Version': 'placement 1.37'}
        answer: dict[str, typing.Any] = self._api.call(
            'placement', method, path, headers=headers, **body
        )
        return answer

    def _refresh(self, volumes: list[str]) -> None:
        state, host = self._cloud.state, self._server.host()
        connector = state.path / 'connector.json'
        connector.write_text(
            self._manage(
                f'{state.host_dir(host)}/nova.conf', 'get_connector', '--json'
            )
        )
        for volume in volumes:
            self._manage(
                f'{state.conf}/nova.conf',
                'refresh',
                self._server.uuid,
                volume,
                str(connector),
            )

    def _manage(self, conf: str, *words: str) -> str:
        """Run ``nova-manage volume_attachment`` on the host of the server."""
        argv = [
            f'{ini.BIN}/nova-manage',
            f'--config-file={conf}',
            'volume_attachment',
            *words,
        ]
        return process.run(
            *hypervisor.within(self._cloud.state, self._server.host(), argv)
        )

    def _set_power(self, action: str, status: str) -> None:
        self._api.action(self._server.uuid, **{action: None})
        self._api.wait_server(self._server.uuid, status)
