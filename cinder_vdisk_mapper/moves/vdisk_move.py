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

import contextlib
import dataclasses
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
from nova_diskplacer.disks import move_records
from nova_diskplacer.disks import mover
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.host import files
from nova_diskplacer.placement import claim_moves


def claim_move(
    operations: VDiskOperations, vdisk: VDisk, record: move_records.Record
) -> claim_moves.VDiskMove | None:
    """Return the move of the claim for a vdisk, None if it has no server."""
    if not vdisk.server_id:
        return None
    return claim_moves.VDiskMove(
        operations.placement,
        vdisk.server_id,
        record.source,
        record.target,
        vdisk.size_gb,
        operations.backend.disk,
        record.unfilled_gb,
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
class VolumeMove(vdisk_steps.VDiskSteps):
    """The move of the vdisk of a volume.

    :param source_disk: UUID of the disk that the vdisk leaves.
    :param target_disk: UUID of the disk that it goes to.
    :param report: called with the copied and all bytes.
    """

    context: Any
    operations: VDiskOperations
    guests: guests_.Guests
    planner: Planner
    volume: Volume
    vdisk: VDisk
    source_disk: str
    target_disk: str
    report: mover.Progress

    @property
    def source(self) -> '_VolumePlace':
        return _VolumePlace(self, self.source_disk)

    @property
    def target(self) -> '_VolumePlace':
        return _VolumePlace(self, self.target_disk)

    def progress(self, done: int, total: int) -> None:
        self.report(done, total)

    def is_begun(self) -> bool:
        """Return whether the move was begun, and is neither ended nor undone.

        :raises Deleted: its volume was deleted.
        :raises DiskError: it is not known.
        """
        self.fresh()
        record = self._backend.recorded_move(self.vdisk.name)
        disks = self.source_disk, self.target_disk
        return record is not None and record.disks == disks

    @property
    def _backend(self) -> base.Backend:
        return self.operations.backend

    @errors.cinder_errors()
    def create(self) -> None:
        """Make the target, if the plan still holds, and claim its space."""
        name, bound_for = self.vdisk.name, self.vdisk.server_id
        # it counts for the one that has it, and is claimed by the other
        servers = {*self._servers(), *([bound_for] if bound_for else ())}
        with (
            locks.hold_all(f'server-{server}' for server in servers),
            self.locked(),
        ):
            is_begun = self.planner.check_target(
                name, self.source_disk, self.target_disk
            )
            linking.follow_link(self._backend, self.fresh())
            if self._servers() and not self._backend.linked_disk(name):
                self._backend.link(
                    self.source_disk,
                    name,
                    linking.attached_as_device(self.fresh()),
                )
            if not is_begun:
                self._record()
            self.operations.allocate(
                self.target_disk,
                name,
                self.vdisk.volume_id,
                self.vdisk.size_gb,
                bound_for,
            )
            if claim := self.claim_move:
                claim.follow()

    @property
    def claim_move(self) -> claim_moves.VDiskMove | None:
        """The move of its claim, None if it has no server or no record."""
        record = self._backend.recorded_move(self.vdisk.name)
        return record and claim_move(self.operations, self.vdisk, record)

    def _record(self) -> None:
        """Record the move, when other copies of the vdisk are gone.

        :raises DiskError: the target's disk has one that is not to be deleted.
        """
        name, server = self.vdisk.name, self.vdisk.server_id
        before = self._backend.recorded_move(name)
        # of its server's claim on the source, what no vdisk fills
        unfilled_gb = None
        if server and before and before.source == self.source_disk:
            # the claim may still be on the target of that, which is missing
            unfilled_gb = before.unfilled_gb
        elif server:
            unfilled_gb = claim_moves.read_unfilled_gb(
                self.operations.placement,
                server,
                self._backend.disk(self.source_disk),
            )
        # that of a move to another disk, or whose target is being deleted
        self.forget()
        self.operations.delete_other_copies(name, self.source_disk)
        if self._backend.disk(self.target_disk).find(name):
            raise exception.DiskError(
                f'disk {self.target_disk} has another copy of it, which no '
                'move from here has made: see "diskplacer-manage disk audit"'
            )
        move_records.write(
            self._backend.disk_root,
            name,
            move_records.Record(
                self.source_disk, self.target_disk, unfilled_gb
            ),
        )

    def forget(self) -> None:
        move_records.remove(self._backend.disk_root, self.vdisk.name)

    def copy(self) -> None:
        """Copy a vdisk that no process has open, or has had meanwhile."""
        name, size = self.vdisk.name, self.vdisk.size_bytes
        path = self._backend.device_path(self.source_disk, name)
        self.progress(0, size)
        # of a file: the backend itself looks at a logical volume
        with files.disk_errors(path):
            before = os.stat(path).st_mtime_ns
            rate = self.guests.rate
            self._backend.copy(self.source_disk, name, self.target_disk, rate)
            after = os.stat(path).st_mtime_ns
        if after != before:
            raise exception.DiskError('it was written to while it was copied')
        self.progress(size, size)

    def writes(self) -> str:
        return self._backend.writes(self.source_disk, self.vdisk.name)

    def fill(self) -> None:
        self._backend.extend(
            self.target_disk, self.vdisk.name, self.vdisk.size_gb
        )

    def check_target(self) -> None:
        size = max(self.vdisk.size_bytes, self.fresh().size * GIB)
        copies.check_whole(
            self._backend, self.target_disk, self.vdisk.name, size
        )

    def guest(self) -> vdisk_steps.GuestDisk | None:
        servers = self._servers()
        if not servers:
            return None
        return self.guests.find(servers[0], self.volume.id)

    def is_decided(self) -> bool:
        """Return whether the target is the volume.

        :raises DiskError: neither disk has it.
        """
        place = self._backend.linked_disk(self.vdisk.name)
        if place is None:
            place = self.fresh().provider_location
        if place not in (self.source_disk, self.target_disk):
            raise exception.DiskError(f'its volume is on disk {place} now')
        return place == self.target_disk

    def decide(self, moved: bool) -> None:
        disk = self.target_disk if moved else self.source_disk
        linked = self._backend.linked_disk(self.vdisk.name)
        if linked is not None:
            self._backend.link(disk, self.vdisk.name)
        if linked is None or not moved:
            self._save(disk)

    def park(self) -> None:
        self._backend.park_link(self.vdisk.name)

    def unpark(self) -> None:
        self._backend.unpark_link(self.vdisk.name)

    def check(self) -> None:
        """Check that the volume is as it was when the move was planned.

        :raises DiskError: it is not.
        """
        now = self.fresh()
        if (
            now.provider_location not in (self.source_disk, self.target_disk)
            or now.status not in ('available', 'in-use')
            or now.host != self.volume.host
            or now.migration_status != self.volume.migration_status
        ):
            raise exception.DiskError(
                f'its volume has changed meanwhile: it is {now.status} on '
                f'{now.host}, disk {now.provider_location}'
            )

    def locked(self) -> contextlib.AbstractContextManager[None]:
        return locks.hold(f'volume-{self.volume.id}')

    def save(self) -> None:
        self._save(self.target_disk)

    @errors.cinder_errors()
    def _save(self, disk: str) -> None:
        volume = self.fresh()
        if volume.provider_location != disk:
            linking.save_disk(volume, Location((disk,)))

    @errors.cinder_errors()
    def fresh(self) -> Volume:
        """Read the volume.

        :raises Deleted: it was deleted.
        :raises DiskError: the database does not answer.
        """
        try:
            volume: Volume = objects.Volume.get_by_id(
                self.context, self.volume.id
            )
        except cinder_exc.VolumeNotFound as error:
            raise Deleted('its volume was deleted') from error
        return volume

    @errors.cinder_errors()
    def _servers(self) -> list[str]:
        """Return the servers that have the volume attached."""
        return [
            attachment.instance_uuid
            for attachment in attachments(self.fresh())
            if attachment.instance_uuid
        ]


@dataclasses.dataclass(frozen=True)
class _VolumePlace(vdisk_steps.Place):
    """The place of a volume's vdisk on one disk of its move."""

    move: VolumeMove
    disk: str

    @property
    def path(self) -> str:
        name = self.move.vdisk.name
        return self.move.operations.backend.attached_path(self.disk, name)

    def activate(self) -> None:
        name = self.move.vdisk.name
        self.move.operations.backend.attach_device(self.disk, name)

    def condemn(self) -> None:
        volume = self.move.fresh()
        copies.condemn(
            self.move.operations.backend,
            self.disk,
            self.move.vdisk.name,
            volume.provider_location,
            volume.size * GIB,
        )

    def delete(self) -> None:
        """Delete it; of the target, the claim comes back to the source."""
        move = self.move
        move.operations.delete(self.disk, move.vdisk.name)
        if self.disk == move.target_disk and (claim := move.claim_move):
            claim.give_back()

    def in_use(self) -> bool:
        backend, name = self.move.operations.backend, self.move.vdisk.name
        is_there = backend.disk(self.disk).find(name) is not None
        return is_there and backend.in_use(self.disk, name)
