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


"""The loop devices by which vdisks are attached as block devices.

A server finds one by the path ``/dev/diskplacer/<disk>/<vdisk>``, a link that
is gone after a reboot, as the devices are: the numbers of old ones may belong
to other files then. The link is removed before a device loses its file.

The caller has locked the directory of the disk's vdisks. Functions raise
OSError; the error is EBUSY where a process has a device open.
"""

import contextlib
import errno
import os
import time

from nova_diskplacer.disks import identity
from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.host import loop_devices

DIRECTORY = '/dev/diskplacer'

# Prefix of links that are not in place yet; no vdisk's name has it.
_NEW = '.new.'

# Seconds to wait, again and again, for a process that has a device open for a
# moment, like udev whenever one appears. They are few: each look holds the
# requests to a device in use back for some milliseconds.
_WAITS = (0.1, 0.2, 0.4, 0.8)


def path(uuid: str, name: str) -> str:
    """Return the path by which servers find the device of a vdisk.

    :raises DiskError: the UUID or the name is invalid.
    """
    return os.path.join(
        DIRECTORY, identity.check_uuid(uuid), files.check_name(name)
    )


def disk_of(path_: str, name: str) -> str | None:
    """Return the disk of the path of a vdisk's device, None for others."""
    directory, last = os.path.split(path_)
    uuid = os.path.basename(directory)
    if last == name and identity.is_uuid(uuid) and path_ == path(uuid, name):
        return uuid
    return None


def exists(file: int, name: str) -> bool:
    """Return whether a vdisk has a device.

    :param file: the vdisk, open.
    """
    return bool(loop_devices.find(file, name))


def attach(uuid: str, name: str, file: int, last: str | None = None) -> None:
    """Make the device of a vdisk and the link to it, if they are missing.

    :param file: the vdisk, open for writing.
    :param last: the device that it has had a moment ago, if any.
    """
    place = path(uuid, name)
    found = loop_devices.find(file, name)
    if found:
        device = found[0]
        loop_devices.keep(device)
    elif last:
        device = loop_devices.bind_again(last, file)
    else:
        device = loop_devices.bind(file)
    _link(place, device)


def detach(uuid: str, name: str, file: int) -> list[str]:
    """Take a vdisk from its device, which no process has open.

    :param file: the vdisk, open.
    :returns: the devices that it has had, one at most but for those of other
        programs. Unless it gets one again, :func:`remove` them.
    """
    place = os.path.join(DIRECTORY, uuid, name)
    released = []
    waits = iter(_WAITS)
    while devices := loop_devices.find(file, name):
        for device in devices:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place)
            if loop_devices.release(device, file):
                released.append(device)
                continue
            _link(place, device)
            wait = next(waits, None)
            if wait is None:
                raise OSError(
                    errno.EBUSY, f'it is in use: a process has {device} open'
                )
            time.sleep(wait)
    for left in (place, _unfinished(place)):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(left)
    return released


def remove(uuid: str, released: list[str]) -> None:
    """Remove what :func:`detach` has left."""
    for device in released:
        loop_devices.remove(device)
    # other vdisks of the disk may have one
    with contextlib.suppress(OSError):
        os.rmdir(os.path.join(DIRECTORY, uuid))


def follow_size(file: int, name: str) -> None:
    """Give the device of a vdisk, if it has one, the size of its file."""
    for device in loop_devices.find(file, name):
        loop_devices.keep(device)


def _unfinished(place: str) -> str:
    """Return the path of a link that is not in place yet."""
    directory, name = os.path.split(place)
    return os.path.join(directory, _NEW + name)


def _link(place: str, device: str) -> None:
    directory, new = os.path.dirname(place), _unfinished(place)
    while True:
        os.makedirs(directory, mode=0o755, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        # the last device of another process may take the directory with it
        with contextlib.suppress(FileNotFoundError):
            os.symlink(device, new)
            os.rename(new, place)
            return
