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
import math

import testtools

import _fidelity
import _report
import _results
import fidelity_text

RESULT = _results.Result(
    'contention',
    datetime.date(2026, 11, 21),
    'tools/bench.sh contention --runs 5',
    _results.Machine('6.18.0', 2),
    {
        'change': -47.913,
        'change_min': -50.2,
        'change_max': -46.0,
        'rate': 21276.0,
        'none': None,
    },
)
RESULTS = {'contention': RESULT}

CLAIM = _fidelity.Claim(
    '§V-A, Table II',
    'A small task ends sooner.',
    '−42.7 %',
    None,
    'contention',
    (_fidelity.Ours('BFQ', 'change', '%'),),
    (_report.Goal('change', '<=', -42.7),),
    'On another disk.',
)
ITEM = _fidelity.Item('§IV-D', 'Curves.', ('a.py', 'b.py'), 'One of two.')


class TextTest(testtools.TestCase):
    def test_value(self):
        for value, unit, text in (
            (_results.Value(-47.913), '%', '−47.9 %'),
            (_results.Value(0.99982), '', '1'),
            (_results.Value(21276.0, 20000.0, 22000.4), 'seeks/s')
            + ('21,276 seeks/s (20,000 to 22,000)',),
            (_results.Value(1.5, 1.25, 1.75, '95 % CI'), 's')
            + ('1.5 s (95 % CI 1.25 to 1.75)',),
            (_results.Value(1.5, -math.inf, math.inf, '95 % CI'), '')
            + ('1.5 (no bounded interval)',),
        ):
            self.assertEqual(text, fidelity_text.value_text(value, unit))

    def test_measured(self):
        for text, shown in (
            ('contention change %', '−47.9 % (−50.2 to −46)'),
            ('contention rate / change', '−444'),
            ('contention\n    none s', 'not measured'),
            ('contention none s', 'not measured'),
            ('other change %', 'not measured'),
        ):
            self.assertEqual(shown, fidelity_text.measured(RESULTS, text))

    def test_verdict(self):
        papers = {'P4': _fidelity.Paper((CLAIM,), ())}
        self.assertEqual(
            CLAIM.verdict(RESULTS),
            fidelity_text.verdict(papers, RESULTS, 'P4\n change'),
        )
        for text in ('P4 changes', 'P5 change', 'P4'):
            self.assertRaises(
                ValueError, fidelity_text.verdict, papers, RESULTS, text
            )

    def test_figure_that_a_result_has_not(self):
        error = self.assertRaises(
            ValueError, fidelity_text.measured, RESULTS, 'contention chnge %'
        )
        self.assertEqual('contention.json has no figure chnge', str(error))
        error = self.assertRaises(
            ValueError, fidelity_text.measured, RESULTS, 'contention rate / no'
        )
        self.assertEqual('contention.json has no figure no', str(error))
        self.assertRaises(
            ValueError, fidelity_text.measured, RESULTS, 'contention'
        )


class LinesTest(testtools.TestCase):
    def lines(self, results):
        paper = _fidelity.Paper((CLAIM,), (ITEM,))
        return '\n'.join(fidelity_text.paper_lines(paper, results))

    def test_claim(self):
        self.assertIn(
            '   * - A small task ends sooner.\n'
            '\n'
            '       *§V-A, Table II*\n'
            '     - −42.7 %\n'
            '     - BFQ: −47.9 % (−50.2 to −46); allowed: at most −42.7 %\n'
            '\n'
            '       On 2026-11-21\n'
            '\n'
            '       On another disk.\n'
            '\n'
            '       Result: ``contention``\n'
            '     - **reproduced**\n',
            self.lines(RESULTS),
        )

    def test_claim_without_a_result(self):
        lines = self.lines({})
        self.assertIn('     - **not measured**\n', lines)
        self.assertIn('     - BFQ: allowed: at most −42.7 %\n', lines)

    def test_another_result_beside(self):
        other = dataclasses.replace(RESULT, figures={'change': -40.0})
        claim = dataclasses.replace(CLAIM, beside='contention-guests')
        for results, count in (
            (RESULTS, 0),
            (RESULTS | {'contention-guests': other}, 1),
        ):
            lines = fidelity_text.paper_lines(
                _fidelity.Paper((claim,), ()), results
            )
            self.assertEqual(
                count,
                lines.count(
                    '       In ``contention-guests`` *refuted*: BFQ: −40 %'
                ),
            )
            self.assertIn('     - **reproduced**', lines)

    def test_item(self):
        self.assertIn(
            '     - ``a.py``, ``b.py``\n\n       One of two.\n     - partly\n',
            self.lines(RESULTS),
        )

    def test_summary(self):
        papers = {
            'P0': _fidelity.Paper((), ()),
            'P4': _fidelity.Paper((CLAIM, CLAIM), (ITEM,)),
        }
        cells = [
            line[5:].strip()
            for line in fidelity_text.summary_lines(papers, RESULTS)
            if line.startswith(('   * -', '     -'))
        ]
        rows = [cells[at : at + 7] for at in range(0, 28, 7)]
        self.assertEqual(
            [
                ['Claims of', 'Reproduced', 'Refuted', 'Not told apart']
                + ['Not measured', 'Not measurable here', 'All'],
                ['P0', '0', '0', '0', '0', '0', '0'],
                ['P4', '2', '0', '0', '0', '0', '2'],
                ['All', '2', '0', '0', '0', '0', '2'],
            ],
            [[cell.lstrip('- ') for cell in row] for row in rows],
        )

    def test_results(self):
        lines = '\n'.join(fidelity_text.result_lines(RESULTS))
        for text in (
            '2026-11-21',
            '``tools/bench.sh contention --runs 5``',
            'Linux 6.18.0, 2 CPUs',
        ):
            self.assertIn(text, lines)
        self.assertIn('No result', fidelity_text.result_lines({})[0])
