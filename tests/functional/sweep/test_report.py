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

"""The report of a sweep, as a browser shows it."""

import os
import tempfile

from oslotest import base

from diskplacer_measure.report import contents
from diskplacer_measure.report import page
from tests.unit.diskplacer_measure.sweep import example
from tools import browser

WIDTHS = (1200, 400)

# Boxes of all texts of each diagram, and of the diagram itself.
BOXES = """
[...document.querySelectorAll('figure svg')].map(svg => {
    const box = one => {
        const {left, top, right, bottom} = one.getBoundingClientRect();
        return [left, top, right, bottom];
    };
    return [box(svg), [...svg.querySelectorAll('text')].map(
        one => [one.textContent, box(one)])];
})
"""

OPEN = """
document.querySelectorAll('details').forEach(one => { one.open = true; })
"""


def overlap(one, other):
    """Whether two boxes share more than a pixel."""
    return (
        min(one[2], other[2]) - max(one[0], other[0]) > 1
        and min(one[3], other[3]) - max(one[1], other[1]) > 1
    )


class ReportTest(base.BaseTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.path = os.path.join(directory.name, 'report.html')
        cls.report = contents.make(
            example.run(
                spoiled=lambda cell: cell.vcpus == 1 and cell.jobs == 16,
                emulated=True,
                cpus=8,
            )
        )
        with open(cls.path, 'w', encoding='utf-8') as stream:
            stream.write(page.draw(cls.report))
        opened = browser.open_page(WIDTHS[0], 900)
        cls.page = opened.__enter__()
        cls.addClassCleanup(opened.__exit__, None, None, None)

    def setUp(self):
        super().setUp()
        self.page.resize(WIDTHS[0], 900)
        self.page.emulate()
        self.page.errors.clear()
        self.page.load(self.path)
        self.addCleanup(lambda: self.assertEqual([], self.page.errors))

    def count(self, selector):
        return self.page.run(f'document.querySelectorAll(`{selector}`).length')

    def test_every_figure_is_drawn(self):
        panels = [panel for one in self.report.figures for panel in one.panels]
        self.assertEqual(len(panels), self.count('figure svg'))
        points = [
            point
            for panel in panels
            for series in panel.series
            for point in series.points
        ]
        solid = sum(1 for point in points if point.repetitions)
        self.assertLess(solid, len(points))
        self.assertEqual(solid, self.count('figure .solid'))
        self.assertEqual(len(points) - solid, self.count('figure .hollow'))
        self.assertEqual(len(self.report.claims), self.count('.claims li'))

    def test_nothing_is_loaded(self):
        self.assertEqual(
            0,
            self.page.run('performance.getEntriesByType("resource").length'),
        )

    def test_nothing_is_wider_than_the_window(self):
        self.page.run(OPEN)
        for width in WIDTHS:
            self.page.resize(width, 900)
            self.assertEqual(
                width, self.page.run('document.documentElement.scrollWidth')
            )

    def test_text_is_readable(self):
        self.page.run(OPEN)
        for width in WIDTHS:
            for medium in ('', 'print'):
                self.page.resize(width, 900)
                self.page.emulate(medium)
                texts = self.page.texts()
                self.assertLess(500, len(texts))
                for name, size, contrast in texts:
                    self.assertLessEqual(12, size, (width, name))
                    self.assertLessEqual(4.5, contrast, (width, name))

    def test_texts_of_a_diagram_do_not_overlap(self):
        for width in WIDTHS:
            self.page.resize(width, 900)
            for whole, texts in self.page.run(BOXES):
                for place, (text, box) in enumerate(texts):
                    self.assertTrue(
                        whole[0] <= box[0]
                        and whole[1] <= box[1]
                        and box[2] <= whole[2]
                        and box[3] <= whole[3],
                        (width, text),
                    )
                    for other, its in texts[place + 1 :]:
                        self.assertFalse(
                            overlap(box, its), (width, text, other)
                        )

    def test_tables_open(self):
        rows = 'figure details tr'
        shown = (
            f'[...document.querySelectorAll("{rows}")].filter('
            'one => one.checkVisibility()).length'
        )
        self.assertEqual(0, self.page.run(shown))
        self.page.click('figure summary')
        self.assertLess(5, self.page.run(shown))
