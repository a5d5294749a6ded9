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

"""Finds who makes a rotational disk seek excessively.

Fennel attaches strace to processes and looks for seeks (P4 §IV-D). What the
kernel traces of requests tells the same of a server without touching it.
"""

import collections
import collections.abc
import contextlib
import math
import os
import time

import numpy
from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import device_stack
from nova_diskplacer.host import tracefs
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import access_patterns
from nova_diskplacer.monitor import types

LOG = logging.getLogger(__name__)

# Seconds of a sample, and of what confirms it: in a second, many sequential
# streams may have got no further than a request each.
_SAMPLE = 1.0
_CONFIRMED = 4.0

# Seconds between two inspections of a disk: while it is flagged, and while
# somebody is held to seek on it.
_PAUSE = 5.0
_PAUSE_HELD = 30.0

# After how many seconds without any request a seeker is one no more.
_FORGIVEN = 60.0


class Inspector:
    """Inspects disks, and knows who seeks on them until that ends.

    One thread inspects, any may ask for ``seekers``.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, hierarchy: cgroups.Hierarchy
    ) -> None:
        self._hierarchy = hierarchy
        self._tracer = tracefs.Tracer(instance(conf))
        # when each was last seen to seek, or at least to do something
        self._held: dict[types.ConsumerDisk, float] = {}
        self._seekers: frozenset[types.ConsumerDisk] = frozenset()
        # the disks inspected of late, and when
        self._looked: dict[Device, float] = {}
        with contextlib.suppress(exception.ContentionError):
            # what it cannot remove it says when it traces
            self._tracer.clean()

    def seekers(self) -> frozenset[types.ConsumerDisk]:
        """Return who is held to seek excessively, and on which disk."""
        return self._seekers

    def inspect(
        self,
        flagged: collections.abc.Collection[Device],
        consumers: collections.abc.Iterable[types.Consumer],
        round_: types.Round,
    ) -> frozenset[types.ConsumerDisk]:
        """Inspect the disks whose turn it is, which takes 1 to 4 seconds.

        To be called often, also while no disk is flagged.

        :param flagged: rotational disks whose throughput score is low.
        :param round_: the last one; who is not in it is no seeker any more.
        :returns: the seekers.
        :raises ContentionError: the kernel does not trace.
        """
        now = time.monotonic()
        present = set(round_.pairs)
        self._held = {
            pair: at
            for pair, at in self._held.items()
            if pair in present and now - at <= _FORGIVEN
        }
        try:
            due = self._due(flagged, now)
            if due:
                sample = self._sample(due, consumers)
                for device in due:
                    self._looked[device] = now
                    self._judge(device.uuid, sample, present, now)
        finally:
            self._publish()
        return self._seekers

    def _due(
        self,
        flagged: collections.abc.Collection[Device],
        now: float,
    ) -> list[Device]:
        held = {uuid for _, uuid in self._held}
        self._looked = {
            device: at
            for device, at in self._looked.items()
            if device.uuid in held or now - at < _PAUSE
        }
        return [
            device
            for device in {**self._looked, **dict.fromkeys(flagged)}
            if now - self._looked.get(device, -math.inf)
            >= (_PAUSE if device in flagged else _PAUSE_HELD)
        ]

    def _sample(
        self,
        due: list[Device],
        consumers: collections.abc.Iterable[types.Consumer],
    ) -> '_Sample':
        """Trace until there is no doubt, or for as long as it may take."""
        sample = _Sample(due, _Owners(consumers, self._hierarchy.version))
        if not sample.devices:
            return sample
        ends = time.monotonic() + _SAMPLE
        portions = self._tracer.sample(sample.devices, _CONFIRMED)
        with contextlib.closing(portions):
            for requests in portions:
                sample.add(requests)
                if time.monotonic() >= ends and not self._doubts(sample):
                    break
        return sample

    def _doubts(self, sample: '_Sample') -> bool:
        """Return whether more may tell what is not known of somebody."""
        for uuid in sample.uuids:
            found = access_patterns.verdicts(sample.patterns(uuid))
            held = {key for key, disk in self._held if disk == uuid}
            if held - found.keys():
                return True
            if any(seeks and key not in held for key, seeks in found.items()):
                return True
        return False

    def _judge(
        self,
        uuid: str,
        sample: '_Sample',
        present: set[types.ConsumerDisk],
        now: float,
    ) -> None:
        patterns = sample.patterns(uuid)
        seeking = access_patterns.verdicts(patterns)
        for key in patterns:
            pair = (key, uuid)
            if seeking.get(key, pair in self._held) and pair in present:
                self._held[pair] = now
            else:
                self._held.pop(pair, None)

    def _publish(self) -> None:
        seekers = frozenset(self._held)
        for key, uuid in sorted(seekers - self._seekers):
            LOG.info('%s seeks excessively on disk %s.', key, uuid)
        for key, uuid in sorted(self._seekers - seekers):
            LOG.info('%s seeks no more on disk %s.', key, uuid)
        self._seekers = seekers


def instance(conf: cfg.ConfigOpts) -> str:
    """Return the name of the agent's own instance of tracefs."""
    where: str = conf.diskplacer_agent.state_dir
    return 'diskplacer' + where.rstrip('/').replace('/', '-')


def clean(conf: cfg.ConfigOpts) -> None:
    """Remove what is left of an agent that was killed while it traced.

    :raises ContentionError: it cannot be removed.
    """
    tracefs.Tracer(instance(conf)).clean()


class _Owners:
    """Tells whose a process is, by its cgroup."""

    def __init__(
        self,
        consumers: collections.abc.Iterable[types.Consumer],
        version: int,
    ) -> None:
        self._keys = {
            f'/{consumer.cgroup}': consumer.key
            for consumer in consumers
            if consumer.cgroup
        }
        self._controller = 'blkio' if version == 1 else ''
        self._known: dict[int, str | None] = {}

    def of(self, process: int) -> str | None:
        """Return the key of the consumer, None if it is nobody's.

        A process is asked for when it is first seen: it may end any time.
        """
        if process not in self._known:
            self._known[process] = self._find(process)
        return self._known[process]

    def _find(self, process: int) -> str | None:
        try:
            with open(f'/proc/{process}/cgroup', encoding='utf-8') as stream:
                lines = [line.rstrip('\n').split(':', 2) for line in stream]
        except (OSError, UnicodeDecodeError):
            return None
        for _, controllers, cgroup in lines:
            if self._controller in controllers.split(','):
                while cgroup not in ('', '/'):
                    if cgroup in self._keys:
                        return self._keys[cgroup]
                    cgroup = os.path.dirname(cgroup)
        return None


class _Sample:
    """What was asked of disks, by whom."""

    def __init__(
        self, disks: collections.abc.Iterable[Device], owners: _Owners
    ) -> None:
        self._owners = owners
        self._tops: dict[str, dict[str, bool]] = {}
        for disk in disks:
            # one that has gone has no requests
            with contextlib.suppress(OSError):
                self._tops[disk.uuid] = device_stack.submission_devices(disk)
        self.uuids = tuple(self._tops)
        self.devices = {
            device for tops in self._tops.values() for device in tops
        }
        # starts and lengths by device and consumer
        self._requests: dict[
            str, dict[str | None, tuple[list[int], list[int]]]
        ] = collections.defaultdict(
            lambda: collections.defaultdict(lambda: ([], []))
        )

    def add(self, requests: list[tracefs.Request]) -> None:
        """Add requests that were made just now."""
        for request in requests:
            key = self._owners.of(request.process)
            starts, lengths = self._requests[request.device][key]
            starts.append(request.start)
            lengths.append(request.length)

    def patterns(self, uuid: str) -> dict[str, access_patterns.Pattern]:
        """Return the pattern of each consumer on a disk.

        What the kernel writes out later is that of a server only if it alone
        uses the logical volume.
        """
        found: dict[str, access_patterns.Pattern] = collections.defaultdict(
            access_patterns.Pattern
        )
        for device, volume in self._tops.get(uuid, {}).items():
            by_key = dict(self._requests[device])
            rest = by_key.pop(None, None)
            if rest and volume and len(by_key) == 1:
                ((key, (starts, lengths)),) = by_key.items()
                by_key[key] = (starts + rest[0], lengths + rest[1])
            for owner, (starts, lengths) in by_key.items():
                if owner is not None:
                    found[owner] += access_patterns.pattern(
                        numpy.array(starts, numpy.int64),
                        numpy.array(lengths, numpy.int64),
                    )
        return dict(found)
