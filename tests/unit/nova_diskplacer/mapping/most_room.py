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

"""Most room: each vdisk on the disk with the most room."""

import numpy as np

from nova_diskplacer.mapping import base


class MostRoom(base.Mapping):
    """Fill the disks with the most room; several vdisks may share one."""

    def place(
        self,
        slots: base.Ints,
        load: base.Floats,
        vdisks: int,
        per_disk: int,
    ) -> base.Ints:
        room = slots.copy()
        rows = np.arange(len(room))
        for _ in range(vdisks):
            room[rows, room.argmax(axis=1)] -= 1
        counts = slots - room
        counts[(room < 0).any(axis=1)] = 0
        return counts

    def score(self, counts: base.Ints, load: base.Floats) -> base.Floats:
        """Free share of the chosen disks, averaged over the vdisks."""
        total = np.maximum(counts.sum(axis=1), 1)
        score: base.Floats = 1.0 - (counts * load).sum(axis=1) / total
        return score
