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
import subprocess
import sys
import threading
import unittest
from unittest import mock

import fixtures
import testtools
from oslo_config import cfg
from oslo_config import fixture as config_fixture

from cinder_vdisk_mapper.vdisks import locks
from nova_diskplacer import exception

#: a user who is not root
USER = 65534

needs_root = unittest.skipUnless(
    os.geteuid() == 0, 'running as another user needs root'
)

_WORKER = """
import os
import sys
from oslo_concurrency import lockutils
from cinder_vdisk_mapper.vdisks import locks

directory, marker, times = sys.argv[1:]
lockutils.set_defaults(directory)
for _ in range(int(times)):
    with locks.hold('disk-a'):
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        os.sched_yield()
        os.unlink(marker)
"""


class LocksTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.parent = self.useFixture(fixtures.TempDir()).path
        os.chmod(self.parent, 0o755)
        self.directory = os.path.join(self.parent, 'locks')
        os.mkdir(self.directory)
        self.conf = self.useFixture(config_fixture.Config(cfg.CONF))
        self.conf.config(lock_path=self.directory, group='oslo_concurrency')
        self.path = os.path.join(self.directory, 'vdisk-disk-a')

    def run_as(self, user, times=1):
        """Start a process that holds a lock so many times, alone."""
        process = subprocess.Popen(
            [
                sys.executable,
                '-c',
                _WORKER,
                self.directory,
                os.path.join(self.parent, 'marker'),
                str(times),
            ],
            user=user,
            group=user,
            extra_groups=[] if user is not None else None,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def outcome(self, process):
        """Wait for a process and return its exit status and complaint."""
        _, complaint = process.communicate(timeout=600)
        return process.returncode, complaint

    def locked_elsewhere(self, path):
        """Tell whether somebody holds the lock of the file at a path."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False


class HoldTestCase(LocksTestCase):
    def test_a_file_is_there_while_it_is_held(self):
        with locks.hold('disk-a'), locks.hold('disk-b'):
            self.assertTrue(self.locked_elsewhere(self.path))
            self.assertEqual(
                ['vdisk-disk-a', 'vdisk-disk-b'],
                sorted(os.listdir(self.directory)),
            )
        self.assertEqual([], os.listdir(self.directory))

    def test_another_holder_for_long(self):
        with locks.hold('disk-a'):
            lock = locks.hold_within('disk-a', 0.05)
            self.assertRaises(locks.Held, lock.__enter__)
        with locks.hold_within('disk-a', 0.05):
            self.assertTrue(self.locked_elsewhere(self.path))
        self.assertEqual([], os.listdir(self.directory))

    def test_another_holder_for_a_moment(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(locks.hold('disk-a'))
            timer = threading.Timer(0.1, stack.close)
            timer.start()
            with locks.hold_within('disk-a', 60.0):
                self.assertTrue(self.locked_elsewhere(self.path))
            timer.join()

    def test_several_in_one_order(self):
        taken = []
        with mock.patch.object(
            locks,
            'hold',
            lambda name: contextlib.nullcontext(taken.append(name)),
        ):
            for names in (['disk-b', 'disk-a'], iter(['disk-a', 'disk-b'])):
                with locks.hold_all(names):
                    self.assertEqual(['disk-a', 'disk-b'], taken)
                taken.clear()
        with locks.hold_all(['disk-b', 'disk-a', 'disk-b']):
            self.assertTrue(self.locked_elsewhere(self.path))
        self.assertEqual([], os.listdir(self.directory))

    def test_an_error_releases_it(self):
        def fail():
            with locks.hold('disk-a'):
                raise ZeroDivisionError

        self.assertRaises(ZeroDivisionError, fail)
        self.assertEqual([], os.listdir(self.directory))
        with locks.hold('disk-a'):
            pass

    def test_without_waiting(self):
        """Whoever holds it is left alone, a thread or a process."""

        def held():
            with locks.hold('disk-a', wait=False):
                return False

        with locks.hold('disk-a'):
            error = self.assertRaises(exception.DiskPlacerError, held)
            self.assertIn('works on disk-a', str(error))
        self.assertFalse(held())
        other = os.open(self.path, os.O_CREAT | os.O_RDWR)
        fcntl.flock(other, fcntl.LOCK_EX)
        self.assertRaises(exception.DiskPlacerError, held)
        os.close(other)
        self.assertFalse(held())
        self.assertEqual([], os.listdir(self.directory))

    def test_the_holder_before_removes_the_file_that_was_opened(self):
        lock, others = fcntl.flock, []

        def late(descriptor, mode):
            if not others:
                # the holder lets go, and somebody else takes the lock anew
                os.unlink(self.path)
                other = os.open(self.path, os.O_CREAT | os.O_RDWR)
                lock(other, fcntl.LOCK_EX)
                others.append(other)
            lock(descriptor, mode)

        released = []

        def let_go(seconds):
            released.append(os.close(others[0]))

        with (
            mock.patch.object(fcntl, 'flock', late),
            mock.patch('time.sleep', let_go),
            locks.hold('disk-a'),
        ):
            # it was waited for
            self.assertEqual([None], released)
            self.assertTrue(self.locked_elsewhere(self.path))
        self.assertEqual([], os.listdir(self.directory))

    def test_a_file_that_somebody_has_made_anew_stays(self):
        with locks.hold('disk-a'):
            os.unlink(self.path)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR))
        self.assertEqual(['vdisk-disk-a'], os.listdir(self.directory))

    def test_processes_and_threads(self):
        os.chmod(self.parent, 0o777)
        processes = [self.run_as(None, 300) for _ in range(3)]
        marker = os.path.join(self.parent, 'marker')
        failures = []

        def work():
            for _ in range(100):
                with locks.hold('disk-a'):
                    try:
                        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                        os.unlink(marker)
                    except OSError as error:
                        failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for process in processes:
            self.assertEqual((0, ''), self.outcome(process))
        self.assertEqual([], failures)
        self.assertEqual([], os.listdir(self.directory))

    def test_no_lock_path(self):
        self.conf.config(lock_path=None, group='oslo_concurrency')
        error = self.assertRaises(
            exception.DiskPlacerError, locks.hold('disk-a').__enter__
        )
        self.assertIn('[oslo_concurrency] lock_path', str(error))

    def test_a_lock_path_that_is_no_directory(self):
        os.rmdir(self.directory)
        with open(self.directory, 'w'):
            pass
        error = self.assertRaises(
            exception.DiskPlacerError, locks.hold('disk-a').__enter__
        )
        self.assertIn(self.path, str(error))


class SweepTestCase(LocksTestCase):
    def test_sweep(self):
        for name in ('vdisk-volume-a', '.vdisk-disk-b-x', 'cinder-else'):
            with open(os.path.join(self.directory, name), 'w'):
                pass
        with locks.hold('disk-a'):
            locks.sweep()
            self.assertEqual(
                ['cinder-else', 'vdisk-disk-a'],
                sorted(os.listdir(self.directory)),
            )
            self.assertTrue(self.locked_elsewhere(self.path))

    def test_no_directory(self):
        os.rmdir(self.directory)
        locks.sweep()


@needs_root
class UsersTestCase(LocksTestCase):
    def owner(self, path):
        status = os.stat(path)
        return status.st_uid, status.st_gid

    def test_root_first(self):
        os.chown(self.directory, USER, USER)
        os.chmod(self.parent, 0o777)
        with locks.hold('disk-a'):
            self.assertEqual((USER, USER), self.owner(self.path))
            other = self.run_as(USER)
        self.assertEqual((0, ''), self.outcome(other))
        self.assertEqual([], os.listdir(self.directory))

    def test_at_once(self):
        os.chown(self.directory, USER, USER)
        os.chmod(self.parent, 0o777)
        processes = [self.run_as(user, 300) for user in (None, USER, USER)]
        for process in processes:
            self.assertEqual((0, ''), self.outcome(process))
        self.assertEqual([], os.listdir(self.directory))

    def test_what_root_left_before_this_release(self):
        os.chown(self.directory, USER, USER)
        os.chmod(self.parent, 0o777)
        with open(self.path, 'w'):
            os.chmod(self.path, 0o644)
        self.assertEqual((0, ''), self.outcome(self.run_as(USER)))
        self.assertEqual([], os.listdir(self.directory))

    def test_refused(self):
        status, complaint = self.outcome(self.run_as(USER))
        self.assertEqual(1, status)
        self.assertIn('DiskPlacerError: lock file ' + self.path, complaint)
        self.assertIn(f'{self.directory} belongs to user root', complaint)
        os.chown(self.directory, USER, USER)
        with open(self.path, 'w'):
            os.chmod(self.path, 0o600)
        status, complaint = self.outcome(self.run_as(USER))
        self.assertEqual(1, status)
        self.assertRegex(
            complaint,
            f'{self.path} belongs to user root with mode 0600; .* '
            rf'chown \S+ {self.path}',
        )

    def test_no_directory(self):
        os.rmdir(self.directory)
        status, complaint = self.outcome(self.run_as(USER))
        self.assertEqual(1, status)
        self.assertIn(f'there is no directory {self.directory}', complaint)

    def test_sweep_of_what_a_killed_audit_left(self):
        os.chown(self.directory, USER, USER)
        # root had not given it away yet
        path = os.path.join(self.directory, '.vdisk-disk-a-x')
        os.close(os.open(path, os.O_CREAT, 0o600))
        os.seteuid(USER)
        try:
            locks.sweep()
        finally:
            os.seteuid(0)
        self.assertEqual([], os.listdir(self.directory))

    def test_directory(self):
        service = os.path.join(self.parent, 'state')
        os.mkdir(service)
        os.chown(service, USER, USER)
        os.rmdir(self.directory)
        below = os.path.join(self.directory, 'below')
        self.conf.config(lock_path=below, group='oslo_concurrency')
        locks.make_directory(service)
        self.assertEqual((USER, USER), self.owner(below))
        self.assertEqual(0o700, os.stat(below).st_mode & 0o7777)
        self.assertEqual(['below'], os.listdir(self.directory))
        # again
        os.chown(below, 0, 0)
        locks.make_directory(service)
        self.assertEqual((0, 0), self.owner(below))

    def test_directory_for_nobody(self):
        os.rmdir(self.directory)
        error = self.assertRaises(
            exception.DiskPlacerError, locks.make_directory, '/no/such'
        )
        self.assertIn('state_path /no/such', str(error))
        self.assertIn(self.directory, str(error))
        self.assertFalse(os.path.exists(self.directory))
