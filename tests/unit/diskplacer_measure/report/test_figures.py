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

from diskplacer_measure import stats
from diskplacer_measure.report import figures
from tests.unit.diskplacer_measure.sweep import example


def drawn(plan, **arguments):
    """Return the figures of a run by name."""
    run = example.run(plan, **arguments)
    return {one.name: one for one in figures.draw(run.results)}


def labels(panel):
    return [one.label for one in panel.series]


class FiguresTest(testtools.TestCase):
    def test_the_papers_figures(self):
        found = drawn(example.grid())
        self.assertEqual(
            [
                'Read, direct, mq-deadline (deadline)',
                'Write, direct, mq-deadline (deadline)',
                'Read, page cache, mq-deadline (deadline)',
                'Write, page cache, mq-deadline (deadline)',
            ],
            [one.title for one in found['blocking'].panels],
        )
        self.assertEqual(
            [
                'Read, asynchronous, bfq (CFQ)',
                'Read, asynchronous, mq-deadline (deadline)',
                'Read, asynchronous, none (noop)',
            ],
            [one.title for one in found['asynchronous'].panels[:3]],
        )
        self.assertEqual(6, len(found['fairness'].panels))
        self.assertEqual(12, len(found['processors'].panels))
        self.assertEqual((), found['cache mode'].panels)

    def test_series(self):
        panel = drawn(example.grid())['asynchronous'].panels[0]
        self.assertEqual(
            [
                'Bare metal',
                'One server, 1 vCPU, 1 GiB',
                'One server, 2 vCPUs, 4 GiB',
                'One server, 4 vCPUs, 8 GiB',
                'Several servers, 1 vCPU, 1 GiB',
            ],
            labels(panel),
        )
        self.assertEqual(
            [(1, 4, 16), (4, 16)],
            [
                tuple(one.threads for one in panel.series[place].points)
                for place in (0, 4)
            ],
        )

    def test_settings_are_named_where_they_differ(self):
        found = drawn(
            [
                example.bare(depth=256),
                example.cell(depth=256),
                example.cell(depth=32, read_ahead_kb=1024),
            ]
        )
        self.assertEqual(
            [
                'Bare metal, 256 in flight, read-ahead 128 KiB',
                'One server, 2 vCPUs, 4 GiB, 32 in flight, read-ahead 1024 '
                'KiB',
                'One server, 2 vCPUs, 4 GiB, 256 in flight, read-ahead 128 '
                'KiB',
            ],
            labels(found['asynchronous'].panels[0]),
        )

    def test_guests_settings_are_not_those_of_bare_metal(self):
        found = drawn([example.bare(), example.cell(cache_mode='none')])
        self.assertEqual(
            ['Bare metal', 'One server, 2 vCPUs, 4 GiB'],
            labels(found['asynchronous'].panels[0]),
        )

    def test_cache_modes(self):
        load = {'operation': 'write', 'engine': 'sync_direct'}
        found = drawn(
            [
                example.cell(cache_mode='writethrough', **load),
                example.cell(cache_mode='none', **load),
                example.bare(**load),
            ]
        )
        (panel,) = found['cache mode'].panels
        self.assertEqual(
            [
                'One server, 2 vCPUs, 4 GiB, cache mode none',
                'One server, 2 vCPUs, 4 GiB, cache mode writethrough',
            ],
            labels(panel),
        )

    def test_points(self):
        cell = example.cell(jobs=2)
        results = [
            example.result(cell, 0, 10, rates=(5, 5), serving=0.25),
            example.result(cell, 1, 12, rates=(6, 6), serving=0.25),
            example.result(cell, 2, 99, 'bound by the CPU'),
        ]
        found = {one.name: one for one in figures.draw(results)}
        (point,) = found['asynchronous'].panels[0].series[0].points
        expected = stats.interval((10, 12))
        self.assertEqual(
            (2, 11, expected.low, expected.high, 2, ('bound by the CPU',)),
            tuple(vars(point).values()),
        )
        (point,) = found['fairness'].panels[0].series[0].points
        self.assertEqual(1, point.mean)
        (point,) = found['processors'].panels[0].series[0].points
        self.assertEqual(25, point.mean)

    def test_point_with_problems_only(self):
        cell = example.cell()
        found = figures.draw(
            [example.result(cell, 0, 30, 'bound by the CPU')]
            + [example.result(cell, 1, 0)]
        )
        (point,) = found[1].panels[0].series[0].points
        self.assertEqual((30, None, None, 0), tuple(vars(point).values())[1:5])
        self.assertEqual(('bound by the CPU', 'no throughput'), point.problems)

    def test_a_cell_that_failed(self):
        found = figures.draw([example.result(example.cell(), 0, 0, 'late')])
        self.assertEqual({()}, {one.panels for one in found})
