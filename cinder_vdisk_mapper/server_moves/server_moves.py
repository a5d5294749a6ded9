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

"""The methods of the driver, for volumes whose servers change hosts.

Each method answers for a volume that moves, or says that it does not; then the
driver does what it does for any volume.
"""

import collections.abc
import contextlib
import dataclasses
import enum
from typing import Any

from cinder import context as cinder_context
from cinder import exception as cinder_exc
from oslo_db import exception as db_exc
from oslo_log import log as logging

from cinder_vdisk_mapper.attach.bind_request import BindRequest
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.types import Connector
from cinder_vdisk_mapper.cinder_api.types import ModelUpdate
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.server_moves import checks
from cinder_vdisk_mapper.server_moves import end_move
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.server_moves.destination import Destination
from cinder_vdisk_mapper.server_moves.record import Record
from cinder_vdisk_mapper.server_moves.source import Source
from cinder_vdisk_mapper.vdisks import records
from nova_diskplacer import exception

LOG = logging.getLogger(__name__)

_ERRORS = (
    exception.DiskPlacerError,
    cinder_exc.CinderException,
    db_exc.DBError,
)


class _Role(enum.Enum):
    """The role of a backend in the move of a volume."""

    #: it has the volume, which may be about to leave
    SOURCE = 'source'
    #: it has the volume, which the source has not released yet
    ARRIVED = 'arrived'
    #: it will have the volume
    DESTINATION = 'destination'
    #: it had the volume, and has to release it
    LEFT = 'left'
    NONE = 'none'


@dataclasses.dataclass
class ServerMoves:
    """The moves of servers from and to a backend."""

    source: Source
    destination: Destination

    def create_export(
        self,
        context: Any,
        volume: Volume,
        connector: Connector,
        request: BindRequest,
    ) -> ModelUpdate | None:
        """Export a volume for a move, or bind the target of one that comes.

        :returns: the changes of the volume, None if it does not move.
        :raises DiskPlacerError: it cannot be attached there.
        """
        role, _ = self._role(volume)
        if role is _Role.DESTINATION:
            self.destination.bind(volume, request)
            return {}
        if (
            role is _Role.ARRIVED
            and connector['host'] in self.source.export.names
        ):
            return None
        try:
            if role is not _Role.SOURCE:
                raise checks.refused(volume, 'its last move has not ended')
            return self.source.attach(context, volume, connector, request)
        except errors.BindingError:
            checks.tell(context, volume)
            raise

    def initialize_connection(
        self, volume: Volume, connector: Connector
    ) -> dict[str, Any] | None:
        """Return the connection to a volume that moves, None if it does not.

        :raises DiskPlacerError: it cannot be attached there.
        """
        role, _ = self._role(volume)
        if role is _Role.SOURCE:
            return self.source.connect(volume, connector)
        if role is _Role.DESTINATION:
            return self.destination.connect(volume)
        if role is not _Role.ARRIVED and self.source.has(volume):
            raise checks.refused(volume, 'its move was aborted')
        return None

    def terminate_connection(
        self, volume: Volume, connector: Connector | None
    ) -> bool | None:
        """Go on with the move of a volume whose host is detached.

        Or the other host of its move asks this one to.

        :returns: whether the export stays, None if the volume does not move.
        :raises DiskPlacerError: it cannot be gone on with.
        """
        role, recorded = self._role(volume)
        if role is _Role.SOURCE:
            return self.source.detach(volume, connector)
        if recorded and role in (_Role.DESTINATION, _Role.ARRIVED):
            self.destination.go_on(volume, recorded)
        elif recorded and role is _Role.LEFT:
            self.source.release(store.fresh(volume.id), recorded)
        return True

    def remove_export(self, volume: Volume) -> bool:
        """Remove the export of a move that has not come to be.

        :returns: whether there is nothing else to be done: the volume moves,
            or is another backend's. One whose move is aborted is at rest.
        :raises DiskPlacerError: the export cannot be removed.
        """
        role, _ = self._role(volume)
        # the source undoes what has failed at the destination
        return role is not _Role.SOURCE or self.source.unexport(volume)

    def check_ended(self, volume: Volume) -> None:
        """Check that no move has to end before a volume is changed.

        :raises BindingError: its server moves, or its data is elsewhere.
        """
        role, recorded = self._role(volume)
        if recorded is None:
            return
        if role is _Role.ARRIVED:
            self.destination.go_on(volume, recorded)
        elif role is _Role.SOURCE and recorded.phase == record.LEFT:
            # a decision was taken back when all was detached already
            self.source.unexport(volume)
        elif role is _Role.SOURCE:
            end_move.end_lost(self.source.export, volume, recorded)
        now = store.read(volume.id)
        # if it is aborted, only the other host has something to undo
        if now is not None and now.phase != record.ABORTING:
            raise errors.BindingError(
                f'volume {volume.id} cannot be changed before the move of '
                f'server {now.server} from {now.source} to {now.to} has '
                f'ended: it is {now.phase}',
                'the volume cannot be changed before it has followed its '
                'server to another host; try again later',
            )

    def check_whole(self, volume: Volume) -> None:
        """Check that the vdisk of a volume here has all that was written.

        :raises BindingError: the server may have written to another one.
        """
        role, recorded = self._role(volume)
        if (
            role is _Role.SOURCE
            and recorded
            and recorded.phase == record.DECIDING
        ):
            raise errors.BindingError(
                f'volume {volume.id} cannot be copied: its data moves to '
                f'{recorded.to} just now',
                'the volume moves to another host just now; try again later',
            )

    def start(self) -> None:
        """Go on with all moves from and to this backend, by their records.

        What cannot be gone on with is logged, and tried at the next start.
        """
        try:
            volumes = store.moving_volumes()
            # volumes that were deleted since have no record
            names = self.destination.backend.remotes()
        except _ERRORS as error:
            LOG.error('Moves of servers are not gone on with: %s', error)
            return
        for volume_id in volumes:
            with self._logged(volume_id):
                self._start(volume_id)
        for name in names:
            with self._logged(name):
                self._remove_orphan(name)

    @contextlib.contextmanager
    def _logged(self, subject: str) -> collections.abc.Iterator[None]:
        try:
            yield
        except _ERRORS as error:
            LOG.error(
                'The move of the server of %s is not gone on with: %s',
                subject,
                error,
            )
        except Exception:
            # the other volumes of the backend need its start
            LOG.exception(
                'The move of the server of %s is not gone on with', subject
            )

    def _remove_orphan(self, name: str) -> None:
        """Remove what a move has left whose volume was deleted meanwhile."""
        managed = records.managed(cinder_context.get_admin_context(), [name])
        if not managed:
            self.destination.undo(name)

    def _start(self, volume_id: str) -> None:
        volume = store.fresh(volume_id)
        role, recorded = self._role(volume)
        if recorded is None:
            return
        if recorded.source == self.source.backend_host:
            self.source.start(volume, recorded)
        elif role in (_Role.DESTINATION, _Role.ARRIVED):
            self.destination.go_on(volume, recorded, starts=True)

    def _role(self, volume: Volume) -> tuple[_Role, Record | None]:
        """Return what this backend is for a volume, and the record."""
        here = self.source.backend_host
        holder = store.holder(store.fresh(volume.id))
        recorded = store.read(volume.id)
        arrives = recorded is not None and recorded.to == here
        if holder == here:
            return _Role.ARRIVED if arrives else _Role.SOURCE, recorded
        if arrives:
            return _Role.DESTINATION, recorded
        if recorded and recorded.source == here:
            return _Role.LEFT, recorded
        return _Role.NONE, recorded
