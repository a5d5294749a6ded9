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

"""Finds the prepared disks of this host, by looking."""

import dataclasses
import fcntl
import os
import uuid as uuidlib

from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.disks import identity
from nova_diskplacer.disks import sysfs
from nova_diskplacer.disks import vdisks as vdisks_

LOG = logging.getLogger(__name__)

OK = 'ok'
MISSING = 'missing'
READ_ONLY = 'read-only'

# Why each path is missing, as last logged.
_complaints: dict[str, str] = {}

# What the filesystem may need for itself while vdisks are allocated.
_SLACK = 64 << 20


@dataclasses.dataclass(frozen=True)
class Disk:
    """A prepared disk, or the place where one should be.

    Of a disk whose ``health`` is missing only ``uuid`` and ``path`` are
    known: ``medium`` and ``model`` are empty, figures are 0.

    ``total_gb`` is what vdisks may fill, in GiB: the filesystem less what
    anything else takes. ``mbps`` is in MB/s. ``numa_node`` is None where the
    machine or the disk has none.
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
    vdisks: tuple[vdisks_.VDisk, ...]

    @property
    def free_gb(self) -> int:
        """GiB that new vdisks may physically fill."""
        return max(0, self.free_bytes - _SLACK) // vdisks_.GIB


def discover(disk_root: str) -> list[Disk]:
    """Return the disks under ``disk_root``, sorted by UUID.

    A disk that cannot be read is listed as missing; it spoils no other.
    """
    try:
        names = sorted(os.listdir(disk_root))
    except FileNotFoundError:
        return []
    return [inspect(disk_root, name) for name in names if _is_uuid(name)]


def inspect(disk_root: str, uuid: str) -> Disk:
    """Return the disk ``uuid`` under ``disk_root``; missing if unreadable."""
    path = os.path.join(disk_root, uuid)
    try:
        if not os.path.ismount(os.path.realpath(path)):
            return _unreadable(uuid, path, 'nothing is mounted there')
        known = identity.read(path)
        if known is None or known.uuid != uuid:
            carried = known.uuid if known else 'none'
            return _unreadable(uuid, path, f'its identity is {carried}')
        disk = _inspect(known, path)
    except (exception.DiskError, OSError) as error:
        return _unreadable(uuid, path, str(error))
    _complaints.pop(path, None)
    return disk


def capacity_gb(size_bytes: int, free_bytes: int, allocated_bytes: int) -> int:
    """Return the GiB that vdisks may fill on a disk.

    :param allocated_bytes: what the vdisks on it take; the rest of what is
        not free belongs to something else.
    """
    others = max(0, size_bytes - free_bytes - allocated_bytes)
    return max(0, size_bytes - others - _SLACK) // vdisks_.GIB


def _inspect(known: identity.Identity, path: str) -> Disk:
    with vdisks_.locked(path, fcntl.LOCK_SH) as directory:
        status = os.fstatvfs(directory)
        vdisks = vdisks_.scan(path)
    size = status.f_blocks * status.f_frsize
    free = status.f_bavail * status.f_frsize
    block = sysfs.of_filesystem(path)
    return Disk(
        uuid=known.uuid,
        path=path,
        device=block.device,
        medium=known.medium,
        model=block.model,
        numa_node=block.numa_node,
        size_bytes=size,
        free_bytes=free,
        total_gb=capacity_gb(
            size, free, sum(vdisk.size_bytes for vdisk in vdisks)
        ),
        mbps=known.mbps,
        health=READ_ONLY if status.f_flag & os.ST_RDONLY else OK,
        vdisks=vdisks,
    )


def missing(uuid: str, path: str) -> Disk:
    """Return the disk ``uuid`` as one that is not there."""
    return Disk(uuid, path, '', '', '', None, 0, 0, 0, 0, MISSING, ())


def _unreadable(uuid: str, path: str, reason: str) -> Disk:
    # looks are frequent: say it when it happens, not at each of them
    if _complaints.get(path) != reason:
        _complaints[path] = reason
        LOG.warning('Disk %s is missing: %s', path, reason)
    return missing(uuid, path)


def _is_uuid(name: str) -> bool:
    try:
        return str(uuidlib.UUID(name)) == name
    except ValueError:
        return False
