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

"""Checks whether a copy of a volume's vdisk may be deleted.

While a vdisk is moved, and after a move that was interrupted, several disks
hold a vdisk of its name. One of them is the volume. Another one is deleted
only if the volume is known to be whole elsewhere: link and
``provider_location`` agree on its disk, the disk is healthy, and the vdisk
there is complete and at least as large.

Drains and migrations of whole vdisks ask here. Moves of legs have the tags of
the legs, and no link: :mod:`leg_move` checks them.
"""

from collections.abc import Mapping

from cinder_vdisk_mapper.backend import base
from nova_diskplacer import exception
from nova_diskplacer.disks import discover


def lack(disk: discover.Disk, name: str, size_bytes: int) -> str:
    """Return why a disk holds no whole vdisk, '' if it does.

    :param size_bytes: the least size of the vdisk.
    """
    if disk.late or disk.health != discover.OK:
        health = 'late' if disk.late else disk.health
        return f'disk {disk.uuid} is {health}'
    vdisk = disk.find(name)
    if vdisk is None:
        return f'disk {disk.uuid} holds no vdisk {name}'
    if not vdisk.usable:
        return f'vdisk {name} on disk {disk.uuid} is not complete'
    if vdisk.size_bytes < size_bytes:
        return (
            f'vdisk {name} on disk {disk.uuid} has {vdisk.size_bytes} of '
            f'{size_bytes} bytes'
        )
    return ''


def refusal(
    doomed: str,
    name: str,
    linked: str | None,
    location: str | None,
    size_bytes: int,
    disks: Mapping[str, discover.Disk],
) -> str:
    """Return why a copy may not be deleted, '' if it may.

    :param doomed: UUID of the disk with the copy.
    :param linked: that of the disk of the link, None without a link.
    :param location: ``provider_location`` of the volume.
    :param size_bytes: size of the volume.
    :param disks: both disks.
    """
    if not location:
        return 'Cinder knows no disk of its volume'
    if linked not in (None, location):
        return (
            f'its link leads to disk {linked}, and Cinder has its volume on '
            f'disk {location}'
        )
    if doomed == location:
        return 'it is the volume'
    copy = disks[doomed].find(name)
    least = max(size_bytes, copy.size_bytes if copy else 0)
    return lack(disks[location], name, least)


def check_whole(
    backend: base.Backend, disk: str, name: str, size_bytes: int
) -> None:
    """Check that a disk is healthy and holds a whole vdisk.

    :raises DiskError: it does not.
    """
    if lacking := lack(backend.disk(disk), name, size_bytes):
        raise exception.DiskError(lacking)


def check(
    backend: base.Backend,
    doomed: str,
    name: str,
    location: str | None,
    size_bytes: int = 0,
) -> bool:
    """Check that a copy may be deleted; returns whether it is there.

    :param doomed: UUID of the disk with the copy.
    :param location: ``provider_location`` of the volume.
    :param size_bytes: size of the volume, if that is known.
    :raises DiskError: it is the volume, or the volume is not known to be whole
        elsewhere.
    """
    disks = {uuid: backend.disk(uuid) for uuid in {doomed, location or doomed}}
    refused = refusal(
        doomed,
        name,
        backend.linked_disk(name),
        location,
        size_bytes,
        disks,
    )
    if refused:
        raise exception.DiskError(
            f'the copy of {name} on disk {doomed} is not deleted: {refused}'
        )
    return disks[doomed].find(name) is not None


def condemn(
    backend: base.Backend,
    doomed: str,
    name: str,
    location: str | None,
    size_bytes: int = 0,
) -> None:
    """Begin to delete a copy, for good; ``delete`` then wipes it.

    The caller holds the lock of the volume and has read it since.

    :raises DiskError: as :func:`check`, or it is in use.
    """
    if check(backend, doomed, name, location, size_bytes):
        backend.condemn(doomed, name)
