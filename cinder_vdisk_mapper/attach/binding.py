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

"""Binds a vdisk to a disk when its server is known.

The vdisks of a server's flavor fill its claims on the disks of this host. The
mapping policy chooses the disk of any other vdisk, which is then reserved in
Placement; a vdisk that cannot be reserved is not bound.
"""

import collections
import collections.abc
import contextlib
import dataclasses

from oslo_log import log as logging

from cinder_vdisk_mapper.attach import bind_request
from cinder_vdisk_mapper.attach import disk_choice
from cinder_vdisk_mapper.attach import striped_binding
from cinder_vdisk_mapper.attach.bind_request import BindRequest
from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks.operations import VDiskOperations
from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.location import Location
from nova_diskplacer.mapping import plugins
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import ledger

LOG = logging.getLogger(__name__)


@dataclasses.dataclass
class Binder:
    """Binds vdisks to the disks of one backend.

    :param media: hdd, ssd or any.
    """

    operations: VDiskOperations
    media: str

    def bind(self, request: BindRequest) -> Location:
        """Allocate the vdisk and return its location.

        The caller holds :func:`locked`.

        :raises BindingError: no disk may hold it.
        :raises PlacementError: Placement does not answer or accept it.
        :raises DiskError: the operation on the claimed disk fails.
        """
        present = self.operations.backend.disks()
        striped = striped_binding.StripeBinder(self.operations, request)
        held = {
            disk.uuid: vdisk
            for disk in present
            if (vdisk := disk.find(request.name))
        }
        if pieces := [vdisk for vdisk in held.values() if vdisk.stripe]:
            return striped.resume(pieces)
        if held:
            return self._resume(next(iter(held)), request)
        claims = self._claims(request)
        disks = [
            disk
            for disk in self._responsive_disks(present, claims)
            # the volumes of a boot have no other disk
            if request.boot_time or not disk.draining
        ]
        counts = _vdisks_per_disk(disks, request)
        server = request.server
        vdisks = server.request if server and request.of_flavor else None
        has_disks = claims or request.boot_time
        if server and vdisks and vdisks.legs > 1 and has_disks:
            location = striped.bind(server, vdisks, disks, claims, counts)
            if location:
                return location
        chosen = self._claimed_disk(request, disks, claims, counts)
        if chosen:
            # the lock waits until a change that oversells it is undone
            with locks.hold(f'disk-{chosen}'):
                self._create(chosen, request)
        else:
            chosen = self._bind_unclaimed(request, disks, claims, counts)
        return Location((chosen,))

    def _resume(self, disk: str, request: BindRequest) -> Location:
        """Bind a vdisk that is on a disk already.

        A run was killed before it saved the disk, or before the whole vdisk
        read as zeros.
        """
        self._create(disk, request)
        with locks.hold(f'disk-{disk}'):
            self.operations.disown(disk, request.name, request.bound_for)
            _, vdisk = self.operations.backend.find_vdisk(disk, request.name)
            if vdisk.size_gb < request.size_gb:
                # its volume was extended since, and was not bound
                self.operations.extend_held(
                    disk, request.name, request.size_gb
                )
            elif not self.operations.reserve(disk):
                raise errors.BindingError(
                    f'the vdisks on disk {disk} and the claims of '
                    'servers are larger than the disk',
                    'the disk of the volume has no room for it',
                )
        return Location((disk,))

    def move(
        self,
        request: BindRequest,
        source: str,
        commit: collections.abc.Callable[[str], None],
    ) -> None:
        """Move a vdisk that is not attached to a disk of this medium.

        The caller holds :func:`locked`.

        :param source: UUID of the disk that holds it.
        :param commit: called with the UUID of the new disk when the copy
            there is safe, before the original is deleted. If it raises an
            error, both copies stay.
        :raises BindingError: no disk may hold it.
        :raises PlacementError: Placement does not answer or accept it.
        :raises DiskError: an operation on a disk fails.
        """
        _, vdisk = self.operations.backend.usable_vdisk(source, request.name)
        self._check_not_begun(request, source)
        self._delete_other_copies(request.name, source)
        disks = [
            disk
            for disk in self._responsive_disks(
                self.operations.backend.disks(), {}
            )
            if disk.uuid != source
        ]
        request = dataclasses.replace(
            request,
            volume_id=vdisk.volume_id,
            size_gb=max(request.size_gb, vdisk.size_gb),
        )
        target = self._bind_unclaimed(
            request, disks, {}, _vdisks_per_disk([], request)
        )
        try:
            self.operations.backend.copy(source, request.name, target)
            # it may have failed since
            self.operations.backend.check_disk(target, request.name)
        except Exception:
            self._drop(target, request.name)
            raise
        if self.operations.backend.linked_disk(request.name):
            # the next attachment chooses what it is attached as
            self.operations.backend.link(target, request.name, False)
        commit(target)
        self._delete_other_copies(request.name, target)

    def _check_not_begun(self, request: BindRequest, source: str) -> None:
        """Check that no drain has begun to move a vdisk.

        :raises BindingError: one has; it may run.
        """
        record = self.operations.backend.recorded_move(request.name)
        if (
            record
            and record.source == source
            and record.target
            in self.operations.backend.disks_holding(request.name)
        ):
            raise errors.BindingError(
                f'a drain of disk {source} has begun to move volume '
                f'{request.volume_id} to disk {record.target}: repeat it, or '
                'cancel it',
                'the volume is being moved to another disk',
            )

    def _drop(self, disk: str, name: str) -> None:
        """Delete a copy that was not completed."""
        try:
            self.operations.delete(disk, name)
        except exception.DiskError as error:
            # it is a leftover, which the next start of the driver deletes
            LOG.warning('%s stays on disk %s: %s', name, disk, error)

    def _delete_other_copies(self, name: str, disk: str) -> None:
        try:
            self.operations.delete_other_copies(name, disk)
        except exception.DiskError as error:
            LOG.warning('All copies of %s stay: %s', name, error)

    def check_max_per_disk(self, request: BindRequest, disk: str) -> None:
        """Check that a server may attach a vdisk that is on a disk.

        :raises BindingError: the vdisk was bound for another server, and this
            one has as many there as round robin allows.
        """
        server = request.server
        bound_for = {
            vdisk.server_id
            for vdisk in self.operations.backend.disk(disk).vdisks
            if vdisk.name == request.name
        }
        if server is None or not request.of_flavor:
            return
        if server.uuid in bound_for:
            return
        policy = server.request.placed_by if server.request else request.policy
        if not plugins.load(policy).spreads:
            return
        limit = bind_request.max_per_disk(server)
        with locks.hold(f'server-{server.uuid}'):
            counts = _vdisks_per_disk(
                [self.operations.backend.disk(disk)], request
            )
        if counts[disk] >= limit:
            raise errors.BindingError(
                f'volume {request.volume_id} is on disk {disk}, where server '
                f'{server.uuid} has {limit} vdisks already, which is as many '
                f'as {policy} puts on one disk',
                'the disk of the volume holds as many volumes of the server '
                f'as {policy} puts on one disk',
            )

    def _responsive_disks(
        self,
        present: list[discover.Disk],
        claims: collections.abc.Container[str],
    ) -> list[discover.Disk]:
        """Return the usable disks that answer; claimed ones may take longer.

        :param present: the disks of this host.
        :param claims: UUIDs of the disks that the server claims.
        """
        disks = [
            self.operations.backend.disk(disk.uuid)
            if disk.uuid in claims
            and (disk.late or disk.health == discover.HUNG)
            else disk
            for disk in present
        ]
        return [
            disk
            for disk in base.usable_disks(disks, self.media)
            if not disk.late
        ]

    def _claims(self, request: BindRequest) -> dict[str, int]:
        """Return the GiB that the server claims, by disk."""
        server = request.server
        if server is None:
            return {}
        allocations = self.operations.placement.allocations(server.uuid)
        if allocations.project_id not in (None, server.project_id):
            raise errors.BindingError(
                f'server {server.uuid} is of project {server.project_id}, '
                f'and its claims of project {allocations.project_id}',
                bind_request.OTHER_PROJECT,
            )
        return {
            provider: resources[placement_client.GB]
            for provider, resources in allocations.resources.items()
            if placement_client.GB in resources
        }

    def _claimed_disk(
        self,
        request: BindRequest,
        disks: list[discover.Disk],
        claims: dict[str, int],
        counts: dict[str, int],
    ) -> str | None:
        """Return the disk with a claim that the vdisk fills, if any.

        :raises BindingError: a blank volume of the flavor fills none, or a
            claimed disk does not work.
        """
        server = request.server
        if server is None or not claims or not request.of_flavor:
            return None
        spread = (
            server.request and plugins.load(server.request.placed_by).spreads
        )
        chosen = disk_choice.claimed_disk(
            disks,
            server.uuid,
            claims,
            counts,
            request.size_gb,
            bind_request.max_per_disk(server)
            if spread
            else bind_request.UNLIMITED,
        )
        if chosen is None and request.boot_time:
            self.operations.check_claimed_disks(server.uuid, claims)
            unfilled = {
                disk.uuid: ledger.unfilled_gb(
                    disk.vdisks, server.uuid, claims[disk.uuid]
                )
                for disk in disks
                if disk.uuid in claims
            }
            raise errors.BindingError(
                f'volume {request.volume_id} of {request.size_gb} GiB does '
                f'not fit the claims of server {server.uuid}: GiB by '
                f'disk {claims}, not filled {unfilled}; the flavor '
                'has diskplacer:vdisks blank volumes of diskplacer:vdisk_gb '
                'GiB each',
                'the volume does not fit the flavor of its server, which has '
                'diskplacer:vdisks blank volumes of size diskplacer:vdisk_gb',
            )
        return chosen

    def _bind_unclaimed(
        self,
        request: BindRequest,
        disks: list[discover.Disk],
        claims: dict[str, int],
        counts: dict[str, int],
    ) -> str:
        """Bind a vdisk without a claim to the disk that the policy chooses.

        :param counts: number of the server's vdisks by disk.
        :raises BindingError: the policy finds none.
        """
        server = request.server
        if server and server.request:
            # each unfilled claim is a vdisk that is yet to be bound
            for uuid, gb in claims.items():
                vdisks = -(-gb // server.request.piece_gb)
                counts[uuid] = max(counts.get(uuid, 0), vdisks)
        limit = bind_request.max_per_disk(server, request.of_flavor)
        free = {
            disk.uuid: self.operations.free_gb(disk)
            for disk in disks
            if not disk.draining
        }
        while True:
            chosen = disk_choice.free_disk(
                disks, free, counts, request.size_gb, request.policy, limit
            )
            if chosen is None:
                raise errors.BindingError(
                    f'no disk for volume {request.volume_id} of '
                    f'{request.size_gb} GiB by {request.policy}: GiB not '
                    f'claimed by disk {free}, vdisks of server '
                    f'{server and server.uuid} by disk {dict(counts)}; '
                    f'round_robin puts {limit} on one disk',
                    'no disk of the host has room for the volume, or '
                    'round_robin allows no more volumes of the server there',
                )
            if self._bind_to(chosen, request, free):
                return chosen

    def _bind_to(
        self, disk: str, request: BindRequest, free: dict[str, int]
    ) -> bool:
        """Allocate a vdisk without a claim and reserve it in Placement.

        Returns False, and undoes all, where ``free`` is not up to date, which
        is corrected, or the disk lacks the space after all.
        """
        with locks.hold(f'disk-{disk}'):
            before = free.pop(disk)
            current = self.operations.backend.disk(disk)
            if current.draining:
                return False
            now = self.operations.free_gb(current)
            if now != before:
                # a concurrent request has chosen the same disk
                free[disk] = now
                return False
            try:
                self._create(disk, request)
                if self.operations.reserve(disk):
                    return True
            except exception.DiskError as error:
                LOG.warning('Trying another disk than %s: %s', disk, error)
                return False
            except exception.PlacementError:
                self.operations.backend.delete(disk, request.name)
                raise
            self.operations.backend.delete(disk, request.name)
            self.operations.try_reserve(disk)
            return False

    def _create(self, disk: str, request: BindRequest) -> None:
        self.operations.backend.create(
            disk,
            request.name,
            request.volume_id,
            request.bound_for,
            request.size_gb,
        )


def _vdisks_per_disk(
    disks: list[discover.Disk], request: BindRequest
) -> collections.defaultdict[str, int]:
    """Return the number of other vdisks of the server on each disk."""
    counts: collections.defaultdict[str, int] = collections.defaultdict(int)
    if request.server is None:
        return counts
    attached = request.attached()
    for disk in disks:
        names = {
            vdisk.name
            for vdisk in disk.vdisks
            if vdisk.server_id == request.server.uuid
        } | attached.get(disk.uuid, frozenset())
        counts[disk.uuid] = len(names - {request.name})
    return counts


@contextlib.contextmanager
def locked(request: BindRequest) -> collections.abc.Iterator[None]:
    """Lock the volume, and its server if it has one."""
    server = request.server
    with (
        locks.hold(f'server-{server.uuid}')
        if server
        else contextlib.nullcontext(),
        locks.hold(f'volume-{request.volume_id}'),
    ):
        yield
