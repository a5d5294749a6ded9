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

"""A hdparm in PATH that says what it is told to say."""

import json
import os
import stat
import sys

import fixtures

# What hdparm 9.65 prints; it ends with the number of the error.
_SCRIPT = """#!{python} -sS
import json, sys
path, arguments = {path!r}, sys.argv[1:]
with open(path + '/calls', 'a') as stream:
    stream.write(' '.join(arguments) + chr(10))
with open(path + '/told') as stream:
    states, status = json.load(stream)
name = arguments[-1].split('/')[-1]
if '-C' in arguments:
    state = states.get(name, 'active/idle')
    print('\\n/dev/%s:\\n drive state is:  %s' % (name, state))
elif status:
    message = ' HDIO_DRIVE_CMD(setidle) failed: Input/output error'
    print(message, file=sys.stderr)
sys.exit(status)
"""


class FakeHdparm(fixtures.Fixture):
    def _setUp(self):
        self.path = self.useFixture(fixtures.TempDir()).path
        self.useFixture(fixtures.EnvironmentVariable('PATH', self.path))
        self.says()
        script = f'{self.path}/hdparm'
        with open(script, 'w') as stream:
            stream.write(_SCRIPT.format(python=sys.executable, path=self.path))
        os.chmod(script, stat.S_IRWXU)

    def says(self, status=0, **states):
        """Set the exit status and the states of devices, or active/idle."""
        with open(f'{self.path}/told', 'w') as stream:
            json.dump([states, status], stream)

    def calls(self, what=''):
        """Return the arguments of the calls that contain something."""
        try:
            with open(f'{self.path}/calls') as stream:
                lines = stream.read().splitlines()
        except FileNotFoundError:
            return []
        return [line for line in lines if what in line]
