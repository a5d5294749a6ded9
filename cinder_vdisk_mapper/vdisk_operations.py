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

"""What is done to vdisks on the disk where they are."""

import collections.abc
import dataclasses

from cinder_vdisk_mapper import vdisk_reservation
from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import VDisk


class Upkeep(vdisk_reservation.Room):
    """Extends, copies, renames and deletes vdisks, and keeps the books.

    Copies stay on the disk of their original and count in full, so that
    none of them can run out of space when it is written to.
    """

    def extend(self, disk: str, name: str, size_gb: int) -> None:
        """Extend a bound vdisk to ``size_gb`` GiB.

        An extension that was interrupted counts already and is finished
        first.

        :raises BindingError: its disk has no room that nobody claims.
        :raises PlacementError: Placement cannot be asked or told.
        :raises DiskError: the disk is not there, or refuses.
        """
        with vdisk_reservation.lock(f'disk-{disk}'):
            current, vdisk = self.find(disk, name)
            what = f'extend {name} from {vdisk.size_gb} to {size_gb} GiB'
            if vdisk.size_bytes:
                self.backend.extend(disk, name, vdisk.size_gb)
            if size_gb <= vdisk.size_gb:
                # Placement may not know of an extension that was killed
                if not self.reserve(disk):
                    raise _refusal(disk, what, 0)
                return
            larger = dataclasses.replace(vdisk, size_bytes=size_gb << 30)
            free = self._room_with(current, vdisk, larger)
            refusal = _refusal(disk, what, free + size_gb - vdisk.size_gb)
            if free < 0:
                raise refusal
            self.change(
                disk,
                lambda: self.backend.extend(disk, name, size_gb),
                lambda: self.backend.shrink(disk, name, vdisk.size_gb),
                refusal,
            )

    def delete(self, disk: str, name: str) -> None:
        """Delete a vdisk and give its space back.

        :raises DiskError: the disk refuses.
        """
        self.backend.delete(disk, name)
        with vdisk_reservation.lock(f'disk-{disk}'):
            self.sync(disk)

    def allocate(
        self, disk: str, name: str, volume_id: str, size_gb: int
    ) -> None:
        """Make a vdisk of zeros that no server has claimed.

        :raises BindingError: the disk has no room that nobody claims.
        :raises PlacementError: Placement cannot be asked or told.
        :raises DiskError: the disk is not there, or refuses.
        """
        with vdisk_reservation.lock(f'disk-{disk}'):
            self._add(
                self.backend.disk(disk),
                VDisk(name, volume_id, None, size_gb << 30),
                lambda: self.backend.create(
                    disk, name, volume_id, None, size_gb
                ),
            )

    def snapshot(
        self, disk: str, name: str, snapshot: str, snapshot_id: str
    ) -> None:
        """Freeze a vdisk as another of the same size on the same disk.

        :raises BindingError: the disk has no room that nobody claims.
        :raises PlacementError: Placement cannot be asked or told.
        :raises DiskError: the disk is not there, or refuses.
        """
        with vdisk_reservation.lock(f'disk-{disk}'):
            current, vdisk = self.look(disk, name)
            self._add(
                current,
                VDisk(snapshot, snapshot_id, None, vdisk.size_bytes),
                lambda: self.backend.snapshot(
                    disk, name, snapshot, snapshot_id
                ),
            )

    def clone(
        self, disk: str, source: str, name: str, volume_id: str, size_gb: int
    ) -> None:
        """Make a vdisk of ``size_gb`` GiB with the content of another.

        ``source``, a vdisk or a snapshot, may be smaller; the rest is zeros.

        :raises BindingError: the disk has no room that nobody claims.
        :raises PlacementError: Placement cannot be asked or told.
        :raises DiskError: the disk is not there, or refuses.
        """
        copy = disk, source, name, volume_id, size_gb
        with vdisk_reservation.lock(f'disk-{disk}'):
            current, _ = self.look(disk, source)
            self._add(
                current,
                VDisk(name, volume_id, None, size_gb << 30),
                lambda: self.backend.allocate_clone(*copy),
            )
        try:
            self.backend.clone(*copy)
        except exception.DiskError:
            self.delete(disk, name)
            raise

    def revert(self, disk: str, name: str, snapshot: str | None) -> None:
        """Give a vdisk that nobody uses the content of its snapshot.

        :param snapshot: None for zeros, what it was before it was bound.
        :raises DiskError: the disk is not there, or refuses.
        """
        self.look(disk, name)
        if snapshot is None:
            self.backend.clear(disk, name)
        else:
            self.look(disk, snapshot)
            self.backend.revert(disk, name, snapshot)

    def give(self, disk: str, name: str, volume_id: str) -> None:
        """Give a vdisk that nobody uses to another volume.

        :raises DiskError: the disk is not there, or refuses.
        """
        with vdisk_reservation.lock(f'disk-{disk}'):
            self.backend.rename(disk, name, name, volume_id)
            self.sync(disk)

    def adopt(
        self, disk: str, name: str, new_name: str, volume_id: str, size_gb: int
    ) -> None:
        """Rename a vdisk, give it to a volume and have it ``size_gb`` GiB.

        Nothing is done to one that is so already.

        :raises BindingError: the disk has no room for that.
        :raises PlacementError: Placement cannot be asked or told.
        :raises DiskError: the disk is not there, or refuses.
        """
        with vdisk_reservation.lock(f'disk-{disk}'):
            current = self.backend.disk(disk)
            names = {vdisk.name for vdisk in current.vdisks}
            here = new_name if new_name in names else name
            current, before = self.find(disk, here)
            if here != name and before.volume_id != volume_id:
                raise exception.DiskError(
                    f'vdisk {here} on disk {disk} belongs to '
                    f'{before.volume_id!r}'
                )
            after = VDisk(new_name, volume_id, None, size_gb << 30)
            free = self._room_with(current, before, after)
            refusal = _refusal(
                disk,
                f'take {before.name} of {before.size_gb} GiB as {new_name} of '
                f'{size_gb} GiB',
                free + size_gb - before.size_gb,
            )
            if free < 0:
                raise refusal

            def make() -> None:
                self.backend.rename(disk, name, new_name, volume_id)
                self.backend.extend(disk, new_name, size_gb)

            def undo() -> None:
                self.backend.rename(disk, new_name, name, before.volume_id)

            self.change(disk, make, undo, refusal)

    def release(self, disk: str, name: str, new_name: str) -> None:
        """Rename a vdisk and let it belong to nobody; its room stays taken.

        :raises BindingError: it lies where its server has claimed, and the
            disk has no room for it beside that claim.
        :raises PlacementError: Placement cannot be asked.
        :raises DiskError: the disk is not there, or refuses.
        """
        with vdisk_reservation.lock(f'disk-{disk}'):
            current = self.backend.disk(disk)
            for vdisk in current.vdisks:
                if vdisk.name == name and vdisk.server_id:
                    after = VDisk(new_name, '', None, vdisk.size_bytes)
                    free = self._room_with(current, vdisk, after)
                    if free < 0:
                        raise _refusal(
                            disk,
                            f'keep {name} of {vdisk.size_gb} GiB beside what '
                            f'server {vdisk.server_id} claims',
                            free + vdisk.size_gb,
                        )
            self.backend.rename(disk, name, new_name, '')
            self.sync(disk)

    def _add(
        self,
        current: discover.Disk,
        new: VDisk,
        make: collections.abc.Callable[[], None],
    ) -> None:
        """Make a vdisk on a disk, if the disk has the room."""
        disk = current.uuid
        present = any(vdisk.name == new.name for vdisk in current.vdisks)
        free = self.room_gb(current)
        refusal = _refusal(disk, f'keep {new.name} of {new.size_gb} GiB', free)
        if not present and free < new.size_gb:
            raise refusal

        def undo() -> None:
            # what a killed run has left may be in use by now
            if not present:
                self.backend.delete(disk, new.name)

        self.change(disk, make, undo, refusal)

    def _room_with(
        self, disk: discover.Disk, before: VDisk, after: VDisk
    ) -> int:
        """Return the GiB that nobody would take if one vdisk were another."""
        held = tuple(
            after if vdisk is before else vdisk for vdisk in disk.vdisks
        )
        return self.room_gb(dataclasses.replace(disk, vdisks=held))


def _refusal(
    disk: str, what: str, free_gb: int
) -> vdisk_reservation.BindingError:
    return vdisk_reservation.BindingError(
        f'disk {disk} has no room to {what}: {max(free_gb, 0)} GiB of it are '
        'neither claimed nor taken',
        'the disk of the volume has no room for that',
    )
