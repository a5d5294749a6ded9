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

"""Changes to the metadata of a volume group, one process at a time."""

import collections.abc
import contextlib

from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import blockcopy
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import report
from nova_diskplacer.host import locks

LOG = logging.getLogger(__name__)


@contextlib.contextmanager
def changing(uuid: str) -> collections.abc.Iterator[report.Group]:
    """Hold the lock of a group for short changes, and yield the group.

    The changes survive a power failure afterwards. The tag ZEROED stays valid
    unless another program has changed the group.
    """
    with locks.hold(naming.group_name(uuid), wait=True):
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
    """Replace tags of a group by one command.

    :raises DiskError: LVM fails.
    """
    with changing(uuid) as group:
        commands.run(
            'vgchange',
            *naming.remove_options(sorted(old - new)),
            *naming.add_options(sorted(new - group.tags)),
            group.name,
        )


def mark_zeroed(uuid: str, changes: int = 0) -> None:
    """Give a group the tag ZEROED: its free space reads as zeros.

    :param changes: number of coming metadata changes after which the tag is
        valid.
    :raises DiskError: LVM fails.
    """
    group = groups.require(uuid)
    # this command is a change, too
    mark = naming.zeroed_tag(group.seqno + 1 + changes)
    old = naming.remove_options([group.zeroed_tag] if group.zeroed_tag else [])
    commands.run('vgchange', *old, *naming.add_options([mark]), group.name)


def unmark_zeroed(uuid: str) -> report.Group:
    """Remove the tag ZEROED from a group and return the group.

    :raises DiskError: LVM fails.
    """
    group = groups.require(uuid)
    if group.zeroed_tag:
        removed = naming.remove_options([group.zeroed_tag])
        commands.run('vgchange', *removed, group.name)
    return groups.require(uuid)


def flush(group: report.Group) -> None:
    """Flush the caches of a group's devices.

    :raises DiskError: a device fails.
    """
    for device in group.devices:
        blockcopy.flush(device)


def _finish(uuid: str, before: report.Group) -> None:
    """Renew the tag ZEROED after changes of this program, and flush."""
    now = groups.require(uuid)
    changed = now.seqno != before.seqno
    if changed and before.zeroed and now.zeroed_tag == before.zeroed_tag:
        present = {volume.uuid for volume in now.volumes}
        removed = [one for one in before.volumes if one.uuid not in present]
        if all(naming.DELETED in volume.tags for volume in removed):
            mark_zeroed(uuid)
        else:
            LOG.warning('Another program has removed volumes of %s', now.name)
    flush(now)
