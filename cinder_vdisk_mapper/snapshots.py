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

"""Snapshots, and volumes made of them or of other volumes.

All stay on the disk of their source. What is made of an unbound volume is
unbound too: it reads as zeros, as its source did.
"""

from typing import Any

from oslo_log import log as logging

from cinder_vdisk_mapper import core
from cinder_vdisk_mapper import errors
from cinder_vdisk_mapper import naming
from cinder_vdisk_mapper import type_mapping
from cinder_vdisk_mapper import vdisk_reservation

LOG = logging.getLogger(__name__)

ModelUpdate = dict[str, Any] | None


class Snapshots(core.Core):
    """Snapshots, reverts and clones."""

    def create_snapshot(self, snapshot: Any) -> ModelUpdate:
        """Freeze a volume, attached or not, as it is at this moment."""
        volume = snapshot.volume
        disk = volume.provider_location
        if not disk:
            return None
        with errors.explained():
            self.require(disk)
            self.binder.snapshot(
                disk,
                naming.volume(volume),
                naming.snapshot(snapshot),
                snapshot.id,
            )
        return {'provider_location': disk}

    def delete_snapshot(self, snapshot: Any) -> None:
        """Delete a snapshot and whatever a killed attempt left of it."""
        with errors.explained():
            self.delete_vdisk(
                snapshot.provider_location, naming.snapshot(snapshot)
            )

    def revert_to_snapshot(
        self, context: Any, volume: Any, snapshot: Any
    ) -> None:
        """Give a volume that is not attached the content of a snapshot."""
        disk = volume.provider_location
        with errors.explained():
            if any(
                attachment.attach_status != 'detached'
                for attachment in volume.volume_attachment
            ):
                raise vdisk_reservation.BindingError(
                    f'volume {volume.id} is attached and cannot be reverted',
                    'a volume that is attached cannot be reverted',
                )
            if not disk:
                return
            self.require(disk)
            self.binder.revert(
                disk,
                naming.volume(volume),
                naming.snapshot(snapshot)
                if snapshot.provider_location
                else None,
            )

    def snapshot_revert_use_temp_snapshot(self) -> bool:
        """Tell Cinder to take no snapshot before it reverts.

        The one that is reverted to stays whole, so a revert that is
        interrupted can be repeated; another would need room of its own.
        """
        return False

    def backup_use_temp_snapshot(self) -> bool:
        """Tell Cinder to back up clones: a snapshot may have no bytes."""
        if self.configuration.safe_get('backup_use_temp_snapshot'):
            LOG.warning(
                'backup_use_temp_snapshot=True is ignored: volumes in use '
                'and snapshots are backed up by a temporary clone'
            )
        return False

    def create_volume_from_snapshot(
        self, volume: Any, snapshot: Any
    ) -> ModelUpdate:
        """Make a volume with the content of a snapshot, on its disk."""
        return self._copy(
            snapshot.provider_location, naming.snapshot(snapshot), volume
        )

    def create_cloned_volume(self, volume: Any, src_vref: Any) -> ModelUpdate:
        """Make a volume with the content of another, on its disk."""
        return self._copy(
            src_vref.provider_location, naming.volume(src_vref), volume
        )

    def _copy(self, disk: str | None, source: str, volume: Any) -> ModelUpdate:
        type_mapping.of_volume(
            volume, self.configuration.vdisk_default_mapping
        )
        if not disk:
            return None
        with errors.explained():
            self.require(disk)
            self.binder.clone(
                disk, source, naming.volume(volume), volume.id, volume.size
            )
        return {'provider_location': disk}
