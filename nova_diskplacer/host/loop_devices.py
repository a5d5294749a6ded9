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


"""Loop devices: block devices whose content is a file.

A loop device does direct I/O on its file, so what a process writes to one of
them is seen in the other, and is never in memory twice.

Each is made with a random number, and removed when it loses its file. So a
process that opens a device just after that finds none, not one that has
another file already.

The ioctls need no capability, only write access to ``/dev/loop-control`` and
to the devices, which root owns. A file is told by its inode: a path may be
that of another mount namespace. Functions raise OSError.
"""

import collections.abc
import contextlib
import dataclasses
import errno
import fcntl
import glob
import os
import random
import struct
import time

from nova_diskplacer.host import files
from nova_diskplacer.host import sysfs

CONTROL = '/dev/loop-control'

# linux/loop.h
_CLR_FD = 0x4C01
_SET_STATUS64 = 0x4C04
_GET_STATUS64 = 0x4C05
_SET_CAPACITY = 0x4C07
_CONFIGURE = 0x4C0A
_CTL_ADD = 0x4C80
_CTL_REMOVE = 0x4C81
_AUTOCLEAR = 4
_DIRECT_IO = 16

# struct loop_info64: device, inode, rdevice, offset, sizelimit; number,
# encrypt_type, encrypt_key_size, flags; file_name, crypt_name, encrypt_key,
# init
_INFO = struct.Struct('=5Q4I64s64s32s2Q')
_FLAGS = 8
# struct loop_config: descriptor, block size, the above, reserved
_CONFIG = struct.Struct('=2I5Q4I64s64s32s2Q64s')

# Numbers of devices that are made here: below are those of other programs,
# above the kernel has none. Each takes 1 << fls(max_part) minor numbers.
_FIRST = 4096
_MINORS = 1 << 20

# Attempts at a number that no device has, and no program takes at once.
_ATTEMPTS = 32

# Seconds to wait for a process, such as udev, that looks at a device.
_PATIENCE = 0.5
_INTERVAL = 0.02


@dataclasses.dataclass(frozen=True)
class _Status:
    """The state of a loop device; ``fields`` are of struct loop_info64."""

    fields: tuple[int | bytes, ...]

    @property
    def flags(self) -> int:
        return int(self.fields[_FLAGS])

    def is_of(self, file: int) -> bool:
        """Return whether the device has an open file."""
        status = os.fstat(file)
        return self.fields[:2] == (status.st_dev, status.st_ino)


def find(file: int, name: str, sys: str = sysfs.SYS) -> list[str]:
    """Return the nodes of the loop devices that have an open file.

    :param name: the file's, without its directory.
    """
    found = []
    for path in glob.glob(f'{glob.escape(sys)}/block/loop*/loop/backing_file'):
        if os.path.basename(sysfs.read_optional(path)) != name:
            continue
        node = '/dev/' + path.split('/')[-3]
        # it may be released since it was listed
        with contextlib.suppress(FileNotFoundError), _opened(node) as device:
            if (status := _read(device)) and status.is_of(file):
                found.append(node)
    return sorted(found)


def files_in(directory: str, sys: str = sysfs.SYS) -> list[str]:
    """Return the names of the files in a directory that have loop devices.

    :param directory: its real path in this mount namespace.
    """
    paths = glob.glob(f'{glob.escape(sys)}/block/loop*/loop/backing_file')
    places = [os.path.split(sysfs.read_optional(path)) for path in paths]
    return sorted({name for parent, name in places if parent == directory})


def bind(file: int) -> str:
    """Make a loop device for a file that is open for writing.

    :returns: its node.
    :raises OSError: EOPNOTSUPP if its filesystem does no direct I/O, ENODEV
        if there are no loop devices here.
    """
    for _ in range(_ATTEMPTS):
        number = _add()
        node = f'/dev/loop{number}'
        try:
            with _opened(node) as device:
                if _configure(device, file):
                    return node
        except FileNotFoundError:
            remove(node)
            raise _missing(node) from None
        except OSError:
            remove(node)
            raise
    raise OSError(errno.EBUSY, 'all loop devices are taken at once')


def bind_again(node: str, file: int) -> str:
    """Make the loop device that a file has had, or another one.

    :returns: its node.
    """
    # others may have taken or removed it
    with contextlib.suppress(FileNotFoundError), _opened(node) as device:
        if _configure(device, file):
            return node
    return bind(file)


def keep(node: str) -> None:
    """Have a loop device outlast its users, with the size of its file.

    A process that was killed in :func:`release` may have left it so that it
    goes with the last of them.
    """
    with _opened(node) as device:
        if status := _read(device):
            _keep(device, status)
            fcntl.ioctl(device, _SET_CAPACITY, 0)


def release(node: str, file: int) -> bool:
    """Take a file from its loop device, if nobody else has that open.

    The kernel counts who has it open, in all namespaces. It tells nobody, but
    takes a device that is in use from its file only later, with the last
    close. That is taken back then.

    :returns: whether it is taken, or was.
    """
    with contextlib.suppress(FileNotFoundError), _opened(node) as device:
        status = _read(device)
        if status is None or not status.is_of(file):
            return True
        try:
            fcntl.ioctl(device, _CLR_FD, 0)
        except OSError as error:
            # another process has done it just now
            if error.errno == errno.ENXIO:
                return True
            raise
        # Linux before 6.11 has done it, a later one does when this is closed
        status = _read(device)
        if status is None or not status.is_of(file):
            return True
        _keep(device, status)
        return False
    return True


def remove(node: str) -> None:
    """Remove a loop device that has no file.

    It stays, for whoever needs one, if it was not made here or a process looks
    at it.
    """
    number = int(node.removeprefix('/dev/loop'))
    if number < _FIRST:
        return
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            _control(_CTL_REMOVE, number)
        except OSError as error:
            if error.errno != errno.EBUSY:
                return
            time.sleep(_INTERVAL)
        else:
            return


def _add() -> int:
    """Make a loop device without a file, and return its number."""
    max_part = sysfs.read_optional('/sys/module/loop/parameters/max_part')
    last = _MINORS >> int(max_part or 0).bit_length()
    for _ in range(_ATTEMPTS):
        number = random.randrange(_FIRST, last)  # noqa: S311
        try:
            return _control(_CTL_ADD, number)
        except OSError as error:
            if error.errno != errno.EEXIST:
                raise
    raise OSError(errno.EBUSY, 'there is no number for a loop device')


def _configure(device: int, file: int) -> bool:
    """Give an open loop device a file, unless it has one.

    :raises OSError: EOPNOTSUPP as :func:`bind`.
    """
    config = _CONFIG.pack(
        file,
        _block_size(file),
        *(0,) * 8,
        _DIRECT_IO,
        b'',
        b'',
        b'',
        0,
        0,
        b'',
    )
    try:
        fcntl.ioctl(device, _CONFIGURE, config)
    except OSError as error:
        if error.errno == errno.EBUSY:
            return False
        raise
    status = _read(device)
    if status is None or not status.flags & _DIRECT_IO:
        fcntl.ioctl(device, _CLR_FD, 0)
        raise OSError(errno.EOPNOTSUPP, 'its filesystem does no direct I/O')
    return True


def _block_size(file: int) -> int:
    """Return the bytes of a block that direct I/O on a file takes.

    Linux before 6.15 has blocks of 512 bytes for a file that is open as it is
    here, and then no direct I/O on a disk with larger ones.

    :returns: 0, which leaves it to the kernel, where 512 bytes do or the disk
        is unknown.
    """
    node = sysfs.find_by_number(os.fstat(file).st_dev).device
    size = sysfs.logical_block_size(node) if node else 0
    return size if size > 512 else 0


def _control(request: int, number: int) -> int:
    try:
        with files.opened(CONTROL, os.O_RDWR) as control:
            return fcntl.ioctl(control, request, number)
    except FileNotFoundError:
        raise _missing(CONTROL) from None


def _missing(path: str) -> OSError:
    return OSError(
        errno.ENODEV,
        f'{path} is missing: the kernel needs the module loop, and a '
        "container the host's /dev",
    )


@contextlib.contextmanager
def _opened(node: str) -> collections.abc.Iterator[int]:
    """Open a loop device.

    :raises OSError: FileNotFoundError if it is gone, or is going.
    """
    try:
        device = os.open(node, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENODEV):
            raise FileNotFoundError(errno.ENOENT, 'it is gone', node) from None
        raise
    try:
        yield device
    finally:
        os.close(device)


def _read(device: int) -> _Status | None:
    """Return the status of a loop device, None without a file."""
    info = bytearray(_INFO.size)
    try:
        fcntl.ioctl(device, _GET_STATUS64, info)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        raise
    return _Status(_INFO.unpack(info))


def _keep(device: int, status: _Status) -> None:
    if status.flags & _AUTOCLEAR:
        fields = list(status.fields)
        fields[_FLAGS] = status.flags & ~_AUTOCLEAR
        fcntl.ioctl(device, _SET_STATUS64, _INFO.pack(*fields))
