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

"""How much of a disk vdisks may fill, also where they share blocks.

Every vdisk counts with its full size, written or not, shared or not: that is
what it comes to take when its guest writes all of it. What is left after
everything else on the filesystem, the *others*, is what vdisks may fill.

While no blocks are shared, the others are what is neither free nor allocated
to vdisks. Blocks that several vdisks share hide some of the others, so what
they take is recorded on the disk before blocks are first shared.
"""

import errno
import os
import stat

from nova_diskplacer.disks.vdisk import GIB

# What the filesystem may need for itself while vdisks are allocated.
_SLACK = 64 << 20

# Overwriting shared blocks splits extents. At worst each block of 4096 bytes
# gets an extent of its own, 16 bytes in nodes that are half full.
_EXTENTS = 4096 // (16 * 2)

_OTHERS = 'user.diskplacer.others'


def capacity_gb(
    size_bytes: int, free_bytes: int, allocated_bytes: int, others_bytes: int
) -> int:
    """Return the GiB that vdisks may fill on a disk.

    :param allocated_bytes: what the vdisks on it occupy, each block counted
        once for every vdisk that has it.
    :param others_bytes: what else is known to take space, 0 if nothing is.
    """
    seen = size_bytes - free_bytes - allocated_bytes
    others = max(0, seen, others_bytes)
    return max(0, size_bytes - others - _SLACK) // GIB


def total_gb(directory: int, status: os.statvfs_result) -> int:
    """Return the GiB that vdisks may fill on a disk.

    :param directory: descriptor of its directory of vdisks, locked.
    :param status: of its filesystem, read before what the vdisks occupy.
    :raises OSError: the disk cannot be read.
    """
    return capacity_gb(
        status.f_blocks * status.f_frsize,
        status.f_bavail * status.f_frsize,
        allocated_bytes(directory),
        others_bytes(directory),
    )


def free_bytes(status: os.statvfs_result) -> int:
    """Return the bytes that may be allocated on a filesystem."""
    return max(0, status.f_bavail * status.f_frsize - _SLACK)


def allocated_bytes(directory: int) -> int:
    """Return what the files in a directory occupy, none beyond its size.

    :raises OSError: the disk cannot be read.
    """
    total = 0
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                total += min(status.st_blocks * 512, status.st_size)
    return total


def others_bytes(directory: int | str) -> int:
    """Return what is recorded to take space beside the vdisks.

    :param directory: the disk's directory of vdisks, open or by its path.
    :raises OSError: the disk cannot be read.
    """
    try:
        return int(os.getxattr(directory, _OTHERS))
    except OSError as error:
        if error.errno == errno.ENODATA:
            return 0
        raise


def to_record(
    size_bytes: int, free_bytes: int, allocated_bytes: int, recorded_bytes: int
) -> int:
    """Return what to record of the others before blocks are shared.

    That includes what the maps of shared extents may come to take. Parameters
    are those of :func:`capacity_gb`.
    """
    seen = max(0, size_bytes - free_bytes - allocated_bytes)
    return max(recorded_bytes, seen + size_bytes // _EXTENTS)


def before_sharing(directory: int) -> None:
    """Record on a disk what else takes space, if that has grown.

    :param directory: descriptor of its directory of vdisks, locked.
    :raises OSError: the disk refuses.
    """
    status = os.fstatvfs(directory)
    recorded = others_bytes(directory)
    wanted = to_record(
        status.f_blocks * status.f_frsize,
        status.f_bavail * status.f_frsize,
        allocated_bytes(directory),
        recorded,
    )
    if wanted > recorded:
        os.setxattr(directory, _OTHERS, str(wanted).encode())
