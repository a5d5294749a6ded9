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

"""The physical volumes of each volume group, remembered until the next boot.

To find the devices of a group LVM reads all devices of the host, and hangs
with any one of them. A command that gets the devices of its group by an option
reads no others. So the result of a search is kept in a file, which all
processes share and which a reboot removes.
"""

import contextlib
import json
import os
import threading

from nova_diskplacer.host import files
from nova_diskplacer.host import locks

FILE = 'volume-groups.json'


class KnownDevices:
    """The devices on which each volume group was found last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._devices: dict[str, tuple[str, ...]] | None = None

    def get(self, group: str) -> tuple[str, ...]:
        """Return the devices of a group, none if it was never found."""
        with self._lock:
            if self._devices is None:
                self._devices = _load()
            return self._devices.get(group, ())

    def replace(self, devices: dict[str, tuple[str, ...]]) -> None:
        """Remember the devices of all groups by the groups' names."""
        with self._lock:
            if devices != self._devices:
                self._devices = devices
                _save(devices)


#: known devices of this process
KNOWN = KnownDevices()


def option(devices: tuple[str, ...]) -> tuple[str, ...]:
    """Return LVM's option that restricts a command to devices, if any."""
    return ('--devices', ','.join(devices)) if devices else ()


def _load() -> dict[str, tuple[str, ...]]:
    try:
        with open(_path(), encoding='utf-8') as stream:
            return {
                str(name): tuple(map(str, devices))
                for name, devices in json.load(stream).items()
            }
    except (OSError, AttributeError, TypeError, ValueError):
        # without the file LVM searches all devices
        return {}


def _save(devices: dict[str, tuple[str, ...]]) -> None:
    with contextlib.suppress(OSError):
        os.makedirs(locks.DIRECTORY, mode=0o700, exist_ok=True)
        files.replace(_path(), json.dumps(devices), durable=False)


def _path() -> str:
    return os.path.join(locks.DIRECTORY, FILE)
