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

"""The facts of this host that a sweep needs."""

import contextlib
import dataclasses
import datetime
import os
import typing
import uuid

from oslo_config import cfg

from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import results
from nova_diskplacer import exception
from nova_diskplacer.agent import cache_mode
from nova_diskplacer.client import cloud
from nova_diskplacer.disks import discover
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import commands
from nova_diskplacer.host import cpus
from nova_diskplacer.host import files
from nova_diskplacer.host import libvirt_connection
from nova_diskplacer.host import nova_conf
from nova_diskplacer.host import sysfs
from nova_diskplacer.placement import client as placement_client

# The I/O schedulers of Linux.
_SCHEDULERS = ('mq-deadline', 'none', 'bfq', 'kyber')


@dataclasses.dataclass(frozen=True)
class Host:
    """This host and the measured disk.

    ``device`` is the name of the device whose queue serves the disk alone,
    ``schedulers`` are those that it can have. ``fixed_read_ahead`` is the
    read-ahead in KiB of the disk's filesystem, if it is that of a device above
    (dm-crypt), None if it is that of the queue. ``memory_mib`` is all memory
    in MiB, ``cache_mode`` that of the disk's vdisks, '' if unknown.
    """

    disk: discover.Disk
    device: str
    schedulers: tuple[str, ...]
    fixed_read_ahead: int | None
    cpus: int
    memory_mib: int
    cache_mode: str


@dataclasses.dataclass(frozen=True)
class Capacity:
    """The inventory of this host that servers can have.

    All of them together have ``vcpus`` and ``ram_mib``, one at most
    ``vcpus_of_one``.
    """

    vcpus: int
    vcpus_of_one: int
    ram_mib: int

    def fits(self, shape: cells.Shape, servers: int = 1) -> bool:
        """Return whether servers of a shape fit on the host."""
        return (
            shape.vcpus <= self.vcpus_of_one
            and servers * shape.vcpus <= self.vcpus
            and servers * shape.ram_mib <= self.ram_mib
        )


def read_capacity(
    client: placement_client.PlacementClient, disk_uuid: str
) -> Capacity:
    """Return the capacity of the host of a disk.

    :raises PlacementError: Placement does not answer, or does not know it.
    """
    disk = client.provider(disk_uuid)
    if disk is None:
        raise exception.PlacementError(
            f'Placement has no resource provider of disk {disk_uuid}: does '
            'the agent run?'
        )
    _, inventories = client.inventories(disk.root)
    vcpus, vcpus_of_one = _capacity(inventories, 'VCPU')
    ram, _ = _capacity(inventories, 'MEMORY_MB')
    return Capacity(vcpus, vcpus_of_one, ram)


def _capacity(
    inventories: placement_client.Inventories, name: str
) -> tuple[int, int]:
    """Return the capacity of a resource class, and that of one server."""
    inventory = inventories.get(name)
    if inventory is None:
        return 0, 0
    capacity = (inventory['total'] - inventory['reserved']) * inventory[
        'allocation_ratio'
    ]
    return int(capacity), inventory['max_unit']


def read(conf: cfg.ConfigOpts, disk_uuid: str) -> Host:
    """Return the facts of this host and a disk.

    :raises DiskPlacerError: there is no such healthy disk, or its queue
        serves other devices too.
    """
    disk = discover.inspect(conf.diskplacer.disk_root, disk_uuid)
    if disk.health != discover.OK:
        raise exception.DiskError(
            f'disk {disk_uuid} is {disk.health}: it cannot be measured'
        )
    device = block_queue.exclusive_device(disk.device)
    with files.disk_errors(f'the queue of {device}'):
        queue = block_queue.read(device)
    mode = cache_mode.CacheModes(conf.diskplacer_agent.nova_conf).determine(
        [disk], ()
    )[disk.uuid]
    return Host(
        disk=disk,
        device=device,
        schedulers=tuple(
            name
            for name in _SCHEDULERS
            if name in queue.schedulers or _is_module(name)
        ),
        fixed_read_ahead=_fixed_read_ahead(conf.diskplacer.disk_root, disk),
        cpus=len(cpus.read().online),
        memory_mib=_memory_mib(),
        cache_mode=mode or '',
    )


def make_header(
    conf: cfg.ConfigOpts,
    host: Host,
    plan: tuple[cells.Cell, ...],
    *,
    data_mib: int,
    seconds: int,
    block_kib: int,
    repetitions: int,
    connection: typing.Any = None,
) -> results.Header:
    """Return the header of a new run.

    :param connection: an ``openstack.connection.Connection``, if there are
        cells in servers.
    :raises DiskPlacerError: fio is not installed, or Nova does not answer.
    """
    qemu, libvirt = _hypervisor(conf) if connection else ('', '')
    return results.Header(
        version=results.VERSION,
        id=str(uuid.uuid4()),
        host=conf.host,
        started=datetime.datetime.now(datetime.UTC).isoformat(
            timespec='seconds'
        ),
        kernel=os.uname().release,
        fio=commands.run('fio', '--version').strip(),
        qemu=qemu,
        libvirt=libvirt,
        nova=_nova(connection) if connection else '',
        disk=results.Disk(
            host.disk.uuid,
            host.disk.model,
            host.disk.medium,
            host.disk.size_bytes,
            host.device,
        ),
        cpus=host.cpus,
        memory_mib=host.memory_mib,
        data_mib=data_mib,
        seconds=seconds,
        block_kib=block_kib,
        repetitions=repetitions,
        emulated=bool(connection) and _is_emulated(conf),
        plan=plan,
    )


def _fixed_read_ahead(disk_root: str, disk: discover.Disk) -> int | None:
    if discover.kind_of(disk_root, disk.uuid) == discover.LVM:
        return None
    path = sysfs.device_path(os.path.basename(disk.device))
    if not os.path.exists(f'{path}/dm'):
        return None
    return int(sysfs.read(f'{path}/queue/read_ahead_kb'))


def _is_module(scheduler: str) -> bool:
    """Return whether the kernel can load a scheduler."""
    with contextlib.suppress(exception.DiskError):
        commands.run(
            'modprobe', '--dry-run', '--quiet', f'{scheduler}-iosched'
        )
        return True
    return False


def _memory_mib() -> int:
    total = sysfs.read('/proc/meminfo').partition('MemTotal:')[2]
    return int(total.split()[0]) // 1024


def _hypervisor(conf: cfg.ConfigOpts) -> tuple[str, str]:
    """Return the versions of QEMU and libvirt, '' without libvirt-python."""
    if libvirt_connection.import_libvirt() is None:
        return '', ''
    with libvirt_connection.connect(
        conf.diskplacer_agent.libvirt_uri, 'tell its version'
    ) as connection:
        return _version(connection.getVersion()), _version(
            connection.getLibVersion()
        )


def _version(number: int) -> str:
    return f'{number // 1000000}.{number // 1000 % 1000}.{number % 1000}'


def _nova(connection: typing.Any) -> str:
    """Return the newest microversion that Nova has."""
    with cloud.convert_errors('Nova'):
        newest = connection.compute.get_endpoint_data().max_microversion
    return '.'.join(map(str, newest or ()))


def _is_emulated(conf: cfg.ConfigOpts) -> bool:
    """Return whether servers run without KVM."""
    option = cfg.StrOpt('virt_type', default='kvm')
    settings = nova_conf.reloading(
        conf.diskplacer_agent.nova_conf,
        lambda paths: nova_conf.parse(paths, option, group='libvirt'),
    )()
    return bool(settings['virt_type'] == 'qemu')
