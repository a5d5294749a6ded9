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

"""VDiskMapperDriver: volumes on exactly chosen local disks.

Runs in the cinder-volume of each compute node. A volume takes no space until
it is attached for the first time, or its bytes are needed; then it is bound
to a disk, for good. ``provider_location`` is the UUID of that disk.
"""

from typing import Any

from cinder import interface

from cinder_vdisk_mapper import binding
from cinder_vdisk_mapper import conf
from cinder_vdisk_mapper import connections
from cinder_vdisk_mapper import encryption
from cinder_vdisk_mapper import errors
from cinder_vdisk_mapper import groups
from cinder_vdisk_mapper import managed
from cinder_vdisk_mapper import migration
from cinder_vdisk_mapper import naming
from cinder_vdisk_mapper import snapshots
from cinder_vdisk_mapper import stats
from cinder_vdisk_mapper import type_mapping


@interface.volumedriver
class VDiskMapperDriver(
    connections.Connections,
    encryption.Encryption,
    groups.Groups,
    managed.Manage,
    migration.Migration,
    snapshots.Snapshots,
    stats.Stats,
):
    """Maps volumes to the local disks that their server has claimed."""

    VERSION = '1.0.0'
    CI_WIKI_NAME = 'nova-diskplacer'

    @staticmethod
    def get_driver_options() -> list[Any]:
        """Return the options of the driver."""
        return conf.OPTS

    def create_volume(self, volume: Any) -> dict[str, Any] | None:
        """Create a volume that takes no space yet."""
        self.check_encryption(volume)
        type_mapping.of_volume(
            volume, self.configuration.vdisk_default_mapping
        )
        if volume.provider_location:
            # Cinder copies it to the volume that another is migrated to
            return {'provider_location': None}
        return None

    def delete_volume(self, volume: Any) -> None:
        """Delete a volume and whatever a killed attempt left of it."""
        if volume.status == 'error_managing_deleting':
            # what it was to take over is not Cinder's to delete
            self.let_go(volume)
            return
        with errors.explained():
            self.delete_vdisk(volume.provider_location, naming.volume(volume))

    def extend_volume(self, volume: Any, new_size: int) -> None:
        """Extend a volume to ``new_size`` GiB; it must not be attached.

        An unbound one takes no space, but must be able to do so one day.
        """
        disk = volume.provider_location
        with errors.explained():
            if disk:
                self.binder.extend(disk, naming.volume(volume), new_size)
            else:
                self._check_size(new_size)

    def _check_size(self, size_gb: int) -> None:
        largest = max(
            (disk.total_gb for disk in self.disks()), default=size_gb
        )
        if size_gb > largest:
            raise binding.BindingError(
                f'no disk can hold a volume of {size_gb} GiB: the largest '
                f'has {largest} GiB',
                f'a volume cannot be extended to {size_gb} GiB here',
            )
