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

"""A collection whose items expire."""

import collections.abc
import threading
import time
import typing

T = typing.TypeVar('T', bound=collections.abc.Hashable)


class ExpiringSet(typing.Generic[T]):
    """Items that are forgotten some time after they were added.

    Serves all threads of a scheduler worker.

    :param seconds: lifetime of an item.
    :param clock: monotonic time in seconds.
    """

    def __init__(
        self,
        seconds: float,
        clock: collections.abc.Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._expiry: dict[T, float] = {}

    def add(self, item: T) -> None:
        """Add an item, and drop those that have expired."""
        now = self._clock()
        with self._lock:
            self._expiry = {
                known: expiry
                for known, expiry in self._expiry.items()
                if expiry > now
            }
            self._expiry[item] = now + self._seconds

    def remove(self, item: T) -> bool:
        """Remove an item; return False if it has been removed before."""
        with self._lock:
            return self._expiry.pop(item, None) is not None

    def items(self) -> list[T]:
        """Return the items that have not expired, oldest first."""
        now = self._clock()
        with self._lock:
            return [item for item, end in self._expiry.items() if end > now]

    def clear(self) -> None:
        """Remove all items."""
        with self._lock:
            self._expiry.clear()
