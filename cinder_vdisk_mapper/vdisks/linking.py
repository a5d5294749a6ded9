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

"""Tells where a volume is, and keeps ``provider_location`` right.

A move of a vdisk first changes its link and then ``provider_location``. A kill
or an error of the database in between leaves them different; the link is right
then. A volume without a link was never attached, and ``provider_location``
tells where it is.

Every operation on a volume begins with :func:`where`.
"""

import sys
from collections.abc import Collection

from oslo_log import log as logging

from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.cinder_api.types import attachments
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import naming
from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.location import Location

LOG = logging.getLogger(__name__)


def stable_path(
    backend: base.Backend,
    volume: Volume,
    wait: bool = True,
    to_device: bool | None = None,
) -> str:
    """Return the path of a bound volume's link, which exists then.

    The volume is not striped.

    :param wait: whether to wait for another process that works on the volume.
    :param to_device: whether the link leads to a block device that is made for
        the vdisk; None to keep what it was attached as.
    :raises DiskPlacerError: the link leads to a disk that is not there, or
        cannot be made, or another process works on the volume.
    """
    name = naming.volume(volume)
    if not _is_linked(backend, volume, to_device):
        with locks.hold(f'volume-{volume.id}', wait):
            # a drain may have moved it since it was read
            refresh(volume)
            follow_link(backend, volume)
            disk = volume.provider_location
            if disk and not _is_linked(backend, volume, to_device):
                backend.link(disk, name, to_device)
    return backend.link_path(name)


def attached_as_device(volume: Volume) -> bool | None:
    """Return whether servers expect a block device at the path of a volume.

    :returns: None if that is not known.
    """
    return expect_device(
        {
            str(attachment.connection_info.get('driver_volume_type'))
            for attachment in attachments(volume)
            if attachment.instance_uuid and attachment.connection_info
        }
    )


def expect_device(connections: Collection[str]) -> bool | None:
    """Return whether servers expect a block device at the path of a volume.

    Nova keeps the connection of an attachment, and starts the server by it.

    :param connections: the different ``driver_volume_type`` of all of them.
    :returns: None if that is not known.
    """
    if len(connections) != 1:
        return None
    return base.BLOCK_DEVICE in connections


def _is_linked(
    backend: base.Backend, volume: Volume, to_device: bool | None
) -> bool:
    """Return whether the link of a volume leads where it should."""
    name = naming.volume(volume)
    return (
        backend.linked_disk(name) == volume.provider_location
        and (
            to_device is None or backend.is_linked_to_device(name) == to_device
        )
        and not backend.is_parked(name)
    )


def where(backend: base.Backend, volume: Volume) -> Location:
    """Return the location of a volume, empty if it is not bound.

    ``provider_location`` is that location afterwards, here and in the
    database. The caller does not hold the lock of the volume.

    :raises DiskError: the disk of the link is not there, so that it is not
        known if it holds the volume, or the database does not answer.
    """
    with locks.hold(f'volume-{volume.id}'):
        # it may have been bound or moved since it was read
        refresh(volume)
        follow_link(backend, volume)
    return naming.location(volume)


@errors.cinder_errors()
def refresh(volume: Volume) -> None:
    """Read a volume again.

    cinderlib has no database that another process changes: it would read this
    very object, which Cinder's method clears first.

    :raises DiskError: the database does not answer, or has no such volume.
    """
    if 'cinderlib' not in sys.modules:
        volume.refresh()


def follow_link(backend: base.Backend, volume: Volume) -> None:
    """Save the disk of a bound volume's link, if the vdisk is there.

    A killed move may have left the link parked, which no server starts from.
    The caller holds the lock of the volume, and has read it since.

    :raises DiskError: as :func:`where`.
    """
    if not volume.provider_location:
        # the next attachment takes up a vdisk that a killed one has made
        return
    name = naming.volume(volume)
    backend.unpark_link(name)
    linked = backend.linked_disk(name)
    if linked is None or linked == volume.provider_location:
        return
    disk = backend.disk(linked)
    if disk.health in discover.UNAVAILABLE and not backend.forgotten(linked):
        raise exception.DiskError(
            f'volume {volume.id} was moved to disk {linked}, which is '
            f'{disk.health}'
        )
    if disk.find(name):
        LOG.warning(
            'Volume %s is on disk %s, where a move that was interrupted has '
            'left it, not on disk %s',
            volume.id,
            linked,
            volume.provider_location,
        )
        save_disk(volume, Location((linked,)))


@errors.cinder_errors()
def save_disk(volume: Volume, location: Location) -> None:
    """Save the disk, or disks, of a bound volume.

    :raises DiskError: the database does not answer, or has no such volume.
    """
    if not naming.is_exported(volume):
        volume.provider_id = str(location)
    volume.provider_location = str(location)
    volume.save()
