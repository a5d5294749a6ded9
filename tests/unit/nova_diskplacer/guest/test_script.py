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


import os
from unittest import mock

import fixtures
import testtools

from nova_diskplacer.guest import script
from nova_diskplacer.guest import system


class ConfigureTestCase(testtools.TestCase):
    def configure(self, syntax, text):
        """Write one directory into a file; return its text and problems."""
        file = os.path.join(self.useFixture(fixtures.TempDir()).path, 'x')
        with open(file, 'w') as stream:
            stream.write(text)
        one = {
            'name': 'x',
            'file': file,
            'syntax': syntax,
            'property': 'dirs',
            'prefix': '',
        }
        guest = script.Guest({'root': '/data', 'directories': [one]}, False)
        with (
            mock.patch.object(guest, '_known', lambda: ['1']),
            mock.patch.object(guest, '_adopt_all'),
            mock.patch.object(guest, '_mount'),
            mock.patch.object(guest, '_check'),
            mock.patch.object(system, 'run'),
        ):
            guest.run()
        with open(file) as stream:
            return stream.read(), [
                problem.replace(file, 'FILE') for problem in guest.problems
            ]

    def test_edited(self):
        self.assertEqual(
            ('a: 1\ndirs:\n    - /data/1/x\n...\n', []),
            self.configure('yaml', 'a: 1\n...\n'),
        )

    def test_left_alone(self):
        for syntax, text, problem in (
            (
                'yaml',
                'a: 1\n---\nb: 2\n',
                'it is not one YAML document with keys at the beginning of '
                'lines',
            ),
            ('xml', '<a/>', '<a> instead of <configuration>'),
            ('properties', 'a=\\', 'its last line ends with a backslash'),
        ):
            self.assertEqual(
                (text, ['FILE: ' + problem]), self.configure(syntax, text)
            )
