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

"""What is known of consumers, disks and how they use each other.

A consumer is whatever is given a share of a disk: a server, or another cgroup
that the configuration names. A pair is a consumer and a disk: (key, uuid).
"""

import collections.abc
import dataclasses

import numpy
import numpy.typing

from nova_diskplacer.host.devices import Device

ConsumerDisk = tuple[str, str]

Integers = numpy.typing.NDArray[numpy.int64]
Floats = numpy.typing.NDArray[numpy.float64]
Booleans = numpy.typing.NDArray[numpy.bool_]


@dataclasses.dataclass(frozen=True)
class Consumer:
    """A server, or another cgroup.

    ``key`` is the server's UUID, or the cgroup's path below the root of the
    hierarchy, which is also ``cgroup`` ('': it has none now). ``domain`` is
    the name that libvirt has for a server, '' for any other cgroup.
    ``project`` is the ID of a server's project, '' if not known.
    """

    key: str
    cgroup: str
    domain: str = ''
    project: str = ''
    extra_specs: collections.abc.Mapping[str, str] = dataclasses.field(
        default_factory=dict
    )


@dataclasses.dataclass(frozen=True)
class Round:
    """What consumers did on disks in one interval; a row for each pair.

    ``pairs`` is sorted, and the same object as in the round before while no
    pair has come or gone. ``seconds`` is the length of the interval. The
    arrays have the shape (R,): bytes and requests of the interval, and
    whether the pair was idle in it.
    """

    seconds: float
    pairs: tuple[ConsumerDisk, ...]
    read_bytes: Integers
    write_bytes: Integers
    reads: Integers
    writes: Integers
    idle: Booleans


@dataclasses.dataclass(frozen=True)
class DiskState:
    """A disk in the last interval.

    ``seconds`` is the length of the interval, and rates are bytes and
    requests per second. ``busy`` is the share of the time, 0 to 1, in which
    requests were in flight, ``queue`` how many were on average, ``latency``
    the mean time of a request in seconds (None: there were none). ``score``
    is Fennel's throughput score in bytes/s (P4 §IV-B), None while nobody uses
    the disk; a ``flagged`` disk is to be inspected for seekers. ``pressure``
    is what is sustained, 0 to 1. ``iocost_usage`` is the share of what it lets
    through that io.cost has given away, None without io.cost. ``warnings``
    are those in force.
    """

    device: Device
    seconds: float
    read_bytes: float
    write_bytes: float
    reads: float
    writes: float
    busy: float
    queue: float
    latency: float | None
    score: float | None
    flagged: bool
    pressure: float
    iocost_usage: float | None = None
    temperature: int | None = None
    warnings: tuple[str, ...] = ()
