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

"""Moves volumes between the media of one host.

The vdisk is copied from disk to disk. When the copy is safe, the volume's link
leads to it, if there is one, and ``provider_location`` is saved; then the
original is deleted. A copy on another disk than :mod:`linking` tells is a
leftover of an interrupted move.
"""

import collections
import dataclasses
import re
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from cinder import exception as cinder_exc
from cinder.volume import volume_utils
from oslo_db import exception as db_exc
from oslo_log import log as logging

from cinder_vdisk_mapper.attach import bind_request
from cinder_vdisk_mapper.attach import binding
from cinder_vdisk_mapper.attach.bind_request import BindRequest
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.types import ModelUpdate
from cinder_vdisk_mapper.cinder_api.types import Snapshot
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.cinder_api.types import attachments
from cinder_vdisk_mapper.cinder_api.types import is_used_by_cinder
from cinder_vdisk_mapper.vdisks import event_log
from cinder_vdisk_mapper.vdisks import linking
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks.layouts import Operations
from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer.disks.location import Location

LOG = logging.getLogger(__name__)

_ERRORS = (
    exception.DiskPlacerError,
    cinder_exc.CinderException,
    db_exc.DBError,
)


class BackendDisks(NamedTuple):
    """Location of the disks of a backend of this driver.

    Its text is the capability ``location_info``.
    """

    host: str
    backend: str
    disk_root: str
    media: str

    def __str__(self) -> str:
        return ':'.join(('VDiskMapper', *self))

    def shares_disks(self, other: 'BackendDisks') -> bool:
        """Return whether both use the same disks by the same backend."""
        return self._replace(media=other.media) == other


def location_of(host: str, configuration: Any) -> BackendDisks:
    """Return the location of the backend whose Cinder host is ``host``."""
    return BackendDisks(
        volume_utils.extract_host(host, 'host'),
        configuration.vdisk_backend,
        configuration.vdisk_disk_root,
        configuration.vdisk_media,
    )


def parse_location(location_info: str | None) -> BackendDisks | None:
    """Parse a reported location; None for other drivers."""
    # only the directory may contain colons
    match = re.fullmatch(
        'VDiskMapper:([^:]+):([^:]+):(.+):([^:]+)', location_info or ''
    )
    return BackendDisks(*match.groups()) if match else None


@dataclasses.dataclass
class Migration:
    """Moves volumes to other backends of this host.

    :param here: location of this backend.
    :param default_mapping: of volumes whose type has none.
    :param end_copy: see ``Connections.end_copy``.
    """

    operations: Operations
    here: BackendDisks
    default_mapping: str
    end_copy: Callable[[Any, Volume], None]

    def migrate_volume(
        self, context: Any, volume: Volume, host: dict[str, Any]
    ) -> tuple[bool, ModelUpdate | None]:
        """Move a volume that is not attached to another backend.

        :param host: of that backend, with its capabilities.
        :returns: False where Cinder has to copy it: to other hosts and other
            drivers.
        :raises DiskPlacerError: it cannot be moved.
        """
        location = linking.where(self.operations.backend, volume)
        target = parse_location(
            (host.get('capabilities') or {}).get('location_info')
        )
        if target and not location:
            with locks.hold(f'volume-{volume.id}'):
                _check_unattached(volume)
                location = naming.location(volume)
                if not location:
                    # at most a killed attempt to bind it has left a vdisk
                    self.operations.delete_everywhere(
                        location, naming.volume(volume)
                    )
                    return True, None
        if location.is_striped:
            raise errors.BindingError(
                f'volume {volume.id} is striped over disks {location} and '
                'cannot be migrated: a copy would be on one disk. Copy its '
                'content to a volume of another server, or restore a backup '
                'of it there',
                'a striped volume cannot be migrated',
            )
        disk = location.disk
        if not (target and disk and target.shares_disks(self.here)):
            return False, None
        self.operations.backend.check_disk(disk)
        self._move(volume, disk, target.media)
        return True, naming.bound_to(naming.location(volume))

    def update_migrated_volume(
        self,
        context: Any,
        volume: Volume,
        new_volume: Volume,
        original_volume_status: str,
    ) -> ModelUpdate:
        """Give a volume the vdisk that Cinder has copied it to.

        The vdisk keeps its name: the original still has the volume's name.

        :raises DiskPlacerError: the copy is not whole: the volume keeps the
            vdisk that it has.
        """
        self.end_copy(context, new_volume)
        # the caller has read it before it was bound
        location = linking.where(self.operations.backend, new_volume)
        name, disk = naming.volume(new_volume), location.disk
        if disk and original_volume_status == 'available':
            try:
                self.operations.change_owner(disk, name, volume.id)
            except exception.DiskPlacerError as error:
                # the volume has moved, and nothing depends on the owner
                LOG.warning('%s keeps its former owner: %s', name, error)
        # Cinder exchanges all other fields of both volumes afterwards
        return {
            '_name_id': new_volume.name_id,
            'provider_location': str(location) or None,
        }

    def update_provider_info(
        self, volumes: Sequence[Volume], snapshots: Sequence[Snapshot]
    ) -> tuple[list[ModelUpdate], list[ModelUpdate]]:
        """Settle interrupted moves of the volumes of this backend, at start.

        The volume of an interrupted move is where its link leads; the other
        copies are deleted. Only volumes that have a copy or a link elsewhere
        are read again. One that cannot be settled, or that another process
        works on, does not delay the start: the next operation begins with it.

        :returns: the changes of volumes whose disk the API does not tell,
            because an earlier release has bound them, or of which it tells
            the former one, because Cinder has copied them with an earlier
            release; and those of snapshots that an earlier release has made.
        """
        try:
            moved = self._moved(volumes)
        except exception.DiskPlacerError as error:
            LOG.error('Interrupted moves are not settled: %s', error)
            moved = []
        for volume in moved:
            try:
                self._settle(volume)
            except _ERRORS as error:
                LOG.error(
                    'Volume %s, whose move was interrupted, is not settled: '
                    '%s',
                    volume.id,
                    error,
                )
        return [
            {'id': volume.id, 'provider_id': volume.provider_location}
            for volume in volumes
            if volume.provider_location
            and (not volume.provider_id or naming.names_other_disk(volume))
        ], _updates_of_snapshots(snapshots)

    def _moved(self, volumes: Sequence[Volume]) -> list[Volume]:
        """Return the bound volumes with a copy or a link elsewhere."""
        backend = self.operations.backend
        links = backend.links()
        holding = collections.defaultdict(set)
        for disk in backend.disks():
            for vdisk in disk.vdisks:
                holding[vdisk.name].add(disk.uuid)

        def is_moved(volume: Volume) -> bool:
            name, disk = naming.volume(volume), naming.location(volume).disk
            if disk is None:
                return False
            return links.get(name, disk) != disk or bool(
                holding[name] - {disk}
            )

        return [volume for volume in volumes if is_moved(volume)]

    def _settle(self, volume: Volume, wait: bool = False) -> None:
        """Follow the link of a volume and delete its other copies.

        A drain finishes the moves from its disk itself.

        :param wait: whether to wait for another process that works on it.
        :raises DiskPlacerError: another one does, the disk of the volume is
            not there, or its copy is not complete.
        """
        with locks.hold(f'volume-{volume.id}', wait):
            # it may have been bound or moved since it was read
            volume.refresh()
            linking.follow_link(self.operations.backend, volume)
            disk = naming.location(volume).disk
            if disk is None:
                return
            backend, name = self.operations.backend, naming.volume(volume)
            holding = {disk, *backend.disks_holding(name)}
            if not any(backend.disk(uuid).draining for uuid in holding):
                self.operations.delete_other_copies(name, disk)

    def _move(self, volume: Volume, disk: str, media: str) -> None:
        name = naming.volume(volume)
        if media in (flavor.ANY, self.operations.backend.disk(disk).medium):
            # a killed run may have moved it already
            self._settle(volume, wait=True)
            return

        request = BindRequest(
            name=name,
            volume_id=volume.id,
            size_gb=volume.size,
            policy=bind_request.mapping_of(
                volume.volume_type, self.default_mapping
            ),
        )
        backend = self.operations.backend
        vdisk = event_log.find(backend, Location((disk,)), request.name)
        with binding.locked(request):
            _check_unattached(volume)
            binding.Binder(self.operations, media).move(
                request,
                disk,
                lambda target: linking.save_disk(volume, Location((target,))),
            )
        target = volume.provider_location or ''
        event_log.log_moved(volume, vdisk, volume.size, disk, target)


def _check_unattached(volume: Volume) -> None:
    """Check that nobody has attached a volume since it was read.

    One that is migrated is attached to no server from now on, and by Cinder
    itself only to be copied, see ``connections``. The caller holds the lock of
    the volume, which is read again.

    :raises BindingError: a server has, or Cinder for an image or a backup, or
        is about to.
    """
    linking.refresh(volume)
    if attachments(volume):
        raise errors.BindingError(
            f'volume {volume.id} is attached and cannot be migrated',
            'a volume that is attached cannot be migrated',
        )
    if is_used_by_cinder(volume):
        raise errors.BindingError(
            f'volume {volume.id} is {volume.status} and cannot be migrated',
            f'a volume that is {volume.status} cannot be migrated',
        )


def _updates_of_snapshots(snapshots: Sequence[Snapshot]) -> list[ModelUpdate]:
    """Return the owners of snapshots without one, as Cinder wants: of all.

    Those of volumes that are still unbound are marked, as long as that is
    known. A volume need not be among those that Cinder hands over with its
    snapshot.
    """
    updates = []
    for snapshot in snapshots:
        if not snapshot.provider_id:
            provider_id = naming.location(snapshot) or None
            if (
                snapshot.status == 'available'
                and provider_id is None
                and not snapshot.volume.provider_location
            ):
                mark = naming.snapshot_at(None)
            else:
                mark = naming.bound_to(provider_id)
            updates.append(
                {'id': snapshot.id, 'provider_id': mark['provider_id']}
            )
    return updates
