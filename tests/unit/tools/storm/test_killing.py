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


"""What a kill has left, and what counts of it."""

import pathlib
import types
from unittest import mock

import fixtures
import testtools

from tools.storm import killing
from tools.storm import kills
from tools.storm import moved_server
from tools.storm.facts import Facts
from tools.storm.facts import Provider

SOURCE = moved_server.REAL[0]


class Server(moved_server.Server):
    """A server that no move has left anything of."""

    def __init__(self, cloud, uuid):
        self.cloud, self.uuid, self.volumes = cloud, uuid, []

    def host(self):
        return SOURCE

    def told(self):
        return 1

    def where(self):
        return {SOURCE}

    def phases(self):
        return set()

    def files(self, host):
        return {}

    def wait_verified(self):
        self.numbers('checked')


class Killing(killing.Killing):
    """Kills whose remains are known."""

    remains = ()
    seconds = 0.0

    def _processor_time(self, server):
        self.seconds += 1.5
        return self.seconds

    def _limit_copies(self, options):
        pass

    def _begin(self, server, kill, hosts):
        pass

    def _kill(self, server, kill, hosts):
        for path in self.remains:
            path.parent.mkdir(exist_ok=True)
            path.touch()

    def _bring_back(self, server, means):
        return SOURCE

    def _remove_remains(self, server, means):
        pass


class KillingTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.providers = {}
        for name, value in (
            ('tools.storm.moved_server.Server', Server),
            ('tools.storm.reading.read', self.read),
            ('tools.minicloud.process.run', lambda *_: ''),
            ('tools.storm.killing._PATIENCE', 0),
            ('tools.storm.killing._GRACE', 0),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))
        state = types.SimpleNamespace(path=self.top)
        self.cloud = mock.Mock(state=state, hosts=[])
        self.cloud.api.create_server.side_effect = ['first', 'second']
        self.cloud.api.console.return_value = 'guest: checked 7'

    def read(self, cloud):
        return Facts(servers={'mine': None}, providers=self.providers)

    def do(self, killing_, *remains):
        killing_.remains = [self.top / one for one in remains]
        return killing_.do(kills.ALL[0]).violations

    def test_what_a_kill_has_left_counts_once(self):
        one = Killing(self.cloud, 'image', 'flavor')
        self.assertEqual((), self.do(one))
        found = self.do(one, 'targets/old')
        self.assertIn('released', found[0])
        self.assertEqual('targets/old', found[-1])
        self.assertIn('takes 2 s of the processor', found[1])
        self.assertIn('checked 7', found[1])
        self.providers['disk'] = Provider('disk', 9, 0, {'migration': 1})
        self.assertEqual((), self.do(one))
        found = self.do(one, 'sessions/new')
        self.assertIn("['sessions/new']", found[0])
        self.assertEqual('sessions/new', found[-1])
        self.assertNotIn('old', ' '.join(found))

    def test_a_guest_whose_kernel_crashes(self):
        crash = 'invalid opcode: 0000 [#1] PREEMPT'
        wrong = f'{crash}\nguest: WRONG'
        for after_kills, crashes, is_wrong in (
            ([crash, 'fine'], 1, False),
            ([wrong], 0, True),
            ([crash, wrong], 1, True),
            ([crash] * (killing._CRASHES + 1), killing._CRASHES + 1, True),
        ):
            consoles = iter(after_kills)
            self.cloud.api.create_server.side_effect = map(
                str, range(len(after_kills))
            )
            one = Killing(self.cloud, 'image', 'flavor')

            def kill(*args, consoles=consoles):
                self.cloud.api.console.return_value = next(consoles)

            def boot(*args, **kwargs):
                self.cloud.api.console.return_value = 'fine'

            self.cloud.api.wait_server.side_effect = boot
            one._kill = kill
            ended = one.do(kills.ALL[0])
            self.assertEqual(crashes, ended.crashes)
            self.assertEqual(is_wrong, bool(ended.violations))
            self.assertEqual([], list(consoles))

    def test_what_a_crashed_guest_leaves_is_a_violation(self):
        self.cloud.api.console.return_value = 'fine'
        one = Killing(self.cloud, 'image', 'flavor')
        one._boot()
        self.cloud.api.console.return_value = 'invalid opcode: 0000 [#1] '
        self.assertEqual('targets/new', self.do(one, 'targets/new')[-1])

    def test_claims_that_are_left(self):
        server = Server(self.cloud, 'mine')
        self.providers['disk'] = Provider(
            'disk', 9, 0, {'migration': 1, 'mine': 2}
        )
        self.assertEqual(
            [
                'claim of 2 GiB on disk, expected {}',
                'claim of migration on disk',
            ],
            server.left(SOURCE),
        )
