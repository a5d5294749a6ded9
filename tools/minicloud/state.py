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


"""What a cloud keeps in its directory: ports, secrets, paths, hosts."""

import dataclasses
import json
import pathlib
import random
import secrets
import socket

from tools.minicloud.process import SLOWER

PORTS = (
    'mariadb',
    'rabbitmq',
    'rabbitmq_dist',
    'epmd',
    'memcached',
    'keystone',
    'placement',
    'glance',
    'nova',
    'cinder',
    'neutron',
    'vendordata',
    'heat',
)

# what keeps chosen ports from being chosen by others
_claims: list[socket.socket] = []


@dataclasses.dataclass(frozen=True)
class Host:
    """A compute host of the cloud.

    ``guests`` is libvirt or fake; ``disks`` is how many local disks it has
    of each of ``media`` (hdd, ssd or any), ``disk_gb`` the size of each in
    GiB, ``mbps`` what each can do in MB/s and ``iops`` in requests per second
    (0: whatever the machine below does). It runs cinder-backup if it is to
    take ``backups``. Servers can move to it and from it if it has ``moves``.
    If its disks are volume groups (``lvm``), it has the kernel's iSCSI for
    that, and moves elastic vdisks.
    """

    name: str
    guests: str = 'fake'
    disks: int = 4
    disk_gb: int = 12
    mbps: int = 0
    iops: int = 0
    media: tuple[str, ...] = ('any',)
    backups: bool = False
    moves: bool = False
    lvm: bool = False

    @property
    def backends(self) -> dict[str, str]:
        """Cinder's backends, by name, with the medium of each."""
        first, *others = self.media
        return {'vdisk': first} | {f'vdisk-{one}': one for one in others}


# Two backends on the first one: vdisk, and vdisk-hdd with disks of its own.
HOSTS = (
    Host('compute1', 'libvirt', media=('ssd', 'hdd'), backups=True),
    Host('compute2', media=('ssd',)),
    Host('compute3', media=('ssd',)),
)


@dataclasses.dataclass
class State:
    """Paths, ports and secrets of the cloud in directory ``path``.

    After ``down`` seconds without a report a service is held to be down: the
    machine may be slow. ``volumes_down`` is that of cinder-volume. Servers can
    have a port of a network if the cloud has a ``network``.
    """

    path: pathlib.Path
    hosts: tuple[Host, ...] = HOSTS
    ports: dict[str, int] = dataclasses.field(default_factory=dict)
    secret: str = ''
    token: str = ''
    down: int = round(180 * SLOWER)
    volumes_down: int = round(180 * SLOWER)
    network: bool = False

    @property
    def conf(self) -> pathlib.Path:
        return self.path / 'conf'

    @property
    def logs(self) -> pathlib.Path:
        return self.path / 'logs'

    @property
    def run(self) -> pathlib.Path:
        return self.path / 'run'

    @property
    def hosts_dir(self) -> pathlib.Path:
        return self.path / 'hosts'

    def host_dir(self, host: str) -> pathlib.Path:
        return self.hosts_dir / host

    def lock_dir(self, host: str) -> str:
        """Return the directory of the locks of a host."""
        return f'{self.host_dir(host)}/run'

    def disk_root(self, host: str) -> pathlib.Path:
        return self.host_dir(host) / 'disks'

    def url(self, service: str) -> str:
        """Return the root URL of an API service."""
        suffix = {'keystone': '/v3'}.get(service, '')
        return f'http://127.0.0.1:{self.ports[service]}{suffix}'

    def save(self) -> None:
        """Make the directories and write what ``load`` reads."""
        for path in (self.conf, self.logs, self.run, self.hosts_dir):
            path.mkdir(parents=True, exist_ok=True)
        content = dataclasses.asdict(self) | {'path': str(self.path)}
        (self.path / 'cloud.json').write_text(json.dumps(content, indent=2))


def create(
    path: pathlib.Path,
    hosts: tuple[Host, ...] = HOSTS,
    network: bool = False,
) -> State:
    """Return the state of a new cloud: free ports, a new password."""
    state = State(
        path.resolve(),
        hosts,
        free_ports(),
        secrets.token_hex(12),
        network=network,
    )
    state.token = f'mc{state.ports["keystone"]}'
    state.save()
    return state


def load(path: pathlib.Path) -> State | None:
    """Return the state that ``path`` holds, None if it holds none."""
    try:
        content = json.loads((path / 'cloud.json').read_text())
    except FileNotFoundError:
        return None
    content['path'] = pathlib.Path(content['path'])
    content['hosts'] = tuple(
        Host(**host | {'media': tuple(host['media'])})
        for host in content['hosts']
    )
    return State(**content)


def free_ports() -> dict[str, int]:
    """Choose a port for each service, as ``free_port`` does."""
    return {name: free_port() for name in PORTS}


def free_port() -> int:
    """Choose a port below the range that outgoing connections use.

    Nobody else chooses it while this process runs: it keeps the UDP port of
    the same number.
    """
    while True:
        port = random.randint(20000, 32000)
        claim = socket.socket(type=socket.SOCK_DGRAM)
        try:
            claim.bind(('127.0.0.1', port))
            with socket.socket() as sock:
                sock.bind(('127.0.0.1', port))
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return port
