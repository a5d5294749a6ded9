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

"""Consolidated: the vdisks of a server on as few disks as hold them.

The paper that measured it (P2, "consolidated")
put as many vdisks on one disk as fit.
"""

import numpy as np

from nova_diskplacer.mapping import base


class Consolidated(base.Mapping):
    """As few disks as possible; among those, disks already in use.

    The vdisks are equal, so taking the disk with most room until one disk
    can hold the rest uses the fewest disks. For the rest it takes a disk in
    use before an empty one, and of those the fullest that holds it.
    """

    def place(
        self, slots: base.Ints, load: base.Floats, vdisks: int, per_disk: int
    ) -> base.Ints:
        room = slots.copy()
        counts = np.zeros_like(room)
        rows = np.arange(len(room))
        left = np.full(len(room), vdisks, dtype=room.dtype)
        # order of preference of a disk that holds the rest: in use first,
        # then least room; an unused disk's key lies above every used one's
        spare = np.where(load > 0, 0, int(room.max(initial=0)) + 1)
        for _ in range(min(vdisks, room.shape[1])):
            holds = (room >= left[:, None]) & (left[:, None] > 0)
            last = holds.any(axis=1)
            tightest = np.where(
                holds, room + spare, np.iinfo(room.dtype).max
            ).argmin(axis=1)
            largest = (2 * room + (load > 0)).argmax(axis=1)
            pick = np.where(last, tightest, largest)
            take = np.minimum(room[rows, pick], left)
            counts[rows, pick] += take
            room[rows, pick] -= take
            left -= take
            if not left.any():
                break
        counts[left > 0] = 0
        return counts

    def score(self, counts: base.Ints, load: base.Floats) -> base.Floats:
        """Share of the chosen disks that are in use already."""
        chosen = counts > 0
        used = (chosen & (load > 0)).sum(axis=1)
        score: base.Floats = used / np.maximum(chosen.sum(axis=1), 1)
        return score
