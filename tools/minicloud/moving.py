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

"""A server that moves to another host, and its vdisks after it.

Its guest writes to the vdisks and verifies what it has written all the time.
"""

import collections.abc
import json
import re
import typing

from tools.minicloud import checks
from tools.minicloud import guest
from tools.minicloud import process
from tools.minicloud.cloud import Cloud

VDISKS = 2
VDISK_GB = 1
NAME = 'moving'
# Seconds: processors are emulated, and shared with all else that goes on.
TIMEOUT = 900

#: Told of what was checked, and whether it holds.
Check = collections.abc.Callable[[str, bool], None]


#: What the guest says when it has read what it has not written.
WRONG = 'guest: WRONG'
#: What its kernel says when it crashes, but not of a mere warning.
CRASH = ': 0000 [#1] '


class WrongError(Exception):
    """A guest has read something else than it has written, or crashed."""


class CrashError(WrongError):
    """The kernel of a guest has crashed, and no wrong byte was read."""


def create_image(cloud: Cloud) -> str:
    """Upload the image of the guest and return its id."""
    kernel, initramfs = guest.build_moving()
    return cloud.create_guest_image(
        NAME, kernel, initramfs, **guest.DRIVE_PROPERTIES
    )


def create_flavor(
    cloud: Cloud,
    name: str = NAME,
    vdisks: int = VDISKS,
    mapping: str = 'round_robin',
    **extra_specs: str,
) -> str:
    """Make a flavor of servers that move and return its id."""
    return cloud.api.create_flavor(
        name,
        ram=guest.MOVING_RAM,
        vdisks=vdisks,
        vdisk_gb=VDISK_GB,
        mapping=mapping,
        media='ssd',
        **extra_specs,
    )


class Server:
    """A server with vdisks: what it says, and where it and its data are.

    :param uuid: its id; its vdisks are attached.
    """

    def __init__(self, cloud: Cloud, uuid: str) -> None:
        self.cloud = cloud
        self.uuid = uuid
        self.volumes = cloud.api.attachments(uuid)

    def numbers(self, word: str) -> list[int]:
        """Return the numbers that the guest has told of something.

        :raises WrongError: the guest has read what it has not written.
        :raises CrashError: its kernel has crashed.
        """
        console = self.cloud.api.console(self.uuid)
        if WRONG in console:
            raise WrongError(console[-2000:])
        if CRASH in console:
            raise CrashError(console[-2000:])
        return [
            int(one) for one in re.findall(f'guest: {word} ([0-9]+)', console)
        ]

    def told(self) -> int:
        """Return the last round that the guest has told of, or 0."""
        return max(self.numbers('checked'), default=0)

    def wait_verified(self) -> None:
        """Wait until the guest has verified what it writes from now on."""
        before = self.told()
        # the round that it is at may have begun before
        process.wait('verified', lambda: self.told() > before + 1, TIMEOUT, 1)

    def wait_restarted(self, told: int) -> None:
        """Wait until the guest has started from what it told of, or later."""
        process.wait(
            'restarted',
            lambda: max(self.numbers('was at'), default=-1) >= told,
            TIMEOUT,
            1,
        )

    def _shown(self) -> dict[str, typing.Any]:
        """Return what Nova shows of it."""
        return dict(self.cloud.api.server(self.uuid))

    def host(self) -> str:
        return str(self._shown()['OS-EXT-SRV-ATTR:host'])

    def is_idle(self) -> bool:
        return self._shown()['OS-EXT-STS:task_state'] is None

    def migrate_live(self, host: str | None = None) -> None:
        """Ask for a live migration.

        :param host: where to; None: the scheduler chooses.
        """
        self.cloud.api.action(
            self.uuid,
            **{'os-migrateLive': {'host': host, 'block_migration': 'auto'}},
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
        self.cloud.api.wait_server(self.uuid)

    def where(self) -> set[str]:
        """Return the hosts that Cinder has the volumes on."""
        volumes = map(self.cloud.api.volume, self.volumes)
        return {
            volume['os-vol-host-attr:host'].partition('@')[0]
            for volume in volumes
        }

    def files(self, host: str) -> checks.Disks:
        """Return {volume id: disk} of the server's vdisks on a host."""
        return {
            volume: disk
            for volume, disk in checks.by_files(self.cloud, host).items()
            if volume in self.volumes
        }


def show_migration(
    cloud: Cloud, uuid: str, hosts: tuple[str, str], check: Check
) -> None:
    """Migrate a server live; show and check where its vdisks are.

    :param uuid: a server that boots on the first of the hosts and moves to the
        second one.
    """
    cloud.api.wait_server(uuid)
    server = Server(cloud, uuid)
    source, destination = hosts
    server.wait_verified()
    _check_vdisks(server, source, check)
    server.migrate_live(destination)
    server.wait_migrated(destination)
    cloud.say(f'   on {destination}; its vdisks follow')
    process.wait(
        f'vdisks on {destination} alone',
        lambda: server.where() == {destination} and not server.files(source),
        TIMEOUT,
        1,
    )
    _check_vdisks(server, destination, check)
    try:
        server.wait_verified()
    except WrongError as error:
        cloud.say(str(error))
        wrong = True
    else:
        wrong = False
    check(f'{NAME}: the guest found every block as it wrote it', not wrong)


def _check_vdisks(server: Server, host: str, check: Check) -> None:
    cloud = server.cloud
    vdisk_list = ('openstack', 'vdisk', 'list', f'--server={server.uuid}')

    def reported() -> bool:
        """Return whether the host's agent has reported the vdisks."""
        text = cloud.run(*vdisk_list, '--long', '--format=json')
        rows = json.loads(text)
        return len(rows) == VDISKS and all(
            row['Host'].endswith(host) and row['Status'] == 'ok'
            for row in rows
        )

    process.wait(f'vdisks reported by {host}', reported, interval=1)
    cloud.say(cloud.run(*vdisk_list))
    disks = server.files(host)
    check(
        f'{NAME}: its vdisks are files on distinct disks of {host}',
        set(disks) == set(server.volumes)
        and checks.mapped_as_asked('round_robin', list(disks.values())),
    )
    check(
        f'{NAME}: claimed in Placement just there',
        checks.claims(cloud, server.uuid)
        == dict.fromkeys(disks.values(), VDISK_GB),
    )
