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

"""Disks and vdisks that exist in memory only."""

import dataclasses

from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk


def make_vdisk(volume_id, server_id, size_gb):
    """Return a vdisk of a volume."""
    return VDisk(f'volume-{volume_id}', volume_id, server_id, size_gb * GIB)


def make_disk(
    uuid, total_gb=100, medium='hdd', health=discover.OK, held=(), **values
):
    """Return a disk that holds these vdisks.

    :param values: other fields of the disk.
    """
    taken = sum(one.size_bytes for one in held)
    disk = discover.Disk(
        uuid=uuid,
        path=f'/disks/{uuid}',
        device='/dev/sdx',
        medium=medium,
        model='Fake',
        numa_node=None,
        size_bytes=(total_gb + 1) * GIB,
        free_bytes=(total_gb + 1) * GIB - taken,
        total_gb=total_gb,
        mbps=150,
        health=health,
        vdisks=tuple(held),
    )
    return dataclasses.replace(disk, **values)
