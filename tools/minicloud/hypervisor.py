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


"""Hosts with real guests: namespaces and a libvirtd for each.

In the mount and UTS namespaces of a host, libvirt's directories (/run, /etc,
/var/lib, /var/log and /var/cache/libvirt) are directories of the host, so a
libvirtd of the machine, of another host or of another cloud is not disturbed.
The directory of Nova's instances has one path on all hosts, as live migration
needs it. Mounts made later below the cloud's hosts/ directory are seen there.
A host has an address of its own, at which ``remote/ssh`` and ``remote/scp``,
which nova-compute runs in place of SSH, find its namespaces.
"""

import contextlib
import os
import pathlib
import signal
import uuid

from tools.minicloud import network
from tools.minicloud import process
from tools.minicloud.process import Process
from tools.minicloud.state import Host
from tools.minicloud.state import State

DIRECTORIES = {
    'run': '/run/libvirt',
    'etc': '/etc/libvirt',
    'lib': '/var/lib/libvirt',
    'log': '/var/log/libvirt',
    'cache': '/var/cache/libvirt',
    'iscsi': '/etc/iscsi',
}
# The kernel's iSCSI has one initiator.
KERNEL = 'kernel'
# Nova's name of a host's node is not the name of the host.
NODE = 'node-'
QEMU_CONF = """
user = "root"
group = "root"
dynamic_ownership = 0
security_driver = "none"
namespaces = []
stdio_handler = "file"
"""


def hosts(state: State) -> list[str]:
    """Return the names of the hosts with real guests."""
    return [host.name for host in state.hosts if host.guests == 'libvirt']


def address(state: State, host: str) -> str:
    """Return the address of a host with real guests.

    Guests do not migrate to 127.0.0.1.
    """
    return f'127.0.0.{hosts(state).index(host) + 2}'


def instances(state: State) -> pathlib.Path:
    """Return the directory of Nova's instances, as each host sees it."""
    return state.path / 'instances'


def initiator(host: str) -> str:
    """Return the name of a host's iSCSI initiator.

    All hosts with the kernel's iSCSI have the same, that of ``KERNEL``.
    """
    return f'iqn.2026-11.org.example:{host}'


def namespaces(state: State, host: str) -> Process:
    """Return the process that keeps the namespaces of a host."""
    directory = _directory(state, host)
    mounts = {state.host_dir(host) / 'nova' / 'instances': instances(state)}
    for name, path in DIRECTORIES.items():
        mounts[directory / name] = pathlib.Path(path)
        (directory / name).mkdir(parents=True, exist_ok=True)
    # os-brick reads it; see tools.minicloud.iscsi
    (named,) = (one for one in state.hosts if one.name == host)
    name = initiator(KERNEL if named.lvm else host)
    (directory / 'iscsi' / 'initiatorname.iscsi').write_text(
        f'InitiatorName={name}\n'
    )
    commands = [f'hostname {NODE}{host}']
    for source, target in mounts.items():
        source.mkdir(parents=True, exist_ok=True)
        target.mkdir(parents=True, exist_ok=True)
        commands.append(f'mount --bind "{source}" "{target}"')
    record = _record(state, host)
    record.parent.mkdir(exist_ok=True)
    commands += [f'echo $$ > "{record}"', 'exec sleep infinity']
    return Process(
        f'namespaces@{host}',
        [
            *('unshare', '--mount', '--uts', '--propagation', 'slave'),
            *('sh', '-c', ' && '.join(commands)),
        ],
        state.run,
        state.logs,
        ready=record.exists,
    )


def within(state: State, host: str, argv: list[str]) -> list[str]:
    """Return the command that runs another one in a host's namespaces."""
    enter = 'exec nsenter --mount --uts --target "$(cat "$0")" -- "$@"'
    return [
        'sh',
        '-c',
        enter,
        str(_record(state, host)),
        *argv,
    ]


def remote(state: State) -> dict[str, str]:
    """Return the variables of a program that copies to other hosts."""
    tools = pathlib.Path(__file__).with_name('remote')
    return {
        'PATH': f'{tools}:{process.environment()["PATH"]}',
        'MINICLOUD_NAMESPACES': str(_records(state)),
    }


def libvirtd(state: State, host: str) -> Process:
    """Return the libvirtd of a host."""
    directory = _directory(state, host)
    etc = directory / 'etc'
    etc.mkdir(parents=True, exist_ok=True)
    own = address(state, host)
    (etc / 'qemu.conf').write_text(
        f'{QEMU_CONF}migration_address = "{own}"\nmigration_host = "{own}"\n'
    )
    (etc / 'libvirtd.conf').write_text(
        'auth_unix_rw = "none"\n'
        'auth_unix_ro = "none"\n'
        # guests migrate between hosts that differ
        f'host_uuid = "{uuid.uuid5(uuid.NAMESPACE_URL, f"{directory}")}"\n'
    )
    return Process(
        f'libvirtd@{host}',
        within(
            state,
            host,
            ['libvirtd', '--pid-file', f'{directory}/libvirtd.pid'],
        ),
        state.run,
        state.logs,
        ready=lambda: (
            (directory / 'run' / 'libvirt-sock').exists()
            and _answers(state, host)
        ),
    )


def uri(state: State, host: str) -> str:
    """Return the URI of a host's libvirtd.

    A host with fake guests has that of the first host with real ones, which
    has none of its servers.
    """
    real = hosts(state)
    return _uri(state, host if host in real else real[0])


def migration_uri(state: State) -> str:
    """Return the URI of all hosts' libvirtd, with %s for the host."""
    return _uri(state, '%s')


def virsh(state: State, host: str, *args: str) -> str:
    """Run virsh against a host's libvirtd."""
    return process.run(
        'virsh', '--quiet', '--connect', uri(state, host), *args
    )


def hostname(state: State, host: str) -> str:
    """Return the hypervisor hostname that Nova will use."""
    return virsh(state, host, 'hostname').strip()


def compute_node(state: State, host: Host) -> str:
    """Return the name of a host's provider in Placement."""
    if host.guests == 'libvirt':
        return hostname(state, host.name)
    return host.name


def end_guests(state: State, host: str = '*') -> None:
    """Kill the QEMU processes of the libvirtd of a host, or of all."""
    for path in (state.path / 'libvirt').glob(f'{host}/run/qemu/*.pid'):
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


def remove_ports(state: State) -> None:
    """Remove the devices of the ports of guests, which have ended."""
    begin = network.devices(state.ports['neutron'])
    for path in pathlib.Path('/sys/class/net').glob(f'{begin}*'):
        process.run('ip', 'link', 'delete', path.name)


def remove_cgroups(state: State) -> None:
    """Remove the control groups of the cloud's guests, which have ended."""
    for top, directories, _ in os.walk('/sys/fs/cgroup', topdown=False):
        for name in directories:
            path = os.path.join(top, name)
            if f'-{state.token}-' in path or name == 'machine':
                # machine/ is shared: it stays if others are in it
                with contextlib.suppress(OSError):
                    os.rmdir(path)


def _records(state: State) -> pathlib.Path:
    return state.path / 'namespaces'


def _record(state: State, host: str) -> pathlib.Path:
    """Return the file with the process that keeps a host's namespaces."""
    return _records(state) / address(state, host)


def _uri(state: State, host: str) -> str:
    socket = _directory(state, host) / 'run' / 'libvirt-sock'
    return f'qemu+unix:///system?socket={socket}'


def _directory(state: State, host: str) -> pathlib.Path:
    return state.path / 'libvirt' / host


def _answers(state: State, host: str) -> bool:
    try:
        return bool(hostname(state, host))
    except process.ProcessError:
        return False
