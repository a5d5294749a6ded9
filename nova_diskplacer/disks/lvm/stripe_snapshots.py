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

"""Snapshots of striped vdisks: all pieces show one moment.

A snapshot's pieces carry the mark of incomplete volumes until all of them are
there. They are made only where there is none of them, so a complete set was
made at one moment, and an interrupted one is removed and made anew.
"""

from nova_diskplacer import exception
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.lvm import blockcopy
from nova_diskplacer.disks.lvm import copies
from nova_diskplacer.disks.lvm import group_changes
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import stripes
from nova_diskplacer.disks.lvm import volumes


def snapshot_stripe(
    location: Location, name: str, snapshot: str, snapshot_id: str
) -> None:
    """Make a snapshot of a striped vdisk, which may be in use.

    It may be repeated.

    :raises DiskError: a disk lacks the space, the vdisk ``snapshot`` has
        another owner, or LVM or a disk fails.
    """
    legs = naming.pieces(location)
    present = {
        (uuid, suffix): piece
        for uuid, suffix in legs
        if (piece := groups.require(uuid).find(snapshot + suffix)) is not None
    }
    for piece in present.values():
        if piece.vdisk.volume_id != snapshot_id:
            raise exception.DiskError(
                f'vdisk {snapshot} in {piece.group} belongs to '
                f'{piece.vdisk.volume_id!r}'
            )
    if len(present) < len(legs) or any(
        naming.DELETED in piece.tags for piece in present.values()
    ):
        for uuid, suffix in present:
            volumes.delete(uuid, snapshot + suffix)
        with stripes.suspended(name):
            for uuid, suffix in legs:
                copies.snapshot(
                    uuid,
                    name + suffix,
                    snapshot + suffix,
                    snapshot_id,
                    mark=[naming.INCOMPLETE],
                )
    for uuid, suffix in legs:
        with group_changes.changing(uuid) as group:
            volume = group.require(snapshot + suffix)
            if naming.INCOMPLETE in volume.tags:
                group_changes.change_tags([volume], remove=[naming.INCOMPLETE])


def stripe_writes(location: Location, name: str) -> str:
    """Return a text that changes if any piece of a vdisk is written to."""
    counters = []
    for uuid, suffix in naming.pieces(location):
        volume = groups.require(uuid).require_usable(name + suffix)
        path = group_changes.activate(volume)
        counters.append('/'.join(blockcopy.write_counters(path)))
    return ' '.join(counters)
