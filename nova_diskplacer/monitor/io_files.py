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

"""The files in which the kernel accounts for the I/O of a cgroup: parsed.

All files are parsed at once. As long as nothing but numbers changes in them,
no Python object is made for a line.
"""

import collections.abc
import dataclasses
import re
import string

import numpy

from nova_diskplacer.monitor import types

_DIGITS = b'0123456789'
_OTHERS = bytes(set(range(256)) - set(_DIGITS))
_SPACES = bytes.maketrans(_OTHERS, b' ' * len(_OTHERS))
# spaces take time, too: these leave none
_LETTERS = string.ascii_letters.encode()
_NUMBER = re.compile(rb'\d(?:[A-Za-z]*\d)*')
_BETWEEN = b'|'

# of a line's identity: where the place of its file and the major begin
_PLACE = 32
_MAJOR = 20


@dataclasses.dataclass(frozen=True)
class Form:
    """A file: ``pattern`` finds the major, minor and counters of a device."""

    file: str
    pattern: re.Pattern[bytes]


_V1 = re.compile(rb'(\d+):(\d+) Read (\d+)\n\S+ Write (\d+)')
_V2 = re.compile(
    rb'(\d+):(\d+) rbytes=(\d+) wbytes=(\d+) rios=(\d+) wios=(\d+)'
)

#: By the version of cgroups. Together the files of each have four counters:
#: bytes read, bytes written, reads, writes.
FORMS = {
    1: (
        Form('blkio.throttle.io_service_bytes_recursive', _V1),
        Form('blkio.throttle.io_serviced_recursive', _V1),
    ),
    2: (Form('io.stat', _V2),),
}


class Parser:
    """Parses files of one form; remembers where the numbers are in them."""

    def __init__(self, form: Form) -> None:
        self._pattern = form.pattern
        # what the files are without digits; then, for each line, its file,
        # and which of all numbers are those of the line
        self._frame: bytes | None = None
        self._files = numpy.zeros(0, numpy.int64)
        self._places = numpy.zeros((0, 0), numpy.int64)

    def parse(
        self, texts: collections.abc.Sequence[bytes]
    ) -> tuple[types.Integers, types.Integers]:
        """Return whose the lines of files are, and what they count.

        :returns: arrays of the shapes (L,) and (L, counters). ``split`` tells
            which file and device one of the first is.
        """
        whole = _BETWEEN.join(texts)
        frame = whole.translate(None, _DIGITS)
        if frame != self._frame:
            self._learn(texts)
            self._frame = frame
        numbers = numpy.fromstring(
            whole.translate(_SPACES, _LETTERS), numpy.int64, sep=' '
        )
        found = numbers[self._places]
        lines = self._files << _PLACE | found[:, 0] << _MAJOR | found[:, 1]
        return lines, found[:, 2:]

    def _learn(self, texts: collections.abc.Sequence[bytes]) -> None:
        known: dict[bytes, tuple[list[list[int]], int]] = {}
        files: list[int] = []
        places: list[list[int]] = []
        before = 0
        for file, text in enumerate(texts):
            frame = text.translate(None, _DIGITS)
            if frame not in known:
                known[frame] = self._inside(text)
            lines, count = known[frame]
            files += [file] * len(lines)
            places += [[before + place for place in line] for line in lines]
            before += count
        self._files = numpy.array(files, numpy.int64)
        self._places = numpy.array(places, numpy.int64).reshape(
            -1, self._pattern.groups
        )

    def _inside(self, text: bytes) -> tuple[list[list[int]], int]:
        """Return which of a text's numbers are a line's, and how many it has.

        A line is one that the pattern finds.
        """
        starts = [match.start() for match in _NUMBER.finditer(text)]
        places = {start: place for place, start in enumerate(starts)}
        groups = range(1, self._pattern.groups + 1)
        lines = [
            [places[match.start(group)] for group in groups]
            for match in self._pattern.finditer(text)
        ]
        return lines, len(starts)


def split(line: int) -> tuple[int, str]:
    """Return the index of a line's file and the number of its device."""
    device = line & ((1 << _PLACE) - 1)
    minor = device & ((1 << _MAJOR) - 1)
    return line >> _PLACE, f'{device >> _MAJOR}:{minor}'
