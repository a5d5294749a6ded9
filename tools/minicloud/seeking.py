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

"""Disks that seek: those of ``tools/seeking_disk``, as loop devices.

nbdfuse shows what the server of NBD has as a file. Both end with the mount.
"""

import pathlib

from tools import seeking_disk
from tools.minicloud import disks
from tools.minicloud import fuse
from tools.minicloud.state import State

# More than a disk of SATA takes at a time, so that it can choose.
_REQUESTS = 64


def attach(state: State, backing: pathlib.Path) -> str:
    """Make a device with the head of a hard disk, and return its path.

    :param backing: says how large it is; what is written to the device is
        elsewhere.
    """
    fuse.mount(
        state,
        backing,
        [
            'nbdfuse',
            str(backing),
            '[',
            'nbdkit',
            '--exit-with-parent',
            f'--threads={_REQUESTS}',
            'python',
            str(seeking_disk.PLUGIN),
            f'size={backing.stat().st_size}',
            ']',
        ],
        _REQUESTS,
    )
    return disks.attach(backing)
