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

"""How full a disk is, and how well that serves those who use it."""

import math

from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import diskstats


def score(
    done: diskstats.Counters, busy: float, seconds: float, users: int
) -> float | None:
    """Return the throughput score in bytes/s (P4 §IV-B).

    :param busy: the share of the time in which the disk was busy.
    :param users: how many consumers used it.
    :returns: None while nobody uses the disk.
    """
    if not users or not busy:
        return None
    return (done.read_bytes + done.write_bytes) / seconds / (busy * users)


def saturation(
    device: Device,
    depth: int | None,
    done: diskstats.Counters,
    seconds: float,
    given: float | None,
) -> float:
    """Return how much of what a disk can give was taken, 0 to 1.

    A rotational disk does one thing at a time: it is as full as it is busy.
    Any other is busy with a single request and far from full. It is no fuller
    than its throughput, against what it is known to give, or its queue,
    against the requests that it takes at once, whichever is more.

    What waits for io.cost to let it pass is in no queue of the disk yet, so
    that neither shows: a disk is at least as full as io.cost takes it to be.

    :param depth: how many requests the device takes at once, None if that is
        not known.
    :param given: the share of the disk that io.cost has given away, None
        without io.cost.
    """
    full = done.busy / seconds
    if not device.rotational and device.mbps:
        moved = (done.read_bytes + done.write_bytes) / seconds
        share = moved / (device.mbps * 1e6)
        queued = done.waited / seconds / depth if depth else 0.0
        full = min(full, max(share, queued))
    return min(1.0, max(full, given or 0.0))


def smoothed(
    mean: float, value: float, seconds: float, window: float
) -> float:
    """Return an exponentially weighted mean after one more value.

    :param window: its time constant in seconds.
    """
    return mean + (value - mean) * -math.expm1(-seconds / window)
