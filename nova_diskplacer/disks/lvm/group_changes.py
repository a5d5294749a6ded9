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

"""Changes to a volume group and its volumes, one process at a time.

The vdisk operations are made of these changes. Every function raises DiskError
if LVM or a device fails, or the group lacks the volume or space.
"""

import collections.abc
import contextlib
import os

from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import blockcopy
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import device_mapper
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import report
from nova_diskplacer.host import files
from nova_diskplacer.host import sysfs

LOG = logging.getLogger(__name__)


@contextlib.contextmanager
def changing(uuid: str) -> collections.abc.Iterator[report.Group]:
    """Hold the lock of a group for short changes, and yield the group.

    The changes survive a power failure afterwards. The tag ZEROED stays valid
    unless another program has changed the group.
    """
    with files.lock(naming.group_name(uuid), wait=True):
        group = groups.require(uuid)
        if group.zeroed_tag and not group.zeroed:
            # a killed change of this program looks the same
            LOG.warning(
                'Volume group %s was changed by another program, or by a '
                'command that was killed: from now on new vdisks in it are '
                'zeroed first',
                group.name,
            )
            group = unmark_zeroed(uuid)
        try:
            yield group
        except exception.DiskError:
            with contextlib.suppress(exception.DiskError):
                _finish(uuid, group)
            raise
        _finish(uuid, group)


def replace_tags(uuid: str, old: set[str], new: set[str]) -> None:
    """Replace tags of a group by one command."""
    with changing(uuid) as group:
        commands.run(
            'vgchange',
            *naming.tag_options(new - group.tags, old - new),
            group.name,
        )


def mark_zeroed(uuid: str, changes: int = 0) -> None:
    """Give a group the tag ZEROED: its free space reads as zeros.

    :param changes: number of coming metadata changes after which the tag is
        valid.
    """
    group = groups.require(uuid)
    # this command is a change, too
    mark = naming.zeroed_tag(group.seqno + 1 + changes)
    old = [group.zeroed_tag] if group.zeroed_tag else []
    commands.run('vgchange', *naming.tag_options([mark], old), group.name)


def unmark_zeroed(uuid: str) -> report.Group:
    """Remove the tag ZEROED from a group and return the group."""
    group = groups.require(uuid)
    if group.zeroed_tag:
        removed = naming.tag_options(remove=[group.zeroed_tag])
        commands.run('vgchange', *removed, group.name)
    return groups.require(uuid)


def flush(group: report.Group) -> None:
    """Flush the caches of a group's devices."""
    for device in group.devices:
        blockcopy.flush(device)


def allocate(
    group: report.Group,
    name: str,
    size_bytes: int,
    tags: collections.abc.Sequence[str],
) -> None:
    """Make a volume, with the tag DIRTY_FROM if it may hold old data."""
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
        *naming.tag_options(tags), group.name,
    )  # fmt: skip


def resize(
    group: report.Group, volume: report.Volume, size_bytes: int
) -> None:
    """Change the size of a volume, also of one that has snapshots."""
    name = volume.path
    if size_bytes > volume.size_bytes:
        # LVM extends a volume with thick snapshots only while it is inactive
        has_snapshots = bool(group.snapshots_of(volume.vdisk.name))
        if has_snapshots:
            commands.run_retry_udev('lvchange', '--activate', 'n', name)
        commands.run('lvextend', '--size', f'{size_bytes}b', name)
        if has_snapshots:
            commands.run('lvchange', '--activate', 'y', name)
    elif size_bytes < volume.size_bytes:
        commands.run('lvreduce', '--force', '--size', f'{size_bytes}b', name)


def zero_dirty(uuid: str, name: str) -> None:
    """Activate the volume of a vdisk and zero its part with old data."""
    group = groups.require(uuid)
    volume = group.require(name)
    path = activate(volume)
    if volume.dirty_from is not None:
        blockcopy.zero(path, volume.dirty_from, volume.size_bytes)
        with changing(uuid) as group:
            # an extension meanwhile zeroes its own part
            if group.require(name).size_bytes == volume.size_bytes:
                change_tags([volume], remove=volume.dirty_tags)


def activate(volume: report.Volume) -> str:
    """Activate a volume and return the path of its device.

    A disk that was lost may have come back as another device. LVM leaves what
    is active on the lost one, where all requests fail, until it is told.

    :raises DiskError: also if a thin volume is on a lost device, and any of
        its group is open.
    """
    path = f'/dev/{volume.path}'
    if os.path.exists(path):
        if sysfs.is_built_on(path, volume.devices):
            return path
        if not volume.thin:
            commands.run('lvchange', '--refresh', volume.path)
            return path
        with files.lock(f'{volume.group}-devices', wait=True):
            # another one may have done it meanwhile
            if not sysfs.is_built_on(path, volume.devices):
                # a pool that has failed takes no other device: the attempt
                # leaves it suspended, and its users wait instead of failing
                commands.run_retry_udev(
                    'vgchange', '--activate', 'n', volume.group
                )
                commands.run('vgchange', '--activate', 'y', volume.group)
    commands.run(
        'lvchange', '--activate', 'y', '--ignoreactivationskip', volume.path
    )
    return path


def check_unused(volume: report.Volume) -> None:
    """Check that no process has a volume open."""

    def check() -> None:
        if device_mapper.is_open(f'/dev/{volume.path}'):
            raise exception.DiskError(
                f'vdisk {volume.vdisk.name} in {volume.group} is in use: a '
                'process has it open'
            )

    commands.retry_until_udev_settles(check)


def change_tags(
    volumes: collections.abc.Iterable[report.Volume],
    add: collections.abc.Iterable[str] = (),
    remove: collections.abc.Iterable[str] = (),
) -> None:
    """Add and remove tags of volumes of a group by one command.

    A killed command may have changed some of the volumes.
    """
    options = naming.tag_options(add, remove)
    commands.run('lvchange', *options, *(volume.path for volume in volumes))


def _finish(uuid: str, before: report.Group) -> None:
    """Renew the tag ZEROED after changes of this program, and flush."""
    now = groups.require(uuid)
    changed = now.seqno != before.seqno
    if changed and before.zeroed and now.zeroed_tag == before.zeroed_tag:
        present = {volume.uuid for volume in now.volumes}
        removed = [
            volume for volume in before.volumes if volume.uuid not in present
        ]
        if all(naming.DELETED in volume.tags for volume in removed):
            mark_zeroed(uuid)
        else:
            LOG.warning('Another program has removed volumes of %s', now.name)
    flush(now)
