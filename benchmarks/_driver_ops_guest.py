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

"""Runs in the guest: the operations of one driver, for driver_ops.

``python _driver_ops_guest.py ops DRIVER JSON`` and ``... fio DRIVER JSON``
print figures as JSON on their last line. DRIVER is filesystem, lvm, or
stock_lvm, Cinder's own.
"""

import concurrent.futures
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import typing
import uuid

from cinder import objects

# before anything else of Cinder, which uses them when imported
objects.register_all()

from cinder import context as cinder_context  # noqa: E402
from cinder import coordination  # noqa: E402
from cinder import rpc  # noqa: E402
from cinder import utils as cinder_utils  # noqa: E402
from cinder.volume import configuration  # noqa: E402
from cinder.volume import manager  # noqa: E402
from cinder.volume import volume_types  # noqa: E402
from oslo_config import cfg  # noqa: E402
from oslo_utils import importutils  # noqa: E402

from cinder_vdisk_mapper.cinder_api.releases import db_api  # noqa: E402
from cinder_vdisk_mapper.cinder_api.releases import models  # noqa: E402
from nova_diskplacer.agent import placement_sync  # noqa: E402
from nova_diskplacer.disks import discover  # noqa: E402
from nova_diskplacer.disks import prepare  # noqa: E402
from nova_diskplacer.disks.lvm import prepare as lvm_prepare  # noqa: E402
from nova_diskplacer.placement import client as placement_client  # noqa: E402

CONNECTOR = {
    'host': 'testbed',
    'ip': '127.0.0.1',
    'initiator': 'iqn.1993-08.org.debian:01:testbed',
}
GROUP = 'cinder-volumes'
PROJECT = str(uuid.UUID(int=1))
PLACEMENT = '_driver_ops_placement.py'
CONF = """
[DEFAULT]
host = testbed
enabled_backends = measured
state_path = {directory}
transport_url = fake:/
[database]
connection = sqlite:///{directory}/cinder.sqlite
sqlite_synchronous = False
[oslo_concurrency]
lock_path = {directory}/locks
[coordination]
backend_url = file://{directory}/coordination
[placement]
auth_type = admin_token
endpoint = {placement}
token = admin
{privsep}
[measured]
volume_clear = none
"""
OURS = """
volume_driver = cinder_vdisk_mapper.driver.VDiskMapperDriver
vdisk_backend = {driver}
vdisk_disk_root = {directory}/disks
"""
STOCK = """
volume_driver = cinder.volume.drivers.lvm.LVMVolumeDriver
volume_group = {group}
lvm_type = {type}
target_helper = tgtadm
target_ip_address = 127.0.0.1
volumes_dir = {directory}/volumes
"""
# Without sudo: the guest has none, and everything runs as root.
PRIVSEP = """
[{section}]
helper_command = privsep-helper --config-file {directory}/cinder.conf
"""
SECTIONS = (
    'cinder_sys_admin',
    'privsep_osbrick',
    'vdisk_privsep',
    'vdisk_lvm_privsep',
)

Settings = dict[str, typing.Any]
Figures = dict[str, float]


def run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f'{argv}: {done.stdout}{done.stderr}')
    return done.stdout


def started(
    stack: contextlib.ExitStack, *argv: str, **options: typing.Any
) -> 'subprocess.Popen[str]':
    """Start a program that is ended with the stack."""
    process = subprocess.Popen(argv, text=True, **options)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def prepared(
    driver: str, directory: pathlib.Path, device: str, thin: bool
) -> discover.Disk:
    """Return a new disk of ours."""
    return prepare.prepare(
        str(directory / 'disks'),
        device,
        medium='hdd',
        fstab=str(directory / 'fstab'),
        lvm_options=lvm_prepare.Options(thin=thin)
        if driver == 'lvm'
        else None,
    )


class Bench:
    """One driver, set up as cinder-volume does, and its volumes."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        directory: pathlib.Path,
        stack: contextlib.ExitStack,
    ) -> None:
        self.size_gb = settings['gb']
        url = ''
        if name == 'stock_lvm':
            self._start_stock(settings, directory, stack)
            backend = STOCK.format(
                group=GROUP,
                type='thin' if settings['thin'] else 'default',
                directory=directory,
            )
        else:
            placed = started(
                stack,
                sys.executable,
                str(
                    pathlib.Path(__file__).parent / '_driver_ops_placement.py'
                ),
                str(directory / 'placement.sqlite'),
                stdout=subprocess.PIPE,
            )
            url = placed.stdout.readline().strip()
            for device in settings['devices']:
                prepared(name, directory, device, settings['thin'])
            backend = OURS.format(driver=name, directory=directory)
        path = directory / 'cinder.conf'
        privsep = ''.join(
            PRIVSEP.format(section=section, directory=directory)
            for section in SECTIONS
        )
        path.write_text(
            CONF.format(directory=directory, placement=url, privsep=privsep)
            + backend
        )
        cfg.CONF([], project='cinder', default_config_files=[str(path)])
        rpc.init(cfg.CONF)
        # in place of sudo and rootwrap, for what still uses these
        cinder_utils.get_root_helper = lambda: 'env'
        engine = db_api.main_context_manager.writer.get_engine()
        models.BASE.metadata.create_all(engine)
        self.context = cinder_context.RequestContext(
            PROJECT, PROJECT, is_admin=True, overwrite=False
        )
        self.type_id = volume_types.create(self.context, 'measured').id
        coordination.COORDINATOR.start()
        stack.callback(coordination.COORDINATOR.stop)
        if url:
            self._publish(directory)
        self.driver = self._driver()

    def _start_stock(
        self,
        settings: Settings,
        directory: pathlib.Path,
        stack: contextlib.ExitStack,
    ) -> None:
        (directory / 'volumes').mkdir()
        pathlib.Path('/etc/tgt/conf.d/cinder.conf').write_text(
            f'include {directory}/volumes/*\n'
        )
        started(stack, 'tgtd', '--foreground')
        run('vgcreate', '--yes', GROUP, *settings['devices'])

    def _publish(self, directory: pathlib.Path) -> None:
        """Do as the agent does."""
        client = placement_client.PlacementClient.from_conf(cfg.CONF)
        client._call(
            'post',
            '/resource_providers',
            {'name': 'testbed', 'uuid': str(uuid.uuid4())},
        )
        client.ensure_names()
        placement_sync.PlacementSync(client, 'testbed').reconcile(
            list(discover.discover(str(directory / 'disks')))
        )

    def _driver(self) -> typing.Any:
        options = configuration.Configuration(
            manager.volume_backend_opts, config_group='measured'
        )
        driver = importutils.import_object(
            options.volume_driver,
            configuration=options,
            db=db_api,
            host='testbed@measured',
            cluster_name=None,
            is_vol_db_empty=True,
        )
        driver.do_setup(self.context)
        driver.check_for_setup_error()
        driver.init_capabilities()
        driver.set_initialized()
        return driver

    def _volume(self) -> typing.Any:
        found = objects.Volume(
            self.context,
            size=self.size_gb,
            status='available',
            attach_status='detached',
            host='testbed@measured#measured',
            user_id=PROJECT,
            project_id=PROJECT,
            volume_type_id=self.type_id,
            availability_zone='nova',
            use_quota=False,
        )
        found.create()
        return objects.Volume.get_by_id(self.context, found.id)

    def _snapshot(self, volume: typing.Any) -> typing.Any:
        found = objects.Snapshot(
            self.context,
            volume_id=volume.id,
            volume_size=volume.size,
            status='creating',
            user_id=PROJECT,
            project_id=PROJECT,
            volume_type_id=self.type_id,
            use_quota=False,
        )
        found.create()
        return found

    def attach(self, volume: typing.Any) -> typing.Any:
        update = self.driver.create_export(self.context, volume, CONNECTOR)
        if update:
            # the driver reads again where the volume is
            volume.update(update)
            volume.save()
        connection = self.driver.initialize_connection(volume, CONNECTOR)
        if not connection['driver_volume_type']:
            raise RuntimeError(f'no connection: {connection}')
        return update

    def detach(self, volume: typing.Any) -> None:
        self.driver.terminate_connection(volume, CONNECTOR)
        self.driver.remove_export(self.context, volume)

    def measure(self, count: int, at_once: int) -> Figures:
        """Take ``count`` volumes through all operations.

        :returns: operations per second, and seconds that one takes, as the
            median, for each operation.
        """
        figures: Figures = {}

        def each(
            name: str | None,
            function: typing.Callable[..., typing.Any],
            *lists: list[typing.Any],
        ) -> None:
            def timed(*args: typing.Any) -> tuple[float, typing.Any]:
                begun = time.monotonic()
                update = function(*args)
                return time.monotonic() - begun, update

            begun = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
                done = list(pool.map(timed, *lists))
            total = time.monotonic() - begun
            for record, (_, update) in zip(lists[0], done, strict=True):
                if update:
                    record.update(update)
                    record.save()
            print(
                f'{at_once} at a time: {len(done)} {function.__name__}: '
                f'{total:.1f} s',
                file=sys.stderr,
                flush=True,
            )
            if name:
                figures[f'{name}_per_s'] = len(done) / total
                figures[f'{name}_s'] = statistics.median(
                    seconds for seconds, _ in done
                )

        volumes = [self._volume() for _ in range(count)]
        clones = [self._volume() for _ in range(count)]
        each('create', self.driver.create_volume, volumes)
        each('attach', self.attach, volumes)
        each('detach', self.detach, volumes)
        snapshots = [self._snapshot(volume) for volume in volumes]
        each('snapshot', self.driver.create_snapshot, snapshots)
        each('clone', self.driver.create_cloned_volume, clones, volumes)
        each(None, self.driver.delete_snapshot, snapshots)
        for one in snapshots:
            one.destroy()
        each('delete', self.driver.delete_volume, clones + volumes)
        for one in clones + volumes:
            one.destroy()
        return figures


def ops(name: str, settings: Settings) -> Figures:
    figures: Figures = {}
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(tempfile.mkdtemp(prefix='ops-', dir='/srv'))
        # privsep trusts directories that only root may change
        directory.chmod(0o755)
        bench = Bench(name, settings, directory, stack)
        bench.measure(1, 1)
        for at_once, count in settings['counts']:
            for figure, value in bench.measure(count, at_once).items():
                figures[f'{figure}_{at_once}'] = value
    return figures


# name, what fio does, size of a request, depth
LOADS = (
    ('write', 'write', '1M', 8),
    ('read', 'read', '1M', 8),
    ('randwrite', 'randwrite', '4k', 16),
    ('randread', 'randread', '4k', 16),
)
# as long as few blocks have been written
FIRST = ('first_randwrite', 'randwrite', '4k', 16)


def loaded(path: str, settings: Settings) -> Figures:
    """Return MB/s of large requests and small ones per second."""
    figures = load(path, settings, *FIRST)
    # what a thin volume has not allocated, no disk is asked for
    run(
        'fio', '--name=fill', f'--filename={path}', '--rw=write', '--bs=1M',
        '--direct=1', f'--size={settings["gb"]}G',
    )  # fmt: skip
    for one in LOADS:
        figures.update(load(path, settings, *one))
    return figures


def load(
    path: str, settings: Settings, name: str, rw: str, bs: str, depth: int
) -> Figures:
    printed = run(
        'fio', '--name=load', f'--filename={path}', f'--rw={rw}',
        f'--bs={bs}', f'--iodepth={depth}', '--direct=1',
        '--ioengine=libaio', '--time_based',
        '--ramp_time=3', f'--runtime={settings["seconds"]}',
        f'--size={settings["gb"]}G', '--output-format=json',
    )  # fmt: skip
    job = json.loads(printed)['jobs'][0]
    part = job['write' if 'write' in rw else 'read']
    return {name: part['iops'] if bs == '4k' else part['bw_bytes'] / 1e6}


def fio(name: str, settings: Settings) -> dict[str, Figures]:
    """Load a bare disk, then a vdisk of the same size on it."""
    (device,) = settings['devices']
    bare = loaded(device, settings)
    run('wipefs', '--all', device)
    run('blkdiscard', '--force', device)
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(tempfile.mkdtemp(prefix='fio-', dir='/srv'))
        directory.chmod(0o755)
        bench = Bench(name, settings, directory, stack)
        volume = bench._volume()
        bench.attach(volume)
        vdisk = loaded(bench.driver.local_path(volume), settings)
        bench.driver.delete_volume(volume)
    return {'bare': bare, 'vdisk': vdisk}


def main() -> None:
    what, name, settings = sys.argv[1:]
    call = {'ops': ops, 'fio': fio}[what]
    print(json.dumps(call(name, json.loads(settings))))


if __name__ == '__main__':
    main()
