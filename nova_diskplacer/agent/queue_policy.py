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

"""Computes the settings of a disk's request queue for the servers on it.

The profiles of all running servers with vdisks on the disk are merged:

- Profiles are ranked by priority, the highest first, then by name.
- Scheduler, queue depth and writeback throttling depend on each other and
  were measured together: the first profile that states any of them determines
  all three.
- The first profile that states another setting determines that one.
- Settings without a profile keep their original values. But a new scheduler
  comes with the kernel's defaults of depth and throttling.

The number of servers with a profile and the order of their arrival do not
matter.
"""

import collections.abc
from typing import Any

from nova_diskplacer.host import block_queue
from nova_diskplacer.profiles import definitions

_TOGETHER = ('schedulers', block_queue.REQUESTS, block_queue.WBT)

NONE = 'none'

# This scheduler throttles writeback itself: the kernel disables its own.
_NO_WBT = 'bfq'

# The kernel gives a scheduler twice the device's queue depth, at most twice
# this number, so that it has requests to sort.
_MAX_DEPTH = 128


def merge_profiles(
    profiles: collections.abc.Iterable[definitions.Profile], medium: str
) -> definitions.Queue:
    """Return the queue settings that profiles state for a medium."""
    ranked = sorted(
        profiles, key=lambda profile: (-profile.priority, profile.name)
    )
    queues = [
        profile.queue[medium] for profile in ranked if medium in profile.queue
    ]
    settings: dict[str, Any] = {}
    for group in (_TOGETHER, *((name,) for name in block_queue.INDEPENDENT)):
        for queue in queues:
            values = {name: getattr(queue, name) for name in group}
            if any(value not in (None, ()) for value in values.values()):
                settings |= values
                break
    return definitions.Queue(**settings)


def target_settings(
    queue: definitions.Queue,
    originals: block_queue.Values,
    schedulers: collections.abc.Container[str],
    depth: int | None,
) -> dict[str, str]:
    """Return the settings that a queue should have.

    :param originals: the original settings; the kernel lacks all others.
    :param schedulers: the schedulers that the kernel offers.
    :param depth: number of requests that the device can queue, if known.
    """
    values = dict(originals)
    before = originals.get(block_queue.SCHEDULER)
    scheduler = next(
        (name for name in queue.schedulers if name in schedulers), None
    )
    if before and scheduler and scheduler != before:
        values[block_queue.SCHEDULER] = scheduler
        if block_queue.WBT in values and scheduler == _NO_WBT:
            values[block_queue.WBT] = '0'
        if block_queue.REQUESTS in values and depth is not None:
            values[block_queue.REQUESTS] = str(
                depth if scheduler == NONE else 2 * min(depth, _MAX_DEPTH)
            )
    for name in block_queue.SETTINGS[1:]:
        value = getattr(queue, name)
        if value is not None and name in originals:
            values[name] = str(value)
    return values
