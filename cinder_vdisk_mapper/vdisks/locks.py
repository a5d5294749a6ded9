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

"""Locks that cinder-volume's processes and the audit of a host share.

A lock is a file in ``[oslo_concurrency] lock_path``, locked with flock. Its
holder removes the file when it releases the lock. A process that has locked a
file therefore checks that the path still leads to it; if not, it starts over.
oslo.concurrency's external locks would leave a file for each volume that ever
was. A fixed number of files would be shared by volumes, and a move holds its
volume's lock for as long as it copies.

The lock ``legs-<vdisk>`` keeps others from changing the legs of a vdisk. It
may be taken while that of its volume is held, and those of disks while it is.

The audit runs as root and cinder-volume as another user. A file that root
makes belongs to the owner of its directory before others can see it.
"""

import collections.abc
import contextlib
import fcntl
import os
import pwd
import tempfile
import time

from oslo_concurrency import lockutils
from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer.host import files

CONF = cfg.CONF

_PREFIX = 'vdisk-'
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

# Seconds between two attempts at a lock that another process holds.
_INTERVAL = 0.01


class Held(exception.DiskPlacerError):
    """Another process or thread holds the lock."""


@contextlib.contextmanager
def hold(name: str, wait: bool = True) -> collections.abc.Iterator[None]:
    """Lock ``name`` for this thread of this process.

    :param wait: whether to wait for another holder.
    :raises Held: there is another holder and ``wait`` is false.
    :raises DiskPlacerError: the lock file cannot be made or opened.
    """
    path = os.path.join(_directory(), _PREFIX + name)
    with contextlib.ExitStack() as stack:
        try:
            # threads of this process wait here
            stack.enter_context(
                lockutils.lock(name, lock_file_prefix=_PREFIX, blocking=wait)
            )
            descriptor = _acquire(path, wait)
        except (lockutils.AcquireLockFailedException, BlockingIOError):
            raise Held(f'another process or thread works on {name}') from None
        stack.callback(_release, path, descriptor)
        yield


@contextlib.contextmanager
def hold_within(name: str, seconds: float) -> collections.abc.Iterator[None]:
    """Lock as :func:`hold`, and wait for another holder for some seconds.

    :raises Held: there is another holder for longer.
    :raises DiskPlacerError: as :func:`hold`.
    """
    with contextlib.ExitStack() as stack:
        files.take_within(
            lambda: stack.enter_context(hold(name, wait=False)), Held, seconds
        )
        yield


@contextlib.contextmanager
def hold_all(
    names: collections.abc.Iterable[str],
) -> collections.abc.Iterator[None]:
    """Lock several names of one kind, in the order that all operations use.

    :raises DiskPlacerError: as :func:`hold`.
    """
    with contextlib.ExitStack() as stack:
        for name in sorted(set(names)):
            stack.enter_context(hold(name))
        yield


def sweep() -> None:
    """Remove the lock files that processes left when they were killed."""
    directory = _directory()
    if not os.path.isdir(directory):
        return
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        # a lock that is held or belongs to another user stays
        with contextlib.suppress(OSError):
            if name.startswith('.' + _PREFIX):
                # root makes another one if it still needs this one
                os.unlink(path)
            elif name.startswith(_PREFIX):
                _sweep(path)


def _sweep(path: str) -> None:
    """Remove a lock file whose lock is free.

    :raises OSError: it cannot be opened.
    """
    descriptor = os.open(path, _FLAGS)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
    else:
        _release(path, descriptor)


def make_directory(owner_of: str) -> None:
    """Make the directory of the locks as root, if it is missing.

    :param owner_of: a directory of the user of cinder-volume, who will own
        the new one.
    :raises DiskPlacerError: it cannot be made.
    """
    directory = _directory()
    if os.path.isdir(directory):
        return
    try:
        owner = os.stat(owner_of)
        parent = os.path.dirname(os.path.abspath(directory))
        os.makedirs(parent, exist_ok=True)
        new = tempfile.mkdtemp(prefix='.' + _PREFIX, dir=parent)
        os.chown(new, owner.st_uid, owner.st_gid)
        try:
            os.rename(new, directory)
        except OSError:
            # cinder-volume was faster
            os.rmdir(new)
    except OSError as error:
        raise exception.DiskPlacerError(
            f'[oslo_concurrency] lock_path {directory} does not exist and '
            f'cannot be made for the owner of state_path {owner_of} '
            f'({error.strerror}: {error.filename}): make it, owned by the '
            'user that cinder-volume runs as'
        ) from error


def _directory() -> str:
    directory: str | None = CONF.oslo_concurrency.lock_path
    if not directory:
        raise exception.DiskPlacerError(
            '[oslo_concurrency] lock_path of cinder.conf is not set; it must '
            'be a directory that all cinder-volume processes of the host share'
        )
    return directory


def _acquire(path: str, wait: bool) -> int:
    """Return a descriptor of the locked file that is at ``path``.

    :raises BlockingIOError: it is locked, and ``wait`` is false.
    """
    while True:
        try:
            descriptor = _open(path)
        except OSError as error:
            raise _lock_error(path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if not wait:
                raise
            time.sleep(_INTERVAL)
            continue
        if _is_at(path, descriptor):
            return descriptor
        os.close(descriptor)


def _release(path: str, descriptor: int) -> None:
    # a lock file that cannot be removed is harmless: its lock is free
    with contextlib.suppress(OSError):
        if _is_at(path, descriptor):
            os.unlink(path)
    os.close(descriptor)


def _is_at(path: str, descriptor: int) -> bool:
    """Return whether a path still leads to the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _open(path: str) -> int:
    """Open a lock file and make it if it is missing."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, _FLAGS)
        directory = os.path.dirname(path)
        os.makedirs(directory, exist_ok=True)
        owner = os.stat(directory)
        if os.geteuid() == 0 and owner.st_uid != 0:
            _make_for(owner, path)
        else:
            return os.open(path, _FLAGS | os.O_CREAT, 0o600)


def _make_for(owner: os.stat_result, path: str) -> None:
    """Make a file that belongs to ``owner`` before others can see it."""
    directory, name = os.path.split(path)
    descriptor, new = tempfile.mkstemp(prefix=f'.{name}-', dir=directory)
    try:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
        # another process may have made the file, or removed the new one
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            os.link(new, path, follow_symlinks=False)
    finally:
        os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)


def _lock_error(path: str, error: OSError) -> exception.DiskPlacerError:
    """Return the error for a lock file that cannot be made or opened."""
    message = f'lock file {path}: {error.strerror}'
    if isinstance(error, PermissionError):
        user = _user(os.geteuid())
        directory = os.path.dirname(path)
        if os.path.isdir(directory):
            there = path if os.path.lexists(path) else directory
            status = os.lstat(there)
            message += (
                f' for user {user}: {there} belongs to user '
                f'{_user(status.st_uid)} with mode '
                f'{status.st_mode & 0o7777:04o}; if cinder-volume runs as '
                f'user {user}, chown {user} {there}'
            )
        else:
            message += (
                f' for user {user}: there is no directory {directory}; make '
                'it, owned by the user that cinder-volume runs as'
            )
    return exception.DiskPlacerError(message)


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
