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

"""Seekers on loop devices, told apart by the kernel's trace."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.host import processes
from nova_diskplacer.host import tracefs as host_tracefs
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import seek_detector
from nova_diskplacer.monitor import types
from tests import cgroups
from tests import configured
from tests import loops
from tests import tracefs
from tests.unit.nova_diskplacer.monitor import example
from tests.unit.nova_diskplacer.monitor import samples

FIO = (
    'fio',
    '--name=task',
    '--direct=1',
    '--thread',
    '--time_based',
    '--runtime=600',
    '--output=/dev/null',
)
RANDOM = ('--rw=randread', '--bs=4k', '--rate_iops=200', '--size=4g')

# Reads once in each of its threads, which are gone at once.
THREADS = """
import mmap, os, random, sys, threading, time
disk = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
buffer = mmap.mmap(-1, 4096)
while True:
    place = random.randrange(1 << 20) * 4096
    reader = threading.Thread(target=os.preadv, args=(disk, [buffer], place))
    reader.start()
    reader.join()
    time.sleep(0.005)
"""

# Is killed while it traces.
TRACER = """
import sys
from nova_diskplacer.host import tracefs
for _ in tracefs.Tracer(sys.argv[1]).sample([sys.argv[2]], 60):
    print(flush=True)
"""


def path(*names):
    return os.path.join(tracefs.PATH, *names)


def text(*names):
    with open(path(*names), encoding='ascii') as stream:
        return stream.read()


@loops.needs_root
@unittest.skipUnless(cgroups.unified(), 'no cgroup v2 is mounted')
class SeekersTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(tracefs.Tracefs())
        self.log = self.useFixture(fixtures.FakeLogger())
        loop = self.useFixture(loops.LoopDevice(size_gb=256))
        self.node = loop.device
        number = os.stat(self.node).st_rdev
        self.disk = Device(
            'disk',
            os.path.basename(self.node),
            f'{os.major(number)}:{os.minor(number)}',
            rotational=True,
        )
        self.hierarchy = cgroups.unified()
        self.consumers = []
        self.conf = self.useFixture(configured.Options()).conf
        self.name = seek_detector.instance(self.conf)
        # of a run in a PID namespace of its own, see tools/lib/contain.sh
        if proc := os.environ.get('DISKPLACER_HOST_PROC'):
            self.patch(seek_detector, '_PROC', proc)
            namespace = os.stat('/proc/self/ns/pid').st_ino
            self.patch(processes, '_HOST_PID_NAMESPACE', namespace)
        self.patch(seek_detector, '_FLAGGED_PAUSE', 0)
        self.patch(seek_detector, '_SEEKERS_PAUSE', 0)
        self.patch(seek_detector, '_CONFIRM_SECONDS', 1.5)
        self.detector = seek_detector.SeekDetector(self.conf, self.hierarchy)

    def patch(self, target, name, value):
        self.useFixture(
            fixtures.MonkeyPatch(f'{target.__name__}.{name}', value)
        )

    def start(self, key, *command):
        """Start a command in a cgroup below that of a consumer."""
        cgroup = (
            f'{os.path.basename(self.conf.diskplacer_agent.state_dir)}-{key}'
        )
        if key not in [one.key for one in self.consumers]:
            self.consumers.append(types.Consumer(key, cgroup))
            home = self.hierarchy.path(cgroup, 'emulator')
            os.makedirs(home)
            self.addCleanup(os.removedirs, home)
        procs = self.hierarchy.path(cgroup, 'emulator/cgroup.procs')
        process = subprocess.Popen(
            ['sh', '-c', f'echo $$ > {procs}; exec "$@"', 'sh', *command],
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def fio(self, key, *arguments):
        return self.start(key, *FIO, f'--filename={self.node}', *arguments)

    def detect(self, flagged=True):
        state = example.disk_state('disk', device=self.disk, flagged=flagged)
        self.detector.run(
            samples.make_sample(
                sorted((one.key, 'disk') for one in self.consumers),
                disks={'disk': state},
                consumers={one.key: one for one in self.consumers},
            )
        )
        found = self.detector.seekers
        self.assertFalse(os.path.exists(path('instances', self.name)))
        return {key for key, _ in found}

    def assert_found(self, *seekers):
        """Inspect until all of these are found, and never another one.

        On a busy machine they take their time to do anything.
        """
        deadline = time.monotonic() + 180
        while (found := self.detect()) != set(seekers):
            self.assertEqual(set(), found - set(seekers))
            self.assertLess(time.monotonic(), deadline, found)

    def until_it_has_read(self, process, count):
        """Wait until a process has asked for so many bytes."""
        deadline = time.monotonic() + 180
        while True:
            with open(f'/proc/{process.pid}/io', encoding='ascii') as stream:
                done = dict(line.split() for line in stream)
            if int(done['rchar:']) >= count:
                break
            self.assertLess(time.monotonic(), deadline, done)
            time.sleep(0.1)

    def test_seeker_beside_sequential_ones(self):
        self.patch(seek_detector, '_CONFIRM_SECONDS', 10)
        self.fio('seeker', '--ioengine=libaio', '--iodepth=4', *RANDOM)
        self.start('fleeting', sys.executable, '-c', THREADS, self.node)
        self.fio('reader', '--rw=read', '--bs=64k', '--rate_iops=50')
        self.fio('writer', '--rw=write', '--bs=64k', '--rate_iops=50')
        streams = self.fio(
            'streams',
            '--rw=read',
            '--bs=128k',
            '--rate_iops=4',
            '--numjobs=16',
            '--offset_increment=1g',
        )
        self.fio(
            'shuffled',
            '--ioengine=io_uring',
            '--force_async=1',
            '--iodepth=32',
            '--rw=read',
            '--bs=4k',
            '--rate_iops=400',
        )
        # the first requests of so many streams are all far from each other
        self.until_it_has_read(streams, 16 << 20)
        self.assert_found('seeker', 'fleeting')

    def test_until_it_ends(self):
        process = self.fio('task', *RANDOM)
        self.assert_found('task')
        # inspected because of the seeker only
        self.end(process)
        process = self.fio('task', '--rw=read', '--bs=4k', '--rate_iops=8')
        # as long as it takes to see what it does
        self.patch(seek_detector, '_CONFIRM_SECONDS', 180)
        self.assertEqual(set(), self.detect(flagged=False))
        self.patch(seek_detector, '_CONFIRM_SECONDS', 1.5)
        self.end(process)
        process = self.fio('task', *RANDOM)
        self.assert_found('task')
        self.end(process)
        self.assertEqual({'task'}, self.detect(flagged=False))
        self.patch(seek_detector, '_EXPIRY', 0)
        self.assertEqual(set(), self.detect(flagged=False))
        self.assertIn('task no longer seeks on disk disk', self.log.output)

    def test_threads(self):
        """Those of QEMU's block layer, by each way of asynchronous I/O."""
        for kind in ('threads', 'native', 'io_uring'):
            process = self.start(
                kind,
                'qemu-img', 'bench', '-f', 'raw', '-t', 'none', '-i', kind,
                '-d', '4', '-s', '4096', '-S', str(3 << 20),
                '-c', '100000000', self.node,
            )  # fmt: skip
            # one at a time: who does far less than others is none
            self.assert_found(kind)
            self.end(process)
            self.consumers.clear()
            self.assertEqual(set(), self.detect(flagged=False))

    def test_no_other_tracer_is_disturbed(self):
        other = path('instances', os.path.basename(tempfile.mktemp()))
        os.mkdir(other)
        self.addCleanup(os.rmdir, other)
        event = f'{other}/events/block/block_bio_queue'
        with open(f'{event}/enable', 'w') as stream:
            stream.write('1')
        files = (
            'set_event', 'tracing_on', 'current_tracer', 'buffer_size_kb',
            'trace_options', 'events/block/block_bio_queue/filter',
        )  # fmt: skip
        before = [text(*name) for name in ((file,) for file in files)]
        others = [text(f'{other}/{file}') for file in files]
        self.fio('task', *RANDOM)
        self.assert_found('task')
        self.assertEqual(before, [text(file) for file in files])
        self.assertEqual(others, [text(f'{other}/{file}') for file in files])
        with open(f'{other}/trace', encoding='utf-8') as stream:
            self.assertIn('block_bio_queue', stream.read())

    def test_killed_while_it_traces(self):
        self.fio('task', *RANDOM)
        with subprocess.Popen(
            [sys.executable, '-c', TRACER, self.name, self.disk.number],
            stdout=subprocess.PIPE,
        ) as tracer:
            tracer.stdout.readline()
            tracer.kill()
        self.assertTrue(os.path.exists(path('instances', self.name)))
        seek_detector.clean(self.conf)
        self.assertFalse(os.path.exists(path('instances', self.name)))

    def test_pid_namespace_of_its_own(self):
        self.patch(processes, '_HOST_PID_NAMESPACE', 1)
        error = self.assertRaises(exception.ContentionError, self.detect)
        self.assertIn('with --pid host', str(error))

    def test_what_cannot_be_traced(self):
        self.patch(host_tracefs, '_EVENT', 'no_such_event')
        error = self.assertRaises(exception.ContentionError, self.detect)
        self.assertIn('no_such_event/filter: No such file', str(error))
        self.assertFalse(os.path.exists(path('instances', self.name)))
