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
        counts = np.zeros_like(slots)
        left = np.full((len(slots), 1), vdisks, dtype=slots.dtype)
        # a level gives one more vdisk to each disk that has room for it
        for level in range(per_disk):
            take = _least_loaded(slots > level, load, left)
            counts += take
            left -= take.sum(axis=1, keepdims=True)
            if not left.any():
                break
        counts[left[:, 0] > 0] = 0
        return counts

    def score(self, counts: base.Ints, load: base.Floats) -> base.Floats:
        """Free share of the chosen disks, averaged over the vdisks."""
        # it takes half of the time of sum()
        vdisks = np.einsum('hd->h', counts)
        committed = np.einsum('hd,hd->h', counts, load)
        score: base.Floats = 1.0 - committed / np.maximum(vdisks, 1)
        return score


def _least_loaded(
    possible: base.Bools, load: base.Floats, most: base.Ints
) -> base.Bools:
    """Return the least committed of the possible disks, (H, D).

    :param most: how many of them on each host, (H, 1).
    """
    order = np.argsort(np.where(possible, load, np.inf), axis=1, kind='stable')
    first = order[:, : most.max(initial=0)]
    least = np.zeros_like(possible)
    # it takes less time than put_along_axis()
    hosts = np.arange(len(order))[:, None]
    least[hosts, first] = np.arange(first.shape[1]) < most
    least &= possible
    return least
