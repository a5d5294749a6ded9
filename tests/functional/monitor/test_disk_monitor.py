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

"""What the kernel and smartctl tell of real devices."""

import os
import subprocess
import time

import fixtures
import numpy
import testtools

from nova_diskplacer import exception
from nova_diskplacer.host import cgroups
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import disk_health
from nova_diskplacer.monitor import disk_monitor
from nova_diskplacer.monitor import smart
from nova_diskplacer.monitor import types
from tests import configured
from tests import loops
from tests import shell

PAIRS = types.Pairs([('task', 'disk')])
IDLE = numpy.zeros(1, bool)


def device_of(node):
    number = os.stat(node).st_rdev
    return Device(
        'disk',
        os.path.basename(node),
        f'{os.major(number)}:{os.minor(number)}',
        rotational=True,
        mbps=100,
    )


@loops.needs_root
class DiskMonitorTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.conf = self.useFixture(configured.Options()).conf
        self.monitor = disk_monitor.DiskMonitor(
            self.conf, cgroups.Hierarchy('/')
        )

    def look(self, *devices):
        return self.monitor.update(
            time.monotonic(), {one.uuid: one for one in devices}, PAIRS, IDLE
        )

    def eventually(self, device, true):
        """Return the first state of a device for which something is true.

        On a busy machine fio does not do at once what it is asked for.
        """
        deadline = time.monotonic() + 180
        while True:
            time.sleep(1.5)
            state = self.look(device)['disk']
            if true(state):
                return state
            self.assertLess(time.monotonic(), deadline, state)

    def fio(self, loop, *arguments):
        process = subprocess.Popen(
            ['fio', '--name=task', f'--filename={loop.device}', '--direct=1',
             '--thread', '--time_based', '--runtime=600', '--size=1g',
             '--output=/dev/null', *arguments]
        )  # fmt: skip
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

    def test_rates(self):
        loop = self.useFixture(loops.LoopDevice())
        device = device_of(loop.device)
        self.fio(loop, '--rw=randwrite', '--bs=64k', '--rate_iops=100')
        self.assertEqual({}, self.look(device))
        state = self.eventually(
            device,
            # others may have a look at any device
            lambda state: 70 <= state.writes <= 130 and not state.reads,
        )
        self.assertTrue(70 <= state.write_bytes / 65536 <= 130, state)
        self.assertEqual((0.0, 0.0), (state.reads, state.read_bytes))
        self.assertGreater(state.latency, 0)
        self.assertAlmostEqual(state.queue, state.writes * state.latency)
        self.assertTrue(0 <= state.busy <= 1, state)

    def test_busy(self):
        loop = self.useFixture(loops.LoopDevice())
        device = device_of(loop.device)
        # so large that the device takes more time for them than fio does
        self.fio(
            loop, '--rw=randread', '--bs=1m', '--ioengine=libaio',
            '--iodepth=8', '--size=256m',
        )  # fmt: skip
        self.look(device)
        state = self.eventually(device, lambda state: state.busy > 0.7)
        self.assertGreater(state.queue, 1)
        self.assertAlmostEqual(state.read_bytes / state.busy, state.score, -3)

    def test_replaced(self):
        """Another device in the place of the first one."""
        loop = self.useFixture(loops.LoopDevice())
        device = device_of(loop.device)
        shell.run(
            'dd', f'if={loop.device}', 'of=/dev/null', 'bs=1M', 'count=64',
            'iflag=direct', 'status=none',
        )  # fmt: skip
        self.look(device)
        self.assertEqual(['disk'], list(self.look(device)))
        with loops.no_others():
            shell.run('losetup', '--detach', loop.device)
            self.assertEqual({}, self.look())
            shell.run_retry('losetup', loop.device, loop.file)
        self.assertEqual({}, self.look(device))
        state = self.look(device)['disk']
        # not the 64 MiB before; others may have a look at any device
        self.assertLess(state.read_bytes * state.seconds, 32 << 20)

    def test_smartctl(self):
        """It has nothing to say of a loop device, and says that."""
        loop = self.useFixture(loops.LoopDevice())
        device = device_of(loop.device)
        error = self.assertRaises(exception.DiskError, smart.read, device.name)
        self.assertIn('Unable to detect device type', str(error))
        watched = disk_health.HealthMonitor(self.conf)
        for _ in range(2):
            watched.poll({'disk': device})
        self.assertEqual({}, watched.warnings.for_disk('disk'))
        self.assertEqual(1, self.log.output.count('cannot be read'))
