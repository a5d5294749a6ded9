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

"""Moves all vdisks of a disk to other disks of the host, one by one."""

import collections.abc
import contextlib
import dataclasses
import functools
import os
import uuid as uuid_

from oslo_log import log as logging

from cinder_vdisk_mapper.drain import evacuations
from cinder_vdisk_mapper.drain import plan
from cinder_vdisk_mapper.drain import survey
from cinder_vdisk_mapper.moves import vdisk_move
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks.operations import VDiskOperations
from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import move_records
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.host import files
from nova_diskplacer.placement.client import GB

LOG = logging.getLogger(__name__)

#: called with the name of a vdisk, its copied bytes and all its bytes
Progress = collections.abc.Callable[[str, int, int], None]


@dataclasses.dataclass(frozen=True)
class Drainer:
    """Empties a disk of the surveyor's backend.

    :param progress: see :data:`Progress`.
    """

    surveyor: survey.Surveyor
    progress: Progress

    @property
    def operations(self) -> VDiskOperations:
        """The operations on vdisks of the backend."""
        return self.surveyor.operations

    def plan(self, uuid: str) -> tuple[survey.Survey, plan.Plan]:
        """Return what is on a disk, and where it would go."""
        surveyed = self.surveyor.survey(uuid)
        return surveyed, plan.plan(
            surveyed.vdisks,
            surveyed.disks,
            surveyed.room,
            surveyed.server_vdisks,
        )

    def drain(self, uuid: str) -> dict[str, str]:
        """Move what can be moved from a disk, which gets no new vdisks.

        :returns: the reason for each vdisk that stays.
        """
        with _alone(self.operations.backend.disk_root):
            self.operations.backend.check_disk(uuid)
            self._set_draining(uuid, True)
            self._restore_claims(uuid)
            failed: dict[str, str] = {}
            while True:
                surveyed, planned = self.plan(uuid)
                due = planned.targets.keys() - failed
                if not due:
                    break
                # one whose move was begun, if any
                vdisk = min(
                    (vdisk for vdisk in surveyed.vdisks if vdisk.name in due),
                    key=lambda vdisk: (not vdisk.begun_target, vdisk.name),
                )
                name = vdisk.name
                target = planned.targets[name]
                try:
                    self._evacuation(uuid, vdisk.vdisk, surveyed, target).run()
                except exception.DiskPlacerError as error:
                    LOG.error('%s stays on disk %s: %s', name, uuid, error)
                    failed[name] = str(error)
            # a move may be undone but for its claim
            self._restore_claims(uuid)
            self._forget_moves(uuid, surveyed)
            remaining = {vdisk.name for vdisk in surveyed.vdisks}
            return planned.refusals | {
                name: failed[name] for name in failed.keys() & remaining
            }

    def cancel(self, uuid: str) -> dict[str, str]:
        """Undo moves from a disk that were begun, and offer it again.

        :returns: the reason for each move that cannot be undone.
        """
        with _alone(self.operations.backend.disk_root):
            surveyed = self.surveyor.survey(uuid)
            failed = {}
            for vdisk in surveyed.vdisks:
                target = vdisk.begun_target
                if target and vdisk.name in surveyed.volumes:
                    try:
                        self._evacuation(
                            uuid, vdisk.vdisk, surveyed, target
                        ).take_back()
                    except exception.DiskPlacerError as error:
                        failed[vdisk.name] = str(error)
            if not failed:
                self._restore_claims(uuid)
                self._forget_moves(uuid, surveyed)
                self._set_draining(uuid, False)
            return failed

    def unfilled_claims(self, uuid: str) -> dict[str, int]:
        """Return the GiB that servers claim of a disk, by server.

        No vdisk fills them when the disk is empty.
        """
        claims = self.operations.placement.provider_allocations(uuid)
        return {server: claim.get(GB, 0) for server, claim in claims.items()}

    def _set_draining(self, uuid: str, is_draining: bool) -> None:
        """Withhold a disk from new vdisks, or offer it again."""
        root = self.operations.backend.disk_root
        with files.disk_errors(root), locks.hold(f'disk-{uuid}'):
            discover.set_draining(root, uuid, is_draining)
            self.operations.reserve(uuid)

    def _restore_claims(self, uuid: str) -> None:
        """Move the claims of vdisks that have not left a disk back to it.

        They are on the targets of recorded moves, which have no whole copies.
        A claim on any other disk that no vdisk fills is for a vdisk to come.
        That of legs comes back when their move is undone.
        """
        backend = self.operations.backend
        vdisks = {
            vdisk.name: vdisk
            for vdisk in backend.disk(uuid).vdisks
            if not vdisk.stripe
        }
        others = {
            disk.uuid: disk
            for disk in backend.disks()
            if disk.uuid != uuid and disk.health == discover.OK
        }
        moves = move_records.from_disk(backend.disk_root, uuid)
        for name, record in moves.items():
            if name not in vdisks or record.target not in others:
                continue
            copy = others[record.target].find(name)
            claim = vdisk_move.claim_move(
                self.operations, vdisks[name], record
            )
            if claim and not (copy and copy.usable):
                claim.give_back()

    def _evacuation(
        self, uuid: str, vdisk: VDisk, surveyed: survey.Survey, target: str
    ) -> evacuations.Evacuation:
        """Return the move of a vdisk, or of its legs, to a disk."""
        volume = surveyed.volumes[vdisk.name]
        progress = functools.partial(self.progress, vdisk.name)
        guests = self.surveyor.guests
        if naming.location(volume).is_striped:
            return evacuations.LegEvacuation(
                volume.id, uuid, target, progress, guests.rate
            )
        return evacuations.VDiskEvacuation(
            vdisk_move.VolumeMove(
                self.surveyor.context,
                self.operations,
                guests,
                self.surveyor,
                volume,
                vdisk,
                uuid,
                target,
                progress,
            )
        )

    def _forget_moves(self, uuid: str, surveyed: survey.Survey) -> None:
        """Remove the records of moves from a disk that have ended.

        The record stays if the vdisk is on the disk and a copy of it on the
        target, or if its volume is on another disk, which is missing now, or
        if the target is: it may have the copy, and the claim.
        """
        backend = self.operations.backend
        vdisks = {vdisk.name: vdisk for vdisk in surveyed.vdisks}
        moves = move_records.from_disk(backend.disk_root, uuid)
        for name, record in moves.items():
            vdisk = vdisks.get(name)
            if vdisk is None or not (
                vdisk.begun_target
                or vdisk.is_elsewhere
                or self._may_have_copy(name, record)
            ):
                move_records.remove(backend.disk_root, name)

    def _may_have_copy(self, name: str, record: move_records.Record) -> bool:
        """Return whether the target of a move may have the vdisk."""
        backend = self.operations.backend
        disk = backend.disk(record.target)
        if disk.health == discover.OK:
            copy = disk.find(name)
            return copy is not None and copy.usable
        if backend.forgotten(disk.uuid):
            return False
        LOG.warning(
            'Disk %s is %s and may have a copy of %s, and the claim for it: '
            'when the disk is back, or forgotten, repeat "diskplacer-manage '
            'disk drain --cancel %s"',
            disk.uuid,
            disk.health,
            name,
            record.source,
        )
        return True


def _alone(disk_root: str) -> contextlib.AbstractContextManager[None]:
    """Hold the lock of all drains below a disk root, which may share targets.

    A machine has several disk roots only where it stands for several hosts.
    """
    root = uuid_.uuid5(uuid_.NAMESPACE_URL, os.path.realpath(disk_root))
    return files.sole(
        f'drain-{root}',
        exception.DiskError(
            f'another "diskplacer-manage disk drain" runs below {disk_root}, '
            'and only one may: repeat the command when it has ended'
        ),
    )
