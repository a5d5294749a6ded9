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

"""The status of a host's disks in Placement, and of the agent's own tasks."""

import collections.abc
import dataclasses

from nova_diskplacer.disks import settling as settling_
from nova_diskplacer.placement import inventory


@dataclasses.dataclass(frozen=True)
class Disk:
    """A prepared disk.

    ``figures`` are None without a provider in Placement. ``pending_gb`` are
    the claimed GiB that no vdisk fills, and ``pending_since`` is when the
    agent first saw the oldest such claim (seconds since the epoch), None if
    there is none.
    """

    uuid: str
    health: str
    vdisks: int
    figures: inventory.DiskFigures | None
    pending_gb: int = 0
    pending_since: float | None = None


@dataclasses.dataclass(frozen=True)
class HostStatus:
    """The status of a host.

    ``disks`` are None while the disk root cannot be read. Times of the last
    success are seconds since the epoch, 0 before the first. ``bind_failures``
    are the failures of this host's Cinder driver to bind volumes, by reason.
    ``settling`` are the vdisks of servers that have moved here before them.
    """

    host: str
    disks: collections.abc.Sequence[Disk] | None
    checked: float
    placement_updated: float
    reported: float
    placement_errors: int
    report_errors: int
    bind_failures: collections.abc.Mapping[str, int]
    settling: collections.abc.Sequence[settling_.VDisk] = ()


#: Returns the status of the host.
HostStatusProvider = collections.abc.Callable[[], HostStatus]
