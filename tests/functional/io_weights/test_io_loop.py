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

"""The I/O loop on a prepared disk with this kernel's BFQ.

The suite tests/testbed/io_weights has io.cost, and servers.
"""

import os
import pathlib
import subprocess
import threading
import time

import fixtures

from nova_diskplacer.agent import io_loop
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import prepare
from tests import shell
from tests.functional.io_weights import test_writer

# Reads slowly enough to leave something of the machine: 50 MB/s at the most.
READER = """
import mmap, os, sys, time
with open(sys.argv[2], 'w') as stream:
    stream.write(str(os.getpid()))
disk = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
buffer = mmap.mmap(-1, 1 << 20)
while True:
    for place in range(64):
        os.preadv(disk, [buffer], place << 20)
        time.sleep(0.02)
"""


class IOLoopTest(test_writer.BFQTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.root = os.path.join(self.directory, 'disks')
        path = prepare.prepare(
            self.root,
            self.path,
            fstab=os.path.join(self.directory, 'fstab'),
        ).path
        self.addCleanup(shell.run_retry, 'umount', path)
        self.uuid = os.path.basename(path)
        self.disks = [discover.inspect(self.root, self.uuid)]
        self.conf = test_writer.configured(
            os.path.join(self.directory, 'state')
        )
        self.conf.register_opt(test_writer.cfg.StrOpt('host', default='me'))
        self.hierarchy = test_writer.hierarchy()
        self.top = f'diskplacer-test-{os.getpid()}'
        self.add_cgroup(self.top)
        self.hog = self.add_cgroup(f'{self.top}/hog')
        self.quiet = self.add_cgroup(f'{self.top}/quiet')
        self.configure('diskplacer_agent', libvirt_uri='test:///default')
        self.configure(
            'diskplacer_weights', mode='on', scale_mb=1, idle_recovery=2.5
        )
        self.configure(
            'diskplacer_monitor',
            interval=0.2,
            cgroups=[f'{self.top}/*'],
            metrics_port=0,
        )

    def configure(self, group, **values):
        for name, value in values.items():
            self.conf.set_override(name, value, group)
            # groups are shared by all that they are registered with
            self.addCleanup(self.conf.clear_override, name, group)

    def add_cgroup(self, name):
        path = self.hierarchy.path(name)
        os.mkdir(path)
        self.addCleanup(os.rmdir, path)
        return name

    def read_in(self, cgroup):
        """Have a process of a cgroup read the device; returns it."""
        procs = self.hierarchy.path(cgroup, 'cgroup.procs')
        reader = subprocess.Popen(
            [test_writer.sys.executable, '-c', READER, self.path, procs]
        )
        self.addCleanup(reader.wait)
        self.addCleanup(reader.kill)
        return reader

    def start(self):
        """Start the loop; returns it, and a function that ends it."""
        running = io_loop.IOLoop(self.conf, lambda: [], lambda: self.disks)
        stopped = threading.Event()
        thread = threading.Thread(target=running.run, args=(stopped,))
        thread.start()

        def end():
            stopped.set()
            thread.join()

        self.addCleanup(end)
        return running, end

    def weights(self, cgroup):
        """Return the weight of a cgroup on the disk, None by default."""
        path = self.hierarchy.path(cgroup, 'blkio.bfq.weight_device')
        if self.hierarchy.version == 2:
            path = self.hierarchy.path(cgroup, 'io.bfq.weight')
        number = test_writer.device_of(self.path).number
        for line in pathlib.Path(path).read_text().splitlines():
            if line.startswith(f'{number} '):
                return int(line.split()[1])
        return None

    def eventually(self, what):
        deadline = time.monotonic() + 180
        while not what():
            self.assertLess(time.monotonic(), deadline, self.log.output)
            time.sleep(0.05)

    def shown(self, running, cgroup):
        """Return the class of a cgroup, and whether it has read."""
        pairs = running.current_status().pairs
        place = pairs.servers.index(cgroup)
        return pairs.classes[place], pairs.read_bytes[place] > 0

    def test_falls_recovers_and_is_given_back(self):
        running, end = self.start()
        hog = self.read_in(self.hog)
        quiet = self.read_in(self.quiet)
        # both were seen; from now on only one uses the disk
        self.eventually(lambda: (self.weights(self.quiet) or 100) < 100)
        quiet.kill()
        self.eventually(lambda: self.weights(self.hog) == 10)
        self.eventually(lambda: self.weights(self.quiet) in (100, None))
        shown = running.current_status()
        self.assertEqual('bfq', shown.disks[0].controller)
        self.assertEqual('', shown.disks[0].error)
        # on a busy machine it does nothing in some rounds
        self.eventually(lambda: self.shown(running, self.hog) == (1.0, True))
        self.assertEqual({self.uuid}, running.pressure.keys())
        hog.kill()
        self.eventually(lambda: self.weights(self.hog) in (100, None))
        self.read_in(self.hog)
        self.eventually(lambda: (self.weights(self.hog) or 100) < 100)
        end()
        self.assertIsNone(self.weights(self.hog))
        self.assertIsNone(self.weights(self.quiet))

    def test_nothing_honours_weights(self):
        self.schedule('mq-deadline')
        running, _ = self.start()
        self.read_in(self.hog)
        self.eventually(
            lambda: running.current_status() and running.current_status().disks
        )
        (disk,) = running.current_status().disks
        self.assertEqual('', disk.controller)
        self.assertIn('mq-deadline', disk.error)
        self.assertEqual(
            1, self.log.output.count('I/O weights have no effect')
        )
        # and weights are set as soon as something does
        self.schedule('bfq')
        self.eventually(lambda: self.weights(self.hog) == 10)

    def test_dry_run(self):
        self.configure('diskplacer_weights', mode='dry_run')
        running, _ = self.start()
        self.read_in(self.hog)
        self.eventually(
            lambda: (
                running.current_status()
                and 10 in running.current_status().pairs.weights
            )
        )
        self.assertIsNone(self.weights(self.hog))

    def test_off(self):
        self.configure('diskplacer_weights', mode='off')
        test_writer.apply(self.conf, self.path, {self.hog: 7})
        self.assertEqual(7, self.weights(self.hog))
        running, _ = self.start()
        self.eventually(lambda: self.weights(self.hog) is None)
        self.read_in(self.hog)
        self.eventually(
            lambda: (
                running.current_status()
                and running.current_status().pairs.disks
            )
        )
        self.assertEqual([None], running.current_status().pairs.weights)
        self.assertIsNone(running.current_status().pairs.classes[0])

    def test_weights_are_restored_while_the_loop_fails(self):
        running, _ = self.start()
        self.read_in(self.hog)
        self.eventually(lambda: self.weights(self.hog) == 10)
        disks, self.disks = self.disks, [None]
        self.eventually(lambda: self.weights(self.hog) is None)
        self.disks = disks
        self.eventually(lambda: self.weights(self.hog) == 10)
        self.assertEqual(1, self.log.output.count('cannot be measured,'))

    def test_bad_options(self):
        self.configure('diskplacer_weights', curve='steep')
        running, _ = self.start()
        self.eventually(lambda: 'steep' in self.log.output)
        self.assertIn('logarithmic', self.log.output)
        # it is watched all the same
        self.eventually(
            lambda: running.current_status() and running.current_status().disks
        )
        self.assertEqual(1, self.log.output.count('cannot be decided'))
