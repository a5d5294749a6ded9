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

"""Volumes that change their disk, their host or their type.

Between the media of one host a vdisk is copied from disk to disk.
``provider_location`` is switched when the copy is safe, and only then is the
original deleted: it is right at every moment, so that what an interrupted
move has left on another disk is known to be a leftover.
"""

from typing import Any

from oslo_log import log as logging

from cinder_vdisk_mapper import binding
from cinder_vdisk_mapper import core
from cinder_vdisk_mapper import errors
from cinder_vdisk_mapper import location_info
from cinder_vdisk_mapper import naming
from cinder_vdisk_mapper import type_mapping
from nova_diskplacer import exception
from nova_diskplacer import flavor

LOG = logging.getLogger(__name__)

ModelUpdate = dict[str, Any] | None


class Migration(core.Core):
    """Migrations and retypes, and what interrupted ones have left."""

    def migrate_volume(
        self, context: Any, volume: Any, host: dict[str, Any]
    ) -> tuple[bool, ModelUpdate]:
        """Move a volume that is not attached to another backend.

        False where Cinder has to copy it: to other hosts and other drivers.
        """
        target = location_info.parse(
            (host.get('capabilities') or {}).get('location_info')
        )
        if target is None:
            return False, None
        name, disk = naming.volume(volume), volume.provider_location
        if not disk:
            # it has no bytes; at most a killed attempt to bind it has
            with errors.explained():
                self.delete_vdisk(None, name)
            return True, None
        here = location_info.of_backend(self.host, self.configuration)
        if not target.shares_disks(here):
            return False, None
        with errors.explained():
            self.require(disk)
            self._move(volume, target.media)
        return True, {'provider_location': volume.provider_location}

    def retype(
        self, context: Any, volume: Any, new_type: Any, diff: Any, host: Any
    ) -> tuple[bool, ModelUpdate]:
        """Change a volume's type in place.

        The scheduler has found that this backend suits the new type, and
        limits of I/O are the hypervisor's. Only encryption is of the bytes.

        :raises InvalidVolumeType: the new type asks for a mapping that there
            is not.
        """
        type_mapping.of_type(
            new_type.extra_specs or {},
            self.configuration.vdisk_default_mapping,
        )
        return not diff.get('encryption'), None

    def update_migrated_volume(
        self,
        context: Any,
        volume: Any,
        new_volume: Any,
        original_volume_status: str,
    ) -> ModelUpdate:
        """Let a volume keep the vdisk that Cinder has copied it to.

        It keeps its name too: the original is still there under the other.
        """
        # the caller has read it before it was bound
        new_volume.refresh()
        name, disk = naming.volume(new_volume), new_volume.provider_location
        if disk and original_volume_status == 'available':
            try:
                self.binder.give(disk, name, volume.id)
            except exception.DiskPlacerError as error:
                # nothing depends on it, and the volume has moved
                LOG.warning('%s still names its former owner: %s', name, error)
        return {'_name_id': new_volume.name_id, 'provider_location': disk}

    def update_provider_info(
        self, volumes: Any, snapshots: Any
    ) -> tuple[None, None]:
        """Delete what moves that were interrupted have left, at start."""
        bound = {
            naming.volume(volume): volume
            for volume in volumes
            if volume.provider_location
        }
        places = {
            (vdisk.name, disk.uuid)
            for disk in self.backend.disks()
            for vdisk in disk.vdisks
            if vdisk.name in bound
        }
        for name, disk in sorted(places):
            right = bound[name].provider_location
            if disk != right and (name, right) in places:
                try:
                    self.binder.tidy(name, bound[name].id, right)
                except exception.DiskPlacerError as error:
                    LOG.warning('%s stays on disk %s: %s', name, disk, error)
        return None, None

    def _move(self, volume: Any, media: str) -> None:
        name, disk = naming.volume(volume), volume.provider_location
        if media in (flavor.ANY, self.backend.disk(disk).medium):
            # all but told by a run that was killed
            self.binder.tidy(name, volume.id, disk)
            return

        def commit(target: str) -> None:
            volume.provider_location = target
            volume.save()

        binder = binding.Binder(self.backend, self.binder.placement, media)
        binder.move(
            binding.Wanted(
                name=name,
                volume_id=volume.id,
                size_gb=volume.size,
                server=None,
                boot_time=False,
                policy=type_mapping.of_volume(
                    volume, self.configuration.vdisk_default_mapping
                ),
                attached=dict,
            ),
            disk,
            commit,
        )
