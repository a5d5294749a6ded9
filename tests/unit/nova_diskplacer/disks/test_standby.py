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

"""Disks that may go into standby are read only when they are in use."""

import os
from unittest import mock

import fixtures
import testtools
from hypothesis import given
from hypothesis import strategies as st

from nova_diskplacer.disks import discover
from nova_diskplacer.disks import standby
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.host import probes
from tests.unit.nova_diskplacer.disks import test_discover

# Documentation/block/stat.rst of Linux
STATS = st.tuples(*[st.integers(0, 2**32)] * 17)
READS, WRITES, IN_FLIGHT = 0, 4, 8


def changed(stat, **fields):
    found = list(stat)
    for name, value in fields.items():
        found[globals()[name]] = value
    return tuple(found)


class QuietTest(testtools.TestCase):
    @given(STATS, st.integers(0, 2**32))
    def test_reads_alone(self, stat, reads):
        before = changed(stat, IN_FLIGHT=0)
        now = changed(before, READS=reads)
        self.assertTrue(standby.is_quiet(before, now))

    @given(STATS, st.integers(1, 9))
    def test_use(self, stat, more):
        before = changed(stat, IN_FLIGHT=0)
        wrote = changed(before, WRITES=before[WRITES] + more)
        self.assertFalse(standby.is_quiet(before, wrote))
        working = changed(before, IN_FLIGHT=more)
        self.assertFalse(standby.is_quiet(before, working))

    def test_unknown(self):
        self.assertFalse(standby.is_quiet((), (0,) * 17))
        self.assertFalse(standby.is_quiet((0,) * 17, ()))


class MarkTest(testtools.TestCase):
    def test_marks(self):
        root = self.useFixture(fixtures.TempDir()).path
        uuid = '0a4c7a40-0000-4000-8000-000000000001'
        path = f'{root}/{uuid}'
        for marked in (True, True, False, False):
            standby.set_mark(path, marked)
            self.assertEqual(marked, standby.is_marked(path))
            self.assertEqual({uuid} if marked else set(), standby.marked(root))
        standby.set_mark(f'{root}/other', True)
        self.assertEqual(set(), standby.marked(root))
        self.assertEqual([], discover.discover(root))


class StatTest(testtools.TestCase):
    def test_stat(self):
        sys = self.useFixture(fixtures.TempDir()).path
        os.makedirs(f'{sys}/class/block/sda1')
        with open(f'{sys}/class/block/sda1/stat', 'w') as stream:
            stream.write('   1  2     3\n')
        self.assertEqual((1, 2, 3), standby.read_stat('/dev/sda1', sys))
        self.assertEqual((), standby.read_stat('/dev/sdb', sys))
        self.assertEqual((), standby.read_stat('', sys))


class DiscoverTest(test_discover.TestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.uuid = self.add()
        self.path = os.path.join(self.root, self.uuid)
        self.stat = (0,) * 17
        self.replace(standby, 'read_stat', lambda device: self.stat)
        self.reads = 0
        self.replace(probes, 'read_direct', self.read)

    def replace(self, module, name, value):
        patch = mock.patch.object(module, name, value)
        patch.start()
        self.addCleanup(patch.stop)

    def read(self, path, offset, size):
        self.reads += 1
        return b''

    def count(self, **fields):
        """Return how often the disk is read to find that it is well."""
        self.stat = changed(self.stat, **fields)
        self.reads = 0
        self.assertEqual({self.uuid: 'ok'}, self.healths())
        return self.reads

    def test_others_are_always_read(self):
        self.assertEqual([1] * 4, [self.count() for _ in range(4)])

    def test_a_marked_one(self):
        standby.set_mark(self.path, True)
        # the first answer says what its device is
        self.assertEqual([1, 1, 0, 0], [self.count() for _ in range(4)])
        self.assertEqual(0, self.count(READS=1))
        self.assertEqual([1, 0], [self.count(WRITES=1), self.count()])
        self.assertEqual(
            [1, 1, 0], [self.count(IN_FLIGHT=now) for now in (1, 1, 0)]
        )
        standby.set_mark(self.path, False)
        self.assertEqual(1, self.count())

    def test_what_is_new_is_seen_without_a_read(self):
        standby.set_mark(self.path, True)
        for _ in range(3):
            self.count()
        discover.vdisks_.create(self.path, 'v', '1', None, 4096)
        (disk,) = discover.discover(self.root)
        self.assertEqual(['v'], [vdisk.name for vdisk in disk.vdisks])
        self.mounted.clear()
        self.assertEqual({self.uuid: 'missing'}, self.healths())
        self.mounted.add(self.path)
        self.assertEqual([1, 1, 0], [self.count() for _ in range(3)])

    def test_a_volume_group(self):
        (disk,) = discover.discover(self.root)
        standby.set_mark(self.path, True)
        self.replace(naming, 'is_entry', lambda path: True)
        read = mock.Mock(side_effect=lambda uuid, path: disk)
        self.replace(discover, '_read_group', read)
        calls = []
        for fields in ({}, {}, {'READS': 5}, {'WRITES': 1}, {}):
            self.count(**fields)
            calls.append(read.call_count)
        self.assertEqual([1, 1, 1, 2, 2], calls)

    def test_it_has_time_to_spin_up(self):
        probe = discover._probe(self.root, self.uuid)
        self.assertEqual(0.0, probe.allowance)
        standby.set_mark(self.path, True)
        probe = discover._probe(self.root, self.uuid)
        self.assertEqual(standby.SPIN_UP, probe.allowance)
