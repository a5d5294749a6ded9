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
import itertools
import unittest
from unittest import mock

from hypothesis import example
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from cinder_vdisk_mapper.drain import mover
from nova_diskplacer import exception

SOURCE, TARGET = 'source', 'target'


class Killed(BaseException):
    """The process that moves a vdisk ends at once."""


class Lost(AssertionError):
    """A server does not find what it has written."""


class World:
    """A server, QEMU, and a vdisk that may be in two places.

    ``written`` counts the server's writes, ``data`` is the last one in each
    place. QEMU has the place ``qemu`` open, None if the server is stopped,
    and copies to the target if ``copying``; from ``ready`` on it writes to
    both. ``fatal`` is the step after which the process is killed. While the
    volume is locked, which is for moments, one thing may happen at most.
    """

    def __init__(self, runs=True):
        self.written = self.written_to_source = 1
        self.data = {SOURCE: 1}
        self.link = self.saved = SOURCE
        self.copying = self.ready = False
        self.qemu = None
        self.fatal = None
        self.steps = 0
        self.meanwhile = lambda: None
        self.quiet = False
        if runs:
            self.boot()

    # the server

    def boot(self):
        self.stop()
        self.qemu = self.link
        if self.data.get(self.qemu) != self.written:
            raise Lost(f'{self.qemu}: {self.data}, written {self.written}')

    def stop(self):
        self.qemu = None
        self.copying = self.ready = False

    def write(self):
        if self.qemu is None:
            return
        self.written += 1
        self.data[self.qemu] = self.written
        self.written_to_source += self.qemu == SOURCE
        if self.ready:
            self.data[TARGET] = self.written

    def lose_copy(self):
        self.copying = self.ready = False

    # what a move does

    def step(self):
        self.steps += 1
        if self.steps == self.fatal:
            raise Killed
        if not self.quiet:
            self.meanwhile()
        self.write()

    @contextlib.contextmanager
    def locked(self):
        meanwhile = self.meanwhile

        def once():
            meanwhile()
            self.quiet = self.happened

        self.happened = False
        self.meanwhile = once
        try:
            yield
        finally:
            self.meanwhile, self.quiet = meanwhile, False

    def create(self):
        self.data.setdefault(TARGET, 0)
        self.step()

    def delete(self, place):
        if self.in_use(place):
            raise exception.DiskError('in use')
        self.data.pop(place, None)
        self.step()

    def in_use(self, place):
        return self.qemu == place or (self.copying and place == TARGET)

    def copy(self):
        content = self.data[SOURCE]
        self.step()
        if self.qemu is not None:
            raise exception.DiskError('in use')
        self.data[TARGET] = content
        self.step()
        if self.data[SOURCE] != content:
            raise exception.DiskError('written to')

    def decide(self, moved):
        self.link = TARGET if moved else SOURCE
        self.step()

    def save(self):
        self.saved = TARGET
        self.step()

    def guest(self):
        return self if self.qemu else None

    # the guest's disk

    def job(self):
        if not self.copying:
            return None
        found = mover.Job(TARGET, 1, 2, self.ready)
        if not self.ready:
            self.ready = True
            self.data[TARGET] = self.data[self.qemu]
        return found

    def start(self, path):
        assert path == TARGET
        if self.qemu is None:
            raise exception.DiskError('stopped')
        self.copying = True
        self.step()

    def pivot(self):
        if not self.ready:
            raise exception.HypervisorError('no copy is ready')
        self.qemu = TARGET
        self.lose_copy()
        self.step()

    def abort(self):
        self.lose_copy()
        self.step()

    def move(self):
        return mover.Move(
            mover.Place(
                SOURCE,
                lambda: self.delete(SOURCE),
                lambda: self.in_use(SOURCE),
            ),
            mover.Place(
                TARGET,
                lambda: self.delete(TARGET),
                lambda: self.in_use(TARGET),
            ),
            self.create,
            self.guest,
            self.copy,
            lambda: str(self.written_to_source),
            self.step,
            lambda: self.link == TARGET,
            self.decide,
            self.save,
            self.step,
            self.locked,
            lambda done, total: self.step(),
        )

    def run(self, function=mover.run, fatal=None):
        """Run a move; returns False if it was killed."""
        self.steps, self.fatal = 0, fatal
        try:
            function(self.move())
        except Killed:
            return False
        finally:
            self.fatal = None
        return True


class WalkTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        patch = mock.patch('time.sleep')
        patch.start()
        self.addCleanup(patch.stop)

    def assert_moved(self, world):
        self.assertEqual({TARGET: world.written}, world.data)
        self.assertEqual((TARGET, TARGET), (world.link, world.saved))
        world.boot()

    def assert_taken_back(self, world):
        self.assertEqual({SOURCE: world.written}, world.data)
        self.assertEqual((SOURCE, SOURCE), (world.link, world.saved))
        world.boot()

    def worlds(self, runs):
        """Yield worlds in which a move was killed after each of its steps."""
        for fatal in itertools.count(1):
            world = World(runs)
            if world.run(fatal=fatal):
                self.assertGreater(fatal, 5)
                return
            yield world

    def test_move(self):
        for runs in (True, False):
            world = World(runs)
            self.assertTrue(world.run())
            self.assert_moved(world)

    def test_killed_and_repeated(self):
        for runs in (True, False):
            for world in self.worlds(runs):
                self.assertTrue(world.run())
                self.assert_moved(world)

    def test_killed_and_rebooted(self):
        for runs in (True, False):
            for world in self.worlds(runs):
                world.boot()
                world.write()
                self.assertTrue(world.run())
                self.assert_moved(world)

    def test_killed_and_stopped(self):
        for runs in (True, False):
            for world in self.worlds(runs):
                world.stop()
                self.assertTrue(world.run())
                self.assert_moved(world)

    def test_killed_and_the_copy_fails(self):
        for world in self.worlds(True):
            world.lose_copy()
            world.write()
            self.assertTrue(world.run())
            self.assert_moved(world)

    def test_killed_and_taken_back(self):
        for runs in (True, False):
            for world in self.worlds(runs):
                decided = world.link == TARGET
                if SOURCE not in world.data:
                    continue
                self.assertTrue(world.run(mover.take_back))
                if decided:
                    self.assert_moved(world)
                else:
                    self.assert_taken_back(world)

    @settings(max_examples=1000, deadline=None)
    @given(
        runs=st.booleans(),
        kills=st.lists(st.integers(1, 14), max_size=4),
        events=st.lists(
            st.sampled_from(('', '', '', 'boot', 'stop', 'write')),
            max_size=30,
        ),
    )
    @example(True, [7], ['', '', '', 'boot', 'stop'])
    def test_whatever_happens_meanwhile(self, runs, kills, events):
        world = World(runs)
        happens = iter(events)

        def meanwhile():
            event = next(happens, '')
            world.happened = bool(event)
            if event:
                getattr(world, event)()

        world.meanwhile = meanwhile
        for kill in kills:
            with contextlib.suppress(exception.DiskPlacerError):
                world.run(fatal=kill)
        world.meanwhile = lambda: None
        self.assertTrue(world.run())
        self.assert_moved(world)


class RefusalTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        patch = mock.patch('time.sleep')
        patch.start()
        self.addCleanup(patch.stop)

    def test_another_job(self):
        world = World()
        world.job = lambda: mover.Job('/elsewhere', 0, 1, False)
        with self.assertRaisesRegex(exception.DiskError, '/elsewhere'):
            world.run()
        self.assertEqual({SOURCE: world.written}, world.data)

    def test_in_use_by_another_process(self):
        world = World()
        world.guest = lambda: None
        with self.assertRaisesRegex(exception.DiskError, 'in use'):
            world.run()
        self.assertEqual(SOURCE, world.link)

    def test_stopped_while_it_is_copied(self):
        world = World()
        world.create = world.stop
        with self.assertRaisesRegex(exception.DiskError, 'stopped'):
            world.run()
        self.assertEqual(SOURCE, world.link)

    def test_failed_pivot(self):
        world = World()

        def fail():
            raise exception.HypervisorError('no')

        world.pivot = fail
        with self.assertRaises(exception.HypervisorError):
            world.run()
        self.assertEqual((SOURCE, SOURCE), (world.link, world.saved))
        self.assertTrue(world.run(mover.take_back))
        self.assertEqual({SOURCE: world.written}, world.data)
