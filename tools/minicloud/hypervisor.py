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


"""libvirtd of the cloud's own.

It runs in a mount namespace where libvirt's directories (/run, /etc,
/var/lib, /var/log and /var/cache/libvirt) are directories of the cloud, so
a libvirtd of the machine, or of another cloud, is not disturbed. Mounts made
later below the cloud's hosts/ directory are seen in it.
"""

import contextlib
import os
import pathlib
import signal

from tools.minicloud import process
from tools.minicloud.process import Process
from tools.minicloud.state import State

DIRECTORIES = {
    'run': '/run/libvirt',
    'etc': '/etc/libvirt',
    'lib': '/var/lib/libvirt',
    'log': '/var/log/libvirt',
    'cache': '/var/cache/libvirt',
}
QEMU_CONF = """
user = "root"
group = "root"
dynamic_ownership = 0
security_driver = "none"
namespaces = []
stdio_handler = "file"
"""


def libvirtd(state: State) -> Process:
    directory = state.path / 'libvirt'
    binds = []
    for name, path in DIRECTORIES.items():
        (directory / name).mkdir(parents=True, exist_ok=True)
        pathlib.Path(path).mkdir(parents=True, exist_ok=True)
        binds.append(f'mount --bind "{directory}/{name}" {path}')
    (directory / 'etc' / 'qemu.conf').write_text(QEMU_CONF)
    (directory / 'etc' / 'libvirtd.conf').write_text(
        'auth_unix_rw = "none"\nauth_unix_ro = "none"\n'
    )
    libvirtd = f'exec libvirtd --pid-file "{directory}/libvirtd.pid"'
    script = ' && '.join([*binds, libvirtd])
    return Process(
        'libvirtd',
        ['unshare', '--mount', '--propagation', 'slave', 'sh', '-c', script],
        state.run,
        state.logs,
        ready=lambda: (
            (directory / 'run' / 'libvirt-sock').exists() and _answers(state)
        ),
    )


def uri(state: State) -> str:
    """Return the URI of the cloud's libvirtd."""
    socket = state.path / 'libvirt' / 'run' / 'libvirt-sock'
    return f'qemu+unix:///system?socket={socket}'


def virsh(state: State, *args: str) -> str:
    """Run virsh against the cloud's libvirtd."""
    return process.run('virsh', '--quiet', '--connect', uri(state), *args)


def hostname(state: State) -> str:
    """Return the hypervisor hostname that Nova will use."""
    return virsh(state, 'hostname').strip()


def end_guests(state: State) -> None:
    """Kill the QEMU processes of the cloud's libvirtd."""
    for path in (state.path / 'libvirt' / 'run' / 'qemu').glob('*.pid'):
        pid = int(path.read_text())
        try:
            command = pathlib.Path(f'/proc/{pid}/cmdline').read_bytes()
        except OSError:
            continue
        if str(state.path).encode() in command:
            os.kill(pid, signal.SIGKILL)
            process.wait(
                f'{path.stem}: end',
                lambda pid=pid: process.start_time(pid) is None,
            )


def remove_cgroups(state: State) -> None:
    """Remove the control groups of the cloud's guests, which have ended."""
    for top, directories, _ in os.walk('/sys/fs/cgroup', topdown=False):
        for name in directories:
            path = os.path.join(top, name)
            if f'-{state.token}-' in path or name == 'machine':
                # machine/ is shared: it stays if others are in it
                with contextlib.suppress(OSError):
                    os.rmdir(path)


def _answers(state: State) -> bool:
    try:
        return bool(hostname(state))
    except process.ProcessError:
        return False
