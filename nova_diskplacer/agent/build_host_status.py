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

"""Builds the status of the host from its disks and their claims."""

import collections
import collections.abc
import dataclasses

from nova_diskplacer.agent import reported_disks
from nova_diskplacer.disks import discover
from nova_diskplacer.monitor import host_status
from nova_diskplacer.placement import match_claims

#: When a claim of a server on a disk was first seen without a vdisk.
PendingSince = collections.abc.Mapping[tuple[str, str], float]


def pending_since(
    reported: collections.abc.Iterable[reported_disks.ReportedDisk],
    before: PendingSince,
    now: float,
) -> PendingSince:
    """Return since when each claim, by server and disk, lacks vdisks.

    :param before: result of the previous call.
    :param now: seconds since the epoch.
    """
    return {
        (server, row.claimed_disk): before.get((server, row.claimed_disk), now)
        for server, row in _rows(reported)
        if row.status == match_claims.PENDING and row.claimed_disk
    }


def build_disks(
    disks: collections.abc.Iterable[discover.Disk],
    reported: collections.abc.Iterable[reported_disks.ReportedDisk],
    since: PendingSince,
) -> list[host_status.Disk]:
    """Return the status of each disk of the host.

    :param reported: those that have figures in Placement.
    :param since: see ``pending_since``.
    """
    by_uuid = {disk.disk.uuid: disk for disk in reported}
    pending: dict[str, int] = collections.Counter()
    for _, row in _rows(by_uuid.values()):
        if row.status == match_claims.PENDING and row.claimed_disk:
            pending[row.claimed_disk] += row.size_gb
    oldest: dict[str, float] = {}
    for (_, uuid), seen in since.items():
        if pending[uuid]:
            oldest[uuid] = min(seen, oldest.get(uuid, seen))
    statuses = []
    for disk in disks:
        last = by_uuid.get(disk.uuid)
        statuses.append(
            host_status.Disk(
                uuid=disk.uuid,
                health=last.disk.health if last else disk.health,
                vdisks=len(disk.vdisks),
                figures=last.figures if last else None,
                pending_gb=pending[disk.uuid],
                pending_since=oldest.get(disk.uuid),
            )
        )
    return statuses


def _rows(
    reported: collections.abc.Iterable[reported_disks.ReportedDisk],
) -> collections.abc.Iterator[tuple[str, match_claims.Row]]:
    """Yield the claims of servers on disks, matched with their vdisks."""
    claims: dict[str, dict[str, int]] = collections.defaultdict(dict)
    vdisks: dict[str, list[match_claims.VDisk]] = collections.defaultdict(list)
    for reported_disk in reported:
        if reported_disk.disk.health in discover.UNAVAILABLE:
            # nothing is known of its vdisks
            continue
        for server, gb in reported_disk.figures.claims.items():
            claims[server][reported_disk.disk.uuid] = gb
        for vdisk in reported_disk.disk.vdisks:
            if vdisk.server_id is not None:
                fields = {
                    **dataclasses.asdict(vdisk),
                    'size_gb': vdisk.size_gb,
                    'is_snapshot': vdisk.is_snapshot,
                    'disk': reported_disk.disk.uuid,
                }
                vdisks[vdisk.server_id].append(fields)
    for server in claims:
        for row in match_claims.match(claims[server], vdisks[server]):
            yield server, row
