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

"""The steps of the installation guide, as its pages have them.

A step is a console block without output, the files before it that it needs,
and its check: a console block with commands and what they print, which a
paragraph that begins with *Check* comes before. A file is an ini block that
begins with a comment of its path.
"""

import dataclasses
import pathlib
import re

INSTALL = pathlib.Path(__file__).parents[2] / 'doc' / 'source' / 'install'

#: The pages that are followed, in their order.
PAGES = (
    'packages.rst',
    'compute.rst',
    'boot.rst',
    'controller.rst',
    'flavors.rst',
)

CHECK = '*Check*'

_BLOCK = re.compile(
    r'^\.\. code-block:: (console|ini)\n\n((?: +.*\n|\n)+)', re.MULTILINE
)
_TITLE = re.compile(r'^(\S.*)\n([=-])\2+$', re.MULTILINE)
_PROMPT = re.compile(r'[\w-]*([#$]) (?=\S)')
_PATH = re.compile(r'# (/\S+)$')


@dataclasses.dataclass(frozen=True)
class Command:
    """A command line, and what it prints according to the page.

    ``prompt`` is ``#`` for root and ``$`` for somebody with an openrc file.
    """

    prompt: str
    line: str
    output: str = ''


@dataclasses.dataclass(frozen=True)
class File:
    """Lines of a configuration file; ``path`` is '' if they name none."""

    path: str
    text: str


@dataclasses.dataclass
class Step:
    """What is done at once, and what shows that it was done."""

    page: str
    section: str
    files: list[File] = dataclasses.field(default_factory=list)
    commands: list[Command] = dataclasses.field(default_factory=list)
    checks: list[Command] = dataclasses.field(default_factory=list)

    @property
    def name(self) -> str:
        """Page, and the first line that is run or written."""
        if self.commands:
            first = self.commands[0].line
        else:
            first = self.files[0].path if self.files else '(a check)'
        return f'{self.page}: {first.splitlines()[0]}'


def commands(text: str) -> list[Command]:
    """Return the commands of a console block, with continued lines."""
    found: list[Command] = []
    continued = False
    for line in text.splitlines():
        match = None if continued else _PROMPT.match(line)
        if match:
            found.append(Command(match[1], line[match.end() :]))
        elif continued:
            last = found[-1]
            found[-1] = dataclasses.replace(last, line=f'{last.line}\n{line}')
        else:
            last = found[-1]
            output = f'{last.output}{line}\n'
            found[-1] = dataclasses.replace(last, output=output)
        continued = (match is not None or continued) and line.endswith('\\')
    return found


def file_of(text: str) -> File:
    """Return the file of an ini block."""
    first, _, rest = text.partition('\n')
    match = _PATH.match(first)
    return File(match[1], rest) if match else File('', text)


def steps(name: str, text: str) -> list[Step]:
    """Return the steps of a page's text, in their order.

    :param name: of the page.
    """
    found: list[Step] = []
    begun = None
    section, end = '', 0
    for block in _BLOCK.finditer(text):
        between = text[end : block.start()]
        for title in _TITLE.finditer(between):
            section, begun = title[1], None
        end = block.end()
        content = _dedented(block[2])
        is_check = any(
            part.strip().startswith(CHECK) for part in between.split('\n\n')
        )
        if begun is None or begun.checks or (begun.commands and not is_check):
            begun = Step(name, section)
            found.append(begun)
        if block[1] == 'ini':
            begun.files.append(file_of(content))
        elif is_check:
            begun.checks.extend(commands(content))
        else:
            begun.commands.extend(commands(content))
    return found


def read(name: str) -> list[Step]:
    """Return the steps of a page of the guide."""
    return steps(name, (INSTALL / name).read_text())


def problem(step: Step) -> str:
    """Return what a step lacks, '' if nothing."""
    if not step.commands and not step.files:
        return 'a check without a step'
    if not all(file.path for file in step.files):
        return 'a file that no comment names'
    if any(command.output for command in step.commands):
        return 'shows output, but is no check'
    if not step.checks:
        return 'has no check'
    if not all(command.output.strip() for command in step.checks):
        return 'its check shows no output'
    return ''


def _dedented(text: str) -> str:
    """Return a block without its indentation and the lines around it."""
    lines = text.strip('\n').splitlines()
    width = len(lines[0]) - len(lines[0].lstrip())
    return ''.join(f'{line[width:].rstrip()}\n' for line in lines)
