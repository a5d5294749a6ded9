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
"""What a result records of how it came, and whether its code has changed.

The code that a run measures is recorded by its content, so that a result
can be compared with any checkout, also one without git. What no run depends
on does not count: comments, docstrings and the help of options.
"""

import ast
import collections.abc
import functools
import hashlib
import io
import os
import pathlib
import subprocess
import time
import tokenize
import typing

TOP = pathlib.Path(__file__).parents[1]
_RESULTS = 'benchmarks/results'
_LENGTH = 16

# The row of a line, from 1, and a column, from 0.
_Place = tuple[int, int]

# When the program began, and the load of the machine then.
_BEGAN = time.time()
_LOAD = os.getloadavg()[0]


def record(
    paths: collections.abc.Iterable[str],
) -> dict[str, typing.Any]:
    """Return what belongs into a result besides its figures.

    ``code`` lacks paths that have changed since the program began.

    :param paths: files and directories of the project that are measured.
    """
    return {
        'revision': _revision(),
        'machine': {
            'cpu': _cpu(),
            'cores': os.cpu_count(),
            'kernel': os.uname().release,
            'load': round(_LOAD, 2),
        },
        'seconds': round(time.time() - _BEGAN),
        'code': {
            path: content(path)
            for path in paths
            if not _changed_after(TOP / path, _BEGAN)
        },
    }


def content(path: str, top: pathlib.Path = TOP) -> str:
    """Return a hash of the content of a file, or of all in a directory."""
    digest = hashlib.sha256()
    for file in _files(top / path):
        digest.update(f'{file.relative_to(top)}\0'.encode())
        text = file.read_bytes()
        if file.suffix == '.py':
            text = statements(text.decode()).encode()
        digest.update(hashlib.sha256(text).digest())
    return digest.hexdigest()[:_LENGTH]


@functools.cache
def statements(source: str) -> str:
    """Return a module without comments, docstrings and the help of options.

    It is the text of the rest, so that all versions of Python agree on it.
    """
    lines = [list(line) for line in source.split('\n')]
    for begin, end in _without_effect(source):
        for row in range(begin[0], end[0] + 1):
            first = begin[1] if row == begin[0] else 0
            last = end[1] if row == end[0] else len(lines[row - 1])
            lines[row - 1][first:last] = ' ' * (last - first)
    found = (''.join(line).rstrip() for line in lines)
    return '\n'.join(line for line in found if line)


def _without_effect(
    source: str,
) -> collections.abc.Iterator[tuple[_Place, _Place]]:
    """Yield where comments, docstrings and help begin and end."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start, token.end
    lines = source.split('\n')

    def place(row: int, column: int) -> _Place:
        # columns of ast are bytes
        return row, len(lines[row - 1].encode()[:column].decode())

    for node in ast.walk(ast.parse(source)):
        for text in _texts(node):
            assert text.end_lineno is not None
            assert text.end_col_offset is not None
            yield (
                place(text.lineno, text.col_offset),
                place(text.end_lineno, text.end_col_offset),
            )


def _texts(node: ast.AST) -> list[ast.expr]:
    documented = (
        ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    )
    if isinstance(node, documented) and ast.get_docstring(node) is not None:
        (statement, *_) = node.body
        assert isinstance(statement, ast.Expr)
        return [statement.value]
    if isinstance(node, ast.keyword) and node.arg == 'help':
        return [node.value]
    return []


def changed(
    paths: collections.abc.Iterable[str],
    code: collections.abc.Mapping[str, str],
    top: pathlib.Path = TOP,
) -> list[str]:
    """Return the paths whose content is not what a result has recorded.

    :param code: {path: hash} of a result.
    """
    return [path for path in paths if code.get(path) != content(path, top=top)]


def _files(path: pathlib.Path) -> list[pathlib.Path]:
    if path.is_file():
        return [path]
    return sorted(
        file
        for file in path.rglob('*')
        if file.is_file() and '__pycache__' not in file.parts
    )


def _changed_after(path: pathlib.Path, when: float) -> bool:
    return any(file.stat().st_mtime > when for file in _files(path))


def _revision() -> str | None:
    """Return the revision of git, ``…-dirty`` if files differ from it.

    None without git. Results do not count: a run writes them.
    """
    try:
        commit = _git('rev-parse', '--short=12', 'HEAD').strip()
        dirty = _git(
            'status', '--porcelain', '--untracked-files=no',
            '--', '.', f':!{_RESULTS}',
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    return f'{commit}-dirty' if dirty else commit


def _git(*words: str) -> str:
    return subprocess.run(
        ['git', '-C', str(TOP), *words],
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def _cpu() -> str:
    for line in pathlib.Path('/proc/cpuinfo').read_text().splitlines():
        name, _, value = line.partition(':')
        if name.strip() == 'model name':
            return value.strip()
    return os.uname().machine
