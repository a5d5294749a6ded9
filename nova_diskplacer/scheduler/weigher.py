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

"""Disk Placement Weigher.

Prefers the hosts whose disks suit the flavor's ``diskplacer:mapping`` best:
for ``round_robin`` those whose disks are least committed, for
``consolidated`` those where the vdisks fit on disks already in use. For
``diskplacer:numa`` ``preferred`` a host where the disks are on the NUMA cells
of the vCPUs scores above every one where they are not. Of hosts that are
equal, DiskPlacementFilter has any as the first, so that concurrent requests
spread.

The default multiplier is 1.0; a negative value of
``[diskplacer_scheduler] disk_placement_weight_multiplier`` (by configuration
or aggregate metadata) inverts the preference. Requests without vdisks are not
weighed.
"""

import collections
import typing

import numpy as np

from nova_diskplacer.mapping import base
from nova_diskplacer.scheduler import base_weigher
from nova_diskplacer.scheduler import candidates

# Above what any weigher gives: Nova comes back to a host when it has tried
# the others.
_LATER = 1e9


class DiskPlacementWeigher(base_weigher.DiskWeigher):
    """Weigh hosts by how well their disks suit the request."""

    option = 'disk_placement_weight_multiplier'

    def _shares(
        self, hosts: list[typing.Any], spec: typing.Any
    ) -> base.Floats | None:
        pass_ = candidates.passed(hosts)
        if pass_ is None:
            return None
        scores = pass_.of(hosts, pass_.scores)
        if len(hosts) <= candidates.FEW:
            scores = scores - _LATER * _repetitions(hosts)
        return scores


def _repetitions(hosts: list[typing.Any]) -> base.Ints:
    """Return how often each host of a list came before in it, (H,)."""
    seen: collections.Counter[int] = collections.Counter()
    times = []
    for host in hosts:
        times.append(seen[id(host)])
        seen[id(host)] += 1
    return np.array(times, dtype=np.int64)
