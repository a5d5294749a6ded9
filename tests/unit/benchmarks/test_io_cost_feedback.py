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
import pathlib
import types

import fixtures
import testtools

import _io_cost_guest as guest
import io_cost_feedback as benchmark

MODEL = {'rbps': 20, 'latency': 90, 'scheduler': 'none'}


class EvaluateTest(testtools.TestCase):
    def evaluate(self, of_agent):
        without = {
            'light': {'mbps': 10.0, 'latency_ms': 2.0},
            'heavy': {'mbps': 10.0, 'latency_ms': 2.0},
        }
        arms = dict.fromkeys(benchmark.ARMS, without) | {'agent': of_agent}
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            figures = benchmark.evaluate(
                'ssd', {'model': MODEL, 'found': {'a_b': arms}}
            )
        return figures, shown.getvalue()

    def test_figures(self):
        figures, shown = self.evaluate(
            {
                'light': {'mbps': 9.0, 'latency_ms': 1.5, 'usage': 0.75},
                'heavy': {'mbps': 3.0, 'latency_ms': 6.0, 'usage': 0.25},
            }
        )
        for name, value in (
            ('control', 3.0),
            ('whole', 0.6),
            ('latency_ms', 1.5),
            ('light_usage', 0.75),
            ('heavy_usage', 0.25),
            ('heavy_wait', None),
        ):
            self.assertEqual(value, figures[f'ssd_a_b_agent_{name}'])
        self.assertIsNone(figures['ssd_a_b_none_light_usage'])
        self.assertEqual(20, figures['ssd_model_rbps'])
        self.assertNotIn('ssd_model_scheduler', figures)
        self.assertIn('0.75, 0.25', shown)


class KernelTimesTest(testtools.TestCase):
    def read(self, text):
        home = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (home / 'io.stat').write_text(text)
        return guest.kernel_times(home, types.SimpleNamespace(number='8:16'))

    def test_times(self):
        counters = 'rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0'
        self.assertEqual(
            {'usage': 5, 'wait': 6, 'indebt': 7, 'indelay': 8},
            self.read(
                f'8:0 {counters} cost.usage=1\n'
                f'8:16 {counters} cost.vrate=100.00 cost.usage=5 cost.wait=6 '
                'cost.indebt=7 cost.indelay=8\n'
            ),
        )
        self.assertEqual(
            {'usage': 5}, self.read(f'8:16 {counters} cost.usage=5\n')
        )
        for text in ('', f'8:16 {counters}\n', f'8:1 {counters}\n'):
            self.assertEqual({}, self.read(text))
