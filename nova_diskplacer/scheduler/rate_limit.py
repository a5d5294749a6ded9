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

"""A rate limit shared by the threads of a process."""

import collections.abc
import threading
import time


class RateLimit:
    """Allows an action once per interval.

    :param seconds: the interval.
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
        self._next = float('-inf')

    def allow(self) -> bool:
        """Return whether the action may be done now; if so, count it."""
        with self._lock:
            now = self._clock()
            if now < self._next:
                return False
            self._next = now + self._seconds
            return True
