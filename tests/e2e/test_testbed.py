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

"""The suites of tests/testbed, those with the same disks in one guest."""

import json
import os
import signal
import subprocess
import sys
import time

import testtools

from tests.e2e import testbed_suites
from tools.testbed import Disk
from tools.testbed import Testbed
from tools.testbed import __main__ as command

# How often throughput is measured, until that is right: not while this machine
# has stalled.
MEASURINGS = 10


class TestSuites(testtools.TestCase):
    """Has a test for the suites of each guest."""


testbed_suites.add_tests(TestSuites, command.groups())


class TestTestbed(testtools.TestCase):
    def test_from_outside(self):
        with Testbed([Disk(gib=1, mbps=20)]) as bed:
            failing = bed.run('sh', '-c', 'echo no >&2; exit 7', check=False)
            self.assertEqual((7, '', 'no\n'), tuple(vars(failing).values()))
            self.assertThrottled(bed, 20)
            bed.throttle(0, mbps=5)
            self.assertThrottled(bed, 5)
            process = bed.pid
        self.assertFalse(os.path.exists(f'/proc/{process}'))

    def assertThrottled(self, bed, mbps):
        for _ in range(MEASURINGS):
            printed = bed.run(
                'fio', '--name=read', f'--filename={bed.device(0)}',
                '--rw=read', '--bs=256k', '--iodepth=4', '--direct=1',
                '--ioengine=libaio', '--time_based', '--ramp_time=3',
                '--runtime=5', '--output-format=json',
            ).out  # fmt: skip
            got = json.loads(printed)['jobs'][0]['read']['bw_bytes'] / 1e6
            if 0.9 < got / mbps < 1.1:
                return
        self.fail(f'measured {MEASURINGS} times, and still {got} MB/s')

    def test_killed(self):
        """Whoever runs a guest is killed: the guest goes too."""
        runner = subprocess.Popen(
            [sys.executable, '-m', 'tools.testbed', 'run', 'sleep', '999'],
            cwd=testbed_suites.TOP,
        )
        self.addCleanup(runner.wait)
        self.addCleanup(runner.kill)
        deadline = time.monotonic() + 900
        while not (children := self.guests(runner.pid)):
            self.assertIsNone(runner.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        runner.send_signal(signal.SIGKILL)
        runner.wait()
        deadline = time.monotonic() + 180
        while any(os.path.exists(f'/proc/{one}') for one in children):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)

    def guests(self, pid):
        listed = subprocess.run(
            ['pgrep', '--parent', str(pid), '--full', '^qemu-system'],
            capture_output=True,
            text=True,
        )
        return listed.stdout.split()
