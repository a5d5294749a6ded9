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
"""The processes of this host, and what they have open."""

import collections.abc
import contextlib
import glob
import os
import stat

PROC = '/proc'

_Test = collections.abc.Callable[[os.stat_result], bool]

# The inode of the kernel's first PID namespace, linux/proc_ns.h.
_HOST_PID_NAMESPACE = 0xEFFFFFFC


def sees_all() -> bool:
    """Return whether this process sees all processes of the host.

    In a container it does not, unless that has the host's PID namespace.
    """
    return os.stat(f'{PROC}/self/ns/pid').st_ino == _HOST_PID_NAMESPACE


def have_open(device: int) -> bool:
    """Return whether another process has a block device open.

    Only root may know, and not of init, which has none open. The device is
    not asked, so it may hang.

    :param device: its number, as ``st_rdev`` has it.
    :raises OSError: this is not known of a process.
    """
    return any(_has_open(process, _is_device(device)) for process in _others())


def holders(path: str) -> list[int]:
    """Return the other processes that have a file or a block device open.

    Each is named as in ``/proc/self`` of its own, whatever PID namespace it
    is in.

    :param path: of the file or device, which is not hung.
    :raises OSError: as :func:`have_open`, or there is no such file.
    """
    status = os.stat(path)
    is_it = (
        _is_device(status.st_rdev)
        if stat.S_ISBLK(status.st_mode)
        else lambda other: os.path.samestat(status, other)
    )
    found = []
    for process in _others():
        if _has_open(process, is_it):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found.append(_own_pid(process))
    return found


def _others() -> collections.abc.Iterator[str]:
    without = {f'{PROC}/1', f'{PROC}/{os.getpid()}'}
    for process in glob.iglob(f'{PROC}/[0-9]*'):
        if process not in without:
            yield process


def _own_pid(process: str) -> int:
    with open(f'{process}/status') as stream:
        for line in stream:
            name, _, value = line.partition(':')
            if name == 'NSpid':
                return int(value.split()[-1])
    return int(os.path.basename(process))


def _is_device(number: int) -> _Test:
    def is_it(status: os.stat_result) -> bool:
        return stat.S_ISBLK(status.st_mode) and status.st_rdev == number

    return is_it


def _has_open(process: str, is_it: _Test) -> bool:
    try:
        names = os.listdir(f'{process}/fd')
    except (FileNotFoundError, ProcessLookupError):
        # it has ended
        return False
    for name in names:
        try:
            status = os.stat(f'{process}/fd/{name}')
        except (FileNotFoundError, ProcessLookupError):
            continue
        if is_it(status):
            return True
    return False
