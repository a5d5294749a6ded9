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

"""The units that install-units writes, under a systemd of their own."""

import pathlib
import sys

from tests import loops
from tests import systemd
from tests.packaging import base

# Neither the message bus nor Placement has to answer.
CONFIG = """
[DEFAULT]
transport_url = rabbit://guest:guest@127.0.0.1:1/
[diskplacer]
disk_root = {directory}/disks
[diskplacer_monitor]
metrics_port = 0
[placement]
auth_type = none
endpoint_override = http://127.0.0.1:1
"""

# The units stay as they are otherwise: nothing else of this machine starts,
# and they see the directory of the test, which is below /tmp.
MORE = """
[Unit]
DefaultDependencies=no
[Service]
BindPaths={directory} {programs} {python}
StandardOutput=append:{directory}/units/log
StandardError=append:{directory}/units/log
"""

# Seconds that a start may take on a busy machine.
PATIENCE = 200


@loops.needs_root
@systemd.needed
class UnitsTest(base.BuildTestCase):
    def test_agent_of_a_virtual_environment(self):
        programs = base.make_environment('agent')
        units = self.dir / 'units'
        units.mkdir()
        output = base.run(
            programs / 'diskplacer-manage',
            'install-units',
            'diskplacer-agent',
            '--directory',
            units,
        )
        self.assertIn('systemctl enable --now diskplacer-agent', output)
        (self.dir / 'nova-diskplacer.conf').write_text(
            CONFIG.format(directory=self.dir)
        )
        unit = units / 'diskplacer-agent.service'
        text = unit.read_text().replace('/etc/nova-diskplacer', str(self.dir))
        unit.write_text(
            text
            + MORE.format(
                directory=self.dir,
                programs=programs.parent,
                python=sys.base_prefix,
            )
        )
        started = self.useFixture(systemd.Systemd(units, unit.name))
        started.wait('active', PATIENCE)
        program = pathlib.Path(started.show('ExecStart').split()[1])
        self.assertEqual(f'path={programs}/diskplacer-agent', str(program))
