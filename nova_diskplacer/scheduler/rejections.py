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

"""The reason why each host is rejected, for the debug log.

A plan is repeated with figures that lack nothing, and with more and more of
the real ones: the first ones with which a host does not fit are the reason.
So the reasons agree with any mapping. This takes several times as long as the
filter itself, which calls it at debug level only.
"""

import collections
import dataclasses
import enum

import numpy as np

from nova_diskplacer import flavor
from nova_diskplacer.mapping import base
from nova_diskplacer.scheduler.plan import DiskPlan
from nova_diskplacer.scheduler.plan import FreeCapacity

# More GiB or MB/s than any request needs; NumPy can add many of them.
_PLENTY = 1 << 40


class Reason(enum.IntEnum):
    """The reason why a host is rejected; ``NONE``: it fits."""

    NONE = 0
    OTHER_HOST = enum.auto()
    NO_REPORT = enum.auto()
    CACHE_MODE = enum.auto()
    DISKS = enum.auto()
    GB = enum.auto()
    RESERVED = enum.auto()
    MBPS = enum.auto()
    BESIDE = enum.auto()
    PENDING = enum.auto()
    NUMA = enum.auto()
    CHANGED = enum.auto()


WORDS = {
    Reason.OTHER_HOST: 'vdisks of the server are on another host',
    Reason.NO_REPORT: 'no fresh report from diskplacer-agent',
    Reason.CACHE_MODE: 'another cache mode',
    Reason.DISKS: 'too few disks with the medium',
    Reason.GB: 'not enough free GiB',
    Reason.RESERVED: 'not enough free GiB beside what is reserved',
    Reason.MBPS: 'not enough free MB/s',
    Reason.BESIDE: 'no room for new volumes beside the vdisks',
    Reason.PENDING: 'its room was just chosen for other servers',
    Reason.NUMA: 'no room on the NUMA cells of the vCPUs',
    Reason.CHANGED: 'no room when it was filtered, and room by now',
}


def of_plan(plan: DiskPlan, free: FreeCapacity) -> base.Ints:
    """Return why each host does not fit a plan.

    :returns: a :class:`Reason` for each host, (H,), ``NONE`` where the plan
        fits.
    """
    reasons = np.full(len(free.disks), Reason.NONE)

    def reject(fits: base.Bools, reason: Reason) -> None:
        reasons[(reasons == Reason.NONE) & ~fits] = reason

    request = plan.request
    if request.cache_mode is not None:
        reject(free.cache_mode == request.cache_mode, Reason.CACHE_MODE)
    vdisks_only = dataclasses.replace(plan, beside_gb=())
    plenty = np.full(free.free_gb.shape, _PLENTY)
    limitless = dataclasses.replace(free, free_gb=plenty, free_mbps=plenty)
    disks_only = dataclasses.replace(
        vdisks_only, request=dataclasses.replace(request, cache_mode=None)
    )
    reject(disks_only.choose(limitless).fits, Reason.DISKS)
    by_gb = dataclasses.replace(free, free_mbps=plenty)
    unreserved = dataclasses.replace(
        by_gb, free_gb=free.free_gb + free.reserved_gb
    )
    reject(disks_only.choose(unreserved).fits, Reason.GB)
    reject(disks_only.choose(by_gb).fits, Reason.RESERVED)
    reject(vdisks_only.choose(free).fits, Reason.MBPS)
    if plan.beside_gb:
        reject(plan.choose(free).fits, Reason.BESIDE)
    return reasons


def of_rejected(
    plan: DiskPlan, free: FreeCapacity, reported: FreeCapacity
) -> base.Ints:
    """Return why the filter has rejected hosts with a fresh report.

    :param free: the free capacity by which it has.
    :param reported: the same without what was just chosen for other servers.
    :returns: a :class:`Reason` for each host, (H,), never ``NONE``.
    """
    reasons = of_plan(plan, reported)
    fits = reasons == Reason.NONE
    reasons[fits & ~plan.choose(free).fits] = Reason.PENDING
    fits = reasons == Reason.NONE
    required = plan.request.numa == flavor.REQUIRED
    reasons[fits] = Reason.NUMA if required else Reason.CHANGED
    return reasons


def summary(reasons: base.Ints) -> str:
    """Count hosts by their reasons, the most frequent ones first."""
    counts = collections.Counter(reasons.tolist())
    return ', '.join(
        f'{WORDS[Reason(reason)]}: {hosts}'
        for reason, hosts in counts.most_common()
    )


def examples(reasons: base.Ints, most: int) -> list[int]:
    """Return the indices of a few hosts, one for each reason first."""
    _, first = np.unique(reasons, return_index=True)
    rest = np.delete(np.arange(len(reasons)), first)
    chosen: list[int] = np.concatenate([first, rest])[:most].tolist()
    return sorted(chosen)


def describe(plan: DiskPlan, free: FreeCapacity, reason: Reason) -> str:
    """Return why one host is rejected, with its figures.

    :param free: of that host.
    """
    request = plan.request
    usable = free.usable(request)
    if request.legs > 1:
        usable = usable & free.can_stripe
    if reason == Reason.CACHE_MODE:
        cache_mode = free.cache_mode[0] or 'unknown'
        figures = f'{cache_mode}, not {request.cache_mode}'
    elif reason == Reason.DISKS:
        figures = f'{int(usable.sum())} disks that may be used'
    elif reason == Reason.GB:
        figures = _amounts(free.free_gb[usable], 'GiB')
    elif reason == Reason.RESERVED:
        reserved = _amounts(free.reserved_gb[usable], 'GiB reserved')
        figures = f'{_amounts(free.free_gb[usable], "GiB free")}; {reserved}'
    elif reason == Reason.MBPS:
        figures = _amounts(free.free_mbps[usable], 'MB/s')
    elif reason == Reason.BESIDE:
        figures = f'{", ".join(map(str, plan.beside_gb))} GiB'
    else:
        return WORDS[reason]
    return f'{WORDS[reason]} ({figures})'


def _amounts(amounts: base.Ints, unit: str) -> str:
    """Return the sum and the largest of the amounts of disks, in words."""
    largest = int(amounts.max(initial=0))
    return (
        f'{int(amounts.sum())} {unit} on {len(amounts)} disks, at most '
        f'{largest} on one'
    )
