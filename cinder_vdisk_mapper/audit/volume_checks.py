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

"""Compares the volumes and snapshots of a host with their vdisks."""

import collections

from cinder_vdisk_mapper.audit import findings
from cinder_vdisk_mapper.audit import state
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk

# The vdisks of one name, with their disks, by the UUID of the disk.
_Copies = dict[str, tuple[discover.Disk, VDisk]]


def check(host: state.HostState) -> findings.Findings:
    """Compare the volumes and snapshots of this host with the disks."""
    copies: dict[str, _Copies] = collections.defaultdict(dict)
    for disk in host.disks:
        for vdisk in disk.vdisks:
            copies[vdisk.name][disk.uuid] = disk, vdisk
    # a migration may leave two records with one name until it is finished
    living = collections.Counter(
        one.vdisk for one in host.records if not one.deleted
    )
    for record in host.records:
        if record.here and not record.deleted:
            yield from _check_record(
                host,
                record,
                dict(copies.get(record.vdisk, {})),
                living[record.vdisk] == 1,
            )


def _check_record(
    host: state.HostState, record: state.Record, copies: _Copies, alone: bool
) -> findings.Findings:
    if record.settled:
        yield from _check_settled(host, record, copies, alone)
    elif record.stuck:
        yield findings.Finding(
            'stuck',
            record.disk or '',
            record.vdisk,
            record.id,
            f'{record.kind} {record.id} has been {record.status} for too '
            'long; its vdisk is not checked meanwhile',
            advice='if cinder-volume no longer works on it: openstack volume '
            + ('snapshot ' if record.kind == 'snapshot' else '')
            + f'set --state available {record.id}, and repeat the operation',
        )


def _check_settled(
    host: state.HostState, record: state.Record, copies: _Copies, alone: bool
) -> findings.Findings:
    """Compare a record without an operation under way with the disks."""
    for disk, vdisk in copies.values():
        if vdisk.volume_id not in record.ids:
            yield findings.Finding(
                'wrong-owner',
                disk.uuid,
                record.vdisk,
                record.id,
                f'the owner of the vdisk is {vdisk.volume_id!r}, not '
                f'{record.kind} {record.id}',
                advice='find out who copied or changed it; its owner is the '
                'attribute user.diskplacer.volume of the file, or the tag '
                'diskplacer.volume of the logical volume',
            )
    if record.disk is None or record.disk not in copies:
        yield from _check_location(host, record, copies, alone)
        return
    disk, vdisk = copies.pop(record.disk)
    yield from _check_size(record, disk, vdisk, only=not copies)
    if not vdisk.usable:
        yield findings.Finding(
            'not-whole',
            disk.uuid,
            record.vdisk,
            record.id,
            f'the vdisk of {record.kind} {record.id} cannot be attached: its '
            'creation, extension or deletion was interrupted, so that it may '
            'be incomplete or contain data of others',
            advice='repeat the interrupted operation (an extension, to the '
            f'same size), or delete the {record.kind}',
        )
    whole = alone and _is_complete(record, disk, vdisk)
    for other, second in copies.values():
        repair = whole and other.health == discover.OK
        yield findings.Finding(
            'second-copy',
            other.uuid,
            record.vdisk,
            record.id,
            f'{second.size_gb} GiB left of an interrupted migration: '
            f'{record.kind} {record.id} is on disk {disk.uuid}',
            findings.DELETE if repair else '',
            ''
            if repair
            else f'check that the copy on disk {disk.uuid} is complete, then '
            + findings.removal_command(other.uuid, record.vdisk),
        )


def _check_location(
    host: state.HostState, record: state.Record, copies: _Copies, alone: bool
) -> findings.Findings:
    """Report a vdisk that is not on the disk of its record."""
    health = {disk.uuid: disk.health for disk in host.disks}
    recorded = record.disk and health.get(record.disk, discover.MISSING)
    if record.disk and recorded in discover.UNAVAILABLE:
        yield _missing_disk(host, record)
    elif record.disk and not copies:
        yield findings.Finding(
            'lost',
            record.disk,
            record.vdisk,
            record.id,
            f'neither disk {record.disk} nor any other has the vdisk of '
            f'{record.kind} {record.id}',
            advice=f'restore it from a backup, or delete the {record.kind}',
        )
    for disk, vdisk in copies.values():
        # the record keeps a disk that may come back
        repair = (
            alone
            and len(copies) == 1
            and recorded not in discover.UNAVAILABLE
            and _is_complete(record, disk, vdisk)
        )
        yield findings.Finding(
            'not-recorded',
            disk.uuid,
            record.vdisk,
            record.id,
            f'the vdisk of {record.kind} {record.id} is here, but its disk '
            f'in the database is {record.disk or "none"}',
            findings.RECORD if repair else '',
            ''
            if repair
            else 'several disks have a copy, or it is incomplete, or the disk '
            'in the database may come back: find out which copy is right '
            f'before the {record.kind} is used',
        )


def _missing_disk(
    host: state.HostState, record: state.Record
) -> findings.Finding:
    disk = record.disk or ''
    forgotten = disk in host.forgotten
    return findings.Finding(
        'disk-forgotten' if forgotten else 'disk-missing',
        disk,
        record.vdisk,
        record.id,
        f'{record.kind} {record.id} is on disk {disk}, which '
        + ('was forgotten' if forgotten else 'cannot be read'),
        advice=f'delete the {record.kind}'
        if forgotten
        else 'bring the disk back, or diskplacer-manage disk forget '
        f'{disk} if it is lost',
    )


def _check_size(
    record: state.Record, disk: discover.Disk, vdisk: VDisk, only: bool
) -> findings.Findings:
    size = record.size_gb * GIB
    if vdisk.size_bytes == size:
        return
    smaller = vdisk.size_bytes < size
    # an extended vdisk would look complete beside a complete copy
    extend = (
        smaller
        and only
        and vdisk.usable
        and record.kind == 'volume'
        and disk.health == discover.OK
    )
    advice = 'check if it is complete' if smaller and not extend else ''
    if not smaller:
        advice = (
            f'an extension was interrupted: repeat it to {vdisk.size_gb} GiB'
        )
    yield findings.Finding(
        'wrong-size',
        disk.uuid,
        record.vdisk,
        record.id,
        f'the vdisk has {vdisk.size_bytes} bytes, {record.kind} {record.id} '
        f'{size}',
        findings.EXTEND if extend else '',
        advice,
    )


def _is_complete(
    record: state.Record, disk: discover.Disk, vdisk: VDisk
) -> bool:
    return (
        disk.health == discover.OK
        and vdisk.usable
        and vdisk.volume_id in record.ids
        and vdisk.size_bytes >= record.size_gb * GIB
    )
