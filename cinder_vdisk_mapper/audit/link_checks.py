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

"""Compares the links to vdisks with volumes and disks."""

from cinder_vdisk_mapper.audit import findings
from cinder_vdisk_mapper.audit import state
from cinder_vdisk_mapper.vdisks import linking
from cinder_vdisk_mapper.vdisks.record import Record
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import links


def check(host: state.HostState) -> findings.Findings:
    """Find links that servers need and lack, and links that nobody needs.

    One whose disk is not known is left to the operator: what it leads to may
    be the volume.
    """
    holders: dict[str, set[str]] = {}
    for disk in host.disks:
        for vdisk in disk.vdisks:
            holders.setdefault(vdisk.name, set()).add(disk.uuid)
    living = {
        record.vdisk: record for record in host.records if not record.deleted
    }
    yield from _check_links(host, living, holders)
    for name, record in living.items():
        holding = holders.get(name, set())
        if record.settled and record.disk in holding:
            yield from _check_volume(host, record, holding)
    yield from _check_devices(host, living)


def _check_links(
    host: state.HostState,
    living: dict[str, Record],
    holders: dict[str, set[str]],
) -> findings.Findings:
    """Find links that lead to no known disk, and those of no volume.

    :param living: the volumes and snapshots that are not deleted, by vdisk.
    :param holders: UUIDs of the disks that hold each vdisk, by its name.
    """
    for name, linked in host.links.items():
        if linked is None:
            record = living.get(name)
            yield findings.Finding(
                'unknown-link',
                (record and record.disk) or '',
                name,
                record.id if record else '',
                'the link of the vdisk cannot be read, or leads to no vdisk '
                'of that name',
                advice=f'see by-volume/{name} in the disk root: repair the '
                'filesystem, or remove the link when it is known which copy '
                'is the volume; the next repair makes the link again',
            )
        elif (
            name not in living
            and name not in holders
            # a server here has it on another host
            and name not in host.moving
        ):
            yield findings.Finding(
                'stale-link',
                linked,
                name,
                message='a link leads to the vdisk of a volume that is gone',
                repair=findings.UNLINK,
            )


def _check_volume(
    host: state.HostState, record: Record, holding: set[str]
) -> findings.Findings:
    """Find what is wrong with the link, and the device, of a volume.

    :param holding: UUIDs of the disks that hold its vdisk.
    """
    name = record.vdisk
    linked = host.links.get(name)
    if linked is None and name in host.links:
        return
    present = {
        disk.uuid
        for disk in host.disks
        if disk.health not in discover.UNAVAILABLE
    }
    if linked not in holding:
        # a volume that was never attached needs no link
        if linked or record.status == 'in-use':
            yield _missing_link(host, record, linked, present)
    elif linked != record.disk:
        yield findings.Finding(
            'unfinished-move',
            record.disk or '',
            name,
            record.id,
            f'its move to disk {linked} was interrupted; the vdisk there '
            'is the volume',
            findings.FOLLOW if linked in present else '',
            '' if linked in present else f'bring disk {linked} back',
        )
    elif (
        record.status == 'in-use'
        and linked in present
        and _lacks_device(host, record, linked)
    ):
        yield findings.Finding(
            'missing-device',
            linked,
            name,
            record.id,
            'the volume is attached as a loop device, which is not there, or '
            'to which its link does not lead: its server does not start',
            findings.LINK,
        )


def _missing_link(
    host: state.HostState,
    record: Record,
    linked: str | None,
    present: set[str],
) -> findings.Finding:
    """Return that the link of a volume leads nowhere.

    :param linked: the disk that it leads to, None without a link.
    :param present: UUIDs of the disks that can be read.
    """
    message = (
        'servers find the volume by a link that is missing or leads nowhere'
    )
    advice = ''
    if linked is None and len(record.connections) > 1:
        advice = (
            'it is attached as a file and as a block device: when no server '
            'moves with it, detach it where it is one of these'
        )
    elif linked and linked not in present | host.forgotten:
        message = (
            f'its link leads to disk {linked}, which cannot be read and may '
            'have the volume'
        )
        advice = (
            f'bring disk {linked} back, or diskplacer-manage disk forget '
            f'{linked} if it is lost'
        )
    return findings.Finding(
        'missing-link',
        record.disk or '',
        record.vdisk,
        record.id,
        message,
        '' if advice else findings.LINK,
        advice,
    )


def _lacks_device(host: state.HostState, record: Record, disk: str) -> bool:
    """Return whether servers lack the device that a volume is attached as.

    :param disk: UUID of the disk that its link leads to.
    """
    if record.vdisk in host.to_devices:
        return (disk, record.vdisk) not in host.devices
    return disk in host.makes_devices and bool(
        linking.expect_device(record.connections)
    )


def _check_devices(
    host: state.HostState, living: dict[str, Record]
) -> findings.Findings:
    """Find loop devices to which no link leads."""
    for uuid, name in sorted(host.devices):
        # QEMU copies a remote vdisk, or one that is moved, to a device
        is_needed = name in host.moved or (
            name in host.to_devices
            and host.links.get(name) in (uuid, links.REMOTE)
        )
        if not is_needed:
            owner = living.get(name)
            yield findings.Finding(
                'unused-device',
                uuid,
                name,
                owner.id if owner else '',
                'the vdisk has a loop device to which no link leads',
                findings.DETACH,
            )
