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

"""The state of the executor, in a file of the disk root that the agent reads.

They are two processes that must not wait for each other.
"""

import dataclasses
import math
import time
from typing import Any

from nova_diskplacer.host import state_file
from nova_diskplacer.monitor import elastic_status

IDLE, MOVING, DONE, FAILED = 'idle', 'moving', 'done', 'failed'

#: Seconds after which an executor that writes nothing is taken for dead.
SILENT = 180.0


@dataclasses.dataclass(frozen=True)
class Progress:
    """The state of the executor, and of the last step that it began.

    ``time`` is when it was written, in seconds since the epoch. ``vdisk``,
    ``location`` and ``asked`` are those of the step (``asked`` is 0 for one
    of an operator), ``done`` and ``total`` its bytes. ``reason`` tells why it
    has failed.
    """

    state: str
    time: float
    vdisk: str = ''
    location: tuple[str, ...] = ()
    asked: float = 0.0
    done: int = 0
    total: int = 0
    reason: str = ''

    def is_of(self, step: elastic_status.WantedStep) -> bool:
        """Tell whether the step is one that the agent wants."""
        return (self.vdisk, self.location, self.asked) == (
            step.vdisk,
            step.location,
            step.asked,
        )

    @property
    def has_ended(self) -> bool:
        """True if the step is done or has failed."""
        return self.state in (DONE, FAILED)

    def now(self, **fields: Any) -> 'Progress':
        """Return the state as it is now, with other fields."""
        return dataclasses.replace(self, time=time.time(), **fields)


#: the state, in the disk root
FILE = state_file.FieldsFile(
    'elastic-executor.json', Progress, 'the state of the executor', mode=0o600
)


def describe(progress: Progress | None, now: float, age: float) -> str:
    """Return what the executor does, in words.

    :param progress: its state, None without one that can be read.
    :param now: seconds since the epoch.
    :param age: seconds since it wrote its state, infinity if it never did.
    """
    if age == math.inf:
        return 'nothing: "diskplacer-manage elastic run" never ran here'
    silent = now - progress.time if progress else age
    if silent > SILENT:
        return f'"diskplacer-manage elastic run" is silent for {silent:.0f} s'
    if progress is None:
        return (
            '"diskplacer-manage elastic run" is of another release, whose '
            'state cannot be read'
        )
    if progress.state == MOVING:
        return f'moves {progress.vdisk}'
    if progress.state == FAILED:
        return f'waits; {progress.vdisk} was not moved: {progress.reason}'
    return 'waits'
