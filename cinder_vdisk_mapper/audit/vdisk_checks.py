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

"""Finds vdisks without a volume or snapshot."""

import collections

from cinder_vdisk_mapper.audit import findings
from cinder_vdisk_mapper.audit import state
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import VDisk


def check(host: state.HostState) -> findings.Findings:
    """Find vdisks without a volume or snapshot on this host."""
    by_id = collections.defaultdict(list)
    for record in host.records:
        for id_ in record.ids:
            by_id[id_].append(record)
    for disk in host.disks:
        for vdisk in disk.vdisks:
            if state.is_vdisk_name(vdisk.name):
                owner = vdisk.name.partition('-')[2]
                yield from _vdisk(disk, vdisk, by_id[owner])


def _vdisk(
    disk: discover.Disk, vdisk: VDisk, known: list[state.Record]
) -> findings.Findings:
    """Compare a vdisk with the records of its id."""
    owner = vdisk.name.partition('-')[2]
    named = [one for one in known if one.vdisk == vdisk.name]
    living = [one for one in known if not one.deleted]
    if any(one.here for one in living if one in named):
        return
    kind = vdisk.name.partition('-')[0]
    if living:
        yield findings.Finding(
            'elsewhere',
            disk.uuid,
            vdisk.name,
            living[0].id,
            f'{kind} {living[0].id} exists ({living[0].status}), but Cinder '
            'has it on another host or in another vdisk',
            advice='check if the disk was moved here from another host; if '
            'the volume was migrated away and is complete there, '
            + findings.removal_command(disk.uuid, vdisk.name),
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
            advice='if it is not needed, '
            + findings.removal_command(disk.uuid, vdisk.name),
        )
