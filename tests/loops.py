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

"""Loop devices for tests; they need root and go when the test ends."""

import contextlib
import fcntl
import os
import unittest

import fixtures

from tests import shell
from tools.minicloud import disks

GIB = 1 << 30

needs_root = unittest.skipUnless(
    os.geteuid() == 0 and os.path.exists('/dev/loop-control'),
    'loop devices take root and a kernel that has them',
)


@contextlib.contextmanager
def no_others():
    """Keep other tests from taking a free loop device."""
    control = os.open('/dev/loop-control', os.O_RDONLY)
    try:
        fcntl.flock(control, fcntl.LOCK_EX)
        yield
    finally:
        os.close(control)


def attach(file, *options):
    """Return the node of a loop device that was free, over a file now.

    It has the queue of a new one, whoever had it before.
    """
    with no_others():
        device = shell.run('losetup', '--find', '--show', *options, file)
    disks.reset_queue(device)
    return device


class LoopDevice(fixtures.Fixture):
    """A loop device over a sparse file; ``device`` is its node.

    When it goes, whatever is mounted from it is unmounted.
    """

    def __init__(self, size_gb=5, *options):
        super().__init__()
        self.size_bytes = size_gb * GIB
        self.options = options

    def _setUp(self):
        self.file = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'disk.raw'
        )
        with open(self.file, 'w') as stream:
            stream.truncate(self.size_bytes)
        self.device = attach(self.file, '--partscan', *self.options)
        self.addCleanup(shell.run, 'losetup', '--detach', self.device)
        self.addCleanup(self.unmount)

    def mountpoints(self):
        """Return where the device is mounted."""
        with open('/proc/self/mounts', encoding='utf-8') as mounts:
            fields = [line.split() for line in mounts]
        return [
            target for source, target, *_ in fields if source == self.device
        ]

    def unmount(self):
        """Unmount the device wherever it is mounted."""
        for target in self.mountpoints():
            shell.run_retry('umount', target)
