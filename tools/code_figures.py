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

"""Counts that a reviewer can compare before and after a change.

Prints a row for each package below the directories. Numbers guide, reading
decides.
"""

import argparse
import ast
import collections.abc
import dataclasses
import io
import itertools
import pathlib
import re
import statistics
import sys
import tokenize

PRODUCT = ('nova_diskplacer', 'cinder_vdisk_mapper', 'diskplacer_measure')

# Names and words that say too little of a value, or that only we use so.
VAGUE = frozenset(
    'found one its wanted known told asked begun held said some'.split()
)
QUESTIONS = re.compile(
    r'(?:What|Which|Who|Whose|Where|When|Whether|Why|How)\b'
)


@dataclasses.dataclass
class Figures:
    """Counts of the modules of a package; ``lines`` are not blank."""

    lines: list[int] = dataclasses.field(default_factory=list)
    functions: list[int] = dataclasses.field(default_factory=list)
    vague: int = 0
    questions: int = 0
    comments: int = 0
    debug: int = 0

    def add(self, path: pathlib.Path) -> None:
        """Add a module."""
        text = path.read_text()
        self.lines.append(sum(bool(line.strip()) for line in text.split('\n')))
        self.debug += text.count('LOG.debug(')
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        # the licence is no comment on the code
        for token in itertools.dropwhile(_is_heading, tokens):
            self.comments += token.type == tokenize.COMMENT
            self.vague += token.type == tokenize.NAME and token.string in VAGUE
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions.append(_body_lines(node))
            if isinstance(
                node,
                ast.Module
                | ast.ClassDef
                | ast.FunctionDef
                | ast.AsyncFunctionDef,
            ):
                docstring = ast.get_docstring(node) or ''
                self.questions += bool(QUESTIONS.match(docstring))

    def row(self) -> tuple[str, ...]:
        """Return the figures as the columns of ``HEAD``."""
        lines = sum(self.lines)
        return (
            str(len(self.lines)),
            str(lines),
            _spread(self.lines),
            str(len(self.functions)),
            _spread(self.functions),
            f'{1000 * self.vague / max(lines, 1):.0f}',
            str(self.questions),
            f'{100 * self.comments / max(lines, 1):.1f}',
            str(self.debug),
        )


HEAD = (
    'package',
    'modules',
    'lines',
    'median/p90/largest',
    'functions',
    'median/p90/largest',
    'vague names per 1000',
    'docstrings that ask',
    'comments per 100',
    'LOG.debug',
)


def _is_heading(token: tokenize.TokenInfo) -> bool:
    return token.type in (tokenize.COMMENT, tokenize.NL)


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of lines of a function's body, less its docstring."""
    body = function.body[ast.get_docstring(function) is not None :]
    if not body:
        return 0
    return (body[-1].end_lineno or 0) - body[0].lineno + 1


def _spread(counts: list[int]) -> str:
    if not counts:
        return '-'
    ordered = sorted(counts)
    p90 = ordered[min(len(ordered) - 1, len(ordered) * 9 // 10)]
    return f'{statistics.median(counts):.0f}/{p90}/{ordered[-1]}'


def packages(directory: pathlib.Path) -> dict[str, Figures]:
    """Return the figures of a directory and of each package below it."""
    found: dict[str, Figures] = {}
    for path in sorted(directory.rglob('*.py')):
        below = path.relative_to(directory).parts
        names = [str(directory)]
        if len(below) > 1:
            names.append(f'{directory}/{below[0]}')
        for name in names:
            found.setdefault(name, Figures()).add(path)
    return found


def main(arguments: collections.abc.Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        'directories',
        nargs='*',
        metavar='DIRECTORY',
        help='by default ' + ', '.join(PRODUCT),
    )
    directories = parser.parse_args(arguments).directories
    rows = [HEAD]
    for name in directories or PRODUCT:
        directory = pathlib.Path(name)
        if directories and not directory.is_dir():
            parser.error(f'{name}: no directory')
        for package, figures in packages(directory).items():
            rows.append((package, *figures.row()))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print(
            '  '.join(
                cell.ljust(width) if column == 0 else cell.rjust(width)
                for column, (cell, width) in enumerate(
                    zip(row, widths, strict=True)
                )
            )
        )
    return 0


if __name__ == '__main__':
    sys.exit(main())
