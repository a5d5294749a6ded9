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
"""The figures of ours in README.rst, written from the results.

Readers of the forge see README.rst as it is, without the extensions of the
documentation. So the lines between two comments there are written by this
script. With --check it writes nothing, and fails if they would differ.
"""

import pathlib
import sys
import textwrap
import typing

TOP = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(TOP), str(TOP / 'benchmarks'), str(TOP / 'doc' / 'ext')]

import _results  # noqa: E402
import fidelity_text  # noqa: E402
from tools import generated  # noqa: E402

README = TOP / 'README.rst'
BEGIN = '.. figures of benchmarks/results, by tools/readme_figures.py'
END = '.. end of the figures'


class Row(typing.NamedTuple):
    """What is measured, the result, and its figures as ``NAME [UNIT]``."""

    text: str
    result: str
    figures: tuple[str, ...]


ROWS = (
    Row(
        "Hadoop's sort with 8 vdisks on 8 disks: time that it saves, as a "
        'share of that with 1 vdisk (paper: up to 0.70)',
        'hadoop',
        ('less_time_1_to_8',),
    ),
    Row(
        'Reads in sequence from 4 vdisks on distinct disks, to one',
        'striping-seeking',
        ('round_robin_4_mbps / round_robin_1_mbps times',),
    ),
    Row(
        'The same in a server with 4 vdisks, and with 8, to one disk',
        'mapping_throughput',
        ('round_robin_4_read_ratio times', 'round_robin_8_read_ratio times'),
    ),
    Row(
        "Fennel's two short readers in servers, with nova-diskplacer and BFQ: "
        'change of their time (paper: −42.7 %, −46.4 %)',
        'contention-guests',
        ('bfq_task3_s_change %', 'bfq_task4_s_change %'),
    ),
    Row(
        'The same with processes instead of servers, on a disk of 19.5 MB/s',
        'contention',
        ('bfq_task3_s_change %', 'bfq_task4_s_change %'),
    ),
    Row(
        'Share of the GiB that a simulated fleet of 1,000 hosts accepts at '
        '90 % of load',
        'placement_quality',
        ('large_90_default_gib',),
    ),
    Row(
        'The same if all disks are made equally full',
        'placement_quality',
        ('large_90_today_gib',),
    ),
    Row(
        'What nova-diskplacer gains over that, of the GiB, in 20 random '
        'fleets and mixes that nothing was chosen on: mean; lowest',
        'placement_quality',
        ('holdout_gain_over_today', 'holdout_gain_over_today_min'),
    ),
    Row(
        'Throughput of a vdisk that is a file, and of one that is a logical '
        'volume, divided by that of the bare disk, read in sequence',
        'driver_ops',
        ('filesystem_read_ratio', 'lvm_read_ratio'),
    ),
)


def block(results: _results.Results) -> list[str]:
    """Return the lines between the comments."""
    table = [['Measured here', 'Figure', 'Result']]
    for row in ROWS:
        figures = [
            fidelity_text.measured(results, f'{row.result} {figure}')
            for figure in row.figures
        ]
        if row.result not in results:
            figures = ['not measured']
        cells = [row.text, '; '.join(figures), f'``{row.result}``']
        table.append(['\n'.join(textwrap.wrap(cell, 72)) for cell in cells])
    names = {row.result for row in ROWS if row.result in results}
    unsure = sorted(
        name
        for name in names
        if not results[name].code or results[name].changed()
    )
    lines = ['', *fidelity_text.table([50, 30, 20], table)]
    if unsure:
        note = (
            'The code that these results measure has changed since, or may '
            f'have: {", ".join(f"``{name}``" for name in unsure)}.'
        )
        lines += [*textwrap.wrap(note, 79, break_on_hyphens=False), '']
    return lines


def written(text: str, results: _results.Results) -> str:
    """Return the text of README.rst with the lines as they should be.

    :raises ValueError: the text has not both comments.
    """
    before, begin, rest = text.partition(f'{BEGIN}\n')
    _, end, after = rest.partition(f'{END}\n')
    if not begin or not end:
        raise ValueError(f'README.rst must have the lines "{BEGIN}", "{END}"')
    return ''.join(
        [before, begin, '\n'.join(block(results)), '\n', end, after]
    )


def main() -> int:
    results = _results.read()
    return generated.main(
        __doc__,
        README,
        'tools/readme_figures.py',
        lambda text: written(text, results),
    )


if __name__ == '__main__':
    sys.exit(main())
