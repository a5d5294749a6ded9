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

"""The vdisks of a volume group: logical volumes that know their owner.

Whose a volume is, and whether it is all there, are tags that it has from the
command on that makes it. Every function may be repeated after a crash.
"""

from nova_diskplacer import exception
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.lvm import blockcopy
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import steps

# A temporary volume to measure the disk in.
SCRATCH = 'measuring'


def create(
    uuid: str,
    name: str,
    volume_id: str,
    server_id: str | None,
    size_bytes: int,
) -> None:
    """Make a volume that reads as zeros, for a vdisk of the disk ``uuid``.

    Nothing is done if the disk has one of that name and owner already.

    :param server_id: the server that it is bound for, None if none.
    :raises DiskError: the disk lacks the space, refuses, or has a vdisk of
        that name of another volume; the size is not positive.
    """
    vdisks.check_size(name, size_bytes)
    _finish_deletion(uuid, name)
    with steps.changing(uuid) as group:
        if not steps.present(group, name, volume_id):
            tags = [f'{groups.VOLUME}={volume_id}']
            if server_id:
                tags.append(f'{groups.SERVER}={server_id}')
            steps.allocate(group, name, size_bytes, tags)
    steps.clean(uuid, name)


def extend(uuid: str, name: str, size_bytes: int) -> None:
    """Make a volume ``size_bytes`` long; what it gains reads as zeros.

    One that is as long or longer keeps its size. What an extension that was
    interrupted has left to be zeroed is zeroed.

    :raises DiskError: there is no such vdisk, it is a clone that is not
        complete, or the disk lacks the space; the size is not positive.
    """
    vdisks.check_size(name, size_bytes)
    with steps.changing(uuid) as group:
        volume = steps.require(group, name)
        steps.present(group, name, volume.vdisk.volume_id)
        if volume.size_bytes < size_bytes:
            steps.check_room(group, size_bytes - volume.size_bytes)
            if steps.is_dirty(group) and volume.dirty_from is None:
                steps.tag(
                    group, volume, f'{groups.DIRTY_FROM}={volume.size_bytes}'
                )
            steps.resize(group, volume, size_bytes)
    steps.clean(uuid, name)


def shrink(uuid: str, name: str, size_bytes: int) -> None:
    """Undo an extension.

    What is cut off reads as zeros where what is free in the group does.

    :raises DiskError: there is no such vdisk, it is in use or shorter, it has
        thick snapshots, or the disk refuses.
    """
    vdisks.check_size(name, size_bytes)
    group = groups.require(uuid)
    volume = steps.require(group, name)
    if size_bytes > volume.size_bytes:
        raise exception.DiskError(
            f'vdisk {name} of {volume.size_bytes} bytes cannot be shrunk '
            f'to {size_bytes}'
        )
    steps.check_unused(group, volume)
    if not volume.thin and not steps.is_dirty(group):
        path = steps.activated(group, volume)
        blockcopy.clear(path, size_bytes, volume.size_bytes)
    with steps.changing(uuid) as group:
        volume = steps.require(group, name)
        if volume.size_bytes > size_bytes:
            steps.resize(group, volume, size_bytes)
        if volume.dirty_from is not None and volume.dirty_from >= size_bytes:
            steps.untag(group, volume, *volume.dirty_tags)


def rename(uuid: str, name: str, new_name: str, volume_id: str) -> None:
    """Rename a volume and give it to somebody; it is no server's then.

    :param volume_id: '' for nobody.
    :raises DiskError: there is no such vdisk, or there is one of the new
        name.
    """
    with steps.changing(uuid) as group:
        volume, there = group.find(name), group.find(new_name)
        if volume is None or name == new_name:
            steps.present(group, new_name, volume_id, complete=False)
            volume = steps.require(group, new_name)
        elif there is not None:
            raise exception.DiskError(
                f'disk {uuid} has a vdisk {new_name} already'
            )
        tag = f'{groups.VOLUME}={volume_id}'
        old = {
            one
            for one in volume.tags
            if one.startswith((groups.VOLUME + '=', groups.SERVER + '='))
        }
        # the name last: it tells that all is done
        if old != ({tag} if volume_id else set()):
            changes = [f'--deltag={one}' for one in sorted(old - {tag})]
            if volume_id and tag not in old:
                changes.append(f'--addtag={tag}')
            groups.run('lvchange', *changes, steps.full_name(group, volume))
        wanted = groups.volume_name(new_name)
        if volume.name != wanted:
            groups.run('lvrename', group.name, volume.name, wanted)


def mark_deleted(uuid: str, name: str) -> tuple[str, int] | None:
    """Mark a vdisk as deleted, once and for all.

    :returns: the device to be wiped before ``remove`` and its size in
        bytes, or None if there is nothing to wipe: the pool of a thin
        volume never shows again what is removed from it.
    :raises DiskError: it is in use, or has snapshots.
    """
    for leftover in _clones_in_progress(uuid, name):
        delete(uuid, leftover)
    with steps.changing(uuid) as group:
        volume = group.find(name)
        if volume is None:
            return None
        snapshots = steps.snapshots(group, volume)
        if snapshots:
            raise exception.DiskError(
                f'vdisk {name} on disk {uuid} has snapshots: '
                + ', '.join(snapshots)
            )
        path = steps.full_name(group, volume)
        if not volume.origin:
            # whoever uses it is found out, and keeps it
            groups.let_go('lvchange', '--activate', 'n', path)
        if groups.DELETED not in volume.tags:
            steps.tag(group, volume, groups.DELETED)
        if volume.thin:
            return None
        if volume.origin:
            # what has changed in its origin is then a volume of its own
            groups.run('lvconvert', '--yes', '--splitsnapshot', path)
            group = groups.require(uuid)
            volume = steps.require(group, name)
        return steps.activated(group, volume), volume.size_bytes


def zero(uuid: str, name: str) -> None:
    """Have a volume that is marked as deleted read as zeros.

    :raises DiskError: it is in use, or the disk refuses.
    """
    group = groups.require(uuid)
    volume = steps.require(group, name)
    if groups.DELETED not in volume.tags:
        raise exception.DiskError(
            f'vdisk {name} of {group.name} is not deleted'
        )
    blockcopy.zero(steps.activated(group, volume))


def remove(uuid: str, name: str, wiped: bool) -> None:
    """Remove the volume of a vdisk that is marked as deleted.

    :param wiped: whether all of it reads as zeros.
    :raises DiskError: it is in use.
    """
    with steps.changing(uuid) as group:
        volume = group.find(name)
        if volume is None or groups.DELETED not in volume.tags:
            return
        if not wiped and not volume.thin:
            steps.unmark(uuid)
        # zeros first: the next volume shows what they have not overwritten
        steps.flush(group)
        groups.let_go(
            'lvremove', '--force', '--yes', steps.full_name(group, volume)
        )


def delete(uuid: str, name: str) -> None:
    """Remove a vdisk and all that it held, at once.

    :raises DiskError: it is in use, has snapshots, or the disk refuses.
    """
    if mark_deleted(uuid, name):
        zero(uuid, name)
    remove(uuid, name, wiped=True)


def make_scratch(uuid: str, size_bytes: int) -> str:
    """Make a volume that holds nothing, and return its device's path.

    :raises DiskError: the disk lacks the space, or refuses.
    """
    with steps.changing(uuid) as group:
        steps.allocate(group, SCRATCH, size_bytes, [groups.DELETED])
    group = groups.require(uuid)
    return steps.activated(group, steps.require(group, SCRATCH))


def remove_scratch(uuid: str) -> None:
    """Remove that volume, if it is there, and what was written to it.

    :raises DiskError: it is in use, or the disk refuses.
    """
    if mark_deleted(uuid, SCRATCH) and not steps.is_dirty(
        groups.require(uuid)
    ):
        zero(uuid, SCRATCH)
    remove(uuid, SCRATCH, wiped=True)


def _finish_deletion(uuid: str, name: str) -> None:
    volume = groups.require(uuid).find(name)
    if volume is not None and groups.DELETED in volume.tags:
        delete(uuid, name)


def _clones_in_progress(uuid: str, name: str) -> list[str]:
    """Return the snapshots by which a volume was being cloned."""
    group = groups.require(uuid)
    volume = group.find(name)
    found = steps.snapshots(group, volume) if volume else []
    return [one for one in found if one.startswith(steps.CLONING)]
