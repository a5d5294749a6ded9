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

"""Computes the utilization of a disk and Fennel's throughput score."""

import math

from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import diskstats


def fennel_score(
    done: diskstats.Counters, busy: float, seconds: float, consumers: int
) -> float | None:
    """Return the throughput score in bytes/s (P4 §IV-B).

    :param busy: share of the time with requests in flight.
    :param consumers: number of consumers that used the disk.
    :returns: None while no consumer uses the disk.
    """
    if not consumers or not busy:
        return None
    moved = done.read_bytes + done.write_bytes
    return moved / seconds / (busy * consumers)


def utilization(
    device: Device,
    depth: int | None,
    done: diskstats.Counters,
    seconds: float,
    iocost_usage: float | None,
) -> float:
    """Return the share of a disk's capacity that was used, 0 to 1.

    A rotational disk serves one request at a time: its utilization is the
    share of the time with requests in flight. Any other disk is busy with a
    single request and far from full. Its utilization is at most the larger of
    two ratios: its throughput to its known throughput, and its queue to its
    queue depth.

    Requests that io.cost holds back are not in the disk's queue. So the
    utilization is at least io.cost's usage.

    :param depth: queue depth of the device, None if unknown.
    :param iocost_usage: share of io.cost's model that was charged, None
        without io.cost.
    """
    used = done.busy_seconds / seconds
    if not device.rotational and device.mbps:
        moved = (done.read_bytes + done.write_bytes) / seconds
        share = moved / (device.mbps * 1e6)
        queued = done.request_seconds / seconds / depth if depth else 0.0
        used = min(used, max(share, queued))
    return min(1.0, max(used, iocost_usage or 0.0))


def ewma(mean: float, value: float, seconds: float, window: float) -> float:
    """Return an exponentially weighted moving average after one more value.

    :param window: time constant in seconds.
    """
    return mean + (value - mean) * -math.expm1(-seconds / window)
