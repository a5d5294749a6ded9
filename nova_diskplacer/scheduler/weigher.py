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
of the vCPUs scores above every one where they are not. Hosts that are equal
are ordered at random, so that concurrent requests spread.

The default multiplier is 1.0; a negative value of
``[diskplacer_scheduler] disk_placement_weight_multiplier`` (by configuration
or aggregate metadata) inverts the preference. Requests without vdisks are not
weighed.
"""

import random
import typing

from nova.scheduler import utils
from nova.scheduler import weights

from nova_diskplacer import conf
from nova_diskplacer.scheduler import candidates

_MULTIPLIER = 'disk_placement_weight_multiplier'

# Far below any difference between scores.
_JITTER = 1e-6
_SCALE = 1.0 - _JITTER


class DiskPlacementWeigher(weights.BaseHostWeigher):
    """Weigh hosts by how well their disks suit the request.

    Scores are shares from 0 to 1 and weighed as such: they are not stretched
    to the range of the hosts at hand.
    """

    minval = 0.0
    maxval = 1.0

    def __init__(self) -> None:
        conf.register_opts(conf.CONF)
        self._configured = 1.0

    def weight_multiplier(self, host_state: typing.Any) -> float:
        """Return the multiplier of a host's aggregates, or the option's."""
        if not host_state.aggregates:
            return self._configured
        multiplier: float = utils.get_weight_multiplier(
            host_state, _MULTIPLIER, self._configured
        )
        return multiplier

    def weigh_objects(
        self, weighed_obj_list: list[typing.Any], weight_properties: typing.Any
    ) -> list[float]:
        """Return the hosts' scores, 0 to 1 (H,), all 0 without vdisks."""
        self._configured = getattr(conf.CONF.diskplacer_scheduler, _MULTIPLIER)
        return [
            self._weigh_object(weighed.obj, weight_properties)
            for weighed in weighed_obj_list
        ]

    def _weigh_object(
        self, obj: typing.Any, weight_properties: typing.Any
    ) -> float:
        found = obj.allocation_candidates
        if type(found) is not candidates.DiskCandidates:
            return 0.0
        return found.score * _SCALE + _JITTER * random.random()  # noqa: S311
