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

"""Where the kernel accounts for the I/O of cgroups."""

import dataclasses
import os
import re

from nova_diskplacer import exception

MOUNTS = '/proc/self/mounts'

_OCTAL = re.compile(r'\\([0-7]{3})')


@dataclasses.dataclass(frozen=True)
class Hierarchy:
    """The mounted hierarchy of cgroups that has accounts of block I/O.

    ``version`` is that of cgroups, 1 (the ``blkio`` controller) or 2
    (``io``); ``root`` is where it is mounted.
    """

    version: int
    root: str

    def path(self, cgroup: str, file: str = '') -> str:
        """Return the path of a cgroup, given below the root, or of a file."""
        return os.path.join(self.root, cgroup, file).rstrip('/')


def hierarchy(mounts: str = MOUNTS) -> Hierarchy:
    """Return the hierarchy of this host.

    A controller is in one hierarchy only, so there cannot be two.

    :param mounts: file that lists what is mounted.
    :raises ContentionError: there is none.
    """
    with open(mounts, encoding='utf-8', errors='surrogateescape') as stream:
        lines = [line.split(' ') for line in stream]
    for _, target, kind, options, *_ in lines:
        root = _OCTAL.sub(lambda match: chr(int(match[1], 8)), target)
        if kind == 'cgroup' and 'blkio' in options.split(','):
            return Hierarchy(1, root)
        if kind == 'cgroup2' and 'io' in _controllers(root):
            return Hierarchy(2, root)
    raise exception.ContentionError(
        f'{mounts} has neither cgroup v2 with the io controller nor cgroup '
        'v1 with blkio: mount one, to have the I/O of servers watched'
    )


def _controllers(root: str) -> list[str]:
    try:
        with open(f'{root}/cgroup.controllers', encoding='ascii') as stream:
            return stream.read().split()
    except OSError:
        # unmounted since, or not ours to read
        return []
