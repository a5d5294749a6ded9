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

import fixtures

from nova_diskplacer.host import cgroups
from nova_diskplacer.host import systemd as host_systemd
from nova_diskplacer.io_weights import writer
from tests import configured
from tests import systemd
from tests.testbed.io_weights import test_bfq

UNIT = 'diskplacer-agent.service'
CGROUP = 'weighed'
# seconds; on a busy machine a beat comes late, and starts take their time
PATIENCE = 15
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
from tests.testbed.io_weights import test_unit
test_unit.weigh()
"""


def weigh():
    """Do what is to be tested of an agent."""
    hierarchy = cgroups.hierarchy()
    # systemd has removed those that it found empty
    os.mkdir(hierarchy.path(CGROUP))
    trace = f'/sys/kernel/tracing/instances/{CGROUP}-{os.getpid()}'
    os.mkdir(trace)
    os.rmdir(trace)
    with configured.Options() as configuration:
        # where the unit keeps its state
        configuration.conf.set_override(
            'state_dir', '/run/diskplacer', 'diskplacer_agent'
        )
        setter = writer.WeightWriter(configuration.conf, hierarchy)
        errors = test_bfq.apply(setter, {CGROUP: 7})
    assert not errors, errors
    host_systemd.notify_ready(0.2)
    while True:
        host_systemd.notify_watchdog()
        time.sleep(0.2)


@systemd.needed
class UnitTest(test_bfq.BFQTestCase):
    def start(self, instead=None):
        """Start the unit, with another command where it is told."""
        path = self.useFixture(fixtures.TempDir()).path
        config = os.path.join(path, 'agent.conf')
        pathlib.Path(config).write_text(CONFIG.format(path=path))

        def change(name, value):
            if name == 'ExecStart' and instead is not None:
                return f'{sys.executable} {path}/agent.py'
            if name in ('ExecStart', 'ExecStopPost'):
                command, *args = value.split()
                command = f'{os.path.dirname(sys.executable)}/{command}'
                args[args.index('--config-file') + 1] = config
                return ' '.join([command, *args])
            return CHANGED.get(name, value)

        if instead is not None:
            pathlib.Path(path, 'agent.py').write_text(instead)
        systemd.write_unit(
            path,
            UNIT,
            change,
            f'TimeoutStartSec={STARTS}',
            # systemd takes the controller away where no unit needs it
            'IOAccounting=yes',
        )
        # it has all of the guest's cgroups
        self.systemd = self.useFixture(systemd.Systemd(path, UNIT, home=''))
        self.systemd.wait('active', STARTS)

    def end(self, number):
        """Send the agent a signal; returns when weights were back.

        That is long before another agent is started.
        """
        self.assertEqual(7, test_bfq.weight_of(CGROUP))
        main = self.systemd.show('MainPID')
        deadline = time.monotonic() + STARTS
        self.systemd.enter('kill', f'-{number}', main)
        while test_bfq.weight_of(CGROUP) is not None:
            self.assertLess(time.monotonic(), deadline, self.systemd.log())
            time.sleep(0.2)

    def result(self):
        self.systemd.wait('activating', STARTS)
        return self.systemd.show('Result')

    def test_killed(self):
        self.start(AGENT)
        self.end(signal.SIGKILL)
        self.assertEqual('signal', self.result())

    def test_hangs(self):
        self.start(AGENT)
        self.end(signal.SIGSTOP)
        self.assertEqual('watchdog', self.result())

    def test_agent_says_that_it_is_alive(self):
        self.start()
        begun = time.monotonic()
        while time.monotonic() - begun < 2 * PATIENCE:
            time.sleep(1)
            self.assertEqual(
                'active', self.systemd.state(), self.systemd.log()
            )
        self.assertNotIn('Read-only', self.systemd.log())
