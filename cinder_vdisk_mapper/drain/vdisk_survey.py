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

"""Reads what decides if a vdisk of a disk can be moved, and where."""

import dataclasses
from typing import Any

from cinder import exception as cinder_exc
from cinder import objects

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.attach import bind_request
from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.backend import striping
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.cinder_api.types import attachments
from cinder_vdisk_mapper.drain import plan
from cinder_vdisk_mapper.drain import refusals
from cinder_vdisk_mapper.moves import guests as guests_
from cinder_vdisk_mapper.vdisks import naming
from nova_diskplacer import exception
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement.client import GB
from nova_diskplacer.placement.client import MBPS
from nova_diskplacer.placement.client import Resources


@dataclasses.dataclass(frozen=True)
class VDiskSurveyor:
    """Surveys the vdisks of a disk one by one.

    :param backend_name: as ``host@section``.
    :param default_mapping: of volumes whose type has none.
    :param disk: UUID of the disk.
    :param servers: as of :func:`nova_api.of_hosts`.
    :param claims: on the disk, by server.
    """

    context: Any
    backend: base.Backend
    backend_name: str
    default_mapping: str
    guests: guests_.Guests
    disk: str
    servers: dict[str, nova_api.Server | None]
    claims: dict[str, Resources]

    def survey(
        self,
        vdisk: VDisk,
        volume: Volume | None,
        others: dict[str, VDisk],
        unfilled_claims: frozenset[str],
    ) -> plan.VDiskToMove:
        """Return what decides on the move of a vdisk.

        :param volume: None if the vdisk is that of no volume.
        :param others: its copies or other parts, by disk.
        :param unfilled_claims: as those of the result.
        """
        if volume is None:
            return plan.VDiskToMove(
                vdisk,
                refusal='it is a snapshot: delete it first'
                if vdisk.is_snapshot
                else 'it is no volume of Cinder',
            )
        facts = self._facts(vdisk, volume, others)
        refusal = refusals.reason(facts, self.backend_name)
        server_id = next(iter(facts.servers), vdisk.server_id)
        server = self.servers.get(server_id or '')
        of_flavor = bind_request.is_of_flavor(server, volume)
        try:
            mapping = (
                server.request.placed_by
                if server and server.request and of_flavor
                else bind_request.mapping_of(
                    volume.volume_type, self.default_mapping
                )
            )
        except cinder_exc.InvalidVolumeType as error:
            mapping, refusal = self.default_mapping, refusal or str(error)
        return plan.VDiskToMove(
            vdisk,
            server=server_id if server else None,
            mapping=mapping,
            per_disk=bind_request.max_per_disk(server, of_flavor),
            mbps=_claimed_mbps(
                vdisk, self.claims.get(vdisk.server_id or '', {})
            ),
            begun_target=self._legs_target(vdisk, others)
            if facts.is_striped
            else _copy_target(facts),
            is_elsewhere=facts.volume_disk != self.disk,
            apart_from=frozenset(others if facts.is_striped else ()),
            unfilled_claims=unfilled_claims,
            refusal=refusal,
        )

    def _facts(
        self, vdisk: VDisk, volume: Volume, others: dict[str, VDisk]
    ) -> refusals.Facts:
        recorded_move = self.backend.recorded_move(vdisk.name)
        volume_disk, link_problem = None, ''
        try:
            volume_disk = (
                self.backend.linked_disk(vdisk.name)
                or volume.provider_location
            )
        except exception.DiskError as error:
            link_problem = str(error)
        is_striped = naming.location(volume).is_striped
        copies = tuple(
            disk
            for disk, other in others.items()
            if other.usable and not is_striped
        )
        attached = attachments(volume)
        server_ids = {attachment.instance_uuid for attachment in attached}
        servers = tuple(sorted(filter(None, server_ids)))
        # claims may change while Nova builds or moves a server
        is_settled = all(self.servers.get(server) for server in servers) and (
            self.servers.get(vdisk.server_id or '', True) is not None
        )
        is_running, guest_problem = False, ''
        if len(servers) == 1:
            try:
                is_running = bool(self.guests.find(servers[0], volume.id))
            except exception.DiskError as error:
                guest_problem = str(error)
        return refusals.Facts(
            status=volume.status,
            migration_status=volume.migration_status,
            backend=volume.host.partition('#')[0],
            servers=servers,
            is_attached_to_host=not all(server_ids),
            paths=tuple(
                str((attachment.connection_info or {}).get('device_path', ''))
                for attachment in attached
            ),
            link=self.backend.link_path(vdisk.name),
            is_encrypted=bool(volume.encryption_key_id),
            snapshots=len(
                objects.SnapshotList.get_all_for_volume(
                    self.context, volume.id
                )
            ),
            is_settled=is_settled,
            is_running=is_running,
            is_striped=is_striped,
            guest_problem=guest_problem,
            disk=self.disk,
            volume_disk=volume_disk,
            copies=copies,
            link_problem=link_problem,
            recorded_move=recorded_move,
        )

    def _legs_target(
        self, vdisk: VDisk, others: dict[str, VDisk]
    ) -> str | None:
        """Return the disk that legs have begun to move to from this one.

        :param others: the other parts of the vdisk, by disk.
        """
        if not vdisk.stripe:
            # they have left, and are only to be removed
            return next(iter(others), None)
        backend = self.backend
        for disk, other in others.items():
            if other.moving and isinstance(backend, striping.StripingBackend):
                move = backend.interrupted_move(disk, other.name)
                before, after = map(set, move or ((), ()))
                # other moves change the number of disks, or leave another one
                if (before - after, after - before) == ({self.disk}, {disk}):
                    return disk
        return None


def _copy_target(facts: refusals.Facts) -> str | None:
    """Return the disk with the copy of a vdisk that a drain has begun."""
    move = facts.recorded_move
    if move and move.source == facts.disk and move.target in facts.copies:
        return move.target
    return None


def _claimed_mbps(vdisk: VDisk, claim: Resources) -> int:
    """Return a vdisk's share of its server's claim on a disk, in MB/s.

    It is 0 if the claim does not cover the vdisk.
    """
    claimed_gb = claim.get(GB, 0)
    if not claimed_gb or claimed_gb < vdisk.size_gb:
        return 0
    return claim.get(MBPS, 0) * vdisk.size_gb // claimed_gb
