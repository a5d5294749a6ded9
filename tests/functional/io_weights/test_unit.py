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

"""The agent's unit, by a systemd of its own: weights never outlive an agent.

What systemd starts sets a weight as the agent does, and says that it is
alive; all else is the unit's.
"""

import os
import pathlib
import signal
import sys
import time
import unittest

import fixtures
import testtools

from nova_diskplacer.host import block_queue
from nova_diskplacer.host import systemd as host_systemd
from tests import loops
from tests import systemd
from tests.functional.io_weights import test_writer

UNIT = 'diskplacer-agent.service'
CGROUP = 'weighed'
# seconds; on a busy machine a beat comes late, and starts take their time
PATIENCE = 10
STARTS = 300
CHANGED = {
    'WatchdogSec': PATIENCE,
    'RestartSec': 1000,
    'TimeoutStopSec': STARTS,
}

# There is neither a message bus nor Placement.
CONFIG = """
[DEFAULT]
transport_url = fake://
[diskplacer]
disk_root = {path}
[diskplacer_monitor]
interval = 0.5
metrics_port = 0
[diskplacer_weights]
mode = on
[placement]
auth_type = none
endpoint_override = http://127.0.0.1:1
"""

AGENT = """
from tests.functional.io_weights import test_unit
test_unit.weigh({state!r}, {device!r})
"""


def weigh(state, device):
    """Do what is to be tested of an agent."""
    # systemd has removed those that it found empty
    os.mkdir(os.path.join(test_writer.hierarchy().root, CGROUP))
    trace = f'/sys/kernel/tracing/instances/{CGROUP}-{os.getpid()}'
    os.mkdir(trace)
    os.rmdir(trace)
    applied = test_writer.apply(
        test_writer.configured(state), device, {CGROUP: 7}
    )
    assert not applied[1], applied[1]
    host_systemd.notify_ready(0.2)
    while True:
        host_systemd.notify_watchdog()
        time.sleep(0.2)


@loops.needs_root
@systemd.needed
@unittest.skipUnless(
    test_writer.hierarchy(), 'no cgroups with block I/O are mounted'
)
class UnitTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.path = self.useFixture(fixtures.TempDir()).path
        self.device = self.useFixture(loops.LoopDevice(1)).device
        name = os.path.basename(self.device)
        before = block_queue.read(name).values['scheduler']
        self.addCleanup(block_queue.write, name, 'scheduler', before)
        block_queue.write(name, 'scheduler', 'bfq')
        self.number = test_writer.device_of(self.device).number
        self.weights = os.path.join(
            test_writer.hierarchy().root, systemd.HOME, CGROUP
        )

    def start_weighing(self):
        """Start the unit with what does as an agent does."""
        path = os.path.join(self.path, 'agent.py')
        pathlib.Path(path).write_text(
            # where the unit keeps its state
            AGENT.format(state='/run/diskplacer', device=self.device)
        )
        self.start(f'{sys.executable} {path}')

    def start(self, instead=None):
        """Start the unit, with another command where it is told."""
        config = os.path.join(self.path, 'agent.conf')
        pathlib.Path(config).write_text(CONFIG.format(path=self.path))

        def change(name, value):
            if name == 'ExecStart' and instead is not None:
                return instead
            if name in ('ExecStart', 'ExecStopPost'):
                command, *args = value.split()
                command = f'{os.path.dirname(sys.executable)}/{command}'
                args[args.index('--config-file') + 1] = config
                return ' '.join([command, *args])
            return CHANGED.get(name, value)

        systemd.write_unit(
            self.path, UNIT, change, f'TimeoutStartSec={STARTS}'
        )
        self.systemd = self.useFixture(systemd.Systemd(self.path, UNIT))
        self.systemd.wait('active', STARTS)

    def in_force(self):
        names = ('blkio.bfq.weight_device', 'io.bfq.weight')
        for name in names:
            path = pathlib.Path(self.weights, name)
            if path.exists():
                return dict(
                    line.split() for line in path.read_text().splitlines()
                ).get(self.number)
        raise AssertionError(f'{self.weights} has none of {names}')

    def end(self, number):
        """Send the agent a signal; returns when weights were back.

        That is long before another agent is started.
        """
        self.assertEqual('7', self.in_force())
        main = self.systemd.show('MainPID')
        deadline = time.monotonic() + STARTS
        self.systemd.enter('kill', f'-{number}', main)
        while self.in_force() is not None:
            self.assertLess(time.monotonic(), deadline, self.systemd.log())
            time.sleep(0.05)

    def result(self):
        self.systemd.wait('activating', STARTS)
        return self.systemd.show('Result')

    def test_killed(self):
        self.start_weighing()
        self.end(signal.SIGKILL)
        self.assertEqual('signal', self.result())

    def test_hangs(self):
        self.start_weighing()
        self.end(signal.SIGSTOP)
        self.assertEqual('watchdog', self.result())

    def test_agent_says_that_it_is_alive(self):
        self.start()
        begun = time.monotonic()
        while time.monotonic() - begun < 2 * PATIENCE:
            time.sleep(0.5)
            self.assertEqual(
                'active', self.systemd.state(), self.systemd.log()
            )
        self.assertNotIn('Read-only', self.systemd.log())
