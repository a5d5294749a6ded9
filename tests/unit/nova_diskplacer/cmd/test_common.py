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
"""What all commands share."""

import logging
import os
import pathlib
import signal
import threading
from concurrent import futures
from unittest import mock

import fixtures
import testtools
from amqp import abstract_channel
from amqp import spec
from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer.cmd import common
from nova_diskplacer.host import files
from nova_diskplacer.host import probes


class ConfigureTestCase(testtools.TestCase):
    def test_locks_are_where_the_option_says(self):
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.files._lock_directory', ''
            )
        )
        directory = self.useFixture(fixtures.TempDir()).path
        path = os.path.join(directory, 'a.conf')
        with open(path, 'w') as stream:
            stream.write(f'[diskplacer]\nlock_dir = {directory}/locks\n')
        # other tests have registered the services' options in CONF
        self.useFixture(
            fixtures.MonkeyPatch('nova_diskplacer.conf.CONF', cfg.ConfigOpts())
        )
        with mock.patch.object(common.logging, 'setup'):
            common.configure([path], [])
        self.assertEqual(directory + '/locks', files.lock_directory())

    def test_directory_of_nova_only_without_named_files(self):
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.files._lock_directory', ''
            )
        )
        root = self.useFixture(fixtures.TempDir())
        for name in ('named', 'nova'):
            with open(root.join(f'{name}.conf'), 'w') as stream:
                stream.write(f'[diskplacer]\nlock_dir = /{name}\n')
        (pathlib.Path(root.path) / 'd').mkdir()
        (pathlib.Path(root.path) / 'd/own.conf').write_text(
            '[diskplacer]\nlock_dir = /directory\n'
        )
        for name, value in (
            ('find_config_files', [root.join('nova.conf')]),
            ('find_config_dirs', [root.join('d')]),
        ):
            self.useFixture(
                fixtures.MockPatchObject(cfg, name, return_value=value)
            )
        for named, expected in (
            ([root.join('named.conf')], '/named'),
            (None, '/directory'),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    'nova_diskplacer.conf.CONF', cfg.ConfigOpts()
                )
            )
            with mock.patch.object(common.logging, 'setup'):
                common.configure(named, [])
            self.assertEqual(expected, files._lock_directory)


class TransportTestCase(testtools.TestCase):
    def test_what_rabbitmq_says_at_the_end_is_not_shown(self):
        log = self.useFixture(fixtures.FakeLogger())
        amqp_log = logging.getLogger('amqp')
        self.addCleanup(amqp_log.removeFilter, common._is_of_use)
        self.useFixture(
            fixtures.MockPatch('nova_diskplacer.reports.get_transport')
        )
        channel = mock.Mock(is_closing=True, _ALLOWED_METHODS_WHEN_CLOSING=())
        for expected in (1, 1):
            abstract_channel.AbstractChannel.dispatch_method(
                channel, spec.Basic.Cancel, b'', None
            )
            self.assertEqual(expected, log.output.count('(60, 30)'))
            common.transport()
        amqp_log.warning('connection lost')
        self.assertIn('connection lost', log.output)


class BlockEndingsTestCase(testtools.TestCase):
    def received(self, number):
        """Return what a thread gets that is sent a signal."""

        def work():
            endings = common.block_endings()
            if number not in endings:
                # it would end the tests
                return None
            signal.pthread_kill(threading.get_ident(), number)
            return signal.sigwait(endings)

        with futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(work).result()

    def handle_hangup(self, handler):
        before = signal.signal(signal.SIGHUP, handler)
        self.addCleanup(signal.signal, signal.SIGHUP, before)

    def test_all_endings(self):
        self.handle_hangup(signal.SIG_DFL)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self.assertEqual(number, self.received(number))

    def test_nohup(self):
        self.handle_hangup(signal.SIG_IGN)
        self.assertEqual(signal.SIGTERM, self.received(signal.SIGTERM))
        self.assertIsNone(self.received(signal.SIGHUP))


class RunInChildTestCase(testtools.TestCase):
    def test_result(self):
        self.assertNotEqual(os.getpid(), common.run_in_child(os.getpid))

    def test_error(self):
        def fail():
            raise exception.DiskError('no')

        error = self.assertRaises(
            exception.DiskError, common.run_in_child, fail
        )
        self.assertEqual('no', str(error))

    def test_what_hangs_there_is_not_waited_for(self):
        def work():
            probes.Job(threading.Event().wait)
            return 5

        self.assertEqual(5, common.run_in_child(work))
