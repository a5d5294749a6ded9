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

"""Draw where each mapping puts the vdisks of two servers.

    python -m tools.mapping_picture

writes doc/source/_static/mappings.svg, and mapping-elastic.svg with each width
of an elastic vdisk. The mappings themselves choose the disks.
"""

import pathlib
import typing

import numpy as np

from nova_diskplacer.disks import location
from nova_diskplacer.elastic import paths
from nova_diskplacer.mapping import plugins

_STATIC = pathlib.Path(__file__).parents[1] / 'doc/source/_static'
MAPPINGS = _STATIC / 'mappings.svg'
ELASTIC = _STATIC / 'mapping-elastic.svg'

#: Disks of the host, vdisks or legs of a server, and room on a disk for them.
DISKS = 4
PARTS = 4
_ROOM = 8

_SERVERS = (('etl-1', 'a'), ('etl-2', 'b'))

Element = str
#: What lies on each disk: texts and classes of boxes, the lowest first.
Boxes = list[list[tuple[str, str]]]


class Panel(typing.NamedTuple):
    """What is said of a mapping; ``parts`` name what is on a disk."""

    mapping: str
    says: str
    parts: tuple[str, ...]
    result: tuple[str, str]


_VDISKS = ('vdb', 'vdc', 'vdd', 'vde')
_LEGS = ('vdb.0', 'vdb.1', 'vdb.2', 'vdb.3')

PANELS = (
    Panel(
        'round_robin',
        'each vdisk of a server on a disk of its own',
        _VDISKS,
        (
            'Four directories, four disks for each server.',
            'A dead disk takes one vdisk of each.',
        ),
    ),
    Panel(
        'consolidated',
        'the vdisks of a server on as few disks as hold them',
        _VDISKS,
        (
            'One disk for both servers; three are free for others.',
            'A dead disk takes all vdisks of its servers, or nothing.',
        ),
    ),
    Panel(
        'striped',
        'one vdisk in pieces on several disks',
        _LEGS,
        (
            'One directory, four disks for each server.',
            'A dead disk takes the whole vdisk of each.',
        ),
    ),
)
_WIDTHS = (1, 2, 4)

_PITCH = 456


def placed(mapping: str) -> list[list[int]]:
    """Return the parts of each server on each disk, as the mapping places.

    The second server is placed on what the first one has left.
    """
    plugin = plugins.load(mapping)
    used = np.zeros((1, DISKS), dtype=np.int64)
    found = []
    for _ in _SERVERS:
        counts = plugin.place(_ROOM - used, used / _ROOM, PARTS, 1)
        used = used + counts
        found.append([int(count) for count in counts[0]])
    return found


def boxes(panel: Panel) -> Boxes:
    """Return what lies on each disk by a mapping."""
    on_disks: Boxes = [[] for _ in range(DISKS)]
    for (server, kind), counts in zip(
        _SERVERS, placed(panel.mapping), strict=True
    ):
        parts = iter(panel.parts)
        for disk, count in enumerate(counts):
            on_disks[disk] += [
                (f'{server} {next(parts)}', kind) for _ in range(count)
            ]
    return on_disks


def widths() -> dict[int, Boxes]:
    """Return where the legs of an elastic vdisk are, by its width."""
    names = [str(disk) for disk in range(DISKS)]
    narrow = location.Location([names[0]] * PARTS)
    return {
        place.width: [
            [(_LEGS[leg], 'a') for leg, its in enumerate(place) if its == name]
            for name in names
        ]
        for place in paths.widened(narrow, names[1:])
    }


def _disks(left: int, top: int, room: int, on_disks: Boxes) -> list[Element]:
    found = []
    for number, content in enumerate(on_disks):
        x = left + 104 * number
        found.append(
            f'<rect class="disk" x="{x}" y="{top}" width="96" '
            f'height="{16 * room + 8}" rx="5"/>'
        )
        for level, (text, kind) in enumerate(content, 1):
            y = top + 16 * (room - level) + 5
            found += [
                f'<rect class="{kind}" x="{x + 4}" y="{y}" width="88" '
                'height="14" rx="2"/>',
                f'<text class="mono" x="{x + 48}" y="{y + 11}" '
                f'text-anchor="middle">{text}</text>',
            ]
    return found


def _titled(left: int, top: int, name: str, says: str) -> list[Element]:
    return [
        f'<text class="name" x="{left}" y="{top + 18}">{name}</text>',
        f'<text class="small" x="{left}" y="{top + 38}">{says}</text>',
    ]


def _under(left: int, top: int, lines: tuple[str, ...]) -> list[Element]:
    return [
        f'<text x="{left}" y="{top + 18 * number}">{line}</text>'
        for number, line in enumerate(lines)
    ]


def _svg(height: int, title: str, body: list[Element]) -> str:
    return '\n'.join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" width="904" '
            f'height="{height}" viewBox="0 0 904 {height}" role="img" '
            'aria-labelledby="title" '
            'font-family="Helvetica, Arial, sans-serif" font-size="14" '
            'fill="#1d2733">',
            f'  <title id="title">{title}</title>',
            '  <style>',
            '    .disk { fill: #f5f7fa; stroke: #44546a; stroke-width: 1.4 }',
            '    .a { fill: #cfe3f6; stroke: #1f6fb2; stroke-width: 1.2 }',
            '    .b { fill: #fde7c7; stroke: #c77b0a; stroke-width: 1.2 }',
            '    .mono { font-family: "DejaVu Sans Mono", Menlo, monospace; '
            'font-size: 12px }',
            '    .name { font-family: "DejaVu Sans Mono", Menlo, monospace; '
            'font-size: 17px; font-weight: bold }',
            '    .small { fill: #44546a }',
            '  </style>',
            f'  <rect width="904" height="{height}" fill="#ffffff"/>',
            *(f'  {element}' for element in body),
            '</svg>',
            '',
        ]
    )


def draw_mappings() -> str:
    """Return the picture of all mappings as SVG."""
    body = []
    for number, panel in enumerate(PANELS):
        left, top = 20 + _PITCH * (number % 2), 12 + 278 * (number // 2)
        body += _titled(left, top, panel.mapping, panel.says)
        body += _disks(left, top + 54, _ROOM, boxes(panel))
        body += _under(left, top + 224, panel.result)
    left, top = 20 + _PITCH, 290
    body += _titled(
        left, top, 'elastic', 'a stripe on more disks while it is busy'
    )
    by_width = widths()
    y = top + 54
    for width in _WIDTHS:
        room = max(map(len, by_width[width]))
        body += _disks(left, y, room, by_width[width])
        y += 16 * room + 14
    body += _under(
        left,
        top + 224,
        (
            'One directory; one disk, then two, then four.',
            'A dead disk takes each vdisk with a part on it.',
        ),
    )
    return _svg(
        548,
        'Where each mapping puts the vdisks of two servers on four disks',
        body,
    )


def draw_elastic() -> str:
    """Return the picture of the widths of an elastic vdisk as SVG."""
    body = []
    for number, (width, on_disks) in enumerate(widths().items()):
        left, top = 20 + _PITCH * (number % 2), 8 + 126 * (number // 2)
        stage = ' (while it moves)' if width == 3 else ''
        body.append(
            f'<text class="name" x="{left}" y="{top + 18}">width {width}'
            f'{stage}</text>'
        )
        body += _disks(left, top + 30, PARTS, on_disks)
    return _svg(
        252, 'The four legs of an elastic vdisk on one to four disks', body
    )


def main() -> None:
    """Draw both pictures."""
    MAPPINGS.write_text(draw_mappings())
    ELASTIC.write_text(draw_elastic())


if __name__ == '__main__':
    main()
