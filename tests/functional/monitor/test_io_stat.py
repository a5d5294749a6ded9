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

"""What real cgroups do on loop devices is counted as it was done.

The suite tests/testbed/io_weights has the other version of cgroups, servers
and the device mapper.
"""

import contextlib
import os
import resource
import unittest

import testtools

from nova_diskplacer import exception
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import cgroup_v1
from nova_diskplacer.monitor import history
from nova_diskplacer.monitor import io_stat
from nova_diskplacer.monitor import types
from tests import cgroups as fixtures
from tests import loops
from tests import shell

KIB = 1024
BLOCK = 64 * KIB


def accounted():
    try:
        return cgroups.hierarchy() is not None
    except exception.ContentionError:
        return False


def device_of(uuid, path):
    name = os.path.basename(path)
    with open(f'/sys/class/block/{name}/dev') as stream:
        return Device(uuid, name, stream.read().strip(), False)


def opened(*made):
    """Return of which cgroups this process has files open."""
    paths = []
    for number in os.listdir('/proc/self/fd'):
        # the one that lists them has gone
        with contextlib.suppress(FileNotFoundError):
            paths.append(os.readlink(f'/proc/self/fd/{number}'))
    return {one.path for one in made} & {os.path.dirname(one) for one in paths}


@loops.needs_root
@unittest.skipUnless(accounted(), 'no cgroups with block I/O are mounted')
class CgroupReaderTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        hierarchy = cgroups.hierarchy()
        self.reader = io_stat.CgroupReader(hierarchy)
        self.consumers = []
        self.history = history.History()
        self.paths = [
            self.useFixture(loops.LoopDevice(1)).device for _ in range(2)
        ]
        self.devices = {
            uuid: device_of(uuid, path)
            for uuid, path in zip('ab', self.paths, strict=True)
        }

    def cgroup(self):
        """Return a cgroup that has used all devices.

        The kernel may count the very first requests as its parent's.
        """
        made = self.useFixture(fixtures.Cgroup())
        for _ in range(3):
            for path in self.paths:
                made.read(path, 1)
        return made

    def track(self, *made):
        self.consumers = [
            types.Consumer(key=one.name, cgroup=one.name) for one in made
        ]

    def update(self):
        """Return what was done since the last time, in blocks, by pair."""
        counters = self.reader.read(self.consumers, self.devices)
        done = self.history.update(1.0, counters).tolist()
        return {
            pair: (row[0] / BLOCK, row[1] / BLOCK, not any(row))
            for pair, row in zip(counters.pairs, done, strict=True)
        }

    def begin(self, *made):
        """Have what is done from now on counted."""
        self.reader.read(self.consumers, self.devices)
        self.track(*made)
        self.update()

    def test_what_each_does_on_each_device(self):
        # before, the kernel may not count
        self.reader.read(self.consumers, self.devices)
        one, other, unwatched = (self.cgroup() for _ in range(3))
        self.begin(one, other)
        one.read(self.paths[0], 7)
        one.write(self.paths[0], 3)
        one.write(self.paths[1], 5)
        other.read(self.paths[1], 2)
        unwatched.read(self.paths[0], 9)
        self.assertEqual(
            {
                (one.name, 'a'): (7, 3, False),
                (one.name, 'b'): (0, 5, False),
                (other.name, 'a'): (0, 0, True),
                (other.name, 'b'): (2, 0, False),
            },
            self.update(),
        )
        found = self.update()
        self.assertEqual({(0, 0, True)}, set(found.values()))
        active = self.history.table['active']
        self.assertEqual([1, 1, 0, 1], active.tolist())

    def test_requests(self):
        self.reader.read(self.consumers, self.devices)
        one = self.cgroup()
        self.track(one)
        before = self.settled()
        one.read(self.paths[0], 7)
        one.write(self.paths[0], 3)
        after = self.settled()
        self.assertIs(before.pairs, after.pairs)
        done = (after.values - before.values)[:, 2:4].tolist()
        found = dict(zip(after.pairs, done, strict=True))
        self.assertEqual([7, 3], found[one.name, 'a'])
        self.assertEqual([0, 0], found[one.name, 'b'])

    def settled(self):
        """Return the counters, with all requests."""
        for _ in range(2 * cgroup_v1.INTERVALS):
            counters = self.reader.read(self.consumers, self.devices)
        return counters

    def test_under_every_scheduler(self):
        self.reader.read(self.consumers, self.devices)
        one = self.cgroup()
        self.begin(one)
        name = os.path.basename(self.paths[0])
        before = block_queue.read(name).values['scheduler']
        self.addCleanup(block_queue.write, name, 'scheduler', before)
        for scheduler in block_queue.read(name).schedulers:
            block_queue.write(name, 'scheduler', scheduler)
            one.read(self.paths[0], 4)
            self.assertEqual(
                (4, 0, False), self.update()[one.name, 'a'], scheduler
            )

    def test_one_that_goes_and_comes_back(self):
        self.reader.read(self.consumers, self.devices)
        one, other = self.cgroup(), self.cgroup()
        self.begin(one, other)
        self.assertEqual({one.path, other.path}, opened(one, other))
        one.remove()
        self.assertEqual(
            {(other.name, 'a'), (other.name, 'b')}, set(self.update())
        )
        self.track(other)
        os.mkdir(one.path)
        for _ in range(3):
            one.read(self.paths[0], 5)
        self.track(one, other)
        self.assertEqual((0, 0, True), self.update()[one.name, 'a'])
        one.read(self.paths[0], 2)
        self.assertEqual((2, 0, False), self.update()[one.name, 'a'])
        del self.reader
        self.assertEqual(set(), opened(one, other))

    def test_a_device_that_goes_and_comes_back(self):
        self.reader.read(self.consumers, self.devices)
        one = self.cgroup()
        self.begin(one)
        file = self.useFixture(loops.LoopDevice(1)).file
        device = loops.attach(file)
        try:
            self.devices = self.devices | {'c': device_of('c', device)}
            self.update()
            for _ in range(3):
                one.read(device, 6)
            self.update()
            one.read(device, 6)
            self.assertEqual((6, 0, False), self.update()[one.name, 'c'])
        finally:
            shell.run('losetup', '--detach', device)
        self.devices = {
            uuid: self.devices[uuid] for uuid in self.devices if uuid != 'c'
        }
        self.assertNotIn((one.name, 'c'), self.update())

    def test_more_cgroups_than_files_may_be_open(self):
        self.reader.read(self.consumers, self.devices)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(
            resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard)
        )
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
        self.reader = io_stat.CgroupReader(cgroups.hierarchy())
        made = [self.useFixture(fixtures.Cgroup()) for _ in range(150)]
        for one in made[0], made[-1]:
            for _ in range(3):
                one.read(self.paths[0], 1)
        self.begin(*made)
        made[0].read(self.paths[0], 1)
        made[-1].read(self.paths[0], 2)
        found = self.update()
        self.assertEqual((1, 0, False), found[made[0].name, 'a'])
        self.assertEqual((2, 0, False), found[made[-1].name, 'a'])
