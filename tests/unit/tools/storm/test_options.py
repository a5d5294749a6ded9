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

"""The options of tools/storm.sh."""

import contextlib
import io

import ddt
import testtools

from tools.storm import kills
from tools.storm import options


@ddt.ddt
class OptionsTest(testtools.TestCase):
    @ddt.data(
        ([], 15, 2),
        (['--long'], 60, 8),
        (['--minutes', '1'], 1, 1),
        (['--minutes', '30'], 30, 4),
    )
    @ddt.unpack
    def test_length(self, words, minutes, rounds):
        args = options.parse([*words, '--seed', '3'])
        self.assertEqual(minutes, args.minutes)
        self.assertEqual(rounds, options.rounds(args.minutes))
        self.assertEqual([*words, '--seed', '3'], options.words(args))

    def test_seed_by_default(self):
        seeds = {options.parse([]).seed for _ in range(20)}
        self.assertTrue(len(seeds) > 1)

    def test_moves(self):
        self.assertEqual((), options.parse([]).moves)
        self.assertEqual(kills.ALL, options.parse(['--moves']).moves)
        self.assertEqual(
            kills.select(['copy', 'qemu']),
            options.parse(['--moves', 'copy', 'qemu']).moves,
        )

    @ddt.data(
        ['--minutes', '0'],
        ['--minutes', 'x'],
        ['--minutes', '5', '--long'],
        ['--seed', 'x'],
        ['--moves', 'x'],
        ['--moves', 'copy', '--long'],
        ['--logs', '/'],
        ['--json', '/nowhere/result.json'],
    )
    def test_wrong(self, words):
        printed = io.StringIO()
        with contextlib.redirect_stderr(printed):
            error = self.assertRaises(SystemExit, options.parse, words)
        self.assertEqual(2, error.code)
        self.assertIn(words[0], printed.getvalue())
