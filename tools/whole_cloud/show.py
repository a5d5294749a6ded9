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


"""Runs in the guest: what the cloud is put through, step by step."""

import json
import typing

from tools.minicloud import checks
from tools.minicloud import guest
from tools.minicloud import hypervisor
from tools.minicloud import moving
from tools.minicloud import process
from tools.minicloud.cloud import Cloud
from tools.testbed import machine
from tools.whole_cloud import facts
from tools.whole_cloud import setup

#: Legs of an elastic vdisk, the most disks that it can be on.
LEGS = 2
ELASTIC = 'elastic'
_NAME = 'guest of two emulators'
# What runs too seldom is not stalled.
_KERNEL = f'{machine.KERNEL} rcupdate.rcu_cpu_stall_suppress=1'


class WrongError(Exception):
    """Something is not as it must be."""


class Server(moving.Server):
    """A server whose guest writes and verifies; its vdisks are LVM's."""

    def vdisks(self, host: str) -> facts.Vdisks:
        """Return its vdisks on a host."""
        found = facts.vdisks(self.cloud.state, host)
        return {one: found[one] for one in self.volumes if one in found}

    def lies_on(self, host: str) -> bool:
        """Tell whether vdisks, claims and Cinder's volumes are on one host.

        Each vdisk has a logical volume there, and nothing is elsewhere.
        """
        there = self.vdisks(host)
        others = [one.name for one in setup.HOSTS if one.name != host]
        claimed = [disk for (disk,) in there.values()]
        return (
            set(there) == set(self.volumes)
            and not any(map(self.vdisks, others))
            and self.where() == {host}
            and checks.claims(self.cloud, self.uuid)
            == dict.fromkeys(claimed, moving.VDISK_GB)
        )


class Show:
    """Puts a cloud that runs through its steps, and keeps what they say."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.state = cloud.state
        self.hosts = [host.name for host in cloud.hosts]
        self.found: dict[str, typing.Any] = {}

    def check(self, what: str, holds: bool) -> None:
        """Say what was checked.

        :raises WrongError: it does not hold.
        """
        self.cloud.say(f'   {"ok" if holds else "WRONG"}: {what}')
        if not holds:
            raise WrongError(what)

    def create_image(self) -> None:
        """Make the image of a guest that is emulated within an emulation."""
        kernel, initramfs = guest.build_moving()
        self.image = self.cloud.create_guest_image(
            _NAME,
            kernel,
            initramfs,
            **guest.DRIVE_PROPERTIES,
            hw_machine_type='q35',
            os_command_line=_KERNEL,
        )

    def boot(self, name: str, host: str, **extra_specs: str) -> Server:
        """Boot a server on a host; its guest has verified what it wrote."""
        flavor = moving.create_flavor(self.cloud, name, **extra_specs)
        with self.cloud.step(f'{name}: server active'):
            uuid = self.cloud.api.create_server(
                name, flavor, self.image, host=host
            )
            self.cloud.api.wait_server(uuid)
        server = Server(self.cloud, uuid)
        self.verify(server, f'{name}: guest boots, writes and verifies')
        return server

    def verify(self, server: Server, step: str) -> None:
        """Wait until the guest has verified all that it writes from now."""
        with self.cloud.step(step):
            server.wait_verified()
        self.found['rounds'] = server.told()

    def manage(self, host: str, *words: str) -> str:
        """Run a command of diskplacer-manage that asks Cinder, too."""
        conf = self.state.host_dir(host) / 'cinder.conf'
        return self.cloud.manage(host, *words, f'--cinder-config-file={conf}')

    def drain(self, server: Server, host: str) -> None:
        """Empty a disk of a host under a server that runs there."""
        volume, (disk,) = next(iter(server.vdisks(host).items()))
        uri = hypervisor.uri(self.state, host)
        options = '--format=json', f'--libvirt-uri={uri}'
        with self.cloud.step('drain: a disk is emptied'):
            self.manage(host, 'disk', 'drain', disk, *options)
        (moved,) = server.vdisks(host)[volume]
        self.check('the vdisk is on another disk', moved != disk)
        self.check('its claim is there', server.lies_on(host))
        self.verify(server, 'drain: the guest verifies')
        self.manage(host, 'disk', 'drain', '--cancel', disk, *options)

    def migrate(self, server: Server, source: str, destination: str) -> None:
        """Migrate a server live, and wait for its data."""
        with self.cloud.step('live migration: the server has moved'):
            server.migrate_live(destination)
            server.wait_migrated(destination)
        connections = facts.connections()
        self.found['connections'] = connections
        self.cloud.say('\n'.join(f'   {one}' for one in connections))
        self.verify(server, 'live migration: the guest verifies')
        with self.cloud.step('live migration: the data has followed'):
            process.wait(
                'settled',
                lambda: server.lies_on(destination),
                moving.TIMEOUT,
                5,
            )
        with self.cloud.step('live migration: nothing is left'):
            process.wait('released', lambda: not facts.connections(), 60, 2)
        self.check(f'nothing is on {source}', not server.vdisks(source))
        self.verify(server, 'live migration: the guest verifies its copy')

    def change_width(self, server: Server, host: str, width: int) -> None:
        """Have the agent's decision change the width of a vdisk."""
        volume = server.volumes[0]
        with self.cloud.step(f'elastic: {width} disks'):
            self.cloud.manage(
                host, 'elastic', 'force', volume, f'--width={width}'
            )
            process.wait(
                'width',
                lambda: self._settled_width(server, host, volume) == width,
                moving.TIMEOUT,
                5,
            )
        self.verify(server, f'elastic: the guest verifies on {width} disks')

    def _settled_width(self, server: Server, host: str, volume: str) -> int:
        """Return on how many disks a vdisk is; 0 while it moves."""
        legs = server.vdisks(host)[volume]
        shown = self.cloud.api.volume(volume)['provider_id'] or ''
        claims = checks.claims(self.cloud, server.uuid)
        if sorted(shown.split(',')) != legs or not set(legs) <= set(claims):
            return 0
        return len(set(legs))

    def run(self) -> None:
        """Run all steps.

        :raises WrongError: something is not as it must be.
        """
        source, destination = self.hosts
        self.create_image()
        server = self.boot(moving.NAME, source)
        self.check('its vdisks are claimed', server.lies_on(source))
        self.drain(server, source)
        self.migrate(server, source, destination)
        with self.cloud.step('the server is deleted'):
            self.cloud.api.delete_server(server.uuid)
        server = self.boot(
            ELASTIC, source, mapping=ELASTIC, stripe_disks=f'1-{LEGS}'
        )
        for width in (LEGS, 1):
            self.change_width(server, source, width)
        with self.cloud.step('the elastic server is deleted'):
            self.cloud.api.delete_server(server.uuid)
            process.wait('volumes gone', lambda: not self.cloud.api.volumes())
        for host in self.hosts:
            left = facts.vdisks(self.state, host)
            self.check(f'no vdisk is left on {host}', not left)
        self.check('no device is left', not facts.mappings())
        self.audit()

    def audit(self) -> None:
        """Have the audit find nothing on both hosts."""
        for host in self.hosts:
            text = self.manage(host, 'disk', 'audit', '--format=json')
            findings = json.loads(text)['findings']
            self.check(f'the audit of {host} finds nothing', not findings)
