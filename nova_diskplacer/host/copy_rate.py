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

"""Keeps a copy to a rate."""

import time

_MIB = 1 << 20


class Limit:
    """A rate of a copy that begins now.

    :param mib: MiB/s at most, 0 for no limit.
    """

    def __init__(self, mib: int) -> None:
        self._mib = mib
        self._begun = time.monotonic()

    def wait(self, done: int) -> None:
        """Wait until as many bytes as are done may be done."""
        if self._mib:
            due = self._begun + done / _MIB / self._mib
            time.sleep(max(0.0, due - time.monotonic()))
