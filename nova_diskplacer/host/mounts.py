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

"""The mounted filesystems of this host."""

import re
import typing

PATH = '/proc/self/mounts'

_OCTAL = re.compile(r'\\([0-7]{3})')


class Mount(typing.NamedTuple):
    """A line of /proc/self/mounts; ``type`` is that of the filesystem."""

    source: str
    target: str
    type: str
    options: tuple[str, ...]


def read(path: str = PATH) -> list[Mount]:
    """Return the mounted filesystems, oldest first.

    :raises OSError: the file cannot be read.
    """
    with open(path, encoding='utf-8', errors='surrogateescape') as stream:
        return [_parse(line) for line in stream]


def _parse(line: str) -> Mount:
    source, target, type_, options, *_ = line.split(' ')
    return Mount(
        _unescaped(source),
        _unescaped(target),
        type_,
        tuple(options.split(',')),
    )


def _unescaped(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)
