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

"""Generic groups, and group snapshots of one moment.

A group is but its volumes. Where its type has
``consistent_group_snapshot_enabled``, all snapshots of a group snapshot are of
one moment: nothing is attached while they are made. Others are made by Cinder,
one by one. Every method is implemented, since Cinder calls those of the legacy
consistency groups where one is not and the type is that of such groups.
"""

import contextlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from cinder import exception as cinder_exc
from cinder import objects
from cinder.volume import volume_utils
from oslo_log import log as logging

from cinder_vdisk_mapper import binding
from cinder_vdisk_mapper import core
from cinder_vdisk_mapper import errors
from cinder_vdisk_mapper import naming
from cinder_vdisk_mapper import vdisk_reservation
from nova_diskplacer import exception

LOG = logging.getLogger(__name__)

_DETACHED = 'detached'
_DELETED = 'deleted'
_ERROR = 'error_deleting'

Updates = list[dict[str, Any]]


class Copy(NamedTuple):
    """A snapshot to make of the vdisk ``name``."""

    disk: str
    name: str
    snapshot: str
    snapshot_id: str


class Groups(core.Core):
    """Groups of volumes and their snapshots."""

    def create_group(self, context: Any, group: Any) -> dict[str, Any]:
        """Do nothing: there are no volumes yet."""
        return {'status': 'available'}

    def update_group(
        self,
        context: Any,
        group: Any,
        add_volumes: list[Any] | None = None,
        remove_volumes: list[Any] | None = None,
    ) -> tuple[None, None, None]:
        """Do nothing: Cinder knows what is in a group."""
        return None, None, None

    def delete_group(
        self, context: Any, group: Any, volumes: Sequence[Any]
    ) -> tuple[dict[str, Any], Updates]:
        """Delete the volumes of a group."""
        return _delete_all(volumes, self.delete_volume)

    def create_group_from_src(
        self,
        context: Any,
        group: Any,
        volumes: Sequence[Any],
        group_snapshot: Any = None,
        snapshots: Sequence[Any] | None = None,
        source_group: Any = None,
        source_vols: Sequence[Any] | None = None,
    ) -> tuple[None, Updates]:
        """Copy snapshot by snapshot, or volume by volume.

        :raises VolumeDriverException: a copy has no room on the disk of its
            source, or that is not there, or the group's type is consistent
            and one of the volumes is attached.
        """
        copy, sources = self.create_cloned_volume, source_vols or ()
        if snapshots:
            copy, sources = self.create_volume_from_snapshot, snapshots
        elif volume_utils.is_group_a_cg_snapshot_type(group):
            with errors.explained():
                _check_detached(sources)
        return None, [
            {'id': volume.id, **(copy(volume, source) or {})}
            for volume, source in zip(volumes, sources, strict=True)
        ]

    def create_group_snapshot(
        self, context: Any, group_snapshot: Any, snapshots: Sequence[Any]
    ) -> tuple[dict[str, Any], Updates]:
        """Make snapshots of one moment: all of them or none.

        Groups that need not be consistent are left to Cinder.

        :raises VolumeDriverException: one of the volumes is attached, or a
            disk refuses or lacks the room.
        """
        if not volume_utils.is_group_a_cg_snapshot_type(group_snapshot):
            raise NotImplementedError

        def detached() -> dict[str, Any]:
            volumes = {
                one.id: objects.Volume.get_by_id(context, one.volume_id)
                for one in snapshots
            }
            _check_detached(volumes.values())
            return volumes

        with errors.explained(), contextlib.ExitStack() as locks:
            # none of them is bound meanwhile
            for volume_id in sorted(one.volume_id for one in snapshots):
                locks.enter_context(
                    vdisk_reservation.lock(f'volume-{volume_id}')
                )
            volumes = detached()
            copies = [
                Copy(
                    volume.provider_location,
                    naming.volume(volume),
                    naming.snapshot(one),
                    one.id,
                )
                for one in snapshots
                if (volume := volumes[one.id]).provider_location
            ]
            for copy in copies:
                self.require(copy.disk, copy.name)
            snapshot_together(self.binder, copies, detached)
        places = {copy.snapshot_id: copy.disk for copy in copies}
        return {'status': 'available'}, [
            {
                'id': one.id,
                'status': 'available',
                'provider_location': places.get(one.id),
            }
            for one in snapshots
        ]

    def delete_group_snapshot(
        self, context: Any, group_snapshot: Any, snapshots: Sequence[Any]
    ) -> tuple[dict[str, Any], Updates]:
        """Delete the snapshots of a group snapshot."""
        return _delete_all(snapshots, self.delete_snapshot)


def snapshot_together(
    binder: binding.Binder,
    copies: Sequence[Copy],
    check: Callable[[], object],
) -> None:
    """Make all snapshots, or none.

    :param check: called when they are made; raises where they may not be of
        one moment.
    :raises BindingError: a disk has no room that nobody claims.
    :raises PlacementError: Placement cannot be asked or told.
    :raises DiskError: a disk refuses.
    """
    disks = sorted({copy.disk for copy in copies})
    with contextlib.ExitStack() as locks:
        for disk in disks:
            locks.enter_context(vdisk_reservation.lock(f'disk-{disk}'))
        refusals = {disk: _check_room(binder, disk, copies) for disk in disks}
        present = {
            (disk, vdisk.name)
            for disk in disks
            for vdisk in binder.backend.disk(disk).vdisks
        }
        try:
            for copy in copies:
                binder.backend.snapshot(*copy)
            check()
            for disk in disks:
                if not binder.reserve(disk):
                    raise refusals[disk]
        except BaseException:
            for copy in copies:
                if (copy.disk, copy.snapshot) not in present:
                    _undo(binder, copy)
            raise


def _check_room(
    binder: binding.Binder, disk: str, copies: Sequence[Copy]
) -> vdisk_reservation.BindingError:
    """See that a disk has the room for its snapshots.

    :returns: what to raise where it turns out to lack it.
    :raises BindingError: it lacks the room.
    """
    held = {vdisk.name for vdisk in binder.backend.disk(disk).vdisks}
    wanted = 0
    for copy in copies:
        if copy.disk == disk and copy.snapshot not in held:
            wanted += binder.look(disk, copy.name)[1].size_gb
    free = binder.room_gb(binder.backend.disk(disk))
    refusal = vdisk_reservation.BindingError(
        f'disk {disk} has no room for the group snapshot, which takes '
        f'{wanted} GiB there: {max(free, 0)} GiB of it are neither claimed '
        'nor taken',
        'a disk of the volumes has no room for their snapshots',
    )
    if free < wanted:
        raise refusal
    return refusal


def _undo(binder: binding.Binder, copy: Copy) -> None:
    try:
        # the disk's lock, which binder.delete takes, is held
        binder.backend.delete(copy.disk, copy.snapshot)
        binder.sync(copy.disk)
    except exception.DiskPlacerError as error:
        # deleting the snapshot, which is in error now, tries again
        LOG.error('Snapshot %s is left: %s', copy.snapshot_id, error)


def _check_detached(volumes: Iterable[Any]) -> None:
    """See that nobody can write to any of the volumes.

    Whoever is about to attach a volume has made an attachment before.
    """
    attached = [
        volume.id
        for volume in volumes
        if any(
            one.attach_status != _DETACHED for one in volume.volume_attachment
        )
    ]
    if attached:
        raise vdisk_reservation.BindingError(
            f'the group is consistent and its volumes {attached} are attached',
            'snapshots and copies of a consistent group can be made only '
            'while none of its volumes is attached',
        )


def _delete_all(
    found: Sequence[Any], delete: Callable[[Any], None]
) -> tuple[dict[str, Any], Updates]:
    """Delete as many as can be."""
    updates = []
    for one in found:
        status = _DELETED
        try:
            delete(one)
        except cinder_exc.VolumeDriverException as error:
            LOG.error('%s cannot be deleted: %s', one.id, error)
            status = _ERROR
        updates.append({'id': one.id, 'status': status})
    failed = any(update['status'] == _ERROR for update in updates)
    return {'status': _ERROR if failed else _DELETED}, updates
