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

"""Snapshots, clones and copies of logical volumes.

Every function may be repeated after a crash, and raises DiskError if a vdisk
that it needs is missing, the disk lacks the space, or LVM or a disk fails.
"""

import collections.abc
import contextlib

from nova_diskplacer import exception
from nova_diskplacer.disks import remote
from nova_diskplacer.disks.lvm import blockcopy
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import group_changes
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import report
from nova_diskplacer.disks.lvm import volumes

# Bytes that one call copies from another host.
_PART = 64 << 20


def snapshot(
    uuid: str,
    name: str,
    snapshot: str,
    snapshot_id: str,
    *,
    mark: collections.abc.Sequence[str] = (),
) -> None:
    """Make a snapshot of a vdisk.

    A thick snapshot takes the space of its origin, so that it never overflows.

    :param mark: more tags for it.
    :raises DiskError: the vdisk ``snapshot`` has another owner.
    """
    with group_changes.changing(uuid) as group:
        if not group.has_vdisk(snapshot, snapshot_id):
            volume = group.require_usable(name)
            tags = [f'{naming.VOLUME}={snapshot_id}', *mark]
            tags += volume.stripe_tags
            _snapshot(group, volume, snapshot, tags)


def allocate_clone(
    uuid: str, source: str, name: str, volume_id: str, size_bytes: int
) -> None:
    """Allocate the space of a clone, which is marked as incomplete.

    :raises DiskError: as :func:`clone`.
    """
    with group_changes.changing(uuid) as group:
        if group.has_vdisk(name, volume_id, complete=False):
            return
        original = group.require_usable(source)
        if original.size_bytes > size_bytes:
            raise exception.DiskError(
                f'vdisk {source} of {original.size_bytes} bytes is larger '
                f'than its clone {name} of {size_bytes}'
            )
        tags = [f'{naming.VOLUME}={volume_id}', naming.INCOMPLETE]
        tags += original.stripe_tags
        if original.thin:
            group.check_free(size_bytes)
            _snapshot(group, original, name, tags)
        else:
            group_changes.allocate(group, name, size_bytes, tags)


def clone(
    uuid: str, source: str, name: str, volume_id: str, size_bytes: int
) -> None:
    """Clone a vdisk on its disk.

    Thick volumes are copied. If the source is written to meanwhile, it is
    copied again from a snapshot, which takes the space of the source.

    :raises DiskError: the source is larger than ``size_bytes``, or the vdisk
        ``name`` belongs to another volume.
    """
    allocate_clone(uuid, source, name, volume_id, size_bytes)
    with group_changes.changing(uuid) as group:
        volume = group.require(name)
        if naming.INCOMPLETE not in volume.tags:
            return
        original = group.require_usable(source)
        if volume.thin:
            group_changes.resize(group, volume, size_bytes)
            group_changes.change_tags([volume], remove=[naming.INCOMPLETE])
            return
    group_changes.zero_dirty(uuid, name)
    path = group_changes.activate(original)
    target = group_changes.activate(volume)
    before = blockcopy.write_counters(path)
    blockcopy.copy(path, target, original.size_bytes)
    if before != blockcopy.write_counters(path) or before[1] != '0':
        _copy_from_snapshot(uuid, original, volume)
    blockcopy.clear(target, original.size_bytes, volume.size_bytes)
    with group_changes.changing(uuid) as group:
        group_changes.change_tags([volume], remove=[naming.INCOMPLETE])


def revert(uuid: str, name: str, snapshot: str) -> None:
    """Revert an unused vdisk to its snapshot.

    :raises DiskError: the vdisk is in use.
    """
    group = groups.require(uuid)
    volume = group.require_usable(name)
    frozen = group.require_usable(snapshot)
    group_changes.check_unused(volume)
    _overwrite(volume, frozen, compare=True)


def clear(uuid: str, name: str) -> None:
    """Zero an unused vdisk.

    :raises DiskError: it is in use.
    """
    volume = groups.require(uuid).require_usable(name)
    group_changes.check_unused(volume)
    blockcopy.clear(group_changes.activate(volume), 0, volume.size_bytes)


def copy(uuid: str, name: str, target_uuid: str, rate: int = 0) -> None:
    """Copy an unused vdisk to the vdisk of the same name on another disk.

    :param rate: MiB/s at most, 0 for no limit.
    :raises DiskError: a vdisk is in use or written to meanwhile, or they do
        not match.
    """
    volume = groups.require(uuid).require_usable(name)
    target = groups.require(target_uuid).require_usable(name)
    if volume.vdisk.volume_id != target.vdisk.volume_id:
        raise exception.DiskError(
            f'vdisk {name} on disk {target_uuid} belongs to '
            f'{target.vdisk.volume_id!r}, not to {volume.vdisk.volume_id!r}'
        )
    if volume.size_bytes > target.size_bytes:
        raise exception.DiskError(
            f'vdisk {name} on disk {target_uuid} is smaller than on {uuid}'
        )
    # writes during the copy would be lost
    group_changes.check_unused(volume)
    group_changes.check_unused(target)
    path = group_changes.activate(volume)
    before = blockcopy.write_counters(path)
    _overwrite(target, volume, rate=rate)
    if blockcopy.write_counters(path) != before:
        raise exception.DiskError(
            f'vdisk {name} on disk {uuid} was written to while it was copied'
        )


def copy_remote(uuid: str, name: str, device: str, start: int) -> int | None:
    """Copy a part of the vdisk of another host to its unused namesake here.

    Beyond the end of the other one it reads as zeros. The copied part is
    durable on return.

    :param device: path of the other vdisk.
    :param start: offset at which to continue, 0 in the first call.
    :returns: ``start`` of the next call, None if all is copied.
    :raises DiskError: it is in use, the other one is larger or away, or
        ``start`` is not within the vdisk.
    """
    target = groups.require(uuid).require_usable(name)
    source_size, size = remote.size_bytes(device), target.size_bytes
    if source_size > size:
        raise exception.DiskError(
            f'vdisk {name} on disk {uuid} is smaller than {device}'
        )
    if not 0 <= start < size:
        raise exception.DiskError(
            f'offset {start} is not within the {size} bytes of vdisk {name}'
        )
    group_changes.check_unused(target)
    path = group_changes.activate(target)
    stop = min(start + _PART, source_size)
    blockcopy.write(path, remote.parts(device, start, stop))
    if stop < source_size:
        return stop
    blockcopy.clear(path, source_size, size)
    return None


def _overwrite(
    target: report.Volume,
    source: report.Volume,
    compare: bool = False,
    rate: int = 0,
) -> None:
    """Copy a volume to another one, and zero the rest of that."""
    path = group_changes.activate(target)
    size = min(source.size_bytes, target.size_bytes)
    blockcopy.copy(group_changes.activate(source), path, size, compare, rate)
    blockcopy.clear(path, size, target.size_bytes)


def _snapshot(
    group: report.Group, volume: report.Volume, name: str, tags: list[str]
) -> None:
    if volume.origin:
        raise exception.DiskError(
            f'{volume.name} is a snapshot: LVM cannot snapshot it'
        )
    group.check_free(volume.size_bytes)
    kind = (
        ('--setactivationskip', 'n')
        if volume.thin
        else ('--extents', '100%ORIGIN')
    )
    commands.run(
        'lvcreate', '--yes', '--snapshot', '--name', naming.volume_name(name),
        *kind, *naming.tag_options(tags), volume.path,
    )  # fmt: skip


def _copy_from_snapshot(
    uuid: str, original: report.Volume, volume: report.Volume
) -> None:
    """Copy a volume that is in use from a temporary snapshot.

    Until it is copied it takes the space of the volume once more.
    """
    temporary = volumes.CLONING + volume.vdisk.volume_id
    snapshot(uuid, original.vdisk.name, temporary, volume.vdisk.volume_id)
    try:
        frozen = groups.require(uuid).require(temporary)
        blockcopy.copy(
            group_changes.activate(frozen),
            group_changes.activate(volume),
            original.size_bytes,
        )
    except exception.DiskError:
        # the error that matters is that of the copy
        with contextlib.suppress(exception.DiskError):
            volumes.delete(uuid, temporary)
        raise
    volumes.delete(uuid, temporary)
