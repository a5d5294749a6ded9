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


"""Which kills there are, and what they came to."""

import testtools

from tools.storm import kills
from tools.storm import report


class KillsTest(testtools.TestCase):
    def test_names_are_distinct(self):
        names = [kill.name for kill in kills.ALL]
        self.assertEqual(len(names), len(set(names)))

    def test_select(self):
        self.assertEqual(kills.ALL, kills.select([]))
        self.assertEqual(
            {kills.COPY}, {kill.phase for kill in kills.select(['copy'])}
        )
        chosen = kills.select(['release reboot', 'libvirtd@source'])
        self.assertEqual(
            [
                'attach libvirtd@source',
                'migrate libvirtd@source',
                'release reboot@destination',
            ],
            [kill.name for kill in chosen],
        )
        self.assertRaises(LookupError, kills.select, ['copies'])

    def test_report(self):
        first, second, third = kills.ALL[:3]
        found = report.content_of_kills(
            [
                kills.Ended(first, kills.SOURCE, 3.0),
                kills.Ended(second, kills.SOURCE, 9.0, ('server start',)),
                kills.Ended(
                    third, kills.DESTINATION, 5.0, ('reboot',), ('wrong',)
                ),
            ],
            ['attach', 'a b'],
        )
        of_all = {
            'kills': 3,
            'by_itself': 1,
            'by_an_operator': 1,
            'violations': 1,
            'guest_crashes': 0,
            'seconds_min': 3.0,
            'seconds_max': 9.0,
        }
        self.assertEqual(
            {'kills_known': len(kills.ALL)}
            | of_all
            | {f'attach_{name}': value for name, value in of_all.items()},
            found['figures'],
        )
        self.assertEqual(
            "tools/storm.sh --moves attach 'a b'", found['command']
        )
        self.assertFalse(found['goals'][0]['met'])
        self.assertEqual(second.name, found['ended'][1]['kill'])

    def test_line(self):
        kill = kills.ALL[0]
        for ended, words in (
            (kills.Ended(kill, kills.SOURCE, 3.0), ('ok', 'by itself')),
            (
                kills.Ended(kill, kills.SOURCE, 3.0, ('server start',)),
                ('ok', 'server start'),
            ),
            (
                kills.Ended(kill, kills.SOURCE, 3.0, (), ('a file',)),
                ('VIOLATION', 'a file'),
            ),
        ):
            for word in (kill.name, *words):
                self.assertIn(word, ended.line)
