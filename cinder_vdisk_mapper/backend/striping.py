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

"""Backends that can stripe a vdisk over several disks."""

import abc
import collections.abc
import os
from typing import ParamSpec
from typing import TypeVar

from cinder_vdisk_mapper.backend import base
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.vdisk import GIB

_P = ParamSpec('_P')
_T = TypeVar('_T')


class StripingBackend(base.Backend):
    """Stores a striped vdisk as a piece of the same name on each disk.

    The legs of a disk are its piece. The operations of the base change one
    piece. The vdisk has a device while it is attached.
    """

    def create_piece(
        self,
        disk: str,
        name: str,
        volume_id: str,
        server_id: str | None,
        size_gb: int,
        location: Location,
        minimum: int,
    ) -> None:
        """Allocate the piece of a striped vdisk on one of its disks.

        :param size_gb: size of the piece.
        :param minimum: least number of disks of an elastic vdisk, else 0.
        :raises DiskError: as ``create``.
        """
        suffixes = [
            suffix for uuid, suffix in naming.pieces(location) if uuid == disk
        ]
        for suffix in suffixes:
            self._run(
                'create_piece',
                disk,
                name + suffix,
                volume_id,
                server_id,
                size_gb * GIB // len(suffixes),
                location,
                minimum,
            )

    def striped_path(self, name: str) -> str:
        """Return the path of the device of a striped vdisk."""
        return naming.striped_device(name)

    def activate_stripe(
        self, location: Location, name: str, size_gb: int
    ) -> None:
        """Make the device of a striped vdisk of ``size_gb`` GiB.

        :raises DiskError: a piece is missing or not complete.
        """
        self._run('activate_stripe', location, name, size_gb * GIB)

    def deactivate_stripe(self, location: Location, name: str) -> None:
        """Remove the device of a striped vdisk, if there is one.

        :raises DiskError: it is in use.
        """
        self._run('deactivate_stripe', location, name)

    def resume_stripes(self) -> None:
        """Resume the devices that a killed snapshot has left suspended."""
        self._run('resume_stripes')

    def snapshot_stripe(
        self, location: Location, name: str, snapshot: str, snapshot_id: str
    ) -> None:
        """Make a snapshot of a striped vdisk, as ``snapshot``."""
        self._run('snapshot_stripe', location, name, snapshot, snapshot_id)

    def stripe_is_active(self, name: str) -> bool:
        """Return whether a striped vdisk has a device, for its users."""
        return os.path.exists(self.striped_path(name))

    def stripe_writes(self, location: Location, name: str) -> str:
        """Return a text that changes if a striped vdisk is written to."""
        return str(self._run('stripe_writes', location, name))

    def as_root(
        self,
        function: collections.abc.Callable[_P, _T],
        *arguments: _P.args,
        **_: _P.kwargs,
    ) -> _T:
        """Run a function that moves legs in the helper process.

        :param function: an operation of the helper has its name.
        :raises DiskError: the operation fails.
        """
        result: _T = self._run(function.__name__, *arguments)
        return result

    def interrupted_move(
        self, disk: str, name: str
    ) -> tuple[Location, Location] | None:
        """Return the locations before and after the move to a disk, if any.

        The legs that were not created yet are not among the moved ones.
        """
        locations = self._run('interrupted_move', disk, name)
        if not locations:
            return None
        before, after = map(Location, locations)
        return before, after

    @abc.abstractmethod
    def delete_moving(self, disk: str, name: str) -> None:
        """Delete legs that were to come to a disk, or have left it."""
