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

"""Threads that wait for as long as a disk would take for their requests.

Times are those of the disk: if it is late, because the machine is busy, the
next request begins when this one should have ended.
"""

import threading
import time
import typing

from tools.seeking_disk import model


class Server(typing.Protocol):
    """Serves the requests of any number of threads."""

    def serve(self, offset: int, length: int, write: bool) -> None:
        """Return when the disk would have ended the request."""

    def flush(self) -> None:
        """Return when all writes that were served are on the medium."""


class _Waiting(typing.NamedTuple):
    request: model.Request
    done: threading.Event


class HardDiskServer:
    """Serves requests with the one head of a hard disk.

    :param cache: bytes of the write-back cache, 0 for none. A write that fits
        is served at once; the head writes it when no read waits, or when the
        cache is full.
    """

    def __init__(self, disk: model.HardDisk, cache: int = 0) -> None:
        self._disk = disk
        self._cache = cache
        self._changed = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._dirty: list[model.Request] = []
        self._dirty_bytes = 0
        self._head = model.Head()
        threading.Thread(target=self._run, daemon=True).start()

    def serve(self, offset: int, length: int, write: bool) -> None:
        """Return when the disk would have ended the request."""
        request = model.Request(offset, length, time.monotonic(), write)
        waiting = _Waiting(request, threading.Event())
        with self._changed:
            if write and self._dirty_bytes + length <= self._cache:
                self._dirty.append(request)
                self._dirty_bytes += length
                waiting.done.set()
            else:
                self._waiting.append(waiting)
            self._changed.notify_all()
        waiting.done.wait()

    def flush(self) -> None:
        """Return when all writes that were served are on the medium."""
        with self._changed:
            self._changed.wait_for(lambda: not self._dirty)

    def _run(self) -> None:
        now = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._dirty)
                cached = not self._waiting
                requests = (
                    self._dirty
                    if cached
                    else [one.request for one in self._waiting]
                )
                index = self._disk.choose(
                    self._head, requests, now, hurry=not cached
                )
                request = requests[index]
                waiting = None if cached else self._waiting.pop(index)
            now = self._disk.end(self._head, request, now)
            self._head = self._disk.move(self._head, request)
            _sleep_until(now)
            if waiting is not None:
                waiting.done.set()
                continue
            with self._changed:
                self._dirty.remove(request)
                self._dirty_bytes -= request.length
                self._changed.notify_all()


class SolidStateServer:
    """Serves requests with the channels of a solid state disk."""

    def __init__(self, disk: model.SolidStateDisk) -> None:
        self._disk = disk
        self._lock = threading.Lock()
        self._free_at = [0.0] * disk.channels
        self._bus_free_at = 0.0

    def serve(self, offset: int, length: int, write: bool) -> None:
        """Return when the disk would have ended the request."""
        now = time.monotonic()
        request = model.Request(offset, length, now, write)
        with self._lock:
            channel = min(
                range(self._disk.channels), key=self._free_at.__getitem__
            )
            ready = max(now, self._free_at[channel])
            ready += self._disk.access(request)
            self._free_at[channel] = ready
            end = max(ready, self._bus_free_at) + self._disk.transfer(request)
            self._bus_free_at = end
        _sleep_until(end)

    def flush(self) -> None:
        """Return at once: what was served is on the medium."""


def _sleep_until(end: float) -> None:
    left = end - time.monotonic()
    if left > 0:
        time.sleep(left)
