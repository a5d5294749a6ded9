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

import server_moves as benchmark


class FiguresTestCase(testtools.TestCase):
    def figures(self, own, remote, settling):
        stages = zip(benchmark.STAGES, (own, remote, settling), strict=True)
        return benchmark.figures_of(dict(stages))

    def is_met(self, figures):
        (goal,) = benchmark.goals()
        return goal.met(figures)

    def test_the_network_limits_the_guest(self):
        found = self.figures([100, 120, 90], [50, 60, 40], [40, 45, 50])
        self.assertEqual(100, found['own_mbps'])
        self.assertEqual(
            (90, 120),
            tuple(found[f'own_mbps_{end}'] for end in ('min', 'max')),
        )
        self.assertEqual(0.5, found['remote_ratio'])
        self.assertEqual(0.9, found['settling_ratio'])
        self.assertTrue(self.is_met(found))

    def test_its_disk_limits_the_guest(self):
        found = self.figures([50], [100], [44])
        self.assertEqual(0.88, found['settling_ratio'])
        self.assertFalse(self.is_met(found))

    def test_a_copy_that_ended_too_soon(self):
        found = self.figures([50], [100], [])
        self.assertIsNone(found['settling_ratio'])
        self.assertFalse(self.is_met(found))
