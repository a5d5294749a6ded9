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
"""

import collections.abc
import contextlib
import dataclasses
import errno
import fcntl
import os

from nova_diskplacer import exception

DIRECTORY = 'vdisks'

GIB = 1 << 30

# XFS wants as much free as a call asks for, allocated already or not.
_STEP = 32 << 20

_SERVER = 'user.diskplacer.server'
_VOLUME = 'user.diskplacer.volume'


@dataclasses.dataclass(frozen=True)
class VDisk:
    """A vdisk; ``server_id`` is the server that it was bound for."""

    name: str
    volume_id: str
    server_id: str | None
    size_bytes: int

    @property
    def size_gb(self) -> int:
        """Size in GiB, rounded up."""
        return -(-self.size_bytes // GIB)


def path(disk: str, name: str) -> str:
    """Return the path of a vdisk's file on the disk at path ``disk``."""
    return os.path.join(disk, DIRECTORY, name)


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
            os.setxattr(descriptor, _SERVER, b'')
        finally:
            os.close(descriptor)
    except OSError as error:
        raise exception.DiskError(
            f'{disk} cannot hold vdisks: unnamed files, preallocation and '
            f'user attributes are needed ({error.strerror})'
        ) from error


@contextlib.contextmanager
def locked(disk: str, mode: int) -> collections.abc.Iterator[int]:
    """Hold the directory of a disk's vdisks against other processes.

    Meant for moments: it makes what the filesystem says is used agree with
    the vdisks that are listed. Yields a descriptor of the directory.

    :param mode: ``fcntl.LOCK_SH`` to look, ``fcntl.LOCK_EX`` to change.
    :raises OSError: the directory cannot be opened.
    """
    directory = os.open(
        os.path.join(disk, DIRECTORY), os.O_RDONLY | os.O_DIRECTORY
    )
    try:
        fcntl.flock(directory, mode)
        yield directory
    finally:
        os.close(directory)


def scan(disk: str) -> tuple[VDisk, ...]:
    """Return the vdisks on the disk at path ``disk``, sorted by name.

    :raises OSError: the disk cannot be read.
    """
    found = []
    with os.scandir(os.path.join(disk, DIRECTORY)) as entries:
        for entry in entries:
            # one deleted since it was listed is none
            with contextlib.suppress(FileNotFoundError):
                if entry.is_file(follow_symlinks=False):
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
        that name of another volume.
    """
    try:
        with locked(disk, fcntl.LOCK_EX) as directory:
            if not _present(disk, name, volume_id):
                _allocate(directory, name, volume_id, server_id, size_bytes)
                os.fsync(directory)
    except OSError as error:
        raise _explained(disk, name, error) from error


def extend(disk: str, name: str, size_bytes: int) -> None:
    """Make a vdisk ``size_bytes`` long, every block of it allocated.

    Content is kept. A vdisk that is as long or longer stays as it is.

    :raises DiskError: there is no such vdisk, or the disk lacks the space.
    """
    try:
        with locked(disk, fcntl.LOCK_EX):
            descriptor = os.open(path(disk, name), os.O_RDWR | os.O_NOFOLLOW)
            try:
                before = os.fstat(descriptor).st_size
                try:
                    for start in range(0, size_bytes, _STEP):
                        step = min(_STEP, size_bytes - start)
                        os.posix_fallocate(descriptor, start, step)
                except OSError:
                    os.ftruncate(descriptor, before)
                    raise
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except OSError as error:
        raise _explained(disk, name, error) from error


def shrink(disk: str, name: str, size_bytes: int) -> None:
    """Undo an extension that the disk's ledger has no room for.

    :raises DiskError: there is no such vdisk, or the disk refuses.
    """
    try:
        with locked(disk, fcntl.LOCK_EX):
            os.truncate(path(disk, name), size_bytes)
    except OSError as error:
        raise _explained(disk, name, error) from error


def delete(disk: str, name: str) -> None:
    """Delete a vdisk; nothing is done if there is none.

    :raises DiskError: the disk refuses.
    """
    try:
        with locked(disk, fcntl.LOCK_EX) as directory:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)
            os.fsync(directory)
    except OSError as error:
        raise _explained(disk, name, error) from error


def _present(disk: str, name: str, volume_id: str) -> bool:
    try:
        vdisk = _read(path(disk, name), name)
    except FileNotFoundError:
        return False
    if vdisk.volume_id != volume_id:
        raise FileExistsError(
            errno.EEXIST, f'it belongs to volume {vdisk.volume_id!r}'
        )
    return True


def _allocate(
    directory: int,
    name: str,
    volume_id: str,
    server_id: str | None,
    size_bytes: int,
) -> None:
    descriptor = os.open(
        '.', os.O_TMPFILE | os.O_RDWR, 0o600, dir_fd=directory
    )
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)
        os.setxattr(descriptor, _SERVER, (server_id or '').encode())
        os.setxattr(descriptor, _VOLUME, volume_id.encode())
        os.fsync(descriptor)
        # dst_dir_fd also makes Python follow the link in /proc
        os.link(f'/proc/self/fd/{descriptor}', name, dst_dir_fd=directory)
    finally:
        os.close(descriptor)


def _read(file: str, name: str) -> VDisk:
    server_id = _attribute(file, _SERVER)
    return VDisk(
        name,
        _attribute(file, _VOLUME),
        server_id or None,
        os.stat(file).st_size,
    )


def _attribute(file: str, attribute: str) -> str:
    try:
        return os.getxattr(file, attribute).decode('utf-8', 'replace')
    except OSError as error:
        # a file that somebody else put there: it takes space all the same
        if error.errno == errno.ENODATA:
            return ''
        raise


def _explained(disk: str, name: str, error: OSError) -> exception.DiskError:
    return exception.DiskError(f'vdisk {name} on {disk}: {error.strerror}')
