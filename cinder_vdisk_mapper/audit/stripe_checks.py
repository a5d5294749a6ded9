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

"""Checks of striped volumes and snapshots: the pieces, and the stripe."""

import collections.abc
import dataclasses

from cinder_vdisk_mapper.audit import findings
from cinder_vdisk_mapper.audit import state
from cinder_vdisk_mapper.vdisks.record import Record
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import VDisk

# The vdisks of one name, with their disks, by the UUID of the disk.
_Copies = collections.abc.Mapping[str, tuple[discover.Disk, VDisk]]


def split(record: Record, copies: _Copies) -> list[tuple[Record, _Copies]]:
    """Return the records to compare with vdisks, each with its vdisks.

    They are one record for each piece of a striped volume, with the size of
    the piece. A volume that is not striped is its own record. One that is not
    recorded as bound has none if there are pieces of it, and so has an elastic
    volume that is being moved.
    """
    if _is_moved(copies):
        return []
    if record.location.is_striped:
        return [
            (
                dataclasses.replace(record, disk=uuid, size_gb=size_gb),
                {uuid: copies[uuid]} if uuid in copies else {},
            )
            for uuid, size_gb in record.location.pieces_gb(
                record.size_gb
            ).items()
        ]
    if not record.disk and any(vdisk.stripe for _, vdisk in copies.values()):
        return []
    return [(record, copies)]


def check(
    host: state.HostState, record: Record, copies: _Copies
) -> findings.Findings:
    """Compare the disks of a stripe with those of the record."""
    if _is_moved(copies):
        if not host.moves_legs:
            yield from _unfinished(record, copies)
        return
    if record.location.is_striped:
        yield from _elsewhere(record, copies)
    elif not record.location:
        yield from _not_recorded(record, copies)


def _not_recorded(record: Record, copies: _Copies) -> findings.Findings:
    for uuid, (_, vdisk) in sorted(copies.items()):
        if vdisk.stripe:
            yield findings.Finding(
                'not-recorded',
                uuid,
                record.vdisk,
                record.id,
                f'a piece of {record.kind} {record.id} is here, but it has no '
                'disk in the database: its creation was interrupted',
                advice=f'attach the {record.kind}, which completes it, or '
                'delete it',
            )


def _elsewhere(record: Record, copies: _Copies) -> findings.Findings:
    """Find pieces that are on other disks, or of another stripe."""
    location = record.location
    for uuid, (_, vdisk) in sorted(copies.items()):
        if uuid not in location:
            yield findings.Finding(
                'second-copy',
                uuid,
                record.vdisk,
                record.id,
                f'{vdisk.size_gb} GiB of {record.kind} {record.id}, which is '
                f'striped over disks {record.disk}',
                advice='check that all of those have their pieces, then '
                + findings.removal_command(uuid, record.vdisk),
            )
        elif vdisk.stripe != location:
            yield findings.Finding(
                'wrong-stripe',
                uuid,
                record.vdisk,
                record.id,
                f'the vdisk is a piece of a stripe over disks '
                f'{vdisk.stripe or "none"}, '
                f'{record.kind} {record.id} is striped over {record.disk}',
                advice='find out who changed the tags diskplacer.stripe of '
                'the logical volume or provider_location in the database',
            )


def _unfinished(record: Record, copies: _Copies) -> findings.Findings:
    for uuid, (_, vdisk) in sorted(copies.items()):
        if vdisk.moving:
            yield findings.Finding(
                'unfinished-move',
                uuid,
                record.vdisk,
                record.id,
                f'legs of {record.kind} {record.id} come to the disk or have '
                'left it, and no process moves them',
                advice='repeat the drain if a disk was being emptied, or '
                'restart the service diskplacer-elastic, which finishes the '
                'move or takes it back when it starts',
            )


def _is_moved(copies: _Copies) -> bool:
    """Return whether legs of a vdisk come to a disk, or have left one.

    The next move on the host finishes or undoes a move that was interrupted.
    """
    return any(vdisk.moving for _, vdisk in copies.values())
