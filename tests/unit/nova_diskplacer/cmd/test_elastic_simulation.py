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
from nova_diskplacer.cmd import manage
from tests import configured

P2 = (
    '--load', '600:600', '--demand', '2400', '--mbps', '600',
    '--medium', 'ssd', '--max', '4', '--size-gb', '4',
    '--set', 'widen_after=30', '--set', 'narrow_after=300',
    '--set', 'widen_factor=4', '--set', 'min_interval=60',
)  # fmt: skip


class PlanTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.conf = self.useFixture(configured.Options()).conf
        self.errors = io.StringIO()

    def plan(self, *arguments):
        """Return the output."""
        words, output = ['elastic', 'plan', *arguments], io.StringIO()
        with (
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(self.errors),
        ):
            args = manage.make_parser(words).parse_args(words)
            self.assertEqual(0, args.handler(self.conf, args))
        return output.getvalue()

    def assert_error(self, text, *arguments):
        error = self.assertRaises(
            exception.DiskPlacerError, self.plan, *arguments
        )
        self.assertIn(text, str(error))

    def assert_usage(self, text, *arguments):
        self.assertRaises(SystemExit, self.plan, *arguments)
        self.assertIn(text, self.errors.getvalue())

    def test_table(self):
        rows = [
            [cell.strip() for cell in line.split('|')[1:-1]]
            for line in self.plan(*P2, '--seconds', '1200').splitlines()
            if line.startswith('| ')
        ]
        self.assertEqual(
            [
                ['0', '30', '1', '2400.0', '600.0',
                 'pressure of 100% for 30 s'],
                ['30', '70', '1→4', '2400.0', '540.0',
                 'pressure of 100% for 30 s'],
                ['70', '90', '2→4', '2400.0', '1080.0',
                 'pressure of 100% for 30 s'],
                ['90', '110', '3→4', '2400.0', '1080.0',
                 'pressure of 100% for 30 s'],
                ['110', '600', '4', '2400.0', '2400.0',
                 'pressure of 100% for 30 s, at its largest'],
                ['', '', '', '', '', 'width'],
                ['600', '930', '4', '0.0', '0.0', 'quiet for 300 s'],
                ['930', '950', '4→1', '0.0', '0.0', 'quiet for 300 s'],
                ['950', '970', '3→1', '0.0', '0.0', 'quiet for 300 s'],
                ['970', '1010', '2→1', '0.0', '0.0', 'quiet for 300 s'],
                ['1010', '1200', '1', '0.0', '0.0',
                 'pressure of 0%, at its least width'],
            ],
            rows[1:],
        )  # fmt: skip

    def test_summary(self):
        self.assertIn(
            '3 moves, 12 GiB copied, mean width 3.87. The vdisk gets 97% of '
            'its demand; with a fixed width of 1 it would get 25%, with 4 '
            '100%.',
            self.plan(*P2),
        )

    def test_json(self):
        found = json.loads(self.plan(*P2, '--format', 'json'))
        self.assertEqual(3, found['summary']['moves'])
        self.assertEqual(
            [1, 1, 2, 3, 4], [one['width'] for one in found['phases'][:5]]
        )
        self.assertEqual(4, found['phases'][1]['target'])

    def test_series(self):
        path = self.useFixture(fixtures.TempDir()).join('load')
        with open(path, 'w') as stream:
            stream.write('{"seconds": 300, "mbps": 500}\n')
        arguments = ('--series', path, '--max', '2', '--size-gb', '1')
        self.assertIn('| 1→2 ', self.plan(*arguments))
        self.assert_error('--demand needs --load', *arguments, '--demand', '1')
        with open(path, 'w') as stream:
            stream.write('{}\n')
        self.assert_error(f'{path}: line 1: ', *arguments)

    def test_empty_series(self):
        path = self.useFixture(fixtures.TempDir()).join('load')
        with open(path, 'w'):
            pass
        self.assert_error(
            '0 s are less than [diskplacer_elastic] interval=10',
            '--series', path, '--max', '2', '--size-gb', '1',
        )  # fmt: skip

    def test_bad_options(self):
        for value, text in (
            ('widen', '--set widen: widen is not one of: enabled, interval,'),
            ('widen_pressure=2', 'less than or equal to 1'),
            ('widen_pressure=', '--set widen_pressure= is not OPTION=VALUE'),
            ('widen_after=x', '--set widen_after=x: '),
            (
                'narrow_pressure=0.5',
                'narrow_pressure=0.5 plus target_pressure',
            ),
        ):
            self.assert_error(text, *P2, '--set', value)

    def test_bad_arguments(self):
        for load in ('60', ':60', '0:60', '60:', '60:-1', 'a:b', '60:nan'):
            self.assert_usage(f"'{load}' is not ON:OFF", *P2, '--load', load)
        self.assert_error(
            '--min 4 is not less than --max 4', *P2, '--min', '4'
        )
        self.assert_usage('at most 6', *P2, '--max', '7')
        self.assert_error(
            '--max 4 is no multiple of --min 3', *P2, '--min', '3'
        )
        self.assert_error(
            'a simulation needs --max and --size-gb', '--load', '1:1'
        )
        self.assert_error(
            '--load needs --demand',
            '--load', '1:1', '--max', '2', '--size-gb', '1',
        )  # fmt: skip

    def test_times(self):
        self.assert_error(
            'set a lower --seconds', *P2, '--seconds', '1000000000'
        )
        self.assert_error('set a higher --seconds', *P2, '--seconds', '4')
