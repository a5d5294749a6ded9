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

"""Interface of the backends, which store vdisks on the disks of this host."""

import abc
import collections.abc
import dataclasses
import os
import types
from typing import Any

from stevedore import driver as stevedore_driver

from cinder_vdisk_mapper import privsep_openers
from cinder_vdisk_mapper.backend import linked_vdisks
from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.host import files

NAMESPACE = 'cinder_vdisk_mapper.backend'

#: Nova's ``driver_volume_type`` of a block device of the host
BLOCK_DEVICE = 'local'


class Backend(linked_vdisks.LinkedVDisks):
    """Stores vdisks on the disks that its callers choose.

    Each method that changes a vdisk runs an operation of the same name in the
    privileged helper process, as :meth:`_run` does; a backend overrides those
    that do more. Every method may be repeated after a crash. Arguments name
    disks by UUID. An invalid UUID of a disk or name of a vdisk raises
    DiskError, and so does an operation that fails.
    """

    #: ``driver_volume_type`` of the connections to a vdisk, for which no
    #: device is made
    connection_type: str

    #: options of the driver's section of cinder.conf, None without a driver
    configuration: Any = None

    #: the module of the helper process, with its ``context`` and ``run``
    helper: types.ModuleType

    def __init__(self, disk_root: str) -> None:
        self.disk_root = disk_root
        if os.geteuid() == 0:
            # root runs operations in its own process
            for helper in (self.helper, privsep_openers):
                helper.context.set_client_mode(False)

    def _run(self, operation: str, *arguments: Any) -> Any:
        """Run an operation in the helper process of this backend.

        :param arguments: sizes are in bytes. A location is passed as its text.
        :raises DiskError: the helper process rejects it, or it fails.
        """
        passed = [
            str(value) if isinstance(value, Location) else value
            for value in arguments
        ]
        return self.helper.run(self.disk_root, operation, *passed)

    @abc.abstractmethod
    def device_path(self, disk: str, name: str) -> str:
        """Return the path of a vdisk, by which its content is filled.

        It is that of :meth:`attached_path`, unless a device is made for it.
        """

    def disks(self, wait: bool = False) -> list[discover.Disk]:
        """Return the disks of this host, sorted by UUID.

        Disks that hang do not delay the call: see ``discover.discover``.

        :param wait: whether to wait for those that are late, as
            ``discover.wait_for_all``.
        """
        return [_as_disk(fields) for fields in self._run('disks', wait)]

    def disk(self, uuid: str) -> discover.Disk:
        """Return a disk, with the health ``missing`` if it is not there."""
        return _as_disk(self._run('disk', uuid))

    def forgotten(self, uuid: str) -> bool:
        """Return whether a disk has been taken out of this host for good.

        A disk that is missing may come back and is not forgotten.
        """
        return discover.is_forgotten(self.disk_root, uuid)

    def disks_holding(self, name: str) -> list[str]:
        """Return the UUIDs of the disks that hold a vdisk of that name.

        After an interrupted move there are several.
        """
        return [disk.uuid for disk in self.disks() if disk.find(name)]

    def check_disk(self, disk: str, vdisk: str | None = None) -> discover.Disk:
        """Check that a disk is healthy and a vdisk on it is complete.

        :param vdisk: None to check only the disk.
        :returns: the disk.
        :raises DiskError: it is not so.
        """
        found = self.disk(disk)
        if found.health != discover.OK:
            raise exception.DiskError(
                f'disk {disk} of this host is {found.health}'
            )
        if vdisk:
            self.usable_vdisk(disk, vdisk)
        return found

    def check_location(
        self, location: Location, vdisk: str | None = None
    ) -> None:
        """Check all disks of a location, as :meth:`check_disk`.

        :raises DiskError: as that, or the location is empty.
        """
        if not location:
            raise exception.DiskError('the volume is not bound to a disk')
        for disk in location.disks:
            self.check_disk(disk, vdisk)

    def find_vdisk(self, disk: str, name: str) -> tuple[discover.Disk, VDisk]:
        """Return a disk and the vdisk of that name on it, complete or not.

        :raises DiskError: the disk does not hold it, or is not there.
        """
        current = self.disk(disk)
        vdisk = current.find(name)
        if vdisk is None:
            raise exception.DiskError(
                f'vdisk {name} is not on disk {disk} ({current.health}) of '
                'this host'
            )
        return current, vdisk

    def usable_vdisk(
        self, disk: str, name: str
    ) -> tuple[discover.Disk, VDisk]:
        """Return a disk and the vdisk of that name on it, which is complete.

        :raises DiskError: as ``find_vdisk``, or the vdisk is not complete.
        """
        current, vdisk = self.find_vdisk(disk, name)
        if not vdisk.usable:
            raise exception.DiskError(
                f'vdisk {name} on disk {disk} is not complete: repeat the '
                'extension that was interrupted, or delete it'
            )
        return current, vdisk

    def has_entry(self, uuid: str) -> bool:
        """Return whether the disk root has an entry of a disk."""
        return files.exists(discover.disk_path(self.disk_root, uuid))

    def attached_path(self, disk: str, name: str) -> str:
        """Return the path on a disk of what its vdisk is attached as."""
        return self.device_path(disk, name)

    def attach_device(self, disk: str, name: str) -> None:  # noqa: B027
        """Make the device of a vdisk that is attached as one, if it has none.

        A reboot of the host removes it. One whose disk has come back as
        another device is made to lead there.
        """

    def detach_device(self, disk: str, name: str) -> None:  # noqa: B027
        """Remove the device that was made for a vdisk, if there is one.

        :raises DiskError: it is in use.
        """

    def with_device(self, disk: str) -> list[str]:
        """Return the names of the vdisks for which a device is made."""
        return []

    def in_use(self, disk: str, name: str) -> bool:
        """Return whether a process has a vdisk open."""
        return bool(self._run('in_use', disk, name))

    def writes(self, disk: str, name: str) -> str:
        """Return a text that changes if a vdisk is written to."""
        return str(self._run('writes', disk, name))

    def create(
        self,
        disk: str,
        name: str,
        volume_id: str,
        server_id: str | None,
        size_gb: int,
    ) -> None:
        """Allocate a vdisk of ``size_gb`` GiB that reads as zeros.

        If the volume already has a vdisk of that name, it does nothing.

        :raises DiskError: the disk lacks the space, or the vdisk of that name
            belongs to another volume.
        """
        self._run('create', disk, name, volume_id, server_id, size_gb * GIB)

    def extend(self, disk: str, name: str, size_gb: int) -> None:
        """Extend a vdisk to ``size_gb`` GiB and allocate all of it."""
        self._run('extend', disk, name, size_gb * GIB)

    def shrink(self, disk: str, name: str, size_gb: int) -> None:
        """Undo an extension of a vdisk that was never used."""
        self._run('shrink', disk, name, size_gb * GIB)

    def delete(self, disk: str, name: str) -> None:
        """Delete a vdisk; its bytes cannot be read afterwards."""
        self._run('delete', disk, name)

    def condemn(self, disk: str, name: str) -> None:
        """Begin to delete a vdisk, for good, in moments.

        A backend that wipes vdisks leaves that to ``delete``.

        :raises DiskError: it is in use.
        """
        self.delete(disk, name)

    def sweep(self, disk: str) -> None:
        """Remove the leftovers of interrupted changes from a disk.

        A backend whose leftovers cannot be mistaken for complete vdisks need
        not remove them.
        """
        self._run('sweep', disk)

    def written(self, disk: str, name: str) -> bool:
        """Return whether a vdisk may have been written to since it was made.

        A backend that cannot know returns True.
        """
        return bool(self._run('written', disk, name))

    def snapshot(
        self, disk: str, name: str, snapshot: str, snapshot_id: str
    ) -> None:
        """Make a snapshot of a vdisk, another vdisk on the same disk.

        The snapshot is consistent, even if the vdisk is in use. If the Cinder
        snapshot already has a vdisk of that name, it does nothing.

        :raises DiskError: there is no such vdisk, the disk lacks the space,
            or the vdisk ``snapshot`` belongs to another snapshot.
        """
        self._run('snapshot', disk, name, snapshot, snapshot_id)

    def clone(
        self, disk: str, source: str, name: str, volume_id: str, size_gb: int
    ) -> None:
        """Make a vdisk with the content of a vdisk or snapshot of its disk.

        It has ``size_gb`` GiB, all allocated; bytes beyond the end of the
        source read as zeros. It appears when it is complete. If the volume
        already has a vdisk of that name, it does nothing.

        :raises DiskError: there is no such source or it is larger, the disk
            lacks the space, or the vdisk ``name`` belongs to another volume.
        """
        self._run('clone', disk, source, name, volume_id, size_gb * GIB)

    def allocate_clone(
        self, disk: str, source: str, name: str, volume_id: str, size_gb: int
    ) -> None:
        """Allocate the space of a clone, which ``clone`` then completes.

        The caller holds the disk's lock. A backend that copies the data of a
        clone allocates the vdisk and marks it as incomplete until ``clone``
        has filled it; others clone at once.

        :raises DiskError: as ``clone``.
        """
        self._run(
            'allocate_clone', disk, source, name, volume_id, size_gb * GIB
        )

    def revert(self, disk: str, name: str, snapshot: str) -> None:
        """Give a vdisk that is not attached the content of its snapshot.

        Size, volume and server stay; bytes beyond the end of the snapshot
        read as zeros.
        """
        self._run('revert', disk, name, snapshot)

    def clear(self, disk: str, name: str) -> None:
        """Make a vdisk that is not attached read as zeros again.

        Size, volume and server stay, and all of it stays allocated.
        """
        self._run('clear', disk, name)

    def copy(self, disk: str, name: str, target: str, rate: int = 0) -> None:
        """Copy a vdisk's content to its vdisk on disk ``target``.

        The target has the same name and volume, is at least as large and not
        attached. The copy is durable when this returns; bytes beyond the end
        of the source read as zeros.

        :param rate: MiB/s at most, 0 for no limit.
        :raises DiskError: either is not there, or they do not match.
        """
        self._run('copy', disk, name, target, rate)

    def copy_remote(self, disk: str, name: str, start: int) -> int | None:
        """Copy a part of the vdisk of another host to that of this one.

        The copy is not attached, and at least as large. The part is durable
        when this returns; bytes beyond the end of the other vdisk read as
        zeros.

        :param start: offset at which to continue, 0 in the first call.
        :returns: ``start`` of the next call, None if all is copied.
        :raises DiskError: either is not there or away, or they do not match.
        """
        following: int | None = self._run('copy_remote', disk, name, start)
        return following

    def rename(
        self, disk: str, name: str, new_name: str, volume_id: str
    ) -> None:
        """Rename a vdisk that is not attached and give it to a volume.

        It belongs to no server afterwards. Repeating the call does nothing.

        :param volume_id: '' for no volume.
        :raises DiskError: there is no such vdisk, or there is one of the new
            name.
        """
        self._run('rename', disk, name, new_name, volume_id)

    def count_bind_failure(self, reason: str) -> None:
        """Count a volume that could not be bound, for the agent's metrics.

        :param reason: of ``bind_failures.REASONS``.
        :raises DiskError: it cannot be counted.
        """
        self._run('count_bind_failure', reason)


def usable_disks(
    disks: collections.abc.Iterable[discover.Disk], media: str
) -> list[discover.Disk]:
    """Return the healthy disks of a medium: hdd, ssd or any."""
    return [
        disk
        for disk in disks
        if disk.health == discover.OK and media in (flavor.ANY, disk.medium)
    ]


def _as_disk(fields: tuple[Any, ...]) -> discover.Disk:
    """Return the disk with these fields, which a helper process returned."""
    disk = discover.Disk(*fields)
    rows: collections.abc.Iterable[Any] = disk.vdisks
    vdisks = tuple(
        dataclasses.replace(vdisk, stripe=Location(vdisk.stripe))
        for vdisk in (VDisk(*row) for row in rows)
    )
    return dataclasses.replace(disk, vdisks=vdisks)


def load(options: Any) -> Backend:
    """Return the backend that ``vdisk_backend`` names.

    :param options: of a section of cinder.conf.
    """
    backend: Backend = stevedore_driver.DriverManager(
        NAMESPACE,
        options.vdisk_backend,
        invoke_on_load=True,
        invoke_args=(options.vdisk_disk_root,),
    ).driver
    backend.configuration = options
    return backend
