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


"""A server that moves, whose guest writes to its vdisks and verifies them.

Nothing here asks the project's own code.
"""

import json
import re
import typing

from tools.minicloud import checks
from tools.minicloud import guest
from tools.minicloud import hypervisor
from tools.minicloud import process
from tools.minicloud.cloud import Cloud
from tools.minicloud.state import Host
from tools.storm import reading

VDISKS = 2
REAL = 'compute1', 'compute2'
FAKE = 'compute3', 'compute4'
HOSTS = tuple(
    Host(
        name,
        'libvirt' if name in REAL else 'fake',
        disks=3,
        media=('ssd',),
        moves=True,
    )
    for name in REAL + FAKE
)
SETTLER = 'diskplacer-settle'
# seconds: processors are emulated, and shared with all else that goes on
TIMEOUT = 900
RECORD = 'vdisk_move_phase'
_FAST = 8192


class WrongError(Exception):
    """A guest has read something else than it has written."""


def create_image(cloud: Cloud) -> str:
    """Upload the image of the guest and return its id."""
    kernel, initramfs = guest.build_moving()
    return cloud.create_guest_image(
        'verifying', kernel, initramfs, **guest.DRIVE_PROPERTIES
    )


def create_flavor(cloud: Cloud) -> str:
    """Make the flavor of servers that move and return its id."""
    return cloud.api.create_flavor(
        'moving',
        ram=guest.MOVING_RAM,
        vdisks=VDISKS,
        vdisk_gb=1,
        mapping='round_robin',
        media='ssd',
    )


class Server:
    """A server with vdisks: what it says, and where it and its data are."""

    def __init__(self, cloud: Cloud, uuid: str) -> None:
        self._cloud = cloud
        self._api = cloud.api
        self.uuid = uuid
        self.volumes = self._api.attachments(uuid)

    def numbers(self, word: str) -> list[int]:
        """Return the numbers that the guest has told of something.

        :raises WrongError: the guest has read what it has not written.
        """
        console = self._api.console(self.uuid)
        if 'guest: WRONG' in console:
            raise WrongError(console[-2000:])
        return [
            int(one) for one in re.findall(f'guest: {word} ([0-9]+)', console)
        ]

    def told(self) -> int:
        """Return the last round that the guest has told of, or 0."""
        return max(self.numbers('checked'), default=0)

    def wait_verified(self) -> None:
        """Wait until the guest has verified what it writes from now on."""
        before = self.told()
        process.wait('verified', lambda: self.told() > before + 1, TIMEOUT, 1)

    def wait_restarted(self, told: int) -> None:
        """Wait until the guest has started from what it told of, or later."""
        process.wait(
            'restarted',
            lambda: max(self.numbers('was at'), default=-1) >= told,
            TIMEOUT,
            1,
        )

    def host(self) -> str:
        return str(self._api.server(self.uuid)['OS-EXT-SRV-ATTR:host'])

    def is_idle(self) -> bool:
        return self._api.server(self.uuid)['OS-EXT-STS:task_state'] is None

    def migrate_live(self) -> None:
        """Ask for a live migration to a host that the scheduler chooses."""
        self._api.action(
            self.uuid,
            **{'os-migrateLive': {'host': None, 'block_migration': 'auto'}},
        )

    def limit_migration(self, mib_per_s: int = _FAST) -> None:
        """Set how fast the guest's memory is copied from where it runs."""
        hypervisor.virsh(
            self._cloud.state,
            self.host(),
            'migrate-setspeed',
            self.uuid,
            str(mib_per_s),
        )

    def wait_migrated(self, host: str) -> None:
        """Wait until the server runs on a host.

        :raises ApiError: it went to ERROR instead; says why.
        """
        process.wait(
            f'server on {host}',
            lambda: self.host() == host and self.is_idle(),
            TIMEOUT,
            1,
        )
        self._api.wait_server(self.uuid)

    def abort_migration(self) -> None:
        """Abort the live migration, which has begun to copy memory."""
        path = f'/servers/{self.uuid}/migrations'

        def is_aborted() -> bool:
            for one in self._api.get('compute', path)['migrations']:
                if one['status'] == 'running':
                    self._api.delete('compute', f'{path}/{one["id"]}')
                    return True
            return False

        process.wait('migration to abort', is_aborted, TIMEOUT)

    def where(self) -> set[str]:
        """Return the hosts that Cinder has the volumes on."""
        return {
            self._api.volume(one)['os-vol-host-attr:host'].partition('@')[0]
            for one in self.volumes
        }

    def files(self, host: str) -> checks.Disks:
        """Return {volume: disk} of the server's vdisks on a host's disks."""
        return {
            volume: disk
            for volume, disk in checks.by_files(self._cloud, host).items()
            if volume in self.volumes
        }

    def phases(self) -> set[str]:
        """Return the phases of the moves of its volumes, of those that move.

        :raises pymysql.MySQLError: the database does not answer.
        """
        volumes = ', '.join(f"'{one}'" for one in self.volumes)
        rows = reading.query(
            self._cloud.state,
            'cinder',
            'SELECT value FROM volume_admin_metadata WHERE deleted = 0'
            f" AND `key` = '{RECORD}' AND volume_id IN ({volumes})",
        )
        return {row['value'] for row in rows}

    def wait_settled(self, host: str, timeout: float = TIMEOUT) -> None:
        """Wait until all of a server is on a host, and nothing elsewhere.

        :raises ProcessError: not within ``timeout`` seconds.
        """
        process.wait('settled', lambda: self.where() == {host}, timeout, 1)
        found: list[str] = []

        def is_clean() -> bool:
            found[:] = self.remains(host) + connections(self._cloud)
            return not found

        try:
            process.wait('released', is_clean, timeout, 1)
        except process.ProcessError as error:
            raise process.ProcessError(f'{error}: {found}') from error

    def remains(self, host: str) -> list[str]:
        """Return what moves have left, of a server that is on a host.

        It has all its vdisks there, with a claim each, and nothing else of it
        is anywhere: record, file, link, claim or guest.
        """
        facts = reading.read(self._cloud)
        names = {f'volume-{one}': one for one in self.volumes}
        found = [f'phase {phase}' for phase in sorted(self.phases())]
        expected = dict.fromkeys(self.files(host).values(), 1)
        if len(expected) != len(self.volumes):
            found.append(f'vdisks on {host}: {self.files(host)}')
        claims = {
            disk: provider.claims
            for disk, provider in facts.providers.items()
            if provider.claims.keys() - facts.servers.keys()
            or provider.claims.get(self.uuid, 0) != expected.get(disk, 0)
        }
        if claims:
            found.append(f'claims {claims}, expected {expected}')
        for disk in facts.disks.values():
            found += [
                f'file {disk.host}/{disk.uuid}/{file.name}'
                for file in disk.files
                if file.name in names and disk.host != host
            ]
        return found + self._elsewhere(host)

    def _elsewhere(self, host: str) -> list[str]:
        """Return links, devices and guests on hosts where it is not."""
        state = self._cloud.state
        found = []
        for other in self._cloud.hosts:
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
