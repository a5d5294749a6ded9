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
import io
import json

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import manage
from nova_diskplacer.disks import discover
from nova_diskplacer.elastic.processes import operator_overrides as overrides
from nova_diskplacer.monitor import status_socket
from tests import configured
from tests.unit.nova_diskplacer.elastic import on_disks
from tests.unit.nova_diskplacer.monitor import example


class CommandTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.conf = self.useFixture(configured.Options()).conf
        self.root = self.useFixture(fixtures.TempDir()).path
        self.conf.set_override('disk_root', self.root, 'diskplacer')

    def run_(self, *words):
        """Return the output."""
        words, output = ['elastic', *words], io.StringIO()
        with contextlib.redirect_stdout(output):
            args = manage.make_parser(words).parse_args(words)
            self.assertEqual(0, args.handler(self.conf, args))
        return output.getvalue()

    def assert_error(self, text, *words):
        error = self.assertRaises(exception.DiskPlacerError, self.run_, *words)
        self.assertIn(text, str(error))


class PlanTest(CommandTestCase):
    def serve(self, elastic):
        take = example.status_provider(elastic=elastic)
        server = status_socket.serve(
            self.conf.diskplacer_agent.state_dir, take
        )
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)

    def test_table(self):
        self.serve(example.elastic_status())
        text = self.run_('plan')
        for part in (
            'pressure of 90% for 120 s',
            '→2, 1.5 GiB, 16 s left',
            f'Move of {example.VOLUME} from 1 to 2 disks: 1.5 GiB left, at '
            '100.0 MB/s 16 s.',
            'Next step: 2.0 GiB, to '
            f'{example.HDD},{example.HDD},{example.LOST},{example.LOST}.',
            'The executor: waits.',
        ):
            self.assertIn(part, text)

    def test_json(self):
        self.serve(example.elastic_status())
        found = json.loads(self.run_('plan', '--format', 'json'))
        self.assertEqual(1, found['vdisks'][0]['width'])
        self.assertEqual(example.VOLUME, found['step']['vdisk'])

    def test_without_vdisks(self):
        self.serve(example.elastic_status(vdisks=(), step=None))
        self.assertIn('no elastic vdisks', self.run_('plan'))

    def test_not_enabled(self):
        self.serve(None)
        self.assert_error('[diskplacer_elastic] enabled=true', 'plan')

    def test_no_agent(self):
        self.assert_error('no agent answers', 'plan')


class OrdersTest(CommandTestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(
            fixtures.MockPatchObject(
                discover, 'discover', lambda *_: on_disks.disks('aabb')
            )
        )
        self.useFixture(
            fixtures.MockPatchObject(
                common, 'run_in_child', lambda work: work()
            )
        )

    def test_forbid_and_allow(self):
        self.assertEqual(
            'Moves of volume are forbidden.\n', self.run_('forbid', 'volume')
        )
        self.assertTrue(overrides.read(self.root).forbid('volume'))
        self.assertFalse(overrides.read(self.root).forbid('other'))
        self.assertEqual(
            'The load decides on all vdisks.\n', self.run_('allow', 'volume')
        )
        self.assertFalse(overrides.read(self.root).forbid('volume'))

    def test_all(self):
        self.run_('force', 'volume', '--width', '4')
        self.assertEqual(
            'All moves on this host are forbidden.\n'
            'volume is moved to 4 disks.\n',
            self.run_('forbid', '--all'),
        )
        self.assertTrue(overrides.read(self.root).forbid('other'))
        self.run_('allow', '--all')
        self.assertEqual({'volume': 4}, overrides.read(self.root).forced)

    def test_the_last_order_counts(self):
        self.run_('forbid', 'volume')
        self.run_('force', 'volume', '--width', '1')
        given = overrides.read(self.root)
        self.assertEqual(
            (frozenset(), {'volume': 1}), (given.forbidden, given.forced)
        )
        self.run_('forbid', 'volume')
        self.assertEqual({}, overrides.read(self.root).forced)

    def test_bad_arguments(self):
        self.assert_error(
            '--width 5 is not from 1 to 4', 'force', 'volume', '--width', '5'
        )
        for words in (['forbid', 'x'], ['force', 'x', '--width', '2']):
            self.assert_error(
                'x is not the ID of a volume that is an elastic vdisk of '
                'this host: volume',
                *words,
            )

    def test_arguments_that_exclude_each_other(self):
        for words in (['forbid'], ['forbid', 'volume', '--all']):
            with contextlib.redirect_stderr(io.StringIO()):
                self.assertRaises(SystemExit, self.run_, *words)
