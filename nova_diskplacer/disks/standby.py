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

"""Leaves disks alone that may go into standby.

Every check of a disk reads from it, which would wake a disk in standby and
keep any other from going there. The agent marks the disks on which it has set
a standby timeout, in the disk root, where every process that checks disks
sees it. A marked disk is read only when it is in use anyway.
"""

import os

from nova_diskplacer.disks import identity
from nova_diskplacer.host import files
from nova_diskplacer.host import sysfs

#: Seconds that a marked disk may need to spin up, before it answers.
SPIN_UP = 30.0

# Suffix of the file that marks a disk, with its UUID before.
_MARK = '.standby'

# In the file ``stat`` of a device in sysfs: completed writes, and requests in
# flight. See Documentation/block/stat.rst of Linux.
_WRITES, _IN_FLIGHT = 4, 8


def is_marked(disk: str) -> bool:
    """Tell whether the disk at a path in the disk root is marked."""
    return os.path.lexists(disk + _MARK)


def set_mark(disk: str, marked: bool) -> None:
    """Mark the disk at a path in the disk root, or remove the mark.

    :raises OSError: the disk root cannot be written to.
    """
    if marked:
        files.replace(disk + _MARK, '', durable=False)
    elif is_marked(disk):
        os.unlink(disk + _MARK)


def marked(disk_root: str) -> set[str]:
    """Return the UUIDs of the marked disks.

    :raises OSError: the disk root cannot be read.
    """
    names = {
        name.removesuffix(_MARK)
        for name in os.listdir(disk_root)
        if name.endswith(_MARK)
    }
    return {name for name in names if identity.is_uuid(name)}


def read_stat(device: str, sys: str = sysfs.SYS) -> tuple[int, ...]:
    """Return the kernel's counters of a device; empty if it is gone.

    :param device: path of the device node.
    """
    path = sysfs.device_path(os.path.basename(device), sys)
    return tuple(map(int, sysfs.read_optional(f'{path}/stat').split()))


def is_quiet(before: tuple[int, ...], now: tuple[int, ...]) -> bool:
    """Tell whether a disk is as it was when it was read, and has no I/O.

    Reads do not count: those of several processes that check a disk would
    cause one another. A disk that hangs has requests in flight once somebody
    uses it.

    :param before: of ``read_stat``, before the disk was read.
    """
    return bool(
        before
        and now
        and before[_WRITES] == now[_WRITES]
        and not now[_IN_FLIGHT]
    )
