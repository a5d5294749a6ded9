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

"""Cgroups for tests; they need root and go when the test ends."""

import itertools
import os

import fixtures
import psutil

from nova_diskplacer.host import cgroups
from tests import shell

# Of this run of tests only: tools/lib/contain.sh removes what is left.
PREFIX = f'{os.environ.get("DISKPLACER_RUN", "diskplacer-test")}-{os.getpid()}'

_NUMBERS = itertools.count()


def unified():
    """Return the hierarchy of cgroup v2, even one without the io controller.

    Processes are members of its cgroups all the same. None if it is mounted
    nowhere.
    """
    for mount in psutil.disk_partitions(all=True):
        if mount.fstype == 'cgroup2':
            return cgroups.Hierarchy(mount.mountpoint)
    return None


class Cgroup(fixtures.Fixture):
    """A cgroup whose I/O is accounted for; ``name`` is below the root.

    Its parent's children are given the io controller.
    """

    def __init__(self, name=None):
        super().__init__()
        self.hierarchy = cgroups.hierarchy()
        self.name = name or f'{PREFIX}-{next(_NUMBERS)}'
        self.path = self.hierarchy.path(self.name)

    def _setUp(self):
        # it stays: others may need it meanwhile
        parent = os.path.dirname(self.path)
        with open(f'{parent}/cgroup.subtree_control', 'w') as stream:
            stream.write('+io')
        os.mkdir(self.path)
        self.addCleanup(self.remove)

    def remove(self):
        """Remove the cgroup; nobody may be in it."""
        if os.path.isdir(self.path):
            os.rmdir(self.path)

    def run(self, *command):
        """Run a command in the cgroup; a failure shows what it printed."""
        script = 'echo 0 > "$0/cgroup.procs" && exec "$@"'
        shell.run('sh', '-c', script, self.path, *command)

    def read(self, device, count, skip=0):
        """Read so many blocks of 64 KiB from a device."""
        self._dd(f'if={device}', 'of=/dev/null', count, 'direct', skip)

    def write(self, device, count, skip=0):
        """Write so many blocks of 64 KiB to a device."""
        self._dd('if=/dev/zero', f'of={device}', count, 'direct', skip)

    def _dd(self, source, target, count, flag, skip):
        reads = target == 'of=/dev/null'
        self.run(
            'dd',
            source,
            target,
            'bs=64k',
            f'count={count}',
            f'{"i" if reads else "o"}flag={flag}',
            f'{"skip" if reads else "seek"}={skip}',
            'status=none',
        )
