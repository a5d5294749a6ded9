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

"""The vdisks on a disk: preallocated raw files that know their owner.

A vdisk is linked into ``<disk>/vdisks`` only when it is complete, so it never
exists half made. Its blocks are allocated but unwritten: they read as zeros
whatever the disk held before.

The filesystem's journal keeps the order of all that is done here, so an
operation survives a power failure by one fsync after its last step. It is
done, too, where the last step was that of a run that was killed.
"""

import collections.abc
import contextlib
import errno
import fcntl
import os
import time

from nova_diskplacer import exception
from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.disks.vdisk import is_snapshot

DIRECTORY = 'vdisks'

# What becomes a vdisk's file: only root and whom libvirt gives it to use it.
MODE = 0o600
# Nobody ever writes to a snapshot.
SNAPSHOT_MODE = 0o400

# Prefix of what is no vdisk yet; no vdisk's name begins so.
UNFINISHED = '.unfinished.'

# Seconds between two attempts to take a directory that somebody else holds.
_PAUSE = 0.02


def path(disk: str, name: str) -> str:
    """Return the path of a vdisk's file on the disk at path ``disk``.

    :raises DiskError: there can be no vdisk of that name.
    """
    return os.path.join(disk, DIRECTORY, files.check_name(name))


def make_directory(disk: str) -> None:
    """Make the directory of vdisks, and see whether it can hold them.

    :raises DiskError: the filesystem lacks what a vdisk is made with.
    """
    directory = os.path.join(disk, DIRECTORY)
    os.makedirs(directory, mode=0o711, exist_ok=True)
    try:
        descriptor = os.open(directory, os.O_TMPFILE | os.O_RDWR, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, 4096)
            os.setxattr(descriptor, files.SERVER, b'')
        finally:
            os.close(descriptor)
    except OSError as error:
        raise exception.DiskError(
            f'{disk} cannot hold vdisks: unnamed files, preallocation and '
            f'user attributes are needed ({error.strerror})'
        ) from error


@contextlib.contextmanager
def locked(
    disk: str,
    mode: int,
    waiting: collections.abc.Callable[[], None] | None = None,
) -> collections.abc.Iterator[int]:
    """Hold the directory of a disk's vdisks against other processes.

    Meant for moments: it makes what the filesystem says is used agree with
    the vdisks that are listed. Yields a descriptor of the directory.

    :param mode: ``fcntl.LOCK_SH`` to look, ``fcntl.LOCK_EX`` to change.
    :param waiting: called again and again while somebody else holds it.
    :raises OSError: the directory cannot be opened.
    """
    directory = os.open(
        os.path.join(disk, DIRECTORY), os.O_RDONLY | os.O_DIRECTORY
    )
    try:
        while waiting and not _taken_at_once(directory, mode):
            waiting()
            time.sleep(_PAUSE)
        fcntl.flock(directory, mode)
        yield directory
    finally:
        os.close(directory)


def _taken_at_once(directory: int, mode: int) -> bool:
    try:
        fcntl.flock(directory, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def changing(disk: str, name: str) -> collections.abc.Iterator[int]:
    """Hold the directory of vdisks to change vdisk ``name``.

    What a change that was killed has left there is removed first. Yields a
    descriptor of the directory.

    :raises DiskError: in place of any OSError inside of it.
    """
    files.check_name(name)
    try:
        with locked(disk, fcntl.LOCK_EX) as directory:
            _remove_leftovers(directory)
            yield directory
    except OSError as error:
        raise explained(disk, name, error) from error


def sweep(disk: str) -> None:
    """Remove what changes that were killed have left on a disk.

    :raises DiskError: the disk refuses.
    """
    try:
        with locked(disk, fcntl.LOCK_EX) as directory:
            _remove_leftovers(directory)
    except OSError as error:
        raise exception.DiskError(f'{disk}: {error.strerror}') from error


def _remove_leftovers(directory: int) -> None:
    for entry in os.listdir(directory):
        if entry.startswith(UNFINISHED):
            _remove_leftover(directory, entry)


def _remove_leftover(directory: int, name: str) -> None:
    """Remove what is unfinished, unless somebody is at work on it."""
    # who holds a lease of it is not waited for
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        file = os.open(name, flags, dir_fd=directory)
    except BlockingIOError:
        return
    try:
        if _taken_at_once(file, fcntl.LOCK_EX):
            os.unlink(name, dir_fd=directory)
    finally:
        os.close(file)


def scan(disk: str) -> tuple[VDisk, ...]:
    """Return the vdisks on the disk at path ``disk``, sorted by name.

    :raises OSError: the disk cannot be read.
    """
    found = []
    with os.scandir(os.path.join(disk, DIRECTORY)) as entries:
        for entry in entries:
            # one deleted since it was listed is none
            with contextlib.suppress(FileNotFoundError):
                if not entry.name.startswith(UNFINISHED) and entry.is_file(
                    follow_symlinks=False
                ):
                    found.append(_read(entry.path, entry.name))
    return tuple(sorted(found, key=lambda vdisk: vdisk.name))


def create(
    disk: str,
    name: str,
    volume_id: str,
    server_id: str | None,
    size_bytes: int,
) -> None:
    """Allocate a vdisk of ``size_bytes`` on the disk at path ``disk``.

    Nothing is done if the disk has one of that name and volume already.

    :param server_id: the server that it is bound for, None if none.
    :raises DiskError: the disk lacks the space, refuses, or has a vdisk of
        that name of another volume; the size is not positive.
    """
    check_size(name, size_bytes)
    with changing(disk, name) as directory:
        if not present(disk, name, volume_id):
            with files.unnamed(directory, MODE) as new:
                os.posix_fallocate(new, 0, size_bytes)
                files.give(new, volume_id, server_id)
                files.link(directory, new, name)
        os.fsync(directory)


def extend(disk: str, name: str, size_bytes: int) -> None:
    """Make a vdisk ``size_bytes`` long, every block of it allocated.

    Content is kept. A vdisk that is as long or longer stays as it is.

    :raises DiskError: there is no such vdisk, or the disk lacks the space;
        the size is not positive.
    """
    check_size(name, size_bytes)
    with (
        changing(disk, name) as directory,
        files.opened(directory, name, os.O_RDWR) as descriptor,
    ):
        before = os.fstat(descriptor).st_size
        try:
            files.allocate(descriptor, size_bytes)
        except OSError:
            os.ftruncate(descriptor, before)
            raise
        os.fsync(descriptor)


def shrink(disk: str, name: str, size_bytes: int) -> None:
    """Undo an extension that the disk's ledger has no room for.

    :raises DiskError: there is no such vdisk, it is in use or shorter than
        ``size_bytes``, or the disk refuses.
    """
    check_size(name, size_bytes)
    with (
        changing(disk, name) as directory,
        files.unused(directory, name, os.O_RDWR) as descriptor,
    ):
        before = os.fstat(descriptor).st_size
        if size_bytes > before:
            raise OSError(
                errno.EINVAL,
                f'it has {before} bytes and cannot be shrunk to {size_bytes}',
            )
        os.ftruncate(descriptor, size_bytes)
        os.fsync(descriptor)


def delete(disk: str, name: str) -> None:
    """Delete a vdisk; nothing is done if there is none.

    :raises DiskError: it is in use, or the disk refuses.
    """
    with changing(disk, name) as directory:
        with (
            contextlib.suppress(FileNotFoundError),
            files.unused(directory, name, os.O_RDWR) as descriptor,
        ):
            # it counts until its blocks are free, and nobody sees it
            doomed = UNFINISHED + name
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.rename(name, doomed, src_dir_fd=directory, dst_dir_fd=directory)
            fcntl.flock(directory, fcntl.LOCK_UN)
            os.ftruncate(descriptor, 0)
            fcntl.flock(directory, fcntl.LOCK_EX)
            # another one of its name may have come and gone meanwhile
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(
                    os.fstat(descriptor), os.stat(doomed, dir_fd=directory)
                ):
                    os.unlink(doomed, dir_fd=directory)
        os.fsync(directory)


def written(disk: str, name: str) -> bool:
    """Tell whether a vdisk may have been written to since it was allocated.

    What is allocated in advance has no data until it is written to.

    :raises DiskError: there is no such vdisk, or it cannot be read.
    """
    try:
        with (
            locked(disk, fcntl.LOCK_SH) as directory,
            files.opened(directory, name, os.O_RDONLY) as descriptor,
        ):
            os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return False
        raise explained(disk, name, error) from error
    return True


def rename(disk: str, name: str, new_name: str, volume_id: str) -> None:
    """Rename a vdisk that nobody uses and give it to a volume.

    Nothing is done if that has been done. It is no server's afterwards.

    :param volume_id: id of the volume or snapshot, '' for nobody.
    :raises DiskError: the disk has no such vdisk, has another of the new
        name, or refuses.
    """
    files.check_name(new_name)
    with changing(disk, name) as directory:
        taken = os.path.lexists(path(disk, new_name))
        if taken and name != new_name:
            if os.path.lexists(path(disk, name)):
                raise FileExistsError(errno.EEXIST, f'{new_name} exists')
            present(disk, new_name, volume_id)
            os.fsync(directory)
            return
        with files.opened(directory, name, os.O_RDONLY) as descriptor:
            # the name last: it tells that all is done
            os.fchown(descriptor, os.geteuid(), os.getegid())
            mode = SNAPSHOT_MODE if is_snapshot(new_name) else MODE
            os.fchmod(descriptor, mode)
            files.give(descriptor, volume_id, None)
            os.rename(
                name, new_name, src_dir_fd=directory, dst_dir_fd=directory
            )
            os.fsync(descriptor)


def present(disk: str, name: str, volume_id: str) -> bool:
    """Tell whether a disk has the vdisk of this name and volume.

    :raises OSError: it has one of another volume, or cannot be read.
    """
    try:
        vdisk = _read(path(disk, name), name)
    except FileNotFoundError:
        return False
    if vdisk.volume_id != volume_id:
        raise FileExistsError(
            errno.EEXIST, f'{name} belongs to volume {vdisk.volume_id!r}'
        )
    return True


def check_size(name: str, size_bytes: int) -> None:
    """See that a vdisk can be of a size.

    :raises DiskError: it is not positive.
    """
    if size_bytes <= 0:
        raise exception.DiskError(
            f'vdisk {name} cannot have a size of {size_bytes} bytes'
        )


def _read(file: str, name: str) -> VDisk:
    volume_id, server_id = files.owners(file)
    return VDisk(name, volume_id, server_id, os.stat(file).st_size)


def explained(disk: str, name: str, error: OSError) -> exception.DiskError:
    """Return what to raise where a disk refuses."""
    return exception.DiskError(f'vdisk {name} on {disk}: {error.strerror}')
