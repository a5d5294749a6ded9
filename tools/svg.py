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

"""What the pictures of results have in common."""

import collections.abc
import html
import json
import pathlib

STYLE = (
    '.grid { stroke: #d9dfe7; stroke-width: 1 }',
    '.head { font-weight: bold }',
    '.small { font-size: 12px; fill: #44546a }',
)


def document(
    title: str, height: int, body: collections.abc.Iterable[str]
) -> str:
    """Return a picture of 960 pixels of width as SVG.

    :param title: for readers who do not see it.
    :param body: its elements.
    """
    return '\n'.join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="960" '
            f'height="{height}" viewBox="0 0 960 {height}" role="img" '
            'aria-labelledby="title" '
            'font-family="Helvetica, Arial, sans-serif" font-size="13" '
            'fill="#1d2733">',
            f'  <title id="title">{html.escape(title)}</title>',
            '  <style>',
            *(f'    {rule}' for rule in STYLE),
            '  </style>',
            f'  <rect width="960" height="{height}" fill="#ffffff"/>',
            *(f'  {element}' for element in body),
            '</svg>',
            '',
        ]
    )


def text(
    words: str, x: float, y: float, kind: str = '', anchor: str = 'start'
) -> str:
    """Return words at a place.

    :param kind: a class of the style, '' for none.
    :param anchor: start, middle or end: what of them is at x.
    """
    of_kind = f'class="{kind}" ' if kind else ''
    return (
        f'<text {of_kind}x="{x}" y="{y}" text-anchor="{anchor}">'
        f'{html.escape(words)}</text>'
    )


def write(
    result: pathlib.Path,
    picture: pathlib.Path,
    draw: collections.abc.Callable[[dict[str, float | None]], str],
) -> None:
    """Draw the figures of a result into a file."""
    picture.write_text(draw(json.loads(result.read_text())['figures']))
