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

"""Copies the content of a vdisk from one disk to another."""

import collections.abc
import contextlib
import errno
import os

from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.host import files as host_files

# Bytes per call; no more of them are only in memory at any time.
_STEP = 64 << 20

_ZEROS = bytes(1 << 20)


def copy(disk: str, name: str, target: str, start: int) -> int | None:
    """Copy a part of an unused vdisk to its namesake on another disk.

    The target must belong to the same volume, be unused and at least as large.
    It keeps its blocks and reads as zeros where the source has no data. The
    copied part is durable on return.

    :param disk: path of the disk with the vdisk.
    :param target: path of the other disk.
    :param start: offset at which to continue, 0 in the first call.
    :returns: ``start`` of the next call, None if all is copied.
    :raises DiskError: a vdisk is missing or in use, they do not match,
        ``start`` is not within the vdisk, or a disk refuses.
    """
    with (
        _open(disk, name, os.O_RDONLY) as source,
        _open(target, name, os.O_RDWR) as copied,
        vdisks.errors(f'{target} as copy from {disk}', name),
    ):
        files.take_lease(source)
        files.take_lease(copied)
        _check_pair(source, copied)
        size = os.fstat(copied).st_size
        if not 0 <= start < size:
            raise OSError(
                errno.EINVAL, f'offset {start} is not within its {size} bytes'
            )
        return _copy_step(source, copied, start)


@contextlib.contextmanager
def _open(disk: str, name: str, flags: int) -> collections.abc.Iterator[int]:
    path = vdisks.path(disk, name)
    with (
        vdisks.errors(disk, name),
        host_files.opened(path, flags | os.O_NOFOLLOW) as descriptor,
    ):
        yield descriptor


def _check_pair(source: int, target: int) -> None:
    volume_id, _ = files.get_owners(source)
    other, _ = files.get_owners(target)
    if volume_id != other:
        raise FileExistsError(errno.EEXIST, f'it belongs to volume {other!r}')
    size, room = os.fstat(source).st_size, os.fstat(target).st_size
    if size > room:
        raise OSError(
            errno.EFBIG, f'its {room} bytes are fewer than {size} to copy'
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
