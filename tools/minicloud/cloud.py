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


"""The cloud: start it, use it, restart parts of it, take it down."""

import collections.abc
import concurrent.futures
import contextlib
import datetime
import json
import pathlib
import re
import shutil
import subprocess
import time
import types
import typing

import requests

from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import traits
from tools.minicloud import api
from tools.minicloud import backing
from tools.minicloud import config
from tools.minicloud import disks
from tools.minicloud import guest
from tools.minicloud import hypervisor
from tools.minicloud import ini
from tools.minicloud import process
from tools.minicloud import services
from tools.minicloud import state as states
from tools.minicloud.state import Host

FLAVORS: dict[str, dict[str, str | int]] = {
    'plain': {},
    'round-robin-4': {
        'vdisks': 4,
        'vdisk_gb': 1,
        'mapping': 'round_robin',
        'guest': 'plain',
    },
    'consolidated-4': {
        'vdisks': 4,
        'vdisk_gb': 1,
        'mapping': 'consolidated',
    },
}
IMAGE = 'guest'
HEAT_PATH = '/v1/%(tenant_id)s'
# The services of a host that report themselves up, and to which API.
HOST_SERVICES = {'nova-compute': 'compute', 'cinder-volume': 'volumev3'}
# How services tell times, in UTC.
SECOND = '%Y-%m-%dT%H:%M:%S'
# Seconds that agents have to report.
PATIENCE = 60
ERROR = ' (ERROR|CRITICAL) |No host is valid|Filtering removed all hosts'


def say(text: str) -> None:
    """Tell the user, at once."""
    print(text, flush=True)


class Cloud:
    """A cloud in directory ``path``; a context manager that removes it.

    ``say`` is told what is being done. ``seconds`` is what each step of
    :meth:`start` took; ``flavors`` and ``image`` are ids. A new cloud has a
    network only if it is to have one.
    """

    def __init__(
        self,
        path: pathlib.Path,
        hosts: tuple[Host, ...] = states.HOSTS,
        say: collections.abc.Callable[[str], object] = say,
        prepare_disks: collections.abc.Callable[
            [states.State, Host], None
        ] = disks.make,
        network: bool = False,
    ) -> None:
        self.state = states.load(path) or states.create(path, hosts, network)
        self.hosts = self.state.hosts
        self.say = say
        self.seconds: dict[str, float] = {}
        self.services = services.everything(self.state)
        self.flavors: dict[str, str] = {}
        self.image = ''
        self._prepare_disks = prepare_disks

    def __enter__(self) -> typing.Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def libvirt_host(self) -> str:
        """Name of the first compute host with real guests."""
        return hypervisor.hosts(self.state)[0]

    @contextlib.contextmanager
    def step(self, name: str) -> collections.abc.Iterator[None]:
        """Say and time a step."""
        self.say(f'-- {name}')
        begun = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - begun, 1)
        self.say(f'   {self.seconds[name]:.1f} s')

    # the whole

    def start(self) -> None:
        """Bring up a new cloud, with flavors, volume type and image.

        :raises ProcessError: something did not start; says what it printed.
        """
        with self.step('database, message broker, libvirt'):
            have_schemas = self._start_backing()
        with self.step('database schemas'):
            if not have_schemas:
                services.make_schemas(self.state)
                self.services['mariadb'].stop()
                backing.keep_data(self.state)
                self._start('mariadb')
            services.make_administrator(self.state)
        with self.step('APIs'):
            self._start('neutron', *services.apis(self.state))
            self.api = api.Api(self.state)
            self.api.register_endpoints()
            # a nova-compute that is there before the conductor waits for it
            self._start(*services.controllers(self.state))
        with self.step('disks'):
            with concurrent.futures.ThreadPoolExecutor() as pool:
                prepared = [
                    pool.submit(self._prepare_disks, self.state, host)
                    for host in self.hosts
                ]
            for one in prepared:
                one.result()
        with self.step('computes, volume services, agents'):
            started = [name for name in self.services if '@' in name]
            self._start('diskplacer-vendordata', *started)
        with self.step('flavors, volume type, image'):
            self._create_resources()
        with self.step('hosts ready'):
            process.wait('hosts', self.hosts_ready, 600, 1)

    def start_heat(self) -> None:
        """Bring up Heat, which :meth:`start` leaves out.

        :raises ProcessError: it did not start; says what it printed.
        """
        self.api.register_endpoint('orchestration', 'heat', HEAT_PATH)
        self._start('heat-api', 'heat-engine')

    def stop(self) -> None:
        """End what was started and remove the directory; safe to repeat."""
        self.say('-- stopping')
        stop(self.state)

    def attach(self) -> None:
        """Use a cloud that is up, such as one that the demo has kept."""
        self.api = api.Api(self.state)
        flavors = self.api.get('compute', '/flavors')['flavors']
        self.flavors = {one['name']: one['id'] for one in flavors}
        images = self.api.get('image', f'/v2/images?name={IMAGE}')['images']
        self.image = images[0]['id']

    def _start(self, *names: str) -> None:
        for name in names:
            self.services[name].start()
        for name in names:
            self.services[name].wait_ready()

    def _start_backing(self) -> bool:
        """Start what services need; tells whether they have their schemas."""
        disks.share_mounts(self.state)
        have_schemas = backing.make_data(self.state)
        self._start('epmd')
        hypervisors = services.hypervisors(self.state)
        self._start(*(name for name in hypervisors if 'namespaces' in name))
        self._start('mariadb', 'rabbitmq', 'memcached', *hypervisors)
        config.write_all(self.state)
        return have_schemas

    def _create_resources(self) -> None:
        # that of the disks of the backend called vdisk
        medium = self.hosts[0].media[0]
        for name, extra_specs in FLAVORS.items():
            media = {'media': medium} if extra_specs else {}
            self.flavors[name] = self.api.create_flavor(
                name, **extra_specs, **media
            )
        self.api.create_volume_type(
            'vdisk',
            **{
                'volume_backend_name': 'vdisk',
                'vdisk:mapping': 'round_robin',
            },
        )
        kernel, initramfs = guest.build()
        self.image = self.create_guest_image(IMAGE, kernel, initramfs)

    def create_guest_image(
        self,
        name: str,
        kernel: bytes,
        initramfs: bytes,
        **properties: str,
    ) -> str:
        """Upload a bootable image and return its id."""
        return self.api.create_image(
            name,
            b'\0' * 2**20,
            kernel_id=self.api.create_image(
                f'{name}-kernel', kernel, 'aki', 'aki'
            ),
            ramdisk_id=self.api.create_image(
                f'{name}-initramfs', initramfs, 'ari', 'ari'
            ),
            **properties,
        )

    def errors(self, since: str = '', lines: int = 5) -> str:
        """Return the last lines of each log that tell of an error.

        :param since: ISO 8601 time, with a space between date and time.
        """
        found = []
        for path in sorted(self.state.logs.glob('*.log')):
            text = path.read_text(errors='replace').splitlines()
            told = [
                one for one in text if one >= since and re.search(ERROR, one)
            ]
            found += [f'{path.stem}: {one}' for one in told[-lines:]]
        return '\n'.join(found)

    # its parts

    def restart(self, name: str) -> None:
        """Stop a service and start it again; waits until it answers."""
        self.services[name].stop()
        self.start_service(name)

    def stop_service(self, name: str) -> None:
        self.services[name].stop()

    def start_service(self, name: str) -> None:
        """Start a service; waits until it answers, or reports itself up."""
        begun = datetime.datetime.now(datetime.UTC)
        self._start(name)
        binary, _, host = name.partition('@')
        if binary in HOST_SERVICES:
            process.wait(
                f'{name}: report',
                lambda: (
                    self._reported(HOST_SERVICES[binary], binary, host)
                    > begun.strftime(SECOND)
                ),
            )

    def _reported(self, kind: str, binary: str, host: str) -> str:
        """Return in which second a service last reported itself up.

        Of several backends, that of the one whose report is the oldest.
        """
        path = f'/os-services?binary={binary}'
        return min(
            str(one['updated_at'] or '').partition('.')[0]
            for one in self.api.get(kind, path)['services']
            if one['host'].partition('@')[0] == host
        )

    def reported_since(self, begun: datetime.datetime) -> bool:
        """Return whether the services of all hosts have reported since."""
        return all(
            self._reported(kind, binary, host.name) > begun.strftime(SECOND)
            for host in self.hosts
            for binary, kind in HOST_SERVICES.items()
        )

    def hosts_ready(self) -> bool:
        """Return whether all hosts can take servers with vdisks."""
        computes = sorted(host.name for host in self.hosts)
        if self._up('compute', 'nova-compute') != computes:
            return False
        mapped = self.api.get('compute', '/os-hypervisors')['hypervisors']
        if len(mapped) != len(computes):
            return False
        backends = sorted(
            f'{host.name}@{name}'
            for host in self.hosts
            for name in host.backends
        )
        backups = sorted(host.name for host in self.hosts if host.backups)
        pools = self.api.get(
            'volumev3', '/scheduler-stats/get_pools?detail=true'
        )['pools']
        wanted = sum(host.disks * len(host.media) for host in self.hosts)
        return (
            self._up('volumev3', 'cinder-volume') == backends
            and self._up('volumev3', 'cinder-backup') == backups
            and len(pools) == len(backends)
            # a backend that reports before the agent has nothing to offer
            and all(
                pool['capabilities'].get('vdisk_largest_unclaimed_gb', 1)
                for pool in pools
            )
            and len(self.disk_providers()) == wanted
            and len(self._with_trait(traits.HOST)) == len(computes)
        )

    def _up(self, kind: str, binary: str) -> list[str]:
        """Return the hosts where a service is up, sorted."""
        path = f'/os-services?binary={binary}'
        return sorted(
            str(one['host'])
            for one in self.api.get(kind, path)['services']
            if one['state'] == 'up'
        )

    def disk_providers(self) -> dict[str, str]:
        """Return the disks' resource providers, {uuid: name}."""
        return self._with_trait(placement_client.DISK_TRAIT)

    def _with_trait(self, trait: str) -> dict[str, str]:
        """Return the resource providers with a trait, {uuid: name}."""
        path = f'/resource_providers?required={trait}'
        try:
            found = self.api.get('placement', path)['resource_providers']
        except api.ApiError as error:
            if error.status == requests.codes.bad_request:
                # the first agent makes the trait
                return {}
            raise
        return {one['uuid']: one['name'] for one in found}

    def run_manage(
        self, host: str, *args: str
    ) -> subprocess.CompletedProcess[str]:
        """Run diskplacer-manage with a host's configuration, logged in."""
        conf = self.state.host_dir(host) / 'diskplacer.conf'
        return subprocess.run(
            [
                f'{ini.BIN}/diskplacer-manage',
                f'--config-file={conf}',
                *args,
            ],
            env=process.environment(**config.login(self.state)),
            capture_output=True,
            text=True,
        )

    def manage(
        self, host: str, *args: str, allowed: tuple[int, ...] = (0,)
    ) -> str:
        """Run diskplacer-manage and return its output.

        :raises ProcessError: its exit status is not ``allowed``; says what it
            printed.
        """
        done = self.run_manage(host, *args)
        if done.returncode not in allowed:
            raise process.ProcessError(
                f'diskplacer-manage {" ".join(args)}: '
                f'exit {done.returncode}: {done.stdout}{done.stderr}'
            )
        return done.stdout

    def attempt(
        self, *argv: str, openrc: str = 'openrc'
    ) -> subprocess.CompletedProcess[str]:
        """Run a program with nothing but the variables of an openrc file.

        :param openrc: name of the file in the directory of the cloud.
        """
        return subprocess.run(
            [
                'sh',
                '-c',
                '. "$0" && exec "$@"',
                f'{self.state.path}/{openrc}',
                *argv,
            ],
            env=process.environment(),
            capture_output=True,
            text=True,
        )

    def run(self, *argv: str, openrc: str = 'openrc') -> str:
        """Run a program as ``attempt`` does and return its output.

        :raises ProcessError: its exit status is not 0; says what it printed.
        """
        done = self.attempt(*argv, openrc=openrc)
        if done.returncode:
            raise process.ProcessError(
                f'{" ".join(argv)}: exit {done.returncode}: '
                f'{done.stdout}{done.stderr}'
            )
        return done.stdout

    def upgrade_check(self) -> list[dict[str, typing.Any]]:
        """Return the checks of diskplacer-status, decoded.

        Each has its name (``check``), ``result`` (0: well) and ``details``.
        """
        done = self.attempt(
            'diskplacer-status',
            f'--config-file={self.state.conf}/nova.conf',
            f'--cinder-config-file={self.state.conf}/cinder.conf',
            'upgrade',
            'check',
            '--json',
        )
        return list(json.loads(done.stdout)['checks'])

    def map(self, *args: str) -> typing.Any:
        """Return what ``diskplacer-manage map`` says, decoded.

        Its exit status is 3 if space is claimed for long without vdisks.
        """
        text = self.manage(
            self.libvirt_host,
            'map',
            '--format=json',
            f'--timeout={PATIENCE}',
            *args,
            allowed=(0, 3),
        )
        return json.loads(text)


def stop(state: states.State) -> None:
    """Take down a cloud: processes, guests, mounts, loop devices, files."""
    process.stop_recorded(state.run, state.logs)
    hypervisor.end_guests(state)
    hypervisor.remove_ports(state)
    hypervisor.remove_cgroups(state)
    disks.remove(state)
    shutil.rmtree(state.path, ignore_errors=True)
