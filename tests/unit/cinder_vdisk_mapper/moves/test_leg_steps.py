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

import fixtures
import testtools

from cinder_vdisk_mapper.moves import leg_steps
from nova_diskplacer import exception


class Steps(leg_steps.LegSteps):
    """Steps that a test notes."""

    def __init__(self, test):
        self.test = test

    def is_decided(self):
        return self.test.decided

    def begin(self):
        self.test.step('begin')

    def copied(self):
        return self.test.look()

    def pace(self, done):
        self.test.done.append(done)

    def decide(self):
        self.test.decide()

    def finish(self):
        self.test.step('finish')

    def undo(self):
        self.test.step('undo')


class OrderTestCase(testtools.TestCase):
    """``done`` has the steps; ``failing`` are those that raise an error."""

    def setUp(self):
        super().setUp()
        self.useFixture(
            fixtures.MockPatchObject(leg_steps.time, 'sleep', lambda _: None)
        )
        self.log = self.useFixture(fixtures.FakeLogger())
        self.done = []
        self.failing = set()
        self.decided = False
        self.copied = [(0, 4), (2, 4), (4, 4)]
        self.shown = []
        self.stopped = False
        self.move = Steps(self)

    def step(self, name):
        self.done.append(name)
        if name in self.failing:
            raise exception.DiskError(name)

    def look(self):
        self.step('look')
        return self.copied.pop(0)

    def decide(self):
        self.decided = 'saved' not in self.failing
        self.step('decide')

    def run_(self):
        leg_steps.run(
            self.move,
            lambda *shown: self.shown.append(shown),
            lambda: self.stopped,
        )

    def assert_fails(self, step, *done):
        error = self.assertRaises(exception.DiskPlacerError, self.run_)
        self.assertIn(step, str(error))
        self.assertEqual([*done], self.done)

    def test_move(self):
        self.run_()
        self.assertEqual(
            ['begin', 'look', 0, 'look', 2, 'look', 'decide', 'finish'],
            self.done,
        )
        self.assertEqual([(0, 4), (2, 4), (4, 4)], self.shown)

    def test_decided_by_a_killed_run(self):
        for call in (self.run_, lambda: leg_steps.take_back(self.move)):
            self.decided = True
            call()
            self.assertEqual(['finish'], self.done)
            self.done.clear()

    def test_taken_back(self):
        leg_steps.take_back(self.move)
        self.assertEqual(['undo'], self.done)

    def test_it_fails_before_the_decision(self):
        self.failing = {'begin'}
        self.assert_fails('begin', 'begin', 'undo')
        self.done.clear()
        self.failing = {'look'}
        self.assert_fails('look', 'begin', 'look', 'undo')

    def test_the_decision_fails(self):
        self.copied = [(4, 4)]
        self.failing = {'decide', 'saved'}
        self.assert_fails('decide', 'begin', 'look', 'decide', 'undo')

    def test_the_answer_to_the_decision_is_lost(self):
        self.copied = [(4, 4)]
        self.failing = {'decide'}
        self.assert_fails('decide', 'begin', 'look', 'decide', 'finish')

    def test_stopped(self):
        self.stopped = True
        self.assert_fails('was stopped', 'begin', 'look', 'undo')

    def test_stopped_when_all_is_copied(self):
        self.stopped, self.copied = True, [(4, 4)]
        self.run_()
        self.assertEqual(['begin', 'look', 'decide', 'finish'], self.done)

    def test_it_cannot_be_taken_back(self):
        self.failing = {'begin', 'undo'}
        self.assert_fails('begin', 'begin', 'undo')
        self.assertIn('not taken back, recover it: undo', self.log.output)

    def test_what_is_decided_is_not_taken_back(self):
        self.decided, self.failing = True, {'finish'}
        self.assert_fails('finish', 'finish')
