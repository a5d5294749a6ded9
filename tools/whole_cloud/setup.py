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

"""Runs in the guest: a real OpenStack whose disks are volume groups.

Two compute hosts have libvirt, LVM on half of the guest's disks each, and the
kernel's iSCSI between them. They share the kernel, so its initiator, too.
"""

import pathlib
import re
import shutil
import sys

from tools import whole_cloud
from tools.minicloud import disks
from tools.minicloud import hypervisor
from tools.minicloud import process
from tools.minicloud import state as states
from tools.minicloud.cloud import Cloud
from tools.testbed import machine
from tools.testbed import udev

HOSTS = tuple(
    states.Host(
        name,
        'libvirt',
        disks=len(whole_cloud.DISKS) // 2,
        media=('ssd',),
        moves=True,
        lvm=True,
    )
    for name in ('compute1', 'compute2')
)
MODULES = ('iscsi_tcp', 'iscsi_target_mod', 'target_core_iblock')
_ISCSI = pathlib.Path('/etc/iscsi')
_CONFIGFS = '/sys/kernel/config'
_ERLANG = """#!/bin/sh
case "$*" in *epmd-starter*) exit ;; esac
exec {real} "$@"
"""
_DATABASES = pathlib.Path(sys.prefix, 'databases')


def prepare(state: states.State, host: states.Host) -> None:
    """Make volume groups of the disks of a host, and prepare them."""
    state.disk_root(host.name).mkdir(parents=True, exist_ok=True)
    first = host.disks * HOSTS.index(host)
    disks.manage_each(
        state,
        [
            disks.preparation(
                state,
                host.name,
                machine.link(index, whole_cloud.DISKS[index]),
                *('--backend=lvm', '--no-zero'),
                f'--medium={host.media[0]}',
                f'--mbps={whole_cloud.DISKS[index].mbps}',
            )
            for index in range(first, first + host.disks)
        ],
    )


def make(path: pathlib.Path) -> Cloud:
    """Return the cloud, which does not run yet."""
    return Cloud(path, HOSTS, prepare_disks=prepare)


def start_iscsi(directory: pathlib.Path) -> None:
    """Load both ends of the kernel's iSCSI, and start iscsid."""
    # rtslib does nothing without it
    pathlib.Path('/etc/target').mkdir(exist_ok=True)
    process.run('modprobe', '--all', *MODULES)
    if not pathlib.Path(_CONFIGFS).is_mount():
        process.run('mount', '-t', 'configfs', 'none', _CONFIGFS)
    (_ISCSI / 'initiatorname.iscsi').write_text(
        f'InitiatorName={hypervisor.initiator(hypervisor.KERNEL)}\n'
    )
    conf = _ISCSI / 'iscsid.conf'
    # as operators are told to
    conf.write_text(
        re.sub(
            '(?m)^(node.session.timeo.replacement_timeout = ).*',
            r'\g<1>-1',
            conf.read_text(),
        )
    )
    process.Process(
        'iscsid', ['iscsid', '-f'], directory, directory, ready=_iscsid_listens
    ).start()


def _iscsid_listens() -> bool:
    sockets = pathlib.Path('/proc/net/unix').read_text()
    return '@ISCSIADM_ABSTRACT_NAMESPACE' in sockets


def copy_databases() -> None:
    """Have those that the environment keeps where they can be written."""
    copy = pathlib.Path('/var/tmp/databases')
    if not copy.exists():
        shutil.copytree(_DATABASES, copy)
        process.run('mount', '--bind', str(copy), str(_DATABASES))


def calm_rabbitmq() -> None:
    """Keep RabbitMQ from starting an Erlang once a minute.

    That does nothing but start an epmd, which runs, and takes a quarter of an
    emulated processor.
    """
    (program,) = pathlib.Path('/usr/lib/erlang').glob('erts-*/bin/erl')
    real = program.with_name('erl.real')
    if not real.exists():
        program.rename(real)
        program.write_text(_ERLANG.format(real=real))
        program.chmod(0o755)


def prepare_guest() -> None:
    """Have what a cloud needs of the guest."""
    udev.settle()
    copy_databases()
    calm_rabbitmq()
    start_iscsi(pathlib.Path('/run'))
