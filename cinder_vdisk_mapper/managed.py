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

"""Vdisks that Cinder takes over, and ones that it lets go of.

A reference is ``{'source-name': '<disk UUID>/<vdisk>'}``: any vdisk on a disk
of the backend that no volume or snapshot of Cinder is. The disk may be left
out where one disk only has a vdisk of that name. Its content must be raw. What
Cinder lets go of stays on its disk as ``unmanaged-<id>``.
"""

from typing import Any

from cinder import context as cinder_context
from cinder import exception as cinder_exc
from cinder.privsep import format_inspector
from cinder.volume import volume_types
from cinder.volume import volume_utils
from oslo_config import cfg

from cinder_vdisk_mapper import core
from cinder_vdisk_mapper import errors
from cinder_vdisk_mapper import naming
from cinder_vdisk_mapper import records
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import VDisk

CONF = cfg.CONF

_SOURCE = 'source-name'
_ALLOWED = "{'source-name': '<UUID of a disk of the backend>/<vdisk>'}"


class Manage(core.Core):
    """Manages and unmanages volumes and snapshots."""

    def manage_existing_get_size(
        self, volume: Any, existing_ref: dict[str, Any]
    ) -> int:
        """Return the GiB of a vdisk, rounded up, if it may be a volume."""
        _check_type(volume)
        return self._checked(existing_ref, naming.volume(volume))[1].size_gb

    def manage_existing(
        self, volume: Any, existing_ref: dict[str, Any]
    ) -> dict[str, Any]:
        """Make a vdisk a volume: whole GiB, all allocated, and reserved."""
        disk, vdisk = self._checked(existing_ref, naming.volume(volume))
        return self._adopt(disk, vdisk, naming.volume(volume), volume.id)

    def unmanage(self, volume: Any) -> None:
        """Let go of a volume, bound if need be: there is what to manage."""
        if not volume.provider_location:
            with errors.explained():
                if not self.binder.places(naming.unmanaged(volume.name_id)):
                    self._bind(volume)
        self.let_go(volume)

    def let_go(self, volume: Any) -> None:
        """Let go of what there is of a volume, if anything."""
        self._release(
            volume.provider_location, naming.volume(volume), volume.name_id
        )

    def get_manageable_volumes(
        self,
        cinder_volumes: list[Any],
        marker: Any,
        limit: int,
        offset: int,
        sort_keys: list[str],
        sort_dirs: list[str],
    ) -> list[dict[str, Any]]:
        """List the vdisks that are volumes or may be."""
        known = {naming.volume(volume): volume.id for volume in cinder_volumes}
        held = self._vdisks()
        managed = self._managed(held)
        entries = [
            _entry(disk, vdisk, known.get(vdisk.name))
            for disk, vdisk in held
            if vdisk.name in known or vdisk.name not in managed
        ]
        return _page(entries, marker, limit, offset, sort_keys, sort_dirs)

    def manage_existing_snapshot_get_size(
        self, snapshot: Any, existing_ref: dict[str, Any]
    ) -> int:
        """Return the GiB of a vdisk, rounded up, if it may be a snapshot."""
        return self._checked_snapshot(snapshot, existing_ref)[1].size_gb

    def manage_existing_snapshot(
        self, snapshot: Any, existing_ref: dict[str, Any]
    ) -> dict[str, Any]:
        """Make a vdisk a snapshot of a volume on the same disk."""
        disk, vdisk = self._checked_snapshot(snapshot, existing_ref)
        return self._adopt(disk, vdisk, naming.snapshot(snapshot), snapshot.id)

    def unmanage_snapshot(self, snapshot: Any) -> None:
        """Let go of a snapshot, bound if need be, on its volume's disk."""
        name = naming.snapshot(snapshot)
        if not snapshot.provider_location:
            with errors.explained():
                if not self.binder.places(naming.unmanaged(snapshot.id)):
                    self.binder.allocate(
                        self._bind(snapshot.volume),
                        name,
                        snapshot.id,
                        snapshot.volume_size,
                    )
        self._release(snapshot.provider_location, name, snapshot.id)

    def get_manageable_snapshots(
        self,
        cinder_snapshots: list[Any],
        marker: Any,
        limit: int,
        offset: int,
        sort_keys: list[str],
        sort_dirs: list[str],
    ) -> list[dict[str, Any]]:
        """List the vdisks that are snapshots or may be."""
        known = {
            naming.snapshot(snapshot): snapshot
            for snapshot in cinder_snapshots
        }
        held = self._vdisks()
        managed = self._managed(held)
        entries = []
        for disk, vdisk in held:
            snapshot = known.get(vdisk.name)
            if snapshot is None and vdisk.name in managed:
                continue
            entry = _entry(disk, vdisk, snapshot.id if snapshot else None)
            source = snapshot and _reference(
                disk, naming.volume(snapshot.volume)
            )
            entries.append({**entry, 'source_reference': source})
        return _page(entries, marker, limit, offset, sort_keys, sort_dirs)

    def _vdisks(self) -> list[tuple[discover.Disk, VDisk]]:
        return [
            (disk, vdisk) for disk in self.disks() for vdisk in disk.vdisks
        ]

    @staticmethod
    def _managed(held: list[tuple[discover.Disk, VDisk]]) -> set[str]:
        """Return the names of the vdisks that are Cinder's already."""
        return records.managed(
            cinder_context.get_admin_context(),
            {vdisk.name for _, vdisk in held},
        )

    def _checked(
        self, reference: dict[str, Any], ours: str
    ) -> tuple[discover.Disk, VDisk]:
        """Return the vdisk that a reference names, if it may be managed.

        :param ours: what it will be called, or is if a run was killed.
        """
        source = reference.get(_SOURCE)
        if set(reference) != {_SOURCE} or not isinstance(source, str):
            raise _refused(reference, f'it must be {_ALLOWED}')
        uuid, slash, name = source.rpartition('/')
        here = [
            (disk, vdisk)
            for disk, vdisk in self._vdisks()
            if not slash or uuid == disk.uuid
        ]
        found = [one for one in here if one[1].name == name] or [
            one for one in here if one[1].name == ours
        ]
        if len(found) != 1:
            what = 'are several such vdisks' if found else 'is no such vdisk'
            raise _refused(
                reference,
                f'there {what}; it must be {_ALLOWED}, and those '
                f'disks are {sorted({disk.uuid for disk in self.disks()})}',
            )
        ((disk, vdisk),) = found
        name = vdisk.name
        if name != ours and self._managed(found):
            raise cinder_exc.ManageExistingAlreadyManaged(volume_ref=source)
        format_ = format_inspector.get_format_if_safe(
            path=self.backend.device_path(disk.uuid, name),
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
        self, snapshot: Any, reference: dict[str, Any]
    ) -> tuple[discover.Disk, VDisk]:
        disk, vdisk = self._checked(reference, naming.snapshot(snapshot))
        volume = snapshot.volume
        if disk.uuid != volume.provider_location:
            raise _refused(
                reference,
                'a snapshot must be on the disk of its volume, and that of '
                f'volume {volume.id} is {volume.provider_location}',
            )
        if vdisk.size_gb > volume.size:
            raise _refused(
                reference,
                f'it has {vdisk.size_gb} GiB, which is more than the '
                f'{volume.size} GiB of volume {volume.id}',
            )
        return disk, vdisk

    def _adopt(
        self, disk: discover.Disk, vdisk: VDisk, name: str, id_: str
    ) -> dict[str, Any]:
        with errors.explained():
            self.binder.adopt(disk.uuid, vdisk.name, name, id_, vdisk.size_gb)
        return {'provider_location': disk.uuid}

    def _bind(self, volume: Any) -> str:
        """Return the disk of a volume, which is bound to one if it was not."""
        if not volume.provider_location:
            context = cinder_context.get_admin_context()
            connector = {'host': CONF.host}
            update = self.create_export(context, volume, connector)
            volume.provider_location = update['provider_location']
            volume.save()
        disk: str = volume.provider_location
        return disk

    def _release(self, disk: str | None, name: str, id_: str) -> None:
        with errors.explained():
            # it may be that nobody could be told where it is
            for place in [disk] if disk else self.binder.places(name):
                self.require(place)
                self.binder.release(place, name, naming.unmanaged(id_))


def _check_type(volume: Any) -> None:
    type_id = volume.volume_type_id
    context = cinder_context.get_admin_context()
    if type_id and volume_types.is_encrypted(context, type_id):
        raise cinder_exc.ManageExistingVolumeTypeMismatch(
            reason=f'volumes of type {type_id} are encrypted, and Cinder '
            'knows no key of what exists already'
        )


def _refused(reference: dict[str, Any], reason: str) -> Exception:
    error: Exception = cinder_exc.ManageExistingInvalidReference(
        existing_ref=reference, reason=reason
    )
    return error


def _reference(disk: discover.Disk, name: str) -> dict[str, str]:
    return {_SOURCE: f'{disk.uuid}/{name}'}


def _entry(
    disk: discover.Disk, vdisk: VDisk, cinder_id: str | None
) -> dict[str, Any]:
    return {
        'reference': _reference(disk, vdisk.name),
        'size': vdisk.size_gb,
        'safe_to_manage': cinder_id is None,
        'reason_not_safe': 'already managed' if cinder_id else None,
        'cinder_id': cinder_id,
        'extra_info': None,
    }


def _page(
    entries: list[dict[str, Any]],
    marker: Any,
    limit: int,
    offset: int,
    sort_keys: list[str],
    sort_dirs: list[str],
) -> list[dict[str, Any]]:
    page: list[dict[str, Any]] = volume_utils.paginate_entries_list(
        entries, marker, limit, offset, sort_keys, sort_dirs
    )
    return page
