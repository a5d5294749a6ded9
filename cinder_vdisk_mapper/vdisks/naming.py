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

"""Names of vdisks and of volumes, and the columns with a volume's disk.

The driver counts vdisks of other names and leaves them alone.
"""

from oslo_utils import uuidutils

from cinder_vdisk_mapper.cinder_api.types import ModelUpdate
from cinder_vdisk_mapper.cinder_api.types import Snapshot
from cinder_vdisk_mapper.cinder_api.types import Volume
from nova_diskplacer.disks.location import Location

# Value of the provider_id of a snapshot of an unbound volume.
_UNBOUND = 'unbound'

# Behind the UUID of a server, in the names of the volumes that Nova makes.
_BLANK_VOLUME = '-blank-vol'


def volume(volume: Volume) -> str:
    """Return the name of a volume's vdisk."""
    return f'volume-{volume.name_id}'


def snapshot(snapshot: Snapshot) -> str:
    """Return the name of a snapshot's vdisk."""
    return f'snapshot-{snapshot.id}'


def unmanaged(id_: str) -> str:
    """Return the name of a vdisk that Cinder no longer manages.

    :param id_: the id in its former name.
    """
    return f'unmanaged-{id_}'


def cloning(id_: str) -> str:
    """Return the name of a snapshot that lasts while a vdisk is copied.

    :param id_: in the name of the copy.
    """
    return f'cloning-{id_}'


def location(volume: Volume | Snapshot) -> Location:
    """Return where Cinder has a volume or snapshot, empty if unbound."""
    return Location.parse(volume.provider_location)


def created() -> ModelUpdate:
    """Return the changes of each new volume: no other one shares its target.

    Cinder saves that too, but once the volume is available, and never of
    managed volumes and copies of groups. Until then, a host without Open-iSCSI
    attaches the volume under a lock that has no name, and fails.
    """
    # Cinder writes to it
    return {'shared_targets': False}


def bound_to(location: Location | None) -> ModelUpdate:
    """Return the changes of a volume that is bound, None for an unbound one.

    No API of Cinder shows ``provider_location``. The volume's ``provider_id``
    has the disk too, which the API shows to administrators. While the volume
    is exported, it has the location of the export instead.
    """
    text = str(location) if location else None
    return {'provider_location': text, 'provider_id': text}


def snapshot_at(location: Location | None) -> ModelUpdate:
    """Return the changes of a snapshot that has been made.

    One of an unbound volume is nowhere, and is marked: one that a killed
    process has not completed is not.
    """
    if location:
        return bound_to(location)
    return {'provider_location': None, 'provider_id': _UNBOUND}


def is_of_unbound(snapshot: Snapshot) -> bool:
    """Return whether a snapshot was made of an unbound volume."""
    return snapshot.provider_id == _UNBOUND


def has_failed(snapshot: Snapshot) -> bool:
    """Return whether the creation of a snapshot was refused, or failed.

    Something that a killed process has made may be on a disk all the same.
    """
    return (
        snapshot.status == 'error'
        and not snapshot.provider_location
        and not is_of_unbound(snapshot)
    )


def is_exported(volume: Volume) -> bool:
    """Return whether a volume is, or may be, exported to another host."""
    return volume.provider_id not in (None, '', volume.provider_location)


def names_other_disk(volume: Volume) -> bool:
    """Return whether ``provider_id`` has other disks than the volume.

    That of an exported volume has the location of the export.
    """
    return is_exported(volume) and all(
        uuidutils.is_uuid_like(disk)
        for disk in (volume.provider_id or '').split(',')
    )


def server_of_blank_volume(name: str | None) -> str | None:
    """Return the UUID of the server in the name of a blank volume.

    :param name: the volume's, in Cinder's API.
    """
    if name and name.endswith(_BLANK_VOLUME):
        return name.removesuffix(_BLANK_VOLUME)
    return None
