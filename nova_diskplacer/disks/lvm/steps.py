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

"""What operations on the vdisks of a volume group are made of."""

import collections.abc
import contextlib
import os

from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import blockcopy
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.host import locks

LOG = logging.getLogger(__name__)

# Begins the names of temporary snapshots to clone from.
CLONING = 'cloning-'


@contextlib.contextmanager
def changing(uuid: str) -> collections.abc.Iterator[groups.Group]:
    """Hold a group against other changes of ours, for moments.

    What was changed survives a power failure afterwards. What is free in the
    group stays known to read as zeros unless others have changed it.
    """
    name = groups.group_name(uuid)
    with locks.hold(name, wait=True):
        group = groups.require(uuid)
        if group.mark and not group.zeroed:
            # a change of ours that was killed looks like one of others
            LOG.warning(
                'Volume group %s was changed by somebody else, or by a '
                'command that was killed: vdisks made in it are zeroed from '
                'now on',
                group.name,
            )
            group = unmark(uuid)
        try:
            yield group
        except exception.DiskError:
            with contextlib.suppress(exception.DiskError):
                _settle(uuid, group)
            raise
        _settle(uuid, group)


def retag(uuid: str, old: set[str], new: set[str]) -> None:
    """Have a group have new tags in place of old ones, by one command.

    :raises DiskError: LVM refuses.
    """
    with changing(uuid) as group:
        groups.run(
            'vgchange',
            *(f'--deltag={tag}' for tag in sorted(old - new)),
            *(f'--addtag={tag}' for tag in sorted(new - group.tags)),
            group.name,
        )


def mark_zeroed(uuid: str, changes: int = 0) -> None:
    """Mark a group as one where what is free reads as zeros.

    :param changes: how many changes of its metadata the mark is to survive.
    :raises DiskError: LVM refuses.
    """
    group = groups.require(uuid)
    # this is a change, too
    mark = groups.zeroed_mark(group.seqno + 1 + changes)
    old = [f'--deltag={group.mark}'] if group.mark else []
    groups.run('vgchange', *old, f'--addtag={mark}', group.name)


def unmark(uuid: str) -> groups.Group:
    """Return a group where what is free may hold anything.

    :raises DiskError: LVM refuses.
    """
    group = groups.require(uuid)
    if group.mark:
        groups.run('vgchange', f'--deltag={group.mark}', group.name)
    return groups.require(uuid)


def flush(group: groups.Group) -> None:
    """Have the devices of a group keep all that was written.

    :raises DiskError: a device cannot do that.
    """
    for device in group.devices:
        blockcopy.flush(device)


def _settle(uuid: str, before: groups.Group) -> None:
    now = groups.require(uuid)
    if now.seqno != before.seqno and before.zeroed and now.mark == before.mark:
        there = {volume.uuid for volume in now.volumes}
        gone = [one for one in before.volumes if one.uuid not in there]
        if all(groups.DELETED in volume.tags for volume in gone):
            mark_zeroed(uuid)
        else:
            LOG.warning('Others have removed volumes of %s', now.name)
    flush(now)


def allocate(
    group: groups.Group, name: str, size_bytes: int, tags: list[str]
) -> None:
    """Make a volume; one that may not read as zeros is known to be dirty."""
    check_room(group, size_bytes)
    if is_dirty(group):
        tags = [*tags, f'{groups.DIRTY_FROM}=0']
    where = (
        ('--virtualsize', f'{size_bytes}b', '--thinpool', groups.POOL)
        if group.thin
        else ('--size', f'{size_bytes}b', '--wipesignatures', 'n')
    )
    groups.run(
        'lvcreate', '--yes', '--name', groups.volume_name(name), *where,
        *addtags(tags), group.name,
    )  # fmt: skip


def resize(
    group: groups.Group, volume: groups.Volume, size_bytes: int
) -> None:
    """Have a volume be so long, whether or not there are snapshots of it."""
    name = full_name(group, volume)
    if size_bytes > volume.size_bytes:
        # LVM resizes what has thick snapshots while nobody uses it only
        frozen = bool(snapshots(group, volume))
        if frozen:
            groups.let_go('lvchange', '--activate', 'n', name)
        groups.run('lvextend', '--size', f'{size_bytes}b', name)
        if frozen:
            groups.run('lvchange', '--activate', 'y', name)
    elif size_bytes < volume.size_bytes:
        groups.run('lvreduce', '--force', '--size', f'{size_bytes}b', name)


def clean(uuid: str, name: str) -> None:
    """Have a volume active, and what is dirty of it read as zeros."""
    group = groups.require(uuid)
    volume = require(group, name)
    path = activated(group, volume)
    if volume.dirty_from is not None:
        blockcopy.zero(path, volume.dirty_from, volume.size_bytes)
        with changing(uuid) as group:
            # who has extended it meanwhile zeroes what that adds
            if require(group, name).size_bytes == volume.size_bytes:
                untag(group, volume, *volume.dirty_tags)


def present(
    group: groups.Group, name: str, volume_id: str, *, complete: bool = True
) -> bool:
    """Tell whether the vdisk of a volume is there.

    :param complete: whether it must not be a clone that is being made.
    :raises DiskError: it is another volume's, is being deleted, or is not
        complete.
    """
    volume = group.find(name)
    if volume is None:
        return False
    owner = volume.vdisk.volume_id
    if owner != volume_id:
        raise exception.DiskError(
            f'vdisk {name} in {group.name} belongs to {owner!r}'
        )
    if groups.DELETED in volume.tags or (
        complete and groups.INCOMPLETE in volume.tags
    ):
        raise _unfinished(group, volume)
    return True


def require(group: groups.Group, name: str) -> groups.Volume:
    """Return a vdisk.

    :raises DiskError: there is none of that name.
    """
    volume = group.find(name)
    if volume is None:
        raise exception.DiskError(f'{group.name} has no vdisk {name}')
    return volume


def require_whole(group: groups.Group, name: str) -> groups.Volume:
    """Return a vdisk whose bytes are all its own.

    :raises DiskError: there is none of that name, or it may hold bytes of
        others, or lacks some of its own.
    """
    volume = require(group, name)
    if volume.unfinished:
        raise _unfinished(group, volume)
    return volume


def _unfinished(
    group: groups.Group, volume: groups.Volume
) -> exception.DiskError:
    return exception.DiskError(
        f'vdisk {volume.vdisk.name} in {group.name} {volume.unfinished}'
    )


def snapshots(group: groups.Group, volume: groups.Volume) -> list[str]:
    """Return the names of the snapshots of a volume."""
    return [
        other.vdisk.name
        for other in group.volumes
        if other.origin == volume.name
    ]


def check_room(group: groups.Group, size_bytes: int) -> None:
    """Fail if a group has not so many bytes left.

    :raises DiskError: it has not.
    """
    if size_bytes > group.free_bytes:
        raise exception.DiskError(
            f'{group.name} has {group.free_bytes} bytes free, not the '
            f'{size_bytes} that are wanted'
        )


def is_dirty(group: groups.Group) -> bool:
    """Tell whether what is new in a group must be zeroed first."""
    return not group.thin and not group.zeroed


def activated(group: groups.Group, volume: groups.Volume) -> str:
    """Return the path of a volume's device, which is there."""
    path = f'/dev/{group.name}/{volume.name}'
    if not os.path.exists(path):
        groups.run(
            'lvchange', '--activate', 'y', '--ignoreactivationskip',
            full_name(group, volume),
        )  # fmt: skip
    return path


def check_unused(group: groups.Group, volume: groups.Volume) -> None:
    """See that nobody has a volume open.

    :raises DiskError: somebody has.
    """
    for last in groups.settlings():
        found = groups.run(
            'lvs', '--noheadings', '--options', 'lv_device_open',
            full_name(group, volume),
        )  # fmt: skip
        if found.strip() != 'open':
            return
        if last:
            raise exception.DiskError(
                f'vdisk {volume.vdisk.name} in {group.name} is in use: a '
                'process has it open'
            )


def tag(group: groups.Group, volume: groups.Volume, tag: str) -> None:
    """Give a volume a tag."""
    groups.run('lvchange', '--addtag', tag, full_name(group, volume))


def untag(group: groups.Group, volume: groups.Volume, *tags: str) -> None:
    """Take tags from a volume."""
    groups.run(
        'lvchange',
        *(f'--deltag={tag}' for tag in tags),
        full_name(group, volume),
    )


def full_name(group: groups.Group, volume: groups.Volume) -> str:
    """Return what LVM calls a volume."""
    return f'{group.name}/{volume.name}'


def addtags(tags: list[str]) -> list[str]:
    """Return the options that give what is made these tags."""
    return [f'--addtag={tag}' for tag in tags]
