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

"""One run of openstack vdisk host lost --yes at a time has a host."""

import os
import signal

from nova_diskplacer import exception
from nova_diskplacer import terminal
from nova_diskplacer.client.server_moves import nova
from tests.unit.nova_diskplacer.client.osc import test_moves
from tests.unit.nova_diskplacer.client.osc.test_commands import NOVA
from tests.unit.nova_diskplacer.client.osc.test_moves import HOST

NAME = f'vdisk-host-lost:{HOST}'


class HeldTest(test_moves.MoveTestCase):
    def setUp(self):
        super().setUp()
        self.names = []
        self.deletion = 200
        self.creation = 200
        self.told = []
        url = f'{NOVA}/os-aggregates'
        self.requests.post(url, json=self.create)
        self.requests.delete(f'{url}/7', json=self.delete)
        self.nova = nova.Nova(self.connection, HOST)

    def create(self, request, context):
        name = request.json()['aggregate']['name']
        if name in self.names:
            context.status_code = 409
            return {}
        self.names.append(name)
        context.status_code = self.creation
        return {'aggregate': {'id': 7, 'name': name}}

    def delete(self, _, context):
        context.status_code = self.deletion
        if self.deletion == 200:
            self.names.clear()
        return {}

    def hold(self):
        with self.nova.held(self.told.append):
            self.assertEqual([NAME], self.names)

    def test_one_run_at_a_time(self):
        with self.nova.held(self.told.append):
            self.assertRaisesRegex(
                exception.DiskPlacerError,
                f'another run .* openstack aggregate delete {NAME}$',
                self.hold,
            )
        self.hold()
        self.assertEqual(([], []), (self.names, self.told))

    def test_the_answer_is_lost(self):
        self.creation = 504
        self.assertRaisesRegex(
            exception.DiskPlacerError,
            f'504.* nevertheless, openstack aggregate delete {NAME}$',
            self.hold,
        )

    def test_a_terminal_that_is_closed_twice(self):
        """As by its shell, and by the kernel when that is gone."""
        before = {
            ending: signal.getsignal(ending) for ending in terminal._ENDINGS
        }
        for ending, handler in before.items():
            self.addCleanup(signal.signal, ending, handler)
        # the tests may run under nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        terminal.exit_on_signals()
        self.requests.delete(
            f'{NOVA}/os-aggregates/7',
            json=lambda *args: (
                os.kill(os.getpid(), signal.SIGHUP) or self.delete(*args)
            ),
        )

        def run():
            with self.nova.held(self.told.append):
                os.kill(os.getpid(), signal.SIGHUP)

        error = self.assertRaises(SystemExit, run)
        self.assertEqual(128 + signal.SIGHUP, error.code)
        self.assertEqual([], self.names)

    def test_nohup(self):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGHUP, before)
        before = signal.getsignal(signal.SIGTERM)
        self.addCleanup(signal.signal, signal.SIGTERM, before)
        terminal.exit_on_signals()
        self.assertEqual(signal.SIG_IGN, signal.getsignal(signal.SIGHUP))

    def test_nova_answers_no_more(self):
        """What the run has done is shown nevertheless."""
        self.deletion = 503
        self.hold()
        (line,) = self.told
        self.assertIn(f'; openstack aggregate delete {NAME}', line)
