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

"""Exit statuses of every command.

Each command line runs in a forked process, which has loaded the command, and
one of each command in a process of its own, as a shell starts it. The unit
tests of the commands let each have findings.
"""

import os
import subprocess
import sys

from nova_diskplacer import exit_status
from tests.functional.commands import base

BIN = os.path.dirname(sys.executable)

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
    ('diskplacer-status --config-file /missing upgrade check', base.UNCHECKED),
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


def words(line):
    """Return the arguments of a command line."""
    name, *given = line.split()
    return [*base.CLOUD, *given] if name == 'openstack' else given


class ExitStatusTest(base.CommandTestCase):
    def judge(self, line, expected, status, said):
        self.assertEqual(expected, status, f'{line}: {said}')
        # an error tells what is wrong, not where in the code
        self.assertNotIn('Traceback', said, line)

    def test_every_command(self):
        for line, expected in CASES:
            name = line.split()[0]
            if name != 'openstack':
                done = self.run_command(
                    self.mains[name], words(line), argv=name
                )
                self.judge(line, expected, *done)

    def test_openstack(self):
        def work():
            main = base.openstack()
            return [
                (line, expected, *self.run_command(main, words(line)))
                for line, expected in CASES
                if line.startswith('openstack ')
            ]

        for told in self.in_process(work):
            self.judge(*told)

    def test_as_a_shell_starts_them(self):
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith('OS_')
        }
        # one line of each, whose status is the command's own
        chosen = {
            line.split()[0]: (line, one)
            for line, one in CASES
            if one != exit_status.USAGE
        }
        for name, (line, expected) in chosen.items():
            done = subprocess.run(
                [os.path.join(BIN, name), *words(line)],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
            self.judge(line, expected, done.returncode, done.stderr)
