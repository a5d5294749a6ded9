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

A link leads to a file, to a logical volume, or to the loop device of a file
where the vdisk was attached as a block device. The loop device has a link of
its own, see :mod:`nova_diskplacer.disks.filesystem.devices`.

While a server has moved here and the data of its vdisk has not, the link leads
to the *remote* vdisk: to ``<disk root>/remote/<vdisk>``, a link to the device
of the iSCSI session with the host that has the data. That link is made before
the session, and so tells of each session that there may be.

A link can be *parked* while QEMU leaves the other copy of a vdisk: it leads to
the same disk, but for QEMU alone. See :mod:`nova_diskplacer.disks.parking`.
"""

import contextlib
import os
import re

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import identity
from nova_diskplacer.disks.filesystem import devices
from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.host import files as host_files

#: Directory of the links in the disk root.
DIRECTORY = 'by-volume'

#: in place of a disk, of a link that leads to a remote vdisk
REMOTE = 'remote'

# Directory of the links to remote vdisks in the disk root.
_REMOTES = 'remote'

#: beginning of parked links; it is there in the process of this number alone
PARKED = '/proc/self/task/%d/../../../..'
_IS_PARKED = re.compile(r'/proc/self/task/\d+/\.\./\.\./\.\./\.\.(?=/)')

# Where udev names the devices of iSCSI sessions.
_BY_PATH = '/dev/disk/by-path'


def path(disk_root: str, name: str) -> str:
    """Return the path of the link to a vdisk, which may not exist.

    :raises DiskError: no vdisk can have this name.
    """
    return os.path.join(disk_root, DIRECTORY, files.check_name(name))


def read(disk_root: str, name: str) -> str:
    """Return the path that the link of a vdisk leads to, parked or not.

    :returns: '' if there is no link.
    :raises DiskError: it cannot be read.
    """
    return unparked(host_files.read_link(path(disk_root, name)))


def unparked(target: str) -> str:
    """Return the text of a link that is not parked."""
    return _IS_PARKED.sub('', target)


def is_parked(disk_root: str, name: str) -> bool:
    """Return whether the link of a vdisk is parked.

    :raises DiskError: the link cannot be read.
    """
    target = host_files.read_link(path(disk_root, name))
    return target != unparked(target)


def linked_disk(disk_root: str, name: str) -> str | None:
    """Return the UUID of the disk that a vdisk's link leads to.

    :returns: None if there is no link, ``REMOTE`` if it leads to the vdisk of
        another host.
    :raises DiskError: the link cannot be read, or does not lead to a vdisk of
        that name in the disk root, so that the disk is not known.
    """
    target = read(disk_root, name)
    if not target:
        return None
    uuid = _disk_of(disk_root, name, target)
    if uuid is None:
        raise exception.DiskError(
            f'{path(disk_root, name)} leads to {target}, which is no vdisk '
            f'{name} in {disk_root}: find out which copy of it is the volume, '
            'and remove the link'
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
        if not name.startswith(host_files.NEW_LINK):
            try:
                by_name[name] = linked_disk(disk_root, name)
            except exception.DiskError:
                by_name[name] = None
    return by_name


def is_to_device(disk_root: str, name: str) -> bool:
    """Return whether a vdisk's link leads to a device that is no vdisk itself.

    It is the loop device of a vdisk, or a remote one.

    :raises DiskError: the link cannot be read.
    """
    target = read(disk_root, name)
    if not target:
        return False
    return (
        devices.disk_of(target, name) is not None
        or _disk_of(disk_root, name, target) == REMOTE
    )


def link(
    disk_root: str, uuid: str, name: str, to_device: bool = False
) -> None:
    """Make the link of a vdisk lead to a disk, durably; repeatable.

    :param to_device: whether to the loop device of the vdisk there.
    :raises DiskError: it cannot be made.
    """
    target = vdisk_path(disk_root, uuid, name)
    if to_device:
        target = devices.path(uuid, name)
    host_files.replace_link(path(disk_root, name), target)


def link_remote(disk_root: str, name: str) -> None:
    """Make the link of a vdisk lead to the remote one; repeatable.

    :raises DiskError: it cannot be made.
    """
    host_files.replace_link(
        path(disk_root, name), _remote_path(disk_root, name)
    )


def remote_device(disk_root: str, name: str) -> str | None:
    """Return the path of the device of a remote vdisk, None if there is none.

    :raises DiskError: the link to it cannot be read.
    """
    return host_files.read_link(_remote_path(disk_root, name)) or None


def remote_since(disk_root: str, name: str) -> float:
    """Return when a remote vdisk was linked, in seconds since the epoch.

    :returns: 0 if it is not.
    :raises DiskError: the link cannot be read.
    """
    place = _remote_path(disk_root, name)
    with host_files.disk_errors(place), contextlib.suppress(FileNotFoundError):
        return os.lstat(place).st_mtime
    return 0.0


def device_of(portal: str, iqn: str, lun: int) -> str:
    """Return the path that udev gives to the device of an iSCSI session.

    :param portal: address and port.
    """
    bare = portal.replace('[', '').replace(']', '')
    return f'{_BY_PATH}/ip-{bare}-iscsi-{iqn}-lun-{lun}'


def target_of(device: str) -> tuple[str, str, int]:
    """Return portal, name of the target and LUN of the device of a session.

    :raises DiskError: no session has this device.
    """
    directory, base = os.path.split(device)
    found = re.fullmatch(
        r'ip-([0-9a-z.:-]+):(\d+)-iscsi-([0-9a-z.:_-]+)-lun-(\d+)', base, re.I
    )
    if directory != _BY_PATH or found is None:
        raise exception.DiskError(f'{device} is no device of an iSCSI session')
    address, port, iqn, lun = found.groups()
    if ':' in address:
        address = f'[{address}]'
    return f'{address}:{port}', iqn, int(lun)


def add_remote(
    disk_root: str, name: str, portal: str, iqn: str, lun: int
) -> None:
    """Make the link to the device of a remote vdisk, durably; repeatable.

    There may be no session with the target yet.

    :raises DiskError: the link cannot be made, or the target is invalid or
        that of another vdisk.
    """
    device = device_of(portal, iqn, lun)
    target = target_of(device)
    if target[1] != iqn or not iqn.endswith(files.check_name(name)):
        raise exception.DiskError(f'{device} is not the vdisk {name}')
    host_files.replace_link(_remote_path(disk_root, name), device)


def remove_remote(disk_root: str, name: str) -> None:
    """Remove the link to the device of a remote vdisk, if there is one.

    :raises DiskError: it cannot be removed.
    """
    host_files.remove(_remote_path(disk_root, name))


def remotes(disk_root: str) -> list[str]:
    """Return the names of the remote vdisks, sorted.

    :raises DiskError: they cannot be listed.
    """
    directory = os.path.join(disk_root, _REMOTES)
    with host_files.disk_errors(directory):
        try:
            names = os.listdir(directory)
        except FileNotFoundError:
            return []
    return sorted(
        name for name in names if not name.startswith(host_files.NEW_LINK)
    )


def _remote_path(disk_root: str, name: str) -> str:
    return os.path.join(disk_root, _REMOTES, files.check_name(name))


def unlink(disk_root: str, name: str) -> None:
    """Remove the link of a vdisk, if there is one.

    :raises DiskError: it cannot be removed.
    """
    host_files.remove(path(disk_root, name))


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
            return unparked(os.readlink(vdisk))
    return vdisk


def _disk_of(disk_root: str, name: str, target: str) -> str | None:
    """Return the disk of a path, if that is the path of a vdisk.

    Return ``REMOTE`` if it is that of a remote vdisk. The disk root may be
    given by another path than when the link was made.
    """
    directory = os.path.dirname(target)
    uuid = os.path.basename(directory).removeprefix(naming.PREFIX)
    if identity.is_uuid(uuid) and target == naming.device_path(uuid, name):
        return uuid
    entry = os.path.dirname(directory)
    if target == _remote_path(entry, name) and _is_same(entry, disk_root):
        return REMOTE
    root, uuid = os.path.split(entry)
    if (
        identity.is_uuid(uuid)
        and target == vdisks.path(entry, name)
        and _is_same(root, disk_root)
    ):
        return uuid
    return devices.disk_of(target, name)


def _is_same(root: str, disk_root: str) -> bool:
    return os.path.realpath(root) == os.path.realpath(disk_root)
