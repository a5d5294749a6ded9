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
import dataclasses
import itertools
import types
import unittest
from unittest import mock

import fixtures
import testtools
from cinder import objects
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from oslo_config import cfg
from oslo_config import fixture as config_fixture

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.moves import vdisk_steps
from cinder_vdisk_mapper.server_moves import at_rest
from cinder_vdisk_mapper.server_moves import other_host
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import remote as sessions
from cinder_vdisk_mapper.server_moves import settle_move
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.vdisks import locks
from nova_diskplacer import exception
from nova_diskplacer.disks import links
from nova_diskplacer.disks import remote as remote_vdisks
from nova_diskplacer.host import saved_settings
from tests.unit.cinder_vdisk_mapper.moves import test_vdisk_steps
from tests.unit.cinder_vdisk_mapper.moves.world import A
from tests.unit.cinder_vdisk_mapper.moves.world import B
from tests.unit.cinder_vdisk_mapper.server_moves import settle_world

EVENTS = (
    '',
    '',
    '',
    'boot',
    'stop',
    'write',
    'die',
    'revive',
    'lose_copy',
    'go_away',
    'come_back',
    'start_driver',
    'extend',
    'go_home',
    'ask',
)


class SettlingTestCase(unittest.TestCase):
    def make_world(self, runs=True):
        world = settle_world.World(runs)
        clock = types.SimpleNamespace(
            sleep=world.step, monotonic=lambda: float(world.steps)
        )
        for target, name, value in (
            (vdisk_steps, 'time', clock),
            (settle_move, 'time', clock),
            (settle_move, '_LOOK_PAUSE', 0.0),
            (locks, 'hold_within', lambda name, _: world.hold(name)),
            (store, 'read', world.read_record),
            (store, 'advance', world.advance),
            (store, 'changed', world.changed),
            (store, 'copied', lambda _: world.copied),
            (store, 'fresh', world.fresh),
            (
                store,
                'connectors',
                lambda _: dict.fromkeys(
                    ('here', 'there') if world.went_home else ('here',)
                ),
            ),
            (objects.SnapshotList, 'get_all_for_volume', lambda *_: []),
            (nova_api, 'get', lambda context, uuid: self.server(world)),
            (sessions, 'log_out', lambda backend, name: world.log_out()),
            (links, 'remote_device', lambda *_: A if world.session else None),
            (remote_vdisks, 'path', lambda *_: A),
            (remote_vdisks, 'in_use', world.in_use),
            (remote_vdisks, 'writes', lambda _: world.source_writes()),
            (other_host, 'is_removed', lambda _: world.removed),
            (remote_vdisks, 'size_bytes', lambda _: world.remote_bytes()),
        ):
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        return world

    def server(self, world):
        return nova_api.Server(
            settle_world.SERVER,
            'project',
            'here',
            None,
            task=world.task,
            status='ACTIVE' if world.qemu else 'SHUTOFF',
        )

    def killed(self, runs):
        """Yield worlds in which settling was killed after each step."""
        for fatal in itertools.count(1):
            world = self.make_world(runs)
            if world.command('settle', fatal=fatal):
                self.assertGreater(fatal, 8)
                return
            yield world

    def finish(self, world):
        """Repeat what was interrupted, as the service does."""
        world.meanwhile = lambda: None
        world.broken, world.pivots = iter(()), iter(())
        world.come_back()
        world.revive()
        if world.went_home:
            self.assert_home(world)
            return
        for _ in range(3):
            if world.record:
                with contextlib.suppress(exception.DiskPlacerError):
                    world.command('settle')
        self.assert_settled(world)

    def assert_settled(self, world):
        self.assertEqual({B: world.written}, world.data)
        self.assertEqual((B, B), (world.saved, world.link))
        self.assertIsNone(world.record)
        self.assertFalse(world.session)
        self.assertEqual(world.size_gb, world.target_gb)
        world.boot()

    def assert_home(self, world):
        """The server and its data are as if nothing had been copied."""
        with contextlib.suppress(at_rest.Waits):
            world.command('settle')
        self.assertFalse(world.copying)
        self.assertEqual((A, A), (world.saved, world.link))
        self.assertEqual(world.written, world.data[A])
        self.assertTrue(world.session)
        world.boot()


class WalkTestCase(SettlingTestCase):
    def test_settle(self):
        for runs in (True, False):
            world = self.make_world(runs)
            self.assertTrue(world.command('settle'))
            self.assert_settled(world)
            # it can migrate live
            self.assertFalse(world.denied)

    def test_killed_and_repeated(self):
        for runs, event in itertools.product(
            (True, False),
            ('write', 'boot', 'stop', 'lose_copy', 'start_driver', 'extend'),
        ):
            for world in self.killed(runs):
                getattr(world, event)()
                world.write()
                self.finish(world)

    def test_killed_and_written_to_before_anybody_looks(self):
        """A server has opened the source just before the link was changed."""
        kills = 0
        for is_target_written in (False, True):
            for world in self.killed(False):
                if (world.link, world.saved) != (B, A):
                    continue
                kills += 1
                world.written += 1
                world.data[A] = world.written
                world.writes[A] += 1
                if not is_target_written:
                    world.go_away()
                    # nobody can look now
                    with self.assertRaises(remote_vdisks.Away):
                        world.command('settle')
                    self.assertEqual(A, world.saved)
                    self.finish(world)
                    continue
                world.written += 1
                world.data[B] = world.written
                world.writes[B] += 1
                # it cannot be mended, and the last one to write counts
                with self.assertLogs(settle_move.LOG.logger, 'ERROR'):
                    self.finish(world)
        self.assertGreater(kills, 1)

    def test_killed_and_the_other_host_is_removed(self):
        for world in self.killed(False):
            if (world.link, world.saved) == (B, A):
                world.go_away()
                world.removed = True
                world.command('settle')
                self.assertEqual(B, world.saved)
                break
        else:
            self.fail('it was never killed there')

    def test_killed_and_this_host_is_booted(self):
        """Nothing makes the session again, and nothing needs it."""
        boots, decided = itertools.count(), 0
        for world in self.killed(False):
            if (world.link, world.saved) != (B, A):
                continue
            decided += 1
            world.gone = True
            world.go_away()
            boot = f'boot-{next(boots)}'
            with mock.patch.object(
                saved_settings, 'boot_id', lambda boot=boot: boot
            ):
                world.command('settle')
            self.assertEqual(B, world.saved)
        self.assertGreater(decided, 0)

    def test_killed_and_the_server_goes_home(self):
        decided = set()
        for runs in (True, False):
            for world in self.killed(runs):
                world.go_home()
                decided.add(world.went_home)
                self.finish(world)
        self.assertEqual({True, False}, decided)

    def test_another_request_has_the_volume_when_qemu_has_copied_it(self):
        world = self.make_world()
        waited = []

        def hold(name, _):
            if world.ready and not waited:
                waited.append(name)
                raise locks.Held
            return world.hold(name)

        with mock.patch.object(locks, 'hold_within', hold):
            self.assertRaises(at_rest.Waits, world.command, 'settle')
            # nothing is copied again
            self.assertTrue(world.copying)
            self.finish(world)

    def test_another_request_has_the_volume_when_it_is_copied(self):
        """The copy of a server that is off counts, if nobody writes."""

        def write(world):
            world.boot()
            world.write()
            world.stop()

        def write_at_home(world):
            world.go_home()
            world.written += 1
            # no write of this host's session
            world.data[A] = world.written
            world.record = dataclasses.replace(world.record, phase=record.LEFT)

        copy = settle_world.World.copy_remote
        for happens, copies in (
            (lambda world: None, 1),
            (write, 2),
            (write_at_home, 2),
        ):
            world, starts = self.make_world(False), []

            def copy_and_ask(world, disk, name, start, starts=starts):
                starts.append(start)
                after = copy(world, disk, name, start)
                if after is None and len(starts) == 2:
                    world.ask()
                return after

            with mock.patch.object(
                settle_world.World, 'copy_remote', copy_and_ask
            ):
                self.assertRaises(at_rest.Waits, world.command, 'settle')
                happens(world)
                self.finish(world)
            self.assertEqual([0, 1] * copies, starts)

    def test_the_other_host_is_away(self):
        """The server waits, nothing is decided, and all goes on after it."""
        for runs, step in itertools.product((True, False), range(1, 30)):
            world = self.make_world(runs)
            world.meanwhile = self.at(step, world.go_away)
            with contextlib.suppress(exception.DiskPlacerError):
                world.command('settle')
            if world.blocked and world.saved == A:
                self.assertEqual(world.written, world.data[A])
            self.finish(world)

    def test_the_disk_here_fails(self):
        for runs, step in itertools.product((True, False), range(1, 30)):
            world = self.make_world(runs)
            world.meanwhile = self.at(step, world.die)
            with contextlib.suppress(exception.DiskPlacerError):
                world.command('settle')
            if world.dead:
                self.assertEqual(A, world.saved)
                if world.qemu != B:
                    self.assertEqual(world.written, world.data[A])
            self.finish(world)

    def test_each_answer_of_the_database_is_lost(self):
        for runs, number in itertools.product((True, False), range(60)):
            world = self.make_world(runs)
            world.broken = itertools.chain(
                itertools.repeat(False, number), [True]
            )
            with contextlib.suppress(exception.DiskPlacerError):
                world.command('settle')
            self.finish(world)

    def at(self, step, event):
        steps = itertools.count(1)

        def happen():
            if next(steps) == step:
                event()

        return happen

    def test_a_process_that_is_to_end(self):
        """QEMU goes on with its copy, and the next process takes it up."""
        world = self.make_world()
        world.stopping = True
        with self.assertRaises(settle_move.Stopped):
            world.command('settle')
        self.assertTrue(world.copying)
        world.stopping = False
        self.finish(world)

    def test_a_server_that_is_not_to_be_disturbed(self):
        for runs in (True, False):
            world = self.make_world(runs)
            world.task = 'migrating'
            with self.assertRaisesRegex(at_rest.Waits, 'migrating'):
                world.command('settle')
            # nothing was begun
            self.assertEqual(0, world.data[B])
            world.task = None
            self.finish(world)

    def test_a_task_of_nova_while_it_copies(self):
        """The copy ends at once, not when it is done."""
        world = self.make_world()
        world.job = lambda: (
            vdisk_steps.Job(B, 1, 2, False) if world.copying else None
        )
        world.meanwhile = self.at(9, lambda: setattr(world, 'task', 'x'))
        with self.assertRaises(at_rest.Waits):
            world.command('settle')
        self.assertFalse(world.copying)
        self.assertEqual(record.LEFT, world.record.phase)

    def test_a_volume_that_was_detached_before_the_source_was_back(self):
        world = self.make_world()
        world.meanwhile = self.at(11, world.go_away)
        while world.saved == A:
            world.command('settle')
        world.go_away()
        world.guest = mock.Mock(side_effect=exception.DiskError('no disk'))
        world.command('settle')
        self.assertIsNotNone(world.record)
        world.come_back()
        world.command('settle')
        self.assert_settled(world)

    def test_nothing_leads_back_from_here(self):
        world = self.make_world()
        world.saved = world.link = B
        with self.assertRaisesRegex(exception.DiskError, 'already'):
            world.move().decide(False)
        self.assertEqual(B, world.link)

    def test_no_logout_while_the_device_is_open(self):
        for change in (
            lambda world: setattr(world, 'saved', A),
            lambda world: setattr(world, 'link', A),
            lambda world: setattr(world, 'qemu', A),
            lambda world: setattr(world, 'dead', {B}),
        ):
            world = self.make_world(False)
            world.saved = world.link = B
            change(world)
            with self.assertRaises(exception.DiskError):
                world.move().source.condemn()
            self.assertTrue(world.session)

    def test_volumes_that_stay(self):
        volume = self.make_world().fresh('1')
        self.assertEqual('', self.obstacle(volume))
        # a user has extended it, and cannot set its status back
        refused = types.SimpleNamespace(
            **vars(volume) | {'status': 'error_extending'}
        )
        self.assertEqual('', self.obstacle(refused))
        for name, value in (
            ('status', 'extending'),
            ('status', 'backing-up'),
            ('migration_status', 'migrating'),
            ('group_id', 'group'),
            ('volume_attachment', []),
            ('volume_attachment', [*volume.volume_attachment, mock.Mock()]),
        ):
            changed = types.SimpleNamespace(**vars(volume) | {name: value})
            self.assertNotEqual('', self.obstacle(changed), (name, value))

    def obstacle(self, volume):
        return at_rest.obstacle(volume, settle_world.SERVER)

    def test_where_it_waits(self):
        world = self.make_world(False)
        move = world.move()
        for target, name, value in (
            (store, 'connectors', lambda _: {'here': {}, 'third': {}}),
            (objects.SnapshotList, 'get_all_for_volume', lambda *_: [1]),
            (nova_api, 'get', lambda *_: None),
            (
                nova_api,
                'get',
                lambda *_: mock.Mock(host='there', is_at_rest=True),
            ),
        ):
            with mock.patch.object(target, name, value):
                self.assertRaises(at_rest.Waits, move.check)
        move.check()


class ScheduleTestCase(SettlingTestCase):
    @settings(max_examples=test_vdisk_steps.SCHEDULES, deadline=None)
    @given(
        runs=st.booleans(),
        kills=st.lists(st.integers(1, 40), max_size=6),
        events=st.lists(st.sampled_from(EVENTS), max_size=80),
        broken=st.lists(st.booleans(), max_size=40),
        pivots=st.lists(
            st.sampled_from(('', '', 'refused', 'too late', 0, 1, 2, 3, 5)),
            max_size=5,
        ),
    )
    def test_whatever_happens(self, runs, kills, events, broken, pivots):
        world = self.make_world(runs)
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
        for kill in kills:
            if world.record:
                with contextlib.suppress(exception.DiskPlacerError):
                    world.command('settle', fatal=kill)
        world.meanwhile = lambda: None
        for _ in range(10):
            world.step()
        self.finish(world)


class LockTest(testtools.TestCase):
    def test_another_request_does_not_end(self):
        """Its session may hang; the next attempt waits again."""
        directory = self.useFixture(fixtures.TempDir()).path
        conf = self.useFixture(config_fixture.Config(cfg.CONF))
        conf.config(lock_path=directory, group='oslo_concurrency')
        self.useFixture(
            fixtures.MockPatchObject(settle_move, '_LOCK_PATIENCE', 0.05)
        )
        move = settle_world.World(False).move()
        for kind in ('move', 'volume'):
            with locks.hold(f'{kind}-1'):
                self.assertRaisesRegex(
                    at_rest.Waits, 'has not ended', move.locked().__enter__
                )
        # nothing of the first lock is left
        with move.locked():
            pass
