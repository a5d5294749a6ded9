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

"""Runs work that may hang in threads."""

import collections.abc
import threading
from concurrent import futures
from typing import TypeVar

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
