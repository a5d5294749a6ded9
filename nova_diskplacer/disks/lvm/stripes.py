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

"""Devices over the pieces of striped vdisks.

A striped vdisk has a piece, a logical volume, in the volume group of each of
its disks; the piece of an elastic vdisk has a volume for each of its legs. The
device mapper's target ``striped`` makes one device of them, which exists while
the vdisk is attached. Tags of each volume name all disks of the stripe. Every
function may be repeated after a crash, and raises DiskError if a piece is
missing, or LVM, the device mapper or a disk fails.

The device's UUID begins as those of LVM's own devices do, and its name has
three parts, as those of LVM's hidden devices have. So neither LVM nor udev
looks into it: what a tenant writes there must never be taken for a volume
group of the host.
"""

import collections.abc
import contextlib
import os
import time
import zlib

from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import device_mapper
from nova_diskplacer.disks.lvm import group_changes
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import report
from nova_diskplacer.host import files

_DIRECTORY = '/dev/mapper'

# A disk that hangs keeps only few other vdisks waiting for their lock.
_LOCKS = 64

# Seconds that these wait, and seconds between their looks.
_PATIENCE = 300
_INTERVAL = 0.1


def table(
    pieces: collections.abc.Sequence[str], size_bytes: int, chunk_bytes: int
) -> list[str]:
    """Return the device mapper's table of a stripe, line by line.

    The target takes whole rows of chunks only. The chunks of the last row
    follow one by one, so the device is as large as the vdisk, and a chunk
    stays where it is when the vdisk is extended.

    :param pieces: paths of the pieces, in the order of the stripe.
    """
    chunk = chunk_bytes // device_mapper.SECTOR
    rows, rest = divmod(
        size_bytes // device_mapper.SECTOR, chunk * len(pieces)
    )
    position = rows * chunk * len(pieces)
    lines = []
    if rows:
        devices = ' '.join(f'{piece} 0' for piece in pieces)
        lines.append(f'0 {position} striped {len(pieces)} {chunk} {devices}')
    for piece in pieces:
        length = min(chunk, rest)
        if length:
            lines.append(f'{position} {length} linear {piece} {rows * chunk}')
        position, rest = position + length, rest - length
    return lines


def activate_stripe(location: Location, name: str, size_bytes: int) -> str:
    """Make the device of a striped vdisk and return its path.

    A leg that is being moved is used by the device that has both places.

    :param size_bytes: size of the vdisk, at most that of all legs.
    :raises DiskError: a leg cannot be used, is too small or is not of this
        stripe.
    """
    path = naming.striped_device(name)
    with locked(name):
        volumes = legs(location, name, size_bytes)
        if os.path.exists(path):
            for volume in volumes:
                group_changes.activate(volume)
            # a snapshot that was killed has suspended it
            commands.run('dmsetup', 'resume', os.path.basename(path))
        else:
            device_mapper.create(path, _table_of(name, volumes, size_bytes))
    return path


def reload(
    location: Location, name: str, size_bytes: int, moving: bool
) -> None:
    """Switch the device of a striped vdisk to other legs, if it exists.

    The caller holds the lock of the device.

    :param moving: use the devices of legs that are being moved.
    """
    path = naming.striped_device(name)
    if os.path.exists(path):
        volumes = legs(location, name, size_bytes)
        device_mapper.reload(
            path, _table_of(name, volumes, size_bytes, moving)
        )


def _table_of(
    name: str,
    volumes: list[report.Volume],
    size_bytes: int,
    moving: bool = True,
) -> list[str]:
    chunk = int(naming.value(volumes[0].tags, naming.CHUNK))
    paths = []
    for leg, volume in enumerate(volumes):
        both = naming.moving_device(name, leg)
        use_both = moving and os.path.exists(both)
        paths.append(both if use_both else group_changes.activate(volume))
    return table(paths, size_bytes, chunk)


def legs(
    location: Location, name: str, size_bytes: int
) -> list[report.Volume]:
    """Return the volumes of the legs of a vdisk, in the order of the stripe.

    :raises DiskError: as :func:`activate_stripe`.
    """
    volumes = [
        groups.require(uuid).require_usable(name + suffix)
        for uuid, suffix in naming.pieces(location)
    ]
    for volume in volumes:
        _check_piece(volume, location, size_bytes)
    return volumes


def deactivate_stripe(location: Location, name: str) -> None:
    """Remove the device of a striped vdisk; the caller names its disks."""
    deactivate(name)


def deactivate(name: str) -> None:
    """Remove the device of a striped vdisk, if there is one.

    :raises DiskError: a process has it open.
    """
    with locked(name):
        device_mapper.remove(naming.striped_device(name))


def remove_devices(name: str, *, moving_legs_only: bool = False) -> None:
    """Remove all devices of a striped vdisk, those of moving legs too.

    :param moving_legs_only: leave the device of the vdisk.
    :raises DiskError: a process has it open, or it uses those of moving legs.
    """
    with locked(name):
        if not moving_legs_only:
            device_mapper.remove(naming.striped_device(name))
        for leg in range(constants.MAX_STRIPE_DISKS):
            device_mapper.remove(naming.moving_device(name, leg))


def resume_stripes() -> None:
    """Resume the devices that a killed snapshot has left suspended.

    One that somebody works on is left to that.
    """
    with contextlib.suppress(FileNotFoundError):
        for device in sorted(os.listdir(_DIRECTORY)):
            if device.startswith(constants.STRIPED_DEVICE):
                vdisk = device.removeprefix(constants.STRIPED_DEVICE)
                with (
                    contextlib.suppress(BlockingIOError),
                    locked(naming.vdisk_name(vdisk), wait=False),
                ):
                    commands.run('dmsetup', 'resume', device)


@contextlib.contextmanager
def suspended(name: str) -> collections.abc.Iterator[None]:
    """Hold back the requests to a striped vdisk, if it has a device.

    All earlier ones are done, so the pieces show one moment.
    """
    path = naming.striped_device(name)
    device = os.path.basename(path)
    with locked(name):
        if not os.path.exists(path):
            yield
            return
        try:
            commands.run('dmsetup', 'suspend', '--nolockfs', device)
            yield
        finally:
            commands.run('dmsetup', 'resume', device)


@contextlib.contextmanager
def locked(name: str, wait: bool = True) -> collections.abc.Iterator[None]:
    """Lock the device of a striped vdisk, and of some others.

    The helper of a service that has ended may still work on it. No lock's file
    is for one vdisk, which it would outlive. A group's lock may be taken while
    this one is held, not the other way.

    :param wait: whether to wait for others, which takes seconds unless a disk
        hangs.
    :raises BlockingIOError: it is locked, and ``wait`` is false.
    :raises DiskError: it has been locked for minutes; nothing is changed.
    """
    number = zlib.crc32(name.encode()) % _LOCKS
    lock = f'{constants.STRIPED_DEVICE}{number}'
    end = time.monotonic() + _PATIENCE
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(files.lock(lock, wait=False))
                break
            except BlockingIOError:
                if not wait:
                    raise
                if time.monotonic() >= end:
                    raise exception.DiskError(
                        f'striped vdisk {name}: another process has held lock '
                        f'{lock} for {_PATIENCE} s, for this vdisk or one '
                        'that shares the lock: repeat this later, and see in '
                        'the log of the kernel if a disk hangs'
                    ) from None
            time.sleep(_INTERVAL)
        yield


def _check_piece(
    volume: report.Volume, location: Location, size_bytes: int
) -> None:
    vdisk = volume.vdisk
    # the tags of legs that are moved, from one disk to one, change at the end
    moves = {
        pair
        for pair in zip(vdisk.stripe, location, strict=False)
        if pair[0] != pair[1]
    }
    if len(vdisk.stripe) != len(location) or len(moves) > 1:
        raise exception.DiskError(
            f'vdisk {vdisk.name} in {volume.group} is not a piece of '
            f'the stripe over {", ".join(location)}'
        )
    chunk = int(naming.value(volume.tags, naming.CHUNK))
    rows = -(-size_bytes // (chunk * len(location)))
    if volume.size_bytes < rows * chunk:
        raise exception.DiskError(
            f'the piece of vdisk {vdisk.name} in {volume.group} has '
            f'{volume.size_bytes} bytes, {rows * chunk} are needed: repeat '
            'the extension that was interrupted'
        )
