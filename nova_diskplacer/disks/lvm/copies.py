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

"""Logical volumes with the content of others: snapshots, clones, copies.

Every function may be repeated after a crash.
"""

from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import blockcopy
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import steps
from nova_diskplacer.disks.lvm import volumes


def snapshot(uuid: str, name: str, snapshot: str, snapshot_id: str) -> None:
    """Freeze what a volume holds at this moment as another one.

    A thick one has room for every block of its origin to change.

    :raises DiskError: there is no such vdisk, the disk lacks the space, or
        it has a vdisk ``snapshot`` of somebody else.
    """
    with steps.changing(uuid) as group:
        if not steps.present(group, snapshot, snapshot_id):
            tags = [f'{groups.VOLUME}={snapshot_id}']
            volume = steps.require_whole(group, name)
            _snapshot(group, volume, snapshot, tags)


def allocate_clone(
    uuid: str, source: str, name: str, volume_id: str, size_bytes: int
) -> None:
    """Take the space of a clone; it counts, and is known to be incomplete.

    :raises DiskError: as :func:`clone`.
    """
    with steps.changing(uuid) as group:
        if steps.present(group, name, volume_id, complete=False):
            return
        original = steps.require_whole(group, source)
        if original.size_bytes > size_bytes:
            raise exception.DiskError(
                f'vdisk {source} of {original.size_bytes} bytes is larger '
                f'than its clone {name} of {size_bytes}'
            )
        tags = [f'{groups.VOLUME}={volume_id}', groups.INCOMPLETE]
        if original.thin:
            steps.check_room(group, size_bytes)
            _snapshot(group, original, name, tags)
        else:
            steps.allocate(group, name, size_bytes, tags)


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
    with steps.changing(uuid) as group:
        volume = steps.require(group, name)
        if groups.INCOMPLETE not in volume.tags:
            return
        original = steps.require_whole(group, source)
        if volume.thin:
            steps.resize(group, volume, size_bytes)
            steps.untag(group, volume, groups.INCOMPLETE)
            return
    steps.clean(uuid, name)
    path = steps.activated(group, original)
    target = steps.activated(group, volume)
    before = blockcopy.writes(path)
    blockcopy.copy(path, target, original.size_bytes)
    if before != blockcopy.writes(path) or before[1] != '0':
        _copy_frozen(uuid, original, volume)
    blockcopy.clear(target, original.size_bytes, volume.size_bytes)
    with steps.changing(uuid) as group:
        steps.untag(group, volume, groups.INCOMPLETE)


def revert(uuid: str, name: str, snapshot: str) -> None:
    """Give a volume that nobody uses the content of its snapshot.

    :raises DiskError: there is no such vdisk, or the disk refuses.
    """
    group = groups.require(uuid)
    volume = steps.require_whole(group, name)
    frozen = steps.require_whole(group, snapshot)
    steps.check_unused(group, volume)
    source = steps.activated(group, frozen)
    target = steps.activated(group, volume)
    size = min(frozen.size_bytes, volume.size_bytes)
    blockcopy.copy(source, target, size, compare=True)
    blockcopy.clear(target, size, volume.size_bytes)


def clear(uuid: str, name: str) -> None:
    """Have a volume that nobody uses read as zeros.

    :raises DiskError: there is no such vdisk, or the disk refuses.
    """
    group = groups.require(uuid)
    volume = steps.require_whole(group, name)
    steps.check_unused(group, volume)
    blockcopy.clear(steps.activated(group, volume), 0, volume.size_bytes)


def copy(uuid: str, name: str, target_uuid: str) -> None:
    """Copy a volume that nobody uses to the one of its name on another disk.

    :raises DiskError: either is not there, they do not match, or a disk
        refuses.
    """
    group, target_group = groups.require(uuid), groups.require(target_uuid)
    volume = steps.require_whole(group, name)
    target = steps.require_whole(target_group, name)
    if volume.vdisk.volume_id != target.vdisk.volume_id:
        raise exception.DiskError(
            f'vdisk {name} on disk {target_uuid} belongs to '
            f'{target.vdisk.volume_id!r}, not to {volume.vdisk.volume_id!r}'
        )
    if volume.size_bytes > target.size_bytes:
        raise exception.DiskError(
            f'vdisk {name} on disk {target_uuid} is smaller than on {uuid}'
        )
    # what is written meanwhile would be lost
    steps.check_unused(group, volume)
    steps.check_unused(target_group, target)
    path = steps.activated(target_group, target)
    blockcopy.copy(steps.activated(group, volume), path, volume.size_bytes)
    blockcopy.clear(path, volume.size_bytes, target.size_bytes)


def _snapshot(
    group: groups.Group, volume: groups.Volume, name: str, tags: list[str]
) -> None:
    if volume.origin:
        raise exception.DiskError(
            f'{volume.name} is a snapshot: LVM makes none of it'
        )
    steps.check_room(group, volume.size_bytes)
    kind = (
        ('--setactivationskip', 'n')
        if volume.thin
        else ('--extents', '100%ORIGIN')
    )
    groups.run(
        'lvcreate', '--yes', '--snapshot', '--name', groups.volume_name(name),
        *kind, *steps.addtags(tags), steps.full_name(group, volume),
    )  # fmt: skip


def _copy_frozen(
    uuid: str, original: groups.Volume, volume: groups.Volume
) -> None:
    """Copy a volume that is in use from a snapshot of it."""
    temporary = steps.CLONING + volume.vdisk.volume_id
    snapshot(uuid, original.vdisk.name, temporary, volume.vdisk.volume_id)
    group = groups.require(uuid)
    frozen = steps.require(group, temporary)
    blockcopy.copy(
        steps.activated(group, frozen),
        steps.activated(group, volume),
        original.size_bytes,
    )
    volumes.delete(uuid, temporary)
