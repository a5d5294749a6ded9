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

import dataclasses
import datetime

import testtools

import _results
from tools import weights_help


def result(ratio, lost):
    return _results.Result(
        'contention',
        datetime.date(2026, 1, 1),
        '',
        _results.Machine('', 2),
        {'bfq_steady_latency_ms_ratio': ratio, 'bfq_steady_sum_lost': lost},
    )


RESULTS = {
    'contention-seeking': result(0.5, 0.123),
    'contention-seeking-latency': result(0.25, 0.5),
    'contention-seeking-throughput': result(1.0, -0.0001),
}


class WeightsHelpTest(testtools.TestCase):
    def test_the_help_has_the_figures_of_the_results(self):
        text = weights_help.OPTIONS.read_text()
        self.assertEqual(
            weights_help.written(text, _results.read()),
            text,
            'run tools/weights_help.py',
        )

    def test_paragraph(self):
        text = weights_help.paragraph(RESULTS).replace('\n', ' ')
        self.assertIn('its latency is 1.00, 0.50 and 0.25 of', text)
        self.assertIn('of both is 0.0, 12.3 and 50.0 % less', text)
        self.assertEqual(1, text.count('On a '))

    def test_io_cost(self):
        figures = {
            'io_cost_steady_latency_ms_ratio': 0.6,
            'io_cost_steady_sum_lost': 0.002,
        }
        one = dataclasses.replace(result(None, None), figures=figures)
        text = weights_help.paragraph(RESULTS | {'contention': one})
        text = text.replace('\n', ' ')
        self.assertIn('With io.cost it is 0.60 with each', text)
        self.assertIn('and the throughput of both is 0.2 % less', text)

    def test_a_disk_without_all_results_is_left_out(self):
        for name in RESULTS:
            some = {key: one for key, one in RESULTS.items() if key != name}
            self.assertEqual('', weights_help.paragraph(some))
            some[name] = result(None, 0.1)
            self.assertEqual('', weights_help.paragraph(some))

    def test_only_the_paragraph_changes(self):
        text = weights_help.OPTIONS.read_text()
        without = weights_help.written(text, {})
        with_ = weights_help.written(without, RESULTS)
        self.assertIn('that seeks its latency', with_.replace('\n', ' '))
        self.assertEqual(without, weights_help.written(with_, {}))
        compile(with_, 'weights.py', 'exec')
