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

"""Makes group snapshots of one moment.

Only Cinder stores groups. Where a group's type has
``consistent_group_snapshot_enabled``, all snapshots of a group snapshot are of
one moment, because no volume of the group is attached meanwhile. Cinder makes
the snapshots of other groups one by one.
"""

import contextlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple
from typing import TypeVar

from cinder import exception as cinder_exc
from cinder import objects
from oslo_log import log as logging

from cinder_vdisk_mapper import cinder_types
from cinder_vdisk_mapper import naming
from cinder_vdisk_mapper import vdisk_lookup
from cinder_vdisk_mapper import vdisk_operations
from cinder_vdisk_mapper import vdisk_reservation
from nova_diskplacer import exception

LOG = logging.getLogger(__name__)

_AVAILABLE = 'available'
_DETACHED = 'detached'
_DELETED = 'deleted'
_ERROR = 'error_deleting'

Updates = list[cinder_types.ModelUpdate]

_Item = TypeVar('_Item', cinder_types.Volume, cinder_types.Snapshot)


class Copy(NamedTuple):
    """A snapshot to make of the vdisk ``name``."""

    disk: str
    name: str
    snapshot: str
    snapshot_id: str


def create_snapshots(
    operations: vdisk_operations.VDiskOperations,
    context: Any,
    snapshots: Sequence[cinder_types.Snapshot],
) -> Updates:
    """Make snapshots of one moment: all of them or none.

    :returns: the changes of each snapshot.
    :raises BindingError: one of the volumes is attached, or a disk lacks the
        space.
    :raises PlacementError: Placement does not answer or accept it.
    :raises DiskError: an operation on a disk fails.
    """

    def detached() -> dict[str, cinder_types.Volume]:
        volumes: dict[str, cinder_types.Volume] = {
            snapshot.id: objects.Volume.get_by_id(context, snapshot.volume_id)
            for snapshot in snapshots
        }
        check_detached(volumes.values())
        return volumes

    with contextlib.ExitStack() as locks:
        # no volume is bound meanwhile
        for volume_id in sorted(snapshot.volume_id for snapshot in snapshots):
            locks.enter_context(vdisk_reservation.lock(f'volume-{volume_id}'))
        volumes = detached()
        copies = [
            Copy(
                disk,
                naming.volume(volumes[snapshot.id]),
                naming.snapshot(snapshot),
                snapshot.id,
            )
            for snapshot in snapshots
            if (disk := volumes[snapshot.id].provider_location)
        ]
        for copy in copies:
            vdisk_lookup.check_disk(operations.backend, copy.disk, copy.name)
        create_copies(operations, copies, detached)
    disks = {copy.snapshot_id: copy.disk for copy in copies}
    return [
        {
            'id': snapshot.id,
            'status': _AVAILABLE,
            'provider_location': disks.get(snapshot.id),
        }
        for snapshot in snapshots
    ]


def create_copies(
    operations: vdisk_operations.VDiskOperations,
    copies: Sequence[Copy],
    check: Callable[[], object],
) -> None:
    """Make all snapshots, or none.

    :param check: called after they are made; raises an error where they may
        not be of one moment.
    :raises BindingError: a disk lacks unclaimed space.
    :raises PlacementError: Placement does not answer or accept it.
    :raises DiskError: an operation on a disk fails.
    """
    backend, reservation = operations.backend, operations.reservation
    disks = sorted({copy.disk for copy in copies})
    with contextlib.ExitStack() as locks:
        for disk in disks:
            locks.enter_context(vdisk_reservation.lock(f'disk-{disk}'))
        refusals = {
            disk: _check_space(operations, disk, copies) for disk in disks
        }
        present = {
            (disk, vdisk.name)
            for disk in disks
            for vdisk in backend.disk(disk).vdisks
        }
        try:
            for copy in copies:
                backend.snapshot(*copy)
            check()
            for disk in disks:
                if not reservation.reserve(disk):
                    raise refusals[disk]
        except BaseException:
            for copy in copies:
                if (copy.disk, copy.snapshot) not in present:
                    _undo(operations, copy)
            raise


def _check_space(
    operations: vdisk_operations.VDiskOperations,
    disk: str,
    copies: Sequence[Copy],
) -> vdisk_reservation.BindingError:
    """Check that a disk has the space for its snapshots.

    :returns: the error to raise where it lacks the space after all.
    :raises BindingError: it lacks the space.
    """
    backend = operations.backend
    present = {vdisk.name for vdisk in backend.disk(disk).vdisks}
    needed = 0
    for copy in copies:
        if copy.disk == disk and copy.snapshot not in present:
            _, vdisk = vdisk_lookup.usable_vdisk(backend, disk, copy.name)
            needed += vdisk.size_gb
    free = operations.reservation.free_gb(backend.disk(disk))
    refusal = vdisk_reservation.BindingError(
        f'disk {disk} has no room for the group snapshot, which takes '
        f'{needed} GiB there: {max(free, 0)} GiB of it are neither claimed '
        'nor taken',
        'a disk of the volumes has no room for their snapshots',
    )
    if free < needed:
        raise refusal
    return refusal


def _undo(operations: vdisk_operations.VDiskOperations, copy: Copy) -> None:
    try:
        # the caller holds the lock that operations.delete takes
        operations.backend.delete(copy.disk, copy.snapshot)
        operations.reservation.try_reserve(copy.disk)
    except exception.DiskPlacerError as error:
        # the snapshot is in error now, and deleting it tries again
        LOG.error('Snapshot %s is left: %s', copy.snapshot_id, error)


def check_detached(volumes: Iterable[cinder_types.Volume]) -> None:
    """Check that nobody can write to any of the volumes.

    A volume that is about to be attached has an attachment already.

    :raises BindingError: a volume is attached.
    """
    attached = [
        volume.id
        for volume in volumes
        if any(
            attachment.attach_status != _DETACHED
            for attachment in volume.volume_attachment
        )
    ]
    if attached:
        raise vdisk_reservation.BindingError(
            f'the group is consistent and its volumes {attached} are attached',
            'snapshots and copies of a consistent group can be made only '
            'while none of its volumes is attached',
        )


def delete_all(
    items: Sequence[_Item], delete: Callable[[_Item], None]
) -> tuple[cinder_types.ModelUpdate, Updates]:
    """Delete as many volumes or snapshots as possible.

    :returns: the changes of the group and of each item.
    """
    updates = []
    for item in items:
        status = _DELETED
        try:
            delete(item)
        except cinder_exc.VolumeDriverException as error:
            LOG.error('%s cannot be deleted: %s', item.id, error)
            status = _ERROR
        updates.append({'id': item.id, 'status': status})
    failed = any(update['status'] == _ERROR for update in updates)
    return {'status': _ERROR if failed else _DELETED}, updates
