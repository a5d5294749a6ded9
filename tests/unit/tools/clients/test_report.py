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

"""The result of tools/clients.sh."""

import json

import testtools

import _catalogue
from tools.clients import checks
from tools.clients import report
from tools.clients.checks import Check

FOUND = (
    Check('one', 'create', 'ACTIVE', checks.AS_EXPECTED, 'ACTIVE'),
    Check('one', 'delete', 'nothing', checks.DIFFERENT, 'a volume'),
    Check('two', 'create', 'ACTIVE', checks.NOT_RUN, 'there is no Go'),
)


class ReportTest(testtools.TestCase):
    def test_content(self):
        content = report.content(FOUND, {'one': '1.2'}, ['one', 'two'])
        content = json.loads(json.dumps(content))
        self.assertEqual('tools/clients.sh one two', content['command'])
        self.assertEqual({'one': '1.2'}, content['versions'])
        self.assertEqual(
            {'checks': 3, 'as_expected': 1, 'different': 1, 'not_run': 1},
            {
                name: value
                for name, value in content['figures'].items()
                if name != 'seconds'
            },
        )
        self.assertEqual(
            [False, False], [goal['met'] for goal in content['goals']]
        )
        self.assertEqual('there is no Go', content['checks'][2]['found'])

    def test_what_is_not_run_is_not_as_expected(self):
        (*_, goal) = report.content(FOUND[2:], {}, [])['goals']
        self.assertEqual(('not_run', False), (goal['figure'], goal['met']))

    def test_code_is_that_of_the_catalogue(self):
        self.assertEqual(_catalogue.measured('clients'), report.MEASURED)

    def test_lines(self):
        lines = [report.line(check) for check in FOUND]
        self.assertEqual('as expected  one: create: ACTIVE', lines[0])
        self.assertIn('delete: a volume\n             expected', lines[1])
        self.assertIn('there is no Go (expected: ACTIVE)', lines[2])
        self.assertEqual(
            '1 as expected, 1 different, 1 not run', report.summary(FOUND)
        )
