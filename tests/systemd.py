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

"""A systemd of a test's own."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

import fixtures

from tests import cgroups

TOP = pathlib.Path(__file__).parents[1]
SYSTEMD = '/usr/lib/systemd/systemd'
# The cgroup that one is in, unless it is told otherwise.
HOME = cgroups.PREFIX

# It has a /sys/fs/cgroup and a /run of its own, where hierarchies of cgroups
# begin with the cgroup that it is in.
BEGIN = """
mount --make-rprivate /
hierarchies=$(grep -E ' /sys/fs/cgroup[^ ]* cgroup2? ' /proc/self/mounts |
    grep -v cpuset)
mount -t tmpfs none /sys/fs/cgroup
while read -r name path kind options rest; do
    mkdir -p "$path"
    [ "$kind" = cgroup2 ] && options=rw
    mount -t "$kind" -o "${options//relatime/rw}" none "$path"
done <<< "$hierarchies"
mountpoint -q /sys/kernel/tracing ||
    mount -t tracefs none /sys/kernel/tracing
mount -t tmpfs none /run
# a container's manager does it: credentials get to units that way
mount --make-rshared /
mkdir -p /run/systemd/system
find "$1" -name '*.service' -o -name '*.socket' |
    xargs cp -t /run/systemd/system
exec env -i container=oci PATH="$PATH" /usr/lib/systemd/systemd --system \
    --unit="$2" --show-status=no --log-target=null
"""

needed = unittest.skipUnless(
    os.path.exists(SYSTEMD) and shutil.which('nsenter'), 'there is no systemd'
)


def write_unit(directory, name, change, *more):
    """Write a unit of ours to a directory, as tests can start it.

    What it prints goes to ``log`` there.

    :param name: of the unit, and of its file.
    :param change: is called with the name and the value of each line of the
        service, and returns the value to write; None leaves the line out.
    :param more: lines of the service to add.
    """
    text = pathlib.Path(TOP, 'etc/systemd', name).read_text()
    _, rest = text.split('[Service]')
    lines = [
        # nothing else of this machine is to be started
        '[Unit]',
        'DefaultDependencies=no',
        '[Service]',
        f'WorkingDirectory={TOP}',
        f'Environment=PYTHONPATH={TOP}',
        # they may be below /tmp, which the unit has one of its own of
        f'BindPaths={TOP} {sys.prefix} {directory}',
        f'StandardOutput=append:{directory}/log',
        f'StandardError=append:{directory}/log',
        *more,
    ]
    for line in rest.partition('[Install]')[0].splitlines():
        key, separator, value = line.partition('=')
        if separator and not key.startswith('#'):
            value = change(key, value)
            if value is not None:
                lines.append(f'{key}={value}')
    pathlib.Path(directory, name).write_text('\n'.join(lines))


class Systemd(fixtures.Fixture):
    """A systemd in namespaces and in cgroups of its own.

    :param directory: has the units, of which ``unit`` is started.
    :param home: name of the cgroup to make, in which it is; '' if it is to
        have them all.
    """

    def __init__(self, directory, unit, home=HOME):
        super().__init__()
        self._directory = directory
        self._unit = unit
        self._home = home

    def _setUp(self):
        with open('/proc/self/mounts') as mounts:
            fields = [line.split() for line in mounts]
        self._homes = [
            os.path.join(path, self._home)
            for _, path, kind, options, *_ in fields
            if kind in ('cgroup', 'cgroup2')
            and path.startswith('/sys/fs/cgroup')
            and 'cpuset' not in options
        ]
        self.addCleanup(self._remove_cgroups)
        for path in self._homes if self._home else ():
            os.mkdir(path)
        entering = ''.join(
            f'echo $$ > {path}/cgroup.procs\n' for path in self._homes
        )
        outer = subprocess.Popen(
            [
                'bash', '-ec', entering + 'exec unshare --pid --fork --mount '
                '--uts --ipc --cgroup --mount-proc --kill-child bash -ec "$@"',
                'systemd', BEGIN, 'systemd', self._directory, self._unit,
            ],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self.addCleanup(outer.wait)
        self.addCleanup(outer.kill)
        self._outer = outer.pid

    def _remove_cgroups(self):
        deadline = time.monotonic() + 120
        for home in self._homes:
            while found := self._left(home):
                for path in found:
                    # its processes are just ending, and may make some yet
                    with contextlib.suppress(OSError):
                        os.rmdir(path)
                if time.monotonic() > deadline:
                    break
                time.sleep(0.05)

    def _left(self, home):
        """Return the cgroups that are to be removed, inner ones first."""
        found = [path for path, _, _ in os.walk(home, topdown=False)]
        return found if self._home else found[:-1]

    def enter(self, *command):
        """Run a command beside it; returns what that prints.

        '' while it is not there yet.
        """
        inner = self._inner()
        if not inner:
            return ''
        done = subprocess.run(
            ['nsenter', '-t', inner, '-p', '-m', *command],
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def _inner(self):
        """Return its process; '' while it is not there yet."""
        children = f'/proc/{self._outer}/task/{self._outer}/children'
        return pathlib.Path(children).read_text().strip()

    def path(self, path):
        """Return where a file that it sees is to be found."""
        return f'/proc/{self._inner()}/root{path}'

    def state(self):
        """Return the state of the unit; '' while that cannot be asked."""
        return self.enter('systemctl', 'is-active', self._unit)

    def wait(self, state, seconds):
        """Wait until the unit has a state; a failure shows the log."""
        deadline = time.monotonic() + seconds
        while (found := self.state()) != state:
            if time.monotonic() > deadline:
                raise AssertionError(f'{found}, not {state}: {self.log()}')
            time.sleep(0.05)

    def log(self):
        """Return what is in ``log`` in the directory; '' if nothing."""
        try:
            return pathlib.Path(self._directory, 'log').read_text()
        except FileNotFoundError:
            return ''

    def show(self, name):
        """Return a property of the unit."""
        return self.enter(
            'systemctl', 'show', '-p', name, '--value', self._unit
        )
