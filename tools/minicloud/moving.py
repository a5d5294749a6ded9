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

"""A server that moves live to another host, and its vdisks after it.

Its guest writes to the vdisks and verifies what it has written all the time.
"""

import collections.abc
import json
import re

from tools.minicloud import checks
from tools.minicloud import guest
from tools.minicloud import process
from tools.minicloud.cloud import Cloud

VDISKS = 2
VDISK_GB = 1
NAME = 'moving'
# Seconds that an emulated guest may take for anything.
TIMEOUT = 1200

#: Told of what was checked, and whether it holds.
Check = collections.abc.Callable[[str, bool], None]


class MovingServer:
    """A server whose guest verifies its vdisks; ``uuid`` is its id.

    :param host: it boots there.
    """

    def __init__(self, cloud: Cloud, host: str) -> None:
        self.cloud = cloud
        kernel, initramfs = guest.build_moving()
        image = cloud.create_guest_image(
            NAME, kernel, initramfs, **guest.DRIVE_PROPERTIES
        )
        flavor = cloud.api.create_flavor(
            NAME,
            ram=guest.MOVING_RAM,
            vdisks=VDISKS,
            vdisk_gb=VDISK_GB,
            mapping='round_robin',
            media='ssd',
        )
        self.uuid = cloud.api.create_server(NAME, flavor, image, host=host)

    def wait_started(self) -> None:
        """Wait until the guest verifies its vdisks."""
        self.cloud.api.wait_server(self.uuid)
        self.volumes = self.cloud.api.attachments(self.uuid)
        self.wait_verified()

    def wait_verified(self) -> None:
        """Wait until the guest has verified what it writes from now on."""
        before = self._rounds()
        # the round that it is at may have begun before
        process.wait(
            'verified', lambda: self._rounds() > before + 1, TIMEOUT, 1
        )

    def _rounds(self) -> int:
        """Return how many times the guest has written and verified."""
        console = self.cloud.api.console(self.uuid)
        found = re.findall('guest: checked ([0-9]+)', console)
        return int(found[-1]) if found else 0

    @property
    def wrong(self) -> list[str]:
        """What the guest says of blocks that are not as it wrote them."""
        console = self.cloud.api.console(self.uuid)
        return re.findall('guest: WRONG.*', console)

    @property
    def host(self) -> str:
        """The host that the server is on."""
        server = self.cloud.api.server(self.uuid)
        return str(server['OS-EXT-SRV-ATTR:host'])

    def migrate(self, host: str) -> None:
        """Have Nova migrate the server live, and wait until it is there."""
        self.cloud.api.action(
            self.uuid,
            **{'os-migrateLive': {'host': host, 'block_migration': 'auto'}},
        )
        process.wait(
            f'server on {host}',
            lambda: self.host == host and self._is_active(),
            TIMEOUT,
            1,
        )

    def _is_active(self) -> bool:
        server = self.cloud.api.server(self.uuid)
        return (server['status'], server['OS-EXT-STS:task_state']) == (
            'ACTIVE',
            None,
        )

    def wait_settled(self) -> None:
        """Wait until the vdisks are on the server's host, and there alone."""
        host = self.host
        process.wait(
            f'vdisks on {host}',
            lambda: self._volume_hosts() == {host},
            TIMEOUT,
            1,
        )
        process.wait(
            'former vdisks deleted',
            lambda: self._file_hosts() == {host},
            TIMEOUT,
            1,
        )

    def _volume_hosts(self) -> set[str]:
        """Return the hosts that Cinder has the volumes on."""
        volumes = map(self.cloud.api.volume, self.volumes)
        return {
            volume['os-vol-host-attr:host'].partition('@')[0]
            for volume in volumes
        }

    def _file_hosts(self) -> set[str]:
        """Return the hosts that have files of the volumes."""
        return {
            host.name for host in self.cloud.hosts if self.disks(host.name)
        }

    def disks(self, host: str) -> checks.Disks:
        """Return {volume id: disk} of the server's vdisks on a host."""
        return {
            volume: disk
            for volume, disk in checks.by_files(self.cloud, host).items()
            if volume in self.volumes
        }


def migrate(server: MovingServer, host: str, check: Check) -> None:
    """Migrate a server live; show and check where its vdisks are."""
    server.wait_started()
    _check_disks(server, check)
    server.migrate(host)
    server.cloud.say(f'   on {host}; its vdisks follow')
    server.wait_settled()
    _check_disks(server, check)
    server.wait_verified()
    wrong = server.wrong
    for line in wrong:
        server.cloud.say(line)
    check(f'{NAME}: the guest found every block as it wrote it', not wrong)


def _check_disks(server: MovingServer, check: Check) -> None:
    cloud, host = server.cloud, server.host
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
    disks = server.disks(host)
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
