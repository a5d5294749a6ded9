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

"""Makes a device or a directory a disk of this host, and undoes it.

Every step looks before it acts, so that a run that was killed anywhere is
completed by the next one. What ties a device to its identity from the first
moment on is its filesystem: labelled as ours, its UUID is the identity.
"""

import collections.abc
import contextlib
import os
import stat
import uuid as uuidlib

from nova_diskplacer import exception
from nova_diskplacer.disks import block
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import identity
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import prepare as lvm_prepare
from nova_diskplacer.host import commands
from nova_diskplacer.host import fstab as fstab_
from nova_diskplacer.host import sysfs


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

    :param target: a block device, or the mount point of a filesystem.
    :param medium: hdd or ssd; None: what the disk has, or the kernel says.
    :param mbps: throughput in MB/s; None: what the disk has, or the default
        of its medium.
    :param wipe: destroy what is on the device. A device in use is refused
        all the same.
    :param lvm_options: how to make a device a volume group; None: it is
        made a filesystem.
    :raises DiskError: the target is refused, or a step failed; says why.
    """
    with _explained(target):
        disk_root = os.path.realpath(disk_root)
        target = os.path.realpath(target)
        mode = os.stat(target).st_mode
        os.makedirs(disk_root, mode=0o755, exist_ok=True)
        if stat.S_ISBLK(mode) and wipe:
            lvm_prepare.check_forgotten(disk_root, target)
        if stat.S_ISBLK(mode) and lvm_options:
            uuid = lvm_prepare.prepare(
                disk_root, target, medium, mbps, wipe, lvm_options
            )
        elif lvm_options:
            raise exception.DiskError(
                f'{target} is no block device: LVM takes one'
            )
        elif stat.S_ISBLK(mode):
            uuid = _device(disk_root, target, wipe, fstab)
            _identify(os.path.join(disk_root, uuid), uuid, medium, mbps)
        elif not stat.S_ISDIR(mode):
            raise exception.DiskError(
                f'{target} is neither a block device nor a directory'
            )
        elif wipe:
            raise exception.DiskError(
                f'{target} is a directory; only devices can be wiped'
            )
        else:
            uuid = _check_directory(disk_root, target)
            _identify(target, uuid, medium, mbps)
            _link(disk_root, uuid, target)
        discover.set_forgotten(disk_root, uuid, False)
    return discover.inspect(disk_root, uuid)


def forget(disk_root: str, uuid: str, fstab: str = fstab_.PATH) -> None:
    """Take a disk out of the disk root for good; what is on it stays.

    A mark is left that it was forgotten, also of a disk that is not in the
    disk root any more. When it is prepared again it has the identity that it
    had, and the mark goes.

    :raises DiskError: vdisks are on it, or it is in use otherwise.
    """
    disk_root = os.path.realpath(disk_root)
    path = discover.disk_path(disk_root, uuid)
    with _explained(path):
        disk = discover.inspect(disk_root, uuid)
        if disk.health == discover.HUNG:
            raise exception.DiskError(
                f'disk {uuid} is {disk.health}: it is not known whether it '
                'holds vdisks'
            )
        held = len(disk.vdisks)
        if held:
            raise exception.DiskError(
                f'disk {uuid} holds {held} vdisks: delete their volumes and '
                'snapshots or move them away first'
            )
        # it does not count while the entry is there
        discover.set_forgotten(disk_root, uuid, True)
        if not os.path.lexists(path):
            return
        if naming.is_entry(path):
            lvm_prepare.export(uuid)
        if os.path.islink(path):
            os.unlink(path)
            return
        if os.path.ismount(path):
            commands.run_retry('umount', path)
        fstab_.remove(fstab, path)
        os.rmdir(path)


def _device(disk_root: str, device: str, wipe: bool, fstab: str) -> str:
    known = block.inspect(device)
    uuid = block.prepared_uuid(known)
    if (
        wipe
        or uuid is None
        or known.mountpoints != (os.path.join(disk_root, uuid),)
    ):
        refusal = block.refusal(known, wipe)
        if refusal:
            raise exception.DiskError(f'{device} {refusal}')
        if wipe or block.half_made(device):
            block.wipe(known)
            uuid = None
        if uuid is None:
            uuid = str(uuidlib.uuid4())
            block.make_filesystem(device, uuid)
        path = os.path.join(disk_root, uuid)
        os.makedirs(path, exist_ok=True)
        if os.path.ismount(path):
            raise exception.DiskError(
                f'{device} is a copy: another disk is mounted at {path}'
            )
        commands.run('mount', '-o', 'noatime', device, path)
    fstab_.add(fstab, uuid, os.path.join(disk_root, uuid))
    return uuid


def _check_directory(disk_root: str, directory: str) -> str:
    """Return the identity of a directory, a new one if it has none."""
    if not os.path.ismount(directory):
        raise exception.DiskError(
            f'{directory} is not a mount point: a disk must be a '
            'filesystem of its own'
        )
    filesystem = os.stat(directory).st_dev
    if filesystem == os.stat('/').st_dev:
        raise exception.DiskError(f'{directory} is on the root disk')
    for disk in discover.discover(disk_root):
        if (
            disk.health != discover.MISSING
            and os.stat(disk.path).st_dev == filesystem
            and not os.path.samefile(disk.path, directory)
        ):
            raise exception.DiskError(
                f'{directory} is on the same filesystem as disk {disk.uuid}'
            )
    known = identity.read(directory)
    return known.uuid if known else str(uuidlib.uuid4())


def _identify(
    path: str, uuid: str, medium: str | None, mbps: int | None
) -> None:
    known = identity.read(path)
    if medium is None:
        medium = (
            known.medium
            if known
            else identity.medium(sysfs.find_filesystem_device(path))
        )
    if medium is None:
        raise exception.DiskError(
            f'{path} has no block device of its own that tells its medium: '
            'give --medium'
        )
    if mbps is None:
        kept = known if known and known.medium == medium else None
        mbps = kept.mbps if kept else identity.DEFAULT_MBPS[medium]
    vdisks.make_directory(path)
    wanted = identity.Identity(uuid, medium, mbps)
    if known != wanted:
        identity.write(path, wanted)


def _link(disk_root: str, uuid: str, directory: str) -> None:
    path = os.path.join(disk_root, uuid)
    if not os.path.lexists(path):
        os.symlink(directory, path)
    elif os.path.realpath(path) != directory:
        raise exception.DiskError(
            f'{directory} is a copy: disk {uuid} is at '
            f'{os.path.realpath(path)}'
        )


@contextlib.contextmanager
def _explained(target: str) -> collections.abc.Iterator[None]:
    try:
        yield
    except OSError as error:
        raise exception.DiskError(f'{target}: {error.strerror}') from error
