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

"""The choices of disks that nova-scheduler may not have claimed yet.

Nothing tells when the claim of a choice shows in the figures of a disk, by a
report or by Placement. So for a while the disk counts as used as much at least
as the choice has left it; a claim that shows is not counted twice then. Each
choice ends by itself: servers that are deleted soon leave nothing behind.
"""

import collections
import collections.abc
import dataclasses

import numpy as np

from nova_diskplacer.mapping import base
from nova_diskplacer.scheduler import pending_claims

#: What a choice takes of a disk: GiB, MB/s, and vdisks.
UNITS = ('gb', 'mbps', 'vdisks')


@dataclasses.dataclass(eq=False)
class PendingChoice:
    """A choice on the D disks of a host; arrays of shape (3, D), by UNITS.

    ``row`` is the host's. ``amounts`` are what it takes of each disk, and
    ``used`` what was used of it before.
    """

    row: int
    amounts: base.Ints
    used: base.Ints
    expiry: float

    def left(self, used: base.Ints) -> base.Ints:
        """Return what is used of the disks after this choice, (3, D).

        :param used: after those before it, (3, D).
        """
        after: base.Ints = np.where(
            self.amounts > 0, np.maximum(used, self.used) + self.amounts, used
        )
        return after


class PendingChoices:
    """The pending choices on all hosts, for ``pending_claims.SECONDS``.

    The caller holds a lock, but for ``any``.

    :param clock: monotonic time in seconds.
    """

    def __init__(self, clock: collections.abc.Callable[[], float]) -> None:
        self._clock = clock
        self._of_row: dict[int, list[PendingChoice]] = {}
        # all have the same time, so the oldest is the first to expire
        self._by_age: collections.deque[PendingChoice] = collections.deque()

    def any(self) -> bool:
        """Return whether there may be pending choices."""
        try:
            youngest = self._by_age[-1]
        except IndexError:
            return False
        return youngest.expiry > self._clock()

    def rows(self) -> list[int]:
        """Return the rows of hosts with pending choices."""
        return list(self._of_row)

    def used(self, row: int, disks: int) -> base.Ints:
        """Return what is used at least of the D disks of a host, (3, D)."""
        used = np.zeros((len(UNITS), disks), dtype=np.int32)
        for choice in self._of_row.get(row, ()):
            width = choice.amounts.shape[1]
            used[:, :width] = choice.left(used[:, :width])
        return used

    def add(
        self, row: int, amounts: base.Ints, used: base.Ints
    ) -> PendingChoice:
        """Add a choice; see :class:`PendingChoice`."""
        expiry = self._clock() + pending_claims.SECONDS
        choice = PendingChoice(row, amounts, used, expiry)
        self._of_row.setdefault(row, []).append(choice)
        self._by_age.append(choice)
        return choice

    def remove(self, choice: PendingChoice) -> bool:
        """Remove a choice; return False if it has ended before."""
        choices = self._of_row.get(choice.row, [])
        if choice not in choices:
            return False
        choices.remove(choice)
        if not choices:
            del self._of_row[choice.row]
        return True

    def clear(self, row: int) -> None:
        """Remove all choices on a host, whose disks are others now."""
        self._of_row.pop(row, None)

    def expire(
        self, used: collections.abc.Callable[[int], base.Ints]
    ) -> set[int]:
        """Remove the choices whose time is over; return their hosts' rows.

        :param used: returns what is used of the disks of a host, by its row,
            (3, D).
        """
        now = self._clock()
        rows = set()
        while self._by_age and self._by_age[0].expiry <= now:
            choice = self._by_age.popleft()
            if self.remove(choice):
                rows.add(choice.row)
                self._keep_claimed(choice, used(choice.row))
        return rows

    def _keep_claimed(self, ended: PendingChoice, used: base.Ints) -> None:
        """Count a choice that has ended for those after it, if it shows.

        They were made when it did not show yet.
        """
        width = ended.amounts.shape[1]
        shown = np.minimum(ended.used + ended.amounts, used[:, :width])
        for choice in self._of_row.get(ended.row, ()):
            choice.used[:, :width] = np.where(
                ended.amounts > 0,
                np.maximum(choice.used[:, :width], shown),
                choice.used[:, :width],
            )
