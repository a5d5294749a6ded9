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

import testtools

from nova_diskplacer.elastic import inputs
from nova_diskplacer.elastic import policy
from tests.unit.nova_diskplacer.elastic import hosts

BUSY, MIDDLE, QUIET = 0.9, 0.5, 0.0


class PolicyTestCase(testtools.TestCase):
    settings = hosts.QUICK

    def setUp(self):
        super().setUp()
        self.cloud = hosts.Host({'v': hosts.vdisk('a')}, 'abcdef')
        self.cloud.settings = self.settings

    def widened(self):
        """Wait for a widening, and end it."""
        move = self.cloud.wait(1000, v=BUSY)
        self.assertTrue(move.widens)
        self.cloud.finish()
        return move

    def narrowed(self):
        move = self.cloud.wait(1000, v=QUIET)
        self.assertFalse(move.widens)
        self.cloud.finish()
        return move


class WidenTest(PolicyTestCase):
    def test_after_the_time_of_pressure(self):
        self.assertIsNone(self.cloud.wait(20, v=BUSY))
        self.assertEqual(
            'measured for 20 of 30 s on its disks', self.cloud.why()
        )
        move = self.cloud.observe().move
        self.assertEqual((tuple('aaaa'), tuple('aabb')), move.path)
        self.assertEqual('pressure of 90% for 30 s', move.why)
        self.assertEqual(move.why, self.cloud.why())

    def test_the_mean_counts(self):
        for part in (0.9, 0.6, 0.85):
            self.assertIsNone(self.cloud.observe(v=part).move)
        self.assertIsNotNone(self.cloud.observe(v=1.0).move)

    def test_steps(self):
        self.assertEqual(2, self.widened().width)
        self.assertEqual(4, self.widened().width)
        self.assertIsNone(self.cloud.wait(1000, v=BUSY))
        self.assertEqual(
            'pressure of 90% for 30 s, at its largest width', self.cloud.why()
        )

    def test_factor(self):
        self.cloud.settings = hosts.changed(widen_factor=64)
        self.assertEqual(4, self.widened().width)

    def test_as_many_disks_as_suit(self):
        self.cloud.disks = {uuid: hosts.disk() for uuid in 'abc'}
        self.widened()
        # three disks would do no better than two
        self.assertIsNone(self.cloud.wait(300))
        self.assertIn('1 of 2 further disks suit', self.cloud.why())

    def test_neighbours(self):
        self.cloud.others = {'a': 0.6}
        self.assertIsNone(self.cloud.wait(300, v=0.29))
        self.assertEqual('others cause the pressure of 89%', self.cloud.why())
        # it causes half as much now
        self.assertIsNotNone(self.cloud.wait(300, v=0.31))

    def test_many_equal_vdisks(self):
        self.cloud.vdisks = {uuid: hosts.vdisk('a') for uuid in 'stuvw'}
        self.cloud.others = {'a': 0.1}
        parts = dict.fromkeys('stuvw', 0.15)
        self.assertEqual('s', self.cloud.wait(30, **parts).vdisk)

    def test_the_largest_of_vdisks(self):
        self.cloud.vdisks['w'] = hosts.vdisk('a')
        self.assertEqual('w', self.cloud.wait(30, v=0.2, w=0.7).vdisk)
        self.assertEqual('others cause the pressure of 90%', self.cloud.why())

    def test_without_any_use(self):
        self.cloud.others = {'b': 0.9}
        self.cloud.vdisks['v'] = hosts.vdisk('b')
        self.assertIsNone(self.cloud.wait(300, v=0.0))

    def test_a_disk_that_it_presses_beside_one_that_others_press(self):
        self.cloud.vdisks['v'] = hosts.vdisk('a', 'b')
        self.cloud.others = {'a': 0.95, 'b': 0.35}
        move = self.cloud.wait(300, v=0.45)
        self.assertEqual('pressure of 80% for 30 s', move.why)

    def test_time_between_moves(self):
        self.cloud.settings = hosts.changed(min_interval=200)
        self.widened()
        ended = self.cloud.now
        self.assertIsNone(self.cloud.wait(190, v=BUSY))
        self.assertEqual(
            'pressure of 90% for 30 s, but its last move ended 190 s ago, '
            'not 200 s',
            self.cloud.why(),
        )
        self.widened()
        self.assertEqual(200, self.cloud.now - ended)

    def test_a_failed_move_is_tried_again_later(self):
        self.cloud.settings = hosts.changed(min_interval=200)
        self.assertIsNotNone(self.cloud.wait(300, v=BUSY))
        times = []
        for number in range(5):
            self.cloud.finish('it has snapshots')
            failed = self.cloud.now
            self.cloud.observe()
            self.assertEqual(
                'its last move failed, next try in '
                f'{min(480, 200 * 2**number) - 10} s: it has snapshots',
                self.cloud.why(),
            )
            move = self.cloud.wait(1000)
            self.assertEqual(tuple('aaaa'), move.old)
            times.append(self.cloud.now - failed)
        self.assertEqual([200, 400, 480, 480, 480], times)
        self.cloud.finish()
        self.assertEqual(0, self.cloud.state.vdisks['v'].failures)

    def test_no_disk_suits(self):
        self.cloud.disks = {'a': hosts.disk()}
        self.assertIsNone(self.cloud.wait(300, v=BUSY))
        self.assertIn(
            'pressure of 90% for 30 s, but 0 of 1 further disks suit',
            self.cloud.why(),
        )


class NarrowTest(PolicyTestCase):
    def setUp(self):
        super().setUp()
        self.cloud.vdisks['v'] = hosts.vdisk(*'abcd')

    def test_after_the_time_of_quiet(self):
        self.assertIsNone(self.cloud.wait(80, v=QUIET))
        self.assertEqual('quiet for 50 s of 60 s', self.cloud.why())
        move = self.cloud.observe().move
        self.assertEqual(
            (self.cloud.vdisks['v'].location, tuple('aaaa')),
            (move.old, move.new),
        )
        self.assertEqual('quiet for 60 s', move.why)

    def test_a_burst_begins_the_time_anew(self):
        self.cloud.wait(80, v=QUIET)
        self.cloud.observe(v=1.0)
        self.assertIsNone(self.cloud.wait(80, v=QUIET))
        self.assertEqual('quiet for 50 s of 60 s', self.cloud.why())

    def test_to_the_least_width_that_fits(self):
        # two disks would be used to 20 per cent, one to 40
        move = self.cloud.wait(300, v=0.1)
        self.assertEqual(2, move.width)
        self.cloud.finish()
        self.assertIsNone(self.cloud.wait(300, v=0.2))
        self.assertEqual(
            'pressure of 20%, too much use for fewer disks', self.cloud.why()
        )

    def test_the_wider_one_if_one_disk_has_no_room(self):
        for uuid in 'abcdef':
            self.cloud.disks[uuid] = hosts.disk(free_gb=2)
        self.assertEqual(2, self.cloud.wait(300, v=QUIET).width)

    def test_in_one_move(self):
        self.cloud.wait(60, v=0.3)
        # it fits two disks before it fits one
        self.assertEqual({2}, self.quiet_widths(20))
        self.assertEqual({1, 2}, self.quiet_widths(10))
        self.assertEqual(1, self.cloud.wait(300).width)

    def test_when_it_no_longer_fits_one(self):
        self.assertIsNone(self.cloud.wait(80, v=QUIET))
        self.assertEqual(2, self.cloud.observe(v=0.4).move.width)

    def quiet_widths(self, seconds):
        self.cloud.wait(seconds, v=QUIET)
        return self.cloud.state.vdisks['v'].quiet.keys()

    def test_at_the_least_width(self):
        self.narrowed()
        self.assertIsNone(self.cloud.wait(300))
        self.assertEqual(
            'pressure of 0%, at its least width', self.cloud.why()
        )

    def test_little_use_of_disks_that_others_press_is_no_quiet(self):
        self.cloud.others = {'b': 0.95}
        self.assertIsNone(self.cloud.wait(300, v=0.01))
        self.assertEqual('others cause the pressure of 96%', self.cloud.why())
        self.cloud.others = {}
        self.assertIsNone(self.cloud.wait(60))
        self.assertIsNotNone(self.cloud.wait(60))


class BackOffTest(PolicyTestCase):
    def quiet_time(self):
        """Return the time from the end of the load to the next narrowing."""
        self.cloud.wait(60, v=MIDDLE)
        begin = self.cloud.now
        self.narrowed()
        # until the mean is low enough
        return self.cloud.now - begin - 30

    def test_each_return_doubles_the_time_of_quiet(self):
        times = []
        for _ in range(6):
            self.widened()
            times.append(self.quiet_time())
        self.assertEqual([60, 120, 240, 480, 480, 480], times)

    def test_a_long_narrow_time_ends_it(self):
        for wait, expected in ((470, 240), (480, 60)):
            self.setUp_again()
            for _ in range(2):
                self.widened()
                self.quiet_time()
            narrowed = self.cloud.now
            self.cloud.wait(wait - 30, v=QUIET)
            self.widened()
            self.assertEqual(wait, self.cloud.now - narrowed)
            self.assertEqual(expected, self.quiet_time())

    def setUp_again(self):
        self.cloud = hosts.Host({'v': hosts.vdisk('a')}, 'abcdef')

    def test_failed_and_forced_moves_do_not_count(self):
        self.widened()
        self.quiet_time()
        self.cloud.wait(300, v=BUSY)
        self.cloud.finish('failed')
        self.assertEqual(0, self.cloud.state.vdisks['v'].level)
        self.cloud.overrides = inputs.Overrides(forced={'v': 2})
        self.assertTrue(self.cloud.wait(30).forced)
        self.cloud.finish()
        self.assertEqual(0, self.cloud.state.vdisks['v'].level)
        self.cloud.overrides = inputs.Overrides()
        self.widened()
        self.assertEqual(1, self.cloud.state.vdisks['v'].level)


class InterruptedTest(PolicyTestCase):
    """A move of several steps ended between them."""

    def setUp(self):
        super().setUp()
        self.cloud.settings = hosts.changed(widen_factor=4)
        move = self.cloud.wait(300, v=BUSY)
        self.assertEqual((4, 4), (move.width, len(move.path)))
        self.cloud.finish('a disk failed', steps=2)
        self.assertEqual(3, self.cloud.vdisks['v'].width)

    def test_it_is_continued_under_pressure(self):
        move = self.cloud.wait(300, v=BUSY)
        self.assertEqual((4, 2), (move.width, len(move.path)))

    def test_or_else_it_goes_back_to_what_is_as_good(self):
        move = self.cloud.wait(300, v=MIDDLE)
        self.assertEqual((2, 2), (move.width, len(move.path)))
        self.assertEqual(
            '2 disks do as well: an earlier move was not finished', move.why
        )
        # at once, not after the time of quiet
        self.assertTrue(self.cloud.now < 1000 + 120)

    def test_not_while_others_cause_pressure(self):
        self.cloud.others = {'a': 0.9}
        self.assertIsNone(self.cloud.wait(300, v=0.05))
        self.assertIn('others cause the pressure', self.cloud.why())

    def test_a_forced_width_stays(self):
        self.cloud.overrides = inputs.Overrides(forced={'v': 3})
        self.assertIsNone(self.cloud.wait(300, v=MIDDLE))


class OneMoveTest(PolicyTestCase):
    def setUp(self):
        super().setUp()
        self.cloud.vdisks = {
            'n': hosts.vdisk('e', 'f'),
            'v': hosts.vdisk('a'),
            'w': hosts.vdisk('b'),
        }

    def test_highest_pressure_first(self):
        self.cloud.wait(80, n=MIDDLE, v=MIDDLE, w=MIDDLE)
        moved = []
        for _ in range(2):
            moved.append(self.cloud.wait(100, v=0.9, w=1.0).vdisk)
            self.cloud.finish()
        self.assertEqual(['w', 'v'], moved)

    def test_of_equals_the_least_uuid(self):
        self.assertEqual('v', self.cloud.wait(100, v=BUSY, w=BUSY).vdisk)

    def test_widening_before_narrowing(self):
        self.assertIsNone(self.cloud.wait(80, n=QUIET, v=0.72, w=MIDDLE))
        # both are due
        self.assertEqual('v', self.cloud.observe(v=1.0).move.vdisk)
        self.assertEqual(
            'quiet for 60 s, but another vdisk is moved', self.cloud.why('n')
        )
        # and as long as it takes
        self.assertIsNone(self.cloud.wait(300, w=BUSY))
        self.assertIn('but another vdisk is moved', self.cloud.why('w'))
        self.cloud.finish()
        self.assertEqual('w', self.cloud.observe().move.vdisk)

    def test_one_that_cannot_move_does_not_hinder_others(self):
        self.cloud.vdisks['v'] = hosts.vdisk('a', leg_gb=200)
        move = self.cloud.wait(100, v=1.0, w=BUSY)
        self.assertEqual('w', move.vdisk)
        self.assertIn('have no room for 400 GiB', self.cloud.why('v'))

    def test_another_step_is_under_way(self):
        self.cloud.busy = True
        self.assertIsNone(self.cloud.wait(100, v=1.0))
        self.assertIn('but another vdisk is moved', self.cloud.why('v'))
        self.cloud.busy = False
        self.assertIsNotNone(self.cloud.observe().move)

    def test_withdrawn(self):
        self.cloud.wait(100, v=BUSY)
        self.cloud.state = policy.withdraw(self.cloud.state)
        self.assertEqual('v', self.cloud.observe().move.vdisk)
        self.cloud.state = policy.withdraw(self.cloud.state)
        self.assertIsNone(self.cloud.wait(30, v=MIDDLE))

    def test_vdisk_deleted_while_it_moves(self):
        self.cloud.wait(100, v=BUSY)
        del self.cloud.vdisks['v']
        self.cloud.wait(100)
        self.assertEqual('v', self.cloud.state.move.vdisk)
        self.cloud.finish('failed')
        self.assertEqual({'n', 'w'}, self.cloud.state.vdisks.keys())
        self.assertIsNotNone(self.cloud.wait(300, w=BUSY))


class OrdersTest(PolicyTestCase):
    def order(self, **overrides):
        self.cloud.overrides = inputs.Overrides(**overrides)

    def test_forbidden_vdisk(self):
        self.order(forbidden=frozenset('v'))
        self.assertIsNone(self.cloud.wait(300, v=BUSY))
        self.assertEqual('the operator forbids moves', self.cloud.why())
        self.order()
        # it was measured all the time
        self.assertIsNotNone(self.cloud.observe().move)

    def test_forbidden_host(self):
        self.order(forbid_all=True, forced={'v': 4})
        self.assertIsNone(self.cloud.wait(300, v=BUSY))
        self.assertEqual('the operator forbids moves', self.cloud.why())

    def test_forced(self):
        self.order(forced={'v': 3})
        move = self.cloud.observe(v=QUIET).move
        self.assertEqual(3, move.width)
        self.assertTrue(move.forced)
        self.assertEqual('the operator forces a width of 3', move.why)
        self.cloud.finish()
        self.assertIsNone(self.cloud.wait(300))
        self.assertIsNone(self.cloud.wait(300, v=BUSY))
        self.assertEqual('the operator forces a width of 3', self.cloud.why())

    def test_forced_before_any_other(self):
        self.cloud.vdisks['w'] = hosts.vdisk('b')
        self.cloud.wait(20, v=BUSY)
        self.order(forced={'w': 2})
        self.assertEqual('w', self.cloud.observe().move.vdisk)

    def test_forced_out_of_range(self):
        self.order(forced={'v': 5})
        self.assertIsNone(self.cloud.wait(100, v=BUSY))
        self.assertEqual(
            'the operator forces a width of 5, which is not from 1 to 4',
            self.cloud.why(),
        )

    def test_both(self):
        error = self.assertRaises(
            ValueError,
            inputs.Overrides,
            forbidden=frozenset('vw'),
            forced={'v': 1, 'w': 2},
        )
        self.assertIn('both forbidden and forced of: v, w', str(error))


class MeasurementTest(PolicyTestCase):
    def test_gap(self):
        self.cloud.wait(20, v=BUSY)
        self.cloud.now += 11
        self.assertIsNone(self.cloud.wait(20))
        self.assertEqual(
            'measured for 20 of 30 s on its disks', self.cloud.why()
        )
        self.assertIsNotNone(self.cloud.observe().move)

    def test_quiet_does_not_outlast_a_gap(self):
        self.cloud.vdisks['v'] = hosts.vdisk('a', 'b')
        self.cloud.wait(80, v=QUIET)
        self.cloud.now += 1000
        self.assertIsNone(self.cloud.wait(80))
        self.assertEqual('quiet for 50 s of 60 s', self.cloud.why())

    def test_disk_that_is_not_ok(self):
        self.cloud.wait(20, v=BUSY)
        disk = self.cloud.disks.pop('a')
        self.assertIsNone(self.cloud.wait(100))
        self.assertEqual('disk a is not ok', self.cloud.why())
        self.assertIsNone(self.cloud.decision.verdicts['v'].figures)
        self.cloud.disks['a'] = disk
        self.assertIsNone(self.cloud.wait(20))
        self.assertIsNotNone(self.cloud.wait(20))

    def test_moved_by_something_else(self):
        self.cloud.wait(20, v=BUSY)
        self.cloud.vdisks['v'] = hosts.vdisk('b')
        self.assertIsNone(self.cloud.wait(20))
        self.assertIsNotNone(self.cloud.observe().move)

    def test_use_before_a_move_does_not_count(self):
        self.widened()
        ended = self.cloud.now
        self.widened()
        self.assertEqual(30, self.cloud.now - ended)

    def test_figures(self):
        self.cloud.vdisks['v'] = hosts.vdisk('a', 'b')
        self.cloud.others = {'b': 0.5}
        self.cloud.wait(20, v=0.2)
        self.assertIsNone(self.cloud.decision.verdicts['v'].figures)
        figures = self.cloud.observe().verdicts['v'].figures
        self.assertAlmostEqual(0.7, figures.pressure)
        self.assertAlmostEqual(0.2, figures.use)
        self.assertAlmostEqual(0.2, figures.own_pressure)
