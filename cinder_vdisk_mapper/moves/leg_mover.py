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

import contextlib

from cinder import exception as cinder_exc
from cinder import objects
from oslo_config import cfg

from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.moves import backends
from cinder_vdisk_mapper.moves import leg_move
from cinder_vdisk_mapper.moves import leg_steps
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks import records
from nova_diskplacer import exception
from nova_diskplacer.disks import copy_pace
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import mover
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.lvm import resync_throttle
from nova_diskplacer.host import files

_MIB = 1 << 20


class LegMover(mover.Mover):
    """Moves legs of volumes, which may be striped or elastic."""

    def move(
        self,
        volume_id: str,
        location: Location,
        progress: mover.Progress,
        stopped: mover.IsStopped,
        percent: int,
    ) -> None:
        with _sole():
            backend, volume = backends.find(cfg.CONF, volume_id)
            _recover_others(backend, volume, location)
            _move(backend, volume, location, percent, None, progress, stopped)

    def evacuate(
        self,
        volume_id: str,
        source: str,
        target: str,
        progress: mover.Progress,
        rate: int,
    ) -> None:
        """Move all legs of a volume to a disk without any; repeatable.

        :param source: UUID of the disk that the legs leave.
        :param target: UUID of the disk that they go to.
        :param progress: as for :meth:`move`.
        :param rate: MiB/s of the copy at most, 0 for no limit.
        :raises DiskPlacerError: as :meth:`move`.
        """
        with _sole():
            backend, volume = backends.find(cfg.CONF, volume_id)
            location = naming.location(volume).replaced(source, target)
            _recover_others(backend, volume, location)
            # from where the legs are now
            location = naming.location(volume).replaced(source, target)
            mbps = rate * _MIB / copy_pace.MB
            disks = map(backend.storage.disk, (source, target))
            percent = copy_pace.percent_of(mbps, disks) if rate else 100
            _move(
                backend,
                volume,
                location,
                percent,
                mbps,
                progress,
                lambda: False,
            )
            name = naming.volume(volume)
            if backend.storage.disk(source).find(name):
                raise exception.DiskError(
                    f'disk {source} has a vdisk {name} that is no part of its '
                    'volume: see "diskplacer-manage disk audit"'
                )

    def take_back(self, volume_id: str) -> None:
        """Undo the interrupted moves of a volume, or finish those decided.

        :raises DiskPlacerError: this is not possible, or another process
            moves legs.
        """
        with _sole():
            backend, volume = backends.find(cfg.CONF, volume_id)
            _recover_others(backend, volume, naming.location(volume))
            backend.storage.as_root(resync_throttle.release_throttle)

    def recover(self) -> None:
        failed = []
        with _sole():
            for backend in backends.from_conf(cfg.CONF):
                for disk in backend.storage.disks(wait=True):
                    if disk.health == discover.HUNG:
                        failed.append(f'disk {disk.uuid} is hung')
                    for vdisk in disk.vdisks:
                        if not vdisk.moving:
                            continue
                        try:
                            _recover(backend, disk.uuid, vdisk.name)
                        except exception.DiskPlacerError as error:
                            failed.append(f'{vdisk.name}: {error}')
                if not failed:
                    backend.storage.as_root(resync_throttle.release_throttle)
        if failed:
            raise exception.DiskError(
                'moves are neither finished nor taken back: '
                + '; '.join(failed)
            )


def _sole() -> contextlib.AbstractContextManager[None]:
    return files.sole(
        leg_steps.LOCK,
        exception.DiskError('another process moves legs of a vdisk'),
    )


def _recover_others(
    backend: backends.Backend, volume: Volume, location: Location
) -> None:
    """Recover the interrupted moves of a volume, but the one to a location.

    They may change the location of the volume.

    :raises DiskError: the disk that its legs were to come to is away.
    """
    name = naming.volume(volume)
    record = backend.storage.recorded_move(name)
    if record and not backend.storage.forgotten(record.target):
        target = backend.storage.disk(record.target)
        if target.health in discover.UNAVAILABLE:
            # it may have legs, a copy of them, and their claim
            raise exception.DiskError(
                f'a move of volume {volume.id} to disk {target.uuid} was '
                f'interrupted, and the disk is {target.health}: it is moved '
                'when the disk is back or forgotten'
            )
    for disk in _moving_disks(backend, name):
        move = backend.storage.interrupted_move(disk, name)
        if move != (naming.location(volume), location):
            _recover(backend, disk, name)
            volume.refresh()


def _moving_disks(backend: backends.Backend, name: str) -> list[str]:
    """Return the disks with legs of a vdisk that come or have left."""
    return [
        disk.uuid
        for disk in backend.storage.disks(wait=True)
        if disk.has_moving(name)
    ]


def _move(
    backend: backends.Backend,
    volume: Volume,
    location: Location,
    percent: int,
    mbps: float | None,
    progress: mover.Progress,
    stopped: mover.IsStopped,
) -> None:
    """Move the legs of a volume to a location, if they are not there.

    The kernel copies freely afterwards.

    :param percent: see :class:`leg_move.LegMove`, as for ``mbps``.
    :raises DiskError: it is no step away, or the legs are not moved.
    """
    old = naming.location(volume)
    if old == location:
        return
    try:
        step = old.step_to(location)
    except ValueError as error:
        raise exception.DiskError(
            f'volume {volume.id} cannot be moved: {error}'
        ) from error
    move = leg_move.LegMove(
        backend, volume, old, location, step, percent, mbps
    )
    try:
        leg_steps.run(move, progress, stopped)
    finally:
        if not _moving_disks(backend, naming.volume(volume)):
            backend.storage.as_root(resync_throttle.release_throttle)


def _recover(backend: backends.Backend, disk: str, name: str) -> None:
    """Finish or take back the move that has left legs on a disk."""
    operations = backend.operations
    volume = _volume_of(backend, name)
    if volume is None:
        operations.delete_everywhere(Location(), name)
        return
    locations = backend.storage.interrupted_move(disk, name)
    location = naming.location(volume)
    if locations is None or (
        location != locations[0] and disk not in location
    ):
        # the rest of a move that was finished but for this, or of one to a
        # disk that was away while the legs moved to another one
        backend.storage.delete_moving(disk, name)
        operations.try_reserve(disk)
        return
    old, new = locations
    if location != old and len(location) == len(old):
        # it was decided, and some legs are settled
        new = location
    # the rest of it
    step = old.moved_to(new)
    if step is None:
        raise exception.DiskError(
            f'volume {volume.id}: {old} to {new} is no step, nor the rest of '
            'one'
        )
    leg_steps.take_back(leg_move.LegMove(backend, volume, old, new, step))


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
