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

"""Steps of clients, and what comes of them."""

import testtools

from tools.clients import checks
from tools.clients.checks import Check
from tools.clients.checks import Step


def broken():
    raise ValueError('the client ended')


class RunTest(testtools.TestCase):
    def run_steps(self, *steps):
        return list(checks.run('one', steps))

    def test_as_expected(self):
        (check,) = self.run_steps(Step('create', 'ACTIVE', lambda: 'ACTIVE'))
        self.assertEqual(
            Check('one', 'create', 'ACTIVE', checks.AS_EXPECTED, 'ACTIVE'),
            check,
        )

    def test_steps_after_a_different_one_are_not_run(self):
        first, second, third = self.run_steps(
            Step('create', 'ACTIVE', lambda: 'ERROR'),
            Step('plan', 'no difference', broken),
            Step('destroy', 'nothing', broken),
        )
        self.assertEqual(
            (checks.DIFFERENT, 'ERROR'), (first.outcome, first.found)
        )
        for check in (second, third):
            self.assertEqual(checks.NOT_RUN, check.outcome)
            self.assertEqual('"create" came out differently', check.found)

    def test_an_exception_is_different(self):
        (check,) = self.run_steps(Step('create', 'ACTIVE', broken))
        self.assertEqual(checks.DIFFERENT, check.outcome)
        self.assertEqual('ValueError: the client ended', check.found)

    def test_a_client_that_is_not_there(self):
        steps = (
            Step('create', 'ACTIVE', broken),
            Step('delete', 'nothing', broken),
        )
        found = checks.not_run('one', steps, 'there is no Go')
        self.assertEqual(
            [('create', checks.NOT_RUN), ('delete', checks.NOT_RUN)],
            [(check.name, check.outcome) for check in found],
        )
        self.assertEqual({'there is no Go'}, {one.found for one in found})
