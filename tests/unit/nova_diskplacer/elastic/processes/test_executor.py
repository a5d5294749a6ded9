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


import json
import math
import os
import threading
import time
from unittest import mock

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks import mover
from nova_diskplacer.elastic.processes import executor
from nova_diskplacer.elastic.processes import operator_overrides as overrides
from nova_diskplacer.elastic.processes import progress
from nova_diskplacer.host import files
from nova_diskplacer.monitor import elastic_status

STEP = elastic_status.WantedStep('v', ('a', 'a'), ('a', 'b'), 1000, 5.0)


class Mover(mover.Mover):
    """Does ``during`` in a step, and raises what ``fails`` says."""

    def __init__(self):
        self.moved = []
        self.recovered = 0
        self.fails = None
        self.recover_fails = []
        self.during = lambda progress, stopped: None

    def move(self, volume_id, location, progress, stopped, percent):
        self.moved.append((volume_id, location))
        self.percent = percent
        self.during(progress, stopped)
        if stopped():
            raise exception.DiskPlacerError('it was stopped')
        if self.fails:
            raise self.fails

    def recover(self):
        self.recovered += 1
        if self.recover_fails and (error := self.recover_fails.pop(0)):
            raise error


class ExecutorTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.root = self.useFixture(fixtures.TempDir()).path
        before = files.lock_directory()
        files.set_lock_directory(self.useFixture(fixtures.TempDir()).path)
        self.addCleanup(files.set_lock_directory, before)
        for name in ('_PAUSE', '_PROGRESS_PAUSE', '_RECOVER_PAUSE'):
            self.useFixture(fixtures.MockPatchObject(executor, name, 0.0))
        self.mover = Mover()
        self.stopped = threading.Event()
        self.wanted = STEP
        self.executor = self.make()

    def make(self):
        return executor.Executor(
            self.root, self.mover, lambda: self.wanted, self.stopped, 0.25
        )

    def written(self):
        found = progress.FILE.read(self.root)
        self.assertTrue(abs(time.time() - found.time) < 60)
        return found

    def run_rounds(self, number, ended=None):
        """Run without a step that is wanted.

        :param ended: called at the end of each round, with its number.
        """
        rounds = []
        self.wanted = None

        def wait(_):
            rounds.append(1)
            if ended:
                ended(len(rounds))
            if len(rounds) == number:
                self.stopped.set()

        with mock.patch.object(self.stopped, 'wait', wait):
            self.executor.run()
        self.stopped.clear()

    def ask_again(self):
        self.wanted = elastic_status.WantedStep(
            **{**vars(STEP), 'asked': self.wanted.asked + 1}
        )

    def test_a_step(self):
        seen = []

        def during(report, stopped):
            seen.append(self.written())
            report(400, 1000)
            seen.append(self.written())

        self.mover.during = during
        self.executor.run_once()
        self.assertEqual([('v', ('a', 'b'))], self.mover.moved)
        self.assertEqual(25, self.mover.percent)
        for found, done in zip(seen, (0, 400), strict=True):
            self.assertEqual('moving', found.state)
            self.assertEqual((done, 1000), (found.done, found.total))
            self.assertTrue(found.is_of(STEP))
        self.assertEqual('done', self.written().state)
        self.assertTrue(self.written().is_of(STEP))

    def test_a_step_that_ended_is_taken_once(self):
        for error in (None, exception.DiskError('it has snapshots')):
            self.mover.moved, self.mover.fails = [], error
            self.executor.run_once()
            self.executor.run_once()
            self.executor = self.make()
            self.executor.run_once()
            self.assertEqual(1, len(self.mover.moved))
            self.ask_again()
        self.executor.run_once()
        self.assertEqual(2, len(self.mover.moved))

    def test_failures(self):
        for error, reason in (
            (exception.DiskError('it has snapshots'), 'it has snapshots'),
            (KeyError('no'), "KeyError: 'no'"),
        ):
            self.mover.fails = error
            self.executor.run_once()
            found = self.written()
            self.assertEqual(('failed', reason), (found.state, found.reason))
            self.ask_again()

    def test_nothing_is_wanted(self):
        self.wanted = None
        self.executor.run_once()
        self.assertEqual('idle', self.written().state)
        os.unlink(progress.FILE.path(self.root))
        # not written all the time
        self.executor.run_once()
        self.assertIsNone(progress.FILE.read(self.root))

    def test_stopped_in_a_step(self):
        """It is taken when the executor runs again."""
        self.mover.during = lambda report, stopped: self.stopped.set()
        self.executor.run_once()
        self.assertEqual('idle', self.written().state)
        self.stopped.clear()
        self.mover.during = lambda report, stopped: None
        self.executor = self.make()
        self.executor.run_once()
        self.assertEqual('done', self.written().state)

    def test_killed_in_a_step(self):
        class Killed(BaseException):
            pass

        self.mover.fails = Killed()
        self.assertRaises(Killed, self.executor.run_once)
        self.assertEqual('moving', self.written().state)
        self.mover.fails = None
        self.executor = self.make()
        self.run_rounds(1)
        self.assertEqual(1, self.mover.recovered)
        self.assertEqual('idle', self.written().state)
        self.wanted = STEP
        self.executor.run_once()
        self.assertEqual('done', self.written().state)

    def test_a_step_that_is_not_taken_back(self):
        """It may still be on two disks, and nobody may ask for it again."""
        self.mover.fails = exception.DiskError('no answer')
        self.mover.recover_fails = [exception.DiskError('no answer')] * 2

        def ended(number):
            if number == 1:
                self.executor.step('v', ('a', 'b'))

        self.mover.recover_fails.insert(0, None)
        self.run_rounds(5, ended)
        self.assertEqual(4, self.mover.recovered)
        self.assertEqual([], self.mover.recover_fails)

    def test_a_step_of_another_process_that_is_not_taken_back(self):
        """Whatever later ones have written over what it has written."""
        self.useFixture(fixtures.MockPatchObject(executor, '_IDLE_PAUSE', 0.0))
        for state in ('moving', 'failed', 'done', 'idle'):
            self.executor = self.make()
            recovered = self.mover.recovered

            def ended(number, state=state):
                if number == 2:
                    other = progress.Progress(state, time.time(), 'w')
                    progress.FILE.write(self.root, other)

            self.run_rounds(6, ended)
            self.assertEqual(2, self.mover.recovered - recovered)

    def test_a_killed_step_of_another_process_before_the_next_step(self):
        def ended(number):
            if number == 2:
                other = progress.Progress('moving', time.time(), 'w')
                progress.FILE.write(self.root, other)
                self.executor.step('v', ('a', 'b'))

        self.run_rounds(5, ended)
        self.assertEqual('done', self.written().state)
        self.assertEqual(2, self.mover.recovered)

    def test_forbidden_in_a_step(self):
        def during(report, stopped):
            self.assertFalse(stopped())
            overrides.change(
                self.root, lambda given: overrides.forbid(given, 'v')
            )

        self.mover.during = during
        self.executor.run_once()
        self.assertEqual('failed', self.written().state)

    def test_overrides_that_cannot_be_read_stop_it(self):
        path = os.path.join(self.root, overrides.FILE)
        self.mover.during = lambda report, stopped: open(path, 'w').close()
        self.executor.run_once()
        self.assertEqual('failed', self.written().state)
        self.assertIn(path, self.log.output)

    def test_an_operator_takes_a_step(self):
        with files.lock('elastic-step', wait=False):
            self.assertRaises(exception.ElasticError, self.executor.run_once)
            self.wanted = None
            self.executor.run_once()
        self.assertEqual([], self.mover.moved)
        self.assertIsNone(progress.FILE.read(self.root))

    def test_run(self):
        """A step that cannot be cleaned up does not stop all others."""
        self.mover.recover_fails = [exception.DiskError('a disk hangs')] * 2
        moved = []

        def during(report, stopped):
            moved.append(self.mover.recovered)
            self.ask_again()
            if len(moved) == 4:
                self.stopped.set()

        self.mover.during = during
        self.executor.run()
        self.assertEqual([1, 2, 3, 3], moved)
        self.assertEqual(1, self.log.output.count('a disk hangs'))

    def test_run_without_an_agent(self):
        tries = []

        def wanted():
            tries.append(1)
            if len(tries) == 3:
                self.stopped.set()
            raise exception.ContentionError('no agent answers')

        executor.Executor(
            self.root, self.mover, wanted, self.stopped, 0.1
        ).run()
        self.assertEqual(3, len(tries))
        self.assertEqual(1, self.log.output.count('no agent answers'))

    def test_two_of_them(self):
        with files.lock('elastic-run', wait=False):
            self.assertRaises(exception.ElasticError, self.executor.run)
        self.assertEqual(0, self.mover.recovered)


class DescribeTest(testtools.TestCase):
    def test_texts(self):
        for fields, text in (
            (None, 'nothing: "diskplacer-manage elastic run" never ran here'),
            ({'state': 'idle'}, 'waits'),
            ({'state': 'done'}, 'waits'),
            ({'state': 'moving'}, 'moves v'),
            (
                {'state': 'failed', 'reason': 'no room'},
                'waits; v was not moved: no room',
            ),
            (
                {'state': 'moving', 'time': 700.0},
                '"diskplacer-manage elastic run" is silent for 300 s',
            ),
        ):
            found = fields and progress.Progress(
                **{'time': 990.0, 'vdisk': 'v', **fields}
            )
            age = 10.0 if found else math.inf
            self.assertEqual(text, progress.describe(found, 1000.0, age))

    def test_a_later_release(self):
        """It adds fields, or gives one another type."""
        self.useFixture(fixtures.FakeLogger())
        root = self.useFixture(fixtures.TempDir()).path
        now = time.time()
        path = progress.FILE.path(root)
        for fields, text in (
            ({'state': 'moving', 'vdisk': 'v', 'speed': 5}, 'moves v'),
            ({'state': ['moving']}, 'is of another release'),
        ):
            with open(path, 'w') as stream:
                json.dump({'time': now, **fields}, stream)
            found = progress.FILE.read(root)
            age = progress.FILE.age(root, now)
            self.assertIn(text, progress.describe(found, now, age))
        self.assertIn('is silent', progress.describe(None, now, age + 900))
        os.unlink(path)
        self.assertEqual(math.inf, progress.FILE.age(root, now))

    def test_unreadable(self):
        log = self.useFixture(fixtures.FakeLogger())
        root = self.useFixture(fixtures.TempDir()).path
        with open(progress.FILE.path(root), 'w') as stream:
            stream.write('{"state": 1}')
        # the agent reads it once in an interval
        for _ in range(3):
            self.assertIsNone(progress.FILE.read(root))
        self.assertEqual(1, log.output.count(progress.FILE.name))
        self.assertRaises(
            exception.DiskError,
            progress.FILE.write,
            root + '/missing',
            progress.Progress('idle', 0.0),
        )
