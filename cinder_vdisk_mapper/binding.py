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

"""Binds a vdisk to a disk: late, when the server is known.

What a server has claimed on the disks of this host in Placement is used up
first. A vdisk without a claim goes where the mapping policy says and is
reserved in Placement, or it is not bound at all.
"""

import collections
import collections.abc
import contextlib
import dataclasses

from oslo_log import log as logging

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper import vdisk_operations
from cinder_vdisk_mapper import vdisk_reservation
from cinder_vdisk_mapper.backend import base
from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer import mapping
from nova_diskplacer.disks import discover
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import ledger

LOG = logging.getLogger(__name__)

# More vdisks than a disk holds of one server.
_UNLIMITED = 1 << 30

BindingError = vdisk_reservation.BindingError

#: all that the owner of a volume may know of a server of somebody else
FOREIGN = 'a volume can be attached only to a server of its own project'


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A vdisk to bind.

    ``server`` is whom it is for, of the project of the volume, None if nobody;
    ``boot_time`` tells if Nova made it for that server's boot. ``policy`` is
    the mapping where no claim decides. ``attached`` returns the names of the
    vdisks that are attached to the server, by disk; it is called when no other
    binding can change that.
    """

    name: str
    volume_id: str
    size_gb: int
    server: nova_api.Server | None
    boot_time: bool
    policy: str
    attached: collections.abc.Callable[[], dict[str, frozenset[str]]]


class Binder(vdisk_operations.Upkeep):
    """Binds vdisks to the disks of one backend.

    :param media: hdd, ssd or any.
    """

    def __init__(
        self,
        backend: base.Backend,
        placement: placement_client.PlacementClient,
        media: str,
    ) -> None:
        super().__init__(backend, placement)
        self.media = media

    def places(self, name: str) -> list[str]:
        """Return the disks that hold a vdisk of that name.

        There are several only where a move was interrupted.
        """
        return [
            disk.uuid
            for disk in self.backend.disks()
            if any(vdisk.name == name for vdisk in disk.vdisks)
        ]

    def bind(self, wanted: Wanted) -> str:
        """Allocate the vdisk and return the UUID of its disk.

        :raises BindingError: no disk may hold it.
        :raises PlacementError: Placement cannot be asked or told.
        :raises DiskError: the disk that the server claimed refuses.
        """
        with _exclusive(wanted):
            for found in self.places(wanted.name):
                # a run that was killed before it could say so, or before
                # all of it read as zeros
                self._create(found, wanted)
                self._settle(found)
                return found
            claims = self._claims(wanted)
            disks = self._answering(claims)
            held = _held(disks, wanted)
            chosen = self._claimed(wanted, disks, claims, held)
            if chosen:
                # whoever oversells the disk at this moment undoes it first
                with vdisk_reservation.lock(f'disk-{chosen}'):
                    self._create(chosen, wanted)
                return chosen
            return self._bind_unclaimed(wanted, disks, claims, held)

    def move(
        self,
        wanted: Wanted,
        source: str,
        commit: collections.abc.Callable[[str], None],
    ) -> None:
        """Move a vdisk that nobody uses to a disk of this binder's media.

        :param source: UUID of the disk where it is.
        :param commit: called with the UUID of the disk where the vdisk is
            from then on, when its copy there is safe.
        :raises BindingError: no disk may hold it.
        :raises PlacementError: Placement cannot be asked or told.
        :raises DiskError: a disk refuses.
        """
        with _exclusive(wanted):
            _, vdisk = self.look(source, wanted.name)
            self._leave_only(wanted.name, source)
            disks = [one for one in self._answering({}) if one.uuid != source]
            wanted = dataclasses.replace(
                wanted,
                volume_id=vdisk.volume_id,
                size_gb=max(wanted.size_gb, vdisk.size_gb),
            )
            target = self._bind_unclaimed(wanted, disks, {}, _held([], wanted))
            try:
                self.backend.copy(source, wanted.name, target)
            except Exception:
                self.delete(target, wanted.name)
                raise
            commit(target)
            self._leave_only(wanted.name, target)

    def tidy(self, name: str, volume_id: str, disk: str) -> None:
        """Delete what an interrupted move of a volume left on other disks.

        :param disk: UUID of the disk where the volume is.
        """
        with vdisk_reservation.lock(f'volume-{volume_id}'):
            self.look(disk, name)
            self._leave_only(name, disk)

    def check_distinct(self, wanted: Wanted, disk: str) -> None:
        """See that round robin lets a bound vdisk be attached to a server.

        :raises BindingError: the server has as many vdisks on that disk as
            it may have.
        """
        if wanted.server is None:
            return
        request = wanted.server.request
        policy = request.mapping if request else wanted.policy
        if not mapping.load(policy).spreads:
            return
        per_disk = _spread(wanted.server)
        with vdisk_reservation.lock(f'server-{wanted.server.uuid}'):
            held = _held([self.backend.disk(disk)], wanted)[disk]
        if held >= per_disk:
            raise BindingError(
                f'volume {wanted.volume_id} is on disk {disk}, where server '
                f'{wanted.server.uuid} has {per_disk} vdisks already, which '
                f'is as many as {policy} puts on one disk',
                'the disk of the volume holds as many volumes of the server '
                f'as {policy} puts on one disk',
            )

    def _leave_only(self, name: str, disk: str) -> None:
        """Delete a vdisk from all disks but one."""
        for place in self.places(name):
            if place != disk:
                try:
                    self.delete(place, name)
                except exception.DiskError as error:
                    # the next start of the driver tries again
                    LOG.warning('%s stays on disk %s: %s', name, place, error)

    def _answering(
        self, claims: collections.abc.Container[str]
    ) -> list[discover.Disk]:
        """Return the usable disks that answer; those claimed may take longer.

        :param claims: the disks that the server claims.
        """
        disks = [
            self.backend.disk(disk.uuid)
            if disk.uuid in claims
            and (disk.late or disk.health == discover.HUNG)
            else disk
            for disk in self.backend.disks()
        ]
        return [disk for disk in usable(disks, self.media) if not disk.late]

    def _claims(self, wanted: Wanted) -> dict[str, int]:
        """Return what the server claims on any disk, in GiB."""
        if wanted.server is None:
            return {}
        server = wanted.server
        allocations = self.placement.allocations(server.uuid)
        if allocations.project_id not in (None, server.project_id):
            raise BindingError(
                f'server {server.uuid} is of project {server.project_id}, '
                f'and its claims of project {allocations.project_id}',
                FOREIGN,
            )
        return {
            provider: resources[placement_client.GB]
            for provider, resources in allocations.resources.items()
            if placement_client.GB in resources
        }

    def _claimed(
        self,
        wanted: Wanted,
        disks: list[discover.Disk],
        claims: dict[str, int],
        held: dict[str, int],
    ) -> str | None:
        if wanted.server is None or not claims:
            return None
        request = wanted.server.request
        spread = request and mapping.load(request.mapping).spreads
        chosen = ledger.claimed_disk(
            disks,
            wanted.server.uuid,
            claims,
            held,
            wanted.size_gb,
            _spread(wanted.server) if spread else _UNLIMITED,
        )
        if chosen is None and wanted.boot_time:
            state = {
                disk.uuid: ledger.unfilled_gb(
                    disk, wanted.server.uuid, claims[disk.uuid]
                )
                for disk in disks
                if disk.uuid in claims
            }
            raise BindingError(
                f'volume {wanted.volume_id} of {wanted.size_gb} GiB does not '
                f'fit what server {wanted.server.uuid} has claimed: '
                f'GiB by disk {claims}, of which not filled {state}; a blank '
                'volume is as large as diskplacer:vdisk_gb of the flavor '
                'and there are diskplacer:vdisks of them',
                'the volume does not fit what the flavor of its server asks '
                'for: a blank volume is as large as diskplacer:vdisk_gb, and '
                'there are diskplacer:vdisks of them',
            )
        return chosen

    def _bind_unclaimed(
        self,
        wanted: Wanted,
        disks: list[discover.Disk],
        claims: dict[str, int],
        held: dict[str, int],
    ) -> str:
        server = wanted.server
        if server and server.request:
            # a claim that is yet to be filled is a vdisk that is to come
            for uuid, gb in claims.items():
                vdisks = -(-gb // server.request.vdisk_gb)
                held[uuid] = max(held.get(uuid, 0), vdisks)
        per_disk = _spread(server)
        free = {disk.uuid: self.room_gb(disk) for disk in disks}
        while True:
            chosen = ledger.policy_disk(
                disks, free, held, wanted.size_gb, wanted.policy, per_disk
            )
            if chosen is None:
                raise BindingError(
                    f'no disk for volume {wanted.volume_id} of '
                    f'{wanted.size_gb} GiB by {wanted.policy}: GiB not '
                    f'claimed by disk {free}, vdisks of server '
                    f'{server and server.uuid} by disk {dict(held)}, of '
                    f'which round_robin puts {per_disk} on one disk',
                    'no disk of the host has room for the volume, or '
                    'round_robin allows no more volumes of the server there',
                )
            if self._take(chosen, wanted, free):
                return chosen

    def _take(self, disk: str, wanted: Wanted, free: dict[str, int]) -> bool:
        """Allocate a vdisk without a claim and reserve it in Placement.

        False, and all as before, if the disk is no longer as ``free`` says,
        which is corrected, or turns out to lack the room.
        """
        with vdisk_reservation.lock(f'disk-{disk}'):
            before = free.pop(disk)
            now = self.room_gb(self.backend.disk(disk))
            if now != before:
                # whoever chose at the same time chose the same disk
                free[disk] = now
                return False
            try:
                self._create(disk, wanted)
                if self.reserve(disk):
                    return True
            except exception.DiskError as error:
                LOG.warning('Trying another disk than %s: %s', disk, error)
                return False
            except exception.PlacementError:
                self.backend.delete(disk, wanted.name)
                raise
            self.backend.delete(disk, wanted.name)
            self.sync(disk)
            return False

    def _create(self, disk: str, wanted: Wanted) -> None:
        self.backend.create(
            disk,
            wanted.name,
            wanted.volume_id,
            wanted.server.uuid if wanted.server else None,
            wanted.size_gb,
        )

    def _settle(self, disk: str) -> None:
        with vdisk_reservation.lock(f'disk-{disk}'):
            if not self.reserve(disk):
                raise BindingError(
                    f'disk {disk} holds more than it has room for beside '
                    'what servers claim on it',
                    'the disk of the volume has no room for it',
                )


def usable(
    disks: collections.abc.Iterable[discover.Disk], media: str
) -> list[discover.Disk]:
    """Return the disks that are healthy and of the medium."""
    return [
        disk
        for disk in disks
        if disk.health == discover.OK and media in (flavor.ANY, disk.medium)
    ]


def _spread(server: nova_api.Server | None) -> int:
    """Return how many vdisks of a server round robin puts on one disk."""
    return server.request.vdisks_per_disk if server and server.request else 1


def _held(
    disks: list[discover.Disk], wanted: Wanted
) -> collections.defaultdict[str, int]:
    """Return how many other vdisks of the server are on each disk."""
    held: collections.defaultdict[str, int] = collections.defaultdict(int)
    if wanted.server is None:
        return held
    attached = wanted.attached()
    for disk in disks:
        names = {
            vdisk.name
            for vdisk in disk.vdisks
            if vdisk.server_id == wanted.server.uuid
        } | attached.get(disk.uuid, frozenset())
        held[disk.uuid] = len(names - {wanted.name})
    return held


@contextlib.contextmanager
def _exclusive(wanted: Wanted) -> collections.abc.Iterator[None]:
    """Hold the volume, and the server that it is for, if any."""
    with contextlib.ExitStack() as stack:
        if wanted.server:
            stack.enter_context(
                vdisk_reservation.lock(f'server-{wanted.server.uuid}')
            )
        stack.enter_context(
            vdisk_reservation.lock(f'volume-{wanted.volume_id}')
        )
        yield
