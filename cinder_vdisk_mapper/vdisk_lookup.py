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

"""Finds usable disks of a backend and the vdisks on them."""

import collections.abc

from cinder_vdisk_mapper.backend import base
from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import VDisk


def usable_disks(
    disks: collections.abc.Iterable[discover.Disk], media: str
) -> list[discover.Disk]:
    """Return the healthy disks of a medium.

    :param media: hdd, ssd or any.
    """
    return [
        disk
        for disk in disks
        if disk.health == discover.OK and media in (flavor.ANY, disk.medium)
    ]


def check_disk(
    backend: base.Backend, disk: str | None, vdisk: str | None = None
) -> str:
    """Check that a disk is healthy and a vdisk on it is complete.

    :param disk: UUID of the disk of a volume, None if it is not bound.
    :param vdisk: None to check only the disk.
    :returns: the UUID.
    :raises DiskError: it is not so.
    """
    if not disk:
        raise exception.DiskError('the volume is not bound to a disk')
    health = backend.disk(disk).health
    if health != discover.OK:
        raise exception.DiskError(f'disk {disk} of this host is {health}')
    if vdisk:
        usable_vdisk(backend, disk, vdisk)
    return disk


def find_vdisk(
    backend: base.Backend, disk: str, name: str
) -> tuple[discover.Disk, VDisk]:
    """Return a disk and the vdisk of that name on it, complete or not.

    :raises DiskError: the disk does not hold it, or is not there.
    """
    current = backend.disk(disk)
    for vdisk in current.vdisks:
        if vdisk.name == name:
            return current, vdisk
    raise exception.DiskError(
        f'vdisk {name} is not on disk {disk} ({current.health}) of this host'
    )


def usable_vdisk(
    backend: base.Backend, disk: str, name: str
) -> tuple[discover.Disk, VDisk]:
    """Return a disk and the vdisk of that name on it, which is complete.

    :raises DiskError: the disk does not hold it or is not there, or the
        vdisk is not complete.
    """
    current, vdisk = find_vdisk(backend, disk, name)
    if not vdisk.usable:
        raise exception.DiskError(
            f'vdisk {name} on disk {disk} is not complete: repeat the '
            'extension that was interrupted, or delete it'
        )
    return current, vdisk


def disks_holding(backend: base.Backend, name: str) -> list[str]:
    """Return the UUIDs of the disks that hold a vdisk of that name.

    After an interrupted move there are several.
    """
    return [
        disk.uuid
        for disk in backend.disks()
        if any(vdisk.name == name for vdisk in disk.vdisks)
    ]
