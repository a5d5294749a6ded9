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

"""Tells by where requests are whether a disk has to seek for them."""

import collections.abc
import dataclasses

import numpy

from nova_diskplacer.monitor import types

# Bytes between the end of a request and the next for which no disk seeks.
_NEAR = 16 << 10

# In the time of a seek the disks of P4 (Table I, A to C) read 0.33 to 0.83 MB
# (read rate over random seeks per second). With shorter runs, more than half
# of the time is lost.
_SHORT_RUN = 256 << 10

# Fewer places in a sample are not excessive, and still fewer do not tell how
# they are gone to.
_EXCESSIVE = 16
_TELLING = 4


@dataclasses.dataclass(frozen=True)
class Pattern:
    """How a consumer goes about a disk.

    ``places`` is how many there are where requests begin, ``runs`` how many
    stretches of the disk these make up, in whatever order they came and
    however many streams they are of. ``length`` is that of all requests, in
    bytes.
    """

    places: int = 0
    runs: int = 0
    length: int = 0

    def __add__(self, other: 'Pattern') -> 'Pattern':
        return Pattern(
            self.places + other.places,
            self.runs + other.runs,
            self.length + other.length,
        )


def pattern(starts: types.Integers, lengths: types.Integers) -> Pattern:
    """Return the pattern of requests on a device, given in bytes."""
    if not starts.size:
        return Pattern()
    order = numpy.argsort(starts)
    ends = numpy.maximum.accumulate((starts + lengths)[order])
    gaps = starts[order][1:] - ends[:-1]
    return Pattern(
        places=numpy.unique(starts).size,
        runs=1 + int((gaps > _NEAR).sum()),
        length=int(lengths.sum()),
    )


def verdicts(
    patterns: collections.abc.Mapping[str, Pattern],
) -> dict[str, bool]:
    """Return who of the consumers of a disk seeks excessively, and who not.

    One does if it begins anew at most places that it goes to, if the disk gets
    little done between two seeks, and if it is not far less to blame than the
    others. Who went to too few places to tell is left out.
    """
    mean = sum(one.runs for one in patterns.values()) / max(1, len(patterns))
    found = {}
    for key, one in patterns.items():
        seeks = (
            one.runs > one.places / 2
            and one.length < one.runs * _SHORT_RUN
            and one.runs >= mean / 2
        )
        if one.places >= (_EXCESSIVE if seeks else _TELLING):
            found[key] = seeks
    return found
