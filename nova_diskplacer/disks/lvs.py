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

import collections.abc
import contextlib
import fcntl
import os

from nova_diskplacer import exception
from nova_diskplacer.disks import lvm
from nova_diskplacer.disks import raw

# Locks of groups, against other processes while one looks and then acts.
LOCKS = '/run/diskplacer'

# A temporary snapshot to clone from.
_CLONING = 'cloning-'


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
        that name of another volume.
    """
    _finish_deletion(uuid, name)
    with _changing(uuid) as group:
        if not _present(group, name, volume_id):
            tags = [f'{lvm.VOLUME}={volume_id}']
            if server_id:
                tags.append(f'{lvm.SERVER}={server_id}')
            _allocate(group, name, size_bytes, tags)
    _clean(uuid, name)


def extend(uuid: str, name: str, size_bytes: int) -> None:
    """Make a volume ``size_bytes`` long; what it gains reads as zeros.

    One that is as long or longer stays as it is.

    :raises DiskError: there is no such vdisk, or the disk lacks the space.
    """
    with _changing(uuid) as group:
        volume = _require(group, name)
        if volume.size_bytes < size_bytes:
            _check_room(group, size_bytes - volume.size_bytes)
            if _is_dirty(group) and not volume.tag(lvm.DIRTY_FROM):
                _tag(group, volume, f'{lvm.DIRTY_FROM}={volume.size_bytes}')
            _resize(group, volume, size_bytes)
    _clean(uuid, name)


def shrink(uuid: str, name: str, size_bytes: int) -> None:
    """Undo an extension that was never used.

    :raises DiskError: there is no such vdisk, it has thick snapshots, or the
        disk refuses.
    """
    with _changing(uuid) as group:
        volume = _require(group, name)
        if volume.size_bytes > size_bytes:
            _resize(group, volume, size_bytes)


def snapshot(uuid: str, name: str, snapshot: str, snapshot_id: str) -> None:
    """Freeze what a volume holds at this moment as another one.

    A thick one has room for every block of its origin to change.

    :raises DiskError: there is no such vdisk, the disk lacks the space, or
        it has a vdisk ``snapshot`` of somebody else.
    """
    with _changing(uuid) as group:
        if not _present(group, snapshot, snapshot_id):
            tags = [f'{lvm.VOLUME}={snapshot_id}']
            _snapshot(group, _require(group, name), snapshot, tags)


def allocate_clone(
    uuid: str, source: str, name: str, volume_id: str, size_bytes: int
) -> None:
    """Take the space of a clone; it counts, and is known to be incomplete.

    :raises DiskError: as :func:`clone`.
    """
    with _changing(uuid) as group:
        if _present(group, name, volume_id):
            return
        original = _require(group, source)
        if original.size_bytes > size_bytes:
            raise exception.DiskError(
                f'vdisk {source} of {original.size_bytes} bytes is larger '
                f'than its clone {name} of {size_bytes}'
            )
        tags = [f'{lvm.VOLUME}={volume_id}', lvm.INCOMPLETE]
        if original.thin:
            _check_room(group, size_bytes)
            _snapshot(group, original, name, tags)
        else:
            _allocate(group, name, size_bytes, tags)


def clone(
    uuid: str, source: str, name: str, volume_id: str, size_bytes: int
) -> None:
    """Make a volume with the content of another one of its disk.

    Thick ones are copied. If somebody writes to the source meanwhile it is
    copied from a snapshot, which takes as much room as the source.

    :raises DiskError: there is no such vdisk, or it is larger than
        ``size_bytes``; the disk lacks the space, or it has a vdisk ``name``
        of another volume.
    """
    allocate_clone(uuid, source, name, volume_id, size_bytes)
    with _changing(uuid) as group:
        volume = _require(group, name)
        if lvm.INCOMPLETE not in volume.tags:
            return
        original = _require(group, source)
        if volume.thin:
            _resize(group, volume, size_bytes)
            _untag(group, volume, lvm.INCOMPLETE)
            return
    _clean(uuid, name)
    paths = _activated(group, original), _activated(group, volume)
    before = raw.writes(paths[0])
    raw.copy(*paths, original.size_bytes)
    if before != raw.writes(paths[0]) or before[1] != '0':
        _copy_frozen(uuid, original, volume)
    raw.clear(paths[1], original.size_bytes, volume.size_bytes)
    _untag(group, volume, lvm.INCOMPLETE)


def revert(uuid: str, name: str, snapshot: str) -> None:
    """Give a volume that nobody uses the content of its snapshot.

    :raises DiskError: there is no such vdisk, or the disk refuses.
    """
    group = lvm.require(uuid)
    volume, frozen = _require(group, name), _require(group, snapshot)
    source, target = _activated(group, frozen), _activated(group, volume)
    size = min(frozen.size_bytes, volume.size_bytes)
    raw.copy(source, target, size, compare=True)
    raw.clear(target, size, volume.size_bytes)


def clear(uuid: str, name: str) -> None:
    """Have a volume that nobody uses read as zeros.

    :raises DiskError: there is no such vdisk, or the disk refuses.
    """
    group = lvm.require(uuid)
    volume = _require(group, name)
    raw.clear(_activated(group, volume), 0, volume.size_bytes)


def copy(uuid: str, name: str, target_uuid: str) -> None:
    """Copy a volume that nobody uses to the one of its name on another disk.

    :raises DiskError: either is not there, they do not match, or a disk
        refuses.
    """
    group, target_group = lvm.require(uuid), lvm.require(target_uuid)
    volume, target = _require(group, name), _require(target_group, name)
    if volume.vdisk.volume_id != target.vdisk.volume_id:
        raise exception.DiskError(
            f'vdisk {name} on disk {target_uuid} belongs to '
            f'{target.vdisk.volume_id!r}, not to {volume.vdisk.volume_id!r}'
        )
    if volume.size_bytes > target.size_bytes:
        raise exception.DiskError(
            f'vdisk {name} on disk {target_uuid} is smaller than on {uuid}'
        )
    paths = _activated(group, volume), _activated(target_group, target)
    raw.copy(*paths, volume.size_bytes)
    raw.clear(paths[1], volume.size_bytes, target.size_bytes)


def rename(uuid: str, name: str, new_name: str, volume_id: str) -> None:
    """Rename a volume and give it to somebody; it is no server's then.

    :param volume_id: '' for nobody.
    :raises DiskError: there is no such vdisk, or there is one of the new
        name.
    """
    with _changing(uuid) as group:
        volume, there = group.find(name), group.find(new_name)
        if volume is None or name == new_name:
            _present(group, new_name, volume_id)
            volume = _require(group, new_name)
        elif there is not None:
            raise exception.DiskError(
                f'disk {uuid} has a vdisk {new_name} already'
            )
        tag = f'{lvm.VOLUME}={volume_id}'
        old = {
            one
            for one in volume.tags
            if one.startswith((lvm.VOLUME + '=', lvm.SERVER + '='))
        }
        # the name last: it tells that all is done
        if old != ({tag} if volume_id else set()):
            changes = [f'--deltag={one}' for one in sorted(old - {tag})]
            if volume_id and tag not in old:
                changes.append(f'--addtag={tag}')
            lvm.run('lvchange', *changes, _path(group, volume))
        wanted = lvm.volume_name(new_name)
        if volume.name != wanted:
            lvm.run('lvrename', group.name, volume.name, wanted)


def condemn(uuid: str, name: str) -> tuple[str, int] | None:
    """Mark a vdisk as deleted, once and for all.

    :returns: the device to be wiped before ``remove`` and its size in
        bytes, or None if there is nothing to wipe: the pool of a thin
        volume never shows again what is removed from it.
    :raises DiskError: it is in use, or has snapshots.
    """
    for leftover in _clones_in_progress(uuid, name):
        _delete(uuid, leftover)
    with _changing(uuid) as group:
        volume = group.find(name)
        if volume is None:
            return None
        snapshots = _snapshots(group, volume)
        if snapshots:
            raise exception.DiskError(
                f'vdisk {name} on disk {uuid} has snapshots: '
                + ', '.join(snapshots)
            )
        path = _path(group, volume)
        if not volume.origin:
            # whoever uses it is found out, and keeps it
            lvm.run('lvchange', '--activate', 'n', path)
        if lvm.DELETED not in volume.tags:
            _tag(group, volume, lvm.DELETED)
        if volume.thin:
            return None
        if volume.origin:
            # what has changed in its origin is then a volume of its own
            lvm.run('lvconvert', '--yes', '--splitsnapshot', path)
            group = lvm.require(uuid)
            volume = _require(group, name)
        return _activated(group, volume), volume.size_bytes


def zero(uuid: str, name: str) -> None:
    """Have a volume that is marked as deleted read as zeros.

    :raises DiskError: it is in use, or the disk refuses.
    """
    group = lvm.require(uuid)
    volume = _require(group, name)
    if lvm.DELETED not in volume.tags:
        raise exception.DiskError(
            f'vdisk {name} of {group.name} is not deleted'
        )
    raw.zero(_activated(group, volume))


def remove(uuid: str, name: str, wiped: bool) -> None:
    """Remove the volume of a vdisk that is marked as deleted.

    :param wiped: whether all of it reads as zeros.
    :raises DiskError: it is in use.
    """
    with _changing(uuid) as group:
        volume = group.find(name)
        if volume is None or lvm.DELETED not in volume.tags:
            return
        if not wiped and not volume.thin and not _is_dirty(group):
            lvm.run('vgchange', '--deltag', lvm.ZEROED, group.name)
        lvm.run('lvremove', '--force', '--yes', _path(group, volume))


def _allocate(
    group: lvm.Group, name: str, size_bytes: int, tags: list[str]
) -> None:
    _check_room(group, size_bytes)
    if _is_dirty(group):
        tags = [*tags, f'{lvm.DIRTY_FROM}=0']
    where = (
        ('--virtualsize', f'{size_bytes}b', '--thinpool', lvm.POOL)
        if group.thin
        else ('--size', f'{size_bytes}b', '--wipesignatures', 'n')
    )
    lvm.run(
        'lvcreate', '--yes', '--name', lvm.volume_name(name), *where,
        *_addtags(tags), group.name,
    )  # fmt: skip


def _snapshot(
    group: lvm.Group, volume: lvm.Volume, name: str, tags: list[str]
) -> None:
    if volume.origin:
        raise exception.DiskError(
            f'{volume.name} is a snapshot: LVM makes none of it'
        )
    _check_room(group, volume.size_bytes)
    kind = (
        ('--setactivationskip', 'n')
        if volume.thin
        else ('--extents', '100%ORIGIN')
    )
    lvm.run(
        'lvcreate', '--yes', '--snapshot', '--name', lvm.volume_name(name),
        *kind, *_addtags(tags), _path(group, volume),
    )  # fmt: skip


def _copy_frozen(uuid: str, original: lvm.Volume, volume: lvm.Volume) -> None:
    """Copy a volume that is in use from a snapshot of it."""
    temporary = _CLONING + volume.vdisk.volume_id
    snapshot(uuid, original.vdisk.name, temporary, volume.vdisk.volume_id)
    group = lvm.require(uuid)
    frozen = _require(group, temporary)
    raw.copy(
        _activated(group, frozen),
        _activated(group, volume),
        original.size_bytes,
    )
    _delete(uuid, temporary)


def _resize(group: lvm.Group, volume: lvm.Volume, size_bytes: int) -> None:
    path = _path(group, volume)
    if size_bytes > volume.size_bytes:
        # LVM resizes what has thick snapshots while nobody uses it only
        frozen = bool(_snapshots(group, volume))
        if frozen:
            lvm.run('lvchange', '--activate', 'n', path)
        lvm.run('lvextend', '--size', f'{size_bytes}b', path)
        if frozen:
            lvm.run('lvchange', '--activate', 'y', path)
    elif size_bytes < volume.size_bytes:
        lvm.run('lvreduce', '--force', '--size', f'{size_bytes}b', path)


def _snapshots(group: lvm.Group, volume: lvm.Volume) -> list[str]:
    return [
        other.vdisk.name
        for other in group.volumes
        if other.origin == volume.name
    ]


def _clones_in_progress(uuid: str, name: str) -> list[str]:
    """Return the snapshots by which a volume was being cloned."""
    group = lvm.require(uuid)
    volume = group.find(name)
    found = _snapshots(group, volume) if volume else []
    return [one for one in found if one.startswith(_CLONING)]


def _finish_deletion(uuid: str, name: str) -> None:
    volume = lvm.require(uuid).find(name)
    if volume is not None and lvm.DELETED in volume.tags:
        _delete(uuid, name)


def _delete(uuid: str, name: str) -> None:
    if condemn(uuid, name):
        zero(uuid, name)
    remove(uuid, name, wiped=True)


def _clean(uuid: str, name: str) -> None:
    """Have a volume active, and what is dirty of it read as zeros."""
    group = lvm.require(uuid)
    volume = _require(group, name)
    path = _activated(group, volume)
    start = volume.tag(lvm.DIRTY_FROM)
    if start:
        raw.zero(path, int(start), volume.size_bytes)
        _untag(group, volume, f'{lvm.DIRTY_FROM}={start}')


def _present(group: lvm.Group, name: str, volume_id: str) -> bool:
    """Tell whether a vdisk is there; one marked as deleted is no more."""
    volume = group.find(name)
    if volume is None:
        return False
    owner = volume.vdisk.volume_id
    if owner != volume_id:
        raise exception.DiskError(
            f'vdisk {name} in {group.name} belongs to {owner!r}'
        )
    if lvm.DELETED in volume.tags:
        raise exception.DiskError(
            f'vdisk {name} in {group.name} is being deleted'
        )
    return True


def _require(group: lvm.Group, name: str) -> lvm.Volume:
    volume = group.find(name)
    if volume is None:
        raise exception.DiskError(f'{group.name} has no vdisk {name}')
    return volume


def _check_room(group: lvm.Group, size_bytes: int) -> None:
    if size_bytes > group.free_bytes:
        raise exception.DiskError(
            f'{group.name} has {group.free_bytes} bytes free, not the '
            f'{size_bytes} that are wanted'
        )


def _is_dirty(group: lvm.Group) -> bool:
    """Tell whether what is new in a group must be zeroed first."""
    return not group.thin and lvm.ZEROED not in group.tags


def _activated(group: lvm.Group, volume: lvm.Volume) -> str:
    """Return the path of a volume's device, which is there."""
    path = f'/dev/{group.name}/{volume.name}'
    if not os.path.exists(path):
        lvm.run(
            'lvchange', '--activate', 'y', '--ignoreactivationskip',
            _path(group, volume),
        )  # fmt: skip
    return path


@contextlib.contextmanager
def _changing(uuid: str) -> collections.abc.Iterator[lvm.Group]:
    """Hold a group against other changes, for moments."""
    name = lvm.group_name(uuid)
    os.makedirs(LOCKS, mode=0o700, exist_ok=True)
    descriptor = os.open(
        os.path.join(LOCKS, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield lvm.require(uuid)
    finally:
        os.close(descriptor)


def _addtags(tags: list[str]) -> list[str]:
    return [f'--addtag={tag}' for tag in tags]


def _tag(group: lvm.Group, volume: lvm.Volume, tag: str) -> None:
    lvm.run('lvchange', '--addtag', tag, _path(group, volume))


def _untag(group: lvm.Group, volume: lvm.Volume, tag: str) -> None:
    lvm.run('lvchange', '--deltag', tag, _path(group, volume))


def _path(group: lvm.Group, volume: lvm.Volume) -> str:
    return f'{group.name}/{volume.name}'
