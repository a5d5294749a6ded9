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

"""A disk as the agent compares it and reports it to the schedulers."""

import dataclasses

from nova_diskplacer import constants
from nova_diskplacer.disks import discover
from nova_diskplacer.placement import inventory


@dataclasses.dataclass(frozen=True)
class ReportedDisk:
    """A disk as it is reported to the schedulers."""

    disk: discover.Disk
    figures: inventory.DiskFigures

    @property
    def used(self) -> tuple[int, int]:
        """Return the claimed capacity in GiB and throughput in MB/s."""
        return self.figures.used_gb, self.figures.used_mbps


def comparable(disk: discover.Disk) -> discover.Disk:
    """Return the disk without the fields that change on their own."""
    return dataclasses.replace(disk, free_bytes=0, late=False)


def with_known_figures(
    reported: list[ReportedDisk], disks: list[discover.Disk]
) -> list[ReportedDisk]:
    """Return the current disks with the last known figures.

    A disk without a provider is left out.
    """
    last = {
        reported_disk.disk.uuid: reported_disk for reported_disk in reported
    }
    return [
        ReportedDisk(
            dataclasses.replace(disk, health=constants.FOREIGN)
            if last[disk.uuid].disk.health == constants.FOREIGN
            else disk,
            last[disk.uuid].figures,
        )
        for disk in disks
        if disk.uuid in last
    ]
