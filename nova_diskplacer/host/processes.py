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

import glob
import os
import stat

PROC = '/proc'

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
    without = {f'{PROC}/1', f'{PROC}/{os.getpid()}'}
    return any(
        _has_open(process, device)
        for process in glob.iglob(f'{PROC}/[0-9]*')
        if process not in without
    )


def _has_open(process: str, device: int) -> bool:
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
        if stat.S_ISBLK(status.st_mode) and status.st_rdev == device:
            return True
    return False
