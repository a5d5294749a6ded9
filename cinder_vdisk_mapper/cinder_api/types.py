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

"""Attributes of Cinder's objects that the driver uses, for type checkers.

And what some of them mean.
"""

from collections.abc import Sequence
from typing import Any
from typing import Protocol

Connector = dict[str, Any]

# Migration statuses of volumes that Cinder does not migrate now; a request to
# reset it to ``none`` stores None.
_NOT_MIGRATING = frozenset((None, '', 'success', 'error'))

# Statuses of volumes that Cinder itself reads or fills: it attaches them
# without an attachment in the database.
_USED_BY_CINDER = frozenset(
    ('uploading', 'downloading', 'backing-up', 'restoring-backup')
)

# Prefix of the migration status of the volume that Cinder copies to.
_TARGET = 'target:'

#: changed columns of a volume or snapshot
ModelUpdate = dict[str, Any]


class VolumeType(Protocol):
    """See ``cinder.objects.volume_type``."""

    name: str
    extra_specs: dict[str, str] | None


class Attachment(Protocol):
    """See ``cinder.objects.volume_attachment``."""

    instance_uuid: str | None
    attach_status: str
    connector: dict[str, Any] | None
    connection_info: dict[str, Any] | None


class Volume(Protocol):
    """See ``cinder.objects.volume``."""

    id: str
    name: str
    name_id: str
    size: int
    bootable: bool
    status: str
    host: str
    service_uuid: str
    availability_zone: str
    project_id: str
    display_name: str | None
    group_id: str | None
    migration_status: str | None
    encryption_key_id: str | None
    provider_location: str | None
    provider_id: str | None
    provider_auth: str | None
    volume_type: VolumeType | None
    volume_type_id: str | None
    volume_attachment: Sequence[Attachment]

    def save(self) -> None: ...

    def conditional_update(
        self, values: dict[str, Any], expected_values: dict[str, Any]
    ) -> bool: ...

    def refresh(self) -> None: ...

    def obj_clone(self) -> 'Volume': ...


class Snapshot(Protocol):
    """See ``cinder.objects.snapshot``."""

    id: str
    volume: Volume
    volume_id: str
    volume_size: int
    status: str
    provider_location: str | None
    provider_id: str | None


def attachments(volume: Volume) -> list[Attachment]:
    """Return the attachments of a volume that are not detached."""
    return [
        attachment
        for attachment in volume.volume_attachment
        if attachment.attach_status != 'detached'
    ]


def is_used_by_cinder(volume: Volume) -> bool:
    """Return whether Cinder reads or fills a volume, or is about to.

    That is for an image or a backup; of a migration, the status tells nothing.
    """
    return volume.status in _USED_BY_CINDER


def is_migrating(migration_status: str | None) -> bool:
    """Return whether Cinder migrates a volume with this migration status.

    That includes the volume that it copies to, and a status that no release
    up to now has.
    """
    return migration_status not in _NOT_MIGRATING


def is_target(migration_status: str | None) -> bool:
    """Return whether Cinder copies to a volume with this migration status.

    It makes the volume for that, with all properties of the other one.
    """
    return (migration_status or '').startswith(_TARGET)


def target_of(volume_id: str) -> str:
    """Return the migration status of the volume that a volume is copied to."""
    return _TARGET + volume_id
