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

"""Finds the prepared disks of this host in the disk root.

Each disk is read in a thread of its own, so that a hung disk does not delay
the others: see :mod:`nova_diskplacer.host.probes`. Functions that get a UUID
raise DiskError if it is not in its canonical form.
"""

import collections.abc
import contextlib
import dataclasses
import fcntl
import math
import os
import time
from typing import TypeVar

from oslo_log import log as logging

from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer.disks import identity
from nova_diskplacer.disks import standby
from nova_diskplacer.disks.filesystem import locks
from nova_diskplacer.disks.filesystem import space
from nova_diskplacer.disks.filesystem import vdisks as vdisks_
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.host import files
from nova_diskplacer.host import log_once
from nova_diskplacer.host import probes
from nova_diskplacer.host import sysfs

LOG = logging.getLogger(__name__)

OK = constants.OK
MISSING = constants.MISSING
HUNG = constants.HUNG
READ_ONLY = constants.READ_ONLY

#: health of disks whose present state is unknown
UNAVAILABLE = (MISSING, HUNG)

# Kinds of disks.
FILESYSTEM = 'filesystem'
LVM = 'lvm'

_READ = 4096

# Seconds in which a disk with a standby timeout spins up, and answers.
_PATIENCE = 60.0

# Suffixes of the files that mark a forgotten disk, and one being drained.
_FORGOTTEN = '.forgotten'
_DRAINING = '.draining'

_log = log_once.ChangeLogger(LOG)

# Probes by the path of the disk, kept until the process ends.
_probes: dict[str, probes.Probe['Disk']] = {}

# Counters of the device before the last read, by the path of a marked disk.
_stats: dict[str, tuple[int, ...]] = {}

_Result = TypeVar('_Result')


@dataclasses.dataclass(frozen=True)
class Disk:
    """An entry of the disk root: a prepared disk, which may be missing.

    A missing disk has only ``uuid`` and ``path``; ``medium`` and ``model`` are
    empty, numbers are 0. A hung disk has its last known state; if this process
    has never read it, it has the fields of a missing one.

    ``late`` marks the last known state of a disk that does not answer, but
    does not count as hung yet. ``draining`` marks a disk that gets no new
    vdisks, because it is being emptied or was.

    ``total_gb`` is the size of the filesystem or volume group in GiB, without
    foreign data. ``free_bytes`` may be allocated now, but vdisks that are not
    fully allocated may need some of them. ``mbps`` is in MB/s. ``numa_node``
    is None on machines and disks without one.
    """

    uuid: str
    path: str
    device: str
    medium: str
    model: str
    numa_node: int | None
    size_bytes: int
    free_bytes: int
    total_gb: int
    mbps: int
    health: str
    vdisks: tuple[VDisk, ...]
    late: bool = False
    draining: bool = False

    @property
    def free_gb(self) -> int:
        """GiB for new vdisks, if all existing ones are filled."""
        taken = sum(vdisk.size_gb for vdisk in self.vdisks)
        return max(0, min(self.free_bytes // GIB, self.total_gb - taken))

    def find(self, name: str) -> VDisk | None:
        """Return the vdisk of a name, complete or not, None if there is none.

        Of a striped vdisk, it is the piece on this disk.
        """
        return next(
            (vdisk for vdisk in self.vdisks if vdisk.name == name), None
        )

    def has_moving(self, name: str) -> bool:
        """Return whether legs of a vdisk come to the disk, or have left it."""
        vdisk = self.find(name)
        return vdisk is not None and vdisk.moving


def discover(disk_root: str, kind: str | None = None) -> list[Disk]:
    """Return the disks in ``disk_root``, sorted by UUID.

    A disk that cannot be read is missing. A disk that does not answer within
    ``probes.TIMEOUT`` seconds has its last known state. After
    ``probes.HUNG_AFTER`` seconds, or if it was never read, it is hung. A disk
    with a standby timeout has ``standby.SPIN_UP`` seconds more, and is not
    read while it is quiet.

    :param kind: FILESYSTEM or LVM, for disks of this kind only.
    """
    try:
        names = sorted(os.listdir(disk_root))
    except FileNotFoundError:
        return []
    requested = [
        (name, probe, probe.request())
        for name in names
        if identity.is_uuid(name) and kind in (None, kind_of(disk_root, name))
        for probe in [_probe(disk_root, name)]
    ]
    deadline = time.monotonic() + probes.TIMEOUT
    disks = []
    for name, probe, number in requested:
        left = max(0.0, deadline - time.monotonic())
        answered = probe.wait(number, left)
        disks.append(_state(disk_root, name, probe, answered))
    return disks


def wait_for_all(disk_root: str, kind: str | None = None) -> list[Disk]:
    """Return the disks as ``discover``, but wait for those that are late.

    It is for a process that may have read none before: to ``discover`` such a
    disk is hung before ``probes.HUNG_AFTER`` seconds. Disks that answer, but
    are locked by other processes, are waited for a minute, and are as
    ``discover`` has them then.

    :param kind: FILESYSTEM or LVM, for disks of this kind only.
    """
    deadline = time.monotonic() + _PATIENCE
    return [
        inspect(disk_root, disk.uuid, max(0.0, deadline - time.monotonic()))
        if disk.late or disk.health == HUNG
        else disk
        for disk in discover(disk_root, kind)
    ]


def kind_of(disk_root: str, uuid: str) -> str:
    """Return the kind of a disk, FILESYSTEM or LVM."""
    entry = os.path.join(disk_root, uuid)
    return LVM if naming.is_entry(entry) else FILESYSTEM


def inspect(disk_root: str, uuid: str, patience: float = math.inf) -> Disk:
    """Return the disk ``uuid`` in ``disk_root``; missing if unreadable.

    The disk is read after the call, unless it is hung or late.

    :param patience: seconds to wait before the disk is late; by default, until
        it is hung.
    """
    probe = _probe(disk_root, uuid)
    number = probe.request()
    deadline = time.monotonic() + patience
    while not (answered := probe.wait(number, min(probes.TIMEOUT, patience))):
        if time.monotonic() >= deadline or probe.is_hung:
            break
    return _state(disk_root, uuid, probe, answered)


def run_unless_hung(
    disk_root: str, uuid: str, work: collections.abc.Callable[[], _Result]
) -> _Result:
    """Run work on a disk, as :func:`probes.run_unless_hung`."""
    probe = _probe(disk_root, uuid)
    return probes.run_unless_hung(probe, f'disk {uuid}', work)


def require_mounted(disk_root: str, uuid: str) -> str:
    """Return the path of a mounted disk with the right identity.

    :raises DiskError: the disk is not mounted, or has another identity.
    """
    path = disk_path(disk_root, uuid)
    try:
        _read_identity(path, uuid)
    except (exception.DiskError, OSError) as error:
        message = f'disk {path} is missing: {error}'
        raise exception.DiskError(message) from error
    return path


def disk_path(disk_root: str, uuid: str) -> str:
    """Return the path of a disk's entry, which may not exist."""
    return os.path.join(disk_root, identity.check_uuid(uuid))


def is_forgotten(disk_root: str, uuid: str) -> bool:
    """Tell whether a disk was removed from the disk root for good.

    ``diskplacer-manage disk forget`` marks it. A missing entry alone is no
    proof: its mount, or all of the disk root, may be invisible.
    """
    path = disk_path(disk_root, uuid)
    return os.path.lexists(path + _FORGOTTEN) and not files.exists(path)


def set_forgotten(disk_root: str, uuid: str, forgotten: bool) -> None:
    """Mark a disk as forgotten, or remove the mark.

    :raises OSError: the disk root cannot be written to.
    """
    _set_mark(disk_path(disk_root, uuid) + _FORGOTTEN, forgotten)


def remember(disk_root: str, uuid: str) -> None:
    """Remove the mark of a forgotten disk, and what withholds it.

    It is withheld while it is forgotten, and stays so if that is killed. A
    drain before that has ended with it.

    :raises OSError: the disk root cannot be written to.
    """
    if os.path.lexists(disk_path(disk_root, uuid) + _FORGOTTEN):
        set_draining(disk_root, uuid, False)
        set_forgotten(disk_root, uuid, False)


def set_draining(disk_root: str, uuid: str, draining: bool) -> None:
    """Mark a disk as one that gets no new vdisks, or remove the mark.

    :raises OSError: the disk root cannot be written to.
    """
    _set_mark(disk_path(disk_root, uuid) + _DRAINING, draining)


def _set_mark(mark: str, marked: bool) -> None:
    if marked:
        files.replace(mark, '', durable=True)
    elif os.path.lexists(mark):
        os.unlink(mark)


def missing(uuid: str, path: str) -> Disk:
    """Return the disk ``uuid`` as a missing one."""
    return Disk(uuid, path, '', '', '', None, 0, 0, 0, 0, MISSING, ())


def _probe(disk_root: str, uuid: str) -> probes.Probe[Disk]:
    """Return the probe of a disk, the same one for each path."""
    path = disk_path(disk_root, uuid)
    probe = _probes.setdefault(path, probes.Probe(lambda: _read(path, uuid)))
    probe.allowance = standby.SPIN_UP if standby.is_marked(path) else 0.0
    return probe


def _read(path: str, uuid: str) -> Disk:
    latest = _probes[path].latest
    quiet = standby.is_marked(path) and _is_quiet(path, latest)
    try:
        if not naming.is_entry(path):
            stored = _read_identity(path, uuid, direct=not quiet)
            disk = _read_filesystem(stored, path)
        elif latest is not None and quiet:
            # LVM writes to the device when it changes the group
            disk = latest
        else:
            disk = _read_group(uuid, path)
    except exception.DiskHung:
        return _hung(path, uuid, _probes[path].latest)
    except (exception.DiskError, OSError) as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001 the other disks are read
        reason = repr(error)
    else:
        if disk.health == READ_ONLY:
            _log.log(
                path, "Disk %s is %s, see the kernel's log", path, READ_ONLY
            )
        elif _log.clear(path):
            LOG.info('Disk %s is %s again', path, disk.health)
        return disk
    _log.log(path, 'Disk %s is missing: %s', path, reason)
    return missing(uuid, path)


def _is_quiet(path: str, latest: Disk | None) -> bool:
    """Return whether a disk that may be in standby is as it was read last."""
    stat: tuple[int, ...] = ()
    if latest is not None and latest.health not in UNAVAILABLE:
        stat = standby.read_stat(latest.device)
    before, _stats[path] = _stats.get(path, ()), stat
    return standby.is_quiet(before, stat)


def _state(
    disk_root: str, uuid: str, probe: probes.Probe[Disk], answered: bool
) -> Disk:
    """Return a disk; one that has not answered is late or hung."""
    latest = probe.latest
    if latest is not None and (answered or not probe.is_hung):
        disk = dataclasses.replace(latest, late=not answered)
    else:
        disk = _hung(disk_path(disk_root, uuid), uuid, latest)
    draining = os.path.lexists(disk_path(disk_root, uuid) + _DRAINING)
    return dataclasses.replace(disk, draining=draining)


def _hung(path: str, uuid: str, latest: Disk | None) -> Disk:
    _log.log(path, 'Disk %s is %s: it does not answer', path, HUNG)
    return dataclasses.replace(latest or missing(uuid, path), health=HUNG)


def _read_identity(
    path: str, uuid: str, direct: bool = True
) -> identity.Identity:
    point = os.path.realpath(path)
    if not files.is_mount_point(point):
        raise exception.DiskError('nothing is mounted there')
    try:
        os.lstat(point)
    except OSError as error:
        raise exception.DiskError(
            'its filesystem is mounted, but fails: '
            f"{error.strerror}; see the kernel's log"
        ) from error
    if direct:
        _read_direct(path)
    stored = identity.read(path)
    if stored is None or stored.uuid != uuid:
        carried = stored.uuid if stored else 'none'
        raise exception.DiskError(f'its identity is {carried}')
    return stored


def _read_filesystem(stored: identity.Identity, path: str) -> Disk:

    def waiting() -> None:
        # another process has the lock; the disk itself must still answer
        _read_direct(path)
        _probes[path].report_progress()

    with locks.locked(path, fcntl.LOCK_SH, waiting) as directory:
        status = os.fstatvfs(directory)
        vdisks = vdisks_.scan(path)
        total_gb = space.total_gb(directory, status)
    block = sysfs.find_filesystem_device(path)
    return Disk(
        uuid=stored.uuid,
        path=path,
        device=block.device,
        medium=stored.medium,
        model=block.model,
        numa_node=block.numa_node,
        size_bytes=status.f_blocks * status.f_frsize,
        free_bytes=space.free_bytes(status),
        total_gb=total_gb,
        mbps=stored.mbps,
        health=READ_ONLY if status.f_flag & os.ST_RDONLY else OK,
        vdisks=vdisks,
    )


def _read_group(uuid: str, path: str) -> Disk:
    group = groups.require(uuid)
    stored = group.identity
    if stored.uuid != uuid:
        raise exception.DiskError(f'its identity is {stored.uuid}')
    block = sysfs.find_device(group.devices[0])
    read_only = group.read_only or block.read_only
    return Disk(
        uuid=stored.uuid,
        path=path,
        device=block.device,
        medium=stored.medium,
        model=block.model,
        numa_node=block.numa_node,
        size_bytes=group.size_bytes,
        free_bytes=max(0, group.free_bytes - space.SLACK),
        total_gb=group.total_gb,
        mbps=stored.mbps,
        health=READ_ONLY if read_only else OK,
        vdisks=group.vdisks,
    )


def _read_direct(path: str) -> None:
    """Read from the disk itself; all other reads may be cached."""
    with contextlib.suppress(FileNotFoundError):
        probes.read_direct(os.path.join(path, identity.FILE), 0, _READ)
