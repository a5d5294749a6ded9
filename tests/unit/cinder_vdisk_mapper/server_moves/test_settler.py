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


import argparse
import contextlib
import io
import itertools
import os
import threading
import types
from unittest import mock

import fixtures
import testtools

from cinder_vdisk_mapper.cmd import settle
from cinder_vdisk_mapper.server_moves import at_rest
from cinder_vdisk_mapper.server_moves import lost_source
from cinder_vdisk_mapper.server_moves import other_host
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import settle_attempt
from cinder_vdisk_mapper.server_moves import settle_states
from cinder_vdisk_mapper.server_moves import settler
from cinder_vdisk_mapper.server_moves import settler_setup
from cinder_vdisk_mapper.server_moves import stale_moves
from nova_diskplacer import exception
from nova_diskplacer.disks import remote
from nova_diskplacer.disks import settling
from nova_diskplacer.host import state_file
from tests.unit.cinder_vdisk_mapper.server_moves import stored_moves
from tests.unit.cinder_vdisk_mapper.server_moves.stored_moves import HERE
from tests.unit.cinder_vdisk_mapper.server_moves.stored_moves import THERE
from tests.unit.cinder_vdisk_mapper.server_moves.stored_moves import A
from tests.unit.cinder_vdisk_mapper.server_moves.stored_moves import B


class Pool:
    """Begins what it is given when it is asked."""

    def __init__(self):
        self.begun = []

    def submit(self, function, *arguments):
        future = settler.concurrent.futures.Future()
        self.begun.append((future, lambda: function(*arguments)))
        return future

    def run(self):
        for future, work in self.begun:
            future.set_result(work())
        self.begun.clear()


class SettlerTestCase(stored_moves.StoredMovesTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.backend.disk_root = self.useFixture(fixtures.TempDir()).path
        self.backend.remote_device = lambda name: None
        self.clock = itertools.count(0.0, 100.0)
        for target, name, value in (
            (settle_attempt, 'settle', self.settle),
            (
                settler,
                'time',
                types.SimpleNamespace(monotonic=lambda: next(self.clock)),
            ),
        ):
            self.useFixture(fixtures.MockPatchObject(target, name, value))
        self.pool = Pool()
        self.outcomes = {}
        self.settled = []
        self.settler = self.make(settler.Limits(parallel=2))

    def make(self, limits):
        destination = mock.Mock()
        destination.backend = self.backend
        destination.open_places.return_value = []
        return settler.Settler(
            {HERE: destination}, 'uri', limits, threading.Event()
        )

    def settle(self, move):
        self.settled.append((move.volume_id, move.disk, move.guests.rate))
        outcome = self.outcomes.get(move.volume_id)
        if callable(outcome):
            outcome = outcome(move)
        if outcome:
            raise outcome

    def look(self):
        self.settler.look(self.pool)
        self.pool.run()
        return [volume for volume, *_ in self.settled]

    def states(self):
        vdisks = settling.FILE.read(self.backend.disk_root).vdisks
        return {vdisk.volume: vdisk for vdisk in vdisks}

    def test_what_nobody_uses(self):
        self.add('1', A, phase=record.ABORTING)
        clock = itertools.count(0.0, stale_moves._PAUSE)
        self.useFixture(
            fixtures.MockPatchObject(
                stale_moves,
                'time',
                types.SimpleNamespace(monotonic=lambda: next(clock)),
            )
        )
        asked = self.useFixture(
            fixtures.MockPatchObject(other_host, 'go_on')
        ).mock
        self.look()
        self.assertEqual([], asked.mock_calls)
        self.look()
        asked.assert_called_once_with(mock.ANY, THERE, 'there')
        # it has the volume: nothing is undone
        self.holders['1'] = f'{HERE}#pool'
        for _ in range(3):
            self.look()
        self.assertEqual(1, asked.call_count)

    def test_a_whole_copy(self):
        """What has waited goes on, and what has failed begins anew."""
        self.add('1', A)
        given = []
        for outcome, wholes in (
            (at_rest.Waits('busy'), ['']),
            (at_rest.Waits('busy'), ['', 'copy 1']),
            (exception.DiskError('bad'), ['', 'copy 1', 'copy 2']),
            (None, ['', 'copy 1', 'copy 2', '']),
        ):

            def copy(move, outcome=outcome):
                given.append(move.whole)
                move.whole = f'copy {len(given)}'
                return outcome

            self.outcomes['1'] = copy
            self.look()
            self.assertEqual(wholes, given)

    def test_one_for_each_disk_and_so_many_in_all(self):
        for volume_id, disk in (('1', A), ('2', A), ('3', B)):
            self.add(volume_id, disk)
        self.assertEqual(['1', '3'], self.look())
        self.settled.clear()
        self.settler = self.make(settler.Limits(parallel=1))
        self.assertEqual(['1'], self.look())

    def test_a_vdisk_whose_disk_is_not_known(self):
        self.add('1', A, B)
        self.add('2')
        self.look()
        self.assertEqual([], self.look())
        self.assertEqual(2, self.log.output.count('does not follow'))
        # the decision tells
        self.backend.linked['volume-1'] = B
        self.assertEqual(['1'], self.look())
        self.assertEqual(B, self.settled[0][1])

    def test_outcomes(self):
        for outcome, state, text in (
            (at_rest.Waits('its server'), settling.WAITING, ''),
            (remote.Away('gone'), settling.AWAY, 'gone'),
            (exception.DiskError('bad'), settling.FAILED, 'bad'),
            (ValueError('odd'), settling.FAILED, 'ValueError: odd'),
        ):
            self.add('1', A)
            self.outcomes['1'] = outcome
            self.look()
            self.look()
            found = self.states()['1']
            self.assertEqual(state, found.state)
            self.assertIn(text, found.reason)
            self.assertIn(text, self.log.output)
            self.assertEqual('there', found.source)
            self.moves.clear()
            self.look()
            self.assertEqual({}, self.states())

    def test_it_is_said_once_and_tried_again_later(self):
        self.add('1', A)
        self.outcomes['1'] = exception.DiskError('bad')
        self.clock = itertools.count(0.0, 5.0)
        for _ in range(12):
            self.look()
        self.assertTrue(2 <= len(self.settled) <= 4, self.settled)
        self.assertEqual(1, self.log.output.count('bad'))
        # ever more rarely
        self.clock = itertools.count(0.0, 100.0)
        for _ in range(30):
            self.look()
        before = len(self.settled)
        for _ in range(30):
            self.look()
        self.assertLess(len(self.settled) - before, 11)

    def test_the_source_is_away_while_qemu_copies(self):
        self.add('1', A)
        self.settler.look(self.pool)
        self.settler._progress('1', 10, 50)
        with (
            mock.patch.object(remote, 'check_there', side_effect=remote.Away),
            mock.patch.object(
                settler.links, 'remote_device', return_value='/dev/x'
            ),
        ):
            self.settler.look(self.pool)
            self.assertEqual(settling.AWAY, self.states()['1'].state)
            # QEMU's copy is asked each second
            self.settler._progress('1', 10, 50)
            self.settler._states.write([self.backend.disk_root])
            self.assertEqual(settling.AWAY, self.states()['1'].state)
            self.settler.look(self.pool)
        self.assertEqual(1, self.log.output.count('waits'))
        self.settler.look(self.pool)
        self.assertEqual(settling.COPYING, self.states()['1'].state)

    def test_copies_that_wait_keep_no_others_back(self):
        self.settler = self.make(settler.Limits(parallel=1))
        for volume_id, disk in (('1', A), ('2', A), ('3', B)):
            self.add(volume_id, disk)
        self.settler.look(self.pool)
        self.assertEqual(1, len(self.pool.begun))
        with (
            mock.patch.object(remote, 'check_there', side_effect=remote.Away),
            mock.patch.object(
                settler.links,
                'remote_device',
                lambda _, name: '/dev/x' if name == 'volume-1' else None,
            ),
        ):
            for number in (2, 2):
                self.settler.look(self.pool)
                self.assertEqual(number, len(self.pool.begun))
        self.pool.run()
        self.assertEqual(['1', '2'], [one for one, *_ in self.settled])

    def test_an_idle_host_is_left_alone(self):
        """Its disks are not looked at, and its state is rarely written."""
        now, written = [1000.0], []
        self.useFixture(
            fixtures.MockPatchObject(
                settle_states,
                'time',
                types.SimpleNamespace(time=lambda: now[0]),
            )
        )
        self.backend.disks = None
        self.useFixture(
            fixtures.MockPatchObject(
                state_file.FieldsFile,
                'write',
                lambda _, root, state: written.append(state.time),
            )
        )
        for _ in range(31):
            self.look()
            now[0] += 15
        self.assertTrue(5 <= len(written) <= 8, written)
        # the agent takes it for dead otherwise
        self.assertGreater(
            settling._SILENT, settle_states.WRITE_PAUSE + settler._IDLE_PAUSE
        )

    def test_limits(self):
        for rate, share, mbps, limit in (
            (0, 100, 0, 0),
            (7, 50, 0, 7),
            (0, 50, 200, 95),
            (7, 50, 200, 7),
            (200, 50, 200, 95),
            (0, 1, 20, 1),
        ):
            limits = settler.Limits(rate, share)
            self.assertEqual(limit, limits.rate_of(mbps))


class CommandTestCase(testtools.TestCase):
    def parse(self, *arguments):
        parser = argparse.ArgumentParser()
        settle.register(parser.add_subparsers())
        return parser.parse_args(['settle', *arguments])

    def test_options(self):
        args = self.parse('--rate', '80', '--share', '30', '--parallel', '2')
        self.assertEqual((80, 30, 2), (args.rate, args.share, args.parallel))
        for bad in (
            ('--rate', '0'),
            ('--rate', 'x'),
            ('--share', '101'),
            ('--share', '0'),
            ('--parallel', '-1'),
        ):
            with contextlib.redirect_stderr(io.StringIO()):
                self.assertRaises(SystemExit, self.parse, *bad)

    def test_status(self):
        root = self.useFixture(fixtures.TempDir()).path
        self.assertIn('is on this host', settle._report([root]))
        settling.FILE.write(
            root,
            settling.Settling(
                settle.time.time(),
                (
                    settling.VDisk(
                        '1', 'volume-1', 's', 'host1', A, settling.COPYING,
                        0.0, first=37, done=37, total=100,
                    ),
                ),
            ),
        )  # fmt: skip
        self.assertEqual(
            'volume-1: moving 37 % from host1', settle._report([root])
        )

    def test_discard(self):
        destinations = {'host1@vdisk': mock.Mock()}
        with (
            mock.patch.object(os, 'geteuid', return_value=0),
            mock.patch.object(settler_setup, 'prepare'),
            mock.patch.object(
                settler_setup, 'destinations', return_value=destinations
            ),
            mock.patch.object(lost_source, 'discard') as discard,
            mock.patch.object(settler, 'Settler') as service,
        ):
            settle._settle(None, self.parse('--discard', '8f0c'))
        discard.assert_called_once_with(destinations, '8f0c')
        service.assert_not_called()

    def test_needs_root(self):
        with mock.patch.object(os, 'geteuid', return_value=1):
            error = self.assertRaises(
                exception.DiskPlacerError,
                settle._settle,
                None,
                self.parse(),
            )
        self.assertIn('needs root', str(error))
