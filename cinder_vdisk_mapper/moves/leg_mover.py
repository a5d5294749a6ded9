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

"""Moves the legs of striped volumes of this host, one move at a time.

A command has read cinder.conf before.
"""

import collections.abc
import contextlib

from cinder import exception as cinder_exc
from cinder import objects
from oslo_config import cfg
from oslo_log import log as logging

from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.moves import backends
from cinder_vdisk_mapper.moves import leg_move
from cinder_vdisk_mapper.moves import leg_steps
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks import records
from nova_diskplacer import exception
from nova_diskplacer.disks import copy_pace
from nova_diskplacer.disks.location import Location
from nova_diskplacer.host import files

LOG = logging.getLogger(__name__)

#: percent of the disks' time that a copy takes
PERCENT = 10

_MIB = 1 << 20


def move(
    volume_id: str,
    location: Location,
    progress: collections.abc.Callable[[int, int], None],
    stopped: collections.abc.Callable[[], bool],
    percent: int = PERCENT,
) -> None:
    """Move legs of a volume by one step; repeatable.

    :param location: UUID of the disk of each leg afterwards.
    :param progress: called with the copied and all bytes, once a second.
    :param stopped: tells, once a second, if the move is to be taken back.
    :param percent: of the disks' time that the copy takes, 1 to 100.
    :raises DiskPlacerError: the legs are where they were; the message has the
        reason.
    """
    with _alone():
        backend, volume = backends.find(
            backends.from_conf(cfg.CONF), volume_id
        )
        _recover_others(backend, volume, location)
        step = _make_move(backend, volume, location, percent)
        if step:
            _run(backend, step, progress, stopped)


def evacuate(
    volume_id: str,
    source: str,
    target: str,
    progress: collections.abc.Callable[[int, int], None],
    rate: int,
) -> None:
    """Move all legs of a volume from a disk to one without any; repeatable.

    The volume may be striped or elastic.

    :param source: UUID of the disk that the legs leave.
    :param target: UUID of the disk that they go to.
    :param progress: as for :func:`move`.
    :param rate: MiB/s of the copy at most, 0 for no limit.
    :raises DiskPlacerError: as :func:`move`.
    """
    with _alone():
        backend, volume = backends.find(
            backends.from_conf(cfg.CONF), volume_id
        )
        _recover_others(backend, volume, _without(volume, source, target))
        mbps = rate * _MIB / copy_pace.MB
        disks = map(backend.operations.backend.disk, (source, target))
        step = _make_move(
            backend,
            volume,
            _without(volume, source, target),
            copy_pace.percent_of(mbps, disks) if rate else 100,
            mbps,
        )
        if step:
            _run(backend, step, progress, lambda: False)
        name = naming.volume(volume)
        if source in backend.operations.backend.disks_holding(name):
            raise exception.DiskError(
                f'disk {source} has a vdisk {name} that is no part of its '
                'volume: see "diskplacer-manage disk audit"'
            )


def take_back(volume_id: str) -> None:
    """Undo the interrupted moves of a volume, or finish those decided.

    :raises DiskPlacerError: this is not possible, or another process moves
        legs.
    """
    with _alone():
        backend, volume = backends.find(
            backends.from_conf(cfg.CONF), volume_id
        )
        _recover_others(backend, volume, _location(volume))
        backend.operations.striping.release_throttle()


def _location(volume: Volume) -> Location:
    return naming.location(volume)


def _without(volume: Volume, source: str, target: str) -> Location:
    """Return the location of a volume whose legs have left a disk."""
    return _location(volume).replaced(source, target)


def _recover_others(
    backend: backends.Backend, volume: Volume, location: Location
) -> None:
    """Recover the interrupted moves of a volume, but the one to a location.

    They may change the location of the volume.
    """
    for disk, locations in _interrupted(backend, naming.volume(volume)):
        if locations != (_location(volume), location):
            _recover(backend, disk, naming.volume(volume))
            volume.refresh()


def _make_move(
    backend: backends.Backend,
    volume: Volume,
    location: Location,
    percent: int,
    mbps: float | None = None,
) -> leg_move.LegMove | None:
    """Return the move of a volume to a location, None if it is there.

    :param percent: see :class:`leg_move.LegMove`, as for ``mbps``.
    :raises DiskError: it is no step away.
    """
    old = _location(volume)
    if old == location:
        return None
    try:
        old.step_to(location)
    except ValueError as error:
        raise exception.DiskError(
            f'volume {volume.id} cannot be moved: {error}'
        ) from error
    return backend.move(volume, old, location, percent, mbps)


def _run(
    backend: backends.Backend,
    step: leg_move.LegMove,
    progress: collections.abc.Callable[[int, int], None],
    stopped: collections.abc.Callable[[], bool],
) -> None:
    """Move legs; the kernel copies freely afterwards."""
    try:
        leg_steps.run(step, progress, stopped)
    finally:
        if not _interrupted(backend, naming.volume(step.volume)):
            backend.operations.striping.release_throttle()


def recover() -> None:
    """Finish or take back all interrupted moves of this host.

    :raises DiskPlacerError: some can neither be finished nor taken back, or
        another process moves legs.
    """
    failed = []
    with _alone():
        for backend in backends.from_conf(cfg.CONF):
            for disk in backend.operations.backend.disks():
                for vdisk in disk.vdisks:
                    if not vdisk.moving:
                        continue
                    try:
                        _recover(backend, disk.uuid, vdisk.name)
                    except exception.DiskPlacerError as error:
                        failed.append(f'{vdisk.name}: {error}')
            if not failed:
                backend.operations.striping.release_throttle()
    if failed:
        raise exception.DiskError(
            'moves are neither finished nor taken back: ' + '; '.join(failed)
        )


def _alone() -> contextlib.AbstractContextManager[None]:
    return files.sole(
        leg_steps.LOCK,
        exception.DiskError('another process moves legs of a vdisk'),
    )


def _interrupted(
    backend: backends.Backend, name: str
) -> list[tuple[str, tuple[Location, Location] | None]]:
    """Return the disks with legs of a vdisk that come or have left.

    Each has the locations before and after the move, None for legs that have
    left.
    """
    return [
        (
            disk.uuid,
            backend.operations.striping.interrupted_move(disk.uuid, name),
        )
        for disk in backend.operations.backend.disks()
        if any(vdisk.name == name and vdisk.moving for vdisk in disk.vdisks)
    ]


def _recover(backend: backends.Backend, disk: str, name: str) -> None:
    """Finish or take back the move that has left legs on a disk."""
    operations = backend.operations
    volume = _volume_of(backend, name)
    if volume is None:
        operations.delete_everywhere(Location(), name)
        return
    locations = operations.striping.interrupted_move(disk, name)
    if locations is None:
        # the rest of a move that was finished but for this
        operations.striping.delete_moving(disk, name)
        operations.try_reserve(disk)
        return
    location = _location(volume)
    old, new = locations
    if location != old and len(location) == len(old):
        # it was decided, and some legs are settled
        new = location
    leg_steps.take_back(backend.move(volume, old, new, PERCENT))


def _volume_of(backend: backends.Backend, name: str) -> Volume | None:
    """Return the volume with a vdisk, None if Cinder has deleted it.

    :raises DiskError: Cinder has no row of such a volume, which would prove
        it, or has the volume in another vdisk.
    """
    rows = records.Records(backend.context, (backend.name,), 0).others([name])
    named = [record for record in rows if record.vdisk == name]
    for record in named:
        if not record.deleted:
            with contextlib.suppress(cinder_exc.VolumeNotFound):
                volume: Volume = objects.Volume.get_by_id(
                    backend.context, record.id
                )
                return volume
    if not named or any(not row.deleted for row in rows if row not in named):
        raise exception.DiskError(
            'Cinder does not know its volume: see "diskplacer-manage disk '
            'audit"'
        )
    return None
