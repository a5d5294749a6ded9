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

"""Moves legs of an elastic vdisk from one disk to another.

While a leg is moved, a device of the target ``mirror`` is over both its
places: the kernel copies, writes of the server go to both, and the device of
the vdisk uses it as the leg. Where the leg is afterwards is the caller's
decision. Tags mark the legs that come, and those that have left.

A write that fails in one of the places waits in the mirror until
:func:`end_move` repeats it in the place that is kept. So the vdisk has no
error when the disk that a leg comes to dies, and has one when the disk that it
is on dies, as without a move.

Every function may be repeated after a crash, and raises DiskError if a leg is
missing, or LVM, the device mapper or a disk fails. The location ``old`` is
that before the move, ``new`` the one after it: UUIDs of the disks of all legs,
with commas between them.
"""

import collections
import os
import re

from nova_diskplacer import exception
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.lvm import device_mapper
from nova_diskplacer.disks.lvm import group_changes
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import report
from nova_diskplacer.disks.lvm import resync_throttle
from nova_diskplacer.disks.lvm import stripes
from nova_diskplacer.disks.lvm import volumes

# Least and most sectors that the kernel copies at once; writes to them wait
# meanwhile. Under pressure each copy waits long for the disk, so it copies the
# most. In quiet, requests wait for the copy, so it takes a few ms at most.
_LEAST_REGION = 128
_MOST_REGION = 1024
_QUIET_COPY_S = 0.0035

MB = 10**6

_STATUS = re.compile(r' mirror \d+ .*?(\d+)/(\d+) 1 ([A-Z]+) ')


def create_legs(old: Location, name: str, new: Location) -> None:
    """Allocate the legs that come to a disk.

    :raises DiskError: the legs to move have snapshots, or the disk lacks the
        space.
    """
    moved = _moved(old, new)
    (_, (here, _), (there, _)), *_ = moved
    origin = groups.require(here)
    with group_changes.changing(there) as group:
        for leg, (_, suffix), (_, coming) in moved:
            source = origin.require_usable(name + suffix)
            if origin.snapshots_of(source.vdisk.name):
                raise exception.DiskError(f'vdisk {name} has snapshots')
            target = group.find(name + coming)
            if target is None:
                owners = (naming.VOLUME + '=', naming.SERVER + '=')
                tags = [tag for tag in source.tags if tag.startswith(owners)]
                tags += [f'{naming.MOVING}={leg}', naming.INCOMPLETE]
                group_changes.allocate(
                    group,
                    name + coming,
                    source.size_bytes,
                    tags + source.stripe_tags,
                )
            elif naming.DELETED in target.tags or not target.moving:
                raise exception.DiskError(
                    f'disk {there} still has a vdisk {target.vdisk.name}'
                )


def begin_move(
    old: Location, name: str, new: Location, size_bytes: int, percent: int
) -> None:
    """Start the kernel's copy of the legs that were created.

    :param size_bytes: size of the vdisk.
    :param percent: of the time that the kernel copies at first.
    """
    moved = _moved(old, new)
    with stripes.locked(name):
        for leg, (uuid, suffix), _ in moved:
            path = naming.moving_device(name, leg)
            if not os.path.exists(path):
                source = groups.require(uuid).require_usable(name + suffix)
                device_mapper.create(path, [_linear(source)])
        # a mirror that copies before all writes go by it would miss some
        stripes.reload(old, name, size_bytes, moving=True)
        for leg, here, there in moved:
            path = naming.moving_device(name, leg)
            if ' mirror ' not in device_mapper.table(path):
                source = groups.require(here[0]).require_usable(name + here[1])
                sectors = _region(old, new, here[0], there[0])
                _mirror(
                    path, source, there[0], name + there[1], sectors, percent
                )


def _region(old: Location, new: Location, *disks: str) -> int:
    """Return how many sectors the kernel copies at once, a power of two."""
    if old.width < new.width:
        return _MOST_REGION
    mbps = min(groups.require(disk).identity.mbps for disk in disks)
    sectors = int(_QUIET_COPY_S * mbps * MB / device_mapper.SECTOR)
    region = 1 << max(0, sectors.bit_length() - 1)
    return max(_LEAST_REGION, min(_MOST_REGION, region))


def _mirror(
    path: str,
    source: report.Volume,
    uuid: str,
    leg: str,
    region: int,
    percent: int,
) -> None:
    """Make the device that copies a leg to its new place, from its start."""
    with group_changes.changing(uuid) as group:
        target = group.require(leg)
        if naming.INCOMPLETE not in target.tags:
            group_changes.change_tags([target], [naming.INCOMPLETE])
    places = [group_changes.activate(volume) for volume in (source, target)]
    # core: with a log on disk, a reboot would leave a second truth about the
    # place of the leg. handle_errors: without it the kernel completes a write
    # that only the copy has, and a move that is taken back loses it.
    device_mapper.load(
        path,
        [
            f'0 {source.size_bytes // device_mapper.SECTOR} mirror '
            f'core 1 {region} 2 {places[0]} 0 {places[1]} 0 1 handle_errors'
        ],
    )
    # the table has loaded the module, and nothing is copied yet
    resync_throttle.limit(percent)
    device_mapper.resume(path)


def _linear(volume: report.Volume, sectors: int = 0) -> str:
    """Return the line of a device that is on a volume alone."""
    place = group_changes.activate(volume)
    sectors = sectors or volume.size_bytes // device_mapper.SECTOR
    return f'0 {sectors} linear {place} 0'


def move_progress(old: Location, name: str, new: Location) -> tuple[int, int]:
    """Return how many bytes are in both places, and all bytes.

    :raises DiskError: a disk has failed, or nothing is copied any more.
    """
    done = total = 0
    for leg, here, _ in _moved(old, new):
        path = naming.moving_device(name, leg)
        if not os.path.exists(path):
            raise exception.DiskError(
                f'the copy of leg {leg} of {name} has ended: the volume was '
                'deleted, or the host was rebooted'
            )
        status = _STATUS.search(device_mapper.status(path))
        if status is None:
            raise exception.DiskError(f'the copy of leg {leg} was taken back')
        if status[3].strip('A'):
            raise exception.DiskError(
                f'a disk failed while leg {leg} of {name} was copied: the '
                f'kernel tells {status[3]} of its places, see its log'
            )
        size = groups.require(here[0]).require(name + here[1]).size_bytes
        done += size * int(status[1]) // int(status[2])
        total += size
    return done, total


def complete_legs(old: Location, name: str, new: Location) -> None:
    """Mark legs that are the same in both places as complete.

    :raises DiskError: they are not the same yet.
    """
    with stripes.locked(name):
        done, total = move_progress(old, name, new)
        if done < total:
            raise exception.DiskError(
                f'{total - done} bytes of {name} are not copied yet'
            )
        places = [there for _, _, there in _moved(old, new)]
        with group_changes.changing(places[0][0]) as group:
            legs = [group.require(name + suffix) for _, suffix in places]
            dirty = {tag for leg in legs for tag in leg.dirty_tags}
            group_changes.change_tags(legs, remove=[naming.INCOMPLETE, *dirty])


def end_move(kept: Location, name: str, size_bytes: int) -> None:
    """Switch the vdisk to the legs of one location alone.

    :param kept: that location, ``old`` or ``new``.
    """
    paths = []
    with stripes.locked(name):
        for leg, (uuid, suffix) in enumerate(naming.pieces(kept)):
            path = naming.moving_device(name, leg)
            if os.path.exists(path):
                volume = groups.require(uuid).require_usable(name + suffix)
                sectors = int(device_mapper.table(path).split()[1])
                line = _linear(volume, sectors)
                # requests waiting for the other place are repeated in this one
                device_mapper.reload(path, [line], '--noflush')
                paths.append(path)
        if paths:
            stripes.reload(kept, name, size_bytes, moving=False)
        for path in paths:
            device_mapper.remove(path)


def settle_legs(new: Location, name: str, old: Location) -> None:
    """Mark the legs that have left, and those of the new location.

    Legs that come keep the tags of the old one to the end, for
    :func:`interrupted_move`.
    """
    stripes.legs(new, name, 0)
    moved = _moved(old, new)
    (_, (source, _), (target, _)), *_ = moved
    legs: dict[str, list[str]] = collections.defaultdict(list)
    for uuid, suffix in naming.pieces(new):
        legs[uuid].append(name + suffix)
    leaving = [name + suffix for _, (_, suffix), _ in moved]
    with group_changes.changing(source) as group:
        _mark_left(group, leaving)
        _settle(group, legs[source], new)
    for uuid in sorted(legs.keys() - {source, target}):
        with group_changes.changing(uuid) as group:
            _settle(group, legs[uuid], new)
    coming = [name + suffix for _, _, (_, suffix) in moved]
    with group_changes.changing(target) as group:
        _settle(group, [leg for leg in legs[target] if leg not in coming], new)
        _settle(group, coming, new)


def _mark_left(group: report.Group, names: list[str]) -> None:
    left = [leg for leg in map(group.find, names) if leg and not leg.moving]
    if left:
        group_changes.change_tags(
            left,
            [f'{naming.MOVING}=left', naming.DELETED],
            {tag for leg in left for tag in leg.stripe_tags},
        )


def _settle(group: report.Group, names: list[str], location: Location) -> None:
    """Give legs the tags of a location, and none of a move."""
    tags = set(naming.location_tags(location))
    marks = naming.STRIPE + '.', naming.MOVING + '='
    present = {
        leg: {tag for tag in leg.tags if tag.startswith(marks)}
        for leg in map(group.require, names)
    }
    others = [leg for leg in present if present[leg] != tags]
    if others:
        old = set().union(*present.values())
        group_changes.change_tags(others, tags, old - tags)


def interrupted_move(uuid: str, name: str) -> tuple[Location, Location] | None:
    """Return the locations before and after the move that brings legs here.

    Those that were not created yet are not among the moved ones.

    :returns: None if no legs come to the disk.
    """
    group = groups.require(uuid)
    coming = [
        leg
        for leg in map(group.require, moving_legs(uuid, name))
        if naming.DELETED not in leg.tags
    ]
    if not coming:
        return None
    old = coming[0].vdisk.stripe
    moved = {int(naming.value(leg.tags, naming.MOVING)) for leg in coming}
    new = Location(
        uuid if leg in moved else disk for leg, disk in enumerate(old)
    )
    return old, new


def remove_legs(uuid: str, name: str, wiped: bool) -> None:
    """Remove the legs of :func:`moving_legs` that are marked as deleted.

    :param wiped: all of them read as zeros.
    :raises DiskError: one is in use.
    """
    volumes.remove_all(uuid, moving_legs(uuid, name), wiped)


def moving_legs(uuid: str, name: str) -> list[str]:
    """Return the names of the legs that come to a disk or have left it."""
    group = groups.require(uuid)
    return [leg for leg in group.legs_of(name) if group.require(leg).moving]


def _moved(
    one: Location, other: Location
) -> list[tuple[int, tuple[str, str], tuple[str, str]]]:
    """Return the legs that differ, with both disks and suffixes."""
    pairs = zip(naming.pieces(one), naming.pieces(other), strict=True)
    return [
        (leg, here, there)
        for leg, (here, there) in enumerate(pairs)
        if here[0] != there[0]
    ]
