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

"""Binds striped vdisks: all pieces or none."""

import collections.abc
import contextlib
import dataclasses

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.attach import disk_choice
from cinder_vdisk_mapper.attach.bind_request import BindRequest
from cinder_vdisk_mapper.backend import striping
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks.operations import VDiskOperations
from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.location import leg_gb
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.mapping import plugins

Counts = collections.abc.Mapping[str, int]


@dataclasses.dataclass
class StripeBinder:
    """Binds a vdisk to the disks of a stripe; the caller holds its locks."""

    operations: VDiskOperations
    request: BindRequest

    def resume(self, pieces: collections.abc.Sequence[VDisk]) -> Location:
        """Complete a stripe whose creation was killed.

        Its volume may have been extended since. Pieces that were made for
        another server fill no claim any more, and the others neither.

        :param pieces: those that are on the disks of this host.
        :returns: its location.
        :raises BindingError: a disk is oversold.
        :raises DiskError: a piece cannot be created.
        """
        location, bound_for = pieces[0].stripe, self.request.bound_for
        if {piece.server_id for piece in pieces} != {bound_for}:
            bound_for = None
        self._create(
            self._backend(location.width),
            location,
            pieces[0].minimum,
            bound_for,
            reserve=True,
        )
        return location

    def bind(
        self,
        server: nova_api.Server,
        vdisks: flavor.VDiskRequest,
        disks: collections.abc.Sequence[discover.Disk],
        claims: Counts,
        vdisks_by_disk: Counts,
    ) -> Location | None:
        """Bind the vdisk as its server's flavor says, which stripes.

        :param vdisks: those of the server's flavor.
        :param claims: GiB that the server claims, by disk. A server that
            claims none gets disks by the room that they have.
        :param vdisks_by_disk: number of the server's vdisks on each disk.
        :returns: the location, None for a volume that is none of the boot of
            its server and fits none of its claims.
        :raises BindingError: the backend cannot stripe, or no disks fit.
        :raises PlacementError: Placement does not answer or accept it.
        :raises DiskError: a piece cannot be created.
        """
        backend = self._backend(vdisks.legs)
        chosen = self._choose_disks(
            server, vdisks, disks, claims, vdisks_by_disk
        )
        if not chosen:
            return None
        location = Location.narrowest(tuple(chosen), vdisks.legs)
        minimum = vdisks.stripe_disks if vdisks.widest_disks else 0
        self._create(
            backend,
            location,
            minimum,
            self.request.bound_for,
            reserve=not claims,
        )
        return location

    def _backend(self, disks: int) -> striping.StripingBackend:
        """Return the backend, which stripes over so many disks.

        :raises BindingError: it cannot.
        """
        backend, server = self.operations.backend, self.request.server
        if isinstance(backend, striping.StripingBackend):
            return backend
        raise errors.BindingError(
            f'volume {self.request.volume_id} of server '
            f'{server and server.uuid} is to be striped over {disks} disks, '
            'but vdisk_backend=filesystem has no striping: prepare the disks '
            'with --backend lvm, or make a stripe inside the guest of vdisks '
            'by diskplacer:mapping=round_robin (diskplacer-manage '
            'guest-config --layout stripe)',
            'the disks of the host cannot stripe a volume',
        )

    def _choose_disks(
        self,
        server: nova_api.Server,
        vdisks: flavor.VDiskRequest,
        disks: collections.abc.Sequence[discover.Disk],
        claims: Counts,
        vdisks_by_disk: Counts,
    ) -> list[str]:
        """Return the disks for the pieces.

        The arguments are as for :meth:`bind`.

        :returns: none for a volume that fits no claims, and that is not one of
            the boot of its server.
        :raises BindingError: no disks fit.
        """
        number, size_gb = vdisks.stripe_disks, self.request.size_gb
        piece_gb = leg_gb(size_gb, vdisks.legs) * vdisks.legs // number
        per_disk = max(vdisks_by_disk.values(), default=0) + 1
        if plugins.load(vdisks.placed_by).spreads:
            per_disk = min(vdisks.vdisks_per_disk, vdisks.vdisks)
        if claims:
            chosen = disk_choice.claimed_stripe(
                disks,
                server.uuid,
                claims,
                vdisks_by_disk,
                piece_gb,
                per_disk,
                number,
            )
        else:
            room = {
                disk.uuid: self.operations.free_gb(disk)
                for disk in disks
                if not disk.draining
            }
            chosen = disk_choice.free_stripe(
                disks, room, vdisks_by_disk, piece_gb, per_disk, number
            )
        if not chosen and self.request.boot_time:
            self.operations.check_claimed_disks(server.uuid, claims)
            raise errors.BindingError(
                f'volume {self.request.volume_id} of {size_gb} GiB needs '
                f'{piece_gb} GiB on each of {number} disks: server '
                f'{server.uuid} claims GiB by disk {dict(claims)} and has '
                f'vdisks by disk {dict(vdisks_by_disk)}, at most {per_disk} '
                'may share one',
                'the volume does not fit the flavor of its server, which '
                f'stripes volumes of {vdisks.vdisk_gb} GiB over {number} '
                'disks',
            )
        return chosen

    def _create(
        self,
        backend: striping.StripingBackend,
        location: Location,
        minimum: int,
        bound_for: str | None,
        *,
        reserve: bool,
    ) -> None:
        """Create all pieces; if one cannot be created, delete the others.

        :param minimum: least number of disks of an elastic vdisk, else 0.
        :param bound_for: the server whose claims they fill.
        """
        request, operations = self.request, self.operations
        disks = location.disks
        pieces = location.pieces_gb(request.size_gb)
        # a change that oversells a disk is undone under its lock
        with locks.hold_all(f'disk-{uuid}' for uuid in disks):
            try:
                for uuid in disks:
                    backend.create_piece(
                        uuid,
                        request.name,
                        request.volume_id,
                        bound_for,
                        pieces[uuid],
                        location,
                        minimum,
                    )
                    operations.disown(uuid, request.name, bound_for)
                    _, piece = backend.find_vdisk(uuid, request.name)
                    if piece.size_gb < pieces[uuid]:
                        backend.extend(uuid, request.name, pieces[uuid])
                for uuid in disks if reserve else ():
                    if not operations.reserve(uuid):
                        raise errors.BindingError(
                            f'the vdisks on disk {uuid} and the claims of '
                            'servers are larger than the disk',
                            'a disk of the volume has no room for it',
                        )
            except exception.DiskPlacerError:
                for uuid in disks:
                    with contextlib.suppress(exception.DiskError):
                        backend.delete(uuid, request.name)
                    operations.try_reserve(uuid)
                raise
