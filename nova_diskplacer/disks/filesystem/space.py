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

"""Computes how much of a filesystem vdisks may fill.

Every vdisk counts with its full size, whether or not blocks are written or
shared, because its guest may write all of it. Vdisks may fill all space but
that of foreign data, which is everything else on the filesystem.

While no blocks are shared, foreign data is what is neither free nor allocated
to vdisks. Blocks that several vdisks share hide some of it, so its size is
recorded on the disk before blocks are first shared.

``directory`` is a descriptor of the locked directory of vdisks.
"""

import os
import stat

from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.disks.vdisk import GIB

#: Bytes that the filesystem may need for itself while vdisks are allocated, or
#: a volume group for the maps of snapshots.
SLACK = 64 << 20

# Bytes of data per byte of extent map. Overwriting shared blocks splits
# extents: at worst each block of 4096 bytes has an extent of its own, and that
# takes 16 bytes in nodes that are half full.
_DATA_PER_MAP_BYTE = 4096 // (16 * 2)

_FOREIGN_XATTR = 'user.diskplacer.others'


def capacity_gb(
    size_bytes: int, free_bytes: int, allocated_bytes: int, foreign_bytes: int
) -> int:
    """Return the GiB that vdisks may fill on a disk.

    :param allocated_bytes: occupied by vdisks; each block counts once for
        every vdisk that has it.
    :param foreign_bytes: recorded size of foreign data, 0 without a record.
    """
    seen = size_bytes - free_bytes - allocated_bytes
    foreign = max(0, seen, foreign_bytes)
    return max(0, size_bytes - foreign - SLACK) // GIB


def total_gb(directory: int, status: os.statvfs_result) -> int:
    """Return the GiB that vdisks may fill on a disk.

    :param status: of its filesystem, read before the sizes of the vdisks.
    """
    return capacity_gb(*_figures(directory, status))


def free_bytes(status: os.statvfs_result) -> int:
    """Return the bytes that may be allocated on a filesystem."""
    return max(0, status.f_bavail * status.f_frsize - SLACK)


def allocated_bytes(directory: int) -> int:
    """Return the bytes that vdisks occupy below their ends.

    A file that is being freed has blocks beyond its end, which count as well.
    """
    total = 0
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                occupied = status.st_blocks * 512
                if not entry.name.startswith(files.UNFINISHED):
                    occupied = min(occupied, status.st_size)
                total += occupied
    return total


def foreign_bytes(directory: int | str) -> int:
    """Return the recorded size of foreign data, 0 without a record."""
    return int(files.get_attribute(directory, _FOREIGN_XATTR) or 0)


def foreign_bytes_to_record(
    size_bytes: int, free_bytes: int, allocated_bytes: int, recorded_bytes: int
) -> int:
    """Return the size of foreign data to record before blocks are shared.

    It includes the largest size of the maps of shared extents. Parameters are
    those of :func:`capacity_gb`.
    """
    seen = max(0, size_bytes - free_bytes - allocated_bytes)
    return max(recorded_bytes, seen + size_bytes // _DATA_PER_MAP_BYTE)


def record_foreign_bytes(directory: int) -> None:
    """Record the size of foreign data on a disk, if it has grown.

    No blocks are being freed meanwhile: they would count, and for good.
    """
    figures = _figures(directory, os.fstatvfs(directory))
    foreign, recorded = foreign_bytes_to_record(*figures), figures[-1]
    if foreign > recorded:
        os.setxattr(directory, _FOREIGN_XATTR, str(foreign).encode())


def _figures(
    directory: int, status: os.statvfs_result
) -> tuple[int, int, int, int]:
    """Return the arguments of :func:`capacity_gb`."""
    return (
        status.f_blocks * status.f_frsize,
        status.f_bavail * status.f_frsize,
        allocated_bytes(directory),
        foreign_bytes(directory),
    )
