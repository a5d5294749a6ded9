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

"""Work that may hang, each piece in a thread of its own."""

import collections.abc
import threading
from typing import Generic
from typing import TypeVar

#: Seconds after which nobody waits any longer who looks at other disks too.
LATE = 1.0

_Result = TypeVar('_Result')


class Job(Generic[_Result]):
    """Does something in a thread of its own, which is begun at once."""

    def __init__(self, work: collections.abc.Callable[[], _Result]) -> None:
        self._work = work
        self._done = threading.Event()
        self._result: _Result
        self._error: BaseException | None = None
        # one that hangs must not keep the process from ending
        threading.Thread(target=self._run, daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait until it is done; False if it is not by then."""
        return self._done.wait(seconds)

    def result(self) -> _Result:
        """Return the result of what is done, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 result() raises it
            self._error = error
        self._done.set()
