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

"""Round robin: the vdisks of a server on distinct disks.

The paper that measured it (P2, "round robin")
spread each VM's vdisks over as many disks as possible.
"""

import numpy as np

from nova_diskplacer.mapping import base


class RoundRobin(base.Mapping):
    """Spread as evenly as can be, least committed disks first."""

    spreads = True

    def place(
        self, slots: base.Ints, load: base.Floats, vdisks: int, per_disk: int
    ) -> base.Ints:
        room = np.minimum(slots, per_disk)
        order = np.argsort(load, axis=1, kind='stable')
        room = np.take_along_axis(room, order, axis=1)
        counts = np.zeros_like(room)
        left = np.full((len(room), 1), vdisks, dtype=room.dtype)
        # a level gives one more vdisk to each disk that has room for it
        for level in range(per_disk):
            open_ = room > level
            take = open_ & (np.cumsum(open_, axis=1) <= left)
            counts += take
            left -= take.sum(axis=1, keepdims=True)
            if not left.any():
                break
        counts[left[:, 0] > 0] = 0
        placed = np.empty_like(counts)
        np.put_along_axis(placed, order, counts, axis=1)
        return placed

    def score(self, counts: base.Ints, load: base.Floats) -> base.Floats:
        """Free share of the chosen disks, averaged over the vdisks."""
        total = np.maximum(counts.sum(axis=1), 1)
        score: base.Floats = 1.0 - (counts * load).sum(axis=1) / total
        return score
