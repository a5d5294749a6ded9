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
import os
import signal
from unittest import mock

import fixtures
import testtools
from oslo_config import cfg

from cinder_vdisk_mapper.cmd import cinder_conf
from cinder_vdisk_mapper.cmd import elastic
from cinder_vdisk_mapper.moves import leg_mover
from nova_diskplacer import exception
from nova_diskplacer.cmd import manage
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import mover
from nova_diskplacer.elastic.processes import progress
from nova_diskplacer.elastic.processes import step_socket
from nova_diskplacer.host import agent_socket
from nova_diskplacer.host import files
from nova_diskplacer.monitor import status
from nova_diskplacer.monitor import status_socket
from tests.unit.nova_diskplacer.elastic import on_disks
from tests.unit.nova_diskplacer.monitor import example


class Mover(mover.Mover):
    """Moves nothing; ``refusal`` is raised."""

    def __init__(self):
        self.moved = []
        self.refusal = ''
        self.recovered = 0
        self.signal = None

    def move(self, volume_id, location, progress, stopped, percent):
        self.percent = percent
        self.moved.append((volume_id, ''.join(location)))
        progress(1 << 30, 2 << 30)
        if self.signal:
            os.kill(os.getpid(), self.signal)
        if stopped():
            raise exception.DiskPlacerError('taken back')
        if self.refusal:
            raise exception.DiskPlacerError(self.refusal)

    def recover(self):
        self.recovered += 1


class CommandTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.root = self.useFixture(fixtures.TempDir()).path
        self.state_dir = self.useFixture(fixtures.TempDir()).path
        self.config = os.path.join(self.root, 'test.conf')
        with open(self.config, 'w') as stream:
            stream.write(
                f'[diskplacer]\ndisk_root = {self.root}\n'
                f'[diskplacer_agent]\nstate_dir = {self.state_dir}\n'
                '[diskplacer_elastic]\ncopy_share = 0.2\n'
            )
        before = files.lock_directory()
        files.set_lock_directory(self.useFixture(fixtures.TempDir()).path)
        self.addCleanup(files.set_lock_directory, before)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        self.mover = Mover()
        self.patch(
            leg_mover.LegMover, 'move', lambda _, *step: self.mover.move(*step)
        )
        self.patch(
            leg_mover.LegMover, 'recover', lambda _: self.mover.recover()
        )
        self.patch(os, 'geteuid', lambda: 0)
        self.disks = on_disks.disks('aabb', 'c')
        self.patch(discover, 'discover', lambda *_: self.disks)

    def patch(self, target, name, value):
        self.useFixture(fixtures.MockPatchObject(target, name, value))

    def run_(self, *words):
        """Return the output."""
        parser = manage.make_parser(['elastic'])
        args = parser.parse_args(
            ['--config-file', self.config, 'elastic', *words]
        )
        self.assertIs(cinder_conf.configure, args.configure)
        output = io.StringIO()
        with (
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(output),
        ):
            self.assertEqual(0, args.handler(None, args))
        return output.getvalue()

    def assert_error(self, text, *words):
        error = self.assertRaises(exception.DiskPlacerError, self.run_, *words)
        self.assertIn(text, str(error))


class MoveTest(CommandTestCase):
    def test_widen(self):
        output = self.run_('move', 'volume', '--disk', 'c')
        self.assertEqual([('volume', 'acbb')], self.mover.moved)
        self.assertIn('volume: 1.0 of 2.0 GiB', output)
        self.assertIn('Volume volume is on 3 disks.', output)
        self.assertEqual('done', progress.FILE.read(self.root).state)
        self.assertEqual(20, self.mover.percent)

    def test_narrow(self):
        self.run_('move', 'volume', '--narrow')
        self.assertEqual([('volume', 'aaaa')], self.mover.moved)

    def test_refusals(self):
        self.assert_error('x is not the ID', 'move', 'x', '--narrow')
        self.assert_error(
            '--disk b: disk b has legs', 'move', 'volume', '--disk', 'b'
        )
        self.disks = on_disks.disks('aaaa')
        self.assert_error(
            'on 1 disks, its minimum', 'move', 'volume', '--narrow'
        )
        self.disks = on_disks.disks('ab')
        self.assert_error(
            'on 2 disks, its maximum', 'move', 'volume', '--disk', 'c'
        )
        self.assertEqual([], self.mover.moved)

    def test_failure(self):
        self.mover.refusal = 'it has snapshots'
        self.assert_error(
            'volume volume was not moved: it has snapshots',
            'move', 'volume', '--narrow',
        )  # fmt: skip
        self.assertEqual('failed', progress.FILE.read(self.root).state)

    def test_interrupted(self):
        self.mover.signal = signal.SIGINT
        self.assert_error('taken back', 'move', 'volume', '--narrow')

    def test_needs_root(self):
        self.patch(os, 'geteuid', lambda: 1000)
        self.assert_error('needs root', 'move', 'volume', '--narrow')

    def test_named_files_are_read_alone(self):
        directory = self.useFixture(fixtures.TempDir())
        with open(directory.join('own.conf'), 'w') as stream:
            stream.write('[diskplacer_elastic]\ncopy_share = 0.5\n')
        self.useFixture(
            fixtures.MockPatchObject(
                cfg, 'find_config_dirs', return_value=[directory.path]
            )
        )
        self.run_('move', 'volume', '--disk', 'c')
        self.assertEqual(20, self.mover.percent)

    def test_bad_config_file(self):
        self.config += '-missing'
        self.assert_error(self.config, 'move', 'volume', '--narrow')


class RunTest(CommandTestCase):
    def close(self, server):
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)

    def test_the_step_of_the_agent(self):
        step = example.elastic_status().step
        self.close(step_socket.serve(self.state_dir, lambda: step))
        # it ends cleanly, and the step is taken again
        self.mover.signal = signal.SIGTERM
        self.assertEqual('', self.run_('run'))
        ((volume, _),) = self.mover.moved
        self.assertEqual(example.VOLUME, volume)
        self.assertEqual(1, self.mover.recovered)
        self.assertEqual('idle', progress.FILE.read(self.root).state)

    def test_an_agent_whose_status_has_another_version(self):
        """A step does not depend on what else the agent tells."""
        step = example.elastic_status().step
        self.close(step_socket.serve(self.state_dir, lambda: step))
        with mock.patch.object(status, 'VERSION', status.VERSION + 1):
            text = status.to_json(example.status_provider()())
        self.close(
            agent_socket.serve(
                status_socket.path(self.state_dir), lambda: text
            )
        )
        self.assertRaises(
            exception.AgentError, status_socket.fetch, self.state_dir
        )
        self.mover.signal = signal.SIGTERM
        self.run_('run')
        ((volume, location),) = self.mover.moved
        self.assertEqual(
            (step.vdisk, ''.join(step.location)), (volume, location)
        )

    def test_an_agent_that_offers_no_steps(self):
        """An older one does so in its status alone: nothing is moved."""
        log = self.useFixture(fixtures.FakeLogger())
        self.close(
            status_socket.serve(self.state_dir, example.status_provider())
        )
        fetch = step_socket.fetch

        def fetch_once(state_dir):
            os.kill(os.getpid(), signal.SIGTERM)
            return fetch(state_dir)

        self.patch(step_socket, 'fetch', fetch_once)
        self.assertEqual('', self.run_('run'))
        self.assertEqual([], self.mover.moved)
        self.assertIn('upgrade it if it is older', log.output)


class OptionsTestCase(testtools.TestCase):
    def test_files_and_directories_of_all_commands(self):
        directory = self.useFixture(fixtures.TempDir()).path
        with open(os.path.join(directory, 'own.conf'), 'w') as stream:
            stream.write('[diskplacer]\ndisk_root = /own\n')
        with (
            mock.patch.object(cfg, 'find_config_files', return_value=[]),
            mock.patch.object(
                cfg, 'find_config_dirs', return_value=[directory]
            ) as found,
        ):
            own = elastic._own_conf(argparse.Namespace(config_file=None))
        self.assertEqual('/own', own.diskplacer.disk_root)
        # whatever the name of the program
        found.assert_called_once_with('nova', 'diskplacer')
