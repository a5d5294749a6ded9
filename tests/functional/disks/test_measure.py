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

"""Disks are measured by fio, and nothing is left of that."""

import json
import os
import signal
import subprocess
import sys
import time

from nova_diskplacer.disks import identity
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.host import block_queue
from tests.functional.disks import base


class MeasureTest(base.VDiskTestCase):
    def setUp(self):
        super().setUp()
        self.uuid = os.path.basename(self.disk)
        self.config = os.path.join(self.directory, 'nova.conf')
        with open(self.config, 'w') as stream:
            stream.write(
                f'[diskplacer]\ndisk_root = {self.root}\n'
                f'[diskplacer_agent]\nstate_dir = {self.directory}/state\n'
            )
        self.before = self.look().free_bytes
        device = os.path.basename(self.device)
        queue = block_queue.read(device)
        changes = {
            'scheduler': queue.schedulers[-1],
            'nr_requests': '99',
            'nomerges': '2',
        }
        # another test may get the device
        for setting in reversed(block_queue.SETTINGS):
            self.addCleanup(
                block_queue.write, device, setting, queue.values[setting]
            )
        for setting, value in changes.items():
            block_queue.write(device, setting, value)
        self.queue = self.queue_settings()

    def start(self, *arguments):
        process = subprocess.Popen(
            [
                sys.executable, '-c',
                'import sys; from nova_diskplacer.cmd import manage;'
                'sys.exit(manage.main())',
                '--config-file', self.config, 'disk', 'measure', self.uuid,
                '--size', '64', *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def queue_settings(self):
        return block_queue.read(os.path.basename(self.device)).values

    def assertQueueRestored(self):
        self.assertEqual(self.queue, self.queue_settings())

    def loads(self, process):
        """Return the processes that load the disk for another one."""
        found = []
        for pid in filter(str.isdecimal, os.listdir('/proc')):
            try:
                with open(f'/proc/{pid}/cmdline') as stream:
                    arguments = stream.read().split('\0')
            except OSError:
                continue
            if any(
                one.startswith(f'--filename=/proc/{process.pid}/')
                for one in arguments
            ):
                found.append(pid)
        return found

    def wait_for(self, condition):
        deadline = time.monotonic() + 180
        while not condition():
            self.assertLess(time.monotonic(), deadline, 'it never comes')
            time.sleep(0.05)

    def assertNothingLeft(self, files=(identity.FILE, 'vdisks')):
        self.assertEqual(set(files), set(os.listdir(self.disk)))
        # XFS frees blocks of a file that is gone a little later
        self.wait_for(
            lambda: abs(self.before - self.look().free_bytes) < base.MIB
        )

    def test_measure(self):
        process = self.start('--seconds', '1', '--format', 'json')
        printed, said = process.communicate()
        self.assertEqual(0, process.returncode, said)
        (found,) = json.loads(printed)
        model = io_model.load(self.root, self.uuid)
        self.assertEqual(model.mbps, found['mbps'])
        self.assertEqual(
            identity.Identity(self.uuid, self.look().medium, model.mbps),
            identity.read(self.disk),
        )
        for name in io_model.COEFFICIENTS:
            self.assertEqual(getattr(model, name), found[name])
            self.assertGreater(found[name], 1)
        # many at a time are no slower than one, but for a machine that has
        # something else to do meanwhile
        self.assertGreater(model.rrandiops, 0.05e6 / model.latency)
        self.assertIn('7 of 7, random writes', said)
        self.assertEqual('none', model.scheduler)
        self.assertQueueRestored()
        self.assertNothingLeft((identity.FILE, io_model.FILE, 'vdisks'))

    def test_it_ends_before_its_time(self):
        for number, status in (
            (signal.SIGINT, 130),
            (signal.SIGTERM, 128 + signal.SIGTERM),
            (signal.SIGKILL, -signal.SIGKILL),
        ):
            process = self.start('--seconds', '60')
            self.wait_for(lambda: self.queue_settings()['nomerges'] == '1')
            self.wait_for(lambda process=process: self.loads(process))
            # the space is taken by now
            self.assertGreater(
                self.before - self.look().free_bytes, 60 * base.MIB
            )
            if number == signal.SIGTERM:
                self._check_another()
            process.send_signal(number)
            process.communicate()
            self.assertEqual(status, process.returncode)
            self.wait_for(lambda process=process: not self.loads(process))
            self.assertNothingLeft()
            self.assertIsNone(io_model.load(self.root, self.uuid))
            if number != signal.SIGKILL:
                self.assertQueueRestored()
        # the next one knows what was there before the killed one
        self.assertEqual('1', self.queue_settings()['nomerges'])
        self.start('--seconds', '1').communicate()
        self.assertQueueRestored()

    def _check_another(self):
        """See that nobody else can measure the disk meanwhile."""
        second = self.start('--seconds', '1')
        _, said = second.communicate()
        self.assertEqual(1, second.returncode)
        self.assertIn('is being measured already', said)

    def test_no_room(self):
        process = self.start('--size', '4096')
        _, said = process.communicate()
        self.assertEqual(1, process.returncode)
        self.assertRegex(said, r'has \d+ MiB free')
        self.assertNothingLeft()
