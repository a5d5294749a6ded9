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

"""Computes the settings of a disk's request queue.

They follow from the profiles of all running servers with vdisks on the disk,
its medium, and the I/O weights of the host. This module alone decides on the
I/O scheduler: the queue is set by it, and weights are set where it allows.

- Profiles are ranked by priority, the highest first, then by name.
- Scheduler, queue depth and writeback throttling depend on each other and
  were measured together: the first profile that states any of them determines
  all three.
- The first profile that states another setting determines that one.
- Settings without a profile keep their original values. But a new scheduler
  comes with the kernel's defaults of depth and throttling.
- While I/O weights are on and need BFQ, which is so on hard disks, BFQ comes
  before all other schedulers of the list. A list without BFQ is kept, and the
  disk is left without weights: the host's operator turns weights on for all
  disks, and the author of such a list has excluded BFQ for these servers.

The number of servers with a profile and the order of their arrival do not
matter.
"""

import collections.abc
import dataclasses
from typing import Any

from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer.host import block_queue
from nova_diskplacer.profiles import definitions

_TOGETHER = ('schedulers', block_queue.REQUESTS, block_queue.WBT)

NONE = 'none'

# The kernel gives a scheduler twice the device's queue depth, at most twice
# this number, so that it has requests to sort.
_MAX_DEPTH = 128

#: Values of ``[diskplacer_weights] controller``. BFQ is a scheduler too, and
#: throttles writeback itself: the kernel disables its own.
BFQ = 'bfq'
IO_COST = 'io.cost'
AUTO = 'auto'

_IO_COST_REFUSED = (
    '[diskplacer_weights] controller=io.cost is refused on hard disks: it '
    'does not keep the own queue of such a disk from preferring servers that '
    'read in sequence, and costs throughput. Allowed for hosts with hard '
    'disks are auto (bfq there, io.cost on solid state disks) and bfq'
)


@dataclasses.dataclass(frozen=True)
class Decision:
    """The settings that a disk's queue should have.

    ``left_out`` is the reason why its servers have no I/O weights although
    weights are on, '' if none of the profiles is against them. The scheduler
    is ``for_weights`` if they need it.
    """

    queue: definitions.Queue
    left_out: str = ''
    for_weights: bool = False


def decide(
    profiles: collections.abc.Iterable[definitions.Profile],
    medium: str,
    controller: str | None,
) -> Decision:
    """Return the settings for servers with these profiles on a disk.

    :param medium: hdd or ssd.
    :param controller: ``[diskplacer_weights] controller``, None while weights
        are not on.
    """
    ranked = _ranked(profiles)
    queue = merge_profiles(ranked, medium)
    if controller is None or not needs_bfq(medium, controller):
        return Decision(queue)
    if excludes_bfq(queue):
        name = next(
            profile.name
            for profile in ranked
            if medium in profile.queue
            and profile.queue[medium].schedulers == queue.schedulers
        )
        return Decision(queue, left_out(name, medium, queue))
    others = (name for name in queue.schedulers if name != BFQ)
    return Decision(
        dataclasses.replace(queue, schedulers=(BFQ, *others)), for_weights=True
    )


def needs_bfq(medium: str, controller: str) -> bool:
    """Return whether I/O weights need BFQ as the scheduler of a disk.

    :param controller: ``[diskplacer_weights] controller``.
    """
    return controller == BFQ or (
        controller == AUTO and medium == constants.HDD
    )


def check_controller(medium: str, controller: str) -> None:
    """Check that a controller may divide disks of a medium.

    :param controller: ``[diskplacer_weights] controller``.
    :raises ContentionError: it may not; the message has the values that may.
    """
    if controller == IO_COST and medium == constants.HDD:
        raise exception.ContentionError(_IO_COST_REFUSED)


def excludes_bfq(queue: definitions.Queue) -> bool:
    """Return whether a profile's settings leave a disk without weights.

    They do where weights need BFQ.
    """
    return bool(queue.schedulers) and BFQ not in queue.schedulers


def reasons_left_out(
    profiles: collections.abc.Iterable[definitions.Profile], controller: str
) -> collections.abc.Iterator[str]:
    """Yield why servers of these profiles have no weights, by medium.

    :param controller: ``[diskplacer_weights] controller``.
    """
    for profile in profiles:
        for medium, queue in sorted(profile.queue.items()):
            if excludes_bfq(queue) and needs_bfq(medium, controller):
                yield left_out(profile.name, medium, queue)


def left_out(name: str, medium: str, queue: definitions.Queue) -> str:
    """Return why the servers of a profile that excludes BFQ have no weights.

    :param name: of the profile.
    """
    return (
        f'queue.{medium}.schedulers of profile {name} is '
        f'{", ".join(queue.schedulers)}, without bfq, which I/O weights need '
        'there: disks with its servers have none'
    )


def _ranked(
    profiles: collections.abc.Iterable[definitions.Profile],
) -> list[definitions.Profile]:
    return sorted(
        profiles, key=lambda profile: (-profile.priority, profile.name)
    )


def merge_profiles(
    profiles: collections.abc.Iterable[definitions.Profile], medium: str
) -> definitions.Queue:
    """Return the queue settings that profiles state for a medium."""
    queues = [
        profile.queue[medium]
        for profile in _ranked(profiles)
        if medium in profile.queue
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
        if block_queue.WBT in values and scheduler == BFQ:
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
