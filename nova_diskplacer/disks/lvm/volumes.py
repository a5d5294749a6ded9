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

"""The vdisks of a volume group: logical volumes with their owners in tags.

A volume has its tags from the command that makes it. Every function may be
repeated after a crash, and raises DiskError if a vdisk that it needs is
missing, the disk lacks the space, or LVM or the disk fails.
"""

import collections.abc
import contextlib

from nova_diskplacer import exception
from nova_diskplacer.disks import identity
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.lvm import blockcopy
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import device_mapper
from nova_diskplacer.disks.lvm import group_changes
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import stripes

# The volume on which a disk is measured.
TEMPORARY = 'measuring'

# Prefix of the temporary snapshots from which volumes are cloned.
CLONING = 'cloning-'


def create(
    uuid: str,
    name: str,
    volume_id: str,
    server_id: str | None,
    size_bytes: int,
) -> None:
    """Create a vdisk that reads as zeros on the disk ``uuid``.

    Does nothing if the volume's vdisk exists.

    :param server_id: the server that the vdisk is bound for, if any.
    :raises DiskError: the name belongs to another volume, or the size is not
        positive.
    """
    create_piece(uuid, name, volume_id, server_id, size_bytes, Location(), 0)


def create_piece(
    uuid: str,
    name: str,
    volume_id: str,
    server_id: str | None,
    size_bytes: int,
    location: Location,
    minimum: int,
) -> None:
    """Create the piece, or a leg, of a striped vdisk on the disk ``uuid``.

    :param location: of the vdisk, empty for one that is not striped.
    :param minimum: least number of disks of an elastic vdisk, 0 for others.
    :raises DiskError: as :func:`create`, or the disk is not in the stripe.
    """
    for disk in location:
        identity.check_uuid(disk)
    if location and uuid not in location:
        raise exception.DiskError(f'disk {uuid} is not in stripe {location}')
    vdisks.check_size(name, size_bytes)
    volume = groups.require(uuid).find(name)
    if volume is not None and naming.DELETED in volume.tags:
        delete(uuid, name)
    with group_changes.changing(uuid) as group:
        if not group.has_vdisk(name, volume_id):
            tags = [f'{naming.VOLUME}={volume_id}']
            if server_id:
                tags.append(f'{naming.SERVER}={server_id}')
            if location:
                tags += naming.stripe_tags(location, minimum)
            group_changes.allocate(group, name, size_bytes, tags)
    group_changes.zero_dirty(uuid, name)


def activate(uuid: str, name: str) -> str:
    """Activate a vdisk, as :func:`group_changes.activate`."""
    return group_changes.activate(groups.require(uuid).require(name))


def legs(uuid: str, name: str) -> list[str]:
    """Return the names of the legs of a vdisk, as ``Group.legs_of``."""
    return [leg.vdisk.name for leg in groups.require(uuid).legs_of(name)]


def extend(uuid: str, name: str, size_bytes: int) -> None:
    """Extend a vdisk to ``size_bytes``; the added part reads as zeros.

    A longer vdisk keeps its size. An interrupted extension is completed.

    :raises DiskError: it is an incomplete clone, or the size is not positive.
    """
    vdisks.check_size(name, size_bytes)
    with group_changes.changing(uuid) as group:
        volume = group.require(name)
        group.has_vdisk(name, volume.vdisk.volume_id)
        if volume.size_bytes < size_bytes:
            group.check_free(size_bytes - volume.size_bytes)
            if group.needs_zeroing and volume.dirty_from is None:
                dirty = f'{naming.DIRTY_FROM}={volume.size_bytes}'
                group_changes.change_tags([volume], [dirty])
            group_changes.resize(group, volume, size_bytes)
    group_changes.zero_dirty(uuid, name)


def shrink(uuid: str, name: str, size_bytes: int) -> None:
    """Undo an extension.

    The part that is cut off is zeroed if the free space of the group is.

    :raises DiskError: it is in use or shorter, or has thick snapshots.
    """
    vdisks.check_size(name, size_bytes)
    group = groups.require(uuid)
    volume = group.require(name)
    if size_bytes > volume.size_bytes:
        raise exception.DiskError(
            f'vdisk {name} of {volume.size_bytes} bytes cannot be shrunk '
            f'to {size_bytes}'
        )
    group_changes.check_unused(volume)
    if not volume.thin and not group.needs_zeroing:
        path = group_changes.activate(volume)
        blockcopy.clear(path, size_bytes, volume.size_bytes)
    with group_changes.changing(uuid) as group:
        volume = group.require(name)
        if volume.size_bytes > size_bytes:
            group_changes.resize(group, volume, size_bytes)
        if volume.dirty_from is not None and volume.dirty_from >= size_bytes:
            group_changes.change_tags([volume], remove=volume.dirty_tags)


def rename(uuid: str, name: str, new_name: str, volume_id: str) -> None:
    """Rename a vdisk and change its owner; it is bound for no server then.

    :param volume_id: id of the volume or snapshot that owns it, '' for none.
    :raises DiskError: the new name is taken.
    """
    with group_changes.changing(uuid) as group:
        volume, other = group.find(name), group.find(new_name)
        if volume is None or name == new_name:
            group.has_vdisk(new_name, volume_id, complete=False)
            volume = group.require(new_name)
        elif other is not None:
            raise exception.DiskError(
                f'disk {uuid} has a vdisk {new_name} already'
            )
        owners = (naming.VOLUME + '=', naming.SERVER + '=')
        old = {tag for tag in volume.tags if tag.startswith(owners)}
        new = {f'{naming.VOLUME}={volume_id}'} if volume_id else set()
        # the name changes last: it proves that all else is done
        if old != new:
            group_changes.change_tags([volume], new - old, old - new)
        full_name = naming.volume_name(new_name)
        if volume.name != full_name:
            commands.run('lvrename', group.name, volume.name, full_name)


def in_use(uuid: str, name: str) -> bool:
    """Tell whether a process other than udev has a vdisk open."""
    volume = groups.require(uuid).require(name)
    with contextlib.suppress(exception.DiskError):
        group_changes.check_unused(volume)
        return False
    return device_mapper.is_open(f'/dev/{volume.path}')


def writes(uuid: str, name: str) -> str:
    """Return a text that changes if a vdisk is written to."""
    return '/'.join(blockcopy.write_counters(activate(uuid, name)))


def mark_deleted(uuid: str, name: str) -> tuple[str, int] | None:
    """Mark a vdisk as deleted, for good.

    :returns: the device to wipe before :func:`remove` and its size in bytes,
        or None if wiping is not needed: a pool never shows the data of removed
        thin volumes again.
    :raises DiskError: the vdisk is in use, or has snapshots.
    """
    piece = groups.require(uuid).find(name)
    if piece is not None and piece.stripe_tags:
        stripes.remove_devices(
            naming.whole_name(name), moving_legs_only=piece.vdisk.moving
        )
    if (
        piece is not None
        and piece.vdisk.moving
        and naming.DELETED in piece.tags
    ):
        group_changes.check_unused(piece)
        return group_changes.activate(piece), piece.size_bytes
    for snapshot in groups.require(uuid).snapshots_of(name):
        if snapshot.startswith(CLONING):
            delete(uuid, snapshot)
    with group_changes.changing(uuid) as group:
        volume = group.find(name)
        if volume is None:
            return None
        snapshots = group.snapshots_of(name)
        if snapshots:
            raise exception.DiskError(
                f'vdisk {name} on disk {uuid} has snapshots: '
                + ', '.join(snapshots)
            )
        path = volume.path
        if not volume.origin:
            # fails while the volume is in use
            commands.run_retry_udev('lvchange', '--activate', 'n', path)
        if naming.DELETED not in volume.tags:
            group_changes.change_tags([volume], [naming.DELETED])
        if volume.thin:
            return None
        if volume.origin:
            # makes the snapshot's own blocks a volume that can be wiped
            commands.run('lvconvert', '--yes', '--splitsnapshot', path)
            volume = groups.require(uuid).require(name)
        return group_changes.activate(volume), volume.size_bytes


def zero(uuid: str, name: str) -> None:
    """Zero a vdisk that is marked as deleted.

    :raises DiskError: the vdisk is in use or not deleted.
    """
    volume = groups.require(uuid).require(name)
    if naming.DELETED not in volume.tags:
        raise exception.DiskError(
            f'vdisk {name} of {volume.group} is not deleted'
        )
    blockcopy.zero(group_changes.activate(volume))


def remove(uuid: str, name: str, wiped: bool) -> None:
    """Remove a vdisk that is marked as deleted.

    :param wiped: all of the vdisk reads as zeros.
    :raises DiskError: the vdisk is in use.
    """
    remove_all(uuid, [name], wiped)


def remove_all(
    uuid: str, names: collections.abc.Iterable[str], wiped: bool
) -> None:
    """Remove those of some vdisks that are marked as deleted, as one."""
    with group_changes.changing(uuid) as group:
        deleted = [
            volume
            for volume in map(group.find, names)
            if volume and naming.DELETED in volume.tags
        ]
        if not deleted:
            return
        if not wiped and not all(volume.thin for volume in deleted):
            group_changes.unmark_zeroed(uuid)
        # the zeros must be durable before the next volume gets the space
        group_changes.flush(group)
        paths = [volume.path for volume in deleted]
        commands.run_retry_udev('lvremove', '--force', '--yes', *paths)


def delete(uuid: str, name: str) -> None:
    """Zero and remove a vdisk.

    :raises DiskError: the vdisk is in use or has snapshots.
    """
    if mark_deleted(uuid, name):
        zero(uuid, name)
    remove(uuid, name, wiped=True)


def create_temporary(uuid: str, size_bytes: int) -> str:
    """Create the temporary volume and return the path of its device."""
    with group_changes.changing(uuid) as group:
        group_changes.allocate(group, TEMPORARY, size_bytes, [naming.DELETED])
    return activate(uuid, TEMPORARY)


def remove_temporary(uuid: str) -> None:
    """Remove the temporary volume and its data, if it exists.

    :raises DiskError: the volume is in use.
    """
    to_wipe = mark_deleted(uuid, TEMPORARY)
    if to_wipe and not groups.require(uuid).needs_zeroing:
        zero(uuid, TEMPORARY)
    remove(uuid, TEMPORARY, wiped=True)
