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

"""Saves original kernel settings of disks before they are changed.

A disk's file is written before its first setting is changed, and removed after
the last one is restored: a killed process leaves the file for a later restore.
A reboot resets the settings and invalidates the files.
"""

import collections.abc
import contextlib
import dataclasses
import os
from typing import Any

from nova_diskplacer import exception
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import files
from nova_diskplacer.host import state_file
from nova_diskplacer.host import sysfs

_VERSION = 1
_SUFFIX = '.json'


@dataclasses.dataclass(frozen=True)
class DeviceSettings:
    """Original settings of a block device, by their names.

    ``device`` is the kernel's name of the device, '' for settings of all
    devices. ``sequence`` is its disk sequence number, which no other device of
    that name has had since boot.
    """

    device: str
    sequence: str
    values: collections.abc.Mapping[str, str]


class SavedSettings:
    """The original settings of disks, by the disks' UUIDs.

    :param directory: contains a file for each disk; created when needed.
    :param write_back: writes original values to their device; returns whether
        the device has all of them. It may raise ``DiskPlacerError`` or
        ``OSError``, and is called again later if it fails.
    :raises DiskError: the kernel has no boot ID.
    """

    def __init__(
        self,
        directory: str,
        write_back: collections.abc.Callable[[DeviceSettings], bool],
        sys: str = sysfs.SYS,
    ) -> None:
        self._directory = directory
        self._write_back = write_back
        self._sys = sys
        self._boot_id = boot_id()
        self._cache: dict[str, DeviceSettings] = {}

    def uuids(self) -> list[str]:
        """Return the disks with saved settings, sorted."""
        with (
            files.disk_errors(self._directory),
            contextlib.suppress(FileNotFoundError),
        ):
            return sorted(
                name.removesuffix(_SUFFIX)
                for name in os.listdir(self._directory)
                if name.endswith(_SUFFIX)
            )
        return []

    def get_originals(
        self, uuid: str, device: str, sequence: str
    ) -> dict[str, str] | None:
        """Return the original values of a disk, None if nothing was changed.

        A disk that is plugged in again or moved to another slot becomes a new
        device with new settings. Those of its former device are restored.

        Another process may have restored the disk, and removed the file. The
        caller is about to change the disk, so the file is written again.

        :raises DiskPlacerError: the file cannot be read or is malformed, or
            cannot be written again, or the former device cannot be restored.
        :raises OSError: the kernel refuses to restore the former device.
        """
        saved = self._load(uuid)
        if saved is None:
            return None
        if (saved.device, saved.sequence) == (device, sequence):
            if not files.exists(self._path(uuid)):
                self.save(uuid, saved)
            return dict(saved.values)
        self.restore(uuid)
        return None

    def save(self, uuid: str, settings: DeviceSettings) -> None:
        """Save original settings durably; without values, remove the file.

        :raises DiskError: they cannot be saved; do not change the settings.
        """
        if not settings.values:
            self._remove(uuid)
            return
        self._cache.pop(uuid, None)
        path = self._path(uuid)
        fields = {
            'version': _VERSION,
            'boot_id': self._boot_id,
            **dataclasses.asdict(settings),
        }
        with files.disk_errors(path):
            os.makedirs(self._directory, mode=0o755, exist_ok=True)
        state_file.write(path, fields, durable=True)
        self._cache[uuid] = settings

    def restore(self, uuid: str) -> None:
        """Write back a disk's original settings and remove the file.

        Nothing is written if the device is gone or was replaced.

        :raises DiskPlacerError: the settings cannot be read or restored.
        :raises OSError: the kernel refuses.
        """
        saved = self._load(uuid)
        if (
            saved is None
            or not self._is_present(saved)
            or self._write_back(saved)
        ):
            self._remove(uuid)

    def restore_all(
        self,
        uuids: collections.abc.Iterable[str],
        lock: collections.abc.Callable[
            [str], contextlib.AbstractContextManager[Any]
        ] = contextlib.nullcontext,
    ) -> None:
        """Restore the settings of disks; a failed disk affects no other.

        :param lock: returns what is held while a disk is restored.
        :raises DiskError: a disk could not be restored.
        """
        failed = []
        for uuid in uuids:
            try:
                with lock(uuid):
                    self.restore(uuid)
            except (exception.DiskPlacerError, OSError) as error:
                failed.append(f'disk {uuid}: {error}')
        if failed:
            raise exception.DiskError(
                f'original settings are not restored: {"; ".join(failed)}'
            )

    def _load(self, uuid: str) -> DeviceSettings | None:
        """Return the settings saved for a disk since boot."""
        if uuid not in self._cache:
            settings = state_file.read(
                self._path(uuid),
                self._parse,
                'the original settings of a disk',
                'check the current settings and remove the file',
            )
            if settings is not None:
                self._cache[uuid] = settings
        return self._cache.get(uuid)

    def _parse(self, fields: Any) -> DeviceSettings | None:
        if fields['version'] != _VERSION:
            raise ValueError(f'its version is not {_VERSION}')
        if fields['boot_id'] != self._boot_id:
            return None
        values = fields['values']
        texts = (fields['device'], fields['sequence'], *values.values())
        if not all(isinstance(text, str) for text in texts):
            raise ValueError('a value is not a string')
        return DeviceSettings(fields['device'], fields['sequence'], values)

    def _is_present(self, saved: DeviceSettings) -> bool:
        if not saved.device:
            return True
        with contextlib.suppress(FileNotFoundError):
            sequence = block_queue.diskseq(saved.device, self._sys)
            return sequence == saved.sequence
        return False

    def _remove(self, uuid: str) -> None:
        self._cache.pop(uuid, None)
        path = self._path(uuid)
        with (
            files.disk_errors(path),
            contextlib.suppress(FileNotFoundError),
        ):
            os.unlink(path)

    def _path(self, uuid: str) -> str:
        return os.path.join(self._directory, uuid + _SUFFIX)


def boot_id() -> str:
    """Return the kernel's ID of this boot."""
    path = '/proc/sys/kernel/random/boot_id'
    with files.disk_errors(path), open(path, encoding='ascii') as stream:
        return stream.read().strip()
