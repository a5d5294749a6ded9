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

"""Vdisks that share blocks: snapshots, clones and what is reverted.

Nothing is ever visible half made. A new vdisk is an unnamed file until it is
complete; one that takes the place of another is given a name that no vdisk
can have and is then renamed over it. What a crash leaves under such a name is
removed by the next change on the disk.
"""

import errno
import fcntl
import os

from nova_diskplacer import exception
from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.disks.filesystem import space
from nova_diskplacer.disks.filesystem import vdisks

# linux/fs.h; module fcntl lacks it
_FICLONE = 0x40049409


def snapshot(disk: str, name: str, snapshot: str, snapshot_id: str) -> None:
    """Freeze vdisk ``name`` of the disk at path ``disk`` as ``snapshot``.

    Nothing is done if the disk has that one of the Cinder snapshot already.

    :raises DiskError: there is no vdisk ``name``, the disk refuses, or has a
        vdisk ``snapshot`` of somebody else.
    """
    with vdisks.changing(disk, snapshot) as directory:
        if not vdisks.present(disk, snapshot, snapshot_id):
            with (
                files.opened(directory, name, os.O_RDONLY) as source,
                files.unnamed(directory, vdisks.SNAPSHOT_MODE) as new,
            ):
                files.give(new, snapshot_id, None)
                _share(directory, source, new)
                # somebody else may have made it meanwhile
                if not vdisks.present(disk, snapshot, snapshot_id):
                    files.link(directory, new, snapshot)
        os.fsync(directory)


def clone(
    disk: str, source: str, name: str, volume_id: str, size_bytes: int
) -> None:
    """Make vdisk ``name`` of the content of another one on the disk.

    Nothing is done if the disk has one of that name and volume already.

    :param size_bytes: as large as ``source`` or larger.
    :raises DiskError: there is no such source or it is larger, the disk lacks
        the space or refuses, or has a vdisk ``name`` of another volume.
    """
    with vdisks.changing(disk, name) as directory:
        if not vdisks.present(disk, name, volume_id):
            with (
                files.opened(directory, source, os.O_RDONLY) as original,
                files.unnamed(directory, vdisks.MODE) as new,
            ):
                least = os.fstat(original).st_size
                if size_bytes < least:
                    raise exception.DiskError(
                        f'vdisk {name} on {disk}: {size_bytes} bytes are not '
                        f'enough for a copy of {source}, which has {least}'
                    )
                files.give(new, volume_id, None)
                _share(directory, original, new)
                # somebody else may have made it meanwhile
                if not vdisks.present(disk, name, volume_id):
                    files.allocate(new, size_bytes)
                    files.link(directory, new, name)
        os.fsync(directory)


def revert(disk: str, name: str, snapshot: str) -> None:
    """Give vdisk ``name`` the content of a snapshot.

    :raises DiskError: the disk lacks either or refuses, or it is in use.
    """
    with (
        vdisks.changing(disk, name) as directory,
        files.opened(directory, snapshot, os.O_RDONLY) as source,
    ):
        _replace(directory, name, source)


def clear(disk: str, name: str) -> None:
    """Have vdisk ``name`` read as zeros.

    :raises DiskError: the disk has none or refuses, or it is in use.
    """
    with vdisks.changing(disk, name) as directory:
        _replace(directory, name, None)


def _share(directory: int, source: int, new: int) -> None:
    """Have a new file share all blocks of another one.

    It takes the longer the more extents there are. Others may look at the
    directory meanwhile, and may change it before and after.
    """
    space.before_sharing(directory)
    fcntl.flock(directory, fcntl.LOCK_SH)
    try:
        fcntl.ioctl(new, _FICLONE, source)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.ENOTTY):
            raise OSError(
                error.errno,
                'its filesystem cannot share blocks between files, as XFS '
                'with reflink=1 can',
            ) from error
        raise
    fcntl.flock(directory, fcntl.LOCK_EX)


def _replace(directory: int, name: str, source: int | None) -> None:
    with files.unused(directory, name, os.O_RDWR) as old:
        status = os.fstat(old)
        with files.unnamed(directory, status.st_mode & 0o7777) as new:
            if source is not None:
                _share(directory, source, new)
            os.ftruncate(new, status.st_size)
            files.give(new, *files.owners(old))
            if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(new, status.st_uid, status.st_gid)
            files.link(directory, new, vdisks.UNFINISHED + name)
            os.rename(
                vdisks.UNFINISHED + name,
                name,
                src_dir_fd=directory,
                dst_dir_fd=directory,
            )
            # only now: beside the old blocks there may be no room for more
            files.release(old)
            files.allocate(new, status.st_size)
            os.fsync(new)
