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

"""Moves volumes between the media of one host.

The vdisk is copied from disk to disk. ``provider_location`` changes after the
copy is safe and before the original is deleted: it is right at every moment,
so any copy on another disk is a leftover of an interrupted move.
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from cinder.volume import volume_utils
from oslo_log import log as logging

from cinder_vdisk_mapper import binding
from cinder_vdisk_mapper import errors
from cinder_vdisk_mapper import locations
from cinder_vdisk_mapper import naming
from cinder_vdisk_mapper.binding import Binder
from cinder_vdisk_mapper.binding import BindRequest
from cinder_vdisk_mapper.cinder_types import ModelUpdate
from cinder_vdisk_mapper.cinder_types import Snapshot
from cinder_vdisk_mapper.cinder_types import Volume
from cinder_vdisk_mapper.vdisk_operations import VDiskOperations
from nova_diskplacer import exception
from nova_diskplacer import flavor

LOG = logging.getLogger(__name__)


class Location(NamedTuple):
    """Location of the disks of a backend of this driver.

    Its text is the capability ``location_info``.
    """

    host: str
    backend: str
    disk_root: str
    media: str

    def __str__(self) -> str:
        return ':'.join(('VDiskMapper', *self))

    def shares_disks(self, other: 'Location') -> bool:
        """Return whether both use the same disks by the same backend."""
        return self._replace(media=other.media) == other


def location_of(host: str, configuration: Any) -> Location:
    """Return the location of the backend whose Cinder host is ``host``."""
    return Location(
        volume_utils.extract_host(host, 'host'),
        configuration.vdisk_backend,
        configuration.vdisk_disk_root,
        configuration.vdisk_media,
    )


def parse_location(location_info: str | None) -> Location | None:
    """Parse a reported location; None for other drivers."""
    # only the directory may contain colons
    found = re.fullmatch(
        'VDiskMapper:([^:]+):([^:]+):(.+):([^:]+)', location_info or ''
    )
    return Location(*found.groups()) if found else None


@dataclasses.dataclass
class Migration:
    """Moves volumes to other backends of this host.

    :param here: location of this backend.
    :param default_mapping: of volumes whose type has none.
    """

    operations: VDiskOperations
    here: Location
    default_mapping: str

    def migrate_volume(
        self, context: Any, volume: Volume, host: dict[str, Any]
    ) -> tuple[bool, ModelUpdate | None]:
        """Move a volume that is not attached to another backend.

        :param host: of that backend, with its capabilities.
        :returns: False where Cinder has to copy it: to other hosts and other
            drivers.
        :raises DiskPlacerError: it cannot be moved.
        """
        if locations.is_striped(volume.provider_location):
            raise errors.BindingError(
                f'volume {volume.id} is striped over disks '
                f'{volume.provider_location} and cannot be migrated: a copy '
                'would be on one disk. Copy its content to a volume of '
                'another server, or restore a backup of it there',
                'a striped volume cannot be migrated',
            )
        target = parse_location(
            (host.get('capabilities') or {}).get('location_info')
        )
        if target is None:
            return False, None
        name, disk = naming.volume(volume), volume.provider_location
        if not disk:
            # at most a killed attempt to bind it has left a vdisk
            self.operations.delete_everywhere(None, name)
            return True, None
        if not target.shares_disks(self.here):
            return False, None
        self.operations.backend.check_disk(disk)
        self._move(volume, disk, target.media)
        return True, naming.bound_to(volume.provider_location)

    def update_migrated_volume(
        self,
        context: Any,
        volume: Volume,
        new_volume: Volume,
        original_volume_status: str,
    ) -> ModelUpdate:
        """Give a volume the vdisk that Cinder has copied it to.

        The vdisk keeps its name: the original still has the volume's name.
        """
        # the caller has read it before it was bound
        new_volume.refresh()
        name, disk = naming.volume(new_volume), new_volume.provider_location
        if disk and original_volume_status == 'available':
            try:
                self.operations.change_owner(disk, name, volume.id)
            except exception.DiskPlacerError as error:
                # the volume has moved, and nothing depends on the owner
                LOG.warning('%s keeps its former owner: %s', name, error)
        return {'_name_id': new_volume.name_id, **naming.bound_to(disk)}

    def update_provider_info(
        self, volumes: Sequence[Volume], snapshots: Sequence[Snapshot]
    ) -> tuple[list[ModelUpdate], None]:
        """Delete the copies that interrupted moves have left, at start.

        :returns: the changes of volumes whose disk the API does not tell,
            because an earlier release has bound them.
        """
        bound = {
            naming.volume(volume): (volume.id, volume.provider_location)
            for volume in volumes
            if volume.provider_location
            and not locations.is_striped(volume.provider_location)
        }
        copies = {
            (vdisk.name, disk.uuid)
            for disk in self.operations.backend.disks()
            for vdisk in disk.vdisks
            if vdisk.name in bound
        }
        for name, disk in sorted(copies):
            volume_id, location = bound[name]
            if disk != location and (name, location) in copies:
                try:
                    self.operations.delete_stale_copies(
                        name, volume_id, location
                    )
                except exception.DiskPlacerError as error:
                    LOG.warning('%s stays on disk %s: %s', name, disk, error)
        return [
            {'id': volume.id, 'provider_id': volume.provider_location}
            for volume in volumes
            if volume.provider_location and not volume.provider_id
        ], None

    def _move(self, volume: Volume, disk: str, media: str) -> None:
        name = naming.volume(volume)
        if media in (flavor.ANY, self.operations.backend.disk(disk).medium):
            # a killed run may have moved it already
            self.operations.delete_stale_copies(name, volume.id, disk)
            return

        def commit(target: str) -> None:
            volume.provider_location = volume.provider_id = target
            volume.save()

        request = BindRequest(
            name=name,
            volume_id=volume.id,
            size_gb=volume.size,
            policy=binding.mapping_of(
                volume.volume_type, self.default_mapping
            ),
        )
        binder = Binder(self.operations, media)
        binder.move(request, disk, commit)
