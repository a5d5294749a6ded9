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
from cinder_vdisk_mapper.vdisks import copies
from cinder_vdisk_mapper.vdisks import event_log
from cinder_vdisk_mapper.vdisks import linking
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks import operations
from cinder_vdisk_mapper.vdisks.operations import VDiskOperations
from nova_diskplacer import exception
from nova_diskplacer.disks import copy_pace
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import move_records
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.location import Step
from nova_diskplacer.disks.location import leg_gb
from nova_diskplacer.placement import claim_moves

_MOVABLE = ('available', 'in-use')
# Nova attaches and detaches meanwhile.
_DECIDABLE = (*_MOVABLE, 'reserved', 'attaching', 'detaching')


@dataclasses.dataclass(frozen=True)
class LegMove(leg_steps.LegSteps):
    """The move of legs of a volume.

    :param old: location of the volume before the move.
    :param new: that after the move, one step away.
    :param percent: of the disks' time that the copy takes.
    :param mbps: MB/s of the copy instead, 0 for no limit; ``percent`` is only
        what it begins with then.
    """

    backend: backends.Backend
    volume: Volume
    old: Location
    new: Location
    percent: int = 100
    mbps: float | None = None

    @property
    def _operations(self) -> VDiskOperations:
        return self.backend.operations

    @property
    def _step(self) -> Step:
        """The legs that move, not all of them if that was interrupted.

        :raises DiskError: they move from several disks, or to several.
        """
        step = self.old.moved_to(self.new)
        if step is None:
            raise exception.DiskError(
                f'volume {self.volume.id}: {self.old} to {self.new} is no '
                'step, nor the rest of one'
            )
        return step

    @property
    def _name(self) -> str:
        return naming.volume(self.volume)

    @property
    def _moved_gb(self) -> int:
        gb = leg_gb(self.volume.size, len(self.old))
        return gb * len(self._step.legs)

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
        else:
            with errors.cinder_errors():
                if objects.SnapshotList.get_all_for_volume(
                    self.backend.context, volume.id
                ):
                    refusal = 'has snapshots: delete them first'
        if refusal:
            raise exception.DiskError(f'volume {volume.id} {refusal}')

    def begin(self) -> None:
        """Allocate the legs, have their claim follow, and begin the copy."""
        step, name = self._step, self._name
        backend = self._operations.striping
        _, vdisk = backend.find_vdisk(step.source, name)
        servers = [vdisk.server_id] if vdisk.server_id else []
        with (
            locks.hold_all(f'server-{server}' for server in servers),
            locks.hold_legs(name),
        ):
            self._check(self._fresh(), _MOVABLE)
            _, vdisk = backend.usable_vdisk(step.source, name)
            if not vdisk.minimum and step.target in self.old:
                raise exception.DiskError(
                    f'volume {self.volume.id} is not elastic: each disk has '
                    'one of its pieces at most'
                )
            claim = self._claim_move
            if claim and not self._is_begun():
                claim.check_target()
                self._record(claim)
            self._allocate()
            if claim:
                claim.follow()
            backend.begin_move(
                self.old, name, self.new, self.volume.size, self.percent
            )

    def _allocate(self) -> None:
        target, name = self._step.target, self._name
        backend = self._operations.striping
        with locks.hold(f'disk-{target}'):
            disk = backend.disk(target)
            is_moving = disk.has_moving(name)
            if not is_moving and (
                disk.draining
                or not base.usable_disks([disk], self.backend.media)
            ):
                raise exception.DiskError(
                    f'disk {target} ({disk.medium}, {disk.health}) takes no '
                    f'vdisks of backend {self.backend.name} now'
                )
            free = self._operations.free_gb(disk)
            operation = f'hold {self._moved_gb} GiB of {name}'
            if not is_moving and free < self._moved_gb:
                raise operations.refusal(target, operation, free)
            backend.create_legs(self.old, name, self.new)
            if not self._operations.reserve(target):
                raise operations.refusal(target, operation, free)

    def _is_begun(self) -> bool:
        target = self._operations.backend.disk(self._step.target)
        return target.has_moving(self._name)

    @property
    def _claim_move(self) -> claim_moves.VDiskMove | None:
        """The move of the claim for the legs, None if they have no server."""
        step, backend = self._step, self._operations.backend
        source, vdisk = backend.find_vdisk(step.source, self._name)
        if vdisk.server_id is None:
            return None
        return claim_moves.VDiskMove(
            self._operations.placement,
            vdisk.server_id,
            step.source,
            step.target,
            self._moved_gb,
            backend.disk,
            self._unfilled_gb(vdisk.server_id, source),
        )

    def _unfilled_gb(self, server: str, source: discover.Disk) -> int | None:
        """Return what no vdisk fills of the claim on the source.

        It is that before the move, None if an earlier release has begun it.
        """
        backend, is_begun = self._operations.backend, self._is_begun()
        record = backend.recorded_move(self._name)
        if (
            record
            and record.source == source.uuid
            # or the claim may still be there
            and (is_begun or backend.disk(record.target).health != discover.OK)
        ):
            return record.unfilled_gb
        if is_begun:
            return None
        return claim_moves.read_unfilled_gb(
            self._operations.placement, server, source
        )

    def _record(self, claim: claim_moves.VDiskMove) -> None:
        """Record what tells later if the claim has followed."""
        move_records.write(
            self._operations.backend.disk_root,
            self._name,
            move_records.Record(claim.source, claim.target, claim.unfilled_gb),
        )

    def _forget(self) -> None:
        move_records.remove(self._operations.backend.disk_root, self._name)

    def copied(self) -> tuple[int, int]:
        return self._operations.striping.move_progress(
            self.old, self._name, self.new
        )

    def decide(self) -> None:
        with (
            locks.hold(f'volume-{self.volume.id}'),
            locks.hold_legs(self._name),
        ):
            volume = self._fresh()
            self._check(volume, _DECIDABLE)
            self._operations.backend.check_disk(self._step.target)
            self._operations.striping.complete_legs(
                self.old, self._name, self.new
            )
            linking.save_disk(volume, self.new)

    def finish(self) -> None:
        step, name = self._step, self._name
        backend = self._operations.striping
        with (
            locks.hold(f'volume-{self.volume.id}'),
            locks.hold_legs(name),
        ):
            self._check_kept(self.new, step.target)
            self._forget()
            backend.end_move(self.new, name, self.volume.size)
            backend.settle_legs(self.new, name, self.old)
        self._remove(step.source)
        event_log.log_moved(
            self.volume,
            event_log.find(backend, Location((step.target,)), name),
            self._moved_gb,
            step.source,
            step.target,
        )

    def undo(self) -> None:
        step, name = self._step, self._name
        with locks.hold_legs(name):
            target = self._operations.backend.disk(step.target)
            coming = target.has_moving(name)
            if not coming and target.health == discover.OK:
                # it was refused before anything was made
                self._forget()
                return
            self._check_kept(self.old, step.source)
            self._operations.striping.end_move(
                self.old, name, self.volume.size
            )
            if coming:
                if claim := self._claim_move:
                    claim.give_back(self._moved_gb)
                self._forget()
            self._remove(step.target)

    def _check_kept(self, kept: Location, disk: str) -> None:
        """Check that the legs of a location on a disk are the volume's.

        :raises DiskError: they are not, or the disk is not healthy.
        """
        copies.check_legs(
            self._operations.backend,
            naming.location(self._fresh()),
            kept,
            disk,
        )

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
            self._operations.striping.limit_copies(percent)

    def copy_mbps(self) -> float:
        """Return the rate of the copy in MB/s, 0 for no limit."""
        if self.mbps is not None:
            return self.mbps
        both = self._step.source, self._step.target
        disks = map(self._operations.striping.disk, both)
        return copy_pace.step_mbps(self.percent / 100, disks)

    def _remove(self, disk: str) -> None:
        """Delete the legs that are not used, and release their space."""
        self._operations.striping.delete_moving(disk, self._name)
        with locks.hold(f'disk-{disk}'):
            self._operations.try_reserve(disk)
