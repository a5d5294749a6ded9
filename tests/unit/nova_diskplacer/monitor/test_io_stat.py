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

import contextlib
import errno
import os
import resource
import shutil
from unittest import mock

import fixtures
from oslotest import base

from nova_diskplacer.host import cgroups
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import io_stat
from nova_diskplacer.monitor import types


def make_device(uuid, number):
    return Device(uuid, f'sd{uuid}', number, True)


def make_devices(**numbers):
    return {uuid: make_device(uuid, one) for uuid, one in numbers.items()}


DEVICES = make_devices(a='8:0', b='8:16')


class CgroupReaderTestCase(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.root = self.useFixture(fixtures.TempDir()).path
        self.consumers = []
        self.reader = io_stat.CgroupReader(cgroups.Hierarchy(self.root))

    def opened(self):
        """Return the files of cgroups that are open."""
        found = []
        for entry in os.listdir('/proc/self/fd'):
            with contextlib.suppress(FileNotFoundError):
                found.append(os.readlink(f'/proc/self/fd/{entry}'))
        return [path for path in found if path.startswith(self.root)]

    def write(self, name, text):
        with open(os.path.join(self.root, name), 'w') as stream:
            stream.write(text)

    def account(self, cgroup, **devices):
        """Have a cgroup's file say what it did: (rb, wb, r, w)."""
        os.makedirs(os.path.join(self.root, cgroup), exist_ok=True)
        numbers = {'a': '8:0', 'b': '8:16', 'c': '253:1'}
        lines = [
            f'{numbers[name]} rbytes={done[0]} wbytes={done[1]} '
            f'rios={done[2]} wios={done[3]} dbytes=0 dios=0\n'
            for name, done in devices.items()
        ]
        self.write(f'{cgroup}/{io_stat.FILE}', ''.join(lines))

    def track(self, *cgroups_, **others):
        cgroups_ = {cgroup: cgroup for cgroup in cgroups_} | others
        self.consumers = [
            types.Consumer(key=key, cgroup=cgroup)
            for key, cgroup in cgroups_.items()
        ]

    def read(self, devices=DEVICES):
        counters = self.reader.read(self.consumers, devices)
        self.assertEqual(
            (len(counters.pairs), types.COUNTERS), counters.values.shape
        )
        return counters

    def assertRead(self, wanted, counters):  # noqa: N802
        found = dict(
            zip(counters.pairs, counters.values[:, :4].tolist(), strict=True)
        )
        self.assertEqual(
            {pair: list(values) for pair, values in wanted.items()}, found
        )
        self.assertEqual(sorted(found), list(counters.pairs))


class CgroupReaderTest(CgroupReaderTestCase):
    def test_pairs(self):
        self.account('y', b=(5, 6, 7, 8), c=(9, 9, 9, 9), a=(1, 2, 3, 4))
        self.account('x', b=(10, 20, 30, 40))
        self.account('z')
        self.track('y', 'x', 'z')
        self.assertRead(
            {
                ('x', 'b'): (10, 20, 30, 40),
                ('y', 'a'): (1, 2, 3, 4),
                ('y', 'b'): (5, 6, 7, 8),
            },
            self.read(),
        )

    def test_nobody(self):
        self.assertRead({}, self.read())
        self.track(off='')
        self.assertRead({}, self.read({}))

    def test_the_same_pairs_while_none_comes_or_goes(self):
        self.account('x', a=(1, 2, 3, 4))
        self.account('y', a=(1, 2, 3, 4))
        self.track('x', 'y')
        before = self.read().pairs
        self.account('x', a=(100, 2, 3, 4))
        self.assertIs(before, self.read().pairs)
        self.assertIs(before, self.read(dict(DEVICES)).pairs)
        self.account('x', a=(100, 2, 3, 4), c=(1, 1, 1, 1))
        self.assertIs(before, self.read().pairs)
        self.account('x', a=(100, 2, 3, 4), b=(1, 1, 1, 1))
        self.assertRead(
            {
                ('x', 'a'): (100, 2, 3, 4),
                ('x', 'b'): (1, 1, 1, 1),
                ('y', 'a'): (1, 2, 3, 4),
            },
            self.read(),
        )

    def test_what_is_seen_for_the_first_time(self):
        self.account('x', a=(1, 2, 3, 4), b=(1, 2, 3, 4))
        self.track('x')
        only = {'a': DEVICES['a']}
        self.assertEqual([True], self.read(only).first.tolist())
        self.assertEqual([False], self.read(only).first.tolist())
        # a disk that was prepared since may have been used for long
        self.assertEqual([False, True], self.read().first.tolist())
        self.assertEqual([False, False], self.read().first.tolist())
        self.account('y', a=(1, 2, 3, 4))
        self.account('z')
        self.track('x', 'y', 'z')
        self.assertEqual([False, False, True], self.read().first.tolist())
        # the first use of a disk that was watched before
        self.account('z', a=(1, 2, 3, 4))
        self.assertEqual([False] * 4, self.read().first.tolist())

    def test_a_server_that_has_another_cgroup(self):
        self.account('x1', a=(1, 2, 3, 4))
        self.account('x2', a=(5, 2, 3, 4))
        self.track(x='x1')
        before = self.read()
        self.track(x='x2')
        after = self.read()
        self.assertRead({('x', 'a'): (5, 2, 3, 4)}, after)
        self.assertIs(before.pairs, after.pairs)
        self.assertEqual([True], after.first.tolist())

    def test_a_device_that_comes_back_as_another(self):
        self.account('x', a=(1, 2, 3, 4), b=(5, 6, 7, 8))
        self.track('x')
        self.assertRead(
            {('x', 'a'): (1, 2, 3, 4)}, self.read(make_devices(a='8:0'))
        )
        counters = self.read(make_devices(a='8:16'))
        self.assertRead({('x', 'a'): (5, 6, 7, 8)}, counters)
        self.assertEqual([True], counters.first.tolist())
        self.assertRead({}, self.read({}))

    def remove(self, cgroup):
        """Have a cgroup be gone, for open files, too."""
        path = os.path.join(self.root, cgroup)
        shutil.rmtree(path)
        pread = os.pread

        def read(file, size, offset):
            if os.readlink(f'/proc/self/fd/{file}').startswith(path):
                raise OSError(errno.ENODEV, 'No such device')
            return pread(file, size, offset)

        patch = mock.patch.object(os, 'pread', read)
        patch.start()
        self.addCleanup(patch.stop)
        return patch

    def test_those_that_go(self):
        for name in 'xyz':
            self.account(name, a=(1, 2, 3, 4))
        self.track('x', 'y', 'z')
        self.read()
        self.assertEqual(3, len({os.path.dirname(p) for p in self.opened()}))
        gone = self.remove('y')
        self.assertEqual([('x', 'a'), ('z', 'a')], list(self.read().pairs))
        self.track('z')
        self.assertEqual([('z', 'a')], list(self.read().pairs))
        self.assertNotIn(f'{self.root}/y', ' '.join(self.opened()))
        # made again, with the same name
        gone.stop()
        self.account('y', a=(1, 2, 3, 4))
        self.track('y', 'z')
        counters = self.read()
        self.assertEqual([('y', 'a'), ('z', 'a')], list(counters.pairs))
        self.assertEqual([True, False], counters.first.tolist())
        self.assertNotIn('cannot be monitored', self.log.output)
        del self.reader
        self.assertEqual([], self.opened())

    def test_one_that_goes_while_it_is_read(self):
        self.account('x', a=(1, 2, 3, 4))
        self.track('x')
        self.read()
        gone = OSError(errno.ENODEV, 'No such device')
        with mock.patch.object(os, 'pread', side_effect=gone):
            self.assertRead({}, self.read())
        self.assertEqual([], self.opened())
        self.assertIn('No such device', self.log.output)

    def test_one_that_cannot_be_read(self):
        os.mkdir(os.path.join(self.root, 'x'))
        self.track('x')
        for _ in range(30):
            self.assertRead({}, self.read())
        self.assertEqual(
            1, self.log.output.count('I/O of x cannot be monitored')
        )
        self.assertIn(f'{self.root}/x/', self.log.output)
        self.assertIn('No such file', self.log.output)
        self.account('x', a=(1, 2, 3, 4))
        self.assertRead({('x', 'a'): (1, 2, 3, 4)}, self.read())

    def test_one_that_comes_back_unnoticed(self):
        self.account('x', a=(1, 2, 3, 4))
        self.track('x')
        self.read()
        gone = self.remove('x')
        self.assertRead({}, self.read())
        gone.stop()
        self.account('x', a=(1, 2, 3, 4))
        counters = self.read()
        self.assertRead({('x', 'a'): (1, 2, 3, 4)}, counters)
        self.assertEqual([True], counters.first.tolist())

    def test_more_cgroups_than_files_may_be_open(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(
            resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard)
        )
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
        self.reader = io_stat.CgroupReader(cgroups.Hierarchy(self.root))
        names = [f'x{number}' for number in range(150)]
        for name in names:
            self.account(name, a=(1, 2, 3, 4))
        self.track(*names)
        self.assertEqual(150, len(self.read().pairs))
        self.assertEqual(150, len(self.opened()))

    def test_many_devices(self):
        self.account('x', a=(1, 2, 3, 4))
        with open(os.path.join(self.root, 'x', io_stat.FILE)) as stream:
            line = stream.read()
        lines = ''.join(
            line.replace('8:0', f'9:{minor}') for minor in range(500)
        )
        self.write(f'x/{io_stat.FILE}', lines + line)
        self.track('x')
        self.assertEqual(1, self.read().values[0, 0])


class FormatTest(CgroupReaderTestCase):
    def test_lines_of_other_kernels(self):
        counters = '8:0 rbytes=1 wbytes=2 rios=3 wios=4'
        os.mkdir(os.path.join(self.root, 'x'))
        for text in (
            # no newline after a device without I/O, Linux 5.10
            f'7:1 7:0 {counters} dbytes=0 dios=0\n',
            f'{counters} dbytes=0 dios=0 cost.vrate=100.00\n',
            f'8:1 rbytes=9 wbytes=9 rios=9 wios=9\n{counters}\n8:16 \n',
            f'{counters}',
        ):
            self.write('x/io.stat', text)
            self.track('x')
            self.assertRead({('x', 'a'): (1, 2, 3, 4)}, self.read())

    def test_what_io_cost_charges(self):
        counters = 'rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0'
        os.mkdir(os.path.join(self.root, 'x'))
        self.write(
            'x/io.stat',
            f'8:0 {counters} cost.usage=512\n'
            f'8:16 {counters} cost.vrate=100.00 cost.usage=7 cost.wait=9\n'
            f'253:1 {counters}\n',
        )
        self.track('x')
        devices = make_devices(a='8:0', b='8:16', c='253:1')
        self.assertEqual([512, 7, 0], self.read(devices).values[:, 4].tolist())
