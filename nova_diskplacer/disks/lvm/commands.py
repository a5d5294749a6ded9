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

"""Runs commands of LVM and on logical volumes.

To find the devices of a group LVM reads all devices of the host, and hangs
with any one of them. A command that gets the devices of its group by an option
reads no others. So the result of a search is kept in a file, which all
processes share and which a reboot removes.
"""

import collections.abc
import contextlib
import json
import os
import re
import threading
import time
from typing import Any
from typing import TypeVar

from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.host import commands
from nova_diskplacer.host import files
from nova_diskplacer.host import state_file

# Seconds to wait for udev, which opens a device after it was written to.
_UDEV_PATIENCE = 60
_UDEV_TIMEOUT = 1

_ENVIRONMENT = {'LVM_SUPPRESS_FD_WARNINGS': '1'}
_PATH = '/usr/sbin:/sbin'

# Variables of this process that LVM's commands get. Others select a profile
# or another output.
_LVM = 'LVM_'
_LVM_PASSED = 'LVM_SYSTEM_DIR'

# What lvm.conf and profiles of the host do not change.
_SETTINGS = {
    # dmeventd serves one command at a time, and waits for a thin pool with a
    # hung device. It is not needed: no pool and no snapshot ever grows.
    'activation/monitoring': '0',
    # a disk is busy for long with a discard of a whole volume, after which its
    # space need not read as zeros
    'devices/issue_discards': '0',
    'log/command_names': '0',
    'log/prefix': '""',
    'report/binary_values_as_numeric': '0',
    'report/compact_output': '0',
    'report/list_item_separator': '","',
    'report/lvs_sort_full': '"vg_name,lv_name"',
    'report/prefixes': '0',
    'report/pvs_sort_full': '"pv_name"',
    'report/pvsegs_sort_full': '"pv_uuid,pvseg_start"',
    'report/segs_sort_full': '"lv_uuid,seg_start"',
    'report/vgs_sort_full': '"vg_name"',
}
_CONFIG = (
    '--config',
    ' '.join(f'{name}={value}' for name, value in _SETTINGS.items()),
)

# The begin of a report.
_BEGIN = re.compile(r'^\s*\{', re.MULTILINE)

_DEVICES = '--devices'

_LVM_PREFIXES = ('lv', 'vg', 'pv')

#: name of the file with the devices of all groups
KNOWN_FILE = 'volume-groups.json'

_launcher: tuple[str, ...] = ()

_Result = TypeVar('_Result')


class KnownDevices:
    """The devices on which each volume group was found last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._devices: dict[str, list[str]] | None = None

    def get(self, group: str) -> tuple[str, ...]:
        """Return the devices of a group, none if it was never found."""
        with self._lock:
            if self._devices is None:
                self._devices = {}
                # without the file LVM searches all devices
                with contextlib.suppress(OSError, exception.DiskError):
                    self._devices = (
                        state_file.read(_known_path(), dict, 'devices') or {}
                    )
            return tuple(self._devices.get(group, ()))

    def replace(self, devices: dict[str, list[str]]) -> None:
        """Remember the devices of all groups by the groups' names."""
        with (
            self._lock,
            contextlib.suppress(OSError, exception.DiskError),
        ):
            if devices != self._devices:
                self._devices = devices
                state_file.write(_known_path(), devices, durable=False)


#: known devices of this process
KNOWN = KnownDevices()


def _known_path() -> str:
    return os.path.join(files.lock_directory(), KNOWN_FILE)


def set_launcher(*command: str) -> None:
    """Start all commands of this process by a command, such as setpriv."""
    global _launcher
    _launcher = command


def run(*command: str) -> str:
    """Run a command as root and return its output.

    A command of LVM does not talk to dmeventd, and its report has one form
    whatever lvm.conf says. A command with the volume group of a disk among its
    arguments reads the devices of this group only, or those that it names.

    :raises DiskError: the command cannot be run or fails; the message has its
        error output.
    """
    groups = set(filter(None, map(naming.group_of_argument, command)))
    is_known = len(groups) == 1 and _DEVICES not in command
    devices = KNOWN.get(groups.pop()) if is_known else ()
    return commands.run(
        *_launcher,
        *command,
        *(_CONFIG if command[0].startswith(_LVM_PREFIXES) else ()),
        *devices_option(devices),
        environment={
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(_LVM) or name == _LVM_PASSED
            },
            **_ENVIRONMENT,
            'PATH': f'{os.environ.get("PATH", os.defpath)}:{_PATH}',
        },
    )


def parse_report(text: str) -> Any:
    """Return the JSON that LVM reports, without messages around it.

    LVM prints some before it has read its options.

    :raises ValueError: there is none.
    """
    begin = _BEGIN.search(text)
    if begin is None:
        raise ValueError('no JSON')
    return json.JSONDecoder().raw_decode(text, begin.end() - 1)[0]


def devices_option(devices: tuple[str, ...]) -> tuple[str, ...]:
    """Return LVM's option that restricts a command to devices, if any."""
    return (_DEVICES, ','.join(devices)) if devices else ()


def run_retry_udev(*command: str) -> str:
    """Run a command on volumes that no process may have open."""
    return retry_until_udev_settles(lambda: run(*command))


def retry_until_udev_settles(
    work: collections.abc.Callable[[], _Result],
) -> _Result:
    """Repeat work that fails while udev has a volume open.

    udev opens a volume for a moment after a write. LVM waits for that, but not
    long enough. The wait for udev is limited: udev does not settle while it
    handles another disk that hangs.

    :raises DiskError: the work fails though udev has settled.
    """
    deadline = time.monotonic() + _UDEV_PATIENCE
    settled = False
    while True:
        try:
            return work()
        except exception.DiskError:
            if settled or time.monotonic() >= deadline:
                raise
        began = time.monotonic()
        with contextlib.suppress(exception.DiskError):
            run('udevadm', 'settle', f'--timeout={_UDEV_TIMEOUT}')
        settled = time.monotonic() - began < _UDEV_TIMEOUT
