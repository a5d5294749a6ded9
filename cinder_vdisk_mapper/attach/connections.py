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

"""Attaches vdisks to servers of this host, and to other hosts for copies."""

import contextlib
import dataclasses
import functools
import socket
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any
from typing import Protocol

from cinder import context as cinder_context
from cinder import objects
from cinder.volume import volume_utils
from oslo_config import cfg
from oslo_log import log as logging

from cinder_vdisk_mapper import conf
from cinder_vdisk_mapper.attach import bind_failures
from cinder_vdisk_mapper.attach import bind_request
from cinder_vdisk_mapper.attach import binding
from cinder_vdisk_mapper.attach import copy_links
from cinder_vdisk_mapper.attach import export
from cinder_vdisk_mapper.attach import handover
from cinder_vdisk_mapper.attach.bind_request import BindRequest
from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.releases import models
from cinder_vdisk_mapper.cinder_api.types import Connector
from cinder_vdisk_mapper.cinder_api.types import ModelUpdate
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.cinder_api.types import attachments
from cinder_vdisk_mapper.cinder_api.types import is_used_by_cinder
from cinder_vdisk_mapper.vdisks import event_log
from cinder_vdisk_mapper.vdisks import linking
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks.layouts import Operations
from nova_diskplacer import exception
from nova_diskplacer.disks.location import Location

CONF = cfg.CONF

LOG = logging.getLogger(__name__)

# Statuses of volumes that cinder-backup or a migration fills: both truncate
# a file first.
_BEING_FILLED = ('creating', 'restoring-backup')

# Status of the volumes that Cinder exports anew when it starts.
_EXPORTED_AT_START = 'in-use'

_DELETING = 'deleting'

# Status of a volume that Cinder itself reads: it attaches and detaches it,
# without an attachment in the database.
_UPLOADING = 'uploading'


class Moves(Protocol):
    """The moves of servers, see ``server_moves``."""

    def create_export(
        self,
        context: Any,
        volume: Volume,
        connector: Connector,
        request: BindRequest,
    ) -> ModelUpdate | None:
        """Return the changes of a volume that moves, None for others."""

    def initialize_connection(
        self, volume: Volume, connector: Connector
    ) -> dict[str, Any] | None:
        """Return the connection to a volume that moves, None for others."""

    def terminate_connection(
        self, volume: Volume, connector: Connector | None
    ) -> bool | None:
        """Return whether an export stays; None for what does not move."""

    def remove_export(self, volume: Volume) -> bool:
        """Return whether a volume moves, whose export is cared for."""

    def check_whole(self, volume: Volume) -> None:
        """Raise BindingError if the data of a volume may be elsewhere."""


@dataclasses.dataclass
class Connections:
    """Binds volumes when they are attached and returns their connections.

    :param host: Cinder host of this backend.
    :param configuration: of this backend.
    :param target_drivers: class path by ``target_helper``.
    :param moves: of servers to other hosts, None where Cinder has no
        database, as in cinderlib.
    """

    host: str
    configuration: Any
    operations: Operations
    target_drivers: dict[str, str]
    moves: Moves | None = None

    def __post_init__(self) -> None:
        self._hostname = str(volume_utils.extract_host(self.host, 'host'))

    @property
    def names(self) -> frozenset[str]:
        """Names that this host may have in a connector."""
        # os-brick reads the hostname each time, and it may have changed
        return frozenset((self._hostname, CONF.host, socket.gethostname()))

    @functools.cached_property
    def exporter(self) -> export.Exporter:
        """Exports vdisks to other hosts; made when it is first used."""
        return export.Exporter(self.configuration, self.target_drivers)

    @property
    def _makes_devices(self) -> bool:
        """True if the next server attaches a device made for the vdisk."""
        return (
            self.operations.backend.makes_devices
            and self.configuration.vdisk_connection == conf.BLOCK
        )

    @property
    def protocol(self) -> str:
        """The ``driver_volume_type`` of new attachments."""
        if self._makes_devices:
            return base.BLOCK_DEVICE
        return self.operations.backend.connection_type

    @bind_failures.counted
    def create_export(
        self, context: Any, volume: Volume, connector: Connector
    ) -> ModelUpdate | None:
        """Bind a volume, or hand it over to the host of its server.

        A device that has to be made for this host is made when the volume is
        connected, which follows.

        :raises DiskPlacerError: it cannot be attached on that host, or no
            disk may hold it.
        """
        here = connector.get('host') in self.names
        binder = binding.Binder(
            self.operations, self.configuration.vdisk_media
        )
        request = bind_request.read(
            context, volume, self.configuration.vdisk_default_mapping
        )
        if self.moves and request.server:
            moved = self.moves.create_export(
                context, volume, connector, request
            )
            if moved is not None:
                return moved
        elif self.moves:
            # of Cinder itself, such as a backup or its restoration
            self.moves.check_whole(volume)
        if not here and not export.needs_remote_export(volume):
            handover.hand_over(
                self.operations, context, volume, request, connector['host']
            )
            return None
        name = naming.volume(volume)
        location = linking.where(self.operations.backend, volume)
        update: ModelUpdate = {}
        if location:
            self._check_attachable(context, volume, request)
            self.operations.backend.check_location(location, name)
            for disk in location.disks:
                binder.check_max_per_disk(request, disk)
        else:
            location = self._bind_once(context, binder, volume, request)
            update = naming.bound_to(location)
        if not here:
            vdisk = self.operations.at(location, name)
            vdisk.activate(volume)
            update |= self.exporter.create(
                context, volume, vdisk.device_path()
            )
        return update or None

    def _bind_once(
        self,
        context: Any,
        binder: binding.Binder,
        volume: Volume,
        request: BindRequest,
    ) -> Location:
        """Bind a volume that no other request has bound meanwhile.

        The disk is saved before the volume is unlocked: a deletion, or a
        migration, that waits for the lock finds the vdisk.

        :raises DiskPlacerError: no disk may hold the volume, or it is being
            deleted, or another backend has it.
        """
        with binding.locked(request):
            linking.refresh(volume)
            self._check_attachable(context, volume, request)
            if not volume.provider_location:
                location = binder.bind(request)
                linking.save_disk(volume, location)
                server = request.server
                event_log.log_bound(
                    volume, server.uuid if server else None, location
                )
        return naming.location(volume)

    def _check_attachable(
        self, context: Any, volume: Volume, request: BindRequest
    ) -> None:
        """Check that a volume that was just read may be attached.

        :raises BindingError: it is being deleted or migrated, or another
            backend has it.
        """
        reason = ''
        if volume.status == _DELETING:
            reason = 'is being deleted'
        elif export.is_source(volume) and (
            not export.is_lost_copy(context, volume, request.server.uuid)
            if request.server
            # else the migration itself attaches it
            else is_used_by_cinder(volume)
        ):
            reason = 'is being migrated'
        elif not self._has(volume):
            reason = 'has moved to another host'
        if reason:
            raise errors.BindingError(
                f'volume {volume.id} of {volume.host} {reason} and cannot be '
                f'attached by {self.host}',
                f'the volume {reason}',
            )

    def _has(self, volume: Volume) -> bool:
        """Return whether this backend has a volume."""
        here = volume_utils.extract_host(self.host, 'backend')
        there = volume_utils.extract_host(volume.host or here, 'backend')
        return bool(here == there)

    def bind(self, volume: Volume) -> str:
        """Bind a volume for no server and return its disk."""
        if not linking.where(self.operations.backend, volume):
            # which saves the disk
            self.create_export(
                cinder_context.get_admin_context(), volume, {'host': CONF.host}
            )
            self.operations.of(volume).activate(volume)
        return volume.provider_location or ''

    def ensure_export(self, context: Any, volume: Volume) -> None:
        """Link an attached volume at start, and log if its disk is missing.

        Devices that have to be made are gone after a reboot of the host.

        An error would set the volume to error, and the disk may come back.
        The copy that an export was made for has ended with the old process;
        that of a server's move stays. A server needs its link and device also
        where an export cannot be removed.
        """
        with _logged(volume):
            if not (self.moves and self.moves.remove_export(volume)):
                self._end_export(context, volume)
        with _logged(volume):
            self._restore(volume)

    def restore_others(self, volumes: Iterable[Volume]) -> None:
        """Link attached volumes at start that Cinder does not export anew.

        A backup or a detachment of the volume, or the like, may have been
        under way when the host lost power. Nova does not go on with it.
        """
        for volume in volumes:
            if volume.status != _EXPORTED_AT_START and attachments(volume):
                try:
                    self._restore(volume)
                except Exception:  # the backend would not start
                    LOG.exception('Volume %s is not linked', volume.id)

    def _restore(self, volume: Volume) -> None:
        """Restore the link and the device of a volume, if it needs them.

        :raises DiskPlacerError: its disk is missing, or does not answer.
        """
        if not volume.provider_location:
            return
        # the start has settled what was moved and has no server
        if _has_server(volume):
            to_device = None
            if self.operations.backend.makes_devices:
                to_device = linking.attached_as_device(volume)
            self.operations.of(volume).stable_path(
                volume, wait=False, to_device=to_device
            )
        self.operations.backend.check_location(naming.location(volume))
        if attachments(volume):
            self.operations.of(volume).activate(volume)
        else:
            self._deactivate(volume)

    def remove_export(self, context: Any, volume: Volume) -> None:
        """Remove the export to another host; the volume stays bound.

        The device of the volume goes too, unless another attachment than the
        one that ends needs it.

        :param volume: Cinder passes the row of the database after a backup or
            a copy was restored.
        """
        if not volume.provider_location:
            return
        if isinstance(volume, models.Volume):
            volume = objects.Volume.get_by_id(context, volume.id)
        if self.moves and self.moves.remove_export(volume):
            return
        self._end_export(context, volume)
        self._deactivate(volume)

    def end_copy(self, context: Any, volume: Volume) -> None:
        """Remove the export of a volume that Cinder has copied to.

        All of its blocks are allocated. After that Cinder exchanges the row of
        the volume with that of the original, and deletes the original. It has
        asked for the removal of the export, too, but does not wait for it.

        :raises DiskPlacerError: its disk lacks the space, or is missing, or
            the export cannot be removed.
        """
        location = linking.where(self.operations.backend, volume)
        self._unexport(context, volume)
        if location and export.needs_remote_export(volume):
            self._allocate(volume)

    def _end_export(self, context: Any, volume: Volume) -> None:
        """Remove the export of a volume, and allocate all of its blocks.

        A volume that Cinder has copied to may be one that it deletes, because
        the copy did not fit the disk.
        """
        self._unexport(context, volume)
        if export.needs_remote_export(volume):
            try:
                self._allocate(volume)
            except exception.DiskPlacerError as error:
                # the end of the migration insists on it
                LOG.warning(
                    'Volume %s is not allocated in full: %s', volume.id, error
                )
        elif volume.status in _BEING_FILLED:
            self._allocate(volume)

    def _unexport(self, context: Any, volume: Volume) -> None:
        """Remove the export of a volume, unless another thread has done so.

        While Cinder exchanges the rows of two volumes, each names a disk of
        the other one, which is no export.
        """
        if not naming.is_exported(volume):
            return
        with locks.hold(f'volume-{volume.id}'):
            linking.refresh(volume)
            if naming.is_exported(volume) and not naming.names_other_disk(
                volume
            ):
                self.exporter.remove(context, volume, self.local_path(volume))

    def _allocate(self, volume: Volume) -> None:
        """Allocate the blocks again that were truncated or left out."""
        linking.where(self.operations.backend, volume)
        self.operations.of(volume).extend(volume.size, restores=True)

    def _deactivate(self, volume: Volume) -> None:
        """Remove the device of a volume that one attachment at most has."""
        try:
            with locks.hold(f'volume-{volume.id}'):
                linking.refresh(volume)
                # of an upload, the attachment is that of a server
                ends = 0 if volume.status == _UPLOADING else 1
                if len(attachments(volume)) <= ends:
                    self.operations.of(volume).deactivate()
        except exception.DiskError as error:
            # a server that has it open still: the next detachment removes it
            LOG.info('Volume %s keeps its device: %s', volume.id, error)

    def initialize_connection(
        self, volume: Volume, connector: Connector, initiator_data: Any = None
    ) -> dict[str, Any]:
        """Return the connection by which a host attaches a volume.

        :raises DiskPlacerError: the volume cannot be attached.
        """
        if self.moves and _has_server(volume):
            moved = self.moves.initialize_connection(volume, connector)
            if moved is not None:
                return moved
        if not self._has(volume):
            return handover.connect_by_new_backend(volume, connector)
        backend, path = self.operations.backend, None
        if linking.where(backend, volume) and _has_server(volume):
            path = self.operations.of(volume).stable_path(
                volume, to_device=self._to_device(volume)
            )
        # a drain may have moved it in between
        location = naming.location(volume)
        name = naming.volume(volume)
        backend.check_location(location, name)
        self._activate(volume, location, name)
        if connector.get('host') not in self.names:
            return self.exporter.connection(volume, connector)
        device_path = path or self.local_path(volume)
        if not path and copy_links.is_needed(volume):
            device_path = copy_links.add(volume, device_path, self.host)
        return {
            'driver_volume_type': base.BLOCK_DEVICE
            if path and backend.is_linked_to_device(name)
            else backend.connection_type,
            'data': {
                'device_path': device_path,
                'vdisk': {'disk': str(location), 'host': self._hostname},
            },
        }

    @bind_failures.counted
    def _activate(self, volume: Volume, location: Location, name: str) -> None:
        """Make the device of a volume that is being attached."""
        self.operations.at(location, name).activate(volume)

    def _to_device(self, volume: Volume) -> bool | None:
        """Return whether the link of a volume is to lead to a device.

        What a server has it attached as stays, also while Cinder itself copies
        the volume, or a user attaches it once more.

        :returns: None to keep what it is.
        """
        if not self.operations.backend.makes_devices:
            return False
        if any(
            attachment.instance_uuid and attachment.connection_info
            for attachment in attachments(volume)
        ):
            return linking.attached_as_device(volume)
        return self._makes_devices

    def terminate_connection(
        self, volume: Volume, connector: Connector | None
    ) -> bool | None:
        """Revoke the access of another host; do nothing for this one.

        :returns: whether the export stays, None if Cinder may remove it.
        """
        if self.moves:
            stays = self.moves.terminate_connection(volume, connector)
            if stays is not None:
                return stays
        if connector and connector.get('host') not in self.names:
            self.exporter.disconnect(volume, connector)
        elif copy_links.is_needed(volume):
            copy_links.remove(volume, self.host)
        return None

    def local_path(self, volume: Volume) -> str:
        """Return the path of a bound volume."""
        return self.operations.of(volume).device_path()


def _has_server(volume: Volume) -> bool:
    """Return whether a server has attached the volume, or is about to."""
    return any(attachment.instance_uuid for attachment in attachments(volume))


@contextlib.contextmanager
def _logged(volume: Volume) -> Iterator[None]:
    """Log an error of a volume, which does not end the start."""
    try:
        yield
    except exception.DiskPlacerError as error:
        LOG.error('Volume %s: %s', volume.id, error)
