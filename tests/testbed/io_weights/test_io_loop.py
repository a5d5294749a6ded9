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

"""The I/O loop of the agent, on a prepared disk with this kernel's BFQ."""

import os
import subprocess
import sys
import threading
import time

import fixtures
from oslo_config import cfg

from nova_diskplacer.agent import io_control
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import prepare
from tests import shell
from tests.testbed.io_weights import test_bfq

weight_of = test_bfq.weight_of

# 5 MB/s at the most: the agent needs the guest's processors as well
READER = """
import mmap, os, sys, time
with open(sys.argv[2], 'w') as stream:
    stream.write(str(os.getpid()))
disk = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
buffer = mmap.mmap(-1, 1 << 20)
while True:
    for place in range(64):
        os.preadv(disk, [buffer], place << 20)
        time.sleep(0.2)
"""


class IOLoopTest(test_bfq.BFQTestCase):
    def setUp(self):
        super().setUp()
        directory = self.useFixture(fixtures.TempDir()).path
        root = os.path.join(directory, 'disks')
        disk = prepare.prepare(
            root, test_bfq.DISK, wipe=True, fstab=f'{directory}/fstab'
        )
        self.addCleanup(shell.run, 'wipefs', '--all', test_bfq.DISK)
        self.addCleanup(shell.run_retry, 'umount', disk.path)
        self.uuid = disk.uuid
        self.disks = [discover.inspect(root, disk.uuid)]
        top = self.cgroup().name
        self.hog = self.cgroup(f'{top}/hog')
        self.quiet = self.cgroup(f'{top}/quiet')
        self.conf.register_opt(cfg.StrOpt('host', default='me'))
        self.configure('diskplacer', disk_root=root)
        self.configure('diskplacer_agent', libvirt_uri='test:///default')
        self.configure(
            'diskplacer_weights',
            mode='on',
            scale_mb=1,
            idle_recovery=5.0,
            use_window=2.0,
        )
        self.configure(
            'diskplacer_monitor',
            interval=0.5,
            cgroups=[f'{top}/*'],
            metrics_port=0,
        )

    def configure(self, group, **values):
        for name, value in values.items():
            self.conf.set_override(name, value, group)

    def read_in(self, cgroup):
        """Have a process of a cgroup read the disk; returns it."""
        reader = subprocess.Popen(
            [sys.executable, '-I', '-c', READER, test_bfq.DISK,
             f'{cgroup.path}/cgroup.procs']
        )  # fmt: skip
        self.addCleanup(reader.wait)
        self.addCleanup(reader.kill)
        return reader

    def start(self):
        """Start the loop; returns it, and a function that ends it."""
        running = io_control.IOControl(
            self.conf, list, lambda: self.disks, dict
        )
        stopped = threading.Event()
        thread = threading.Thread(target=running.run, args=(stopped,))
        thread.start()

        def end():
            stopped.set()
            thread.join()

        self.addCleanup(end)
        return running, end

    def eventually(self, what):
        deadline = time.monotonic() + 300
        while not what():
            self.assertLess(time.monotonic(), deadline, self.log.output)
            time.sleep(0.2)

    def is_heavy(self, running, cgroup):
        """Return whether a cgroup reads, and is in the lowest class."""
        pairs = running.current_status().pairs
        place = pairs.servers.index(cgroup.name)
        return pairs.classes[place] == 1.0 and pairs.read_bytes[place] > 0

    def test_falls_recovers_and_is_given_back(self):
        hog, quiet = self.hog.name, self.quiet.name
        running, end = self.start()
        heavy = self.read_in(self.hog)
        light = self.read_in(self.quiet)
        # both were seen; from now on only one uses the disk
        self.eventually(lambda: (weight_of(quiet) or 100) < 100)
        light.kill()
        self.eventually(lambda: weight_of(hog) == 10)
        self.eventually(lambda: weight_of(quiet) in (100, None))
        (shown,) = running.current_status().disks
        self.assertEqual(('bfq', ''), (shown.controller, shown.error))
        # on a busy machine it does nothing in some rounds
        self.eventually(lambda: self.is_heavy(running, self.hog))
        self.assertEqual({self.uuid}, running.disk_activity().pressure.keys())
        heavy.kill()
        self.eventually(lambda: weight_of(hog) in (100, None))
        self.read_in(self.hog)
        self.eventually(lambda: (weight_of(hog) or 100) < 100)
        end()
        self.assertIsNone(weight_of(hog))
        self.assertIsNone(weight_of(quiet))

    def test_nothing_honours_weights(self):
        self.configure('diskplacer_agent', queue_tuning='off')
        self.schedule('mq-deadline')
        running, _ = self.start()
        self.read_in(self.hog)
        self.eventually(
            lambda: running.current_status() and running.current_status().disks
        )
        (disk,) = running.current_status().disks
        self.assertEqual('', disk.controller)
        self.assertIn('is mq-deadline, and I/O weights need', disk.error)
        self.assertEqual(
            1, self.log.output.count('I/O weights have no effect')
        )
        # and weights are set as soon as something does
        self.schedule('bfq')
        self.eventually(lambda: weight_of(self.hog.name) == 10)
