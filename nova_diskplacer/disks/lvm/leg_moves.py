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
:func:`end_move` repeats it in the place that is kept, or
:func:`release_writes` where the disk of that place has failed. So the vdisk
has no error when the disk that a leg comes to dies, and has one when the disk
that it is on dies, as without a move.

Every function may be repeated after a crash, and raises DiskError if a leg is
missing, or LVM, the device mapper or a disk fails. The location ``old`` is
that before the move, ``new`` the one after it: legs of one disk move to one
other disk.
"""

import collections
import dataclasses
import os
import re

from nova_diskplacer import constants
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
from nova_diskplacer.host import sysfs

# Least and most sectors that the kernel copies at once; writes to them wait
# meanwhile. Under pressure each copy waits long for the disk, so it copies the
# most. In quiet, requests wait for the copy, so it takes a few ms at most.
_LEAST_REGION = 128
_MOST_REGION = 1024
_QUIET_COPY_S = 0.0035

MB = 10**6

_STATUS = re.compile(r' mirror \d+ .*?(\d+)/(\d+) 1 ([A-Z]+) ')
_MIRROR = re.compile(r'0 (\d+) mirror core .* 2 (\S+) 0 (\S+) 0 ')


@dataclasses.dataclass(frozen=True)
class _Leg:
    """A leg that moves: its number, and its names on source and target."""

    number: int
    leaving: str
    coming: str


@dataclasses.dataclass(frozen=True)
class _Step:
    """The legs that move, and the UUIDs of both disks."""

    source: str
    target: str
    legs: list[_Leg]


def create_legs(old: Location, name: str, new: Location) -> None:
    """Allocate the legs that come to a disk.

    :raises DiskError: the legs to move have snapshots, the disk lacks the
        space, or the blocks of the disk are larger than those in use.
    """
    step = _step(old, name, new)
    _check_blocks(name, step.target)
    origin = groups.require(step.source)
    with group_changes.changing(step.target) as group:
        for leg in step.legs:
            source = origin.require_usable(leg.leaving)
            if origin.snapshots_of(source.vdisk.name):
                raise exception.DiskError(f'vdisk {name} has snapshots')
            target = group.find(leg.coming)
            if target is None:
                owners = (naming.VOLUME + '=', naming.SERVER + '=')
                tags = [tag for tag in source.tags if tag.startswith(owners)]
                tags += [f'{naming.MOVING}={leg.number}', naming.INCOMPLETE]
                group_changes.allocate(
                    group,
                    leg.coming,
                    source.size_bytes,
                    tags + source.stripe_tags,
                )
            elif naming.DELETED in target.tags or not target.vdisk.moving:
                raise exception.DiskError(
                    f'disk {step.target} still has a vdisk {target.vdisk.name}'
                )


def _check_blocks(name: str, target: str) -> None:
    """Check that a vdisk in use may have legs on a disk.

    Its user makes requests of the logical blocks that the device had when it
    was opened, and a disk with larger ones fails them.
    """
    path = naming.striped_device(name)
    if not os.path.exists(path):
        return
    size = sysfs.logical_block_size(path)
    devices = groups.require(target).devices
    larger = max(map(sysfs.logical_block_size, devices))
    if larger > size:
        raise exception.DiskError(
            f'disk {target} has logical blocks of {larger} bytes, and vdisk '
            f'{name} is in use with those of {size}: move it to a disk '
            'without larger ones, or detach its volume first'
        )


def begin_move(
    old: Location, name: str, new: Location, size_bytes: int, percent: int
) -> None:
    """Start the kernel's copy of the legs that were created.

    :param size_bytes: size of the vdisk.
    :param percent: of the time that the kernel copies at first.
    :raises DiskError: the kernel copies a leg to another disk.
    """
    step = _step(old, name, new)
    with stripes.locked(name):
        # it may have been attached since the legs were created
        _check_blocks(name, step.target)
        for leg in step.legs:
            path = naming.moving_device(name, leg.number)
            if not os.path.exists(path):
                source = groups.require(step.source)
                leaving = source.require_usable(leg.leaving)
                device_mapper.create(path, [_linear(leaving)])
        # a mirror that copies before all writes go by it would miss some
        stripes.reload(old, name, size_bytes, moving=True)
        for leg in step.legs:
            path = naming.moving_device(name, leg.number)
            if ' mirror ' in device_mapper.table(path):
                _check_places(path, name, step, leg)
            else:
                sectors = _MOST_REGION
                if old.width >= new.width:
                    sectors = _quiet_region(step.source, step.target)
                _mirror(path, step, leg, sectors, percent)


def _quiet_region(*disks: str) -> int:
    """Return how many sectors disks copy in a few ms, a power of two."""
    mbps = min(groups.require(disk).identity.mbps for disk in disks)
    sectors = int(_QUIET_COPY_S * mbps * MB / device_mapper.SECTOR)
    region = 1 << max(0, sectors.bit_length() - 1)
    return max(_LEAST_REGION, min(_MOST_REGION, region))


def _mirror(
    path: str, step: _Step, leg: _Leg, region: int, percent: int
) -> None:
    """Make the device that copies a leg to its new place, from its start."""
    source = groups.require(step.source).require_usable(leg.leaving)
    with group_changes.changing(step.target) as group:
        target = group.require(leg.coming)
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
    resync_throttle.limit_copies(percent)
    device_mapper.resume(path)


def _check_places(path: str, name: str, step: _Step, leg: _Leg) -> None:
    """Check that a mirror copies a leg between both places of a step.

    That of an earlier step may be left, to a disk that does not answer now.
    """
    mirror = _MIRROR.search(device_mapper.table(path))
    places = tuple(
        device_mapper.number(f'/dev/{volume.path}')
        for volume in (
            groups.require(step.source).require(leg.leaving),
            groups.require(step.target).require(leg.coming),
        )
    )
    if mirror is None or mirror.groups()[1:] != places:
        raise exception.DiskError(
            f'leg {leg.number} of {name} is not copied to disk {step.target}: '
            'another move of it was interrupted'
        )


def _linear(volume: report.Volume, sectors: int = 0) -> str:
    """Return the line of a device that is on a volume alone."""
    place = group_changes.activate(volume)
    sectors = sectors or volume.size_bytes // device_mapper.SECTOR
    return f'0 {sectors} linear {place} 0'


def move_progress(old: Location, name: str, new: Location) -> tuple[int, int]:
    """Return how many bytes are in both places, and all bytes.

    :raises DiskError: a disk has failed, or nothing is copied any more.
    """
    step = _step(old, name, new)
    done = total = 0
    for leg in step.legs:
        path = naming.moving_device(name, leg.number)
        if not os.path.exists(path):
            raise exception.DiskError(
                f'the copy of leg {leg.number} of {name} has ended: the '
                'volume was deleted, or the host was rebooted'
            )
        status = _STATUS.search(device_mapper.status(path))
        if status is None:
            raise exception.DiskError(
                f'the copy of leg {leg.number} was taken back'
            )
        if status[3].strip('A'):
            raise exception.DiskError(
                f'a disk failed while leg {leg.number} of {name} was copied: '
                f'the kernel tells {status[3]} of its places, see its log'
            )
        _check_places(path, name, step, leg)
        size = groups.require(step.source).require(leg.leaving).size_bytes
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
        step = _step(old, name, new)
        with group_changes.changing(step.target) as group:
            legs = [group.require(leg.coming) for leg in step.legs]
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


def release_writes(name: str, moved: bool) -> None:
    """Repeat the writes that mirrors hold back, in one place alone.

    The disk of that place may be gone, so that LVM cannot be asked: the writes
    fail then, instead of waiting forever.

    :param moved: whether that is the place after the move.
    """
    with stripes.locked(name):
        for leg in range(constants.MAX_STRIPE_DISKS):
            path = naming.moving_device(name, leg)
            if not os.path.exists(path):
                continue
            mirror = _MIRROR.search(device_mapper.table(path))
            if mirror:
                sectors, *places = mirror.groups()
                line = f'0 {sectors} linear {places[moved]} 0'
                # otherwise the kernel waits for what it holds back
                device_mapper.reload(path, [line], '--noflush')


def settle_legs(
    new: Location, name: str, old: Location, forgotten: bool = False
) -> None:
    """Mark the legs that have left, and those of the new location.

    Legs that come keep the tags of the old one to the end, for
    :func:`interrupted_move`.

    :param forgotten: the disk that legs have left is gone for good, so that
        nothing is marked there.
    """
    stripes.legs(new, name, 0)
    step = _step(old, name, new)
    legs: dict[str, list[str]] = collections.defaultdict(list)
    for uuid, suffix in naming.pieces(new):
        legs[uuid].append(name + suffix)
    if not forgotten:
        with group_changes.changing(step.source) as group:
            _mark_left(group, [leg.leaving for leg in step.legs])
            _settle(group, legs[step.source], new)
    for uuid in sorted(legs.keys() - {step.source, step.target}):
        with group_changes.changing(uuid) as group:
            _settle(group, legs[uuid], new)
    coming = [leg.coming for leg in step.legs]
    there = [leg for leg in legs[step.target] if leg not in coming]
    with group_changes.changing(step.target) as group:
        _settle(group, there, new)
        _settle(group, coming, new)


def _mark_left(group: report.Group, names: list[str]) -> None:
    left = [
        leg for leg in map(group.find, names) if leg and not leg.vdisk.moving
    ]
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
    coming = [
        leg
        for leg in groups.require(uuid).legs_of(name)
        if leg.vdisk.moving and naming.DELETED not in leg.tags
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
    legs = groups.require(uuid).legs_of(name)
    return [leg.vdisk.name for leg in legs if leg.vdisk.moving]


def _step(old: Location, name: str, new: Location) -> _Step:
    """Return the step from one location of a vdisk to another.

    :raises DiskError: legs of several disks move, or to several.
    """
    step = old.moved_to(new)
    if step is None:
        raise exception.DiskError(f'{name}: {old} to {new} is no step')
    leaving, coming = naming.pieces(old), naming.pieces(new)
    legs = [
        _Leg(leg, name + leaving[leg][1], name + coming[leg][1])
        for leg in step.legs
    ]
    return _Step(step.source, step.target, legs)
