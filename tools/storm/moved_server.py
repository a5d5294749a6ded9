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


"""A server that moves between two hosts, and what its moves leave.

Nothing here asks the project's own code.
"""

import collections.abc
import json
import typing

from tools.minicloud import hypervisor
from tools.minicloud import moving
from tools.minicloud import process
from tools.minicloud.cloud import Cloud
from tools.minicloud.state import Host
from tools.storm import reading

REAL = 'compute1', 'compute2'
HOSTS = tuple(
    Host(name, 'libvirt', disks=4, media=('ssd',), moves=True) for name in REAL
)
SETTLER = 'diskplacer-settle'
RECORD = 'vdisk_move_phase'
_FAST = 8192


class Server(moving.Server):
    """A server that moves, with the records of its moves."""

    def limit_migration(self, mib_per_s: int = _FAST) -> None:
        """Set how fast the guest's memory is copied from where it runs."""
        hypervisor.virsh(
            self.cloud.state,
            self.host(),
            'migrate-setspeed',
            self.uuid,
            str(mib_per_s),
        )

    def abort_migration(self) -> None:
        """Abort the live migration, which has begun to copy memory."""
        path = f'/servers/{self.uuid}/migrations'

        def is_aborted() -> bool:
            for one in self.cloud.api.get('compute', path)['migrations']:
                if one['status'] == 'running':
                    self.cloud.api.delete('compute', f'{path}/{one["id"]}')
                    return True
            return False

        process.wait('migration to abort', is_aborted, moving.TIMEOUT)

    def phases(self) -> set[str]:
        """Return the phases of the moves of its volumes, of those that move.

        :raises pymysql.MySQLError: the database does not answer.
        """
        volumes = ', '.join(f"'{one}'" for one in self.volumes)
        rows = reading.query(
            self.cloud.state,
            'cinder',
            'SELECT value FROM volume_admin_metadata WHERE deleted = 0'
            f" AND `key` = '{RECORD}' AND volume_id IN ({volumes})",
        )
        return {row['value'] for row in rows}

    def wait_settled(
        self,
        host: str,
        timeout: float = moving.TIMEOUT,
        besides: collections.abc.Container[str] = (),
    ) -> None:
        """Wait until all of a server is on a host, and nothing elsewhere.

        :param besides: what does not count, of what :meth:`left` returns.
        :raises ProcessError: not within ``timeout`` seconds.
        """
        process.wait('settled', lambda: self.where() == {host}, timeout, 1)
        found: list[str] = []

        def is_clean() -> bool:
            found[:] = [one for one in self.left(host) if one not in besides]
            return not found

        try:
            process.wait('released', is_clean, timeout, 1)
        except process.ProcessError as error:
            raise process.ProcessError(f'{error}: {found}') from error

    def left(self, host: str) -> list[str]:
        """Return what moves have left, of a server that is on a host.

        That is its remains, and all connections of the cloud.
        """
        return self.remains(host) + connections(self.cloud)

    def remains(self, host: str) -> list[str]:
        """Return what moves have left, of a server that is on a host.

        It has all its vdisks there, with a claim each, and nothing else of it
        is anywhere: record, file, link, claim or guest.
        """
        facts = reading.read(self.cloud)
        names = {f'volume-{one}': one for one in self.volumes}
        found = [f'phase {phase}' for phase in sorted(self.phases())]
        expected = dict.fromkeys(self.files(host).values(), 1)
        if len(expected) != len(self.volumes):
            found.append(f'vdisks on {host}: {self.files(host)}')
        for disk, provider in facts.providers.items():
            claimed = provider.claims.get(self.uuid, 0)
            if claimed != expected.get(disk, 0):
                found.append(
                    f'claim of {claimed} GiB on {disk}, expected {expected}'
                )
            found += [
                f'claim of {consumer} on {disk}'
                for consumer in provider.claims
                if consumer not in facts.servers
            ]
        for disk in facts.disks.values():
            found += [
                f'file {disk.host}/{disk.uuid}/{file.name}'
                for file in disk.files
                if file.name in names and disk.host != host
            ]
        return found + self._elsewhere(host)

    def _elsewhere(self, host: str) -> list[str]:
        """Return links, devices and guests on hosts where it is not."""
        state = self.cloud.state
        found = []
        for other in self.cloud.hosts:
            if other.name == host:
                continue
            root = state.disk_root(other.name)
            found += [
                str(path.relative_to(state.path))
                for one in self.volumes
                for path in root.glob(f'by-*/**/volume-{one}')
            ]
            if other.guests == 'libvirt' and self.uuid in hypervisor.virsh(
                state, other.name, 'list', '--all', '--uuid'
            ):
                found.append(f'guest on {other.name}')
        return found


def connections(cloud: Cloud) -> list[str]:
    """Return all exports, logins, remote links and devices of no file."""
    state = cloud.state
    left = [
        *(state.path / 'targets').glob('*'),
        *(state.path / 'sessions').glob('*'),
    ]
    for host in cloud.hosts:
        left += state.disk_root(host.name).glob('remote/*')
    found = [str(path.relative_to(state.path)) for path in left]
    listed = process.run('losetup', '--list', '--json')
    devices: list[dict[str, typing.Any]] = (
        json.loads(listed)['loopdevices'] if listed else []
    )
    return found + [
        f'{one["name"]} of {one["back-file"]}'
        for one in devices
        if one['back-file'].startswith(str(state.path))
        and one['back-file'].endswith('(deleted)')
    ]
