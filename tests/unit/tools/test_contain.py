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

import errno
import glob
import os
import pathlib
import random
import signal
import subprocess
import time

import fixtures
import testtools

from tests import loops

TOP = pathlib.Path(__file__).parents[3]
PLACE = pathlib.Path('/var/tmp')
# what an ended run may take to be gone, in seconds, on a busy machine
PATIENCE = 60


class ContainTest(testtools.TestCase):
    """What ``contain`` of tools/lib/contain.sh leaves."""

    def setUp(self):
        super().setUp()
        # tells processes of this test from others
        self.seconds = str(random.randint(10**8, 10**9))
        self.addCleanup(
            subprocess.run, ['pkill', '-KILL', '-xf', f'sleep {self.seconds}']
        )
        self.env = {**os.environ}
        self.env.pop('DISKPLACER_RUN', None)

    def start(self, script, before=''):
        """Start a command with processes that are left; returns its run."""
        shell = subprocess.Popen(
            [
                # one that ignores signals hands that on
                'env', '--default-signal', 'bash', '-c',
                f'. tools/lib/contain.sh\n{before}\ncontain bash -c "$0"',
                f'set -e; sleep {self.seconds} & '
                f'setsid sleep {self.seconds} & {script}',
            ],
            cwd=TOP,
            env=self.env,
            stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self.addCleanup(shell.stdout.close)
        self.addCleanup(shell.wait)
        self.addCleanup(shell.kill)
        return shell

    def processes(self):
        """Return the IDs of the processes that are left."""
        command = ['pgrep', '-xf', f'sleep {self.seconds}']
        return subprocess.run(command, capture_output=True).stdout.split()

    def gone(self, look, patience=PATIENCE):
        """Check that nothing is found any more."""
        deadline = time.monotonic() + patience
        while found := look():
            self.assertLess(time.monotonic(), deadline, found)
            time.sleep(0.1)

    def mounted(self, device):
        """Tell whether a device is mounted in any namespace."""
        try:
            os.close(os.open(device, os.O_RDWR | os.O_EXCL))
        except OSError as error:
            self.assertEqual(errno.EBUSY, error.errno)
            return True
        return False

    def end(self, shell, number):
        """End a run, and check that it ends by the signal."""
        shell.send_signal(number)
        self.assertEqual(128 + number, shell.wait(PATIENCE))
        self.assertEqual([], self.processes())

    @loops.needs_root
    def test_a_command_that_ends(self):
        shell = self.start(
            'touch /tmp/a /var/tmp/b; ls /var/tmp; pwd; '
            'echo $DISKPLACER_RUN; exit 3'
        )
        self.assertEqual(3, shell.wait(PATIENCE))
        seen, where, run = shell.stdout.read().splitlines()
        self.assertEqual(('b', str(TOP)), (seen, where))
        self.assertEqual([], self.processes())
        self.assertFalse((PLACE / run).exists())
        self.assertFalse(os.path.exists('/tmp/a'))

    @loops.needs_root
    def test_a_checkout_below_tmp(self):
        kept = pathlib.Path('/tmp', f'kept-{self.seconds}', 'in')
        kept.mkdir(parents=True)
        self.addCleanup(kept.parent.rmdir)
        self.addCleanup(kept.rmdir)
        shell = self.start(
            f'ls /tmp; touch {kept}/file', f'CONTAIN_KEEP=({kept})'
        )
        self.assertEqual(0, shell.wait(PATIENCE))
        self.assertIn(kept.parent.name, shell.stdout.read())
        (kept / 'file').unlink()

    @loops.needs_root
    def test_ended(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            shell = self.start(
                'trap "" TERM INT HUP; truncate --size 8M /tmp/disk; '
                'losetup --find --show /tmp/disk; mkfs.ext4 -q /tmp/disk; '
                'mkdir /tmp/mounted; mount /tmp/disk /tmp/mounted; '
                'truncate --size 1M /tmp/mounted/vdisk; '
                'losetup --find --show /tmp/mounted/vdisk; '
                'for place in /sys/fs/cgroup/*/cgroup.procs; do '
                'mkdir ${place%/*}/$DISKPLACER_RUN-1; done; '
                'echo $DISKPLACER_RUN; wait'
            )
            devices = [shell.stdout.readline().strip() for _ in range(2)]
            run = shell.stdout.readline().strip()
            self.end(shell, number)
            self.assertFalse((PLACE / run).exists())
            self.assertEqual([], glob.glob(f'/sys/fs/cgroup/**/{run}-*'))
            for device in devices:
                backing = f'/sys/block/{os.path.basename(device)}/loop'
                # the kernel may take a moment
                self.gone(lambda backing=backing: os.path.exists(backing))

    @loops.needs_root
    def test_mounts_of_others(self):
        """They are unmounted for all when who has made them unmounts them."""
        point = self.useFixture(fixtures.TempDir()).path
        disk = self.useFixture(loops.LoopDevice(size_gb=1))
        subprocess.run(['mkfs.ext4', '-q', disk.device], check=True)
        subprocess.run(['mount', disk.device, point], check=True)
        unmount = ['umount', '--lazy', point]
        self.addCleanup(subprocess.run, unmount, stderr=subprocess.DEVNULL)
        shell = self.start('echo begun; wait')
        self.assertEqual('begun\n', shell.stdout.readline())
        subprocess.run(['umount', point], check=True)
        # another run that begins just now has a copy until it drops it
        self.gone(lambda: self.mounted(disk.device))
        self.end(shell, signal.SIGTERM)

    @loops.needs_root
    def test_killed(self):
        """The processes end with it, and the next run removes the rest."""
        shell = self.start('echo $DISKPLACER_RUN; wait')
        left = PLACE / shell.stdout.readline().strip()
        other = self.start('echo $DISKPLACER_RUN; wait')
        lives = PLACE / other.stdout.readline().strip()
        shell.kill()
        shell.wait()
        self.gone(lambda: len(self.processes()) > 2)
        self.assertTrue(left.exists())
        self.seconds, before = self.seconds + '1', self.seconds
        self.assertEqual(0, self.start('true').wait(PATIENCE))
        self.seconds = before
        self.assertFalse(left.exists())
        self.assertTrue(lives.exists())
        self.end(other, signal.SIGTERM)

    def test_without_namespaces(self):
        """The group of the command is ended, and its files are removed."""
        shell = self.start(
            'mktemp; echo $DISKPLACER_RUN; wait', 'unshare() { return 1; }'
        )
        file = shell.stdout.readline().strip()
        run = shell.stdout.readline().strip()
        self.assertTrue(file.startswith(f'{PLACE}/{run}/'))
        begun = time.monotonic()
        shell.send_signal(signal.SIGTERM)
        self.assertEqual(143, shell.wait(PATIENCE))
        self.assertLess(time.monotonic() - begun, PATIENCE)
        self.assertFalse((PLACE / run).exists())
        # one leaves the group
        self.assertLessEqual(len(self.processes()), 1)

    def test_in_another_one(self):
        self.env['DISKPLACER_RUN'] = 'outer'
        shell = self.start('kill %1 %2; echo $DISKPLACER_RUN; exit 4')
        self.assertEqual(4, shell.wait(PATIENCE))
        self.assertEqual('outer\n', shell.stdout.read())
