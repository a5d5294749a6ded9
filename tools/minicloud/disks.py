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


"""Local disks of the compute hosts: loop devices on sparse files."""

import collections.abc
import json
import pathlib
import subprocess
import sys

from nova_diskplacer.disks import links
from tools.minicloud import process
from tools.minicloud.state import Host
from tools.minicloud.state import State

GIB = 2**30

#: settings of a loop device's queue, in the order of writing: -1 is the
#: kernel's default, and a new max_sectors_kb resets read_ahead_kb
DEFAULTS = {
    'scheduler': 'none',
    'wbt_lat_usec': '-1',
    'max_sectors_kb': '1280',
    'nomerges': '0',
    'rq_affinity': '1',
}


def share_mounts(state: State) -> None:
    """Let mounts below hosts/ be seen in the hosts' mount namespaces."""
    path = str(state.hosts_dir)
    if path not in mount_points(state):
        process.run('mount', '--bind', path, path)
        process.run('mount', '--make-shared', path)


def attach(backing: pathlib.Path) -> str:
    """Make a loop device of a file and return its path."""
    return process.run(
        'losetup', '--find', '--show', '--direct-io=on', str(backing)
    ).strip()


def attached(backing: pathlib.Path) -> list[str]:
    """Return the paths of the loop devices of a file."""
    return process.run(
        *('losetup', '--associated', str(backing)),
        *('--noheadings', '--output', 'NAME'),
    ).split()


def reset_queue(device: str) -> None:
    """Give a loop device the queue of a new one, as others get it later.

    The agent leaves the settings of a profile, and the kernel keeps them.
    """
    queue = pathlib.Path('/sys/block', pathlib.Path(device).name, 'queue')
    # the scheduler resets nr_requests
    for name, value in DEFAULTS.items():
        # not every kernel throttles writeback
        if (queue / name).exists():
            (queue / name).write_text(value)


def make(
    state: State,
    host: Host,
    make_device: collections.abc.Callable[[pathlib.Path], str] = attach,
) -> None:
    """Make and prepare the disks of a host; done already: nothing.

    :param make_device: makes one of an empty sparse file, returns its path.
    """
    state.disk_root(host.name).mkdir(parents=True, exist_ok=True)
    # not below hosts/: a bind mount would hide the file's path
    directory = state.path / 'devices'
    directory.mkdir(exist_ok=True)
    commands = []
    for medium in host.media:
        options = [] if medium == 'any' else [f'--medium={medium}']
        options += [f'--mbps={host.mbps}'] if host.mbps else []
        for index in range(host.disks):
            backing = directory / f'{host.name}-{medium}-{index}.raw'
            if backing.exists():
                continue
            with backing.open('wb') as stream:
                stream.truncate(host.disk_gb * GIB)
            commands.append(
                preparation(state, host.name, make_device(backing), *options)
            )
    manage_each(state, commands)


def manage_each(state: State, commands: list[list[str]]) -> None:
    """Run commands of diskplacer-manage, one after another."""
    # one process: to import takes longer than to prepare
    process.run(
        *(sys.executable, '-m', 'tools.minicloud.manage_each'),
        log=state.logs / 'disk-prepare.log',
        text=''.join(f'{json.dumps(argv)}\n' for argv in commands),
        env={'PYTHONPATH': str(pathlib.Path(__file__).parents[2])},
    )


def preparation(
    state: State, host: str, device: str, *options: str
) -> list[str]:
    """Return what makes a device a disk of a host, as an operator would."""
    return [
        f'--config-file={state.host_dir(host)}/diskplacer.conf',
        'disk',
        'prepare',
        f'--fstab={state.host_dir(host)}/fstab',
        *options,
        device,
    ]


def mount_points(state: State) -> list[str]:
    """Return the mount points in the cloud's directory, in mount order."""
    top = str(state.path) + '/'
    lines = pathlib.Path('/proc/self/mountinfo').read_text().splitlines()
    points = [line.split()[4] for line in lines]
    return [point for point in points if point.startswith(top)]


def run_dir(state: State) -> pathlib.Path:
    """Return where programs are recorded that disks stand on."""
    return state.run / 'disks'


def remove(state: State) -> None:
    """Unmount all, and free every loop device on a file of the cloud."""
    # of vdisks first: they are on disks that are unmounted
    _detach(str(state.hosts_dir) + '/')
    for point in reversed(mount_points(state)):
        if point.startswith(str(state.hosts_dir)):
            # a frozen filesystem could not be unmounted
            subprocess.run(
                ['fsfreeze', '--unfreeze', point], capture_output=True
            )
            _unmount(point)
    _detach(str(state.path) + '/')
    process.stop_recorded(run_dir(state), state.logs)
    _remove_sessions(state)
    for point in reversed(mount_points(state)):
        _unmount(point)


def _detach(top: str) -> None:
    """Free the loop devices on files below a directory."""
    text = process.run('losetup', '--json', '--list')
    for device in json.loads(text or '{}').get('loopdevices', []):
        # None: it is being detached
        if (device['back-file'] or '').startswith(top):
            reset_queue(device['name'])
            process.run('losetup', '--detach', device['name'])


def _remove_sessions(state: State) -> None:
    """Remove the names of devices of sessions, see tools.minicloud.iscsi."""
    by_path = pathlib.Path(links.device_of('', '', 0)).parent
    for device in by_path.glob(f'*.{state.token}:*'):
        device.unlink()


def _unmount(point: str) -> None:
    done = subprocess.run(['umount', point], capture_output=True)
    if done.returncode:
        process.run('umount', '--lazy', point)
