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

"""Samples of the use of this host's processors."""

import bisect
import collections.abc
import time

from nova_diskplacer.host import sysfs

_STAT = '/proc/stat'


def read(path: str = _STAT) -> dict[str, int]:
    """Return the time of all processors since boot, in jiffies."""
    return parse(sysfs.read(path))


def parse(stat: str) -> dict[str, int]:
    """Return the jiffies of all processors that ``/proc/stat`` has.

    The time of niced processes counts as idle: they give way to all others.
    """
    user, nice, system, idle, iowait, irq, softirq, steal, *_ = map(
        int, stat.partition('\n')[0].split()[1:]
    )
    return {
        'user': user,
        'system': system + irq + softirq,
        'idle': idle + nice,
        'iowait': iowait,
        'steal': steal,
    }


def spent(
    before: collections.abc.Mapping[str, int],
    after: collections.abc.Mapping[str, int],
) -> dict[str, float]:
    """Return the shares of processor time between two readings."""
    jiffies = {
        name: max(0, count - before[name]) for name, count in after.items()
    }
    total = sum(jiffies.values())
    return {name: count / total for name, count in jiffies.items() if total}


class Sampler:
    """Samples the counters of the processors, by the time of the host."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._counters: list[dict[str, int]] = []

    def sample(self) -> None:
        """Take a sample now."""
        self._times.append(time.time())
        self._counters.append(read())

    def shares(self, begin: float, end: float) -> dict[str, float]:
        """Return the shares of processor time between two times.

        They are those between the samples next to these times, outside; {}
        without samples on both sides.
        """
        first = bisect.bisect_right(self._times, begin) - 1
        last = bisect.bisect_left(self._times, end)
        if first < 0 or last == len(self._times):
            return {}
        return spent(self._counters[first], self._counters[last])
