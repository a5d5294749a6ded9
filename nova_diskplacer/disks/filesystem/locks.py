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

"""Locks the directory of a disk's vdisks for a change.

A change that is killed leaves unfinished files. The next one removes them.
"""

import collections.abc
import contextlib
import fcntl
import os
import time

from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.host import files as host_files

# Seconds between two attempts to lock a directory.
_LOCK_RETRY = 0.02


@contextlib.contextmanager
def locked(
    disk: str,
    mode: int,
    waiting: collections.abc.Callable[[], None] | None = None,
) -> collections.abc.Iterator[int]:
    """Lock the directory of a disk's vdisks and yield its descriptor.

    While it is locked, the used space of the filesystem agrees with the listed
    vdisks. Hold the lock for moments only.

    :param mode: ``fcntl.LOCK_SH`` to read, ``fcntl.LOCK_EX`` to change.
    :param waiting: called repeatedly while another process has the lock.
    """
    path = os.path.join(disk, files.DIRECTORY)
    with host_files.opened(path, os.O_DIRECTORY) as directory:
        if waiting is None:
            fcntl.flock(directory, mode)
        while waiting is not None:
            try:
                fcntl.flock(directory, mode | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waiting()
                time.sleep(_LOCK_RETRY)
        yield directory


@contextlib.contextmanager
def changing(disk: str, name: str) -> collections.abc.Iterator[int]:
    """Lock the directory of vdisks for a change of vdisk ``name``.

    Leftovers of killed changes are removed first. Yields a descriptor of the
    directory. Any OSError becomes a DiskError.
    """
    files.check_name(name)
    with errors(disk, name), locked(disk, fcntl.LOCK_EX) as directory:
        _remove_leftovers(directory)
        yield directory


@contextlib.contextmanager
def sharing(disk: str, name: str) -> collections.abc.Iterator[int]:
    """Lock the directory of vdisks as :func:`changing`, to share blocks.

    Waits until no process frees blocks: those that are on their way are
    neither free nor of a file, and would be recorded as foreign data.
    """
    with changing(disk, name) as directory:
        while doomed := _unfinished(directory):
            fcntl.flock(directory, fcntl.LOCK_UN)
            _wait_for(directory, doomed[0])
            fcntl.flock(directory, fcntl.LOCK_EX)
            # unless it was killed
            _remove_leftovers(directory)
        yield directory


def _wait_for(directory: int, name: str) -> None:
    """Wait for the process that works on an unfinished file, if any."""
    flags = os.O_RDONLY | os.O_NOFOLLOW
    with (
        contextlib.suppress(FileNotFoundError),
        # waits for its lease as well
        host_files.opened(name, flags, directory=directory) as file,
    ):
        fcntl.flock(file, fcntl.LOCK_SH)


def sweep(disk: str) -> None:
    """Remove the leftovers of killed changes from a disk."""
    with (
        host_files.disk_errors(disk),
        locked(disk, fcntl.LOCK_EX) as directory,
    ):
        _remove_leftovers(directory)


def _remove_leftovers(directory: int) -> None:
    """Remove unfinished files, unless another process works on them.

    Others may lock the directory meanwhile.
    """
    # O_NONBLOCK: a lease of another process makes open fail, not wait
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
    for name in _unfinished(directory):
        with (
            # gone: another process has removed it meanwhile
            contextlib.suppress(BlockingIOError, FileNotFoundError),
            host_files.opened(name, flags, directory=directory) as file,
        ):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free(directory, file, name)


def _unfinished(directory: int) -> list[str]:
    """Return the names of the files that are no vdisks yet, or no more."""
    return [
        name
        for name in os.listdir(directory)
        if name.startswith(files.UNFINISHED)
    ]


def free(directory: int, descriptor: int, name: str) -> None:
    """Free the blocks of an unfinished file, and remove it then.

    Both it and the directory are locked; others may lock the directory
    meanwhile. XFS would free the blocks of a removed file in the background.
    """
    fcntl.flock(directory, fcntl.LOCK_UN)
    os.ftruncate(descriptor, 0)
    fcntl.flock(directory, fcntl.LOCK_EX)
    os.unlink(name, dir_fd=directory)


def errors(disk: str, name: str) -> contextlib.AbstractContextManager[None]:
    """Raise any OSError as a DiskError about a vdisk."""
    return host_files.disk_errors(f'vdisk {name} on {disk}')
