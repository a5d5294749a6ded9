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

"""How the request queue of a disk should be set, for the servers on it.

The rule, for the profiles of all servers that run and have vdisks there:

- Profiles are ranked by priority, the highest first, then by name.
- Scheduler, queue depth and writeback throttling depend on each other and
  were measured together: all three are those of the first profile that
  states any of them.
- Every other setting is that of the first profile that states it.
- What nobody states has the value that it had before there were servers. But
  another scheduler than that of before comes with the depth and the throttling
  that the kernel gives it.

How many servers have a profile, and in which order they came, does not matter.
"""

import collections.abc
from typing import Any

from nova_diskplacer.host import block_queue
from nova_diskplacer.profiles import catalogue

_TOGETHER = ('schedulers', block_queue.REQUESTS, block_queue.WBT)

NONE = 'none'

# It throttles by itself; the kernel turns the other off.
_NO_WBT = 'bfq'

# Schedulers get twice the requests that the device has room for, or twice this
# if that is less: with fewer there would be nothing to sort.
_DEPTH = 128


def merge(
    profiles: collections.abc.Iterable[catalogue.Profile], medium: str
) -> catalogue.Queue:
    """Return what the profiles together want of a disk's queue."""
    ranked = sorted(profiles, key=lambda one: (-one.priority, one.name))
    queues = [one.queue[medium] for one in ranked if medium in one.queue]
    wanted: dict[str, Any] = {}
    for group in (_TOGETHER, *((name,) for name in block_queue.INDEPENDENT)):
        for queue in queues:
            values = {name: getattr(queue, name) for name in group}
            if any(value not in (None, ()) for value in values.values()):
                wanted |= values
                break
    return catalogue.Queue(**wanted)


def target(
    wanted: catalogue.Queue,
    originals: block_queue.Values,
    schedulers: collections.abc.Container[str],
    depth: int | None,
) -> dict[str, str]:
    """Return the values that a queue should have.

    :param originals: what it had before there were servers. Only these
        settings can be changed; the kernel lacks others.
    :param schedulers: what the kernel has.
    :param depth: how many requests the device itself has room for, if known.
    """
    values = dict(originals)
    for scheduler in wanted.schedulers:
        if block_queue.SCHEDULER in originals and scheduler in schedulers:
            values[block_queue.SCHEDULER] = scheduler
            break
    if values.get(block_queue.SCHEDULER) != originals.get(
        block_queue.SCHEDULER
    ):
        if (
            block_queue.WBT in values
            and values[block_queue.SCHEDULER] == _NO_WBT
        ):
            values[block_queue.WBT] = '0'
        if block_queue.REQUESTS in values and depth is not None:
            given = (
                depth
                if values[block_queue.SCHEDULER] == NONE
                else 2 * min(depth, _DEPTH)
            )
            values[block_queue.REQUESTS] = str(given)
    for name in block_queue.SETTINGS[1:]:
        value = getattr(wanted, name)
        if value is not None and name in originals:
            values[name] = str(value)
    return values


def unlisted(
    wanted: catalogue.Queue,
    schedulers: collections.abc.Container[str],
) -> list[str]:
    """Return schedulers that are preferred to the first that is listed.

    The kernel may have them as modules, which it loads when they are chosen.
    """
    found = []
    for scheduler in wanted.schedulers:
        if scheduler in schedulers:
            break
        found.append(scheduler)
    return found
