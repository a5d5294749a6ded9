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

Prefers the hosts with the highest score of the flavor's
``diskplacer:mapping``, and, the fuller the fleet is, the more those that
``packing`` prefers. ``round_robin``, for example, gives hosts whose disks
are least committed the highest score. For
``diskplacer:numa`` ``preferred`` a host where the disks are on the NUMA cells
of the vCPUs scores above every one where they are not. Of hosts that are
equal score, DiskPlacementFilter puts a random one first, so that concurrent
requests spread.

Requests without vdisks are not weighed.
"""

import abc
import typing

from nova.scheduler import utils
from nova.scheduler import weights

from nova_diskplacer import conf
from nova_diskplacer.mapping import base
from nova_diskplacer.scheduler import filter_order
from nova_diskplacer.scheduler import request as disk_request
from nova_diskplacer.scheduler import retries

# More than any weigher gives: Nova tries a host again after all others.
_REPETITION = 1e9

# Digits of a share after the point.
_DIGITS = 4


class DiskWeigherBase(weights.BaseHostWeigher):
    """Weigh hosts by shares from 0 to 1.

    Nova does not normalize them to the range of the hosts at hand, as it does
    with the weights of its own weighers.

    :cvar option: name of the multiplier, in ``[diskplacer_scheduler]`` and in
        the metadata of aggregates; a negative value inverts the preference.
    :cvar sign: sign of the multiplier, -1 if a large share is bad.
    """

    minval = 0.0
    maxval = 1.0
    option: typing.ClassVar[str]
    sign: typing.ClassVar[int] = 1

    def __init__(self) -> None:
        conf.register_opts(conf.CONF)
        filter_order.check()
        self._configured: float = self.sign

    def weight_multiplier(self, host_state: typing.Any) -> float:
        """Return the multiplier of a host's aggregates, or the option's."""
        if not host_state.aggregates:
            return self._configured
        multiplier: float = utils.get_weight_multiplier(
            host_state, self.option, self.sign * self._configured
        )
        return self.sign * multiplier

    def weigh_objects(
        self, weighed_obj_list: list[typing.Any], weight_properties: typing.Any
    ) -> list[float]:
        """Return the hosts' shares, (H,), or an empty list if all are 0.

        Nova's own work for each weight takes longer than computing it; an
        empty list spares that. Nova also formats all weights for its debug
        log, at any log level: fewer digits take less time.
        """
        multiplier = getattr(conf.CONF.diskplacer_scheduler, self.option)
        if multiplier.is_integer():
            multiplier = int(multiplier)
        self._configured = self.sign * multiplier
        hosts = [weighed.obj for weighed in weighed_obj_list]
        shares = self._shares(hosts, weight_properties)
        if shares is None or not shares.any():
            return []
        weights_: list[float] = shares.round(_DIGITS).tolist()
        return weights_

    @abc.abstractmethod
    def _shares(
        self, hosts: list[typing.Any], spec: typing.Any
    ) -> base.Floats | None:
        """Return the hosts' shares, (H,), or None to weigh no host."""

    def _weigh_object(
        self, obj: typing.Any, weight_properties: typing.Any
    ) -> float:
        shares = self._shares([obj], weight_properties)
        return 0.0 if shares is None else float(shares[0])


class DiskPlacementWeigher(DiskWeigherBase):
    """Weigh hosts by how well their disks suit the request."""

    option = 'disk_placement_weight_multiplier'

    def _shares(
        self, hosts: list[typing.Any], spec: typing.Any
    ) -> base.Floats | None:
        run = disk_request.state_of(spec).last_run
        if run is None:
            return None
        scores = run.values_for(hosts, run.choice.scores)
        if len(hosts) <= retries.MAX_REPEATED:
            scores = scores - _REPETITION * retries.repetitions(hosts)
        return scores
