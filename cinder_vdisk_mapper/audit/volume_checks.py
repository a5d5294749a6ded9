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

"""Compares volumes and snapshots with the vdisks on the disks of a host."""

import collections

from cinder_vdisk_mapper.audit import findings
from cinder_vdisk_mapper.audit import state
from cinder_vdisk_mapper.audit import stripe_checks
from cinder_vdisk_mapper.vdisks.record import Record
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk

# The vdisks of one name, with their disks, by the UUID of the disk.
_Copies = dict[str, tuple[discover.Disk, VDisk]]


def check_vdisks(host: state.HostState) -> findings.Findings:
    """Find vdisks without a volume or snapshot on this host."""
    by_id = collections.defaultdict(list)
    for record in host.records:
        for id_ in record.ids:
            by_id[id_].append(record)
    for disk in host.disks:
        for vdisk in disk.vdisks:
            if state.is_vdisk_name(vdisk.name):
                owner = vdisk.name.partition('-')[2]
                yield from _vdisk(host, disk, vdisk, by_id[owner])


def check_blank_volumes(host: state.HostState) -> findings.Findings:
    """Find volumes that Nova made for a boot and forgot with the server."""
    for record in host.records:
        if record.here and record.blank_of in host.nova.gone:
            yield _finding(
                record,
                'blank-volume-without-server',
                record.disk or '',
                f'volume {record.id} of {record.size_gb} GiB is '
                f'{record.status}, and Nova made it for the boot of server '
                f'{record.blank_of}, which does not exist',
                'if no other Nova has the server, and all cells of this one '
                'answer: openstack volume set '
                f'--state error --detached {record.id}, then openstack volume '
                f'delete {record.id}',
            )


def _vdisk(
    host: state.HostState,
    disk: discover.Disk,
    vdisk: VDisk,
    records: list[Record],
) -> findings.Findings:
    """Compare a vdisk with the records of its id.

    While a server moves, both hosts have one. That of the host that Cinder
    does not name yet may be the volume.
    """
    owner = vdisk.name.partition('-')[2]
    named = [record for record in records if record.vdisk == vdisk.name]
    living = [record for record in records if not record.deleted]
    if any(record.here for record in living if record in named):
        return
    kind = vdisk.name.partition('-')[0]
    removal = findings.removal_command(disk.uuid, vdisk.name)
    if living:
        if vdisk.name in host.moving:
            return
        yield findings.Finding(
            'elsewhere',
            disk.uuid,
            vdisk.name,
            living[0].id,
            f'{kind} {living[0].id} exists ({living[0].status}), but Cinder '
            'has it on another host or in another vdisk',
            advice='check if the disk was moved here from another host; if '
            f'the volume was migrated away and is complete there, {removal}',
        )
    elif named:
        writable = disk.health == discover.OK
        yield findings.Finding(
            findings.ORPHAN,
            disk.uuid,
            vdisk.name,
            owner,
            f'{vdisk.size_gb} GiB of a {kind} that Cinder has deleted',
            findings.DELETE if writable else '',
            '' if writable else f'make disk {disk.uuid} writable',
        )
    else:
        yield findings.Finding(
            'unknown',
            disk.uuid,
            vdisk.name,
            owner,
            f'{vdisk.size_gb} GiB of a {kind} that Cinder does not know, or '
            'has purged from its database',
            advice=f'if it is not needed, {removal}',
        )


def check_records(host: state.HostState) -> findings.Findings:
    """Compare the volumes and snapshots of this host with the disks."""
    copies: dict[str, _Copies] = collections.defaultdict(dict)
    for disk in host.disks:
        for vdisk in disk.vdisks:
            copies[vdisk.name][disk.uuid] = disk, vdisk
    # a migration may leave two records with one name until it is finished
    living = collections.Counter(
        record.vdisk for record in host.records if not record.deleted
    )
    for record in host.records:
        if not record.here or record.deleted:
            continue
        if record.settled:
            present = copies.get(record.vdisk, {})
            alone = living[record.vdisk] == 1
            for part, own in stripe_checks.split(record, present):
                yield from _check_settled(host, part, dict(own), alone)
            yield from stripe_checks.check(host, record, present)
        elif record.stuck:
            kind = 'snapshot ' if record.kind == 'snapshot' else ''
            advice = f'set --state available {record.id}, and repeat it'
            if record.status == 'creating':
                # what is in it is not known
                advice = f'set --state error {record.id}, and delete it'
            yield _finding(
                record,
                'stuck',
                record.disk or '',
                f'{record.kind} {record.id} has been {record.status} for too '
                'long; its vdisk is not checked meanwhile',
                'if cinder-volume no longer works on it: openstack volume '
                f'{kind}{advice}',
            )


def _finding(
    record: Record,
    kind: str,
    disk: str,
    message: str,
    advice: str,
    repair: str = '',
) -> findings.Finding:
    """Return a finding about a record, with advice if there is no repair."""
    return findings.Finding(
        kind,
        disk,
        record.vdisk,
        record.id,
        message,
        repair,
        '' if repair else advice,
    )


def _check_settled(
    host: state.HostState, record: Record, copies: _Copies, alone: bool
) -> findings.Findings:
    """Compare a record without an operation under way with the disks."""
    for disk, vdisk in copies.values():
        if vdisk.volume_id not in record.ids:
            yield _finding(
                record,
                'wrong-owner',
                disk.uuid,
                f'the owner of the vdisk is {vdisk.volume_id!r}, not '
                f'{record.kind} {record.id}',
                'find out who copied or changed it; its owner is the '
                'attribute user.diskplacer.volume of the file, or the tag '
                'diskplacer.volume of the logical volume',
            )
    if record.disk is None or record.disk not in copies:
        yield from _check_location(host, record, copies, alone)
        return
    disk, vdisk = copies.pop(record.disk)
    yield from _check_size(record, disk, vdisk, only=not copies)
    if not vdisk.usable:
        yield _finding(
            record,
            'not-whole',
            disk.uuid,
            f'the vdisk of {record.kind} {record.id} cannot be attached: its '
            'creation, extension or deletion was interrupted, so that it may '
            'be incomplete or contain data of others',
            'repeat the interrupted operation (an extension, to the same '
            f'size), or delete the {record.kind}',
        )
    # a drain takes up the copies that it has begun
    linked = host.links.get(record.vdisk, disk.uuid)
    drained = disk.draining or linked in copies
    whole = (
        alone
        and not drained
        and linked == disk.uuid
        and _is_complete(record, disk, vdisk)
    )
    for other, second in copies.values():
        yield _finding(
            record,
            'second-copy',
            other.uuid,
            f'{second.size_gb} GiB left of an interrupted migration: '
            f'{record.kind} {record.id} is on disk {disk.uuid}',
            f'repeat diskplacer-manage disk drain {disk.uuid}, or give it '
            '--cancel'
            if drained
            else f'check that the copy on disk {disk.uuid} is complete, then '
            + findings.removal_command(other.uuid, record.vdisk),
            findings.DELETE if whole and other.health == discover.OK else '',
        )


def _check_location(
    host: state.HostState, record: Record, copies: _Copies, alone: bool
) -> findings.Findings:
    """Report a vdisk that is not on the disk of its record."""
    health = {disk.uuid: disk.health for disk in host.disks}
    missing = (
        record.disk is not None
        and health.get(record.disk, discover.MISSING) in discover.UNAVAILABLE
    )
    if record.disk and missing:
        forgotten = record.disk in host.forgotten
        yield _finding(
            record,
            'disk-forgotten' if forgotten else 'disk-missing',
            record.disk,
            f'{record.kind} {record.id} is on disk {record.disk}, which '
            + ('was forgotten' if forgotten else 'cannot be read'),
            f'delete the {record.kind}'
            if forgotten
            else 'bring the disk back, or diskplacer-manage disk forget '
            f'{record.disk} if it is lost',
        )
    elif record.disk and not copies:
        yield _finding(
            record,
            'lost',
            record.disk,
            f'neither disk {record.disk} nor any other has the vdisk of '
            f'{record.kind} {record.id}',
            f'restore it from a backup, or delete the {record.kind}',
        )
    for disk, vdisk in copies.values():
        # the record keeps a disk that may come back, and so does the link
        linked = host.links.get(record.vdisk, disk.uuid)
        repair = (
            alone
            and len(copies) == 1
            and not missing
            and linked == disk.uuid
            and _is_complete(record, disk, vdisk)
        )
        yield _finding(
            record,
            'not-recorded',
            disk.uuid,
            f'the vdisk of {record.kind} {record.id} is here, but its disk '
            f'in the database is {record.disk or "none"}',
            'several disks have a copy, or it is incomplete, or the disk in '
            'the database or that of its link may come back: find out which '
            f'copy is right before the {record.kind} is used',
            findings.RECORD if repair else '',
        )


def _check_size(
    record: Record, disk: discover.Disk, vdisk: VDisk, only: bool
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
    yield _finding(
        record,
        'wrong-size',
        disk.uuid,
        f'the vdisk has {vdisk.size_bytes} bytes, {record.kind} {record.id} '
        f'{size}',
        'check if it is complete'
        if smaller
        else f'an extension was interrupted: repeat it to {vdisk.size_gb} GiB',
        findings.EXTEND if extend else '',
    )


def _is_complete(record: Record, disk: discover.Disk, vdisk: VDisk) -> bool:
    return (
        disk.health == discover.OK
        and vdisk.usable
        and vdisk.volume_id in record.ids
        and vdisk.size_bytes >= record.size_gb * GIB
    )
