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

"""The sweep of I/O schedulers on a real disk."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from tests.functional.disks import base
from tools import io_sweep

SCRIPT = pathlib.Path(io_sweep.__file__)


class SweepTestCase(base.VDiskTestCase):
    def setUp(self):
        super().setUp()
        block = pathlib.Path('/sys/block') / os.path.basename(self.device)
        self.queue = io_sweep.Queue(block)
        self.addCleanup(self.queue.set, self.queue.get())
        self.assertTrue(self.queue.set('none'))
        self.before = sorted(os.listdir(self.disk))

    def start(self, *options):
        process = subprocess.Popen(
            [
                sys.executable, '-I', str(SCRIPT), self.disk, '--mib=2',
                '--jobs=3', '--repetitions=2', *options,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def assertAsBefore(self):
        self.assertEqual('none', self.queue.get())
        self.assertEqual(self.before, sorted(os.listdir(self.disk)))

    def test_sweep(self):
        process = self.start('--scheduler', 'none', 'mq-deadline')
        printed, said = process.communicate()
        self.assertEqual(0, process.returncode, said)
        self.assertIn('repetition 2 of 2', said)
        found = json.loads(printed)
        self.assertEqual(os.path.basename(self.device), found['disk'])
        self.assertEqual(['none', 'mq-deadline'], found['schedulers'])
        # 3 engines, 2 operations
        self.assertEqual(6 * 2 * 2, len(found['samples']))
        for sample in found['samples']:
            self.assertEqual(sample['jobs'], len(sample['rates']))
            self.assertGreater(sample['mbps'], 0)
        self.assertAsBefore()

    def wait_for(self, process, condition):
        deadline = time.monotonic() + 180
        while not condition():
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_ended(self):
        process = self.start('--repetitions=1000')
        self.wait_for(process, lambda: self.queue.get() != 'none')
        process.send_signal(signal.SIGTERM)
        process.communicate()
        self.assertEqual(128 + signal.SIGTERM, process.returncode)
        self.assertAsBefore()

    def test_somebody_else_changes_the_scheduler(self):
        process = self.start('--repetitions=1000', '--scheduler', 'none')
        # it has seen by now that there is that scheduler
        self.wait_for(
            process, lambda: list(pathlib.Path(self.disk).glob('*/0'))
        )
        while process.poll() is None:
            self.queue.set('mq-deadline')
            time.sleep(0.01)
        _, said = process.communicate()
        self.assertEqual(1, process.returncode)
        self.assertIn('somebody changed the scheduler from none to', said)
