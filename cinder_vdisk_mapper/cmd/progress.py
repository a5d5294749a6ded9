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

"""Prints how far copies of vdisks are."""

import sys
import time

# Seconds between two lines about a copy.
_INTERVAL = 10.0

_GIB = 1 << 30
_MIB = 1 << 20


class Progress:
    """Prints how far the copy of each vdisk is, and the time it takes yet."""

    def __init__(self) -> None:
        self._name = ''
        self._start = (0.0, 0)
        self._printed = 0.0

    def __call__(self, name: str, done: int, total: int) -> None:
        now = time.monotonic()
        if name != self._name:
            self._name, self._start, self._printed = name, (now, done), 0.0
        if now - self._printed < _INTERVAL and done < total:
            return
        self._printed = now
        line = describe(
            done, total, done - self._start[1], now - self._start[0]
        )
        print(f'{name}: {line}', file=sys.stderr, flush=True)


def describe(done: int, total: int, copied: int, seconds: float) -> str:
    """Return how far a copy is.

    :param copied: bytes that were copied in so many seconds.
    """
    text = f'{done / _GIB:.1f} of {total / _GIB:.1f} GiB'
    if copied <= 0 or seconds <= 0:
        return text
    speed = copied / seconds
    left = (total - done) / speed
    return (
        f'{text}, {speed / _MIB:.0f} MiB/s, {int(left) // 60} min '
        f'{int(left) % 60} s left'
    )
