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

"""Draws panels as SVG: throughput or another figure, by threads.

Series differ by colour, and by dashes and shapes of markers for those who see
no colours.
"""

import collections.abc
import html
import itertools
import math
import typing

from diskplacer_measure.report import figures
from nova_diskplacer.client import markup

_WIDTH, _HEIGHT = 380, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 12, 44

# Room between the lowest and the highest number of threads and the axes.
_INSET = 18

# Pixels between the markers of two series at the same number of threads.
_DODGE = 3.5

# All with a contrast to white of 4.5 or more.
_COLOURS = (
    '#000000',
    '#0068a3',
    '#b34700',
    '#00735c',
    '#8a3578',
    '#7a5200',
    '#595959',
)
_DASHES = ('', '7 3', '2 3', '9 3 2 3', '4 2')

# Corners of markers, on a circle; none: the circle itself.
_SHAPES: tuple[tuple[int, float], ...] = (
    (0, 0),
    (4, 45),
    (3, -90),
    (4, 0),
    (3, 90),
    (5, -90),
)
_RADIUS = 4.5

Styles = collections.abc.Mapping[str, int]


def styles(drawn: collections.abc.Iterable[figures.Figure]) -> dict[str, int]:
    """Return a number for the look of each label of a series."""
    labels = dict.fromkeys(
        series.label
        for figure in drawn
        for panel in figure.panels
        for series in panel.series
    )
    return {label: number for number, label in enumerate(labels)}


def highest(panels: collections.abc.Iterable[figures.Panel]) -> float:
    """Return the highest end of an interval."""
    return max(
        point.mean if point.high is None else max(point.mean, point.high)
        for panel in panels
        for series in panel.series
        for point in series.points
    )


def ticks(highest: float) -> list[float]:
    """Return the ticks of an axis from 0: about five round numbers."""
    if highest <= 0:
        return [0.0, 1.0]
    exact = highest / 5
    magnitude = 10.0 ** math.floor(math.log10(exact))
    step = next(
        factor * magnitude
        for factor in (1, 2, 5, 10)
        if factor * magnitude >= exact * (1 - 1e-9)
    )
    count = math.ceil(highest / step - 1e-9)
    return [step * number for number in range(count + 1)]


def number(value: float) -> str:
    """Return a figure with three significant digits."""
    if value and abs(value) < 100:
        digits = 2 - math.floor(math.log10(abs(value)))
        text = f'{value:.{min(digits, 4)}f}'
        return text.rstrip('0').rstrip('.') if '.' in text else text
    return f'{value:,.0f}'


def _short(value: float) -> str:
    return f'{number(value / 1000)}k' if value >= 10_000 else number(value)


def plot(panel: figures.Panel, looks: Styles, top: float) -> str:
    """Return a panel as an element of SVG.

    :param looks: the numbers that ``styles`` gives.
    :param top: the highest value that the axis has room for.
    """
    threads = sorted(
        {point.threads for series in panel.series for point in series.points}
    )
    marks = ticks(panel.metric.most or top)
    scale = _Scale(threads, marks[-1])
    middle = (len(panel.series) - 1) / 2
    parts = [
        markup.tag('title', html.escape(panel.title)),
        *_axes(panel, scale, threads, marks),
        *itertools.chain.from_iterable(
            _line(
                series, scale, looks[series.label], _DODGE * (place - middle)
            )
            for place, series in enumerate(panel.series)
        ),
    ]
    return markup.tag(
        'svg',
        ''.join(parts),
        viewBox=f'0 0 {_WIDTH} {_HEIGHT}',
        role='img',
        aria_label=panel.title,
    )


def sample(look: int, hollow: bool = False) -> str:
    """Return a short line with a marker, for a legend."""
    return markup.tag(
        'svg',
        (
            ''
            if hollow
            else _tag('line', x1=1, y1=8, x2=39, y2=8, **_stroke(look))
        )
        + _marker(20, 8, look, hollow),
        viewBox='0 0 40 16',
        width=40,
        height=16,
        aria_hidden='true',
    )


class _Scale:
    """Maps threads and values to pixels."""

    def __init__(self, threads: list[int], top: float) -> None:
        self._first = math.log2(threads[0])
        self._span = math.log2(threads[-1]) - self._first
        self._top = top

    def x(self, threads: int) -> float:
        width = _WIDTH - _LEFT - _RIGHT - 2 * _INSET
        if not self._span:
            return _LEFT + _INSET + width / 2
        share = (math.log2(threads) - self._first) / self._span
        return _LEFT + _INSET + share * width

    def y(self, value: float) -> float:
        height = _HEIGHT - _TOP - _BOTTOM
        return _HEIGHT - _BOTTOM - value / self._top * height


def _axes(
    panel: figures.Panel, scale: _Scale, threads: list[int], marks: list[float]
) -> collections.abc.Iterator[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for mark in marks:
        y = scale.y(mark)
        yield _tag(
            'line',
            x1=_LEFT,
            y1=y,
            x2=right,
            y2=y,
            class_='grid' if mark else 'axis',
        )
        yield _text(_short(mark), _LEFT - 6, y + 4, text_anchor='end')
    yield _tag('line', x1=_LEFT, y1=_TOP, x2=_LEFT, y2=bottom, class_='axis')
    for count in threads:
        x = scale.x(count)
        yield _tag('line', x1=x, y1=bottom, x2=x, y2=bottom + 4, class_='axis')
        yield _text(str(count), x, bottom + 18, text_anchor='middle')
    yield _text(
        'Threads',
        (_LEFT + right) / 2,
        _HEIGHT - 8,
        text_anchor='middle',
    )
    yield _text(
        panel.metric.unit or panel.metric.name,
        0,
        0,
        text_anchor='middle',
        transform=f'translate(13 {(_TOP + bottom) / 2:.0f}) rotate(-90)',
    )


def _line(
    series: figures.Series, scale: _Scale, look: int, shift: float
) -> collections.abc.Iterator[str]:
    """Yield the line, the error bars and the markers of a series."""
    counted = [point for point in series.points if point.repetitions]
    if len(counted) > 1:
        yield _tag(
            'polyline',
            points=' '.join(
                f'{scale.x(point.threads) + shift:.1f},'
                f'{scale.y(point.mean):.1f}'
                for point in counted
            ),
            fill='none',
            **_stroke(look),
        )
    for point in series.points:
        x, y = scale.x(point.threads) + shift, scale.y(point.mean)
        text = f'{series.label}: {number(point.mean)}'
        bar = ''
        if point.low is not None and point.high is not None:
            text += f' ({number(point.low)} to {number(point.high)})'
            low, high = scale.y(max(0.0, point.low)), scale.y(point.high)
            bar = _tag(
                'path',
                d=f'M{x:.1f} {low:.1f}V{high:.1f}'
                f'M{x - 3:.1f} {low:.1f}h6M{x - 3:.1f} {high:.1f}h6',
                fill='none',
                stroke=_COLOURS[look % len(_COLOURS)],
            )
        yield markup.tag(
            'g',
            markup.tag('title', html.escape(text))
            + bar
            + _marker(x, y, look, not point.repetitions),
        )


def _stroke(look: int) -> dict[str, typing.Any]:
    return {
        'stroke': _COLOURS[look % len(_COLOURS)],
        'stroke_width': '1.8',
        'stroke_dasharray': _DASHES[look % len(_DASHES)] or None,
    }


def _marker(x: float, y: float, look: int, hollow: bool) -> str:
    corners, turn = _SHAPES[look % len(_SHAPES)]
    colour = _COLOURS[look % len(_COLOURS)]
    paint = {
        'fill': '#fff' if hollow else colour,
        'stroke': colour,
        'stroke_width': '1.6',
        'class_': 'hollow' if hollow else 'solid',
    }
    if not corners:
        return _tag('circle', cx=x, cy=y, r=_RADIUS - 0.5, **paint)
    angles = [
        math.radians(turn + 360 * corner / corners)
        for corner in range(corners)
    ]
    points = ' '.join(
        f'{x + _RADIUS * math.cos(angle):.1f},'
        f'{y + _RADIUS * math.sin(angle):.1f}'
        for angle in angles
    )
    return _tag('polygon', points=points, **paint)


def _text(text: str, x: float, y: float, **attributes: object) -> str:
    return _tag('text', html.escape(text), x=x, y=y, **attributes)


def _tag(name: str, content: str = '', **attributes: object) -> str:
    """Return an element of SVG, whose attributes have hyphens."""
    return markup.tag(
        name,
        content,
        **{
            key: f'{value:.1f}' if isinstance(value, float) else value
            for key, value in attributes.items()
        },
    )
