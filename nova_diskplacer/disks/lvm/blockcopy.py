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

"""Copies and zeros the content of block devices.

Every function may be repeated, and raises DiskError if a device fails or is in
use by others where it writes.
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

from nova_diskplacer.host import copy_rate
from nova_diskplacer.host import files
from nova_diskplacer.host import sysfs

# Bytes of a read or write.
_STEP = 4 << 20

_FLAGS = os.O_DIRECT

# From linux/fs.h; the arguments are a start and a length in bytes.
_BLKZEROOUT = 0x127F
# The kernel queues all writes of a call at once, and what others read from the
# disk waits for them: LVM's metadata, too, without which the disk is hung.
_ZERO_STEP = 16 << 20

# Seconds to wait until a device is closed by udev, or by a process of a killed
# service that has not ended yet.
_OPEN_TIMEOUT = 60


def copy(
    source: str, target: str, size: int, compare: bool = False, rate: int = 0
) -> None:
    """Copy the first ``size`` bytes of a device to another.

    :param compare: write only differing blocks, so that the target's snapshots
        do not grow needlessly. Otherwise only zeros are not written again.
    :param rate: MiB/s at most, 0 for no limit.
    """
    with (
        files.disk_errors(source),
        files.opened(source, _FLAGS) as reader,
        files.disk_errors(target),
    ):
        _rewrite(reader, target, 0, size, compare, rate)


def write(
    target: str, parts: collections.abc.Iterable[tuple[int, memoryview]]
) -> None:
    """Write parts of at most 4 MiB to a device; no zeros where it has those.

    :param parts: each with its offset, aligned to pages in memory.
    """
    with (
        files.disk_errors(target),
        _open_exclusively(target) as writer,
        mmap.mmap(-1, _STEP) as present,
    ):
        zeros = bytes(_STEP)
        for offset, part in parts:
            _check_service_runs()
            size = len(part)
            if part == zeros[:size]:
                _read(writer, present, size, offset)
                if present[:size] == part:
                    continue
            if os.pwrite(writer, part, offset) != size:
                raise OSError(errno.EIO, 'short write')
        os.fsync(writer)


def clear(target: str, start: int, end: int) -> None:
    """Zero a range of a device; write only where it does not read as zeros."""
    with files.disk_errors(target):
        _rewrite(None, target, start, end, True)


def zero(target: str, start: int = 0, end: int | None = None) -> None:
    """Zero a range of a device, by its WRITE ZEROES if it has that.

    :param end: offset of the end, None for the end of the device.
    """
    with files.disk_errors(target), _open_exclusively(target) as descriptor:
        if end is None:
            end = os.lseek(descriptor, 0, os.SEEK_END)
        for offset in range(start, end, _ZERO_STEP):
            _check_service_runs()
            step = min(_ZERO_STEP, end - offset)
            span = array.array('Q', [offset, step])
            fcntl.ioctl(descriptor, _BLKZEROOUT, span)
        os.fsync(descriptor)


def flush(path: str) -> None:
    """Flush the cache of a device: its writes survive a power failure."""
    with (
        files.disk_errors(path),
        files.opened(path, os.O_RDONLY) as descriptor,
    ):
        os.fsync(descriptor)


def write_counters(path: str) -> tuple[str, str]:
    """Return the numbers of writes done and under way on a device.

    They change if the device is written to.
    """
    directory = '/sys/class/block/' + os.path.basename(os.path.realpath(path))
    with files.disk_errors(path):
        done = sysfs.read(directory + '/stat').split()[4]
        return done, sysfs.read(directory + '/inflight').split()[1]


def _rewrite(
    reader: int | None,
    target: str,
    start: int,
    end: int,
    compare: bool,
    rate: int = 0,
) -> None:
    with (
        _open_exclusively(target) as writer,
        # direct I/O needs memory aligned to pages
        mmap.mmap(-1, _STEP) as content,
        mmap.mmap(-1, _STEP) as present,
    ):
        zeros = bytes(_STEP)
        limit = copy_rate.Limit(rate)
        for offset in range(start, end, _STEP):
            _check_service_runs()
            limit.wait(offset - start)
            size = min(_STEP, end - offset)
            if reader is not None:
                _read(reader, content, size, offset)
            data = content[:size]
            if compare or data == zeros[:size]:
                _read(writer, present, size, offset)
                if present[:size] == data:
                    continue
            with memoryview(content)[:size] as view:
                if os.pwrite(writer, view, offset) != size:
                    raise OSError(errno.EIO, 'short write')
        os.fsync(writer)


def _check_service_runs() -> None:
    """Stop the work if the service that requested it has ended.

    Its helper process waits for its threads then, and a new service may
    request the same work of another helper.
    """
    if thread_pool._shutdown:
        raise OSError(errno.ECANCELED, 'the service that requested it ended')


def _read(descriptor: int, buffer: mmap.mmap, size: int, offset: int) -> None:
    with memoryview(buffer)[:size] as view:
        if os.preadv(descriptor, [view], offset) != size:
            raise OSError(errno.EIO, 'short read')


@contextlib.contextmanager
def _open_exclusively(path: str) -> collections.abc.Iterator[int]:
    """Open a device exclusively; wait until others have closed it."""
    give_up = time.monotonic() + _OPEN_TIMEOUT
    while True:
        try:
            descriptor = os.open(path, _FLAGS | os.O_RDWR | os.O_EXCL)
            break
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > give_up:
                raise
            time.sleep(0.2)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
