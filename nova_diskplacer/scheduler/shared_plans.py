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

"""What DiskRoomFilter has found out, for DiskPlacementFilter."""

import dataclasses
import typing

import numpy as np

from nova_diskplacer.mapping import base
from nova_diskplacer.scheduler import fleet as fleets
from nova_diskplacer.scheduler import plan as plans

#: Attribute of a request spec. Nova neither stores nor sends what is no field.
KEPT = 'diskplacer_planned'


@dataclasses.dataclass
class Planned:
    """The plan for a request's server.

    :ivar only: the providers of the hosts where its bound vdisks let it be,
        None for all.
    """

    server_id: str
    plan: plans.Plan
    only: frozenset[str] | None
    _rows: base.Ints | None = None
    _choice: plans.Choice | None = None

    def allowed(self, hosts: list[typing.Any]) -> list[typing.Any]:
        """Return those of the hosts where the server may be."""
        if self.only is None:
            return hosts
        return [host for host in hosts if host.uuid in self.only]

    def choose(self, fleet: fleets.Fleet, rows: base.Ints) -> plans.Choice:
        """Choose disks wherever they are, without regard to NUMA.

        What was chosen on the same hosts for the same server is returned as
        it was.

        :param rows: the hosts' rows in the fleet, (H,).
        """
        if self._rows is not None and self._choice is not None:
            at = np.full(len(fleet), -1)
            at[self._rows] = np.arange(len(self._rows))
            at = at[rows]
            if (at >= 0).all():
                before = self._choice
                return plans.Choice(
                    before.fits[at], before.counts[at], before.scores[at]
                )
        self._rows = rows
        self._choice = self.plan.choose(fleet.view(rows))
        return self._choice


def keep(spec: typing.Any, planned: Planned) -> None:
    """Keep a plan with its request."""
    setattr(spec, KEPT, planned)


def kept(spec: typing.Any) -> Planned | None:
    """Return the plan for a request's server, if there is one already."""
    found: Planned | None = getattr(spec, KEPT, None)
    if found is None or found.server_id != spec.instance_uuid:
        return None
    return found
