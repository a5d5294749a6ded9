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

"""Keeps ``provider_location`` and the links to volumes in agreement.

A move of a vdisk first changes its link and then ``provider_location``. Where
a killed move has left them different, the link is right.
"""

from cinder_vdisk_mapper import locations
from cinder_vdisk_mapper import locks
from cinder_vdisk_mapper import naming
from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_types import Volume
from nova_diskplacer import exception
from nova_diskplacer.disks import discover


def stable_path(backend: base.Backend, volume: Volume) -> str:
    """Return the path of a bound volume's link, which exists then.

    A striped volume has no link, because its device keeps its name.

    :raises DiskError: the link leads to a disk that is not there, or cannot
        be made.
    """
    name = naming.volume(volume)
    if locations.is_striped(volume.provider_location):
        return backend.device_path(volume.provider_location or '', name)
    if backend.linked_disk(name) != volume.provider_location:
        with locks.hold(f'volume-{volume.id}'):
            # a drain may have moved it since it was read
            volume.refresh()
            follow_link(backend, volume)
            disk = volume.provider_location
            if disk and backend.linked_disk(name) != disk:
                backend.link(disk, name)
    return backend.link_path(name)


def follow_link(backend: base.Backend, volume: Volume) -> None:
    """Save the disk of a volume's link, if the vdisk is there.

    The caller holds the lock of the volume.

    :raises DiskError: the disk of the link is not there, so that it is not
        known if it holds the volume.
    """
    name = naming.volume(volume)
    linked = backend.linked_disk(name)
    if linked is None or linked == volume.provider_location:
        return
    disk = backend.disk(linked)
    if disk.health in discover.UNAVAILABLE and not backend.forgotten(linked):
        raise exception.DiskError(
            f'volume {volume.id} was moved to disk {linked}, which is '
            f'{disk.health}'
        )
    if any(vdisk.name == name and vdisk.usable for vdisk in disk.vdisks):
        save_disk(volume, linked)


def save_disk(volume: Volume, disk: str) -> None:
    """Save the disk of a volume that is not exported to another host."""
    volume.provider_location = volume.provider_id = disk
    volume.save()
