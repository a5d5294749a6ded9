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

"""What the backend tells cinder-scheduler of itself."""

import collections.abc
import dataclasses
from typing import Any

from cinder import context as cinder_context

from cinder_vdisk_mapper import core
from cinder_vdisk_mapper import locations
from nova_diskplacer.disks import discover

# Volumes of which nothing will be bound any more.
_DONE_FOR = ('error', 'deleting', 'error_deleting')


@dataclasses.dataclass(frozen=True)
class Capacity:
    """What a backend holds and may still hold, in GiB.

    ``largest_gb`` is the largest vdisk that any one disk can take now.
    """

    total_gb: int
    free_gb: int
    provisioned_gb: int
    largest_gb: int


def capacity(
    disks: collections.abc.Sequence[discover.Disk], unbound_gb: int
) -> Capacity:
    """Return the capacity of healthy disks.

    What servers claim and have not bound yet counts as free, since it is for
    the very volumes that are to be created.

    :param unbound_gb: sizes of the volumes that take no space yet but may at
        any time.
    """
    free = sum(disk.free_gb for disk in disks)
    return Capacity(
        total_gb=sum(disk.total_gb for disk in disks),
        free_gb=max(0, free - unbound_gb),
        provisioned_gb=unbound_gb
        + sum(vdisk.size_gb for disk in disks for vdisk in disk.vdisks),
        largest_gb=max((disk.free_gb for disk in disks), default=0),
    )


class Stats(core.Core):
    """Capabilities and figures, of one pool: Nova chooses the disk."""

    def _update_volume_stats(self) -> None:
        found = capacity(self.disks(), self._unbound_gb())
        name = self.configuration.safe_get('volume_backend_name')
        capabilities = {
            'vdisk_mapper': True,
            'vdisk_media': self.configuration.vdisk_media,
            'vdisk_largest_free_gb': found.largest_gb,
            'location_info': str(
                locations.of_backend(self.host, self.configuration)
            ),
            'thin_provisioning_support': False,
            'thick_provisioning_support': True,
            'online_extend_support': False,
            'multiattach': False,
            'QoS_support': False,
            'consistent_group_snapshot_enabled': True,
        }
        pool = {
            'pool_name': name,
            'total_capacity_gb': found.total_gb,
            'free_capacity_gb': found.free_gb,
            'provisioned_capacity_gb': found.provisioned_gb,
            'reserved_percentage': self.configuration.reserved_percentage,
            'filter_function': self.get_filter_function(),
            'goodness_function': self.get_goodness_function(),
            **capabilities,
        }
        self._stats = {
            'volume_backend_name': name,
            'vendor_name': 'nova-diskplacer',
            'driver_version': self.VERSION,
            'storage_protocol': self.backend.connection_type,
            **capabilities,
            'pools': [pool],
        }

    def _unbound_gb(self) -> int:
        """Return the sizes of the volumes that are yet to be bound."""
        volumes: list[Any] = self.db.volume_get_all_by_host(
            cinder_context.get_admin_context(),
            self.host,
            filters={'provider_location': None},
        )
        return sum(
            volume.size
            for volume in volumes
            if not volume.provider_location and volume.status not in _DONE_FOR
        )
