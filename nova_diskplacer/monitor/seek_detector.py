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

"""Detects consumers that make a rotational disk seek excessively.

Fennel attaches strace to processes to find seeks (P4 §IV-D). The kernel's
block traces show the same without affecting the server.
"""

import collections
import collections.abc
import contextlib
import dataclasses
import functools
import math
import pathlib
import time

import numpy
from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import devices
from nova_diskplacer.host import processes
from nova_diskplacer.host import tracefs
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import types

LOG = logging.getLogger(__name__)

# Seconds of a trace, and of one that confirms a seeker: in a second, each of
# many sequential streams may submit only one request.
_TRACE_SECONDS = 1.0
_CONFIRM_SECONDS = 4.0

# Seconds between two traces of a flagged disk, and of a disk with seekers.
_FLAGGED_PAUSE = 5.0
_SEEKERS_PAUSE = 30.0

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

# Seconds without requests after which a consumer is no longer a seeker.
_EXPIRY = 60.0

# The processes of the host, whose IDs are in its traces.
_PROC = '/proc'


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


class SeekDetector:
    """Traces disks, and keeps the consumers that seek until they stop.

    One thread runs it, any thread may read ``seekers``: the pairs that seek
    excessively.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, hierarchy: cgroups.Hierarchy
    ) -> None:
        self.seekers: frozenset[types.ConsumerDisk] = frozenset()
        self._hierarchy = hierarchy
        self._tracer = tracefs.Tracer(instance(conf))
        # the last time that each seeker was seen
        self._seen: dict[types.ConsumerDisk, float] = {}
        # the last time that each disk was traced
        self._traced: dict[Device, float] = {}
        # why the last trace failed
        self._failure = ''

    def run(self, sample: types.Sample) -> None:
        """Trace the disks that are due, which takes 1 to 4 seconds.

        It must be called often, also while no disk is flagged.

        :raises ContentionError: the kernel cannot trace, or could not when it
            was tried last.
        """
        now = time.monotonic()
        present = set(sample.pairs)
        self._seen = {
            pair: at
            for pair, at in self._seen.items()
            if pair in present and now - at <= _EXPIRY
        }
        flagged = [
            state.device for state in sample.disks.values() if state.flagged
        ]
        try:
            due = self._select(flagged, now)
            if not due and self._failure:
                raise exception.ContentionError(self._failure)
            if due:
                try:
                    trace = self._trace(due, sample.consumers.values())
                except exception.ContentionError as error:
                    self._failure = str(error)
                    raise
                self._failure = ''
                for device in due:
                    self._traced[device] = now
                    uuid = device.uuid
                    patterns = trace.patterns(uuid)
                    seeking = classify(patterns)
                    for pair in [(key, uuid) for key in patterns]:
                        seeks = seeking.get(pair[0], pair in self._seen)
                        if seeks and pair in present:
                            self._seen[pair] = now
                        else:
                            self._seen.pop(pair, None)
        finally:
            self._publish()

    def _select(
        self, flagged: collections.abc.Collection[Device], now: float
    ) -> list[Device]:
        """Return the disks that are due, and drop those that need no trace."""
        with_seekers = {uuid for _, uuid in self._seen}
        self._traced = {
            device: at
            for device, at in self._traced.items()
            if device.uuid in with_seekers or now - at < _FLAGGED_PAUSE
        }
        return [
            device
            for device in {**self._traced, **dict.fromkeys(flagged)}
            if now - self._traced.get(device, -math.inf)
            >= (_FLAGGED_PAUSE if device in flagged else _SEEKERS_PAUSE)
        ]

    def _trace(
        self,
        due: list[Device],
        consumers: collections.abc.Iterable[types.Consumer],
    ) -> '_Trace':
        """Trace until the result is conclusive, or for the maximum time."""
        _check_pid_namespace()
        keys = {
            f'/{consumer.cgroup}': consumer.key
            for consumer in consumers
            if consumer.cgroup
        }
        trace = _Trace(due, keys)
        if not trace.devices:
            return trace
        ends = time.monotonic() + _TRACE_SECONDS
        portions = self._tracer.sample(trace.devices, _CONFIRM_SECONDS)
        with contextlib.closing(portions):
            for requests in portions:
                trace.add(requests)
                if time.monotonic() >= ends and not self._inconclusive(trace):
                    break
        return trace

    def _inconclusive(self, trace: '_Trace') -> bool:
        """Return whether a longer trace may change the seekers."""
        for uuid in trace.uuids:
            seeks_by_consumer = classify(trace.patterns(uuid))
            seen = {key for key, disk in self._seen if disk == uuid}
            seeking = {
                key for key, seeks in seeks_by_consumer.items() if seeks
            }
            if seen - seeks_by_consumer.keys() or seeking - seen:
                return True
        return False

    def _publish(self) -> None:
        seekers = frozenset(self._seen)
        for key, uuid in sorted(seekers - self.seekers):
            LOG.info('%s seeks excessively on disk %s.', key, uuid)
        for key, uuid in sorted(self.seekers - seekers):
            LOG.info('%s no longer seeks on disk %s.', key, uuid)
        self.seekers = seekers


def instance(conf: cfg.ConfigOpts) -> str:
    """Return the name of this agent's tracefs instance."""
    state_dir: str = conf.diskplacer_agent.state_dir
    return 'diskplacer' + state_dir.rstrip('/').replace('/', '-')


def clean(conf: cfg.ConfigOpts) -> None:
    """Remove the tracefs instance of an agent that was killed.

    :raises ContentionError: it cannot be removed.
    """
    tracefs.Tracer(instance(conf)).clean()


def _check_pid_namespace() -> None:
    """Check that the kernel's traces have the process IDs of this process.

    :raises ContentionError: the agent is in a PID namespace of its own.
    """
    if not processes.sees_all():
        raise exception.ContentionError(
            'Seeks of servers are not detected, the agent is in a PID '
            "namespace of its own: run its container with the host's, for "
            'example with --pid host'
        )


def consumer_of(
    process: int, keys: collections.abc.Mapping[str, str]
) -> str | None:
    """Return the key of a process's consumer, None if it has none.

    :param keys: keys of consumers, by their cgroups with a leading slash.
    """
    try:
        with open(f'{_PROC}/{process}/cgroup', encoding='utf-8') as stream:
            lines = [line.rstrip('\n').split(':', 2) for line in stream]
    except (OSError, UnicodeDecodeError):
        return None
    for number, _, cgroup in lines:
        # that of cgroup v2, others may be there beside it
        if number == '0':
            path = pathlib.PurePosixPath(cgroup)
            for parent in (path, *path.parents):
                if str(parent) in keys:
                    return keys[str(parent)]
    return None


class _Trace:
    """The requests to disks, by device and consumer."""

    def __init__(
        self,
        disks: collections.abc.Iterable[Device],
        keys: collections.abc.Mapping[str, str],
    ) -> None:
        # a process may end at any time
        self._consumer_of = functools.cache(
            lambda process: consumer_of(process, keys)
        )
        self._devices: dict[str, dict[str, bool]] = {}
        for disk in disks:
            # a disk that is gone has no requests
            with contextlib.suppress(OSError):
                self._devices[disk.uuid] = devices.submission_devices(disk)
        self.uuids = tuple(self._devices)
        self.devices = {
            device for devices in self._devices.values() for device in devices
        }
        # offsets and lengths
        self._requests: dict[
            str, dict[str | None, tuple[list[int], list[int]]]
        ] = collections.defaultdict(
            lambda: collections.defaultdict(lambda: ([], []))
        )

    def add(self, requests: list[tracefs.Request]) -> None:
        """Add new requests; their processes are looked up at once."""
        for request in requests:
            key = self._consumer_of(request.process)
            offsets, lengths = self._requests[request.device][key]
            offsets.append(request.start)
            lengths.append(request.length)

    def patterns(self, uuid: str) -> dict[str, AccessPattern]:
        """Return the access pattern of each consumer on a disk.

        Writeback by the kernel counts as a server's only if no other server
        uses the logical volume.
        """
        by_owner: dict[str, AccessPattern] = collections.defaultdict(
            AccessPattern
        )
        for device, is_volume in self._devices.get(uuid, {}).items():
            by_key = dict(self._requests[device])
            rest = by_key.pop(None, None)
            if rest and is_volume and len(by_key) == 1:
                ((key, (offsets, lengths)),) = by_key.items()
                by_key[key] = (offsets + rest[0], lengths + rest[1])
            for owner, (offsets, lengths) in by_key.items():
                if owner is not None:
                    by_owner[owner] += pattern(
                        numpy.array(offsets, numpy.int64),
                        numpy.array(lengths, numpy.int64),
                    )
        return dict(by_owner)


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
    mean = sum(access.extents for access in patterns.values()) / max(
        1, len(patterns)
    )
    seeking = {}
    for key, access in patterns.items():
        seeks = (
            access.extents > access.offsets / 2
            and access.length < access.extents * _SHORT_EXTENT
            and access.extents >= mean / 2
        )
        if access.offsets >= (_MIN_EXCESSIVE if seeks else _MIN_CLASSIFIED):
            seeking[key] = seeks
    return seeking
