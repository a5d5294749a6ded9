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

"""Links to vdisks: paths that stay when a vdisk moves to another disk.

Nova keeps the path of a volume while it is attached, so it is given the path
of a link, ``<disk root>/by-volume/<vdisk>``. A link is replaced in one step.
Of two copies of a vdisk, that of its link is the volume.
"""

import contextlib
import os

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import identity
from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.host import files as host_files

#: Directory of the links in the disk root.
DIRECTORY = 'by-volume'

# Prefix of links that are not in place yet; no vdisk's name has it.
_NEW = '.new.'


def path(disk_root: str, name: str) -> str:
    """Return the path of the link to a vdisk, which may not exist.

    :raises DiskError: no vdisk can have this name.
    """
    return os.path.join(disk_root, DIRECTORY, files.check_name(name))


def linked_disk(disk_root: str, name: str) -> str | None:
    """Return the UUID of the disk that a vdisk's link leads to.

    :returns: None if there is no link.
    :raises DiskError: the link cannot be read, or does not lead to a vdisk of
        that name in the disk root, so that the disk is not known.
    """
    place = path(disk_root, name)
    with host_files.disk_errors(place):
        try:
            target = os.readlink(place)
        except FileNotFoundError:
            return None
    uuid = _disk_of(disk_root, name, target)
    if uuid is None:
        raise exception.DiskError(
            f'{place} leads to {target}, which is no vdisk {name} in '
            f'{disk_root}: find out which copy of it is the volume, and '
            'remove the link'
        )
    return uuid


def all_links(disk_root: str) -> dict[str, str | None]:
    """Return the disk that each link leads to, by the name of its vdisk.

    The disk is None where :func:`linked_disk` raises an error.

    :raises DiskError: the directory of the links cannot be read.
    """
    directory = os.path.join(disk_root, DIRECTORY)
    with host_files.disk_errors(directory):
        try:
            names = os.listdir(directory)
        except FileNotFoundError:
            return {}
    by_name: dict[str, str | None] = {}
    for name in sorted(names):
        if not name.startswith(_NEW):
            try:
                by_name[name] = linked_disk(disk_root, name)
            except exception.DiskError:
                by_name[name] = None
    return by_name


def link(disk_root: str, uuid: str, name: str) -> None:
    """Make the link of a vdisk lead to a disk, durably; repeatable.

    :raises DiskError: it cannot be made.
    """
    place = path(disk_root, name)
    target = vdisk_path(disk_root, uuid, name)
    directory, _ = os.path.split(place)
    new = os.path.join(directory, _NEW + name)
    with host_files.disk_errors(place):
        os.makedirs(directory, mode=0o755, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        os.symlink(target, new)
        os.rename(new, place)
        _sync(directory)


def unlink(disk_root: str, name: str) -> None:
    """Remove the link of a vdisk, if there is one.

    :raises DiskError: it cannot be removed.
    """
    place = path(disk_root, name)
    with host_files.disk_errors(place):
        try:
            os.unlink(place)
        except FileNotFoundError:
            return
        _sync(os.path.dirname(place))


def vdisk_path(disk_root: str, uuid: str, name: str) -> str:
    """Return the path of a vdisk itself.

    :raises DiskError: the UUID or the name is invalid.
    """
    entry = discover.disk_path(disk_root, uuid)
    if discover.kind_of(disk_root, uuid) == discover.LVM:
        return naming.device_path(uuid, name)
    return vdisks.path(entry, name)


def resolve(vdisk: str) -> str:
    """Return the path that a link leads to; any other path as it is.

    The disk itself is not read, because it may hang.
    """
    if os.path.basename(os.path.dirname(vdisk)) == DIRECTORY:
        with contextlib.suppress(OSError):
            return os.readlink(vdisk)
    return vdisk


def _disk_of(disk_root: str, name: str, target: str) -> str | None:
    """Return the disk of a path, if that is the path of a vdisk.

    The disk root may be given by another path than when the link was made.
    """
    directory = os.path.dirname(target)
    uuid = os.path.basename(directory).removeprefix(naming.PREFIX)
    if identity.is_uuid(uuid) and target == naming.device_path(uuid, name):
        return uuid
    entry = os.path.dirname(directory)
    root, uuid = os.path.split(entry)
    if (
        identity.is_uuid(uuid)
        and target == vdisks.path(entry, name)
        and os.path.realpath(root) == os.path.realpath(disk_root)
    ):
        return uuid
    return None


def _sync(directory: str) -> None:
    with host_files.opened(directory, os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)
