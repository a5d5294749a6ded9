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
equal score, DiskPlacementFilter puts a random one first, so that concurrent
requests spread.

The default multiplier is 1.0; a negative value of
``[diskplacer_scheduler] disk_placement_weight_multiplier`` (by configuration
or aggregate metadata) inverts the preference. Requests without vdisks are not
weighed.
"""

import typing

from nova_diskplacer.mapping import base
from nova_diskplacer.scheduler import base_weigher
from nova_diskplacer.scheduler import candidates
from nova_diskplacer.scheduler import retries

# More than any weigher gives: Nova tries a host again after all others.
_REPETITION = 1e9


class DiskPlacementWeigher(base_weigher.DiskWeigherBase):
    """Weigh hosts by how well their disks suit the request."""

    option = 'disk_placement_weight_multiplier'

    def _shares(
        self, hosts: list[typing.Any], spec: typing.Any
    ) -> base.Floats | None:
        run = candidates.run_of(hosts)
        if run is None:
            return None
        scores = run.values_for(hosts, run.scores)
        if len(hosts) <= retries.MAX_REPEATED:
            scores = scores - _REPETITION * retries.repetitions(hosts)
        return scores
