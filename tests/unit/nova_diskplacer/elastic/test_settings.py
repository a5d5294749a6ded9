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

import testtools

from nova_diskplacer import exception
from tests.unit.nova_diskplacer.elastic import hosts


class SettingsTest(testtools.TestCase):
    def test_defaults(self):
        found = hosts.defaults()
        self.assertEqual(0.8, found.widen_pressure)
        self.assertEqual(5, found.levels)

    def test_configured(self):
        self.assertEqual(30.0, hosts.defaults(widen_after=30).widen_after)

    def test_narrow_pressure_that_would_oscillate(self):
        error = self.assertRaises(
            exception.ElasticError, hosts.changed, narrow_pressure=0.31
        )
        self.assertEqual(
            '[diskplacer_elastic] narrow_pressure=0.31 plus '
            'target_pressure=0.5 is more than widen_pressure=0.8',
            str(error),
        )
        # which is more than 0.7 in floats
        hosts.changed(
            narrow_pressure=0.1, target_pressure=0.6, widen_pressure=0.7
        )

    def test_longest_time_of_quiet(self):
        error = self.assertRaises(
            exception.ElasticError, hosts.changed, narrow_after_max=59
        )
        self.assertEqual(
            '[diskplacer_elastic] narrow_after_max=59 is less than '
            'narrow_after=60',
            str(error),
        )

    def test_quiet_time(self):
        settings = hosts.changed(narrow_after_max=400)
        self.assertEqual(
            [60, 120, 240, 400, 400],
            [settings.quiet_time(level) for level in range(5)],
        )
        self.assertEqual(3, settings.levels)
        same = hosts.changed(narrow_after_max=60)
        self.assertEqual(0, same.levels)
        self.assertEqual(60, same.quiet_time(9))
