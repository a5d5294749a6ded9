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

"""Runs commands of LVM and on logical volumes."""

import collections.abc
import contextlib
import os
import time

from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import devices
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.host import commands

# Seconds to wait for udev, which opens a device after it was written to.
_UDEV_PATIENCE = 60
_UDEV_TIMEOUT = 1

_ENVIRONMENT = {'LC_ALL': 'C', 'LVM_SUPPRESS_FD_WARNINGS': '1'}
_PATH = '/usr/sbin:/sbin'

# dmeventd serves one command at a time, and waits for a thin pool with a hung
# device. It is not needed: no pool and no snapshot ever grows.
_UNMONITORED = ('--config', 'activation/monitoring=0')

_LVM_PREFIXES = ('lv', 'vg', 'pv')

_launcher: tuple[str, ...] = ()


def set_launcher(*command: str) -> None:
    """Start all commands of this process by a command, such as setpriv.

    :param command: the command and its options, none to start them
        directly.
    """
    global _launcher
    _launcher = command


def run(*command: str) -> str:
    """Run a command as root and return its output.

    A command of LVM does not talk to dmeventd. A command with the volume group
    of a disk among its arguments reads the devices of this group only.

    :raises DiskError: the command cannot be run or fails; the message has its
        error output.
    """
    groups = set(filter(None, map(naming.group_of_argument, command)))
    known = devices.KNOWN.get(groups.pop()) if len(groups) == 1 else ()
    return commands.run(
        *_launcher,
        *command,
        *(_UNMONITORED if command[0].startswith(_LVM_PREFIXES) else ()),
        *devices.option(known),
        environment={
            **os.environ,
            **_ENVIRONMENT,
            'PATH': f'{os.environ.get("PATH", os.defpath)}:{_PATH}',
        },
    )


def run_retry_udev(*command: str) -> str:
    """Run a command on volumes that no process may have open.

    udev opens a volume for a moment after a write. LVM waits for that, but not
    long enough.

    :raises DiskError: as :func:`run`; another process has a volume open.
    """
    attempts = attempts_until_udev_settles()
    while True:
        last = next(attempts)
        try:
            return run(*command)
        except exception.DiskError:
            if last:
                raise


def attempts_until_udev_settles() -> collections.abc.Iterator[bool]:
    """Yield False while udev may have a device open, and finally True.

    Waits for udev in between, but not for long: udev does not settle while it
    handles another disk that hangs.
    """
    deadline = time.monotonic() + _UDEV_PATIENCE
    settled = False
    while not settled and time.monotonic() < deadline:
        yield False
        began = time.monotonic()
        with contextlib.suppress(exception.DiskError):
            run('udevadm', 'settle', f'--timeout={_UDEV_TIMEOUT}')
        settled = time.monotonic() - began < _UDEV_TIMEOUT
    yield True
