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

"""Snapshots, clones and reverts of vdisks by shared blocks, and copies.

No vdisk is visible before it is complete. A new vdisk is a file without a
name until then. A file that replaces a vdisk first gets a name that no vdisk
can have, and is then renamed over it. The next change on the disk removes
what a crash leaves under such a name. Every operation raises DiskError if a
vdisk that it needs is missing, or the disk refuses or lacks the space.
"""

import collections.abc
import contextlib
import errno
import fcntl
import os

from nova_diskplacer import exception
from nova_diskplacer.disks import remote
from nova_diskplacer.disks.filesystem import devices
from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.disks.filesystem import locks
from nova_diskplacer.disks.filesystem import space
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.host import files as host_files

# linux/fs.h; module fcntl lacks it
_FICLONE = 0x40049409

# Bytes per call; no more of them are only in memory at any time.
_STEP = 64 << 20

_ZEROS = bytes(4 << 20)


def snapshot(disk: str, name: str, snapshot: str, snapshot_id: str) -> None:
    """Make a snapshot of a vdisk on the disk at path ``disk``.

    Does nothing if the Cinder snapshot's vdisk exists.

    :raises DiskError: the vdisk ``snapshot`` has another owner.
    """
    _make_sharing(disk, name, snapshot, snapshot_id, vdisks.SNAPSHOT_MODE)


def clone(
    disk: str, source: str, name: str, volume_id: str, size_bytes: int
) -> None:
    """Clone a vdisk on its disk.

    Does nothing if the volume's vdisk exists.

    :raises DiskError: the source is larger than ``size_bytes``, or the vdisk
        ``name`` belongs to another volume.
    """
    _make_sharing(disk, source, name, volume_id, vdisks.MODE, size_bytes)


def revert(disk: str, name: str, snapshot: str) -> None:
    """Revert an unused vdisk to its snapshot.

    :raises DiskError: the vdisk is in use.
    """
    with (
        locks.sharing(disk, name) as directory,
        files.open_vdisk(directory, snapshot, os.O_RDONLY) as source,
    ):
        _replace_content(directory, disk, name, source)


def clear(disk: str, name: str) -> None:
    """Zero an unused vdisk.

    :raises DiskError: it is in use.
    """
    with locks.changing(disk, name) as directory:
        _replace_content(directory, disk, name, None)


def copy(disk: str, name: str, target: str, start: int) -> int | None:
    """Copy a part of an unused vdisk to its namesake on another disk.

    Its loop device stays, for a server that starts meanwhile: the caller finds
    out then by :func:`vdisks.writes`. That of the target goes.

    The target must belong to the same volume, be unused and at least as large.
    It keeps its blocks and reads as zeros where the source has no data. The
    copied part is durable on return.

    :param start: offset at which to continue, 0 in the first call.
    :returns: ``start`` of the next call, None if all is copied.
    :raises DiskError: a vdisk is in use, they do not match, or ``start`` is
        not within the vdisk.
    """
    vdisks.detach_device(target, name)
    with (
        _open(disk, name, os.O_RDONLY) as source,
        _open(target, name, os.O_RDWR) as copied,
        locks.errors(f'{target} as copy from {disk}', name),
    ):
        if not devices.exists(source, name):
            files.take_lease(source)
        files.take_lease(copied)
        _check_pair(source, copied)
        size = os.fstat(copied).st_size
        _check_offset(start, size)
        return _copy_step(source, copied, start)


def copy_remote(disk: str, name: str, device: str, start: int) -> int | None:
    """Copy a part of the vdisk of another host to its unused namesake here.

    It keeps its blocks and reads as zeros where the other one does, and beyond
    its end. The copied part is durable on return.

    :param device: path of the other vdisk.
    :param start: offset at which to continue, 0 in the first call.
    :returns: ``start`` of the next call, None if all is copied.
    :raises DiskError: it is in use, the other one is larger or away, or
        ``start`` is not within the vdisk.
    """
    source_size = remote.size_bytes(device)
    vdisks.detach_device(disk, name)
    with (
        _open(disk, name, os.O_RDWR) as copied,
        locks.errors(f'{disk} as copy of {device}', name),
    ):
        files.take_lease(copied)
        size = os.fstat(copied).st_size
        _check_room(source_size, size)
        _check_offset(start, size)
        stop = min(start + _STEP, source_size)
        for offset, part in remote.parts(device, start, stop):
            end = offset + len(part)
            if part == _ZEROS[: len(part)]:
                _zero(copied, offset, end)
            elif os.pwrite(copied, part, offset) < len(part):
                raise OSError(errno.EIO, f'short write at byte {offset}')
        if stop >= source_size:
            _zero(copied, max(start, source_size), size)
            stop = size
        os.fsync(copied)
        os.posix_fadvise(copied, start, stop - start, os.POSIX_FADV_DONTNEED)
    return stop if stop < size else None


def _make_sharing(
    disk: str,
    source: str,
    name: str,
    owner: str,
    mode: int,
    size_bytes: int | None = None,
) -> None:
    """Make a vdisk that shares the blocks of another.

    :param size_bytes: allocate all blocks of this size, by default none.
    """
    with locks.sharing(disk, name) as directory:
        if not vdisks.has_vdisk(disk, name, owner):
            with (
                files.open_vdisk(directory, source, os.O_RDONLY) as original,
                files.open_tmpfile(directory, mode) as new,
            ):
                least = os.fstat(original).st_size
                if size_bytes is not None and size_bytes < least:
                    raise exception.DiskError(
                        f'vdisk {name} on {disk}: {size_bytes} bytes are not '
                        f'enough for a copy of {source}, which has {least}'
                    )
                files.set_owners(new, owner, None)
                _share_blocks(directory, original, new)
                # another process may have made it meanwhile
                if not vdisks.has_vdisk(disk, name, owner):
                    if size_bytes is not None:
                        files.allocate(new, size_bytes)
                    files.link_tmpfile(directory, new, name)
        os.fsync(directory)


def _share_blocks(directory: int, source: int, new: int) -> None:
    """Make a new file share all blocks of another.

    The time depends on the number of extents. Other processes may read the
    directory meanwhile, and may change it just before and after.
    """
    space.record_foreign_bytes(directory)
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


def _replace_content(
    directory: int, disk: str, name: str, source: int | None
) -> None:
    with vdisks.opened_unused(directory, disk, name) as old:
        status = os.fstat(old)
        with files.open_tmpfile(directory, status.st_mode & 0o7777) as new:
            if source is not None:
                _share_blocks(directory, source, new)
            os.ftruncate(new, status.st_size)
            files.set_owners(new, *files.get_owners(old))
            if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(new, status.st_uid, status.st_gid)
            unfinished = files.UNFINISHED + name
            files.link_tmpfile(directory, new, unfinished)
            os.rename(
                unfinished,
                name,
                src_dir_fd=directory,
                dst_dir_fd=directory,
            )
            # the disk may lack the space for both old and new blocks
            files.truncate_unlinked(old)
            files.allocate(new, status.st_size)
            os.fsync(new)


@contextlib.contextmanager
def _open(disk: str, name: str, flags: int) -> collections.abc.Iterator[int]:
    path = vdisks.path(disk, name)
    with (
        locks.errors(disk, name),
        host_files.opened(path, flags | os.O_NOFOLLOW) as descriptor,
    ):
        yield descriptor


def _check_pair(source: int, target: int) -> None:
    volume_id, _ = files.get_owners(source)
    other, _ = files.get_owners(target)
    if volume_id != other:
        raise FileExistsError(errno.EEXIST, f'it belongs to volume {other!r}')
    _check_room(os.fstat(source).st_size, os.fstat(target).st_size)


def _check_room(size: int, room: int) -> None:
    if size > room:
        raise OSError(
            errno.EFBIG, f'its {room} bytes are fewer than {size} to copy'
        )


def _check_offset(start: int, size: int) -> None:
    if not 0 <= start < size:
        raise OSError(
            errno.EINVAL, f'offset {start} is not within its {size} bytes'
        )


def _copy_step(source: int, target: int, start: int) -> int | None:
    end = os.fstat(target).st_size
    done, left = start, _STEP
    for first, last in files.data_ranges(
        source, start, os.fstat(source).st_size
    ):
        _zero(target, done, first)
        done = min(last, first + left)
        _transfer(source, target, first, done)
        left -= done - first
        if not left:
            break
    else:
        _zero(target, done, end)
        done = end
    os.fsync(target)
    for descriptor in (source, target):
        os.posix_fadvise(
            descriptor, start, done - start, os.POSIX_FADV_DONTNEED
        )
    return done if done < end else None


def _transfer(source: int, target: int, start: int, stop: int) -> None:
    os.lseek(target, start, os.SEEK_SET)
    while start < stop:
        sent = os.sendfile(target, source, start, stop - start)
        if not sent:
            raise OSError(errno.EIO, f'the source ended at byte {start}')
        start += sent


def _zero(target: int, start: int, stop: int) -> None:
    """Write zeros over data that an unfinished copy has left."""
    for first, last in list(files.data_ranges(target, start, stop)):
        for offset in range(first, last, len(_ZEROS)):
            left = min(len(_ZEROS), last - offset)
            if os.pwrite(target, _ZEROS[:left], offset) < left:
                raise OSError(errno.EIO, f'short write at byte {offset}')
