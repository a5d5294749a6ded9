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

import ddt
import testtools

from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import grid

SHAPES = (cells.Shape(1, 1024), cells.Shape(4, 8192))


def build(**values):
    fields = {
        'scenarios': cells.SCENARIOS,
        'shapes': SHAPES,
        'jobs': (1, 4),
        'at_once': (3,),
        'engines': cells.ENGINES,
        'depths': (32, 256),
        'host_schedulers': ('mq-deadline', 'bfq'),
        'guest_schedulers': ('none',),
        'read_ahead_kb': (128, 4096),
        'cache_mode': 'none',
    }
    return grid.build(grid.Grid(**{**fields, **values}))


@ddt.ddt
class BuildTest(testtools.TestCase):
    def test_each_cell_is_once(self):
        found = build()
        self.assertEqual(sorted(set(found)), list(found))

    def test_number_of_cells(self):
        # a direct read and write, a write through the cache, a read through
        # it with either read-ahead, and asynchronous with either depth and
        # scheduler
        each = 2 + 1 + 2 + 2 * 2 * 2
        # bare metal and two shapes with either number of threads, and three
        # servers at once
        self.assertEqual(each * (3 * 2 + 1), len(build()))

    def test_blocking_calls_have_the_first_scheduler(self):
        self.assertEqual(
            {
                'sync_direct': {'mq-deadline'},
                'sync_cached': {'mq-deadline'},
                'async': {'mq-deadline', 'bfq'},
            },
            {
                engine: {
                    cell.host_scheduler
                    for cell in build()
                    if cell.engine == engine
                }
                for engine in cells.ENGINES
            },
        )

    def test_only_reads_through_the_cache_have_every_read_ahead(self):
        self.assertEqual(
            {('sync_cached', 'read')},
            {
                (cell.engine, cell.operation)
                for cell in build()
                if cell.read_ahead_kb == 4096
            },
        )

    def test_blocking_calls_have_one_request(self):
        for cell in build():
            self.assertEqual(cell.engine == 'async', cell.depth > 1)

    @ddt.data(
        ('bare', {(0, 0, 0, 1), (0, 0, 0, 4)}),
        (
            'server',
            {(1, 1, 1024, 1), (1, 1, 1024, 4), (1, 4, 8192, 1)}
            | {(1, 4, 8192, 4)},
        ),
        ('servers', {(3, 1, 1024, 1)}),
    )
    @ddt.unpack
    def test_scenarios(self, scenario, wanted):
        self.assertEqual(
            wanted,
            {
                (cell.servers, cell.vcpus, cell.ram_mib, cell.jobs)
                for cell in build(scenarios=(scenario,))
            },
        )

    def test_bare_metal_has_no_settings_of_servers(self):
        for cell in build():
            settings = {cell.guest_scheduler, cell.cache_mode}
            self.assertEqual(
                {''} if cell.scenario == 'bare' else {'none'}, settings
            )

    def test_the_paper_s_shapes(self):
        # P0, Table I
        self.assertEqual(
            [(1, 1), (2, 4), (4, 8), (8, 16), (16, 16)],
            [(one.vcpus, one.ram_mib // 1024) for one in grid.SHAPES],
        )
