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

"""A machine in a directory: systemd-nspawn boots it."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import fixtures

from tests.guide import terminal

TOP = pathlib.Path(__file__).parents[2]

NAME = 'compute-1'

#: seconds until systemd has started
PATIENCE = 300

_PATHS = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'


class Machine(fixtures.Fixture):
    """A machine of tools/guide/machine.sh, which has no network.

    :param kind: the script's first argument.
    :param environment: variables of all commands.
    """

    def __init__(self, kind, **environment):
        super().__init__()
        self._kind = kind
        self._environment = {
            'DEBIAN_FRONTEND': 'noninteractive',
            'HOME': '/root',
            'LANG': 'C.UTF-8',
            'PATH': _PATHS,
            **environment,
        }

    def _setUp(self):
        self.root = self._make()
        self._log = (self.root / '../console').open('w+')
        self.addCleanup(self._log.close)
        self._boot()
        deadline = time.monotonic() + PATIENCE
        while not self._is_up():
            if time.monotonic() > deadline:
                self._log.seek(0)
                raise AssertionError(f'no systemd: {self._log.read()}')
            time.sleep(1)

    def _make(self):
        """Return the directory of a new machine."""
        top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        script = TOP / 'tools/guide/machine.sh'
        # standard output is the test runner's
        subprocess.run(
            [script, self._kind, top / 'root'], check=True, stdout=sys.stderr
        )
        return top / 'root'

    def _is_up(self):
        try:
            status, _ = self.run('systemctl is-active multi-user.target')
        except LookupError:
            # systemd-nspawn has just begun
            status = self._outer.poll() or 1
        return status == 0

    def _boot(self):
        self._outer = subprocess.Popen(
            [
                'systemd-nspawn',
                '--quiet',
                '--boot',
                f'--directory={self.root}',
                f'--hostname={NAME}',
                '--register=no',
                '--keep-unit',
                '--private-network',
                '--console=read-only',
            ],
            env={'PATH': _PATHS, 'SYSTEMD_NSPAWN_UNIFIED_HIERARCHY': '1'},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        self.addCleanup(self._outer.wait)
        self.addCleanup(self._kill)

    def _kill(self):
        """End the machine as a power failure does: a stop takes minutes."""
        try:
            os.kill(self._inner(), signal.SIGKILL)
        except LookupError:
            self._outer.kill()

    def _inner(self):
        """Return the machine's first process."""
        outer = self._outer.pid
        children = pathlib.Path(f'/proc/{outer}/task/{outer}/children')
        found = children.read_text().split()
        if not found:
            raise LookupError('the machine is off')
        return int(found[0])

    def run(self, script, answers=()):
        """Run a script of bash in /root, as root.

        :param answers: what is typed when commands ask, line by line.
        :returns: (exit status, what it printed).
        """
        return terminal.run(
            [
                'nsenter',
                f'--target={self._inner()}',
                '--all',
                '--root',
                '--wd',
                'bash',
                '-c',
                # it is this machine until systemd-nspawn has changed the root
                f'[ $(uname -n) = {NAME} ] && cd /root || exit\n{script}',
            ],
            answers,
            env=self._environment,
        )

    def add_disk(self, device, name):
        """Have the machine see a device of this one by a name.

        :param device: path of its node.
        """
        number = os.stat(device).st_rdev
        status, printed = self.run(
            f'mknod -m 660 {device} b {os.major(number)} {os.minor(number)} &&'
            f' ln -s {device} {name}'
        )
        if status:
            raise AssertionError(printed)
