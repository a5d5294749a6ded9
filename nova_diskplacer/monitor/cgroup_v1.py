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

"""I/O accounting and interpolated request counters of cgroup v1."""

import collections.abc

import numpy
from oslo_log import log as logging

from nova_diskplacer.host import cgroups
from nova_diskplacer.host import log_once
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import types

LOG = logging.getLogger(__name__)

LIMIT = 'blkio.throttle.read_bps_device'

#: Intervals between two readings of interpolated counters.
INTERVALS = 10


class Accounting:
    """Makes cgroup v1 account for I/O.

    Since Linux 6.10, it accounts only for devices that have ever had a limit.
    """

    def __init__(self, hierarchy: cgroups.Hierarchy) -> None:
        self._path = hierarchy.path('', LIMIT)
        self._log = log_once.ChangeLogger(LOG)

    def enable(self, devices: collections.abc.Iterable[Device]) -> None:
        """Enable accounting for devices; repeatable.

        A failure is logged and affects no other device.
        """
        for device in devices:
            try:
                self._set_limit(device)
                self._log.clear(device.uuid)
            except OSError as error:
                self._log.log(
                    device.uuid,
                    'The kernel may not account for I/O on disk %s: %s: %s',
                    device.uuid,
                    self._path,
                    error.strerror,
                )

    def _set_limit(self, device: Device) -> None:
        """Set the root's limit to 0 (unlimited) unless it has a limit."""
        with open(self._path, encoding='ascii') as stream:
            limited = {line.split()[0] for line in stream}
        if device.number not in limited:
            with open(self._path, 'w', encoding='ascii') as stream:
                stream.write(f'{device.number} 0')


class InterpolatedCounters:
    """Spreads the increase between two readings over the next intervals.

    The counters are behind by ``INTERVALS`` at most, and never jump.
    """

    def __init__(self) -> None:
        self._pairs = types.Pairs()
        self._older: types.Integers = numpy.zeros((0, 0), numpy.int64)
        self._newer = self._older
        self._steps = INTERVALS

    def due(self, pairs: types.Pairs) -> bool:
        """Return whether the counters of these pairs must be read now."""
        return self._steps == INTERVALS or pairs is not self._pairs

    def put(self, pairs: types.Pairs, values: types.Integers) -> None:
        """Store a reading, with a row for each pair."""
        if pairs is not self._pairs:
            self._older = values
        else:
            # a counter that fell was reset
            self._older = numpy.minimum(self._newer, values)
        self._pairs, self._newer, self._steps = pairs, values, 0

    def get(self) -> types.Integers:
        """Return the counters, one step further at each call."""
        self._steps += 1
        increase = self._newer - self._older
        return self._older + increase * self._steps // INTERVALS
