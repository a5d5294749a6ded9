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

"""Vdisks that Cinder manages or unmanages.

A reference is ``{'source-name': '<disk UUID>/<vdisk>'}``: any vdisk on a disk
of the backend that is not a volume or snapshot of Cinder. The disk may be
omitted where only one disk has a vdisk of that name. Its content must be raw.
An unmanaged vdisk stays on its disk as ``unmanaged-<id>``.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import TypeVar

from cinder import context as cinder_context
from cinder import exception as cinder_exc
from cinder.privsep import format_inspector
from cinder.volume import volume_types
from cinder.volume import volume_utils

from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.types import ModelUpdate
from cinder_vdisk_mapper.cinder_api.types import Snapshot
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.vdisks import event_log
from cinder_vdisk_mapper.vdisks import linking
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks import records
from cinder_vdisk_mapper.vdisks.operations import VDiskOperations
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.vdisk import VDisk

# What a user sends: Cinder's schema allows any object, and any text.
Reference = dict[str, Any] | str

_Item = TypeVar('_Item', Volume, Snapshot)

_SOURCE = 'source-name'
_ALLOWED = "{'source-name': '<UUID of a disk of the backend>/<vdisk>'}"


@dataclasses.dataclass
class ManagedVDisks:
    """Manages and unmanages volumes and snapshots.

    :param media: hdd, ssd or any.
    :param bind: binds a volume for no server and returns its disk.
    """

    operations: VDiskOperations
    media: str
    bind: Callable[[Volume], str]

    def manage_existing_get_size(
        self, volume: Volume, existing_ref: Reference
    ) -> int:
        """Return the GiB, rounded up, of a vdisk that can become a volume."""
        _check_type(volume)
        return self._checked(existing_ref, naming.volume(volume))[1].size_gb

    def manage_existing(
        self, volume: Volume, existing_ref: Reference
    ) -> ModelUpdate:
        """Make a vdisk a volume of whole GiB, allocated and reserved."""
        disk, vdisk = self._checked(existing_ref, naming.volume(volume))
        self._manage(disk, vdisk, naming.volume(volume), volume.id)
        location = Location((disk.uuid,))
        event_log.log_bound(volume, None, location)
        return naming.created() | naming.bound_to(location)

    def unmanage(self, volume: Volume) -> None:
        """Unmanage a volume, which is bound first if it is not."""
        if not volume.provider_location and not self._disks_holding(
            naming.unmanaged(volume.name_id)
        ):
            self.bind(volume)
        self.release_vdisk(volume)

    def release_vdisk(self, volume: Volume) -> None:
        """Unmanage the vdisk of a volume, if it has one."""
        location = linking.where(self.operations.backend, volume)
        self._unmanage(location, naming.volume(volume), volume.name_id)

    def get_manageable_volumes(
        self,
        cinder_volumes: list[Volume],
        marker: Any,
        limit: int,
        offset: int,
        sort_keys: list[str],
        sort_dirs: list[str],
    ) -> list[dict[str, Any]]:
        """List the vdisks that are volumes or can become volumes."""
        volumes = {naming.volume(volume): volume for volume in cinder_volumes}
        entries = [entry for entry, _, _ in self._manageable(volumes)]
        return _page(entries, marker, limit, offset, sort_keys, sort_dirs)

    def manage_existing_snapshot_get_size(
        self, snapshot: Snapshot, existing_ref: Reference
    ) -> int:
        """Return the GiB, rounded up, of a vdisk that can be a snapshot."""
        return self._checked_snapshot(snapshot, existing_ref)[1].size_gb

    def manage_existing_snapshot(
        self, snapshot: Snapshot, existing_ref: Reference
    ) -> ModelUpdate:
        """Make a vdisk a snapshot of a volume on the same disk."""
        disk, vdisk = self._checked_snapshot(snapshot, existing_ref)
        name = naming.snapshot(snapshot)
        self._manage(disk, vdisk, name, snapshot.id)
        return {'provider_location': disk.uuid}

    def unmanage_snapshot(self, snapshot: Snapshot) -> None:
        """Unmanage a snapshot, which is made first if it has no vdisk."""
        name = naming.snapshot(snapshot)
        if not snapshot.provider_location and not self._disks_holding(
            naming.unmanaged(snapshot.id)
        ):
            self.operations.allocate(
                self.bind(snapshot.volume),
                name,
                snapshot.id,
                snapshot.volume_size,
            )
        self._unmanage(naming.location(snapshot), name, snapshot.id)

    def get_manageable_snapshots(
        self,
        cinder_snapshots: list[Snapshot],
        marker: Any,
        limit: int,
        offset: int,
        sort_keys: list[str],
        sort_dirs: list[str],
    ) -> list[dict[str, Any]]:
        """List the vdisks that are snapshots or can become snapshots."""
        snapshots = {
            naming.snapshot(snapshot): snapshot
            for snapshot in cinder_snapshots
        }
        entries = [
            {
                **entry,
                'source_reference': snapshot
                and _reference(disk, naming.volume(snapshot.volume)),
            }
            for entry, disk, snapshot in self._manageable(snapshots)
        ]
        return _page(entries, marker, limit, offset, sort_keys, sort_dirs)

    def _manageable(
        self, items: Mapping[str, _Item]
    ) -> Iterator[tuple[dict[str, Any], discover.Disk, _Item | None]]:
        """Yield entries of vdisks that are in ``items`` or nobody's.

        :param items: volumes or snapshots by the names of their vdisks.
        """
        vdisks = self._vdisks()
        managed = _managed(vdisks)
        for disk, vdisk in vdisks:
            item = items.get(vdisk.name)
            if item or vdisk.name not in managed:
                entry = {
                    'reference': _reference(disk, vdisk.name),
                    'size': vdisk.size_gb,
                    'safe_to_manage': item is None,
                    'reason_not_safe': 'already managed' if item else None,
                    'cinder_id': item.id if item else None,
                    'extra_info': None,
                }
                yield entry, disk, item

    def _disks(self) -> list[discover.Disk]:
        return base.usable_disks(self.operations.backend.disks(), self.media)

    def _disks_holding(self, name: str) -> list[str]:
        return self.operations.backend.disks_holding(name)

    def _vdisks(self) -> list[tuple[discover.Disk, VDisk]]:
        """Return all vdisks but the pieces of striped ones."""
        return [
            (disk, vdisk)
            for disk in self._disks()
            for vdisk in disk.vdisks
            if not vdisk.stripe
        ]

    def _checked(
        self, reference: Reference, new_name: str
    ) -> tuple[discover.Disk, VDisk]:
        """Return the vdisk of a reference, if it can be managed.

        :param new_name: its name afterwards, or already after a killed run.
        :raises ManageExistingInvalidReference: it cannot be managed.
        :raises ManageExistingAlreadyManaged: it is a volume or snapshot.
        """
        source = (
            reference.get(_SOURCE) if isinstance(reference, dict) else None
        )
        if not isinstance(source, str) or len(reference) != 1:
            raise _refused(reference, f'it must be {_ALLOWED}')
        uuid, slash, name = source.rpartition('/')
        candidates = [
            (disk, vdisk)
            for disk, vdisk in self._vdisks()
            if not slash or uuid == disk.uuid
        ]
        matches = [pair for pair in candidates if pair[1].name == name] or [
            pair for pair in candidates if pair[1].name == new_name
        ]
        if len(matches) != 1:
            number = (
                'are several such vdisks' if matches else 'is no such vdisk'
            )
            disks = sorted({disk.uuid for disk in self._disks()})
            raise _refused(
                reference,
                f'there {number}; it must be {_ALLOWED}, and the disks are '
                f'{disks}',
            )
        ((disk, vdisk),) = matches
        name = vdisk.name
        if name != new_name and _managed(matches):
            raise cinder_exc.ManageExistingAlreadyManaged(volume_ref=source)
        format_ = format_inspector.get_format_if_safe(
            path=self.operations.backend.device_path(disk.uuid, name),
            allow_qcow2_backing_file=False,
        )
        if format_ != 'raw':
            raise _refused(
                reference,
                f'its content is {format_ or "an unsafe image"}, and must be '
                'raw',
            )
        return disk, vdisk

    def _checked_snapshot(
        self, snapshot: Snapshot, reference: Reference
    ) -> tuple[discover.Disk, VDisk]:
        disk, vdisk = self._checked(reference, naming.snapshot(snapshot))
        volume = snapshot.volume
        location = linking.where(self.operations.backend, volume)
        if disk.uuid != location.disk:
            raise _refused(
                reference,
                'a snapshot must be on the disk of its volume, which is '
                f'{location or None} for volume {volume.id}',
            )
        if vdisk.size_gb > volume.size:
            raise _refused(
                reference,
                f'it has {vdisk.size_gb} GiB, which is more than the '
                f'{volume.size} GiB of volume {volume.id}',
            )
        return disk, vdisk

    def _manage(
        self, disk: discover.Disk, vdisk: VDisk, name: str, id_: str
    ) -> None:
        self.operations.manage(disk.uuid, vdisk.name, name, id_, vdisk.size_gb)

    def _unmanage(self, location: Location, name: str, id_: str) -> None:
        if location.is_striped:
            raise errors.BindingError(
                f'{name} is striped over disks {location} and cannot be '
                'unmanaged',
                'a striped volume and its snapshots cannot be unmanaged',
            )
        # a killed run may not have saved the disk
        for disk in location or self._disks_holding(name):
            self.operations.backend.check_disk(disk)
            self.operations.unmanage(disk, name, naming.unmanaged(id_))


def _managed(vdisks: list[tuple[discover.Disk, VDisk]]) -> set[str]:
    """Return the names of vdisks that are volumes or snapshots of Cinder."""
    return records.managed(
        cinder_context.get_admin_context(), {vdisk.name for _, vdisk in vdisks}
    )


def _check_type(volume: Volume) -> None:
    type_id = volume.volume_type_id
    context = cinder_context.get_admin_context()
    if type_id and volume_types.is_encrypted(context, type_id):
        raise cinder_exc.ManageExistingVolumeTypeMismatch(
            reason=f'volumes of type {type_id} are encrypted, and Cinder '
            'has no key of an existing vdisk'
        )


def _refused(reference: Reference, reason: str) -> Exception:
    error: Exception = cinder_exc.ManageExistingInvalidReference(
        existing_ref=reference, reason=reason
    )
    return error


def _reference(disk: discover.Disk, name: str) -> dict[str, str]:
    return {_SOURCE: f'{disk.uuid}/{name}'}


def _page(entries: list[dict[str, Any]], *args: Any) -> list[dict[str, Any]]:
    page: list[dict[str, Any]] = volume_utils.paginate_entries_list(
        entries, *args
    )
    return page
