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


"""The demo: boot servers, show where their vdisks are, move one, check it.

No request names a volume: the flavor gives each server its vdisks.
"""

import collections.abc
import concurrent.futures
import dataclasses
import functools
import json
import pathlib
import time
import typing

from tools.minicloud import api
from tools.minicloud import checks
from tools.minicloud import ini
from tools.minicloud import moving
from tools.minicloud import process
from tools.minicloud import state as states
from tools.minicloud import tenant
from tools.minicloud.api import ApiError
from tools.minicloud.cloud import FLAVORS
from tools.minicloud.cloud import Cloud
from tools.minicloud.process import ProcessError

VDISKS = 4
VDISK_GB = 1
MAPPINGS = ('round_robin', 'consolidated')
FLAVOR = f'round-robin-{VDISKS}'
HEAT = 'heat'
# Servers can move between all hosts. From the last one, which has no room for
# other flavors, one with a real guest moves to the first one.
SOURCE = states.Host(
    'compute4', 'libvirt', disks=2, disk_gb=3, media=('ssd',), moves=True
)
HOSTS = (
    *(dataclasses.replace(host, moves=True) for host in states.HOSTS),
    SOURCE,
)
# More than the quota of volumes holds.
TOO_MANY = 40


@dataclasses.dataclass
class Server:
    name: str
    mapping: str
    host: str = ''
    uuid: str = ''
    claimed: dict[str, str | None] = dataclasses.field(default_factory=dict)
    actual: checks.Disks = dataclasses.field(default_factory=dict)

    @property
    def flavor(self) -> str:
        return f'{self.mapping.replace("_", "-")}-{VDISKS}'


class Demo:
    """The steps of the demo on a running cloud; ``report`` is the outcome."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.servers: list[Server] = []
        self.checks: list[dict[str, typing.Any]] = []
        self.tenant: tenant.Tenant
        self.moving = ''

    def run(self) -> None:
        cloud = self.cloud
        # its guest boots meanwhile
        self.moving = cloud.api.create_server(
            moving.NAME,
            moving.create_flavor(cloud),
            moving.create_image(cloud),
            host=SOURCE.name,
        )
        with cloud.step('one server of each mapping on the libvirt host'):
            for mapping in MAPPINGS:
                self._boot(
                    Server(mapping.replace('_', '-'), mapping),
                    host=cloud.libvirt_host,
                    config_drive=True,
                )
            # meanwhile
            cloud.start_heat()
            self._wait_active()
        with cloud.step('six servers of a tenant at once'):
            self._boot_as_tenant()
        with cloud.step('requests with wrong volumes'):
            self._check_refusals()
        with cloud.step('map settled'):
            # agents report a change at their next look
            process.wait('map', self._map_complete, interval=1)
        with cloud.step('openstack vdisk and diskplacer-status'):
            self._check_commands()
        with cloud.step('checks'):
            for server in self.servers:
                self._check_server(server)
            for server in self.servers[: len(MAPPINGS)]:
                self._check_vendor_data(server)
            self._check_map()
        with cloud.step('a server migrates live, with its vdisks'):
            moving.show_migration(
                cloud,
                self.moving,
                (SOURCE.name, cloud.libvirt_host),
                self._check,
            )

    def delete(self) -> None:
        """Delete the servers and check that nothing is left of them."""
        with self.cloud.step('delete the servers'):
            with concurrent.futures.ThreadPoolExecutor() as pool:
                stack = pool.submit(self.tenant.delete_stack, HEAT)
                for server in self.servers:
                    if server.name != HEAT:
                        path = f'/servers/{server.uuid}'
                        self.cloud.api.delete('compute', path)
                self.cloud.api.delete_server(self.moving)
            stack.result()
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
                checks.claims(self.cloud, uuid)
                for uuid in (
                    self.moving,
                    *(server.uuid for server in self.servers),
                )
            ]
            self._check('no claim is left in Placement', not any(claims))

    def _boot(self, server: Server, **options: typing.Any) -> None:
        server.uuid = self.cloud.api.create_server(
            server.name,
            self.cloud.flavors[server.flavor],
            self.cloud.image,
            **options,
        )
        self.servers.append(server)

    def _boot_as_tenant(self) -> None:
        self.tenant = user = tenant.Tenant(self.cloud, 'analyst')
        ways: list[tuple[Server, collections.abc.Callable[..., str]]] = [
            (Server('command', 'round_robin'), user.by_command),
            (
                Server('command-2.1', 'round_robin'),
                functools.partial(user.by_command, version=tenant.FIRST),
            ),
            (Server('sdk', 'round_robin'), user.by_sdk),
            (Server(HEAT, 'round_robin'), user.by_heat),
            (Server('api-1', 'consolidated'), user.by_api),
            (Server('api-2', 'consolidated'), user.by_api),
        ]
        with concurrent.futures.ThreadPoolExecutor(len(ways)) as pool:
            created = [
                pool.submit(way, server.name, server.flavor)
                for server, way in ways
            ]
        for (server, _), uuid in zip(ways, created, strict=True):
            server.uuid = uuid.result()
            self.servers.append(server)
        self._wait_active()

    def _check_refusals(self) -> None:
        image = self.cloud.image
        for what, answer, options in (
            (
                f'{VDISKS - 1} volumes',
                f'brings {VDISKS - 1} volumes of {VDISK_GB} GiB',
                api.with_volumes(image, VDISKS - 1, VDISK_GB),
            ),
            (
                f'volumes of {VDISK_GB + 1} GiB',
                f'brings {VDISKS} volumes of {VDISK_GB + 1} GiB',
                api.with_volumes(image, VDISKS, VDISK_GB + 1),
            ),
            (
                f'{TOO_MANY} servers at once',
                f'volumes is exceeded: {TOO_MANY * VDISKS} requested',
                {'min_count': TOO_MANY},
            ),
        ):
            self._check(
                f'a request for {what} gets: {answer}',
                answer in self._refusal(options),
            )

    def _refusal(self, options: dict[str, typing.Any]) -> str:
        """Return why a server is refused, '' if it is not."""
        try:
            self.tenant.by_api('refused', FLAVOR, **options)
        except ApiError as error:
            return str(error)
        return ''

    def _check_commands(self) -> None:
        """Run what an administrator runs with nothing but an openrc file."""
        run, attempt = self.cloud.run, self.cloud.attempt
        vdisk = ('openstack', 'vdisk')
        json_ = '--format=json'
        with concurrent.futures.ThreadPoolExecutor() as pool:
            shown = pool.submit(run, *vdisk, 'list')
            listed = pool.submit(run, *vdisk, 'list', '--long', json_)
            found = pool.submit(attempt, *vdisk, 'check')
            capacity = pool.submit(
                run, *vdisk, 'capacity', f'--flavor={FLAVOR}', json_
            )
            checked = pool.submit(self.cloud.upgrade_check)
        self.cloud.say(shown.result())
        vdisks = {
            one['Volume']: one['Actual disk']
            for one in json.loads(listed.result())
        }
        self._check(
            'openstack vdisk list shows every vdisk on its disk',
            vdisks
            == {
                volume: disk
                for host in self.cloud.hosts
                for volume, disk in checks.by_files(
                    self.cloud, host.name
                ).items()
            },
        )
        self._check(
            'openstack vdisk check finds nothing wrong',
            found.result().returncode == 0,
        )
        rows = json.loads(capacity.result())
        self._check(
            'openstack vdisk capacity lists every host and finds room',
            # the servers may fill a host, but not all of them
            len(rows) == len(self.cloud.hosts)
            and any(one['Servers'] > 0 for one in rows),
        )
        for one in checked.result():
            self._check(
                f'diskplacer-status: {one["check"]}: '
                f'{one["details"] or "Success"}',
                one['result'] == 0,
            )

    def _wait_active(self) -> None:
        for server in self.servers:
            if not server.host:
                found = self.cloud.api.wait_server(server.uuid)
                server.host = found['OS-EXT-SRV-ATTR:host']
                self.cloud.say(f'   {server.name}: on {server.host}')

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

    def _check_vendor_data(self, server: Server) -> None:
        data = checks.vendor_data(self.cloud, server.host, server.uuid)
        if 'guest' in FLAVORS[server.flavor]:
            self._check(
                f'{server.name}: vendor data has cloud-init mount the vdisks',
                'boothook' in data,
            )
        else:
            self._check(f'{server.name}: vendor data is empty', not data)

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
    path: pathlib.Path,
    keep: bool,
    report: str | None,
    spent: float,
    network: bool,
) -> int:
    """Run the demo and return its exit status: 0 if every check holds.

    :param spent: seconds that were spent on packages before.
    """
    begun = time.monotonic()
    cloud = Cloud(path, HOSTS, network=network)
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
    conf = state.host_dir(cloud.libvirt_host) / 'diskplacer.conf'
    cloud.say(f"""
The cloud stays up.
  log in:     . {state.path}/openrc
  use:        openstack server list --all-projects
              openstack flavor list
              openstack vdisk list
              diskplacer-manage --config-file {conf} map
  programs:   are in {ini.BIN}
  logs:       {state.logs}
  take down:  tools/demo.sh --stop --state {state.path}
""")
