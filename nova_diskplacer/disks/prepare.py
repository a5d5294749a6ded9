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

"""Prepares a device or directory as a disk of this host, and forgets it.

The next run completes what a killed one has left out, with ``wipe`` too. The
filesystem of a device has the label of prepared disks and the disk's UUID from
its creation. What can fail without the device comes before it is changed.
"""

import contextlib
import os
import stat
import uuid as uuidlib

from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.disks import block
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import identity
from nova_diskplacer.disks import standby
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import prepare as lvm_prepare
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import commands
from nova_diskplacer.host import files
from nova_diskplacer.host import fstab as fstab_
from nova_diskplacer.host import hdparm
from nova_diskplacer.host import mounts
from nova_diskplacer.host import sysfs

LOG = logging.getLogger(__name__)

# Nodes of devices of device-mapper.
_MAPPED = '/dev/dm-'


def prepare(
    disk_root: str,
    target: str,
    medium: str | None = None,
    mbps: int | None = None,
    wipe: bool = False,
    fstab: str = fstab_.PATH,
    lvm_options: lvm_prepare.Options | None = None,
) -> discover.Disk:
    """Prepare a device or directory; complete or confirm a prepared one.

    The medium and MB/s are as for :func:`identity.choose`.

    :param target: a block device, or the mount point of a filesystem.
    :param wipe: destroy the data on the device; one in use is refused.
    :param lvm_options: options of a volume group; None makes a filesystem.
    :raises DiskError: the target is refused, or a step failed.
    """
    with files.disk_errors(target), contextlib.ExitStack() as stack:
        disk_root = os.path.realpath(disk_root)
        target = os.path.realpath(target)
        status = os.stat(target)
        is_device = stat.S_ISBLK(status.st_mode)
        os.makedirs(disk_root, mode=0o755, exist_ok=True)
        if is_device:
            stack.enter_context(_sole(target, status.st_rdev))
            if wipe:
                _release(disk_root, target, fstab)
        else:
            _require_directory(target, status.st_mode, wipe, lvm_options)
        if lvm_options:
            uuid = lvm_prepare.prepare(
                disk_root, target, medium, mbps, wipe, lvm_options
            )
        elif is_device:
            uuid = _prepare_device(disk_root, target, medium, wipe, fstab)
            _write_identity(os.path.join(disk_root, uuid), uuid, medium, mbps)
        else:
            uuid = _check_directory(disk_root, target)
            _write_identity(target, uuid, medium, mbps)
            _link_entry(disk_root, uuid, target)
        discover.remember(disk_root, uuid)
    return discover.inspect(disk_root, uuid)


def forget(disk_root: str, uuid: str, fstab: str = fstab_.PATH) -> None:
    """Remove a disk from the disk root for good, but not its data.

    The disk is marked as forgotten, even if it is not in the disk root any
    more. Preparing it again restores its identity and removes the mark. It
    gets no new vdisks meanwhile. If it cannot be removed it stays as it was.

    :raises DiskError: the disk holds vdisks, hangs, or is in use otherwise.
    """
    disk_root = os.path.realpath(disk_root)
    path = discover.disk_path(disk_root, uuid)
    with files.disk_errors(path):
        before = _require_no_vdisks(disk_root, uuid)
        # the steps take seconds, and it is looked at once no vdisk comes
        discover.set_draining(disk_root, uuid, True)
        try:
            disk = _require_no_vdisks(disk_root, uuid)
            # the mark has no effect while the entry exists
            discover.set_forgotten(disk_root, uuid, True)
            if files.exists(path):
                _remove_entry(path, uuid, fstab)
        except (
            exception.DiskError, OSError, KeyboardInterrupt, SystemExit
        ):  # fmt: skip
            if files.exists(path):
                discover.set_forgotten(disk_root, uuid, False)
                discover.set_draining(disk_root, uuid, before.draining)
            raise
        discover.set_draining(disk_root, uuid, False)
        _remove_standby(disk, path)


def _require_no_vdisks(disk_root: str, uuid: str) -> discover.Disk:
    """Return a disk that answers, or is missing, and has no vdisks."""
    disk = discover.inspect(disk_root, uuid)
    if disk.health == discover.HUNG:
        raise exception.DiskError(
            f'disk {uuid} is {disk.health} and may hold vdisks'
        )
    if disk.vdisks:
        raise exception.DiskError(
            f'disk {uuid} holds {len(disk.vdisks)} vdisks: delete their '
            'volumes and snapshots or move them away first'
        )
    return disk


def _remove_entry(path: str, uuid: str, fstab: str) -> None:
    if naming.is_entry(path):
        lvm_prepare.export(uuid)
    if os.path.islink(path):
        os.unlink(path)
        return
    if files.is_mount_point(path):
        commands.run('umount', path, attempts=commands.DEVICE_ATTEMPTS)
    fstab_.remove(fstab, path)
    os.rmdir(path)


def _remove_standby(disk: discover.Disk, path: str) -> None:
    """Remove the standby timeout that the agent has set on a disk.

    The agent does not look at a disk without an entry.
    """
    if not standby.is_marked(path):
        return
    if disk.device:
        try:
            hdparm.set_standby(block_queue.exclusive_device(disk.device), 0)
        except (exception.DiskError, OSError) as error:
            LOG.warning(
                'Disk %s may keep its standby timeout until it loses power: '
                '%s',
                disk.uuid,
                error,
            )
    standby.set_mark(path, False)


def _require_directory(
    target: str,
    mode: int,
    wipe: bool,
    lvm_options: lvm_prepare.Options | None,
) -> None:
    """Refuse what is no directory, and what takes a device.

    :param mode: type and permissions, as of ``os.stat``.
    """
    if lvm_options:
        raise exception.DiskError(
            f'{target} is no block device: LVM needs one'
        )
    if not stat.S_ISDIR(mode):
        raise exception.DiskError(
            f'{target} is neither a block device nor a directory'
        )
    if wipe:
        raise exception.DiskError(
            f'{target} is a directory; only devices can be wiped'
        )


def _sole(device: str, number: int) -> contextlib.AbstractContextManager[None]:
    refusal = f'{device} is being prepared by another process'
    return files.sole(f'prepare-{number}', exception.DiskError(refusal))


def _release(disk_root: str, device: str, fstab: str) -> None:
    """Release a device that is to be wiped, and its partitions.

    A filesystem that is mounted is in use, or can be completed.

    :raises DiskError: one of them is a disk of this host that is not mounted,
        or is in fstab. A killed run has made the mount point of a disk, but
        not its line there.
    """
    whole = block.inspect(device)
    if whole.on_root_disk:
        # it is refused for that
        return
    for path in (device, *whole.partitions):
        inspected = whole if path == device else block.inspect(path)
        uuid = block.prepared_uuid(inspected)
        if uuid and not inspected.mountpoints:
            entry = os.path.join(disk_root, uuid)
            if os.path.lexists(entry) and fstab_.has(fstab, entry):
                raise exception.DiskError(
                    f'{path} is in use: it is disk {uuid}; forget that first'
                )
        _check_boot(disk_root, path, inspected, fstab)
        lvm_prepare.release(disk_root, path)


def _check_boot(
    disk_root: str, path: str, device: block.Device, fstab: str
) -> None:
    """Check that a device is not mounted at a boot, as a directory may be.

    :raises DiskError: it is, and is not mounted now.
    """
    tags = [
        (tag, value)
        for _, label, uuid in device.signatures
        for tag, value in (('UUID', uuid), ('LABEL', label))
    ]
    target = fstab_.target_of(fstab, path, tags)
    # a killed forget has left a line for a disk without an entry
    is_left = (
        target
        and os.path.dirname(target) == disk_root
        and not os.path.lexists(target)
    )
    if target and not is_left and not device.mountpoints:
        raise exception.DiskError(
            f'{path} is in use: {fstab} has it mounted at {target}; remove '
            'that line first, if nobody needs it'
        )


def _prepare_device(
    disk_root: str, device: str, medium: str | None, wipe: bool, fstab: str
) -> str:
    inspected = block.inspect(device)
    uuid = block.prepared_uuid(inspected)
    commands.require('mkfs.xfs', 'mount')
    fstab_.check(fstab)
    if uuid is None or not _can_complete(disk_root, inspected, uuid, wipe):
        refusal = block.refusal_reason(inspected, wipe)
        if refusal:
            raise exception.DiskError(f'{device} {refusal}')
        if wipe or block.mkfs_interrupted(device):
            _require_medium(device, medium)
            _remove_unused(disk_root, uuid, fstab)
            block.wipe(inspected)
            uuid = None
        if uuid is None:
            _require_medium(device, medium)
            uuid = str(uuidlib.uuid4())
            block.make_filesystem(device, uuid)
        path = os.path.join(disk_root, uuid)
        if files.is_mount_point(path):
            raise exception.DiskError(
                f'{device} is a copy: another disk is mounted at {path}'
            )
        os.makedirs(path, exist_ok=True)
        commands.run('mount', '-o', 'noatime', device, path)
    # a mapped device may be opened by a key from the network
    is_mapped = os.path.realpath(device).startswith(_MAPPED)
    fstab_.add(fstab, uuid, os.path.join(disk_root, uuid), waits=not is_mapped)
    return uuid


def _can_complete(
    disk_root: str, device: block.Device, uuid: str, wipe: bool
) -> bool:
    """Tell whether a device is mounted as a disk, and can be completed.

    If it is to be wiped, only one without an identity: a killed run has wiped
    it.
    """
    path = os.path.join(disk_root, uuid)
    if device.mountpoints != (path,):
        return False
    return not wipe or identity.read(path) is None


def _require_medium(device: str, medium: str | None) -> None:
    """Check that the medium of a device is given or known."""
    identity.choose(device, '', medium, None, sysfs.find_device(device))


def _remove_unused(disk_root: str, uuid: str | None, fstab: str) -> None:
    """Remove the mount point that a killed run has made, but not used."""
    if uuid is None:
        return
    path = os.path.join(disk_root, uuid)
    if not fstab_.has(fstab, path):
        # it is missing, mounted or not empty
        with contextlib.suppress(OSError):
            os.rmdir(path)


def _check_directory(disk_root: str, directory: str) -> str:
    """Return the identity of a directory, a new one if it has none."""
    if not mounts.is_mount_point(directory):
        raise exception.DiskError(
            f'{directory} is not a mount point: a disk must be a '
            'filesystem of its own'
        )
    if _are_one_filesystem(directory, '/'):
        raise exception.DiskError(f'{directory} is on the root disk')
    for disk in discover.wait_for_all(disk_root):
        if (
            disk.health not in discover.UNAVAILABLE
            # no filesystem is mounted there, and it may lead nowhere
            and not naming.is_entry(disk.path)
            and not os.path.samefile(disk.path, directory)
            and _are_one_filesystem(directory, os.path.realpath(disk.path))
        ):
            raise exception.DiskError(
                f'{directory} is on the same filesystem as disk {disk.uuid}'
            )
    before = identity.read(directory)
    return before.uuid if before else str(uuidlib.uuid4())


def _are_one_filesystem(one: str, other: str) -> bool:
    """Tell whether two mount points are of one filesystem.

    They may be subvolumes of it.
    """
    if os.stat(one).st_dev == os.stat(other).st_dev:
        return True
    device = mounts.device(one)
    return device is not None and device == mounts.device(other)


def _write_identity(
    path: str, uuid: str, medium: str | None, mbps: int | None
) -> None:
    before = identity.read(path)
    block_device = sysfs.find_filesystem_device(path)
    chosen = identity.choose(path, uuid, medium, mbps, block_device, before)
    vdisks.make_directory(path)
    if before != chosen:
        identity.write(path, chosen)


def _link_entry(disk_root: str, uuid: str, directory: str) -> None:
    path = os.path.join(disk_root, uuid)
    if not os.path.lexists(path):
        os.symlink(directory, path)
    elif os.path.realpath(path) != directory:
        raise exception.DiskError(
            f'{directory} is a copy: disk {uuid} is at '
            f'{os.path.realpath(path)}'
        )
