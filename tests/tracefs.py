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

import contextlib
import fcntl
import os

import fixtures

from tests import shell

PATH = '/sys/kernel/tracing'

# What tests have mounted has this for its source.
_OURS = 'diskplacer-tests'


class Tracefs(fixtures.Fixture):
    """Has tracefs mounted; the last test of all that use it unmounts it."""

    def _setUp(self):
        users = os.open(os.path.dirname(PATH), os.O_RDONLY)
        self.addCleanup(os.close, users)
        fcntl.flock(users, fcntl.LOCK_SH)
        # where two tests begin at once it is mounted already
        with contextlib.suppress(AssertionError):
            shell.run('mount', '-t', 'tracefs', _OURS, PATH)
        os.stat(os.path.join(PATH, 'instances'))
        self.addCleanup(self._leave, users)

    def _leave(self, users):
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        with open('/proc/self/mounts', encoding='utf-8') as mounts:
            if any(line.startswith(f'{_OURS} {PATH} ') for line in mounts):
                # agents of other tests may be tracing just now
                shell.run_retry('umount', PATH)
