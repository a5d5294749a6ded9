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
"""The vdisk of another host, as its iSCSI session shows it to this one.

It is found by its link alone, see :mod:`nova_diskplacer.disks.links`. While
the network or the other host is away, the kernel keeps requests for it for as
long as that takes. So it is read only while it is there.
"""

import collections.abc
import contextlib
import errno
import mmap
import os
import stat

from nova_diskplacer import exception
from nova_diskplacer.disks import links
from nova_diskplacer.disks.lvm import blockcopy
from nova_diskplacer.host import files
from nova_diskplacer.host import processes
from nova_diskplacer.host import sysfs

# Bytes of a read.
_STEP = 4 << 20

# Bytes of sectors that sysfs counts.
_SECTOR = 512

# States of SCSI devices whose requests are not kept by the kernel.
_THERE = ('', 'running')


class Away(exception.DiskError):
    """The other host, or the network between, does not answer."""


def path(disk_root: str, name: str) -> str:
    """Return the path by which a remote vdisk is opened.

    :raises DiskError: there is no remote vdisk of this name.
    """
    device = links.remote_device(disk_root, name)
    if device is None:
        raise exception.DiskError(
            f'{name} of another host is not attached to this one'
        )
    return device


def check_there(device: str, sys: str = sysfs.SYS) -> None:
    """Check that a remote vdisk can be read now.

    :param device: its path.
    :raises Away: it cannot.
    """
    directory = _directory(device, sys)
    state = sysfs.read_optional(f'{directory}/device/state')
    if state not in _THERE:
        raise Away(
            f'{device} is {state}: the host that has it does not answer'
        )


def keep_waiting(device: str, sys: str = sysfs.SYS) -> None:
    """Have requests for a remote vdisk wait, however long its host is away.

    iscsid's own limit, 120 s by default, ends in errors of the guest's disk.
    """
    with contextlib.suppress(Away):
        # /sys/devices/platform/host3/session1/target3:0:0/3:0:0:0
        parts = os.path.realpath(f'{_directory(device, sys)}/device')
        for part in parts.split('/'):
            if part.startswith('session'):
                path = f'{sys}/class/iscsi_session/{part}/recovery_tmo'
                with files.disk_errors(path):
                    if sysfs.read_optional(path) not in ('', 'off', '-1'):
                        sysfs.write(path, 'off')


def size_bytes(device: str, sys: str = sysfs.SYS) -> int:
    """Return the size of a remote vdisk.

    :raises Away: it is not there.
    """
    with files.disk_errors(device):
        return int(sysfs.read(f'{_directory(device, sys)}/size')) * _SECTOR


def in_use(device: str, sys: str = sysfs.SYS) -> bool:
    """Return whether a process of this host has a remote vdisk open.

    A device that is gone is open nowhere.

    :raises DiskError: this is not known.
    """
    with files.disk_errors(device):
        try:
            number = os.stat(device).st_rdev
        except FileNotFoundError:
            return False
        holders = f'{_directory(device, sys)}/holders'
        with contextlib.suppress(FileNotFoundError):
            if os.listdir(holders):
                return True
        return processes.have_open(number)


def writes(device: str, sys: str = sysfs.SYS) -> str:
    """Return a text that changes if this host writes to a remote vdisk.

    It changes as well when a new session has another device for it.

    :raises Away: it is not there.
    """
    directory = _directory(device, sys)
    sequence = sysfs.read_optional(f'{directory}/diskseq')
    return '/'.join(
        (sequence, os.path.basename(directory))
        + blockcopy.write_counters(device)
    )


def device_of(writes: str) -> str:
    """Return the device of a text of :func:`writes`."""
    return '/'.join(writes.split('/')[:2])


def parts(
    device: str, start: int, stop: int
) -> collections.abc.Iterator[tuple[int, memoryview]]:
    """Yield the content of a remote vdisk between two offsets, by parts.

    Each is valid until the next one, and begins at the offset beside it.

    :raises Away: it is not there.
    :raises DiskError: it cannot be read.
    """
    check_there(device)
    with (
        files.disk_errors(device),
        files.opened(device, os.O_RDONLY | os.O_DIRECT) as reader,
        # direct I/O needs memory aligned to pages
        mmap.mmap(-1, _STEP) as content,
    ):
        if not stat.S_ISBLK(os.fstat(reader).st_mode):
            raise exception.DiskError(f'{device} is no block device')
        for offset in range(start, stop, _STEP):
            check_there(device)
            size = min(_STEP, stop - offset)
            with memoryview(content)[:size] as part:
                if os.preadv(reader, [part], offset) != size:
                    raise OSError(errno.EIO, 'short read')
                yield offset, part


def _directory(device: str, sys: str) -> str:
    """Return the directory of a remote vdisk in sysfs.

    :raises Away: its device is gone.
    """
    node = os.path.realpath(device)
    directory = sysfs.device_path(os.path.basename(node), sys)
    if not (os.path.exists(node) and os.path.isdir(directory)):
        raise Away(f'{device} is gone: there is no session with its host')
    return directory
