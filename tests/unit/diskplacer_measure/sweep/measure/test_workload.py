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
from hypothesis import given
from hypothesis import strategies

from diskplacer_measure.sweep.measure import workload
from tests.unit.diskplacer_measure.sweep import samples

TOKEN = 'run-1-0'
READY = f'sweep {TOKEN} ready booted=100 now=130 fill=250 end\r\n'
CELL = (
    f'sweep {TOKEN} cell 3.1 began=200 took=650 kib=1024,2048 ms=500,1000 '
    'latency=1500.250 usr=2.5000 sys=7.5000 ctx=42 cpu=10,20,60,10,0 end\r\n'
)
DONE = f'sweep {TOKEN} done end\r\n'
NOISE = '[   12.3] kernel: said something\r\n'
MEASURED = workload.Measured(
    200,
    6.5,
    (1024, 2048),
    (500, 1000),
    1500.25,
    0.1,
    42,
    {'user': 0.1, 'system': 0.2, 'idle': 0.6, 'iowait': 0.1, 'steal': 0.0},
)


@ddt.ddt
class ParseTest(testtools.TestCase):
    def test_all_lines(self):
        text = NOISE + 2 * READY + 2 * CELL + NOISE + 2 * DONE
        self.assertEqual(
            workload.Console(
                workload.Ready(100, 130, 2.5), {'3.1': MEASURED}, {}, '', True
            ),
            workload.parse(text, TOKEN),
        )

    @given(strategies.integers(1, len(CELL) - 3))
    def test_the_kernel_interrupts_a_line(self, where):
        broken = CELL[:where] + NOISE + CELL[where:]
        self.assertEqual({}, workload.parse(broken, TOKEN).measured)
        # the second one is whole
        self.assertEqual(
            {'3.1': MEASURED}, workload.parse(broken + CELL, TOKEN).measured
        )

    @given(strategies.integers(0, len(CELL) - 3))
    def test_a_console_begins_and_ends_anywhere(self, where):
        found = workload.parse(CELL[where:] + CELL[:where], TOKEN)
        self.assertIn(found.measured, ({}, {'3.1': MEASURED}))

    @given(strategies.text())
    def test_any_text(self, text):
        workload.parse(text, TOKEN)
        workload.parse(f'sweep {TOKEN} cell {text}', TOKEN)

    def test_another_token(self):
        found = workload.parse(CELL + DONE, 'run-1-1')
        self.assertEqual(({}, False), (found.measured, found.done))

    def test_failures(self):
        text = (
            f'sweep {TOKEN} late 1.0\r\n'
            f'sweep {TOKEN} failed 2.0 fio: no engine libaio\r\n'
            f'sweep {TOKEN} error awk is not installed\r\n'
        )
        found = workload.parse(text, TOKEN)
        self.assertEqual(
            {
                '1.0': 'a server came to the cell too late',
                '2.0': 'fio: no engine libaio',
            },
            found.failed,
        )
        self.assertEqual('awk is not installed', found.error)

    @ddt.data(
        ('ms=500,1000', 'ms=500'),
        # it did nothing
        ('ms=500,1000', 'ms=500,0'),
        ('cpu=10,20,60,10,0', 'cpu=10,20,60,10'),
    )
    @ddt.unpack
    def test_a_line_without_all_figures(self, figures, others):
        text = CELL.replace(figures, others)
        self.assertNotEqual(CELL, text)
        self.assertEqual({}, workload.parse(text, TOKEN).measured)


class ScriptTest(testtools.TestCase):
    def test_lines(self):
        self.assertEqual(
            '0.0 17 async read 4 32 - -',
            workload.line('0.0', samples.make_cell(jobs=4), 17),
        )
        cell = samples.make_cell(1, engine='sync_direct', depth=1)
        self.assertEqual(
            '0.0 0 sync_direct read 1 1 none 128',
            workload.line('0.0', cell, 0),
        )

    def test_the_user_data_of_a_long_boot_fit(self):
        # Nova accepts 65535 bytes in base64
        cell = samples.make_cell(
            9, engine='sync_cached', jobs=1000, depth=1000
        )
        lines = [workload.line('1234.10', cell, 2**31)] * 300
        text = workload.script(lines, token=40 * 'x', mib=1, kib=1, seconds=1)
        self.assertLess(len(text) * 4 / 3, 65535)

    def test_size_of_a_vdisk(self):
        self.assertEqual(
            [1, 1, 2], [workload.size_gb(mib) for mib in (1, 1024, 1025)]
        )
