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

"""Finds the prepared disks of this host, by looking.

Each disk is looked at in a thread of its own, so that one that hangs keeps
nobody from the others: see :mod:`nova_diskplacer.disks.looks`.
"""

import collections.abc
import contextlib
import dataclasses
import fcntl
import math
import os
import threading
import time
import uuid as uuidlib
from typing import TypeVar

from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.disks import identity
from nova_diskplacer.disks import looks
from nova_diskplacer.disks.filesystem import space
from nova_diskplacer.disks.filesystem import vdisks as vdisks_
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.host import files
from nova_diskplacer.host import jobs
from nova_diskplacer.host import log_once
from nova_diskplacer.host import sysfs

LOG = logging.getLogger(__name__)

OK = 'ok'
MISSING = 'missing'
HUNG = 'hung'
READ_ONLY = 'read-only'

# What keeps vdisks on a disk.
FILESYSTEM = 'filesystem'
LVM = 'lvm'

# Of what cannot be seen it is not said that it is not there.
UNSEEN = (MISSING, HUNG)

_READ = 4096

# What follows the UUID in the name of the mark of a forgotten disk.
_FORGOTTEN = '.forgotten'

# Why each path is missing.
_missing_log = log_once.ChangeLogger(LOG)

_looks: dict[str, looks.Look['Disk']] = {}
_looks_lock = threading.Lock()

_Result = TypeVar('_Result')


@dataclasses.dataclass(frozen=True)
class Disk:
    """A prepared disk, or the place where one should be.

    Of a disk whose ``health`` is missing only ``uuid`` and ``path`` are
    known: ``medium`` and ``model`` are empty, figures are 0. The same goes
    for one that is hung, if it has been so ever since this process looks;
    otherwise it is as it was seen last.

    ``late`` is true of what was seen earlier, of a disk that has not answered
    since and is not held to hang yet.

    ``total_gb`` is what vdisks may fill, in GiB: the filesystem less what
    anything else takes. ``free_bytes`` is what may be allocated now, of which
    some may be promised to vdisks that do not occupy all of their size.
    ``mbps`` is in MB/s. ``numa_node`` is None where the machine or the disk
    has none.
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

    @property
    def free_gb(self) -> int:
        """GiB that new vdisks may fill when all others are filled."""
        taken = sum(vdisk.size_gb for vdisk in self.vdisks)
        return max(0, min(self.free_bytes // GIB, self.total_gb - taken))


def discover(disk_root: str, kind: str | None = None) -> list[Disk]:
    """Return the disks under ``disk_root``, sorted by UUID.

    A disk that cannot be read is listed as missing; it spoils no other. One
    that does not answer within ``jobs.LATE`` seconds is listed as it was
    seen last, and from ``looks.HUNG`` seconds on, or if it was never seen, as
    hung.

    :param kind: FILESYSTEM or LVM, for these only.
    """
    try:
        names = sorted(os.listdir(disk_root))
    except FileNotFoundError:
        return []
    asked = [
        (name, _look(disk_root, name))
        for name in names
        if _is_uuid(name) and kind in (None, kind_of(disk_root, name))
    ]
    begun = [(name, look, look.begin()) for name, look in asked]
    ends = time.monotonic() + jobs.LATE
    return [
        _seen(look)
        if look.ended(number, max(0.0, ends - time.monotonic()))
        else _unanswered(disk_root, name, look)
        for name, look, number in begun
    ]


def kind_of(disk_root: str, uuid: str) -> str:
    """Return whether the entry of a disk is one of a FILESYSTEM or LVM."""
    entry = os.path.join(disk_root, uuid)
    return LVM if groups.is_entry(entry) else FILESYSTEM


def inspect(disk_root: str, uuid: str, patience: float = math.inf) -> Disk:
    """Return the disk ``uuid`` under ``disk_root``; missing if unreadable.

    What is returned is newer than the call, unless the disk is hung or late.

    :param patience: seconds to wait for its answer, after which the disk is
        late: at most ``jobs.LATE``, or as long as it takes.
    :raises DiskError: ``uuid`` is not the canonical form of a UUID.
    """
    look = _look(disk_root, uuid)
    number = look.begin()
    while not look.ended(number, min(jobs.LATE, patience)):
        if patience <= jobs.LATE or look.waiting >= looks.HUNG:
            return _unanswered(disk_root, uuid, look)
    return _seen(look)


def work_on(
    disk_root: str, uuid: str, work: collections.abc.Callable[[], _Result]
) -> _Result:
    """Do what takes a disk, as :func:`looks.work_on`.

    :raises DiskError: the disk hangs, or ``uuid`` is not the canonical form
        of a UUID.
    """
    return looks.work_on(_look(disk_root, uuid), f'disk {uuid}', work)


def locate(disk_root: str, uuid: str) -> str:
    """Return the path of a disk that is there and is the one that it says.

    :raises DiskError: it is not; says why.
    """
    path = disk_path(disk_root, uuid)
    try:
        _identified(path, uuid)
    except (exception.DiskError, OSError) as error:
        raise exception.DiskError(
            f'disk {path} is missing: {error}'
        ) from error
    return path


def disk_path(disk_root: str, uuid: str) -> str:
    """Return where a disk is, or would be.

    :raises DiskError: ``uuid`` is not the canonical form of a UUID.
    """
    if not _is_uuid(uuid):
        raise exception.DiskError(f'{uuid!r} is not the UUID of a disk')
    return os.path.join(disk_root, uuid)


def is_forgotten(disk_root: str, uuid: str) -> bool:
    """Tell whether a disk was taken out of the disk root for good.

    That no entry of it can be seen does not prove it: its mount may be
    invisible, as may be all of the disk root. ``diskplacer-manage disk
    forget`` leaves a mark.

    :raises DiskError: ``uuid`` is not the canonical form of a UUID.
    """
    path = disk_path(disk_root, uuid)
    return os.path.lexists(path + _FORGOTTEN) and not os.path.lexists(path)


def set_forgotten(disk_root: str, uuid: str, forgotten: bool) -> None:
    """Leave the mark that a disk was forgotten, or remove it.

    :raises DiskError: ``uuid`` is not the canonical form of a UUID.
    :raises OSError: the disk root cannot be written to.
    """
    mark = disk_path(disk_root, uuid) + _FORGOTTEN
    if forgotten:
        files.replace(mark, '', durable=True)
    elif os.path.lexists(mark):
        os.unlink(mark)


def _look(disk_root: str, uuid: str) -> looks.Look[Disk]:
    """Return what looks at a disk, the same as long as this process lives.

    :raises DiskError: ``uuid`` is not the canonical form of a UUID.
    """
    path = disk_path(disk_root, uuid)
    with _looks_lock:
        if path not in _looks:
            _looks[path] = looks.Look(lambda: _look_at(path, uuid))
        return _looks[path]


def _look_at(path: str, uuid: str) -> Disk:
    try:
        if groups.is_entry(path):
            disk = _inspect_group(uuid, path)
        else:
            disk = _inspect(_identified(path, uuid), path)
    except exception.DiskHung:
        return _hung(path, uuid, _look(*os.path.split(path)).seen)
    except (exception.DiskError, OSError) as error:
        return _unreadable(uuid, path, str(error))
    if _missing_log.clear(path):
        LOG.info('Disk %s is %s again', path, disk.health)
    return disk


def _seen(look: looks.Look[Disk]) -> Disk:
    assert look.seen is not None  # noqa: S101
    return look.seen


def _unanswered(disk_root: str, uuid: str, look: looks.Look[Disk]) -> Disk:
    """Return a disk that does not answer: late, or hung."""
    path, known = disk_path(disk_root, uuid), look.seen
    if known is not None and look.waiting < looks.HUNG:
        return dataclasses.replace(known, late=True)
    return _hung(path, uuid, known)


def _hung(path: str, uuid: str, known: Disk | None) -> Disk:
    _missing_log.log(path, 'Disk %s is %s: it does not answer', path, HUNG)
    return dataclasses.replace(known or missing(uuid, path), health=HUNG)


def _identified(path: str, uuid: str) -> identity.Identity:
    if not os.path.ismount(os.path.realpath(path)):
        raise exception.DiskError('nothing is mounted there')
    _read_direct(path)
    known = identity.read(path)
    if known is None or known.uuid != uuid:
        carried = known.uuid if known else 'none'
        raise exception.DiskError(f'its identity is {carried}')
    return known


def _inspect(known: identity.Identity, path: str) -> Disk:

    def waiting() -> None:
        # whoever holds it takes long, but the disk answers
        _read_direct(path)
        _look(*os.path.split(path)).goes_on()

    with vdisks_.locked(path, fcntl.LOCK_SH, waiting) as directory:
        status = os.fstatvfs(directory)
        vdisks = vdisks_.scan(path)
        total_gb = space.total_gb(directory, status)
    block = sysfs.of_filesystem(path)
    return Disk(
        uuid=known.uuid,
        path=path,
        device=block.device,
        medium=known.medium,
        model=block.model,
        numa_node=block.numa_node,
        size_bytes=status.f_blocks * status.f_frsize,
        free_bytes=space.free_bytes(status),
        total_gb=total_gb,
        mbps=known.mbps,
        health=READ_ONLY if status.f_flag & os.ST_RDONLY else OK,
        vdisks=vdisks,
    )


def _inspect_group(uuid: str, path: str) -> Disk:
    group = groups.require(uuid)
    known = group.identity
    if known.uuid != uuid:
        raise exception.DiskError(f'its identity is {known.uuid}')
    block = sysfs.of_device(group.devices[0])
    read_only = group.read_only or block.read_only
    return Disk(
        uuid=known.uuid,
        path=path,
        device=block.device,
        medium=known.medium,
        model=block.model,
        numa_node=block.numa_node,
        size_bytes=group.size_bytes,
        free_bytes=max(0, group.free_bytes - groups.SLACK),
        total_gb=group.total_gb,
        mbps=known.mbps,
        health=READ_ONLY if read_only else OK,
        vdisks=group.vdisks,
    )


def missing(uuid: str, path: str) -> Disk:
    """Return the disk ``uuid`` as one that is not there."""
    return Disk(uuid, path, '', '', '', None, 0, 0, 0, 0, MISSING, ())


def _read_direct(path: str) -> None:
    """Have a disk answer, where all else may come from memory."""
    with contextlib.suppress(FileNotFoundError):
        looks.read_direct(os.path.join(path, identity.FILE), 0, _READ)


def _unreadable(uuid: str, path: str, reason: str) -> Disk:
    _missing_log.log(path, 'Disk %s is missing: %s', path, reason)
    return missing(uuid, path)


def _is_uuid(name: str) -> bool:
    try:
        return str(uuidlib.UUID(name)) == name
    except ValueError:
        return False
