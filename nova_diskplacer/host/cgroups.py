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

"""Finds the cgroup hierarchy that accounts for block I/O."""

import dataclasses
import os

import psutil

from nova_diskplacer import exception
from nova_diskplacer.host import sysfs


@dataclasses.dataclass(frozen=True)
class Hierarchy:
    """The hierarchy of cgroup v2, with the io controller.

    ``root`` is the mount point.
    """

    root: str

    def path(self, cgroup: str, file: str = '') -> str:
        """Return the path of a cgroup or of a file in it.

        :param cgroup: its path below the root.
        """
        return os.path.join(self.root, cgroup, file).rstrip('/')


def hierarchy() -> Hierarchy:
    """Return the hierarchy of this host.

    :raises ContentionError: no hierarchy accounts for block I/O.
    """
    for mount in psutil.disk_partitions(all=True):
        if mount.fstype == 'cgroup2':
            path = os.path.join(mount.mountpoint, 'cgroup.controllers')
            if 'io' in sysfs.read_optional(path).split():
                return Hierarchy(mount.mountpoint)
    raise exception.ContentionError(
        '/proc/self/mounts lists no cgroup v2 with the io controller: boot '
        'with it (systemd.unified_cgroup_hierarchy=1), so that the I/O of '
        'servers can be measured'
    )
