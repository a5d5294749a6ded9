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


import os

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.elastic.processes import operator_overrides as overrides
from nova_diskplacer.elastic.processes import progress
from tests.unit.nova_diskplacer.elastic import elastic_samples


class ElasticTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.world = elastic_samples.World(self)

    def why(self):
        return ''.join(one.why for one in self.world.elastic.status.vdisks)

    def wanted(self):
        """Return the first step under pressure."""
        self.world.mbps = 400
        return self.world.ticks().step


class DecideTest(ElasticTestCase):
    def test_without_vdisks_nothing_is_read(self):
        self.world.location = ''
        with open(os.path.join(self.world.root, overrides.FILE), 'w'):
            state = self.world.ticks(5, lambda state: True)
        self.world.tick()
        self.assertEqual(((), None), (state.vdisks, state.step))

    def test_step(self):
        step = self.wanted()
        self.assertEqual('volume', step.vdisk)
        self.assertEqual(tuple('aaaa'), step.old)
        self.assertEqual(tuple('aabb'), step.location)
        self.assertEqual(4 * GIB, step.size_bytes)
        (vdisk,) = self.world.elastic.status.vdisks
        self.assertEqual(
            ('widen', 2, 4 * GIB),
            (vdisk.verdict, vdisk.target, vdisk.left_bytes),
        )
        self.assertAlmostEqual(1.0, vdisk.pressure)
        self.assertIn('is to have 2 disks', self.log.output)

    def test_the_same_sample_counts_once(self):
        sample = self.world.load.sample()
        self.world.elastic.run(sample)
        before = self.world.elastic.status
        self.world.now += 10
        self.world.elastic.run(sample)
        self.assertIs(before, self.world.elastic.status)

    def test_free_space(self):
        self.world.free_gb = dict.fromkeys('abc', 50) | {'b': 3}
        step = self.wanted()
        self.assertEqual(tuple('aacc'), step.location)

    def test_overrides(self):
        overrides.change(
            self.world.root,
            lambda given: overrides.force(given, 'volume', 4),
        )
        step = self.world.ticks().step
        self.assertEqual('the operator forces a width of 4', self.why())
        overrides.change(
            self.world.root,
            lambda given: overrides.forbid(given, 'volume'),
        )
        # a step that was begun is not wanted any more
        self.world.executor_says('moving', step)
        self.assertIsNone(self.world.tick().step)
        self.assertEqual('the operator forbids moves', self.why())

    def test_overrides_that_cannot_be_read(self):
        with open(os.path.join(self.world.root, overrides.FILE), 'w'):
            pass
        self.world.load.go(10)
        self.assertRaises(exception.ElasticError, self.world.ticks)


class FollowTest(ElasticTestCase):
    def test_nothing_is_begun(self):
        """The move is withdrawn when the load ends, and is the same before."""
        step = self.wanted()
        for _ in range(3):
            self.assertEqual(step, self.world.tick().step)
        self.assertEqual(1, self.log.output.count('is to have'))
        self.world.mbps = 40
        self.world.ticks(5, lambda state: state.step is None)

    def test_a_step_that_is_begun_goes_on(self):
        step = self.wanted()
        self.world.executor_says('moving', step, done=GIB)
        self.world.mbps = 40
        for _ in range(10):
            self.assertEqual(step, self.world.tick().step)
        (vdisk,) = self.world.elastic.status.vdisks
        self.assertEqual(3 * GIB, vdisk.left_bytes)
        self.assertEqual('moves volume', self.world.elastic.status.executor)
        with open(progress.FILE.path(self.world.root), 'w') as stream:
            stream.write('{}')
        self.world.tick()
        self.assertIn('another release', self.world.elastic.status.executor)

    def test_done(self):
        step = self.wanted()
        self.world.executor_says('done', step)
        # the disks have not been read again yet
        self.assertEqual(step, self.world.tick().step)
        self.world.location = 'aabb'
        state = self.world.tick()
        self.assertIsNone(state.step)
        self.assertEqual({'done': 1, 'failed': 0}, state.moves['widen'])
        self.assertIn('has 2 disks now', self.log.output)

    def test_failed(self):
        step = self.wanted()
        self.world.executor_says('failed', step, reason='it has snapshots')
        state = self.world.tick()
        self.assertIsNone(state.step)
        self.assertEqual({'done': 0, 'failed': 1}, state.moves['widen'])
        self.assertIn('it has snapshots', self.why())
        # and the next try is another one
        again = self.world.ticks().step
        self.assertEqual(step.location, again.location)
        self.assertTrue(again.asked > step.asked)
        self.world.tick()
        self.assertEqual(again, self.world.elastic.status.step)

    def test_several_steps(self):
        self.world.conf.set_override('widen_factor', 4, 'diskplacer_elastic')
        self.world.elastic = self.world.agent()
        step = self.wanted()
        seen = []
        while step:
            seen.append(''.join(step.location))
            self.world.location = seen[-1]
            step = self.world.tick().step
        self.assertEqual(['aabb', 'acbb', 'acbd'], seen)
        self.assertEqual(1, self.world.elastic.status.moves['widen']['done'])

    def test_something_else_has_moved_it(self):
        self.wanted()
        self.world.location = 'eeee'
        self.assertIsNone(self.world.tick().step)
        self.assertIn('something else has moved it', self.log.output)

    def test_gone(self):
        self.wanted()
        self.world.location = ''
        state = self.world.tick()
        self.assertEqual(((), None), (state.vdisks, state.step))
        self.assertEqual(1, state.moves['widen']['failed'])

    def test_an_operator_moves_another(self):
        self.world.executor_says('moving', vdisk='other')
        self.world.mbps = 400
        self.world.ticks(
            10, lambda state: 'but another vdisk is moved' in self.why()
        )
        # its process was killed
        self.world.executor_says('moving', vdisk='other', time=1.0)
        self.assertIsNotNone(self.world.tick().step)

    def test_restart_of_the_agent(self):
        """It does not forget what keeps a vdisk from oscillating."""
        self.world.conf.set_override('min_interval', 90, 'diskplacer_elastic')
        self.world.elastic = self.world.agent()
        step = self.wanted()
        self.world.executor_says('failed', step, reason='no')
        self.world.tick()
        self.world.elastic = self.world.agent()
        self.world.ticks(5, lambda state: state.vdisks)
        self.assertIn('its last move failed, next try in 70 s', self.why())
        # after a boot the clock is another one
        self.world.now = 10.0
        self.world.elastic = self.world.agent()
        self.world.ticks(5, lambda state: state.vdisks)
        self.assertIn('measured for', self.why())

    def test_a_past_that_cannot_be_read(self):
        path = os.path.join(
            self.world.conf.diskplacer_agent.state_dir, 'elastic'
        )
        os.makedirs(path)
        for text in ('[1]', '{"v": 1}', '{"v": {"moved": 1}, "w": {}}', 'x'):
            with open(f'{path}/vdisks.json', 'w') as stream:
                stream.write(text)
            self.world.elastic = self.world.agent()
            self.world.ticks(5, lambda state: state.vdisks)

    def test_progress_is_read_of_this_step_only(self):
        self.assertIsNone(progress.FILE.read(self.world.root))
        step = self.wanted()
        self.world.executor_says(
            'failed', step, asked=step.asked - 1, reason='old'
        )
        self.assertEqual(step, self.world.tick().step)
