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

"""Copies and clears what is on block devices.

Every function may be repeated: what is right already is left as it is.
"""

import array
import collections.abc
import contextlib
import errno
import fcntl
import mmap
import os
import time
from concurrent.futures import thread as thread_pool

from nova_diskplacer import exception
from nova_diskplacer.host import sysfs

# Read and written at once.
_STEP = 4 << 20

_FLAGS = os.O_DIRECT | os.O_CLOEXEC

# From linux/fs.h; takes a start and a length in bytes.
_BLKZEROOUT = 0x127F
_ZERO_STEP = 1 << 30

# Seconds to wait for somebody who still has a device that is to be changed:
# udev, or a process of a killed service that has not ended yet.
_PATIENCE = 60


def copy(source: str, target: str, size: int, compare: bool = False) -> None:
    """Have the first ``size`` bytes of a device be those of another.

    :param compare: write only what differs, lest the target's snapshots grow
        for nothing. Otherwise only zeros are looked for on the target.
    :raises DiskError: a device cannot be read or written, or is in use.
    """
    with _explained(target), _opened(source) as reader:
        _rewrite(reader, target, 0, size, compare)


def clear(target: str, start: int, end: int) -> None:
    """Have a range of a device read as zeros; write only what does not.

    :raises DiskError: the device cannot be read or written, or is in use.
    """
    with _explained(target):
        _rewrite(None, target, start, end, True)


def zero(target: str, start: int = 0, end: int | None = None) -> None:
    """Have the device write zeros, in its own way if it has one.

    :param end: where to end, None for the end of the device.
    :raises DiskError: the device cannot be written, or is in use.
    """
    with _explained(target), _taken(target) as descriptor:
        if end is None:
            end = os.lseek(descriptor, 0, os.SEEK_END)
        for offset in range(start, end, _ZERO_STEP):
            _check_wanted()
            step = min(_ZERO_STEP, end - offset)
            span = array.array('Q', [offset, step])
            fcntl.ioctl(descriptor, _BLKZEROOUT, span)
        os.fsync(descriptor)


def flush(path: str) -> None:
    """Have a device keep what was written to it when its power fails.

    :raises DiskError: the device cannot do that.
    """
    with _explained(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def writes(path: str) -> tuple[str, str]:
    """Return what tells whether a device was written to meanwhile.

    They are the writes done and the writes under way.

    :raises DiskError: the device is not known.
    """
    directory = '/sys/class/block/' + os.path.basename(os.path.realpath(path))
    with _explained(path):
        done = sysfs.read(directory + '/stat').split()[4]
        return done, sysfs.read(directory + '/inflight').split()[1]


def _rewrite(
    reader: int | None, target: str, start: int, end: int, compare: bool
) -> None:
    with _taken(target) as writer, _buffer() as wanted, _buffer() as present:
        zeros = bytes(_STEP)
        for offset in range(start, end, _STEP):
            _check_wanted()
            size = min(_STEP, end - offset)
            if reader is not None:
                _read(reader, wanted, size, offset)
            data = wanted[:size]
            if compare or data == zeros[:size]:
                _read(writer, present, size, offset)
                if present[:size] == data:
                    continue
            with memoryview(wanted)[:size] as view:
                if os.pwrite(writer, view, offset) != size:
                    raise OSError(errno.EIO, 'short write')
        os.fsync(writer)


def _check_wanted() -> None:
    """Stop in a helper process that waits for its threads in order to end.

    Who asked for the work is gone, and may ask another one again.
    """
    if thread_pool._shutdown:
        raise OSError(errno.ECANCELED, 'the service that asked for it ended')


def _read(descriptor: int, buffer: mmap.mmap, size: int, offset: int) -> None:
    with memoryview(buffer)[:size] as view:
        if os.preadv(descriptor, [view], offset) != size:
            raise OSError(errno.EIO, 'short read')


@contextlib.contextmanager
def _opened(path: str) -> collections.abc.Iterator[int]:
    descriptor = os.open(path, _FLAGS | os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _taken(path: str) -> collections.abc.Iterator[int]:
    """Hold a device so that nobody else who asks for it alone gets it."""
    give_up = time.monotonic() + _PATIENCE
    while True:
        try:
            descriptor = os.open(path, _FLAGS | os.O_RDWR | os.O_EXCL)
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > give_up:
                raise
            time.sleep(0.2)
        else:
            break
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _buffer() -> collections.abc.Iterator[mmap.mmap]:
    # aligned to pages, as direct I/O wants it
    with mmap.mmap(-1, _STEP) as buffer:
        yield buffer


@contextlib.contextmanager
def _explained(path: str) -> collections.abc.Iterator[None]:
    try:
        yield
    except OSError as error:
        raise exception.DiskError(
            f'{error.filename or path}: {error.strerror}'
        ) from error
