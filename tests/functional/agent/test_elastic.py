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


"""The agent decides, and the executor moves: all but the moving is real."""

import contextlib
import io
import threading
import time

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.cmd import manage
from nova_diskplacer.disks import mover
from nova_diskplacer.disks.location import Location
from nova_diskplacer.elastic.processes import executor
from nova_diskplacer.elastic.processes import operator_overrides as overrides
from nova_diskplacer.elastic.processes import step_socket
from nova_diskplacer.host import files
from tests.unit.nova_diskplacer.elastic import elastic_samples


class Mover(mover.Mover):
    """Moves the legs of the world's vdisk.

    A step waits while ``held`` is set, and fails with ``refusal``.
    """

    def __init__(self, world):
        self.world = world
        self.held = threading.Event()
        self.begun = threading.Event()
        self.refusal = ''
        self.widths = []

    def move(self, volume_id, location, progress, stopped, percent):
        old = Location(self.world.location)
        self.step = old.step_to(location)
        self.begun.set()
        while self.held.is_set():
            progress(1 << 30, 2 << 30)
            if stopped():
                raise exception.DiskError('taken back')
            time.sleep(0.01)
        if self.refusal:
            raise exception.DiskError(self.refusal)
        self.world.location = ''.join(location)
        self.widths.append(location.width)

    def recover(self):
        self.begun.clear()


class ElasticTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        before = files.lock_directory()
        files.set_lock_directory(self.useFixture(fixtures.TempDir()).path)
        self.addCleanup(files.set_lock_directory, before)
        for name in ('_PAUSE', '_PROGRESS_PAUSE'):
            self.useFixture(fixtures.MockPatchObject(executor, name, 0.03))
        self.world = elastic_samples.World(self)
        self.world.conf.set_override('widen_factor', 4, 'diskplacer_elastic')
        self.world.elastic = self.world.agent()
        self.state_dir = self.world.conf.diskplacer_agent.state_dir
        server = step_socket.serve(self.state_dir, self.wanted)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.mover = Mover(self.world)
        self.start()

    def wanted(self):
        status = self.world.elastic.status
        return status.step if status else None

    def start(self):
        self.stopped = threading.Event()
        self.thread = threading.Thread(
            target=executor.Executor(
                self.world.root,
                self.mover,
                lambda: step_socket.fetch(self.state_dir),
                self.stopped,
                0.1,
            ).run
        )
        self.thread.start()
        self.addCleanup(self.thread.join)
        self.addCleanup(self.stopped.set)

    def wait(self, holds):
        """Let intervals pass until something holds."""
        end = time.monotonic() + 60
        while not holds(self.world.tick()):
            self.assertTrue(time.monotonic() < end, self.world.elastic.status)
            if self.world.elastic.status.step:
                # time for the executor
                time.sleep(0.05)

    def test_a_load_that_comes_and_goes(self):
        self.world.mbps = 400
        self.wait(lambda state: len(set(self.world.location)) == 4)
        self.assertEqual([2, 3, 4], self.mover.widths)
        self.world.mbps = 0
        self.wait(lambda state: len(set(self.world.location)) == 1)
        self.assertEqual([2, 3, 4, 3, 2, 1], self.mover.widths)
        self.wait(lambda state: state.step is None)
        self.assertEqual(
            {
                'widen': {'done': 1, 'failed': 0},
                'narrow': {'done': 1, 'failed': 0},
            },
            self.world.elastic.status.moves,
        )

    def test_a_refusal(self):
        self.mover.refusal = 'it has snapshots'
        self.world.mbps = 400
        self.wait(lambda state: state.moves['widen']['failed'] == 2)
        self.assertIn(
            'it has snapshots', self.world.elastic.status.vdisks[0].why
        )
        self.assertEqual('aaaa', self.world.location)

    def test_restarts_in_a_step(self):
        self.mover.held.set()
        self.world.mbps = 400
        self.wait(lambda state: self.mover.begun.is_set())
        self.stopped.set()
        self.thread.join()
        self.assertEqual('aaaa', self.world.location)
        # the agent, too
        self.world.elastic = self.world.agent()
        self.mover.held.clear()
        self.start()
        self.wait(lambda state: len(set(self.world.location)) == 4)
        self.wait(lambda state: state.step is None)
        self.assertEqual(
            {'done': 1, 'failed': 0},
            self.world.elastic.status.moves['widen'],
        )

    def test_a_load_that_ends_in_a_step(self):
        self.mover.held.set()
        self.world.mbps = 400
        self.wait(lambda state: self.mover.begun.is_set())
        self.world.mbps = 0
        for _ in range(5):
            self.world.tick()
        (vdisk,) = self.world.elastic.status.vdisks
        self.assertEqual((1, 4), (vdisk.width, vdisk.target))
        self.mover.held.clear()
        self.wait(lambda state: state.moves['widen']['done'])
        self.wait(lambda state: state.moves['narrow']['done'])

    def test_forbidden_in_a_step(self):
        self.mover.held.set()
        self.world.mbps = 400
        self.wait(lambda state: self.mover.begun.is_set())
        words = ['elastic', 'forbid', '--all']
        args = manage.make_parser(words).parse_args(words)
        with contextlib.redirect_stdout(io.StringIO()):
            args.handler(self.world.conf, args)
        self.assertTrue(overrides.read(self.world.root).forbid_all)
        self.wait(lambda state: state.executor.startswith('waits; volume'))
        self.wait(lambda state: state.step is None)
        self.assertEqual('aaaa', self.world.location)
        self.assertEqual(
            'the operator forbids moves',
            self.world.elastic.status.vdisks[0].why,
        )
