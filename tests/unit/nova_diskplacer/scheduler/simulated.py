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

"""Placement, as far as disks go, without a database."""

import collections
import dataclasses

from nova_diskplacer import flavor
from nova_diskplacer.placement import client as placement_client
from tests.unit.nova_diskplacer.scheduler import fakes


@dataclasses.dataclass
class Disk:
    """A disk's provider."""

    uuid: str
    host: int
    medium: str
    total_gb: int
    total_mbps: int
    reserved_gb: int = 0


class Placement:
    """As much of Placement as disks need; claims are atomic."""

    def __init__(self):
        self.disks = {}
        self.allocations = {}

    def used(self, disk, name):
        return sum(
            allocation.get(disk.uuid, {}).get(name, 0)
            for allocation in self.allocations.values()
        )

    def room_gb(self, disk):
        return (
            disk.total_gb
            - disk.reserved_gb
            - self.used(disk, placement_client.GB)
        )

    def slots(self, disk, request):
        """How many vdisks of the request fit on a disk."""
        if request.media not in (flavor.ANY, disk.medium):
            return 0
        slots = self.room_gb(disk) // request.vdisk_gb
        if request.vdisk_mbps:
            free = disk.total_mbps - self.used(disk, placement_client.MBPS)
            slots = min(slots, free // request.vdisk_mbps)
        return slots

    def claim(self, consumer, allocations):
        """Claim all or nothing; say whether it worked."""
        for name, asked in allocations.items():
            disk = self.disks[name]
            if self.room_gb(disk) < asked.get(placement_client.GB, 0):
                return False
            free = disk.total_mbps - self.used(disk, placement_client.MBPS)
            if free < asked.get(placement_client.MBPS, 0):
                return False
        self.allocations[consumer] = allocations
        return True

    def of_host(self, provider):
        """Capacities of a host's disks; none if none has room at all."""
        disks = [
            disk
            for disk in self.disks.values()
            if fakes.host_uuid(disk.host) == provider
        ]
        return self._capacities(disks, 1)

    def claims_of(self, consumer):
        """What a consumer has claimed."""
        return self.allocations.get(consumer, {})

    def with_room(self, request):
        """Hosts with enough disks that have room for a vdisk."""
        disks = collections.Counter(
            fakes.host_uuid(disk.host)
            for disk in self.disks.values()
            if self.slots(disk, request)
        )
        least = 1
        if request.mapping == flavor.ROUND_ROBIN:
            least = -(-request.vdisks // request.vdisks_per_disk)
        return {host for host, number in disks.items() if number >= least}

    def _capacities(self, disks, least):
        if all(self.room_gb(disk) < least for disk in disks):
            return {}
        return {
            disk.uuid: placement_client.DiskCapacity(
                disk.total_gb - disk.reserved_gb,
                self.used(disk, placement_client.GB),
                disk.total_mbps,
                self.used(disk, placement_client.MBPS),
            )
            for disk in disks
        }
