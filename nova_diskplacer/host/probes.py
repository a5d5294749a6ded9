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

"""Runs work that may hang, and repeats reads, in background threads.

A read from a hung disk blocks its thread in the kernel for minutes and cannot
be ended. So callers wait for a thread, with a deadline. While a read hangs, no
second one starts: at most one thread per disk is blocked.
"""

import collections.abc
import errno
import mmap
import os
import threading
import time
from concurrent import futures
from typing import Any
from typing import Generic
from typing import TypeVar

from nova_diskplacer import exception
from nova_diskplacer.host import files

#: Seconds without an answer after which a disk counts as hung. Disks made for
#: servers stop repeating a failed read in less time.
HUNG_AFTER = 10.0

#: Seconds that a caller with other disks to serve waits for one disk.
TIMEOUT = 1.0

_Result = TypeVar('_Result')


class Job(futures.Future[_Result]):
    """Runs a function in a new thread, which starts at once."""

    def __init__(self, work: collections.abc.Callable[[], _Result]) -> None:
        super().__init__()
        self._work = work
        # a hanging thread must not keep the process from ending
        threading.Thread(target=self._run, daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait for the function to end; return False if it takes longer."""
        return bool(futures.wait([self], seconds).done)

    def _run(self) -> None:
        try:
            self.set_result(self._work())
        except BaseException as error:  # noqa: BLE001 result() raises it
            self.set_exception(error)


class Probe(Generic[_Result]):
    """Reads a state on request, in one thread at a time.

    ``latest`` is the last state that was read, None before the first.
    ``allowance`` is the time in seconds beyond ``HUNG_AFTER`` that a read may
    take before its disk counts as hung.

    :param read: returns the state; it may hang.
    """

    def __init__(self, read: collections.abc.Callable[[], _Result]) -> None:
        self._read = read
        self._changed = threading.Condition()
        self._begun = self._ended = 0
        self._since = 0.0
        self.latest: _Result | None = None
        self.allowance = 0.0
        self._error: BaseException | None = None

    @property
    def waiting(self) -> float:
        """Seconds since the current read began, 0 without a current read.

        Further requests do not restart this time.
        """
        with self._changed:
            if self._begun == self._ended:
                return 0.0
            return time.monotonic() - self._since

    @property
    def is_hung(self) -> bool:
        """True if the current read takes so long that its disk is hung."""
        return self.waiting >= HUNG_AFTER + self.allowance

    def report_progress(self) -> None:
        """Restart the time of the current read, which is not hung."""
        with self._changed:
            self._since = time.monotonic()

    def request(self) -> int:
        """Request a read that begins after this call; return its number."""
        with self._changed:
            number = self._begun + 1
            if self._begun == self._ended:
                self._start()
            return number

    def wait(self, number: int, seconds: float) -> bool:
        """Wait for a read, raise its error; False if it takes longer."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._ended < number:
                if self._begun == self._ended:
                    self._start()
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
            if self._error is not None:
                raise self._error
            return True

    def _start(self) -> None:
        self._since = time.monotonic()
        self._begun += 1
        try:
            threading.Thread(target=self._run, daemon=True).start()
        except BaseException:
            # as if it had not been requested, or the disk would stay hung
            self._begun -= 1
            raise

    def _run(self) -> None:
        result, error = None, None
        try:
            result = self._read()
        except BaseException as raised:  # noqa: BLE001 wait() raises it
            error = raised
        with self._changed:
            self._error = error
            if error is None:
                self.latest = result
            self._ended += 1
            self._changed.notify_all()


def run_unless_hung(
    probe: Probe[Any], name: str, work: collections.abc.Callable[[], _Result]
) -> _Result:
    """Run work that uses a disk, and give up when the disk hangs.

    The work does not begin while the disk hangs. Work in progress continues in
    its thread when the disk answers again.

    :raises DiskHung: the disk is hung.
    """
    number = probe.request()
    while not probe.wait(number, TIMEOUT):
        _refuse_hung(probe, name)
    job = Job(work)
    while not job.wait(TIMEOUT):
        probe.request()
        _refuse_hung(probe, name)
    return job.result()


def _refuse_hung(probe: Probe[Any], name: str) -> None:
    if probe.is_hung:
        raise exception.DiskHung(f'{name} is hung: it does not answer')


def read_direct(path: str, offset: int, size: int) -> bytes:
    """Read from a file or device with direct I/O.

    A filesystem without direct I/O is read through the page cache.

    :param offset: a multiple of 4096, like ``size``.
    :raises OSError: the file cannot be read.
    """
    try:
        return _read(path, offset, size, os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return _read(path, offset, size, 0)


def _read(path: str, offset: int, size: int, flag: int) -> bytes:
    # direct I/O needs an aligned buffer; memory maps are aligned
    with (
        files.opened(path, os.O_RDONLY | flag) as descriptor,
        mmap.mmap(-1, size) as buffer,
    ):
        return buffer[: os.preadv(descriptor, [buffer], offset)]
