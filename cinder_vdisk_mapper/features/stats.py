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

"""Capacity of the backend for cinder-scheduler."""

import collections.abc
from typing import Any

from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.vdisks import naming
from nova_diskplacer.disks import discover

# Statuses of volumes that will not be bound.
_NEVER_BOUND = ('error', 'deleting', 'error_deleting')


def report(
    disks: collections.abc.Sequence[discover.Disk],
    unclaimed: collections.abc.Mapping[str, int],
    volumes: collections.abc.Iterable[Volume],
) -> tuple[dict[str, int], dict[str, Any]]:
    """Return the capacity of healthy disks in GiB, and the capabilities.

    Space that servers claim is not free, even if it holds no vdisk.

    :param unclaimed: unclaimed GiB of each disk, by UUID.
    :param volumes: the unbound volumes among them will take space.
    """
    unbound = [
        volume
        for volume in volumes
        if not volume.provider_location and volume.status not in _NEVER_BOUND
    ]
    # the blank volumes of servers fill claims
    pending_gb = sum(
        volume.size
        for volume in unbound
        if not naming.server_of_blank_volume(volume.display_name)
    )
    total_gb = sum(disk.total_gb for disk in disks)
    free_gb = [
        max(0, min(disk.free_gb, unclaimed.get(disk.uuid, 0)))
        for disk in disks
    ]
    capacity = {
        'total_capacity_gb': total_gb,
        'free_capacity_gb': max(0, sum(free_gb) - pending_gb),
        'provisioned_capacity_gb': sum(volume.size for volume in unbound)
        + sum(vdisk.size_gb for disk in disks for vdisk in disk.vdisks),
    }
    return capacity, {
        'vdisk_mapper': True,
        'backend_state': 'up' if total_gb else 'down',
        # sizes of the largest vdisk that one disk can take: for a server that
        # has claimed it, and for any other
        'vdisk_largest_free_gb': max(
            (disk.free_gb for disk in disks), default=0
        ),
        'vdisk_largest_unclaimed_gb': max(free_gb, default=0),
        'thin_provisioning_support': False,
        'thick_provisioning_support': True,
        'online_extend_support': False,
        'multiattach': False,
        'QoS_support': False,
        'consistent_group_snapshot_enabled': True,
    }
