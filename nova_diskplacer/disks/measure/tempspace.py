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
"""Temporary space on a disk to write to."""

import collections.abc
import contextlib
import os

from nova_diskplacer.disks import discover
from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.disks.lvm import volumes
from nova_diskplacer.host import files as host_files

_MODE = 0o600


@contextlib.contextmanager
def allocated(
    disk_root: str, uuid: str, size_bytes: int
) -> collections.abc.Iterator[str]:
    """Allocate space on a disk; yields the path of a file or device.

    The file has no name, so it vanishes with its process. The logical volume
    is marked as deleted from the beginning; the next call removes the one of a
    killed process.

    :raises DiskError: the disk is missing, lacks the space, or refuses.
    """
    if discover.kind_of(disk_root, uuid) == discover.LVM:
        volumes.remove_temporary(uuid)
        try:
            yield volumes.create_temporary(uuid, size_bytes)
        finally:
            volumes.remove_temporary(uuid)
        return
    path = discover.require_mounted(disk_root, uuid)
    with contextlib.ExitStack() as stack:
        with host_files.disk_errors(path):
            directory = stack.enter_context(
                host_files.opened(path, os.O_DIRECTORY)
            )
            file = stack.enter_context(files.open_tmpfile(directory, _MODE))
            stack.callback(files.truncate_unlinked, file)
            files.allocate(file, size_bytes)
        yield f'/proc/{os.getpid()}/fd/{file}'
