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

"""Draw the throughput of Fennel's tasks over time, from the results.

    python -m tools.weights_picture

reads benchmarks/results/task_throughput.json and writes
doc/source/_static/weights.svg.
"""

import pathlib
import typing

from tools import svg

_TOP = pathlib.Path(__file__).parents[1]
RESULT = _TOP / 'benchmarks/results/task_throughput.json'
PICTURE = _TOP / 'doc/source/_static/weights.svg'

Figures = dict[str, float | None]

TASKS = (
    ('Task of 10 GB, scaled', '#7a869a'),
    ('3 GB', '#c77b0a'),
    ('500 MB', '#2e7d32'),
    ('250 MB', '#1f6fb2'),
)
SECONDS = 50
_MBPS = 20
_WIDTH, _HEIGHT, _TOP_Y = 390, 260, 48


class Panel(typing.NamedTuple):
    """A diagram of an arm of the result, at ``left``."""

    title: str
    arm: str
    left: int

    def draw(self, figures: Figures) -> list[str]:
        """Return its elements."""
        found = [svg.text(self.title, self.left, 30, 'head')]
        for mbps in range(0, _MBPS + 1, 5):
            found += [
                f'<path class="grid" d="M{self.left} {_y(mbps)}h{_WIDTH}"/>',
                svg.text(
                    f'{mbps}', self.left - 8, _y(mbps) + 4, 'small', 'end'
                ),
            ]
        found += [
            svg.text(
                f'{second}', self._x(second), _y(0) + 18, 'small', 'middle'
            )
            for second in range(0, SECONDS + 1, 10)
        ]
        for task, (_, color) in enumerate(TASKS, 1):
            points = [
                f'{self._x(second - 0.5)},{_y(value)}'
                for second in range(1, SECONDS + 1)
                if (value := self._value(figures, task, second)) is not None
            ]
            found.append(
                f'<polyline fill="none" stroke="{color}" stroke-width="2" '
                f'points="{" ".join(points)}"/>'
            )
        return found

    def _value(self, figures: Figures, task: int, second: int) -> float | None:
        return figures.get(f'bfq_{self.arm}_task{task}_mbps_{second}')

    def _x(self, second: float) -> float:
        return round(self.left + _WIDTH * second / SECONDS, 1)


_PANELS = (
    Panel('Without the agent: MB/s, by seconds', 'without', 60),
    Panel('With the agent', 'with', 530),
)


def _y(mbps: float) -> float:
    return round(_TOP_Y + _HEIGHT * (1 - mbps / (_MBPS + 1)), 1)


def draw(figures: Figures) -> str:
    """Return the picture as SVG."""
    body = [element for panel in _PANELS for element in panel.draw(figures)]
    y = _TOP_Y + _HEIGHT + 50
    for number, (label, color) in enumerate(TASKS):
        x = 60 + 225 * number
        body += [
            f'<path d="M{x} {y - 4}h28" stroke="{color}" stroke-width="2"/>',
            svg.text(label, x + 36, y),
        ]
    title = 'Throughput of four tasks on one disk, without and with the agent'
    return svg.document(title, y + 24, body)


def main() -> None:
    """Draw the committed result."""
    svg.write(RESULT, PICTURE, draw)


if __name__ == '__main__':
    main()
