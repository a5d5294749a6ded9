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

"""Draw what Hadoop's sort takes by vdisks, beside P2, from the results.

    python -m tools.hadoop_picture

reads benchmarks/results/hadoop.json and writes
doc/source/_static/hadoop-sort.svg. Bars are the means, and lines in them the
95 % intervals; diamonds are what P2 §3.3 states.
"""

import pathlib
import typing

from tools import svg

_TOP = pathlib.Path(__file__).parents[1]
RESULT = _TOP / 'benchmarks/results/hadoop.json'
PICTURE = _TOP / 'doc/source/_static/hadoop-sort.svg'

Figures = dict[str, float | None]

_LAYOUTS = {
    **{f'round_robin_{count}': str(count) for count in (1, 2, 4, 6, 8)},
    'consolidated_8': '8 on one',
}
_WIDTH, _HEIGHT, _TOP_Y = 380, 250, 56
_OURS, _ONE_DISK, _PAPER = '#1f6fb2', '#c77b0a', '#1d2733'


class Panel(typing.NamedTuple):
    """A diagram of a figure at ``left``; ``paper`` is what P2 has of it."""

    title: str
    field: str
    left: int
    paper: dict[str, float]

    def draw(self, figures: Figures, whole: float) -> list[str]:
        """Return its elements.

        :param whole: what is 100 %.
        """
        found = [svg.text(self.title, self.left, 30, 'head')]
        for percent in range(0, 101, 20):
            y = _y(percent)
            found += [
                f'<path class="grid" d="M{self.left} {y}h{_WIDTH}"/>',
                svg.text(f'{percent}', self.left - 8, y + 4, 'small', 'end'),
            ]
        for number, (layout, label) in enumerate(_LAYOUTS.items()):
            x = self.left + 14 + number * 62
            name = f'{layout}_{self.field}'
            value, low, high = (
                100 * (figures.get(name + end) or 0.0) / whole
                for end in ('', '_low', '_high')
            )
            color = _ONE_DISK if 'on one' in label else _OURS
            found += [
                f'<rect x="{x}" y="{_y(value)}" width="40" '
                f'height="{round(_y(0) - _y(value), 1)}" fill="{color}"/>',
                svg.text(label, x + 20, _y(0) + 18, 'small', 'middle'),
            ]
            if high:
                ends = _y(max(low, 0)), _y(min(high, 105))
                found.append(
                    f'<path d="M{x + 20} {ends[0]}V{ends[1]}" '
                    'stroke="#0c1e33" stroke-width="2"/>'
                )
            if layout in self.paper:
                found.append(_diamond(x + 20, _y(self.paper[layout])))
        return found


_PANELS = (
    Panel(
        'Time of the sort, % of that with one vdisk, by vdisks',
        'sort_s',
        60,
        {'round_robin_2': 73, 'round_robin_8': 30},
    ),
    Panel(
        'Highest utilization of the disks in 5 s, %, by vdisks',
        'peak',
        540,
        {'round_robin_1': 100, 'round_robin_4': 50, 'round_robin_8': 25},
    ),
)


def _y(percent: float) -> float:
    return round(_TOP_Y + _HEIGHT * (1 - percent / 105), 1)


def _diamond(x: float, y: float) -> str:
    return (
        f'<path d="M{x} {y - 7}l7 7l-7 7l-7 -7z" fill="{_PAPER}" '
        'stroke="#ffffff"/>'
    )


def draw(figures: Figures) -> str:
    """Return the picture as SVG."""
    times, peaks = _PANELS
    first = figures['round_robin_1_sort_s']
    assert first is not None
    body = [*times.draw(figures, first), *peaks.draw(figures, 1.0)]
    y = _TOP_Y + _HEIGHT + 52
    legend = (
        ('each vdisk on a disk of its own', _OURS),
        ('all vdisks on one disk', _ONE_DISK),
    )
    for number, (label, color) in enumerate(legend):
        x = 60 + 270 * number
        body += [
            f'<rect x="{x}" y="{y - 11}" width="14" height="14" '
            f'fill="{color}"/>',
            svg.text(label, x + 22, y),
        ]
    body += [_diamond(607, y - 4), svg.text('P2 §3.3', 622, y)]
    title = "Time of Hadoop's sort and utilization of disks, by vdisks"
    return svg.document(title, y + 24, body)


def main() -> None:
    """Draw the committed result."""
    svg.write(RESULT, PICTURE, draw)


if __name__ == '__main__':
    main()
