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

"""Undoes moves that no attachment uses any more.

The detachment of the destination undoes a move. The move stays as long as a
process there has the vdisk open, or the destination does not answer, and
Cinder does not repeat the request. Nova, if it is killed, may forget to detach
the destination; nobody uses that any more when the server is deleted.
"""

import collections.abc
import concurrent.futures
import dataclasses
import time

from cinder import context as cinder_context
from oslo_log import log as logging

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.server_moves import other_host
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.server_moves.destination import Destination
from cinder_vdisk_mapper.server_moves.record import Record
from cinder_vdisk_mapper.vdisks import naming
from nova_diskplacer import exception

LOG = logging.getLogger(__name__)

# Seconds for which a move is not used before it is undone: Cinder saves an
# attachment only when it is complete. Each further attempt comes after twice
# as long, up to the longest pause.
_PAUSE = 300.0
_LONGEST_PAUSE = 3600.0


@dataclasses.dataclass
class _Stale:
    recorded: Record
    pause: float
    due: float
    running: concurrent.futures.Future[None] | None = None


class StaleMoves:
    """The moves to this host that nobody may use, and when to undo each."""

    def __init__(self) -> None:
        self._stale: dict[str, _Stale] = {}

    def look(
        self,
        pool: concurrent.futures.Executor,
        destination: Destination,
        volume: Volume,
        recorded: Record,
    ) -> None:
        """Undo a move in the pool if no attachment has used it for long.

        :raises DiskPlacerError: the database does not answer.
        """
        # an attachment in progress ends by itself
        if recorded.phase == record.ATTACHING or not _may_be_stale(
            volume, recorded
        ):
            self._stale.pop(volume.id, None)
            return
        now = time.monotonic()
        known = self._stale.get(volume.id)
        if known is None or known.recorded != recorded:
            pause = known.pause if known else _PAUSE
            known = _Stale(recorded, pause, now + pause)
            self._stale[volume.id] = known
        if now < known.due or (known.running and not known.running.done()):
            return
        known.pause = min(2 * known.pause, _LONGEST_PAUSE)
        known.due = now + known.pause
        known.running = pool.submit(_undo, destination, volume, recorded)

    def keep(self, volumes: collections.abc.Container[str]) -> None:
        """Forget all moves but those of some volumes, by their IDs."""
        for volume_id in [one for one in self._stale if one not in volumes]:
            del self._stale[volume_id]


def _may_be_stale(volume: Volume, recorded: Record) -> bool:
    """Return whether nobody uses a move, if its server is deleted."""
    attached = store.connectors(volume.id)
    return record.is_stale(recorded, attached) or (
        recorded.is_undecided and recorded.source_host not in attached
    )


def _is_used(volume: Volume, recorded: Record) -> bool:
    """Return whether a move has an attachment, and its server is there.

    :raises DiskPlacerError: Nova or the database does not answer.
    """
    if record.is_stale(recorded, store.connectors(volume.id)):
        return False
    context = cinder_context.get_admin_context()
    return nova_api.get(context, recorded.server) is not None


def _undo(destination: Destination, volume: Volume, recorded: Record) -> None:
    """Ask the source to undo a move, unless a process here has it open.

    The source would remove the export if cinder-volume does not answer here.
    """
    try:
        if _is_used(volume, recorded):
            return
        if not destination.open_places(naming.volume(volume)):
            other_host.go_on(volume, recorded.source, recorded.source_host)
        elif recorded.phase == record.ABORTING:
            # records that the server is here in truth
            destination.go_on(volume, recorded)
    except exception.DiskPlacerError as error:
        LOG.warning(
            'The move of volume %s is not undone now: %s', volume.id, error
        )
