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

"""Prepares a device as a volume group, and forgets it.

One command creates the group with its identity. The next run completes what an
interrupted one has left out; the entry in the disk root is made last.
"""

import dataclasses
import os
import re
import uuid as uuidlib

from nova_diskplacer import exception
from nova_diskplacer.disks import block
from nova_diskplacer.disks import identity
from nova_diskplacer.disks.lvm import blockcopy
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import group_changes
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import report
from nova_diskplacer.host import commands as host_commands
from nova_diskplacer.host import sysfs

# A volume that takes all free space in order to zero it.
_ZEROING = 'zeroing'

# Bytes of a pool's metadata for a chunk: twice LVM's estimate, so that
# snapshots of all chunks fit.
_MAP_BYTES = 128
_MIN_CHUNK = 64 << 10
_MIN_METADATA = 16 << 20
_MAX_METADATA = 2 << 30


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of a new volume group.

    ``thin``: vdisks are volumes of a thin pool. ``zero``: a thick group is
    zeroed at once, not each vdisk when it is created.
    """

    thin: bool = False
    zero: bool = True


def prepare(
    disk_root: str,
    device: str,
    medium: str | None,
    mbps: int | None,
    wipe: bool,
    options: Options,
) -> str:
    """Prepare a device as a volume group, or complete a prepared one.

    :returns: the UUID of the disk.
    :raises DiskError: the device is refused, or a step failed.
    """
    inspected = block.inspect(device)
    group = None if wipe else _prepared_group(inspected)
    if group is None:
        if _group_on(inspected) == '':
            # an empty physical volume of a killed run
            inspected = dataclasses.replace(inspected, signatures=())
        refusal = block.refusal_reason(inspected, wipe)
        if refusal:
            raise exception.DiskError(f'{device} {refusal}')
        if not wipe and block.prepared_uuid(inspected):
            raise exception.DiskError(
                f'{device} is a disk with a filesystem; --wipe destroys it'
            )
        uuid = str(uuidlib.uuid4())
        block_device = sysfs.find_device(device)
        chosen = identity.choose(device, uuid, medium, mbps, block_device)
        # it is installed
        commands.run('vgcreate', '--version')
        if wipe:
            block.wipe(inspected)
        _create(device, chosen)
    else:
        uuid = group.identity.uuid
        _import(group, device)
        _update_identity(uuid, medium, mbps)
    entry = os.path.join(disk_root, uuid)
    if os.path.lexists(entry):
        if not naming.is_entry(entry):
            raise exception.DiskError(f'{entry} is another disk')
        if options.thin and not groups.require(uuid).thin:
            raise exception.DiskError(
                f'disk {uuid} is thick: forget it, then --wipe and --thin '
                'make it thin'
            )
        return uuid
    _create_pool_or_zero(uuid, options)
    os.symlink('/dev/' + naming.group_name(uuid), entry)
    return uuid


def release(disk_root: str, device: str) -> None:
    """Deactivate the group of a killed run on a device that is to be wiped.

    It has no entry in the disk root yet.

    :raises DiskError: the device is a disk of this host. A volume group
        without volumes does not look like one in use.
    """
    group = _prepared_group(block.inspect(device))
    if group is None:
        return
    uuid = group.identity.uuid
    if os.path.lexists(f'{disk_root}/{uuid}'):
        raise exception.DiskError(
            f'{device} is in use: it is disk {uuid}; forget that first'
        )
    if not group.exported and {volume.name for volume in group.volumes} <= {
        _ZEROING
    }:
        commands.run_retry_udev(
            'vgchange', '--activate', 'n', group.name, *_only(group)
        )


def export(uuid: str) -> None:
    """Export a volume group, so that no host uses it until the next prepare.

    Does nothing if the group is absent or exported already.
    """
    group = groups.find(uuid)
    if group is not None and not group.exported:
        commands.run_retry_udev('vgchange', '--activate', 'n', group.name)
        if group.zeroed:
            # valid after vgexport and vgimport
            group_changes.mark_zeroed(uuid, changes=2)
        commands.run('vgexport', group.name)


def pool_geometry(size_bytes: int) -> tuple[int, int]:
    """Return the bytes of a chunk and of the metadata of a pool.

    :param size_bytes: size of the pool, including metadata.
    """
    chunk = _MIN_CHUNK
    while size_bytes // chunk * _MAP_BYTES > _MAX_METADATA:
        chunk *= 2
    return chunk, max(_MIN_METADATA, size_bytes // chunk * _MAP_BYTES)


def _prepared_group(device: block.Device) -> report.Group | None:
    """Return the disk's volume group on a device, None without one."""
    name = _group_on(device)
    if not name or not name.startswith(naming.PREFIX):
        return None
    uuid = name.removeprefix(naming.PREFIX)
    # LVM need not know the device of a disk that comes from another host
    group = report.parse(report.read((device.path,))).get(name)
    if group is None or group.identity.uuid != uuid:
        raise exception.DiskError(
            f'{device.path} carries volume group {name}, which is no disk'
        )
    return group


def _group_on(device: block.Device) -> str | None:
    """Return the name of the volume group on a device.

    '' for a physical volume without a group, None for other devices.
    """
    if [signature[0] for signature in device.signatures] != ['LVM2_member']:
        return None
    listed = commands.run(
        'pvs', '--reportformat', 'json', '--options', 'vg_name', device.path,
        *commands.devices_option((device.path,)),
    )  # fmt: skip
    with host_commands.report_errors('pvs', listed):
        pvs = commands.parse_report(listed)
        return str(pvs['report'][0]['pv'][0]['vg_name'])


def _add_to_devices_file(device: str) -> None:
    """Add a device to LVM's devices file, if there is one.

    Without one, LVM uses all devices: a new one would have this device alone,
    and hide all others of the host.
    """
    try:
        listed = commands.run(
            'lvmconfig', '--typeconfig', 'full',
            'devices/use_devicesfile', 'devices/devicesfile',
        )  # fmt: skip
    except exception.DiskError:
        # an older LVM
        return
    settings = dict(re.findall(r'(\w+)="?([^"\n]*)', listed))
    directory = os.environ.get('LVM_SYSTEM_DIR') or '/etc/lvm'
    file = f'{directory}/devices/{settings.get("devicesfile")}'
    if settings.get('use_devicesfile') == '1' and os.path.exists(file):
        # Debian has no link lvmdevices
        commands.run('lvm', 'lvmdevices', '--yes', '--adddev', device)


def _create(device: str, chosen: identity.Identity) -> None:
    # without --yes LVM refuses a device with any signature
    commands.run(
        'vgcreate',
        *naming.tag_options([naming.TAG, *naming.identity_tags(chosen)]),
        naming.group_name(chosen.uuid),
        device,
    )


def _import(group: report.Group, device: str) -> None:
    if len(group.devices) != 1 or not os.path.samefile(
        group.devices[0], device
    ):
        raise exception.DiskError(
            f'{device} is not the only device of {group.name}: '
            + ', '.join(group.devices)
        )
    _add_to_devices_file(device)
    if group.exported:
        commands.run('vgimport', group.name, *_only(group))
    commands.run('vgchange', '--activate', 'y', group.name, *_only(group))


def _only(group: report.Group) -> tuple[str, ...]:
    """Return the option by which LVM finds a group where it was read."""
    return commands.devices_option(group.devices)


def _update_identity(uuid: str, medium: str | None, mbps: int | None) -> None:
    group = groups.require(uuid)
    before = group.identity
    block_device = sysfs.find_device(group.devices[0])
    chosen = identity.choose(
        group.name, uuid, medium, mbps, block_device, before
    )
    old = set(naming.identity_tags(before))
    new = set(naming.identity_tags(chosen))
    if old != new:
        group_changes.replace_tags(uuid, old, new)


def _create_pool_or_zero(uuid: str, options: Options) -> None:
    """Create the thin pool of a new group, or zero its free space."""
    group = groups.require(uuid)
    zeroing = f'{group.name}/{_ZEROING}'
    if any(volume.name == _ZEROING for volume in group.volumes):
        commands.run_retry_udev('lvremove', '--yes', zeroing)
        group = groups.require(uuid)
    if group.volumes or group.thin:
        return
    if options.thin:
        chunk, metadata = pool_geometry(group.size_bytes)
        commands.run(
            'lvcreate', '--type', 'thin-pool', '--name', naming.POOL,
            '--extents', '100%FREE', '--zero', 'y',
            '--chunksize', f'{chunk}b',
            '--poolmetadatasize', f'{metadata}b', group.name,
        )  # fmt: skip
    elif options.zero and not group.zeroed:
        commands.run(
            'lvcreate', '--name', _ZEROING, '--extents', '100%FREE',
            '--wipesignatures', 'n', group.name,
        )  # fmt: skip
        blockcopy.zero('/dev/' + zeroing)
        commands.run_retry_udev('lvremove', '--yes', zeroing)
        group_changes.mark_zeroed(uuid)
