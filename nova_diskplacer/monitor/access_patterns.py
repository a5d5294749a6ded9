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

"""Classifies access patterns by how much a disk seeks for them."""

import collections.abc
import dataclasses

import numpy

from nova_diskplacer.monitor import types

# The maximal gap in bytes between two requests without a seek.
_NEAR = 16 << 10

# In the time of a seek the disks of P4 (Table I, A to C) read 0.33 to 0.83 MB
# (read rate over random seeks per second). With shorter extents, more than
# half of the time is lost.
_SHORT_EXTENT = 256 << 10

# The minimal offsets in a trace of an excessive seeker, and of any consumer
# that can be classified.
_MIN_EXCESSIVE = 16
_MIN_CLASSIFIED = 4


@dataclasses.dataclass(frozen=True)
class AccessPattern:
    """The access pattern of a consumer on a disk.

    ``offsets`` is the number of different offsets of requests, ``extents``
    the number of contiguous extents that the requests make up, in any order
    and of any number of streams. ``length`` is the sum of all requests, in
    bytes.
    """

    offsets: int = 0
    extents: int = 0
    length: int = 0

    def __add__(self, other: 'AccessPattern') -> 'AccessPattern':
        return AccessPattern(
            self.offsets + other.offsets,
            self.extents + other.extents,
            self.length + other.length,
        )


def pattern(offsets: types.Integers, lengths: types.Integers) -> AccessPattern:
    """Return the access pattern of requests to a device, in bytes."""
    if not offsets.size:
        return AccessPattern()
    order = numpy.argsort(offsets)
    ends = numpy.maximum.accumulate((offsets + lengths)[order])
    gaps = offsets[order][1:] - ends[:-1]
    return AccessPattern(
        offsets=numpy.unique(offsets).size,
        extents=1 + int((gaps > _NEAR).sum()),
        length=int(lengths.sum()),
    )


def classify(
    patterns: collections.abc.Mapping[str, AccessPattern],
) -> dict[str, bool]:
    """Return whether each consumer of a disk seeks excessively.

    An excessive seeker has an extent for most of its offsets, short extents
    and at least half the mean number of extents. A consumer with too few
    offsets is left out.
    """
    mean = sum(one.extents for one in patterns.values()) / max(
        1, len(patterns)
    )
    found = {}
    for key, one in patterns.items():
        seeks = (
            one.extents > one.offsets / 2
            and one.length < one.extents * _SHORT_EXTENT
            and one.extents >= mean / 2
        )
        if one.offsets >= (_MIN_EXCESSIVE if seeks else _MIN_CLASSIFIED):
            found[key] = seeks
    return found
