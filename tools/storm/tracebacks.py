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


"""Exceptions of the project that nothing has handled, by the logs."""

import collections
import collections.abc
import re
import typing

PACKAGES = ('/nova_diskplacer/', '/cinder_vdisk_mapper/')
# What oslo.log puts before each line, with the process id.
_PREFIX = re.compile(
    r'^\d{4}-\d\d-\d\d [\d:.]+ (?P<pid>\d+) [A-Z]+ \S+ (\[[^\]]*\] )?'
)
_BEGIN = 'Traceback (most recent call last):'
_JOINTS = (
    'During handling of the above exception',
    'The above exception was the direct cause',
)
_FILE = re.compile(r'^ +File "(?P<path>[^"]+)", line (?P<line>\d+)')
_EXCEPTION = re.compile(r'^(?P<name>[A-Za-z_][\w.]*)(:|$)')
# Exceptions that tell of a mistake in the code.
_MISTAKES = {
    'ArithmeticError',
    'AssertionError',
    'AttributeError',
    'ImportError',
    'IndexError',
    'KeyError',
    'NameError',
    'NotImplementedError',
    'OverflowError',
    'RecursionError',
    'RuntimeError',
    'TypeError',
    'UnboundLocalError',
    'UnicodeDecodeError',
    'UnicodeEncodeError',
    'ValueError',
    'ZeroDivisionError',
}


class Traceback(typing.NamedTuple):
    """The last exception of a chain, and the frames of the project in it."""

    name: str
    text: str
    frames: tuple[str, ...]


def parse(text: str) -> list[Traceback]:
    """Return the tracebacks in a log whose frames are in the project."""
    by_process: dict[str, list[str]] = collections.defaultdict(list)
    for line in text.splitlines():
        match = _PREFIX.match(line)
        pid = match['pid'] if match else ''
        by_process[pid].append(line[match.end() :] if match else line)
    return [
        one
        for lines in by_process.values()
        for one in _chains(lines)
        if one.frames
    ]


def _chains(
    lines: collections.abc.Iterable[str],
) -> collections.abc.Iterator[Traceback]:
    """Yield the end of each chain of exceptions."""
    frames: list[str] = []
    inside = False
    last: Traceback | None = None
    for line in lines:
        if line.endswith(_BEGIN):
            inside, frames = True, []
        elif inside and (match := _FILE.match(line)):
            path = match['path']
            if any(package in path for package in PACKAGES):
                short = '/'.join(path.split('/')[-3:])
                frames.append(f'{short}:{match["line"]}')
        elif inside and line and not line.startswith(' '):
            inside = False
            match = _EXCEPTION.match(line)
            if match:
                last = Traceback(match['name'], line[:300], tuple(frames))
        elif line.startswith(_JOINTS):
            last = None
        elif last and line.strip():
            yield last
            last = None
    if last:
        yield last


def is_unhandled(log: str, traceback: Traceback) -> bool:
    """Return whether a traceback tells of a fault of the project's.

    The agent and the vendor data service handle all exceptions. In services of
    Nova and Cinder, mistakes are, and exceptions of the project, which should
    have become one that the service knows.

    :param log: name of the log, which is that of the service.
    """
    if log.startswith('diskplacer-'):
        return True
    return traceback.name in _MISTAKES or traceback.name.startswith(
        ('nova_diskplacer.', 'cinder_vdisk_mapper.')
    )
