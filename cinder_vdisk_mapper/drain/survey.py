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
from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.drain import plan
from cinder_vdisk_mapper.drain import vdisk_survey
from cinder_vdisk_mapper.moves import guests as guests_
from cinder_vdisk_mapper.vdisks import records as records_
from cinder_vdisk_mapper.vdisks.operations import VDiskOperations
from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.placement import inventory
from nova_diskplacer.placement import ledger
from nova_diskplacer.placement.client import GB
from nova_diskplacer.placement.client import Resources


@dataclasses.dataclass(frozen=True)
class Survey:
    """The vdisks of a disk, and the disks that may take them.

    ``volumes`` are by the names of their vdisks, ``room`` and the vdisks of
    each server by disk.
    """

    vdisks: tuple[plan.VDiskToMove, ...]
    volumes: dict[str, Volume]
    disks: tuple[discover.Disk, ...]
    room: dict[str, plan.Room]
    server_vdisks: dict[str, dict[str, set[str]]]


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
        all_disks = {disk.uuid: disk for disk in backend.disks(wait=True)}
        source = all_disks.pop(uuid)
        others = tuple(all_disks.values())
        targets = tuple(
            disk
            for disk in base.usable_disks(others, self.media)
            if not disk.late and not disk.draining
        )
        claims = {
            disk.uuid: self.operations.placement.provider_allocations(
                disk.uuid
            )
            for disk in (source, *targets)
        }
        servers = nova_api.of_hosts(self.context, self.hosts)
        volumes = self._volumes(source)
        # volumes may have been deleted meanwhile, their vdisks first
        remaining = {vdisk.name for vdisk in backend.check_disk(uuid).vdisks}
        surveyor = vdisk_survey.VDiskSurveyor(
            self.context,
            backend,
            self.name,
            self.default_mapping,
            self.guests,
            uuid,
            servers,
            claims[uuid],
        )
        vdisks = tuple(
            surveyor.survey(
                vdisk,
                volumes.get(vdisk.name),
                {
                    disk.uuid: other
                    for disk in others
                    if (other := disk.find(vdisk.name))
                },
                _unfilled_claims(vdisk.server_id, targets, claims),
            )
            for vdisk in source.vdisks
            if vdisk.name in remaining
        )
        counted = {vdisk.server for vdisk in vdisks}
        figures = {
            disk.uuid: inventory.compute_figures(disk, claims[disk.uuid])
            for disk in targets
        }
        return Survey(
            vdisks,
            volumes,
            targets,
            {
                uuid: plan.Room(of.free_gb, of.total_mbps - of.used_mbps)
                for uuid, of in figures.items()
            },
            {
                server_id: self._vdisks_of(server, targets)
                for server_id, server in servers.items()
                if server and server_id in counted
            },
        )

    def check_target(self, name: str, source: str, target: str) -> bool:
        """Check that a vdisk of disk ``source`` may still go to a disk.

        :returns: whether a copy of it there was begun.
        :raises DiskPlacerError: it may not, or :meth:`survey` fails.
        """
        surveyed = self.survey(source)
        vdisks = [vdisk for vdisk in surveyed.vdisks if vdisk.name == name]
        planned = plan.plan(
            vdisks,
            [disk for disk in surveyed.disks if disk.uuid == target],
            surveyed.room,
            surveyed.server_vdisks,
        )
        if planned.targets.get(name) != target:
            raise exception.DiskError(
                f'it may not go to disk {target} any more: '
                + planned.refusals.get(name, 'it is not here')
            )
        return any(vdisk.begun_target for vdisk in vdisks)

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

    def _vdisks_of(
        self, server: nova_api.Server, disks: tuple[discover.Disk, ...]
    ) -> dict[str, set[str]]:
        """Return the names of a server's vdisks by disk."""
        by_disk: dict[str, set[str]] = collections.defaultdict(set)
        attached = bind_request.attached(self.context, server)
        for disk_uuid, names in attached.items():
            by_disk[disk_uuid] |= names
        for disk in disks:
            by_disk[disk.uuid] |= {
                vdisk.name
                for vdisk in disk.vdisks
                if vdisk.server_id == server.uuid and not vdisk.is_snapshot
            }
        return by_disk


def _unfilled_claims(
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
            disk.vdisks, server, claims[disk.uuid].get(server, {}).get(GB, 0)
        )
        > 0
    )
