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

"""Exit statuses of every command, as a shell sees them.

The unit tests of the commands let each have findings.
"""

import os
import subprocess
import sys

from oslotest import base

from nova_diskplacer import exit_status

BIN = os.path.dirname(sys.executable)

# Nobody listens there.
CLOUD = ('--os-auth-type', 'none', '--os-endpoint', 'http://127.0.0.1:1')

# What oslo.upgradecheck ends with where it cannot check.
UNCHECKED = 255

CASES = (
    ('diskplacer-manage profile list', exit_status.OK),
    ('diskplacer-manage profile show nonsense', exit_status.ERROR),
    ('diskplacer-manage --config-file /missing map', exit_status.ERROR),
    ('diskplacer-manage disk audit', exit_status.ERROR),
    (
        'diskplacer-manage sizing advise --memory-gb 2 --data-gb 8',
        exit_status.FINDINGS,
    ),
    ('diskplacer-manage sizing analyse /missing', exit_status.ERROR),
    ('diskplacer-manage sizing load url', exit_status.USAGE),
    ('diskplacer-manage', exit_status.USAGE),
    ('diskplacer-manage map --timeout 0', exit_status.USAGE),
    ('diskplacer-manage disk audit --bogus', exit_status.USAGE),
    ('diskplacer-agent --config-file /missing', exit_status.ERROR),
    ('diskplacer-agent --bogus', exit_status.USAGE),
    ('diskplacer-vendordata --config-file /missing', exit_status.ERROR),
    ('diskplacer-vendordata --bogus', exit_status.USAGE),
    ('diskplacer-status --config-file /missing upgrade check', UNCHECKED),
    ('diskplacer-status upgrade', exit_status.USAGE),
    ('openstack vdisk profile list', exit_status.OK),
    ('openstack vdisk profile show nonsense', exit_status.ERROR),
    ('openstack vdisk list', exit_status.ERROR),
    ('openstack vdisk list --pending soon', exit_status.USAGE),
    ('openstack vdisk disk show', exit_status.USAGE),
    ('openstack vdisk move check server', exit_status.ERROR),
    ('openstack vdisk host empty host --plan', exit_status.ERROR),
    ('openstack vdisk host empty host --live --cold', exit_status.USAGE),
    ('openstack vdisk host empty host --parallel 0', exit_status.USAGE),
    ('openstack vdisk nonsense', exit_status.USAGE),
)


class ExitStatusTest(base.BaseTestCase):
    def test_every_command(self):
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith('OS_')
        }
        for line, expected in CASES:
            name, *words = line.split()
            if name == 'openstack':
                words = [*CLOUD, *words]
            done = subprocess.run(
                [os.path.join(BIN, name), *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
            self.assertEqual(
                expected, done.returncode, f'{line}: {done.stderr}'
            )
            # an error tells what is wrong, not where in the code
            self.assertNotIn('Traceback', done.stderr, line)
