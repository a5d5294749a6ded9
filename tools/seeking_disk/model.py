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

"""How long a disk takes for a request, and which one it takes next.

Everything here is a function of the time that the caller says it is, so that
tests need no clock.
"""

import dataclasses
import math
import typing

MS = 1e-3


class Request(typing.NamedTuple):
    """A request, in bytes; ``arrived`` is a time in seconds."""

    offset: int
    length: int
    arrived: float = 0.0
    write: bool = False

    @property
    def end(self) -> int:
        """The byte behind the last one."""
        return self.offset + self.length


class Head(typing.NamedTuple):
    """The head of a disk is at a byte; ``read_from`` is where it read from.

    It has read without a gap since.
    """

    at: int = 0
    read_from: int = 0


@dataclasses.dataclass(frozen=True)
class HardDisk:
    """A hard disk: one head, which seeks, and a platter that turns.

    A seek over the share ``d`` of the disk takes ``settle_s`` + ``stroke_s`` ×
    √d. The defaults are those of the HGST Ultrastar 7K4000 (specification of
    the SAS model, §4.4): 7200 revolutions per minute, 8.2 ms for a seek on
    average, of which the mean of √d between two random places, 8/15, gives
    ``stroke_s``. Of the requests that wait, ``depth`` at most, it takes the
    nearest, but none waits for longer than ``patience_s``.
    """

    size: int
    bytes_per_s: float = 171e6
    settle_s: float = 0.7 * MS
    average_seek_s: float = 8.2 * MS
    revolutions_per_s: float = 120.0
    depth: int = 32
    patience_s: float = 0.5
    #: how far it reads on, so that what follows soon needs no turn, and how
    #: much it keeps of what it has read
    look_ahead: int = 1 << 20

    def slowed(self, times: float) -> 'HardDisk':
        """Return a disk that takes so many times as long for everything."""
        return dataclasses.replace(
            self,
            bytes_per_s=self.bytes_per_s / times,
            settle_s=self.settle_s * times,
            average_seek_s=self.average_seek_s * times,
            revolutions_per_s=self.revolutions_per_s / times,
            patience_s=self.patience_s * times,
        )

    @property
    def stroke_s(self) -> float:
        """The time that a seek over the whole disk takes, without settling."""
        return (self.average_seek_s - self.settle_s) * 15 / 8

    def seek(self, distance: int) -> float:
        """Return the seconds of a seek over a distance in bytes."""
        if not distance:
            return 0.0
        share = abs(distance) / self.size
        return self.settle_s + self.stroke_s * math.sqrt(share)

    def transfer(self, length: int) -> float:
        """Return the seconds that so many bytes pass the head in."""
        return length / self.bytes_per_s

    def turn(self, offset: int, now: float) -> float:
        """Return the seconds until a place has turned to the head."""
        track = self.bytes_per_s / self.revolutions_per_s
        ahead = (offset / track - now * self.revolutions_per_s) % 1.0
        # a rounding error is no turn
        return ahead / self.revolutions_per_s if ahead < 1 - 1e-6 else 0.0

    def _keeps(self, head: Head, request: Request) -> bool:
        kept = max(head.read_from, head.at - self.look_ahead)
        return not request.write and kept <= request.offset <= (
            head.at - request.length
        )

    def _reads_on(self, head: Head, request: Request) -> bool:
        ahead = request.offset - head.at
        return not request.write and 0 <= ahead <= self.look_ahead

    def position(self, head: Head, request: Request, now: float) -> float:
        """Return the seconds until the transfer of a request begins.

        A disk reads on behind the head, so that what follows needs no turn.
        """
        if self._keeps(head, request):
            return 0.0
        ahead = request.offset - head.at
        if self._reads_on(head, request):
            return self.transfer(ahead)
        seek = self.seek(ahead)
        return seek + self.turn(request.offset, now + seek)

    def end(self, head: Head, request: Request, free: float) -> float:
        """Return the time when a request ends.

        :param free: when the disk ended the request before.
        """
        begin = max(free, request.arrived)
        if self._keeps(head, request):
            return begin
        if self._reads_on(head, request):
            # it has read on since, as far as it does
            begin = max(free, begin - self.transfer(self.look_ahead))
        served = self.position(head, request, begin) + self.transfer(
            request.length
        )
        return max(begin + served, request.arrived)

    def move(self, head: Head, request: Request) -> Head:
        """Return where the head is after a request."""
        if self._keeps(head, request):
            return head
        if self._reads_on(head, request):
            return Head(request.end, head.read_from)
        return Head(
            request.end, request.end if request.write else request.offset
        )

    def choose(
        self,
        head: Head,
        waiting: typing.Sequence[Request],
        now: float,
        hurry: bool = True,
    ) -> int:
        """Return the index of the request to take next.

        :param waiting: in the order of their arrival, at least one.
        :param hurry: whether somebody waits for them.
        """
        if hurry and now - waiting[0].arrived > self.patience_s:
            return 0
        known = range(min(self.depth, len(waiting)))
        return min(
            known, key=lambda index: self.position(head, waiting[index], now)
        )


@dataclasses.dataclass(frozen=True)
class SolidStateDisk:
    """A solid state disk: no seeks, and ``channels`` requests at a time.

    A channel takes ``read_s`` or ``write_s`` for a request; then the data pass
    the bus, which all channels share. The defaults are those of a disk with
    SATA.
    """

    size: int
    channels: int = 8
    read_s: float = 0.08 * MS
    write_s: float = 0.12 * MS
    read_bytes_per_s: float = 550e6
    write_bytes_per_s: float = 520e6

    def access(self, request: Request) -> float:
        """Return the seconds that a request takes of a channel."""
        return self.write_s if request.write else self.read_s

    def transfer(self, request: Request) -> float:
        """Return the seconds that a request takes of the bus."""
        rate = (
            self.write_bytes_per_s if request.write else self.read_bytes_per_s
        )
        return request.length / rate
