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

"""Weights in files of cgroups, changed so that it can be undone at any time.

What there was is saved before it is changed, so that whoever comes after an
agent that was killed can give it back.
"""

import collections.abc
import errno

from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import saved_settings
from nova_diskplacer.host import sysfs
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import weight_file

# For all devices without a weight of their own, as if they were a disk.
REST = Device(weight_file.DEFAULT, '', weight_file.DEFAULT, False)

# The cgroup, the disk, or what honoured weights on it has gone: so have they.
_GONE = (errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP)


class _Disk:
    """What has been changed on a disk, by the paths of files with weights.

    ``original`` is what there was, all of it saved, ``written`` what this
    process has set.
    """

    def __init__(self, number: str, original: saved_settings.Original) -> None:
        self.number = number
        self.name, self.sequence = original.device, original.sequence
        self.original = dict(original.values)
        self.written: dict[str, int] = {}


class Changes:
    """The changed weights on disks, by the disks' UUIDs.

    Files with weights are named by their paths below the hierarchy's root.

    :param directory: where originals are saved.
    :raises DiskError: the kernel does not tell its boot.
    """

    def __init__(
        self,
        directory: str,
        hierarchy: cgroups.Hierarchy,
        sys: str = sysfs.SYS,
    ) -> None:
        self._hierarchy = hierarchy
        self._sys = sys
        self._originals = saved_settings.Originals(
            directory, saved_settings.boot_id()
        )
        self._disks: dict[str, _Disk] = {}

    def uuids(self) -> list[str]:
        """Return where something is changed, also by an agent before.

        ``REST`` is the first: what is changed there changes others.

        :raises DiskError: the saved originals cannot be read.
        """
        return sorted(
            self._originals.uuids(), key=lambda uuid: (uuid != REST.uuid, uuid)
        )

    def look(self, device: Device) -> None:
        """See what is changed on a disk, which must be done before all else.

        :raises DiskError: what was there before is not known.
        :raises OSError: the kernel refuses to give that back.
        """
        now = (device.name, device.number, self._sequence(device.name))
        disk = self._disks.get(device.uuid)
        if disk is None:
            saved = self._originals.load(device.uuid)
            if saved is not None:
                disk = _Disk(device.number, saved)
        if disk is None or (disk.name, disk.number, disk.sequence) != now:
            # in another slot, or taken out and put in again, it has the
            # weights that nobody has changed
            self.undo(device.uuid)
            fresh = saved_settings.Original(device.name, now[2], {})
            disk = _Disk(device.number, fresh)
        self._disks[device.uuid] = disk

    def begun(self, uuid: str) -> set[str]:
        """Return the files in which the disk's weight may be changed."""
        disk = self._disks.get(uuid)
        return set() if disk is None else set(disk.original)

    def begin(
        self, uuid: str, paths: collections.abc.Iterable[str]
    ) -> list[str]:
        """Save what there is in files before it is changed.

        :returns: the files that are not there.
        :raises DiskError: it cannot be saved.
        :raises OSError: it cannot be read.
        """
        disk = self._disks[uuid]
        found, missing = {}, []
        for path in paths:
            try:
                found[path] = weight_file.read(
                    self._hierarchy.path(path), disk.number
                )
            except FileNotFoundError:
                missing.append(path)
        if found:
            self._store(disk, uuid, disk.original | found)
        return missing

    def written(self, uuid: str, path: str) -> int | None:
        """Return the weight that this process has set, None if it has not."""
        return self._disks[uuid].written.get(path)

    def in_force(self, uuid: str, path: str) -> str:
        """Return the weight that there is.

        :raises OSError: it cannot be read.
        """
        return weight_file.read(
            self._hierarchy.path(path), self._disks[uuid].number
        )

    def put(self, uuid: str, path: str, weight: int) -> None:
        """Set a weight in a file with which it was begun.

        :raises OSError: the kernel refuses.
        """
        disk = self._disks[uuid]
        disk.written.pop(path, None)
        self._set(path, disk.number, str(weight))
        disk.written[path] = weight

    def give_back(
        self, uuid: str, paths: collections.abc.Collection[str]
    ) -> None:
        """Give back what was in files before it was changed.

        :raises DiskError: what is changed still cannot be saved.
        :raises OSError: the kernel refuses.
        """
        if not paths:
            return
        disk = self._disks[uuid]
        values = dict(disk.original)
        for path in paths:
            self._revert(path, disk.number, values.pop(path))
            disk.written.pop(path, None)
        self._store(disk, uuid, values)

    def undo(self, uuid: str) -> None:
        """Give back whatever is changed on a disk; repeatable.

        :raises DiskError: what was there before is not known.
        :raises OSError: the kernel refuses.
        """
        saved = self._originals.load(uuid)
        if saved is not None:
            number = REST.number
            if saved.device:
                number = self._number(saved.device)
            # of another disk in its place nothing was changed
            if number and saved.sequence == self._sequence(saved.device):
                for path, value in saved.values.items():
                    self._revert(path, number, value)
        self._originals.forget(uuid)
        self._disks.pop(uuid, None)

    def _store(self, disk: _Disk, uuid: str, values: dict[str, str]) -> None:
        if values:
            saved = saved_settings.Original(disk.name, disk.sequence, values)
            self._originals.save(uuid, saved)
        else:
            self._originals.forget(uuid)
        disk.original = values

    def _revert(self, path: str, number: str, value: str) -> None:
        try:
            self._set(path, number, value)
        except OSError as error:
            if error.errno not in _GONE:
                raise

    def _set(self, path: str, number: str, value: str) -> None:
        if number == REST.number:
            # BFQ makes it the weight on every device
            for disk in self._disks.values():
                disk.written.pop(path, None)
        weight_file.write(self._hierarchy.path(path), number, value)

    def _sequence(self, name: str) -> str:
        try:
            return block_queue.diskseq(name, self._sys)
        except FileNotFoundError:
            return ''

    def _number(self, name: str) -> str:
        """Return ``major:minor`` of a device, '' if it is gone."""
        try:
            return block_queue.device_number(name, self._sys)
        except FileNotFoundError:
            return ''
