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

"""The move of the legs of a volume from disk to disk, for :mod:`leg_steps`."""

import contextlib
import dataclasses
import functools
import time

from cinder import objects

from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.cinder_api.types import is_migrating
from cinder_vdisk_mapper.moves import backends
from cinder_vdisk_mapper.moves import leg_steps
from cinder_vdisk_mapper.vdisks import event_log
from cinder_vdisk_mapper.vdisks import linking
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks import operations
from nova_diskplacer import exception
from nova_diskplacer.disks import copy_pace
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import move_records
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.location import Step
from nova_diskplacer.disks.location import leg_gb
from nova_diskplacer.disks.lvm import leg_moves
from nova_diskplacer.disks.lvm import resync_throttle
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement import claim_moves

_MOVABLE = ('available', 'in-use')
# Nova attaches and detaches meanwhile, and an extension is refused.
_DECIDABLE = (
    *_MOVABLE,
    'reserved',
    'attaching',
    'detaching',
    'error_extending',
)

# Seconds to wait for what changes the vdisk. A copy or a deletion may take
# hours, and a move holds back the attachments of its server, and other moves.
_PATIENCE = 10.0


@dataclasses.dataclass(frozen=True)
class LegMove(leg_steps.LegSteps):
    """The move of legs of a volume.

    :param old: location of the volume before the move.
    :param new: that after the move.
    :param step: from there to here, or the rest of one that was interrupted.
    :param percent: of the disks' time that the copy takes.
    :param mbps: MB/s of the copy instead, 0 for no limit; ``percent`` is only
        what it begins with then.
    """

    backend: backends.Backend
    volume: Volume
    old: Location
    new: Location
    step: Step
    percent: int = 100
    mbps: float | None = None

    @property
    def _name(self) -> str:
        return naming.volume(self.volume)

    @property
    def _moved_gb(self) -> int:
        gb = leg_gb(self.volume.size, len(self.old))
        return gb * len(self.step.legs)

    def _fresh(self) -> Volume:
        with errors.cinder_errors():
            volume: Volume = objects.Volume.get_by_id(
                self.backend.context, self.volume.id
            )
            return volume

    def is_decided(self) -> bool:
        location = naming.location(self._fresh())
        if location not in (self.old, self.new):
            raise exception.DiskError(
                f'volume {self.volume.id} is on disks {location}, and its '
                f'move is from {self.old} to {self.new}'
            )
        return location == self.new

    def _check(self, volume: Volume, statuses: tuple[str, ...]) -> None:
        """Check that the legs of a volume may be moved.

        :raises DiskError: they may not.
        """
        refusal = ''
        if volume.host.partition('#')[0] != self.backend.name:
            refusal = f'belongs to backend {volume.host}'
        elif naming.location(volume) != self.old:
            refusal = f'is on disks {volume.provider_location}'
        elif volume.status not in statuses:
            refusal = f'is {volume.status}, which is none of: ' + ', '.join(
                statuses
            )
        elif is_migrating(volume.migration_status):
            refusal = 'is being migrated'
        elif naming.is_exported(volume):
            refusal = 'is exported to another host'
        elif volume.size != self.volume.size:
            refusal = 'was extended just now'
        if refusal:
            raise exception.DiskError(f'volume {volume.id} {refusal}')

    def _check_snapshots(self, volume: Volume) -> None:
        """Check that a volume has no snapshots.

        One that is refused, as the volume is being moved, stays in Cinder's
        database.

        :raises DiskError: it has.
        """
        with errors.cinder_errors():
            snapshots = objects.SnapshotList.get_all_for_volume(
                self.backend.context, volume.id
            )
        if not all(map(naming.has_failed, snapshots)):
            raise exception.DiskError(
                f'volume {volume.id} has snapshots: delete them first'
            )

    def _hold_legs(self) -> contextlib.AbstractContextManager[None]:
        return locks.hold_within(f'legs-{self._name}', _PATIENCE)

    def begin(self) -> None:
        """Allocate the legs, have their claim follow, and begin the copy."""
        step, name, storage = self.step, self._name, self.backend.storage
        _, vdisk = storage.find_vdisk(step.source, name)
        servers = [vdisk.server_id] if vdisk.server_id else []
        with (
            locks.hold_all(f'server-{server}' for server in servers),
            self._hold_legs(),
        ):
            volume = self._fresh()
            self._check(volume, _MOVABLE)
            self._check_snapshots(volume)
            source, vdisk = storage.usable_vdisk(step.source, name)
            if not vdisk.minimum and step.target in self.old:
                raise exception.DiskError(
                    f'volume {self.volume.id} is not elastic: each disk has '
                    'one of its pieces at most'
                )
            target = storage.disk(step.target)
            claim = self._claim_move(source, vdisk, target)
            if claim and not target.has_moving(name):
                claim.check_target(target)
                # tells later if the claim has followed
                move_records.write(
                    storage.disk_root,
                    name,
                    move_records.Record(
                        step.source, step.target, claim.unfilled_gb
                    ),
                )
            self._allocate()
            if claim:
                claim.follow()
            storage.as_root(
                leg_moves.begin_move,
                self.old,
                name,
                self.new,
                self.volume.size * GIB,
                self.percent,
            )

    def _allocate(self) -> None:
        target, name = self.step.target, self._name
        storage = self.backend.storage
        with locks.hold(f'disk-{target}'):
            disk = storage.disk(target)
            is_moving = disk.has_moving(name)
            if not is_moving and (
                disk.draining
                or not base.usable_disks([disk], self.backend.media)
            ):
                raise exception.DiskError(
                    f'disk {target} ({disk.medium}, {disk.health}) takes no '
                    f'vdisks of backend {self.backend.name} now'
                )
            free = self.backend.operations.free_gb(disk)
            operation = f'hold {self._moved_gb} GiB of {name}'
            if not is_moving and free < self._moved_gb:
                raise operations.refusal(target, operation, free)
            storage.as_root(leg_moves.create_legs, self.old, name, self.new)
            if not self.backend.operations.reserve(target):
                raise operations.refusal(target, operation, free)

    def _claim_move(
        self, source: discover.Disk, vdisk: VDisk, target: discover.Disk
    ) -> claim_moves.VDiskMove | None:
        """Return the move of the claim for the legs.

        What no vdisk fills of the claim is that before the move, None if an
        earlier release has begun it.

        :param vdisk: the piece on the source.
        :returns: None if the legs have no server.
        """
        name, storage = self._name, self.backend.storage
        if vdisk.server_id is None:
            return None
        placement = self.backend.operations.placement
        is_begun = target.has_moving(name)
        record = storage.recorded_move(name)
        unfilled_gb = None
        if (
            record
            and record.source == source.uuid
            # or the claim may still be there
            and (is_begun or storage.disk(record.target).health != discover.OK)
        ):
            unfilled_gb = record.unfilled_gb
        elif not is_begun:
            unfilled_gb = claim_moves.read_unfilled_gb(
                placement, vdisk.server_id, source
            )
        return claim_moves.VDiskMove(
            placement,
            vdisk.server_id,
            source.uuid,
            target.uuid,
            self._moved_gb,
            storage.disk,
            unfilled_gb,
        )

    def copied(self) -> tuple[int, int]:
        done, total = self.backend.storage.as_root(
            leg_moves.move_progress, self.old, self._name, self.new
        )
        return done, total

    def decide(self) -> None:
        storage, name = self.backend.storage, self._name
        with (
            locks.hold(f'volume-{self.volume.id}'),
            self._hold_legs(),
        ):
            volume = self._fresh()
            self._check(volume, _DECIDABLE)
            storage.check_disk(self.step.target)
            storage.as_root(leg_moves.complete_legs, self.old, name, self.new)
            linking.save_disk(volume, self.new)

    def finish(self) -> None:
        step, name, storage = self.step, self._name, self.backend.storage
        with (
            locks.hold(f'volume-{self.volume.id}'),
            self._hold_legs(),
        ):
            target = self._check_kept(self.new, step.target)
            move_records.remove(storage.disk_root, name)
            storage.as_root(
                leg_moves.end_move, self.new, name, self.volume.size * GIB
            )
            # as in a deletion, what was on such a disk counts as deleted
            forgotten = storage.forgotten(step.source)
            storage.as_root(
                leg_moves.settle_legs, self.new, name, self.old, forgotten
            )
        if not forgotten:
            self._remove(step.source)
        event_log.log_moved(
            self.volume,
            target.find(name),
            self._moved_gb,
            step.source,
            step.target,
        )

    def undo(self) -> None:
        step, name, storage = self.step, self._name, self.backend.storage
        with self._hold_legs():
            target = storage.disk(step.target)
            coming = target.has_moving(name)
            if not coming and target.health == discover.OK:
                # it was refused before anything was made
                move_records.remove(storage.disk_root, name)
                return
            self._check_kept(self.old, step.source)
            storage.as_root(
                leg_moves.end_move, self.old, name, self.volume.size * GIB
            )
            if coming:
                source, vdisk = storage.find_vdisk(step.source, name)
                if claim := self._claim_move(source, vdisk, target):
                    claim.give_back(self._moved_gb)
                move_records.remove(storage.disk_root, name)
            self._remove(step.target)

    def _check_kept(self, kept: Location, uuid: str) -> discover.Disk:
        """Check that the legs of one location may be kept alone.

        If their disk has failed, the writes that the kernel holds back since
        fail, as they would without a move.

        :param uuid: of the disk where those are that are in two places.
        :returns: that disk, which is healthy.
        :raises DiskError: they may not: Cinder has the volume elsewhere, or
            the disk is not healthy.
        """
        location = naming.location(self._fresh())
        if location != kept:
            raise exception.DiskError(
                f'the volume is on disks {location}, and the legs of {kept} '
                'would be kept'
            )
        storage = self.backend.storage
        disk = storage.disk(uuid)
        if disk.health != discover.OK:
            storage.as_root(
                leg_moves.release_writes, self._name, kept == self.new
            )
            raise exception.DiskError(
                f'disk {uuid} of this host is {disk.health}'
            )
        return disk

    @functools.cached_property
    def _pace(self) -> copy_pace.Pace | None:
        mbps = self.copy_mbps()
        return copy_pace.Pace(self.percent, mbps) if mbps else None

    def pace(self, done: int) -> None:
        if self._pace is None:
            return
        before = self._pace.percent
        percent = self._pace.after(done, time.monotonic())
        if percent != before:
            self.backend.storage.as_root(resync_throttle.limit_copies, percent)

    def copy_mbps(self) -> float:
        """Return the rate of the copy in MB/s, 0 for no limit."""
        if self.mbps is not None:
            return self.mbps
        both = self.step.source, self.step.target
        disks = map(self.backend.storage.disk, both)
        return copy_pace.step_mbps(self.percent / 100, disks)

    def _remove(self, disk: str) -> None:
        """Delete the legs that are not used, and release their space."""
        self.backend.storage.delete_moving(disk, self._name)
        with locks.hold(f'disk-{disk}'):
            self.backend.operations.try_reserve(disk)
