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

"""Makes a device a volume group that is a disk of this host, and undoes it.

One command makes the group and gives it its identity. Whatever is missing
then is completed by the next run; the entry in the disk root comes last.
"""

import dataclasses
import json
import os
import uuid as uuidlib

from nova_diskplacer import exception
from nova_diskplacer.disks import block
from nova_diskplacer.disks import identity
from nova_diskplacer.disks.lvm import blockcopy
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import steps
from nova_diskplacer.host import sysfs

# A volume that all that is free is zeroed by.
_ZEROING = 'zeroing'

# A pool maps its chunks by its metadata. Twice what LVM reckons, which is 64
# bytes for a chunk, has room for snapshots of all of them.
_MAP_BYTES = 128
_MIN_CHUNK = 64 << 10
_MIN_METADATA = 16 << 20
_MAX_METADATA = 2 << 30


@dataclasses.dataclass(frozen=True)
class Options:
    """How a new volume group gives space to vdisks.

    ``thin``: from a thin pool that takes all of it. ``zero``: all that is
    free in a thick one reads as zeros from the beginning.
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
    """Prepare a device as a volume group; complete or confirm a prepared one.

    :returns: the identity of the disk.
    :raises DiskError: the device is refused, or a step failed; says why.
    """
    known = block.inspect(device)
    uuid = None if wipe else _prepared_uuid(known)
    if uuid is None:
        refusal = block.refusal(_without_orphan(known), wipe)
        if refusal:
            raise exception.DiskError(f'{device} {refusal}')
        if not wipe and block.prepared_uuid(known):
            raise exception.DiskError(
                f'{device} is a disk with a filesystem; --wipe destroys it'
            )
        if wipe:
            block.wipe(known)
        uuid = _create(device, medium, mbps)
    else:
        _come_back(uuid, device)
        _identify(uuid, medium, mbps)
    entry = os.path.join(disk_root, uuid)
    if os.path.lexists(entry):
        if not groups.is_entry(entry):
            raise exception.DiskError(f'{entry} is another disk')
        if options.thin and not groups.require(uuid).thin:
            raise exception.DiskError(
                f'disk {uuid} is thick: forget it, then --wipe and --thin '
                'make it thin'
            )
        return uuid
    _fit_out(uuid, options)
    os.symlink('/dev/' + groups.group_name(uuid), entry)
    return uuid


def check_forgotten(disk_root: str, device: str) -> None:
    """See that a device that is to be wiped is not a disk of this host.

    A volume group without volumes does not look like one in use.

    :raises DiskError: it is.
    """
    uuid = _prepared_uuid(block.inspect(device))
    if uuid and os.path.lexists(os.path.join(disk_root, uuid)):
        raise exception.DiskError(
            f'{device} is in use: it is disk {uuid}; forget that first'
        )


def export(uuid: str) -> None:
    """Have no host use a volume group until it is prepared again.

    Nothing is done if it is not there, or has been exported.

    :raises DiskError: it is in use.
    """
    group = groups.find(uuid)
    if group is not None and not group.exported:
        groups.let_go('vgchange', '--activate', 'n', group.name)
        if group.zeroed:
            # to be exported and to be imported
            steps.mark_zeroed(uuid, changes=2)
        groups.run('vgexport', group.name)


def pool_geometry(size_bytes: int) -> tuple[int, int]:
    """Return the bytes of a chunk and of the metadata of a pool.

    :param size_bytes: what the pool may take, metadata included.
    """
    chunk = _MIN_CHUNK
    while size_bytes // chunk * _MAP_BYTES > _MAX_METADATA:
        chunk *= 2
    return chunk, max(_MIN_METADATA, size_bytes // chunk * _MAP_BYTES)


def _prepared_uuid(device: block.Device) -> str | None:
    """Return the identity of a device that is a disk's volume group."""
    name = _group_on(device)
    if not name or not name.startswith(groups.PREFIX):
        return None
    uuid = name.removeprefix(groups.PREFIX)
    _let_in(device.path)
    group = groups.find(uuid)
    if group is None or group.identity.uuid != uuid:
        raise exception.DiskError(
            f'{device.path} carries volume group {name}, which is no disk'
        )
    return uuid


def _group_on(device: block.Device) -> str | None:
    """Return the name of the volume group on a device.

    '' if it is a physical volume of none, None if it is no physical volume.
    """
    if [signature[0] for signature in device.signatures] != ['LVM2_member']:
        return None
    _let_in(device.path)
    listed = groups.run(
        'pvs', '--reportformat', 'json', '--options', 'vg_name', device.path
    )
    name: str = json.loads(listed)['report'][0]['pv'][0]['vg_name']
    return name


def _without_orphan(device: block.Device) -> block.Device:
    """Return a device without what a run that was killed has left on it."""
    if _group_on(device) == '':
        return dataclasses.replace(device, signatures=())
    return device


def _let_in(device: str) -> None:
    """Have LVM use a device, where it uses listed ones only."""
    try:
        listed = groups.run(
            'lvmconfig', '--typeconfig', 'full', 'devices/use_devicesfile'
        )
    except exception.DiskError:
        # an LVM that has no such list
        return
    if listed.strip() == 'use_devicesfile=1':
        groups.run('lvmdevices', '--yes', '--adddev', device)


def _create(device: str, medium: str | None, mbps: int | None) -> str:
    if medium is None:
        medium = identity.medium(sysfs.of_device(device))
    if medium is None:
        raise exception.DiskError(
            f'{device} does not tell its medium: give --medium'
        )
    uuid = str(uuidlib.uuid4())
    wanted = identity.Identity(
        uuid, medium, mbps or identity.DEFAULT_MBPS[medium]
    )
    # not --yes: LVM itself refuses a device on which it finds anything
    groups.run(
        'vgcreate',
        *(
            f'--addtag={tag}'
            for tag in [groups.TAG, *groups.identity_tags(wanted)]
        ),
        groups.group_name(uuid),
        device,
    )
    return uuid


def _come_back(uuid: str, device: str) -> None:
    group = groups.find(uuid)
    if group is None:
        raise exception.DiskError(f'{device}: its volume group is away')
    if len(group.devices) != 1 or not os.path.samefile(
        group.devices[0], device
    ):
        raise exception.DiskError(
            f'{device} is not the only device of {group.name}: '
            + ', '.join(group.devices)
        )
    if group.exported:
        groups.run('vgimport', group.name)
    groups.run('vgchange', '--activate', 'y', group.name)


def _identify(uuid: str, medium: str | None, mbps: int | None) -> None:
    known = groups.require(uuid).identity
    medium = medium or known.medium
    if mbps is None:
        kept = medium == known.medium
        mbps = known.mbps if kept else identity.DEFAULT_MBPS[medium]
    wanted = identity.Identity(uuid, medium, mbps)
    old, new = (set(groups.identity_tags(one)) for one in (known, wanted))
    if old != new:
        steps.retag(uuid, old, new)


def _fit_out(uuid: str, options: Options) -> None:
    """Make the pool of a new group, or zero what is free in it."""
    group = groups.require(uuid)
    if any(volume.name == _ZEROING for volume in group.volumes):
        groups.let_go('lvremove', '--yes', f'{group.name}/{_ZEROING}')
        group = groups.require(uuid)
    if group.volumes or group.thin:
        return
    if options.thin:
        chunk, metadata = pool_geometry(group.size_bytes)
        groups.run(
            'lvcreate', '--type', 'thin-pool', '--name', groups.POOL,
            '--extents', '100%FREE', '--zero', 'y',
            '--chunksize', f'{chunk}b',
            '--poolmetadatasize', f'{metadata}b', group.name,
        )  # fmt: skip
    elif options.zero and not group.zeroed:
        groups.run(
            'lvcreate', '--name', _ZEROING, '--extents', '100%FREE',
            '--wipesignatures', 'n', group.name,
        )  # fmt: skip
        blockcopy.zero(f'/dev/{group.name}/{_ZEROING}')
        groups.let_go('lvremove', '--yes', f'{group.name}/{_ZEROING}')
        steps.mark_zeroed(uuid)
