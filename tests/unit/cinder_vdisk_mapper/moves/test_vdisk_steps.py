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
import functools
import itertools
import os
import types
import unittest
from unittest import mock

from hypothesis import example
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from cinder_vdisk_mapper.moves import vdisk_steps
from nova_diskplacer import exception
from tests.unit.cinder_vdisk_mapper.moves import world as worlds
from tests.unit.cinder_vdisk_mapper.moves.world import A
from tests.unit.cinder_vdisk_mapper.moves.world import B

# Schedules of each test; many thousands before a release.
SCHEDULES = int(os.environ.get('DRAIN_SCHEDULES', '300'))

COMMANDS = st.tuples(
    st.sampled_from(('drain', 'drain', 'cancel')),
    st.sampled_from((A, A, B)),
    st.integers(1, 26),
)
EVENTS = (
    '',
    '',
    '',
    'boot',
    'stop',
    'write',
    'die',
    'revive',
    'start_driver',
    'lose_copy',
    'open_source',
    'close_source',
)


class MoverTestCase(unittest.TestCase):
    def make_world(self, *arguments, **kwargs):
        world = worlds.World(*arguments, **kwargs)
        clock = types.SimpleNamespace(
            sleep=world.step, monotonic=lambda: world.steps
        )
        patch = mock.patch.object(vdisk_steps, 'time', clock)
        patch.start()
        self.addCleanup(patch.stop)
        return world

    def assert_moved(self, world):
        self.assertEqual({B: world.written}, world.data)
        self.assertEqual((B, None), (world.saved, world.record))
        self.assertIn(world.link, (B, None))
        self.assertFalse(world.parked)
        world.boot()

    def assert_taken_back(self, world):
        self.assertEqual({A: world.written}, world.data)
        self.assertEqual((A, None), (world.saved, world.record))
        self.assertIn(world.link, (A, None))
        self.assertFalse(world.parked)
        world.boot()

    def finish(self, world):
        """End a drain of the other disk, and repeat that of the first."""
        self.assertTrue(world.command('cancel', B))
        for _ in range(2):
            self.assertEqual('', world.drain(A))
        self.assert_moved(world)

    def killed(self, runs, command='drain'):
        """Yield worlds in which a move was killed after each of its steps."""
        for fatal in itertools.count(1):
            world = self.make_world(runs)
            if world.command(command, A, fatal=fatal):
                self.assertGreater(fatal, 5)
                return
            yield world


class WalkTestCase(MoverTestCase):
    def test_move(self):
        for runs, linked in ((True, True), (False, True), (False, False)):
            world = self.make_world(runs, linked)
            self.assertEqual('', world.drain(A))
            # it can migrate live
            self.assertFalse(world.denied)
            self.finish(world)

    def test_killed_while_qemu_leaves_the_source(self):
        """No server starts from the wrong copy, or has to wait for long."""
        parked = 0
        for world in self.killed(True):
            if not world.parked:
                continue
            parked += 1
            world.boot()
            self.assertIsNone(world.qemu)
            world.start_driver()
            world.boot()
            self.assertEqual(B, world.qemu)
            world.write()
            self.finish(world)
        self.assertGreater(parked, 1)

    def test_killed_and_repeated(self):
        for runs in (True, False):
            for world in self.killed(runs):
                self.finish(world)

    def test_killed_and_rebooted(self):
        for runs in (True, False):
            for world in self.killed(runs):
                world.boot()
                world.write()
                self.finish(world)

    def test_killed_and_stopped(self):
        for runs in (True, False):
            for world in self.killed(runs):
                world.stop()
                self.finish(world)

    def test_killed_and_the_source_is_read(self):
        # by a process that is no server; the server has written to its disk
        for runs, command in itertools.product(
            (True, False), ('drain', 'cancel')
        ):
            for world in self.killed(runs):
                world.boot()
                world.write()
                world.stop()
                world.open_source()
                with contextlib.suppress(exception.DiskPlacerError):
                    world.command(command, A)
                world.close_source()
                world.boot()
                self.finish(world)

    def test_read_by_another_process_at_any_time(self):
        for runs, read, stopped in itertools.product(
            (True, False), range(1, 26), range(1, 26)
        ):
            world = self.make_world(runs)
            steps = itertools.count(1)

            def happen(world=world, steps=steps, read=read, stopped=stopped):
                now = next(steps)
                if now == read:
                    world.open_source()
                    world.happened = True
                elif now == stopped:
                    world.stop()
                    world.happened = True

            world.meanwhile = happen
            with contextlib.suppress(exception.DiskPlacerError):
                world.command('drain', A)
            world.meanwhile = lambda: None
            world.close_source()
            world.boot()
            self.finish(world)

    def test_killed_and_the_copy_fails(self):
        for world in self.killed(True):
            world.lose_copy()
            world.write()
            self.finish(world)

    def test_killed_and_taken_back(self):
        for runs in (True, False):
            for world in self.killed(runs):
                decided = world.link == B
                self.assertTrue(world.command('cancel', A))
                if decided:
                    self.finish(world)
                else:
                    self.assert_taken_back(world)

    def test_killed_and_the_other_disk(self):
        # it is only the target: nothing of it is finished or destroyed
        for runs, command in itertools.product(
            (True, False), ('drain', 'cancel')
        ):
            for world in self.killed(runs):
                before = dict(world.data)
                if world.place == A:
                    world.quiet = True
                    qemu, world.qemu = world.qemu, None
                    self.assertTrue(world.command(command, B))
                    world.qemu = qemu
                    self.assertEqual(before, world.data)
                    self.finish(world)

    def test_beside_a_drain_or_cancel_of_the_other_disk(self):
        # even if nothing but the rules keeps it off
        for runs, command, step in itertools.product(
            (True, False), ('drain', 'cancel'), range(1, 30)
        ):
            world = self.make_world(runs)
            world.meanwhile = self.at_step(
                world, step, functools.partial(world.intrude, command, B)
            )
            with contextlib.suppress(exception.DiskPlacerError):
                world.command('drain', A)
            world.meanwhile = lambda: None
            world.boot()
            self.finish(world)

    def at_step(self, world, step, event):
        steps = itertools.count(1)

        def happen():
            if next(steps) == step:
                event()

        return happen

    def test_target_dies(self):
        for runs, step in itertools.product((True, False), range(1, 30)):
            world = self.make_world(runs)
            world.meanwhile = self.at_step(world, step, world.die)
            with contextlib.suppress(exception.DiskPlacerError):
                world.command('drain', A)
            if world.dead and A not in world.data:
                # it died after the move
                self.assertIsNone(world.record)
            world.meanwhile = lambda: None
            world.revive()
            self.finish(world)

    def test_pivot_with_an_error(self):
        for after in ('refused', *range(8)):
            for stopped in (False, True):
                world = self.make_world()
                world.pivots = iter([after])
                if stopped:
                    world.meanwhile = self.at_step(world, 12, world.stop)
                with contextlib.suppress(exception.DiskPlacerError):
                    world.command('drain', A)
                world.meanwhile = lambda: None
                self.finish(world)

    def test_pivot_that_an_abort_does_not_stop(self):
        world = self.make_world()
        world.pivots = iter([100, 'too late'])
        self.assertTrue(world.command('drain', A))
        self.assert_moved(world)

    def test_libvirt_is_away_for_hours(self):
        # the volume is locked for a minute; then it is as after a kill
        for event in ('', 'boot', 'stop', 'lose_copy'):
            world = self.make_world()
            world.away = True
            with self.assertRaisesRegex(exception.HypervisorError, 'repeat'):
                world.command('drain', A)
            self.assertFalse(world.is_locked)
            self.assertEqual({A, B}, world.data.keys())
            world.away = False
            if event:
                getattr(world, event)()
            world.write()
            self.finish(world)

    def test_late_pivot_of_a_killed_run(self):
        for fatal, after in itertools.product(range(8, 20), range(8)):
            world = self.make_world()
            world.pivots = iter([after])
            with contextlib.suppress(exception.DiskPlacerError):
                world.command('drain', A, fatal=fatal)
            world.pivots = iter(())
            for _ in range(10):
                world.step()
            self.finish(world)

    def test_qemu_has_left_the_source(self):
        world = self.make_world()
        world.command('drain', A, fatal=4)
        world.job()
        world.conclude()
        world.write()
        self.assertEqual(A, world.link)
        self.finish(world)


class ScheduleTestCase(MoverTestCase):
    @settings(max_examples=SCHEDULES, deadline=None)
    @given(
        runs=st.booleans(),
        linked=st.booleans(),
        commands=st.lists(COMMANDS, max_size=6),
        events=st.lists(st.sampled_from(EVENTS), max_size=60),
        broken=st.lists(st.booleans(), max_size=12),
        pivots=st.lists(
            st.sampled_from(('', '', 'refused', 'too late', 0, 1, 2, 3, 5)),
            max_size=5,
        ),
    )
    @example(
        True, True, [('drain', A, 7)], ['', '', '', 'boot', 'stop'], [], []
    )
    def test_whatever_happens(
        self, runs, linked, commands, events, broken, pivots
    ):
        world = self.make_world(runs, linked)
        happens = iter(events)

        def meanwhile():
            event = next(happens, '')
            world.happened = bool(event)
            if event == 'start_driver':
                world.intrude(event)
            elif event:
                getattr(world, event)()

        world.meanwhile = meanwhile
        world.broken, world.pivots = iter(broken), iter(pivots)
        for name, disk, kill in commands:
            with contextlib.suppress(exception.DiskPlacerError):
                world.command(name, disk, fatal=kill)
        world.meanwhile = lambda: None
        world.revive()
        world.close_source()
        world.broken, world.pivots = iter(()), iter(())
        for _ in range(10):
            world.step()
        # a disk that came back may have a copy whose move is forgotten
        world.intrude('start_driver')
        for _ in range(2):
            self.finish(world)


class RefusalTestCase(MoverTestCase):
    def test_while_another_runs(self):
        world = self.make_world()
        refused = []

        def intrude():
            for name, disk in itertools.product(('drain', 'cancel'), (A, B)):
                try:
                    world.command(name, disk)
                except exception.DiskError:
                    refused.append(disk)

        world.meanwhile = intrude
        self.assertTrue(world.command('drain', A))
        self.assertLess(10, len(refused))
        self.assert_moved(world)

    def test_another_job(self):
        world = self.make_world()
        world.job = lambda: vdisk_steps.Job('/elsewhere', 0, 1, False)
        with self.assertRaisesRegex(exception.DiskError, '/elsewhere'):
            world.command('drain', A)
        self.assertEqual({A: world.written}, world.data)

    def test_in_use_by_another_process(self):
        world = self.make_world()
        world.guest = lambda: None
        with self.assertRaisesRegex(exception.DiskError, 'in use'):
            world.command('drain', A)
        self.assertEqual(A, world.link)

    def test_stopped_while_it_is_copied(self):
        world = self.make_world()
        world.create = lambda source: world.stop()
        with self.assertRaisesRegex(exception.DiskError, 'stopped'):
            world.command('drain', A)
        self.assertEqual(A, world.link)

    def test_refused_pivot(self):
        world = self.make_world()
        world.pivots = iter(['refused'])
        with self.assertRaises(exception.HypervisorError):
            world.command('drain', A)
        self.assert_taken_back(world)

    def test_written_to_at_the_last_moment(self):
        # by a server that has opened the source before the decision
        world = self.make_world(False)
        decide = world.decide

        def decide_late(source, moved):
            decide(source, moved)
            if moved:
                world.written += 1
                world.data[A] = world.written
                world.writes[A] += 1

        world.decide = decide_late
        with self.assertRaisesRegex(exception.DiskError, 'wrote to it'):
            world.command('drain', A)
        self.assert_taken_back(world)

    def test_filled_before_the_decision(self):
        """Blocks that QEMU has left out count as free until they are."""
        for runs in (True, False):
            world = self.make_world(runs)
            done = []
            move = world.move(A)
            move.fill = lambda done=done: done.append('fill')
            move.decide = lambda moved, done=done: done.append('decide')
            with self.assertRaises(exception.DiskError):
                # nothing was decided
                vdisk_steps.run(move)
            self.assertEqual(['fill', 'decide'][not runs :], done[: 1 + runs])

    def test_copy_without_a_record(self):
        for command in ('drain', 'cancel'):
            world = self.make_world(False)
            world.data[B] = 0
            world.command(command, B)
            self.assertEqual({A: 1, B: 0}, world.data)
            self.finish(world)
