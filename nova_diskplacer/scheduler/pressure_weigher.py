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

"""Disk Pressure Weigher.

Weighs down the hosts whose disks have been under pressure for minutes, as
their agents report it. A host's share is the mean of the disks that were
chosen there for the request's vdisks; a disk counts once for each vdisk. For
a request that has ``diskplacer:`` extra specs but gets no vdisks, such as one
with a usage tier, it is the mean of all disks of the host that are ``ok``: the
server's vdisks will be attached later. A disk without a report of pressure
counts as 0.

With the multiplier of DiskPlacementWeigher, as by default, a host loses at
most as much as it gains by that. Requests without ``diskplacer:`` extra specs
are not weighed.
"""

import typing

import numpy as np

from nova_diskplacer.mapping import base
from nova_diskplacer.scheduler import report_listener
from nova_diskplacer.scheduler import request as disk_request
from nova_diskplacer.scheduler import weigher


class DiskPressureWeigher(weigher.DiskWeigherBase):
    """Weigh hosts down by the pressure on their disks."""

    option = 'disk_pressure_weight_multiplier'
    sign = -1

    def _shares(
        self, hosts: list[typing.Any], spec: typing.Any
    ) -> base.Floats | None:
        run = disk_request.state_of(spec).last_run
        if run is not None:
            if not run.pressures.any():
                return None
            return run.values_for(hosts, run.pressures)
        if not disk_request.has_extra_specs(spec):
            return None
        cache = report_listener.get_cache()
        rows = cache.rows(host.uuid for host in hosts)
        fresh = rows >= 0
        shares = np.zeros(len(hosts))
        shares[fresh] = cache.pressure(rows[fresh])
        return shares
