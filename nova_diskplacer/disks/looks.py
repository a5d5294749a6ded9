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
"""Looks at what may hang, in threads of their own.

A read from a disk that hangs blocks its thread in the kernel for minutes, and
nothing ends it. So whoever looks at a disk waits for a thread, with a
deadline. While a look hangs no second one is begun: there is one blocked
thread for a disk, however often it is asked for.
"""

import collections.abc
import errno
import mmap
import os
import threading
import time
from typing import Any
from typing import Generic
from typing import TypeVar

from nova_diskplacer import exception
from nova_diskplacer.host import jobs

#: Seconds without an answer after which a disk is held to hang. A disk that
#: repeats a failed read by itself for as long as disks for servers do has
#: answered by then.
HUNG = 10.0

_Result = TypeVar('_Result')


class Look(Generic[_Result]):
    """Looks at one thing again and again, in one thread at a time.

    :param look: returns what there is to see; may hang.
    """

    def __init__(self, look: collections.abc.Callable[[], _Result]) -> None:
        self._look = look
        self._changed = threading.Condition()
        self._begun = self._ended = 0
        self._since = 0.0
        self._seen: _Result | None = None
        self._error: BaseException | None = None

    @property
    def seen(self) -> _Result | None:
        """What the last look that has ended has seen; None: there is none."""
        return self._seen

    @property
    def waiting(self) -> float:
        """Seconds for which the look that is under way hangs, 0 if none is.

        One that hangs goes on to, however many were asked for since.
        """
        with self._changed:
            if self._begun == self._ended:
                return 0.0
            return time.monotonic() - self._since

    def goes_on(self) -> None:
        """Say, in the look that is under way, that what it reads answers."""
        with self._changed:
            self._since = time.monotonic()

    def begin(self) -> int:
        """Ask for a look that begins from now on; return its number."""
        with self._changed:
            wanted = self._begun + 1
            if self._begun == self._ended:
                self._start()
            return wanted

    def ended(self, number: int, seconds: float) -> bool:
        """Wait for a look that was asked for; False if it is late.

        :raises Exception: what the look raised.
        """
        ends = time.monotonic() + seconds
        with self._changed:
            while self._ended < number:
                if self._begun == self._ended:
                    self._start()
                left = ends - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
            if self._error is not None:
                raise self._error
            return True

    def _start(self) -> None:
        self._begun += 1
        self._since = time.monotonic()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        seen, error = None, None
        try:
            seen = self._look()
        except BaseException as raised:  # noqa: BLE001 ended() raises it
            error = raised
        with self._changed:
            self._error = error
            if error is None:
                self._seen = seen
            self._ended += 1
            self._changed.notify_all()


def work_on(
    look: Look[Any], what: str, work: collections.abc.Callable[[], _Result]
) -> _Result:
    """Do what takes a disk, and give up when the disk hangs.

    Nothing is begun on a disk that hangs already. What was begun before goes
    on where it is when the disk answers again.

    :param look: what looks at the disk.
    :param what: the disk, for the error.
    :raises DiskHung: it hangs.
    """
    number = look.begin()
    _refuse_hung(look, what)
    while not look.ended(number, jobs.LATE):
        _refuse_hung(look, what)
    job = jobs.Job(work)
    while not job.wait(jobs.LATE):
        look.begin()
        _refuse_hung(look, what)
    return job.result()


def _refuse_hung(look: Look[Any], what: str) -> None:
    if look.waiting >= HUNG:
        raise exception.DiskHung(f'{what} is hung: it does not answer')


def read_direct(path: str, offset: int, size: int) -> bytes:
    """Return what a file or device itself holds, past the page cache.

    A filesystem that cannot read so is read as it can.

    :param offset: a multiple of 4096, as ``size`` is.
    :raises OSError: it cannot be read.
    """
    try:
        return _read(path, offset, size, os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return _read(path, offset, size, 0)


def _read(path: str, offset: int, size: int, flag: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flag)
    try:
        # what a direct read goes to must be aligned, as memory maps are
        with mmap.mmap(-1, size) as buffer:
            return buffer[: os.preadv(descriptor, [buffer], offset)]
    finally:
        os.close(descriptor)
