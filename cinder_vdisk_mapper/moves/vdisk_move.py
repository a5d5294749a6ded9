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

"""The move of a volume's vdisk from disk to disk, for :mod:`vdisk_steps`.

The disks hold vdisks of one name. The volume's link tells which is the volume,
or ``provider_location`` where it has no link: it was never attached.
"""

import collections.abc
import contextlib
import dataclasses
import functools
import os
from typing import Any
from typing import Protocol

from cinder import exception as cinder_exc
from cinder import objects

from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.cinder_api.types import attachments
from cinder_vdisk_mapper.moves import guests as guests_
from cinder_vdisk_mapper.moves import vdisk_steps
from cinder_vdisk_mapper.vdisks import copies
from cinder_vdisk_mapper.vdisks import linking
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks.operations import VDiskOperations
from nova_diskplacer import exception
from nova_diskplacer.disks import moves
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.host import files
from nova_diskplacer.placement import claim_moves


def follow(
    operations: VDiskOperations,
    server: str,
    source: str,
    target: str,
    leaving_gb: int = 0,
) -> None:
    """Move the part of a claim that vdisks have left to another disk.

    :param leaving_gb: GiB of vdisks that count as gone.
    """
    claim_moves.follow(
        operations.placement,
        server,
        source,
        target,
        operations.backend.disk,
        leaving_gb,
    )


class Deleted(exception.DiskError):
    """The volume was deleted since the move was planned."""


class Planner(Protocol):
    """Chooses targets, and says while the disks are locked if they hold."""

    def check_target(self, name: str, source: str, target: str) -> bool:
        """Check that a vdisk may still go to a disk.

        :returns: whether a copy of it there was begun.
        :raises DiskPlacerError: it may not.
        """


@dataclasses.dataclass(frozen=True)
class VolumeMove:
    """The move of the vdisk of a volume.

    :param source: UUID of the disk that the vdisk leaves.
    :param target: UUID of the disk that it goes to.
    """

    context: Any
    operations: VDiskOperations
    guests: guests_.Guests
    planner: Planner
    volume: Volume
    vdisk: VDisk
    source: str
    target: str

    def as_move(
        self, progress: collections.abc.Callable[[int, int], None]
    ) -> vdisk_steps.Move:
        """Return the steps of the move.

        :param progress: told of copied and all bytes.
        """
        backend, name = self._backend, self.vdisk.name
        return vdisk_steps.Move(
            source=vdisk_steps.Place(
                backend.device_path(self.source, name),
                functools.partial(self._condemn, self.source),
                functools.partial(self.operations.delete, self.source, name),
                functools.partial(self._in_use, self.source),
            ),
            target=vdisk_steps.Place(
                backend.device_path(self.target, name),
                functools.partial(self._condemn, self.target),
                self._delete_target,
                functools.partial(self._in_use, self.target),
            ),
            create=self._create,
            guest=self._guest,
            copy=functools.partial(self._copy, progress),
            writes=functools.partial(backend.writes, self.source, name),
            fill=functools.partial(
                backend.extend, self.target, name, self.vdisk.size_gb
            ),
            check_target=self._check_target,
            decided=self._decided,
            decide=self._decide,
            save=functools.partial(self._save, self.target),
            check=self._check,
            forget=self._forget,
            locked=self._locked,
            progress=progress,
        )

    def begun(self) -> bool:
        """Return whether the move was begun, and is neither ended nor undone.

        :raises Deleted: its volume was deleted.
        :raises DiskError: it is not known.
        """
        self._fresh()
        record = self._backend.recorded_move(self.vdisk.name)
        return record == (self.source, self.target)

    @property
    def _backend(self) -> base.Backend:
        return self.operations.backend

    @errors.cinder_errors()
    def _create(self) -> None:
        """Make the target, if the plan still holds, and claim its space."""
        name, bound_for = self.vdisk.name, self.vdisk.server_id
        counted = next(iter(self._servers()), bound_for)
        with (
            locks.hold(f'server-{counted}')
            if counted
            else contextlib.nullcontext(),
            self._locked(),
        ):
            begun = self.planner.check_target(name, self.source, self.target)
            linking.follow_link(self._backend, self._fresh())
            if self._servers() and not self._backend.linked_disk(name):
                self._backend.link(self.source, name)
            if not begun:
                self._record()
            self.operations.allocate(
                self.target,
                name,
                self.vdisk.volume_id,
                self.vdisk.size_gb,
                bound_for,
            )
            if bound_for:
                follow(
                    self.operations,
                    bound_for,
                    self.source,
                    self.target,
                    self.vdisk.size_gb,
                )

    def _record(self) -> None:
        """Record the move, when other copies of the vdisk are gone.

        :raises DiskError: the target's disk has one that is not to be deleted.
        """
        name = self.vdisk.name
        # that of a move to another disk, or whose target is being deleted
        self._forget()
        self.operations.delete_other_copies(name, self.source)
        if copies.find(self._backend.disk(self.target), name):
            raise exception.DiskError(
                f'disk {self.target} has another copy of it, which no move '
                'from here has made: see "diskplacer-manage disk audit"'
            )
        moves.write(
            self._backend.disk_root,
            name,
            moves.Record(self.source, self.target),
        )

    def _forget(self) -> None:
        moves.remove(self._backend.disk_root, self.vdisk.name)

    def _copy(
        self, progress: collections.abc.Callable[[int, int], None]
    ) -> None:
        """Copy a vdisk that no process has open, or has had meanwhile."""
        name, size = self.vdisk.name, self.vdisk.size_bytes
        path = self._backend.device_path(self.source, name)
        progress(0, size)
        # of a file: the backend itself looks at a logical volume
        with files.disk_errors(path):
            before = os.stat(path).st_mtime_ns
            rate = self.guests.rate
            self._backend.copy(self.source, name, self.target, rate)
            after = os.stat(path).st_mtime_ns
        if after != before:
            raise exception.DiskError('it was written to while it was copied')
        progress(size, size)

    def _check_target(self) -> None:
        size = max(self.vdisk.size_bytes, self._fresh().size * GIB)
        copies.check_whole(self._backend, self.target, self.vdisk.name, size)

    def _condemn(self, disk: str) -> None:
        """Begin to delete a copy, if the volume is whole on the other disk.

        :raises DiskError: it is not.
        """
        volume = self._fresh()
        copies.condemn(
            self._backend,
            disk,
            self.vdisk.name,
            volume.provider_location,
            volume.size * GIB,
        )

    def _delete_target(self) -> None:
        """Delete the target and have the claim come back."""
        self.operations.delete(self.target, self.vdisk.name)
        if self.vdisk.server_id:
            follow(
                self.operations,
                self.vdisk.server_id,
                self.target,
                self.source,
            )

    def _in_use(self, disk: str) -> bool:
        held = {one.name for one in self._backend.disk(disk).vdisks}
        return self.vdisk.name in held and self._backend.in_use(
            disk, self.vdisk.name
        )

    def _guest(self) -> vdisk_steps.GuestDisk | None:
        servers = self._servers()
        if not servers:
            return None
        return self.guests.find(servers[0], self.volume.id)

    def _decided(self) -> bool:
        """Return whether the target is the volume.

        :raises DiskError: neither disk has it.
        """
        place = self._backend.linked_disk(self.vdisk.name)
        if place is None:
            place = self._fresh().provider_location
        if place not in (self.source, self.target):
            raise exception.DiskError(f'its volume is on disk {place} now')
        return place == self.target

    def _decide(self, moved: bool) -> None:
        disk = self.target if moved else self.source
        linked = self._backend.linked_disk(self.vdisk.name)
        if linked is not None:
            self._backend.link(disk, self.vdisk.name)
        if linked is None or not moved:
            self._save(disk)

    def _check(self) -> None:
        """Check that the volume is as it was when the move was planned.

        :raises DiskError: it is not.
        """
        now = self._fresh()
        if (
            now.provider_location not in (self.source, self.target)
            or now.status not in ('available', 'in-use')
            or now.host != self.volume.host
            or now.migration_status != self.volume.migration_status
        ):
            raise exception.DiskError(
                f'its volume has changed meanwhile: it is {now.status} on '
                f'{now.host}, disk {now.provider_location}'
            )

    def _locked(self) -> contextlib.AbstractContextManager[None]:
        return locks.hold(f'volume-{self.volume.id}')

    @errors.cinder_errors()
    def _save(self, disk: str) -> None:
        volume = self._fresh()
        if volume.provider_location != disk:
            linking.save_disk(volume, Location((disk,)))

    @errors.cinder_errors()
    def _fresh(self) -> Volume:
        """Read the volume.

        :raises Deleted: it was deleted.
        :raises DiskError: the database does not answer.
        """
        try:
            found: Volume = objects.Volume.get_by_id(
                self.context, self.volume.id
            )
        except cinder_exc.VolumeNotFound as error:
            raise Deleted('its volume was deleted') from error
        return found

    @errors.cinder_errors()
    def _servers(self) -> list[str]:
        """Return the servers that have the volume attached."""
        return [
            one.instance_uuid
            for one in attachments(self._fresh())
            if one.instance_uuid
        ]
