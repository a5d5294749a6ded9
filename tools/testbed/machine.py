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

"""What the machine consists of, as QEMU's arguments."""

import dataclasses
import itertools
import pathlib
import typing

MB = 10**6
GIB = 2**30
NODES = 2
PORT = 'testbed.agent'
# The default clock, hpet, makes small requests a third slower. On a busy
# machine the kernel would find its timer not to work, and panic. Where
# programs are at random addresses, TCG translates each anew at every start:
# more than half of the time that a command of LVM takes.
KERNEL = (
    'console=ttyS0 quiet panic=-1 tsc=reliable clocksource=tsc no_timer_check'
    ' mitigations=off nokaslr norandmaps apparmor=0 audit=0'
)
# TCG takes long for what newer processors have: "rep stos" that clears memory
# (by six times), page tables of five levels. NumPy needs what this one has.
CPUS = {'tcg': 'Nehalem'}
# With one thread for all processors, those who wait for a disk may wait for
# ever: QEMU then executes what orders their memory accesses, "lock add", as if
# nobody else used the memory, and so an interrupt of virtio may be missed.
ACCELS = {'tcg': 'tcg,thread=multi'}
# What disks may be behind, what udev begins their links' names with, and the
# drivers that they need.
BUSES = {
    'virtio': ('virtio-', ()),
    'nvme': ('nvme-QEMU_NVMe_Ctrl_', ('nvme',)),
    'nvme-subsys': ('nvme-QEMU_NVMe_Ctrl_', ('nvme',)),
    'sata': ('ata-QEMU_HARDDISK_', ('ahci', 'sd_mod')),
}
# Those of tools/seeking_disk.
KINDS = ('hdd', 'ssd')


@dataclasses.dataclass(frozen=True)
class Disk:
    """A disk of the guest, empty at first.

    :param node: the NUMA node that it is behind, 0 or 1.
    :param gib: its size in GiB; takes room only where written.
    :param mbps: what it does at most in MB/s (10**6 bytes), both directions
        together; None: no limit.
    :param iops: the same in requests per second.
    :param serial: its serial number, 20 characters at most; None: ``disk``
        and its place among the disks, from 0.
    :param bus: virtio, nvme, nvme-subsys or sata. The latter three have SMART;
        nvme-subsys has native multipath, with one path. There are six of sata
        at most, and it is behind node 0.
    :param kind: hdd or ssd: it takes as long as the disk of
        ``tools/seeking_disk``; None: it is a file.
    :param cache_mib: the write-back cache of an hdd in MiB.
    :param slower: how many times as long an hdd takes for everything.
    """

    node: int = 0
    gib: int = 8
    mbps: float | None = None
    iops: int | None = None
    serial: str | None = None
    bus: str = 'virtio'
    kind: str | None = None
    cache_mib: int = 0
    slower: float = 1

    def __post_init__(self) -> None:
        if self.node not in range(NODES):
            raise ValueError(f'node {self.node}: not one of 0 to {NODES - 1}')
        for name in ('gib', 'mbps', 'iops', 'slower'):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f'{name} {value}: must be more than 0')
        if self.bus not in BUSES:
            raise ValueError(f'bus {self.bus}: none of {", ".join(BUSES)}')
        if self.kind not in (None, *KINDS):
            raise ValueError(f'kind {self.kind}: none of {", ".join(KINDS)}')
        if self.cache_mib < 0 or (self.cache_mib and self.kind != 'hdd'):
            raise ValueError(
                f'cache_mib {self.cache_mib}: must be 0, or more with kind hdd'
            )
        if self.slower != 1 and self.kind != 'hdd':
            raise ValueError(
                f'slower {self.slower}: must be 1, or another with kind hdd'
            )
        if self.bus == 'sata' and self.node:
            raise ValueError(f'node {self.node}: that of bus sata is 0')

    @classmethod
    def parse(cls, text: str) -> 'Disk':
        """Return the disk that ``node=1,gib=8,mbps=20,iops=150`` means.

        :raises ValueError: no such setting, or a value it cannot have.
        """
        kinds = {
            'node': int,
            'gib': int,
            'mbps': float,
            'iops': int,
            'bus': str,
            'kind': str,
            'cache_mib': int,
            'slower': float,
        }
        found: dict[str, typing.Any] = {}
        for setting in filter(None, text.split(',')):
            name, _, value = setting.partition('=')
            if name not in kinds:
                allowed = ', '.join(kinds)
                raise ValueError(f'disk {text}: {name} is none of {allowed}')
            found[name] = kinds[name](value)
        return cls(**found)


DISKS = (Disk(0), Disk(0), Disk(1), Disk(1))


@dataclasses.dataclass(frozen=True)
class Server:
    """What makes the guest boot as a server: by systemd, with cloud-init.

    :param drive: its config drive, an image of ISO 9660.
    :param prepare: a shell script of the checkout that makes an image for
        such servers of the root disk. It runs before systemd.
    """

    drive: pathlib.Path
    prepare: pathlib.Path


def serial(index: int, disk: Disk) -> str:
    """Return the serial number of a disk: of the first, ``disk0``."""
    return disk.serial or f'disk{index}'


def link(index: int, disk: Disk) -> str:
    """Return the path of a disk in the guest."""
    return f'/dev/disk/by-id/{BUSES[disk.bus][0]}{serial(index, disk)}'


def throttle(mbps: float | None, iops: int | None) -> dict[str, int]:
    """Return limits in QEMU's terms; 0 is none."""
    return {'bps': round((mbps or 0) * MB), 'iops': iops or 0}


def arguments(
    accel: str,
    image: pathlib.Path,
    shares: typing.Sequence[pathlib.Path],
    packages: tuple[pathlib.Path, pathlib.Path],
    disks: typing.Sequence[tuple[Disk, int]],
    sockets: tuple[int, int],
    memory_mib: int,
    server: Server | None = None,
) -> list[str]:
    """Return QEMU's command line.

    :param shares: directories that the guest reads at the same paths.
    :param packages: one below these, and its image, which the guest reads
        instead.
    :param disks: each with the file descriptor of what backs it.
    :param sockets: file descriptors, connected: for commands, and for QMP.
    """
    commands, qmp = sockets
    return [
        'qemu-system-x86_64',
        '-nodefaults', '-no-user-config', '-no-reboot',
        '-display', 'none', '-vga', 'none', '-serial', 'stdio',
        '-machine', 'q35',
        '-accel', ACCELS.get(accel, accel), '-cpu', CPUS.get(accel, 'max'),
        *_nodes(memory_mib),
        '-kernel', str(image / 'kernel'),
        '-initrd', str(image / 'initrd'),
        '-append', f'{KERNEL} testbed.shares={",".join(map(str, shares))} '
        f'testbed.packages={packages[0]} '
        f'testbed.modules={",".join(_modules(disks))}{_told(server)}',
        '-drive', f'if=none,id=root,file={image / "root.img"},format=raw,'
        'snapshot=on,cache=unsafe',
        '-device', 'virtio-blk-pci,bus=pcie.0,drive=root,serial=root',
        '-drive', f'if=none,id=packages,file={packages[1]},format=raw,'
        'readonly=on,cache=unsafe',
        '-device', 'virtio-blk-pci,bus=pcie.0,drive=packages,serial=packages',
        '-device', 'virtio-rng-pci,bus=pcie.0',
        '-device', 'virtio-serial-pci,bus=pcie.0',
        '-chardev', f'socket,id=commands,fd={commands}',
        '-device', f'virtserialport,chardev=commands,name={PORT}',
        '-chardev', f'socket,id=qmp,fd={qmp}',
        '-mon', 'chardev=qmp,mode=control',
        *_shares(shares),
        *_disks(disks),
        *_drive(server),
    ]  # fmt: skip


def _told(server: Server | None) -> str:
    return f' testbed.prepare={server.prepare}' if server else ''


def _drive(server: Server | None) -> list[str]:
    """Have the config drive where Nova attaches it, as a CD-ROM."""
    if server is None:
        return []
    return [
        '-drive',
        f'if=none,id=config,file={server.drive},format=raw,readonly=on',
        '-device', 'ide-cd,bus=ide.5,drive=config',
    ]  # fmt: skip


def _modules(disks: typing.Sequence[tuple[Disk, int]]) -> list[str]:
    buses = {disk.bus for disk, _ in disks}
    return [module for bus in sorted(buses) for module in BUSES[bus][1]]


def _nodes(memory_mib: int) -> list[str]:
    """Have a CPU and its part of the memory in each NUMA node."""
    found = ['-smp', str(NODES), '-m', str(memory_mib)]
    for node in range(NODES):
        found += [
            '-object',
            f'memory-backend-ram,id=memory{node},size={memory_mib // NODES}M',
            '-numa', f'node,nodeid={node},cpus={node},memdev=memory{node}',
        ]  # fmt: skip
    for node in range(NODES):
        for other in range(NODES):
            distance = 10 if node == other else 20
            found += ['-numa', f'dist,src={node},dst={other},val={distance}']
    for node in range(NODES):
        found += [
            '-device',
            f'pxb-pcie,id=node{node},bus=pcie.0,bus_nr={64 + 64 * node},'
            f'numa_node={node}',
        ]
    return found


def _shares(shares: typing.Sequence[pathlib.Path]) -> list[str]:
    found = []
    for number, share in enumerate(shares):
        found += [
            '-fsdev',
            f'local,id=share{number},path={share},readonly=on,'
            'security_model=none,multidevs=remap',
            '-device',
            f'virtio-9p-pci,bus=pcie.0,fsdev=share{number},'
            f'mount_tag=share{number}',
        ]
    return found


def _backend(disk: Disk, descriptor: int) -> str:
    """Return what is behind a drive: a file, or a server of NBD."""
    if disk.kind is None:
        return f'file=/proc/self/fd/{descriptor},cache=unsafe,discard=unmap'
    return (
        'file.driver=nbd,file.server.type=fd,'
        f'file.server.str={descriptor},cache=none'
    )


def _disks(disks: typing.Sequence[tuple[Disk, int]]) -> list[str]:
    found = []
    ports = itertools.count()
    for index, (disk, descriptor) in enumerate(disks):
        limits = ''.join(
            f',throttling.{name}-total={value}'
            for name, value in throttle(disk.mbps, disk.iops).items()
            if value
        )
        found += [
            '-drive',
            f'if=none,id=drive{index},format=raw,'
            f'{_backend(disk, descriptor)}{limits}',
        ]
        if disk.bus == 'sata':
            device = f'ide-hd,bus=ide.{next(ports)}'
        else:
            model = 'nvme' if 'nvme' in disk.bus else 'virtio-blk-pci'
            device = f'{model},bus=port{index}'
            found += [
                '-device',
                f'pcie-root-port,id=port{index},bus=node{disk.node},'
                f'chassis={index + 1},addr={index % 32:#x}',
            ]
        drive = f'drive=drive{index}'
        if disk.bus == 'nvme-subsys':
            found += ['-device', f'nvme-subsys,id=subsys{index}']
            drive = f'subsys=subsys{index}'
        found += [
            '-device',
            f'{device},id=disk{index},{drive},serial={serial(index, disk)}',
        ]
        if disk.bus == 'nvme-subsys':
            found += [
                '-device',
                f'nvme-ns,bus=disk{index},drive=drive{index},nsid=1',
            ]
    return found
