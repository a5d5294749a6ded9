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

import json
import re
from xml.etree import ElementTree

import testtools

from diskplacer_measure.papers import judging
from diskplacer_measure.report import contents
from diskplacer_measure.report import page
from diskplacer_measure.sweep import results
from diskplacer_measure.sweep import rules
from tests.unit.diskplacer_measure.sweep import example


def spoiled(cell):
    return cell.engine == 'sync_cached' and cell.vcpus == 1 and cell.jobs == 16


class ReportTest(testtools.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.report = contents.make(example.run(spoiled=spoiled))
        cls.page = page.draw(cls.report)

    def test_nothing_is_loaded(self):
        for word in ('<script', '<link', '<img', 'src=', 'href=', '@import'):
            self.assertNotIn(word, self.page)
        self.assertNotIn('url(', self.page)
        self.assertNotIn('://', self.page)

    def test_elements_are_closed(self):
        body = self.page.partition('<body>')[2].partition('</body>')[0]
        ElementTree.fromstring(f'<body>{body}</body>')

    def test_every_panel_has_a_table_with_its_figures(self):
        panels = [panel for one in self.report.figures for panel in one.panels]
        self.assertLess(20, len(panels))
        tables = re.findall('<table>.*?</table>', self.page)
        self.assertEqual(len(panels), len(tables))
        for panel, table in zip(panels, tables, strict=True):
            rows = sum(len(one.points) for one in panel.series)
            self.assertEqual(rows + 1, table.count('<tr>'))

    def test_every_claim_is_below_its_figure(self):
        sections = dict(
            re.findall(
                r'<section data-figure="([^"]*)">(.*?)</section>',
                self.page,
                re.DOTALL,
            )
        )
        for one in self.report.claims:
            self.assertIn(
                one.claim.sentence.replace("'", '&#x27;'),
                sections[one.claim.figure],
            )
        self.assertEqual(
            len(judging.CLAIMS), self.page.count('<li data-verdict=')
        )

    def test_verdicts_are_counted(self):
        for verdict in ('reproduced', 'refuted', 'not told apart'):
            number = sum(
                1 for one in self.report.claims if one.verdict == verdict
            )
            self.assertIn(f' {number} {verdict}</span>', self.page)

    def test_problems(self):
        self.assertEqual(10, len(self.report.problems))
        self.assertIn('10 results that do not count', self.page)
        self.assertIn(
            'One server, 1 vCPU, 1 GiB, read page cache, 16 threads, '
            'mq-deadline (deadline): bound by the CPU (5 repetitions)',
            self.page,
        )
        self.assertEqual(2, self.page.count('class="hollow"') - 1)
        self.assertNotIn(
            'do not count', page.draw(contents.make(example.run()))
        )

    def test_hints(self):
        self.assertNotIn('class="banner"', self.page)
        for run, text in (
            (example.run(emulated=True), 'without KVM'),
            (example.run(cpus=2), '1 × 4 vCPUs, 8 GiB'),
        ):
            self.assertIn(text, page.draw(contents.make(run)))

    def test_unfinished_run(self):
        run = example.run()
        half = results.Run(run.header, run.results[: len(run.results) // 2])
        self.assertIn(
            f'{len(run.results) - len(half.results)} planned results are not',
            page.draw(contents.make(half)),
        )

    def test_run_that_has_just_begun(self):
        run = results.Run(example.header(example.grid()), ())
        found = contents.make(run)
        self.assertEqual(
            {rules.NOT_MEASURED}, {one.verdict for one in found.claims}
        )
        self.assertEqual(5, page.draw(found).count('Not measured.</p>'))

    def test_names_of_hosts_are_text(self):
        text = page.draw(contents.make(example.run(host='<b>x</b>')))
        self.assertNotIn('<b>', text)
        self.assertIn('&lt;b&gt;x', text)

    def test_data(self):
        found = json.loads(
            json.dumps(contents.data(self.report), allow_nan=False)
        )
        self.assertEqual('compute-1', found['header']['host'])
        self.assertNotIn('plan', found['header'])
        self.assertEqual(len(judging.CLAIMS), len(found['claims']))
        self.assertEqual(10, len(found['problems']))
        first = found['claims'][0]
        self.assertEqual(
            ('P0', 'reproduced'), (first['paper'], first['verdict'])
        )
        (check,) = first['checks']
        self.assertAlmostEqual(0.5, check['value'], 1)
        self.assertEqual(
            (0, 0.9), (check['allowed_low'], check['allowed_high'])
        )
        nothing = next(
            one for one in found['claims'] if one['verdict'] == 'not measured'
        )
        self.assertEqual('cells are missing', nothing['why'])
        self.assertIsNone(nothing['checks'][0]['value'])
        panel = found['figures'][0]['panels'][0]
        self.assertEqual('Bare metal', panel['series'][0]['label'])
        self.assertEqual(5, panel['series'][0]['points'][0]['repetitions'])

    def test_text_of_checks(self):
        for allowed, text in (
            (rules.MUCH_LESS, 'allowed 0.9 or less'),
            (rules.MORE, 'allowed 1.01 or more'),
            (rules.ALIKE, 'allowed 0.9 to 1.1'),
        ):
            check = rules.Check(
                'servers to bare metal', allowed, 0.5, 0.4, 0.6, 0.3, 0.7, 2, 5
            )
            self.assertEqual(
                'Here, servers to bare metal: 0.5 (0.4 to 0.6), '
                f'{text}; n = 5 repetitions of 2 cells; single cells 0.3 to '
                '0.7.',
                page.check_text(check),
            )
