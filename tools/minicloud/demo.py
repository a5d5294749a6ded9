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


"""The demo: boot servers, show where their vdisks are, check it."""

import concurrent.futures
import dataclasses
import json
import pathlib
import time
import typing

from tools.minicloud import checks
from tools.minicloud import config
from tools.minicloud import ini
from tools.minicloud import process
from tools.minicloud.api import ApiError
from tools.minicloud.cloud import Cloud
from tools.minicloud.process import ProcessError

VDISKS = 4
VDISK_GB = 1
MAPPINGS = ('round_robin', 'consolidated')


@dataclasses.dataclass
class Server:
    name: str
    mapping: str
    host: str = ''
    uuid: str = ''
    claimed: dict[str, str | None] = dataclasses.field(default_factory=dict)
    actual: checks.Disks = dataclasses.field(default_factory=dict)


class Demo:
    """The steps of the demo on a running cloud; ``report`` is the outcome."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.servers: list[Server] = []
        self.checks: list[dict[str, typing.Any]] = []

    def run(self) -> None:
        cloud = self.cloud
        with cloud.step('one server of each mapping on the libvirt host'):
            for mapping in MAPPINGS:
                self._boot(
                    Server(mapping.replace('_', '-'), mapping),
                    host=cloud.libvirt_host,
                )
            self._wait_active()
        with cloud.step('six more servers at once'):
            six = [
                Server(f'more-{number}', MAPPINGS[number % 2])
                for number in range(1, 7)
            ]
            with concurrent.futures.ThreadPoolExecutor(len(six)) as pool:
                list(pool.map(self._boot, six))
            self._wait_active()
        with cloud.step('map'):
            self._show_map()
        with cloud.step('checks'):
            for server in self.servers:
                self._check_server(server)
            self._check_map()

    def delete(self) -> None:
        """Delete the servers and check that nothing is left of them."""
        with self.cloud.step('delete the servers'):
            for server in self.servers:
                self.cloud.api.delete('compute', f'/servers/{server.uuid}')
            for server in self.servers:
                self.cloud.api.wait_server_gone(server.uuid)
            # Nova does not wait for Cinder
            process.wait(
                'volumes gone',
                lambda: not self.cloud.api.volumes(),
                interval=1,
            )
            self._check('no volume is left', not self.cloud.api.volumes())
            files = [
                checks.by_files(self.cloud, host.name)
                for host in self.cloud.hosts
            ]
            self._check('no vdisk is left on a disk', not any(files))
            claims = [
                checks.claims(self.cloud, server.uuid)
                for server in self.servers
            ]
            self._check('no claim is left in Placement', not any(claims))

    def _boot(self, server: Server, **options: str) -> None:
        flavor = f'{server.mapping.replace("_", "-")}-{VDISKS}'
        server.uuid = self.cloud.api.create_server(
            server.name,
            self.cloud.flavors[flavor],
            self.cloud.image,
            VDISKS,
            VDISK_GB,
            **options,
        )
        self.servers.append(server)

    def _wait_active(self) -> None:
        for server in self.servers:
            if not server.host:
                found = self.cloud.api.wait_server(server.uuid)
                server.host = found['OS-EXT-SRV-ATTR:host']
                self.cloud.say(f'   {server.name}: on {server.host}')

    def _show_map(self) -> None:
        # agents report a change at their next look
        process.wait('map settled', self._map_complete, interval=1)
        self.cloud.say(self.cloud.manage(self.cloud.libvirt_host, 'map'))

    def _map_complete(self) -> bool:
        try:
            shown = self._map()
        except ProcessError:
            return False
        vdisks = [shown.get(server.uuid, []) for server in self.servers]
        # of what was not reported yet, only the claims are shown
        return all(
            ours and all(vdisk['volume_id'] for vdisk in ours)
            for ours in vdisks
        )

    def _map(self) -> dict[str, typing.Any]:
        return {
            server['server_id']: server['vdisks']
            for server in self.cloud.map()['servers']
        }

    def _check_server(self, server: Server) -> None:
        cloud, name = self.cloud, server.name
        volumes = set(cloud.api.attachments(server.uuid))
        self._check(
            f'{name}: {VDISKS} vdisks attached', len(volumes) == VDISKS
        )
        files = checks.by_files(cloud, server.host)
        server.actual = {
            volume: disk for volume, disk in files.items() if volume in volumes
        }
        self._check(
            f'{name}: every vdisk is a file on a disk of {server.host}',
            set(server.actual) == volumes,
        )
        self._check(
            f'{name}: {server.mapping}',
            checks.mapped_as_asked(
                server.mapping, list(server.actual.values())
            ),
        )
        claims = checks.claims(cloud, server.uuid)
        server.claimed = checks.claimed_disks(server.actual, claims, VDISK_GB)
        self._check(
            f'{name}: claimed in Placement just where the vdisks are',
            server.claimed == server.actual
            and sum(claims.values()) == VDISKS * VDISK_GB,
        )
        if server.host == cloud.libvirt_host:
            self._check(
                f"{name}: libvirt's domain has the same files",
                checks.by_domain(cloud, server.uuid) == server.actual,
            )
            self._check(
                f'{name}: the guest sees the vdisks',
                self._guest_vdisks(server) == [VDISK_GB * 2**30] * VDISKS,
            )

    def _guest_vdisks(self, server: Server) -> list[int]:
        def ready() -> str | None:
            text = self.cloud.api.console(server.uuid)
            return text if 'guest: ready' in text else None

        text = str(process.wait(f'guest of {server.name}', ready, 600, 1))
        return [
            int(line.split()[3])
            for line in text.splitlines()
            if line.startswith('guest: vdisk ')
        ]

    def _check_map(self) -> None:
        shown = self._map()
        for server in self.servers:
            vdisks = shown.get(server.uuid, [])
            actual = {one['volume_id']: one['actual_disk'] for one in vdisks}
            claimed = {one['volume_id']: one['claimed_disk'] for one in vdisks}
            self._check(
                f'{server.name}: diskplacer-manage map says the same',
                actual == server.actual == claimed
                and all(one['status'] == 'ok' for one in vdisks),
            )

    def _check(self, name: str, ok: bool) -> None:
        self.checks.append({'name': name, 'ok': ok})
        self.cloud.say(f'   {"ok    " if ok else "FAILED"} {name}')

    def report(self) -> dict[str, typing.Any]:
        """Return what ``--report`` writes."""
        return {
            'servers': [
                {
                    'name': server.name,
                    'host': server.host,
                    'mapping': server.mapping,
                    'vdisks': [
                        {
                            'volume_id': volume,
                            'claimed_disk': server.claimed[volume],
                            'actual_disk': disk,
                        }
                        for volume, disk in server.actual.items()
                    ],
                }
                for server in self.servers
            ],
            'checks': self.checks,
            'seconds': self.cloud.seconds,
        }


def run(
    path: pathlib.Path, keep: bool, report: str | None, spent: float
) -> int:
    """Run the demo and return its exit status: 0 if every check holds.

    :param spent: seconds that were spent on packages before.
    """
    begun = time.monotonic()
    cloud = Cloud(path)
    demo = Demo(cloud)
    cloud.seconds['packages and environment'] = spent
    started = False
    try:
        cloud.start()
        started = True
        demo.run()
        if not keep:
            demo.delete()
    except (ApiError, ProcessError):
        cloud.say(cloud.errors())
        raise
    finally:
        if keep and started:
            _say_how_to_use(cloud)
        else:
            cloud.stop()
        cloud.seconds['total'] = round(time.monotonic() - begun + spent, 1)
        if report:
            text = json.dumps(demo.report(), indent=2)
            pathlib.Path(report).write_text(text + '\n')
    failed = [one['name'] for one in demo.checks if not one['ok']]
    cloud.say(
        f'{len(demo.checks) - len(failed)} checks hold, {len(failed)} fail, '
        f'{cloud.seconds["total"]:.0f} s'
    )
    return 1 if failed else 0


def _say_how_to_use(cloud: Cloud) -> None:
    state = cloud.state
    openrc = state.path / 'openrc'
    openrc.write_text(config.openrc(state))
    openrc.chmod(0o600)
    conf = state.host_dir(cloud.libvirt_host) / 'diskplacer.conf'
    cloud.say(f"""
The cloud stays up.
  log in:     . {openrc}
  use:        openstack server list --all-projects
              openstack flavor list
              diskplacer-manage --config-file {conf} map
  programs:   are in {ini.BIN}
  logs:       {state.logs}
  take down:  tools/demo.sh --stop --state {state.path}
""")
