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

"""The moves of a volume's data from a disk that is drained to another one.

A whole vdisk is copied, and its link changed, whether its server runs or not.
The kernel mirrors the legs of a striped vdisk below the device of the server.
"""

import abc
import dataclasses

from oslo_log import log as logging

from cinder_vdisk_mapper.moves import leg_mover
from cinder_vdisk_mapper.moves import vdisk_move
from cinder_vdisk_mapper.moves import vdisk_steps
from cinder_vdisk_mapper.vdisks import event_log
from nova_diskplacer import exception
from nova_diskplacer.disks import mover

LOG = logging.getLogger(__name__)


class Evacuation(abc.ABC):
    """The move of what a disk holds of a volume; it may be repeated."""

    @abc.abstractmethod
    def run(self) -> None:
        """Move it, or go on with a move that was interrupted.

        :raises DiskPlacerError: it is not moved.
        """

    @abc.abstractmethod
    def take_back(self) -> None:
        """Undo a move that was begun, or finish it if it is decided.

        :raises DiskPlacerError: this is not possible.
        """


@dataclasses.dataclass(frozen=True)
class VDiskEvacuation(Evacuation):
    """The move of a whole vdisk."""

    move: vdisk_move.VolumeMove

    def run(self) -> None:
        move = self.move
        try:
            vdisk_steps.run(move)
        except exception.DiskPlacerError:
            self._try_take_back()
            raise
        event_log.log_moved(
            move.volume,
            move.vdisk,
            move.vdisk.size_gb,
            move.source_disk,
            move.target_disk,
        )

    def take_back(self) -> None:
        vdisk_steps.take_back(self.move)

    def _try_take_back(self) -> None:
        name = self.move.vdisk.name
        try:
            try:
                if self.move.is_begun():
                    self.take_back()
            except vdisk_move.Deleted:
                # it was deleted meanwhile, maybe before its target was made
                self.move.operations.delete_leftovers(name)
        except exception.DiskPlacerError as error:
            LOG.warning(
                'The move of %s is neither finished nor undone, repeat the '
                'drain: %s',
                name,
                error,
            )


@dataclasses.dataclass(frozen=True)
class LegEvacuation(Evacuation):
    """The move of all legs that a disk has of a striped vdisk.

    :param rate: MiB/s of the copy at most, 0 for no limit.
    """

    volume_id: str
    source: str
    target: str
    progress: mover.Progress
    rate: int

    def run(self) -> None:
        leg_mover.LegMover().evacuate(
            self.volume_id, self.source, self.target, self.progress, self.rate
        )

    def take_back(self) -> None:
        leg_mover.LegMover().take_back(self.volume_id)
