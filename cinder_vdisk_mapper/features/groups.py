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

from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.types import ModelUpdate
from cinder_vdisk_mapper.cinder_api.types import Snapshot
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.cinder_api.types import attachments
from cinder_vdisk_mapper.vdisks import linking
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks import operations as vdisk_operations
from cinder_vdisk_mapper.vdisks.layouts import Operations
from cinder_vdisk_mapper.vdisks.operations import VDiskOperations
from nova_diskplacer import exception

LOG = logging.getLogger(__name__)

_DELETED = 'deleted'
_ERROR = 'error_deleting'

Updates = list[ModelUpdate]

_Item = TypeVar('_Item', Volume, Snapshot)


class _Copy(NamedTuple):
    """A snapshot to make of the vdisk ``name``, or of a piece of it."""

    disk: str
    name: str
    snapshot: str
    snapshot_id: str


def create_snapshots(
    operations: Operations, context: Any, snapshots: Sequence[Snapshot]
) -> Updates:
    """Make snapshots of one moment: all of them or none.

    :returns: the changes of each snapshot.
    :raises BindingError: one of the volumes is attached, or a disk lacks the
        space.
    :raises PlacementError: Placement does not answer or accept it.
    :raises DiskError: an operation on a disk fails.
    """
    with contextlib.ExitStack() as stack:
        volumes = _hold_volumes(stack, operations, context, snapshots)
        copies = [
            _Copy(
                disk,
                naming.volume(volumes[snapshot.id]),
                naming.snapshot(snapshot),
                snapshot.id,
            )
            for snapshot in snapshots
            for disk in naming.location(volumes[snapshot.id]).disks
        ]
        for copy in copies:
            operations.backend.check_disk(copy.disk, copy.name)
        disks = sorted({copy.disk for copy in copies})
        stack.enter_context(locks.hold_all(f'disk-{disk}' for disk in disks))
        # a volume attached meanwhile may have been written to
        _make(
            operations,
            copies,
            disks,
            lambda: _detached_volumes(context, snapshots),
        )
    return [
        {
            'id': snapshot.id,
            'status': 'available',
        }
        | naming.snapshot_at(naming.location(volumes[snapshot.id]))
        for snapshot in snapshots
    ]


def _hold_volumes(
    stack: contextlib.ExitStack,
    operations: Operations,
    context: Any,
    snapshots: Sequence[Snapshot],
) -> dict[str, Volume]:
    """Lock the volumes of snapshots, and keep their vdisks where they are.

    :param stack: releases the locks.
    :returns: the volumes, by the snapshots' ids.
    :raises BindingError: a volume is attached, or its legs are being moved.
    """
    # no volume is bound meanwhile
    names = [f'volume-{snapshot.volume_id}' for snapshot in snapshots]
    stack.enter_context(locks.hold_all(names))
    volumes = _detached_volumes(context, snapshots)
    for volume in volumes.values():
        linking.follow_link(operations.backend, volume)
    for volume in sorted(volumes.values(), key=naming.volume):
        stack.enter_context(operations.of(volume).hold_in_place())
    return volumes


def _make(
    operations: VDiskOperations,
    copies: Sequence[_Copy],
    disks: Sequence[str],
    check: Callable[[], object],
) -> None:
    """Make snapshots on locked disks: all of them or none.

    :param disks: UUIDs of the disks of the snapshots.
    :param check: called when all are made; if it raises an error, they are
        deleted.
    """
    present = {
        (disk, vdisk.name)
        for disk in disks
        for vdisk in operations.backend.disk(disk).vdisks
    }
    new = [
        copy for copy in copies if (copy.disk, copy.snapshot) not in present
    ]
    refusals = {disk: _check_space(operations, disk, new) for disk in disks}
    try:
        for copy in copies:
            operations.backend.snapshot(*copy)
        check()
        for disk in disks:
            if not operations.reserve(disk):
                raise refusals[disk]
    except BaseException:
        for copy in new:
            _undo(operations, copy)
        raise


def _detached_volumes(
    context: Any, snapshots: Sequence[Snapshot]
) -> dict[str, Volume]:
    """Return the volumes of snapshots, by the snapshots' ids.

    :raises BindingError: a volume is attached.
    """
    volumes: dict[str, Volume] = {
        snapshot.id: objects.Volume.get_by_id(context, snapshot.volume_id)
        for snapshot in snapshots
    }
    check_detached(volumes.values())
    return volumes


def _check_space(
    operations: VDiskOperations, disk: str, copies: Sequence[_Copy]
) -> errors.BindingError:
    """Check that a disk has the space for its new snapshots.

    :returns: the error to raise where it lacks the space after all.
    :raises BindingError: it lacks the space.
    """
    backend = operations.backend
    needed = sum(
        backend.usable_vdisk(disk, copy.name)[1].size_gb
        for copy in copies
        if copy.disk == disk
    )
    current = backend.disk(disk)
    if needed:
        vdisk_operations.check_not_draining(current, 'keep a group snapshot')
    free = operations.free_gb(current)
    refusal = errors.BindingError(
        f'disk {disk} has no room for the group snapshot, which takes '
        f'{needed} GiB there: {max(free, 0)} GiB of it are neither claimed '
        'nor taken',
        'a disk of the volumes has no room for their snapshots',
    )
    if free < needed:
        raise refusal
    return refusal


def _undo(operations: VDiskOperations, copy: _Copy) -> None:
    try:
        # the caller holds the lock that operations.delete takes
        operations.backend.delete(copy.disk, copy.snapshot)
        operations.try_reserve(copy.disk)
    except exception.DiskPlacerError as error:
        # the snapshot is in error now, and deleting it tries again
        LOG.error('Snapshot %s is left: %s', copy.snapshot_id, error)


def check_detached(volumes: Iterable[Volume]) -> None:
    """Check that nobody can write to any of the volumes.

    A volume that is about to be attached has an attachment already.

    :raises BindingError: a volume is attached.
    """
    attached = [volume.id for volume in volumes if attachments(volume)]
    if attached:
        raise errors.BindingError(
            f'the group is consistent and its volumes {attached} are attached',
            'snapshots and copies of a consistent group can be made only '
            'while none of its volumes is attached',
        )


def delete_all(
    items: Sequence[_Item], delete: Callable[[_Item], None]
) -> tuple[ModelUpdate, Updates]:
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
