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

"""Draw the accepted GiB and the neighbours by load, from the results.

    python -m tools.placement_picture

reads benchmarks/results/placement_quality.json and writes
doc/source/_static/placement-quality.svg.
"""

import html
import pathlib
import typing

from tools import svg

_TOP = pathlib.Path(__file__).parents[1]
RESULT = _TOP / 'benchmarks/results/placement_quality.json'
PICTURE = _TOP / 'doc/source/_static/placement-quality.svg'

Figures = dict[str, float | None]

_LOADS = (40, 60, 70, 80, 90, 95, 100)


class Line(typing.NamedTuple):
    """How a policy is drawn."""

    policy: str
    label: str
    color: str
    width: float = 1.6
    dash: str = ''


LINES = (
    Line('default', 'nova-diskplacer, default', '#1f6fb2', 3.2),
    Line('today', 'always spread', '#c77b0a', 2.4),
    Line('best_fit', 'best fit by GiB', '#2e7d32'),
    Line('random', 'random host', '#7a869a', 1.6, '5 4'),
    Line('topolvm', 'TopoLVM', '#8e44ad'),
    Line('openebs_space', 'lvm-localpv, space', '#c0392b'),
    Line('openebs_volumes', 'lvm-localpv, volumes', '#c0392b', 1.6, '5 4'),
    Line('nova_disk', "Nova's DiskWeigher", '#44546a', 1.6, '2 3'),
)


class Panel(typing.NamedTuple):
    """A diagram of a figure, at ``left``; values go from low to high."""

    title: str
    figure: str
    left: int
    low: float
    high: float
    step: float
    scale: float

    def draw(self, figures: Figures) -> list[str]:
        """Return its elements."""
        found = [
            f'<text class="head" x="{self.left}" y="30">'
            f'{html.escape(self.title)}</text>'
        ]
        value = self.low
        while value <= self.high + 1e-9:
            y = self._y(value)
            found += [
                f'<path class="grid" d="M{self.left} {y}h{_WIDTH}"/>',
                f'<text class="small" x="{self.left - 8}" y="{y + 4}" '
                f'text-anchor="end">{value:g}</text>',
            ]
            value += self.step
        found += [
            f'<text class="small" x="{_x(self.left, load)}" '
            f'y="{_TOP_Y + _HEIGHT + 18}" text-anchor="middle">{load}</text>'
            for load in _LOADS
        ]
        for line in reversed(LINES):
            points = [
                f'{_x(self.left, load)},{self._y(self.scale * value)}'
                for load in _LOADS
                if (value := self._value(figures, line, load)) is not None
            ]
            found.append(
                f'<polyline fill="none" stroke="{line.color}" '
                f'stroke-width="{line.width}"'
                + (f' stroke-dasharray="{line.dash}"' if line.dash else '')
                + f' points="{" ".join(points)}"/>'
            )
        return found

    def _value(self, figures: Figures, line: Line, load: int) -> float | None:
        return figures.get(f'load_{load}_{line.policy}_{self.figure}')

    def _y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(_TOP_Y + _HEIGHT * (1 - share), 1)


_WIDTH, _HEIGHT, _TOP_Y = 380, 270, 48

_PANELS = (
    Panel('GiB accepted, %, by load in %', 'gib', 60, 65, 100, 5, 100),
    Panel(
        'Other vdisks on the disk of a vdisk, by load',
        'neighbours',
        520,
        4,
        10,
        1,
        1,
    ),
)


def _x(left: int, load: int) -> float:
    return round(left + _WIDTH * (load - 40) / 60, 1)


def draw(figures: Figures) -> str:
    """Return the picture as SVG."""
    body = [element for panel in _PANELS for element in panel.draw(figures)]
    for number, line in enumerate(LINES):
        x = 60 + 225 * (number % 4)
        y = _TOP_Y + _HEIGHT + 48 + 22 * (number // 4)
        body += [
            f'<path d="M{x} {y - 4}h28" stroke="{line.color}" '
            f'stroke-width="{line.width}"'
            + (f' stroke-dasharray="{line.dash}"' if line.dash else '')
            + '/>',
            f'<text x="{x + 36}" y="{y}">{html.escape(line.label)}</text>',
        ]
    height = _TOP_Y + _HEIGHT + 90
    title = 'GiB accepted and vdisks that share a disk, by offered load'
    return svg.document(title, height, body)


def main() -> None:
    """Draw the committed result."""
    svg.write(RESULT, PICTURE, draw)


if __name__ == '__main__':
    main()
