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

"""cinder-volume is killed at each step of each operation."""

import atexit
import concurrent.futures
import contextlib
import functools
import multiprocessing
import os

import fixtures
import testtools
from testtools import content

from nova_diskplacer.disks import links
from nova_diskplacer.disks import prepare
from tests import loops
from tests.functional.crash import attachments
from tests.functional.crash import drains
from tests.functional.crash import operations
from tests.functional.crash import walk
from tests.functional.crash.cloud import GIB

#: medium of each disk of 5 GiB, of which 4 are for vdisks
DISKS = ('hdd', 'hdd', 'ssd')


@functools.cache
def _process():
    """Return a process that is warmed up for all tests of this one.

    It forks its victims, and has no threads. Its start takes as long as a
    test: classes share it, and it ends with this process.
    """
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    directory = stack.enter_context(fixtures.TempDir()).path
    disk_root = os.path.join(directory, 'disks')
    for medium in DISKS:
        prepare.prepare(
            disk_root,
            stack.enter_context(loops.LoopDevice(5)).device,
            medium,
            fstab=os.path.join(directory, 'fstab'),
        )
    process = concurrent.futures.ProcessPoolExecutor(
        1,
        multiprocessing.get_context('spawn'),
        walk.start,
        (directory, disk_root),
    )
    stack.callback(process.shutdown)
    return process


@loops.needs_root
class CrashTestCase(testtools.TestCase):
    """Victims are forked of one process."""

    def setUp(self):
        super().setUp()
        self.addCleanup(self.call, walk.reset)

    def call(self, function, *args):
        """Call a function in that process."""
        return _process().submit(function, *args).result()


class WalkTestCase(CrashTestCase):
    """Has a test for each operation."""


def _walk(kind):
    def test(self):
        steps = self.call(walk.walk, kind)
        self.addDetail(
            'steps', content.text_content(f'{kind.__name__}: {steps}')
        )
        # at least the begin, a change and the word to the database
        self.assertGreater(len(steps), 2)

    return test


for _kind in (
    *operations.OPERATIONS,
    *drains.OPERATIONS,
    *attachments.OPERATIONS,
):
    setattr(WalkTestCase, f'test_{_kind.__name__}', _walk(_kind))


class FailingSavesTestCase(CrashTestCase):
    """The database fails at each commit, and cinder-volume goes on."""


def _fail(kind):
    def test(self):
        commits = self.call(walk.walk_failing_saves, kind)
        self.addDetail(
            'commits', content.text_content(f'{kind.__name__}: {commits}')
        )
        self.assertGreater(commits, 0)

    return test


class WrittenMeanwhile(operations.Operation):
    """A server writes to a volume before its move is repeated."""

    def survived(self, cloud, made):
        super().survived(cloud, made)
        volume = cloud.get(made['volume'])
        # it opens the link, whatever the database says
        volume.provider_location = links.linked_disk(
            cloud.disk_root, volume.name
        )
        self.text = 'w'
        cloud.write(volume, self.text)


class MigrateAndWrite(WrittenMeanwhile, operations.Migrate):
    """A move to the other medium."""


class DrainAndWrite(WrittenMeanwhile, drains.DrainStopped):
    """A move to another disk, while the server is stopped."""

    ways = operations.AGAIN, operations.DELETE


for _kind in (
    MigrateAndWrite,
    DrainAndWrite,
    drains.DrainInUse,
    operations.Bind,
    operations.Extend,
    operations.Manage,
    operations.UnmanageUnbound,
):
    setattr(FailingSavesTestCase, f'test_{_kind.__name__}', _fail(_kind))


class HarnessTestCase(CrashTestCase):
    """The walk sees what is planted."""

    def assertSeen(self, kind, pattern):
        error = self.assertRaises(AssertionError, self.call, walk.walk, kind)
        self.assertRegex(str(error), pattern)

    def test_leak(self):
        self.assertSeen(
            DeleteInWrongOrder,
            r'(?s)killed at step 2 \(after commit\) and \w+:.*'
            'files: .*/vdisks/volume-',
        )

    def test_loss(self):
        self.assertSeen(
            ExtendByRewriting,
            r'killed at step 2 \(after ftruncate\)',
        )

    def test_what_placement_is_not_told(self):
        self.assertSeen(BindUntold, 'is oversold')


class DeleteInWrongOrder(operations.Delete):
    """Deletes the row first, then the vdisk."""

    def perform(self, cloud, made):
        volume = cloud.get(made['volume'])
        disk = volume.provider_location
        volume.destroy()
        changes = cloud.manager_of(volume).driver.operations
        changes.delete(disk, volume.name)


class ExtendByRewriting(operations.Extend):
    """Holds the only copy of the volume's end in memory."""

    def perform(self, cloud, made):
        path = cloud.path(cloud.get(made['volume']))
        with open(path, 'r+b', buffering=0) as stream:
            end = os.pread(stream.fileno(), GIB, GIB // 2)
            os.ftruncate(stream.fileno(), GIB // 2)
            os.pwrite(stream.fileno(), end, GIB // 2)
        super().perform(cloud, made)


class BindUntold(operations.Bind):
    """Forgets to tell Placement."""

    def perform(self, cloud, made):
        operations = cloud.managers['hdd'].driver.operations
        operations.reserve = lambda disk: True
        super().perform(cloud, made)
