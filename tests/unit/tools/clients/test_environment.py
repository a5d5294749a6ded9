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

"""The environments of clients."""

import pathlib

import fixtures
import testtools

from tools.clients import environment


class EnvironmentTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.patch(environment, '_VENVS', path)
        self.made = []

    def install(self, path):
        self.made.append(path)
        (path / 'bin').mkdir()

    def test_is_made_once_for_each_content(self):
        first, again, other = (
            environment.make('one', content, self.install)
            for content in ('1', '1', '2')
        )
        self.assertEqual(first, again)
        self.assertEqual([first, other], self.made)

    def test_is_made_again_after_a_failure(self):
        def fail(path):
            self.install(path)
            environment.run('sh', '-c', 'echo some; echo no Go; exit 1')

        error = self.assertRaises(
            environment.MissingError, environment.make, 'one', '1', fail
        )
        self.assertEqual('sh -c failed: no Go', str(error))
        environment.make('one', '1', self.install)
        self.assertEqual(2, len(self.made))

    def test_program(self):
        self.assertTrue(environment.program('sh').endswith('/sh'))
        error = self.assertRaises(
            environment.MissingError, environment.program, 'no-such-program'
        )
        self.assertIn('no-such-program', str(error))

    def test_pinned(self):
        self.assertEqual(
            {'one': '1.2', 'two': '3'},
            environment.pinned('# Some.\none==1.2\ntwo==3\n'),
        )
