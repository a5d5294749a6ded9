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

"""Reads which devices the mounted filesystems are on."""

import re

from nova_diskplacer.host import sysfs

MOUNTINFO = '/proc/self/mountinfo'


def device(path: str, mountinfo: str = MOUNTINFO) -> str | None:
    """Return the device of the filesystem that is mounted at ``path``.

    The subvolumes of one btrfs have different numbers, but the same device.

    :param path: a real path.
    :returns: None if none is mounted there, or it is on no device.
    """
    source = _source(path, mountinfo)
    return source if source and source.startswith('/') else None


def is_mount_point(path: str, mountinfo: str = MOUNTINFO) -> bool:
    """Return whether a filesystem is mounted at ``path``.

    A subvolume of btrfs that is only a directory of its filesystem is none,
    while os.path.ismount takes it for one.

    :param path: a real path.
    """
    return _source(path, mountinfo) is not None


def _source(path: str, mountinfo: str) -> str | None:
    found = None
    for line in sysfs.read(mountinfo).splitlines():
        mount, _, filesystem = line.partition(' - ')
        if decoded(mount.split(' ')[4]) == path:
            # a later mount covers an earlier one
            found = decoded(filesystem.split(' ')[1])
    return found


def decoded(field: str) -> str:
    """Return a field of mountinfo or fstab without its octal escapes."""
    return re.sub(r'\\([0-7]{3})', lambda match: chr(int(match[1], 8)), field)
