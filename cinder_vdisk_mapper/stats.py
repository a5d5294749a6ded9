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
from oslo_log import log as logging

from cinder_vdisk_mapper import core
from cinder_vdisk_mapper import location_info
from cinder_vdisk_mapper import nova_api
from nova_diskplacer import exception
from nova_diskplacer.disks import discover

LOG = logging.getLogger(__name__)

# Volumes of which nothing will be bound any more.
_DONE_FOR = ('error', 'deleting', 'error_deleting')


@dataclasses.dataclass(frozen=True)
class Capacity:
    """What a backend holds and may still hold, in GiB.

    ``largest_gb`` is the largest vdisk that any one disk can take now, for a
    server that has claimed it, ``largest_unclaimed_gb`` for anybody.
    """

    total_gb: int
    free_gb: int
    provisioned_gb: int
    largest_gb: int
    largest_unclaimed_gb: int


def capacity(
    disks: collections.abc.Sequence[discover.Disk],
    unclaimed: collections.abc.Mapping[str, int],
    unbound_gb: int,
    pending_gb: int,
) -> Capacity:
    """Return the capacity of healthy disks.

    What servers claim is not free, whether they have bound it or not.

    :param unclaimed: GiB of each disk that nobody claims, by UUID.
    :param unbound_gb: sizes of the volumes that take no space yet but may at
        any time.
    :param pending_gb: those of them that no server claims.
    """
    free = {
        disk.uuid: max(0, min(disk.free_gb, unclaimed.get(disk.uuid, 0)))
        for disk in disks
    }
    return Capacity(
        total_gb=sum(disk.total_gb for disk in disks),
        free_gb=max(0, sum(free.values()) - pending_gb),
        provisioned_gb=unbound_gb
        + sum(vdisk.size_gb for disk in disks for vdisk in disk.vdisks),
        largest_gb=max((disk.free_gb for disk in disks), default=0),
        largest_unclaimed_gb=max(free.values(), default=0),
    )


class Stats(core.Core):
    """Capabilities and figures, of one pool: Nova chooses the disk."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._root: str | None = None
        self._unclaimed: dict[str, int] = {}

    def _update_volume_stats(self) -> None:
        disks = self.disks()
        found = capacity(disks, self._look_up(disks), *self._unbound_gb())
        name = self.configuration.safe_get('volume_backend_name')
        capabilities = {
            'vdisk_mapper': True,
            'backend_state': 'up' if disks else 'down',
            'vdisk_media': self.configuration.vdisk_media,
            'vdisk_largest_free_gb': found.largest_gb,
            'vdisk_largest_unclaimed_gb': found.largest_unclaimed_gb,
            'location_info': str(
                location_info.of_backend(self.host, self.configuration)
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

    def _look_up(
        self, disks: collections.abc.Sequence[discover.Disk]
    ) -> dict[str, int]:
        """Return the GiB of each disk that nobody claims.

        It is what Placement said last where it cannot be asked, and nothing
        where it never could: no volume can be bound then.
        """
        try:
            placement = self.binder.placement
            for disk in disks if self._root is None else ():
                if provider := placement.provider(disk.uuid):
                    self._root = provider.root
                    break
            if self._root:
                self._unclaimed = placement.room(self._root)
                if not self._unclaimed:
                    # full, or the compute node has another provider now
                    self._root = None
        except exception.DiskPlacerError as error:
            LOG.warning('What servers claim is not known: %s', error)
        return self._unclaimed

    def _unbound_gb(self) -> tuple[int, int]:
        """Return the sizes of the volumes that are yet to be bound.

        In total, and without the blank volumes of servers: those are claimed.
        """
        volumes: list[Any] = self.db.volume_get_all_by_host(
            cinder_context.get_admin_context(),
            self.host,
            filters={'provider_location': None},
        )
        unbound = [
            volume
            for volume in volumes
            if not volume.provider_location and volume.status not in _DONE_FOR
        ]
        return (
            sum(volume.size for volume in unbound),
            sum(
                volume.size
                for volume in unbound
                if not nova_api.of_blank_volume(volume.display_name)
            ),
        )
