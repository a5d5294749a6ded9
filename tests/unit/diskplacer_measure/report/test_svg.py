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
import re
from xml.etree import ElementTree

import ddt
import hypothesis
import testtools
from hypothesis import strategies

from diskplacer_measure.report import figures
from diskplacer_measure.report import svg
from tests.unit.diskplacer_measure.sweep import example


def luminance(colour):
    """Return the relative luminance of a colour, as WCAG 2 defines it."""
    channels = [
        int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)
    ]
    red, green, blue = (
        one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4
        for one in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def panel(*points, **metric):
    return figures.Panel(
        'A <title>',
        'read',
        dataclasses.replace(figures.THROUGHPUT, **metric),
        (figures.Series('one & only', points),),
    )


def point(threads, mean, low=None, high=None, repetitions=5):
    return figures.Point(threads, mean, low, high, repetitions, ())


def plot(one, top=None):
    looks = {series.label: place for place, series in enumerate(one.series)}
    text = svg.plot(one, looks, svg.highest([one]) if top is None else top)
    return ElementTree.fromstring(text)


def marks(element):
    return [
        one
        for one in element.iter()
        if one.get('class') in ('solid', 'hollow')
    ]


@ddt.ddt
class TicksTest(testtools.TestCase):
    @ddt.data(
        (1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (100, [0, 20, 40, 60, 80, 100]),
        (101, [0, 50, 100, 150]),
        (0.013, [0, 0.005, 0.01, 0.015]),
        (0, [0, 1]),
    )
    @ddt.unpack
    def test_round(self, highest, expected):
        self.assertEqual(
            expected, [round(one, 9) for one in svg.ticks(highest)]
        )

    @hypothesis.given(strategies.floats(0.01, 1e9))
    def test_few_and_high_enough(self, highest):
        found = svg.ticks(highest)
        self.assertLessEqual(3, len(found))
        self.assertGreaterEqual(7, len(found))
        self.assertGreaterEqual(found[-1], highest * (1 - 1e-6))
        self.assertEqual(len(found), len(set(map(svg.number, found))))

    @ddt.data(
        (0, '0'),
        (0.004567, '0.0046'),
        (0.25, '0.25'),
        (9.999, '10'),
        (41.26, '41.3'),
        (50, '50'),
        (123.4, '123'),
        (12345.6, '12,346'),
    )
    @ddt.unpack
    def test_number(self, value, expected):
        self.assertEqual(expected, svg.number(value))


class PlotTest(testtools.TestCase):
    def test_markers_are_where_the_figures_are(self):
        found = plot(panel(point(1, 0), point(4, 50), point(16, 100)))
        x, y = (
            [float(one.get(key)) for one in marks(found)]
            for key in ('cx', 'cy')
        )
        self.assertAlmostEqual(x[1] - x[0], x[2] - x[1], delta=0.2)
        self.assertAlmostEqual(y[0] - y[1], y[1] - y[2], delta=0.2)
        self.assertGreater(y[0], y[1])
        self.assertLess(x[0], x[1])

    def test_texts(self):
        found = plot(panel(point(1, 10), point(4, 50)))
        texts = [one.text for one in found.iter('text')]
        for text in ('0', '10', '50', '1', '4', 'Threads', 'MB/s'):
            self.assertIn(text, texts)
        self.assertEqual('A <title>', found.find('title').text)
        self.assertIn(
            'one & only: 10', [one.text for one in found.iter('title')]
        )

    def test_large_numbers_are_short(self):
        found = plot(panel(point(1, 41_000)))
        self.assertIn('50k', [one.text for one in found.iter('text')])

    def test_error_bars(self):
        found = plot(panel(point(1, 50, 40, 60), point(4, 50)))
        (bar,) = found.iter('path')
        low, high = map(
            float, re.findall(r'[MV]\S+ (\S+?)V(\S+?)M', bar.get('d'))[0]
        )
        (first, *_) = marks(found)
        self.assertAlmostEqual(
            float(first.get('cy')), (low + high) / 2, delta=0.2
        )
        self.assertLess(high, low)

    def test_interval_below_zero_stays_in_the_picture(self):
        found = plot(panel(point(1, 50, -40, 140)))
        axis = max(float(one.get('y1')) for one in found.iter('line'))
        (bar,) = found.iter('path')
        self.assertIn(f' {axis:.1f}V', bar.get('d'))

    def test_problems_are_hollow_and_not_in_the_line(self):
        found = plot(
            panel(point(1, 10), point(4, 90, repetitions=0), point(16, 20))
        )
        self.assertEqual(
            ['solid', 'hollow', 'solid'],
            [one.get('class') for one in marks(found)],
        )
        (line,) = found.iter('polyline')
        self.assertEqual(2, len(line.get('points').split()))

    def test_most_of_a_metric_is_the_end_of_the_axis(self):
        found = plot(panel(point(1, 0.5), most=1))
        texts = [one.text for one in found.iter('text')]
        self.assertIn('1', texts)
        self.assertNotIn('1.2', texts)

    def test_everything_is_inside(self):
        for figure in figures.draw(example.run().results):
            for one in figure.panels:
                found = plot(one)
                width, height = map(float, found.get('viewBox').split()[2:])
                for mark in marks(found):
                    points = mark.get('points')
                    for pair in points.split() if points else ():
                        x, y = map(float, pair.split(','))
                        self.assertTrue(0 < x < width and 0 < y < height)


class LooksTest(testtools.TestCase):
    def test_all_differ_without_colours(self):
        seen = set()
        for look in range(30):
            text = svg.sample(look)
            element = ElementTree.fromstring(text)
            (line,) = element.iter('line')
            shape = element[1]
            seen.add(
                (
                    line.get('stroke-dasharray'),
                    shape.tag,
                    shape.get('points') or shape.get('r'),
                )
            )
        self.assertEqual(30, len(seen))

    def test_colours_are_seen_on_white(self):
        colours = {
            ElementTree.fromstring(svg.sample(look)).find('line').get('stroke')
            for look in range(30)
        }
        self.assertLess(5, len(colours))
        for colour in colours:
            self.assertGreaterEqual(
                1.05 / (luminance(colour) + 0.05), 4.5, colour
            )

    def test_a_series_looks_the_same_in_all_figures(self):
        looks = svg.styles(figures.draw(example.run().results))
        self.assertEqual(0, looks['Bare metal'])
        self.assertEqual(len(looks), len(set(looks.values())))
