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

"""Reads what a drain depends on: the disks, Cinder, Nova and Placement."""

import collections
import contextlib
import dataclasses
from typing import Any

from cinder import exception as cinder_exc
from cinder import objects

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.attach import bind_request
from cinder_vdisk_mapper.attach import binding
from cinder_vdisk_mapper.attach import connections
from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.backend import striping
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.cinder_api.types import attachments
from cinder_vdisk_mapper.drain import plan
from cinder_vdisk_mapper.drain import refusals
from cinder_vdisk_mapper.moves import guests as guests_
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks import records as records_
from cinder_vdisk_mapper.vdisks.operations import VDiskOperations
from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import move_records
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement import ledger
from nova_diskplacer.placement.client import GB
from nova_diskplacer.placement.client import MBPS
from nova_diskplacer.placement.client import Resources


@dataclasses.dataclass(frozen=True)
class Survey:
    """The vdisks of a disk, and the disks that may take them.

    ``volumes`` are by the names of their vdisks.
    """

    items: tuple[plan.Item, ...]
    volumes: dict[str, Volume]
    disks: tuple[discover.Disk, ...]
    room: dict[str, plan.Room]
    held: dict[str, dict[str, set[str]]]

    def plan(self) -> plan.Plan:
        """Return where each vdisk goes."""
        return plan.plan(self.items, self.disks, self.room, self.held)


@dataclasses.dataclass(frozen=True)
class Surveyor:
    """Surveys the disks of one backend of cinder.conf.

    :param name: of the backend, as ``host@section``.
    :param media: hdd, ssd or any.
    :param default_mapping: of volumes whose type has none.
    :param hosts: the names of this host in Nova.
    """

    context: Any
    operations: VDiskOperations
    name: str
    media: str
    default_mapping: str
    hosts: frozenset[str]
    guests: guests_.Guests

    @errors.cinder_errors()
    def survey(self, uuid: str) -> Survey:
        """Return what is on a disk and where it may go.

        :raises DiskPlacerError: the disk is not healthy, or Placement or Nova
            does not answer.
        """
        backend = self.operations.backend
        backend.check_disk(uuid)
        all_disks = {disk.uuid: disk for disk in backend.disks()}
        here = all_disks.pop(uuid)
        disks = tuple(
            disk
            for disk in base.usable_disks(all_disks.values(), self.media)
            if not disk.late and not disk.draining
        )
        claims = {
            disk_uuid: self.operations.placement.provider_allocations(
                disk_uuid
            )
            for disk_uuid in (uuid, *(disk.uuid for disk in disks))
        }
        servers = nova_api.of_hosts(self.context, self.hosts)
        volumes = self._volumes(here)
        # volumes may have been deleted meanwhile, their vdisks first
        still = {vdisk.name for vdisk in backend.disk(uuid).vdisks}
        backend.check_disk(uuid)
        items = tuple(
            self._item(
                uuid,
                vdisk,
                volumes.get(vdisk.name),
                servers,
                claims[uuid],
                {
                    disk.uuid: other
                    for disk in all_disks.values()
                    for other in disk.vdisks
                    if other.name == vdisk.name
                },
                _awaited(vdisk.server_id, disks, claims),
            )
            for vdisk in here.vdisks
            if vdisk.name in still
        )
        counted = {item.server for item in items if item.server}
        return Survey(
            items,
            volumes,
            disks,
            {disk.uuid: self._room(disk, claims[disk.uuid]) for disk in disks},
            {server: self._held(server, servers, disks) for server in counted},
        )

    def check_target(self, name: str, source: str, target: str) -> bool:
        """Check that a vdisk of disk ``source`` may still go to a disk.

        :returns: whether a copy of it there was begun.
        :raises DiskPlacerError: it may not, or :meth:`survey` fails.
        """
        now = self.survey(source)
        items = [item for item in now.items if item.vdisk.name == name]
        planned = plan.plan(
            items,
            [disk for disk in now.disks if disk.uuid == target],
            now.room,
            now.held,
        )
        if planned.targets.get(name) != target:
            raise exception.DiskError(
                f'it may not go to disk {target} any more: '
                + planned.refusals.get(name, 'it is not here')
            )
        return any(item.begun for item in items)

    def _volumes(self, disk: discover.Disk) -> dict[str, Volume]:
        """Return the volumes of Cinder whose vdisks a disk holds."""
        names = [vdisk.name for vdisk in disk.vdisks]
        volumes = {}
        for record in records_.Records(self.context, (self.name,), 0).others(
            names
        ):
            if (
                record.kind == 'volume'
                and record.vdisk in names
                and not record.deleted
            ):
                with contextlib.suppress(cinder_exc.VolumeNotFound):
                    volumes[record.vdisk] = objects.Volume.get_by_id(
                        self.context, record.id
                    )
        return volumes

    def _item(
        self,
        disk: str,
        vdisk: VDisk,
        volume: Volume | None,
        servers: dict[str, nova_api.Server | None],
        claims: dict[str, Resources],
        others: dict[str, VDisk],
        awaited: frozenset[str],
    ) -> plan.Item:
        """Return a vdisk of a disk.

        :param claims: on the disk, by server.
        :param others: its copies or other parts, by disk.
        :param awaited: as that of the item.
        """
        if volume is None:
            return plan.Item(
                vdisk,
                refusal='it is a snapshot: delete it first'
                if vdisk.is_snapshot
                else 'it is no volume of Cinder',
            )
        striped = naming.location(volume).is_striped
        copies = tuple(
            uuid
            for uuid, other in others.items()
            if other.usable and not striped
        )
        record = self.operations.backend.recorded_move(vdisk.name)
        refusal, place = '', None
        try:
            place = (
                self.operations.backend.linked_disk(vdisk.name)
                or volume.provider_location
            )
        except exception.DiskError as error:
            refusal = str(error)
        facts = self._facts(
            disk, vdisk, volume, servers, striped, copies, record, place
        )
        begun = record and record.source == disk and record.target in copies
        refusal = refusal or refusals.reason(facts, self.name)
        uuid = next(iter(facts.servers), vdisk.server_id)
        server = servers.get(uuid or '')
        of_flavor = connections.is_of_flavor(server, volume)
        request = server.request if server and of_flavor else None
        try:
            policy = (
                request.placed_by
                if request
                else binding.mapping_of(
                    volume.volume_type, self.default_mapping
                )
            )
        except cinder_exc.InvalidVolumeType as error:
            policy, refusal = self.default_mapping, refusal or str(error)
        claim = claims.get(vdisk.server_id or '', {})
        covered = not begun and claim.get(GB, 0) >= vdisk.size_gb
        return plan.Item(
            vdisk,
            uuid if server else None,
            policy,
            bind_request.max_per_disk(server, of_flavor),
            claim.get(MBPS, 0) * vdisk.size_gb // claim[GB] if covered else 0,
            self._legs_go_to(disk, vdisk, others)
            if striped
            else record.target
            if record and begun
            else None,
            facts.place != disk,
            frozenset(others) if striped else frozenset(),
            awaited,
            refusal,
        )

    def _legs_go_to(
        self, source: str, vdisk: VDisk, others: dict[str, VDisk]
    ) -> str | None:
        """Return the disk that the legs of a vdisk have begun to move to.

        :param source: the disk that they leave.
        :param others: the other parts of the vdisk, by disk.
        """
        if not vdisk.stripe:
            # they have left, and are only to be removed
            return next(iter(others), None)
        backend = self.operations.backend
        for disk, other in others.items():
            if other.moving and isinstance(backend, striping.StripingBackend):
                move = backend.interrupted_move(disk, other.name)
                before, after = map(set, move or ((), ()))
                # other moves change the number of disks, or leave another one
                if (before - after, after - before) == ({source}, {disk}):
                    return disk
        return None

    def _facts(
        self,
        disk: str,
        vdisk: VDisk,
        volume: Volume,
        servers: dict[str, nova_api.Server | None],
        striped: bool,
        copies: tuple[str, ...],
        record: move_records.Record | None,
        place: str | None,
    ) -> refusals.Facts:
        attached = attachments(volume)
        using = tuple(
            sorted(
                {one.instance_uuid for one in attached if one.instance_uuid}
            )
        )
        runs, problem = False, ''
        if len(using) == 1:
            try:
                runs = bool(self.guests.find(using[0], volume.id))
            except exception.DiskError as error:
                problem = str(error)
        # the claim of a server that is being built or moved may change
        concerned = {*using, vdisk.server_id or ''} & servers.keys()
        return refusals.Facts(
            volume.status,
            volume.migration_status,
            volume.host.partition('#')[0],
            using,
            any(not one.instance_uuid for one in attached),
            tuple(
                str((one.connection_info or {}).get('device_path', ''))
                for one in attached
            ),
            self.operations.backend.link_path(vdisk.name),
            bool(volume.encryption_key_id),
            len(
                objects.SnapshotList.get_all_for_volume(
                    self.context, volume.id
                )
            ),
            all(servers[one] for one in concerned)
            and all(one in servers for one in using),
            runs,
            striped,
            problem,
            disk,
            place,
            copies,
            record,
        )

    def _room(
        self, disk: discover.Disk, claims: dict[str, Resources]
    ) -> plan.Room:
        claimed = sum(claim.get(MBPS, 0) for claim in claims.values())
        return plan.Room(self.operations.free_gb(disk), disk.mbps - claimed)

    def _held(
        self,
        uuid: str,
        servers: dict[str, nova_api.Server | None],
        disks: tuple[discover.Disk, ...],
    ) -> dict[str, set[str]]:
        """Return the names of a server's vdisks by disk."""
        by_disk: dict[str, set[str]] = collections.defaultdict(set)
        server = servers[uuid]
        if server is not None:
            for disk, names in connections.attached(
                self.context, server
            ).items():
                by_disk[disk] |= names
        for other in disks:
            by_disk[other.uuid] |= {
                vdisk.name
                for vdisk in other.vdisks
                if vdisk.server_id == uuid and not vdisk.is_snapshot
            }
        return by_disk


def _awaited(
    server: str | None,
    disks: tuple[discover.Disk, ...],
    claims: dict[str, dict[str, Resources]],
) -> frozenset[str]:
    """Return the disks where a server claims space for vdisks to come.

    :param claims: on each disk, by server.
    """
    if server is None:
        return frozenset()
    return frozenset(
        disk.uuid
        for disk in disks
        if ledger.unfilled_gb(
            disk, server, claims[disk.uuid].get(server, {}).get(GB, 0)
        )
        > 0
    )
