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


import pathlib

import fixtures
import testscenarios
import testtools
from oslo_config import generator

TOP = pathlib.Path(__file__).parents[3]


class SampleConfigTest(testscenarios.WithScenarios, testtools.TestCase):
    """The samples in ``etc`` are what ``tox -e genconfig`` writes."""

    scenarios = [
        (path.name, {'generator_config': path})
        for path in sorted(TOP.glob('etc/*-config-generator.conf'))
    ]

    def test_sample_is_current(self):
        name = self.generator_config.name.replace('-config-generator', '')
        made = pathlib.Path(self.useFixture(fixtures.TempDir()).path, name)
        generator.main(
            [
                f'--config-file={self.generator_config}',
                f'--output-file={made}',
            ]
        )
        checked_in = TOP / 'etc' / f'{name}.sample'
        self.assertEqual(checked_in.read_text(), made.read_text())
