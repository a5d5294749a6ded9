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

"""Commands on one logical volume, from which the vdisk operations are made."""

import collections.abc
import os

from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import blockcopy
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import group_changes
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import report


def allocate(
    group: report.Group,
    name: str,
    size_bytes: int,
    tags: collections.abc.Sequence[str],
) -> None:
    """Make a volume, with the tag DIRTY_FROM if it may hold old data.

    :raises DiskError: the group lacks the space, or LVM fails.
    """
    group.check_free(size_bytes)
    if group.needs_zeroing:
        tags = [*tags, f'{naming.DIRTY_FROM}=0']
    where = (
        ('--virtualsize', f'{size_bytes}b', '--thinpool', naming.POOL)
        if group.thin
        else ('--size', f'{size_bytes}b', '--wipesignatures', 'n')
    )
    commands.run(
        'lvcreate', '--yes', '--name', naming.volume_name(name), *where,
        *naming.add_options(tags), group.name,
    )  # fmt: skip


def resize(
    group: report.Group, volume: report.Volume, size_bytes: int
) -> None:
    """Change the size of a volume, also of one that has snapshots.

    :raises DiskError: LVM fails.
    """
    name = group.full_name(volume)
    if size_bytes > volume.size_bytes:
        # LVM extends a volume with thick snapshots only while it is inactive
        has_snapshots = bool(group.snapshots_of(volume))
        if has_snapshots:
            commands.run_retry_udev('lvchange', '--activate', 'n', name)
        commands.run('lvextend', '--size', f'{size_bytes}b', name)
        if has_snapshots:
            commands.run('lvchange', '--activate', 'y', name)
    elif size_bytes < volume.size_bytes:
        commands.run('lvreduce', '--force', '--size', f'{size_bytes}b', name)


def zero_dirty(uuid: str, name: str) -> None:
    """Activate the volume of a vdisk and zero its part with old data.

    :raises DiskError: there is no such vdisk, or the disk fails.
    """
    group = groups.require(uuid)
    volume = group.require(name)
    path = activate(group, volume)
    if volume.dirty_from is not None:
        blockcopy.zero(path, volume.dirty_from, volume.size_bytes)
        with group_changes.changing(uuid) as group:
            # an extension meanwhile zeroes its own part
            if group.require(name).size_bytes == volume.size_bytes:
                remove_tags(group, volume, *volume.dirty_tags)


def activate(group: report.Group, volume: report.Volume) -> str:
    """Activate a volume and return the path of its device.

    :raises DiskError: LVM fails.
    """
    path = f'/dev/{group.name}/{volume.name}'
    if not os.path.exists(path):
        commands.run(
            'lvchange', '--activate', 'y', '--ignoreactivationskip',
            group.full_name(volume),
        )  # fmt: skip
    return path


def check_unused(group: report.Group, volume: report.Volume) -> None:
    """Check that no process has a volume open.

    :raises DiskError: a process has it open.
    """
    for last in commands.attempts_until_udev_settles():
        found = commands.run(
            'lvs', '--noheadings', '--options', 'lv_device_open',
            group.full_name(volume),
        )  # fmt: skip
        if found.strip() != 'open':
            return
        if last:
            raise exception.DiskError(
                f'vdisk {volume.vdisk.name} in {group.name} is in use: a '
                'process has it open'
            )


def add_tag(group: report.Group, volume: report.Volume, tag: str) -> None:
    """Add a tag to a volume.

    :raises DiskError: LVM fails.
    """
    commands.run('lvchange', '--addtag', tag, group.full_name(volume))


def remove_tags(
    group: report.Group, volume: report.Volume, *tags: str
) -> None:
    """Remove tags from a volume.

    :raises DiskError: LVM fails.
    """
    commands.run(
        'lvchange', *naming.remove_options(tags), group.full_name(volume)
    )
