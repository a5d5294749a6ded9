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

import testtools

import project_shares as benchmark


def told(*latencies_ms, mbps=1.0):
    """Return what servers of these latencies get, None of one without."""
    servers = [
        one and {'mbps': mbps, 'latency_ms': one, 'p99_ms': one}
        for one in latencies_ms
    ]
    return servers + [None] * (len(benchmark.PROJECTS) - len(servers))


def scenes(**changed):
    return {
        'alone': told(2),
        'lights_alone': told(2, 2, 2, 4),
        'lights_without': told(8, 8, 8, 8, 90),
        'lights_with': told(3, 4, 2, 4, 90),
        'own_without': told(10, 90, 90, 90),
        'own_with': told(3, 90, 90, 90),
        'whole': told(9, None, None, None, 9),
        'divided': told(9, 9, 9, 9, 9),
        **changed,
    }


class ProjectSharesTest(testtools.TestCase):
    def test_each_scene_is_told(self):
        self.assertEqual(benchmark.SCENES.keys(), scenes().keys())
        for name, servers in scenes().items():
            loads = benchmark.SCENES[name].loads
            self.assertEqual(
                [load is not None for load in loads],
                [one is not None for one in servers],
            )

    def test_shares(self):
        """Four servers of equal weights get four fifths."""
        found = benchmark.figures_of(scenes())
        self.assertAlmostEqual(0.5, found['whole_share'])
        self.assertAlmostEqual(0.8, found['divided_share'])
        self.assertAlmostEqual(1.6, found['gain'])

    def test_latencies(self):
        """The worst of the light servers counts, each beside itself."""
        found = benchmark.figures_of(scenes())
        self.assertEqual(2.0, found['lights_with_slower'])
        self.assertEqual(4.0, found['lights_with_latency_ms'])
        self.assertEqual(4.0, found['lights_without_slower'])
        self.assertEqual(1.5, found['own_with_slower'])
        self.assertEqual(10, found['own_without_latency_ms'])
        self.assertEqual(0.5, found['lights_harm'])
        self.assertEqual(0.3, found['own_harm'])
        self.assertEqual(0.0, found['lights_sum_lost'])

    def test_goals(self):
        fair = told(2, 2, 2, 2, 8)
        for server, one in enumerate(fair):
            one['mbps'] = 4.0 if server == 4 else 1.0
        runs = [benchmark.figures_of(scenes(divided=fair))] * 5
        figures = benchmark.evaluate('bfq', runs)
        self.assertEqual(1.0, figures['bfq_gain_max'])
        for prefer, count in (('balanced', 3), ('latency', 4)):
            goals = benchmark.goals('bfq', prefer)
            self.assertEqual(count, len(goals))
            self.assertTrue(all(goal.met(figures) for goal in goals))
            for goal in goals:
                worse = figures | {goal.figure: 2.1}
                self.assertFalse(goal.met(worse))
        with contextlib.redirect_stdout(io.StringIO()) as output:
            benchmark.show('bfq', figures)
        self.assertIn('Share of four', output.getvalue())
