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

"""The vdisks on a filesystem: preallocated raw files with their owners.

A vdisk is linked into ``<disk>/vdisks`` only when it is complete. Its blocks
are allocated but unwritten, so they read as zeros whatever the disk held
before. Every operation raises DiskError if a vdisk that it needs is missing,
or the disk refuses or lacks the space.

The filesystem's journal keeps the order of changes, so one fsync after the
last step makes an operation survive a power failure. It is also called where
a killed run did that step.
"""

import collections.abc
import contextlib
import errno
import fcntl
import os

from nova_diskplacer import exception
from nova_diskplacer.disks.filesystem import devices
from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.disks.filesystem import locks
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.disks.vdisk import is_snapshot
from nova_diskplacer.host import files as host_files
from nova_diskplacer.host import loop_devices

# Mode of a vdisk's file: only its owner uses it, root or libvirt's user.
MODE = 0o600
# Snapshots are never written to.
SNAPSHOT_MODE = 0o400


def path(disk: str, name: str) -> str:
    """Return the path of a vdisk's file on the disk at path ``disk``.

    :raises DiskError: no vdisk can have this name.
    """
    return os.path.join(disk, files.DIRECTORY, files.check_name(name))


def make_directory(disk: str) -> None:
    """Make the directory of vdisks, and check that it can hold them.

    :raises DiskError: the filesystem lacks a feature that vdisks need.
    """
    path = os.path.join(disk, files.DIRECTORY)
    os.makedirs(path, mode=0o711, exist_ok=True)
    try:
        with (
            host_files.opened(path, os.O_DIRECTORY) as directory,
            files.open_tmpfile(directory, MODE) as descriptor,
        ):
            os.posix_fallocate(descriptor, 0, 4096)
            os.setxattr(descriptor, files.SERVER_XATTR, b'')
    except OSError as error:
        raise exception.DiskError(
            f'{disk} cannot hold vdisks: unnamed files, preallocation and '
            f'user attributes are needed ({error.strerror})'
        ) from error


def scan(disk: str) -> tuple[VDisk, ...]:
    """Return the vdisks on the disk at path ``disk``, sorted by name."""
    vdisks = []
    with os.scandir(os.path.join(disk, files.DIRECTORY)) as entries:
        for entry in entries:
            # the file may be deleted since it was listed
            with contextlib.suppress(FileNotFoundError):
                if not entry.name.startswith(
                    files.UNFINISHED
                ) and entry.is_file(follow_symlinks=False):
                    vdisks.append(_read(entry.path, entry.name))
    return tuple(sorted(vdisks, key=lambda vdisk: vdisk.name))


def create(
    disk: str,
    name: str,
    volume_id: str,
    server_id: str | None,
    size_bytes: int,
) -> None:
    """Allocate a vdisk of ``size_bytes`` on the disk at path ``disk``.

    Does nothing if the volume's vdisk exists.

    :param server_id: the server that the vdisk is bound for, if any.
    :raises DiskError: the name belongs to another volume, or the size is not
        positive.
    """
    check_size(name, size_bytes)
    with locks.changing(disk, name) as directory:
        if not has_vdisk(disk, name, volume_id):
            with files.open_tmpfile(directory, MODE) as new:
                os.posix_fallocate(new, 0, size_bytes)
                files.set_owners(new, volume_id, server_id)
                files.link_tmpfile(directory, new, name)
        os.fsync(directory)


def extend(disk: str, name: str, size_bytes: int) -> None:
    """Extend a vdisk to ``size_bytes`` and allocate all of its blocks.

    A longer vdisk keeps its size.

    :raises DiskError: the size is not positive.
    """
    check_size(name, size_bytes)
    with (
        locks.changing(disk, name) as directory,
        files.open_vdisk(directory, name, os.O_RDWR) as descriptor,
    ):
        before = os.fstat(descriptor).st_size
        try:
            files.allocate(descriptor, size_bytes)
        except OSError:
            os.ftruncate(descriptor, before)
            raise
        os.fsync(descriptor)
        devices.follow_size(descriptor, name)


def shrink(disk: str, name: str, size_bytes: int) -> None:
    """Undo an extension.

    :raises DiskError: it is in use or shorter than ``size_bytes``.
    """
    check_size(name, size_bytes)
    with (
        locks.changing(disk, name) as directory,
        _without_device(directory, disk, name),
        opened_unused(directory, disk, name) as descriptor,
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
    """Delete a vdisk, if it exists.

    :raises DiskError: it is in use.
    """
    with locks.changing(disk, name) as directory:
        with (
            contextlib.suppress(FileNotFoundError),
            opened_unused(directory, disk, name) as descriptor,
        ):
            # the name is gone, but the blocks count until they are free;
            # a namesake may be created, and deleted or reverted, meanwhile
            doomed = f'{files.UNFINISHED}{name}.{os.fstat(descriptor).st_ino}'
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.rename(name, doomed, src_dir_fd=directory, dst_dir_fd=directory)
            locks.free(directory, descriptor, doomed)
        os.fsync(directory)


def written(disk: str, name: str) -> bool:
    """Tell whether a vdisk may have been written to.

    Preallocated blocks have no data until they are written.
    """
    with (
        locks.errors(disk, name),
        locks.locked(disk, fcntl.LOCK_SH) as directory,
        files.open_vdisk(directory, name, os.O_RDONLY) as descriptor,
    ):
        size = os.fstat(descriptor).st_size
        return any(files.data_ranges(descriptor, 0, size))


def in_use(disk: str, name: str) -> bool:
    """Tell whether a process has a vdisk, or its loop device, open.

    The loop device is away for a moment if none has: nothing else tells.
    """
    with locks.errors(disk, name):
        try:
            with (
                locks.locked(disk, fcntl.LOCK_SH) as directory,
                files.open_vdisk(directory, name, os.O_RDONLY) as descriptor,
            ):
                has_device = devices.exists(descriptor, name)
                if not has_device:
                    files.take_lease(descriptor)
            if has_device:
                with (
                    locks.locked(disk, fcntl.LOCK_EX) as directory,
                    _without_device(directory, disk, name),
                    files.open_vdisk(
                        directory, name, os.O_RDONLY
                    ) as descriptor,
                ):
                    files.take_lease(descriptor)
        except OSError as error:
            if error.errno == errno.EBUSY:
                return True
            raise
        return False


def attach_device(disk: str, name: str) -> None:
    """Make a vdisk's loop device, if it has none; see :mod:`devices`."""
    with (
        locks.changing(disk, name) as directory,
        files.open_vdisk(directory, name, os.O_RDWR) as descriptor,
    ):
        devices.attach(_uuid(disk), name, descriptor)


def detach_device(disk: str, name: str) -> None:
    """Remove a vdisk's loop device, if it has one.

    :raises DiskError: it is in use.
    """
    with (
        locks.changing(disk, name) as directory,
        files.open_vdisk(directory, name, os.O_RDONLY) as descriptor,
    ):
        _detach(disk, name, descriptor)


def with_device(disk: str) -> list[str]:
    """Return the names of the vdisks that have loop devices, sorted."""
    directory = os.path.join(os.path.realpath(disk), files.DIRECTORY)
    return loop_devices.files_in(directory)


@contextlib.contextmanager
def opened_unused(
    directory: int, disk: str, name: str
) -> collections.abc.Iterator[int]:
    """Open a vdisk that no process has open, without a loop device now.

    A process that opens it meanwhile waits until it is closed. The caller has
    locked the directory of vdisks.
    """
    with files.open_vdisk(directory, name, os.O_RDWR) as descriptor:
        _detach(disk, name, descriptor)
        files.take_lease(descriptor)
        yield descriptor


@contextlib.contextmanager
def _without_device(
    directory: int, disk: str, name: str
) -> collections.abc.Iterator[None]:
    """Take a vdisk from its loop device for a moment, if it has one."""
    with files.open_vdisk(directory, name, os.O_RDONLY) as descriptor:
        released = devices.detach(_uuid(disk), name, descriptor)
    try:
        yield
    finally:
        if released:
            # not the file above: a lease lasts as long as that is open
            with files.open_vdisk(directory, name, os.O_RDWR) as descriptor:
                devices.attach(_uuid(disk), name, descriptor, released[0])


def _detach(disk: str, name: str, descriptor: int) -> None:
    uuid = _uuid(disk)
    devices.remove(uuid, devices.detach(uuid, name, descriptor))


def _uuid(disk: str) -> str:
    return os.path.basename(disk)


def writes(disk: str, name: str) -> str:
    """Return a text that changes if a vdisk is written to."""
    with (
        locks.errors(disk, name),
        locks.locked(disk, fcntl.LOCK_SH) as directory,
        files.open_vdisk(directory, name, os.O_RDONLY) as descriptor,
    ):
        return str(os.fstat(descriptor).st_mtime_ns)


def rename(disk: str, name: str, new_name: str, volume_id: str) -> None:
    """Rename an unused vdisk and change its owner; it is bound for no server.

    Does nothing if that was done before.

    :param volume_id: id of the volume or snapshot that owns it, '' for none.
    :raises DiskError: the new name is taken.
    """
    files.check_name(new_name)
    with locks.changing(disk, name) as directory:
        taken = os.path.lexists(path(disk, new_name))
        if taken and name != new_name:
            if os.path.lexists(path(disk, name)):
                raise FileExistsError(errno.EEXIST, f'{new_name} exists')
            has_vdisk(disk, new_name, volume_id)
            os.fsync(directory)
            return
        with files.open_vdisk(directory, name, os.O_RDONLY) as descriptor:
            if name != new_name:
                _detach(disk, name, descriptor)
            # the name changes last: it proves that all else is done
            os.fchown(descriptor, os.geteuid(), os.getegid())
            mode = SNAPSHOT_MODE if is_snapshot(new_name) else MODE
            os.fchmod(descriptor, mode)
            files.set_owners(descriptor, volume_id, None)
            os.rename(
                name, new_name, src_dir_fd=directory, dst_dir_fd=directory
            )
            os.fsync(descriptor)


def has_vdisk(disk: str, name: str, volume_id: str) -> bool:
    """Tell whether a disk has the vdisk of a Cinder volume.

    :raises OSError: the vdisk belongs to another volume.
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
    """Check the size of a vdisk.

    :raises DiskError: it is not positive.
    """
    if size_bytes <= 0:
        raise exception.DiskError(
            f'vdisk {name} cannot have a size of {size_bytes} bytes'
        )


def _read(file: str, name: str) -> VDisk:
    volume_id, server_id = files.get_owners(file)
    return VDisk(name, volume_id, server_id, os.stat(file).st_size)
