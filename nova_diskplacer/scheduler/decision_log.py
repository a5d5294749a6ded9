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

"""Debug lines about chosen disks and rejected hosts.

At any other log level the functions return before they compute anything.
"""

import typing

import numpy as np
from nova.scheduler import utils
from oslo_log import log as logging

from nova_diskplacer import conf
from nova_diskplacer import flavor
from nova_diskplacer.mapping import base
from nova_diskplacer.scheduler import rejections
from nova_diskplacer.scheduler.host_disk_cache import HostDiskCache
from nova_diskplacer.scheduler.plan import DiskPlan
from nova_diskplacer.scheduler.plan import FreeCapacity
from nova_diskplacer.scheduler.rejections import Reason

LOG = logging.getLogger(__name__)

Hosts = list[typing.Any]

# Rejected hosts of a request that get a line of their own.
_LINES = 5


def is_enabled() -> bool:
    """Return whether the lines are logged."""
    return bool(LOG.isEnabledFor(logging.DEBUG))


def log_choice(
    server_id: str,
    host: typing.Any,
    attempt: str,
    plan: DiskPlan,
    free: FreeCapacity,
    counts: base.Ints,
    score: float,
    packing: str,
    pressure: float,
) -> None:
    """Log the disks of a host that a server is to claim, and its weight.

    :param attempt: the try or the alternate, in words.
    :param free: the free capacity of the host, D disks.
    :param counts: as chosen, (D,).
    :param score: the host's share of DiskPlacementWeigher.
    :param packing: what the score has of packing, in words.
    :param pressure: the host's share of DiskPressureWeigher.
    """
    if not is_enabled():
        return
    loads = dict(zip(free.disks[0], free.load[0].tolist(), strict=False))
    disks = [
        f'{disk} ({", ".join(f"{amounts[name]} {name}" for name in amounts)}, '
        f'load {loads[disk]:.4f})'
        for disk, amounts in plan.allocations(free, counts).items()
    ]
    request = plan.request
    numa = '' if request.numa == flavor.NONE else f', NUMA {request.numa}'
    by_score = _multiplier(host, 'disk_placement_weight_multiplier')
    by_pressure = _multiplier(host, 'disk_pressure_weight_multiplier')
    LOG.debug(
        'Server %s is to claim disks of host %s (%s): %s. Weight %.4f = '
        '%g x score %.4f (%s%s%s) - %g x pressure %.4f',
        server_id,
        host.host,
        attempt,
        ', '.join(disks) or 'none',
        by_score * score - by_pressure * pressure,
        by_score,
        score,
        request.mapping,
        numa,
        packing,
        by_pressure,
        pressure,
    )


def _multiplier(host: typing.Any, option: str) -> float:
    configured = getattr(conf.CONF.diskplacer_scheduler, option)
    multiplier: float = utils.get_weight_multiplier(host, option, configured)
    return multiplier


def log_rejections(
    server_id: str,
    plan: DiskPlan,
    cache: HostDiskCache,
    hosts: Hosts,
    allowed: Hosts,
    passed: Hosts,
    *,
    include_pending: bool = True,
    pinned: str = '',
) -> None:
    """Log why hosts are rejected: their number by reason, and a few of them.

    :param allowed: the hosts where the server's bound vdisks are.
    :param include_pending: whether pending choices counted as used.
    :param pinned: why the server can be on no other host than its vdisks, in
        words that follow "as", '' if that is not known.
    """
    if not is_enabled():
        return
    kept = set(map(id, passed))
    rejected = [host for host in hosts if id(host) not in kept]
    if not rejected:
        return
    reasons = np.full(len(rejected), Reason.OTHER_HOST)
    rows = cache.rows(host.uuid for host in rejected)
    possible = set(map(id, allowed))
    at_home = np.array([id(host) in possible for host in rejected])
    reasons[at_home & (rows < 0)] = Reason.NO_REPORT
    judged = np.flatnonzero(at_home & (rows >= 0))
    reasons[judged], reported = _reasons(
        plan, cache, rows[judged], include_pending
    )
    LOG.debug(
        '%d of %d hosts are rejected for server %s: %s',
        len(rejected),
        len(hosts),
        server_id,
        rejections.summary(reasons),
    )
    place = {index: at for at, index in enumerate(judged.tolist())}
    for index in rejections.examples(reasons, _LINES):
        reason = Reason(int(reasons[index]))
        text = rejections.WORDS[reason]
        if pinned and reason == Reason.OTHER_HOST:
            text += f', as {pinned}'
        if index in place:
            text = rejections.describe(
                plan, reported.of_host(place[index]), reason
            )
        LOG.debug(
            'Host %s is rejected for server %s: %s',
            rejected[index].host,
            server_id,
            text,
        )


def log_skip(
    server_id: str,
    plan: DiskPlan,
    cache: HostDiskCache,
    host: typing.Any,
    row: int,
) -> None:
    """Log why a host is not tried that the filter has passed."""
    if not is_enabled():
        return
    (reason,), reported = _reasons(plan, cache, np.array([row]))
    LOG.debug(
        'Host %s is skipped for server %s by current figures: %s',
        host.host,
        server_id,
        rejections.describe(plan, reported, Reason(int(reason))),
    )


def _reasons(
    plan: DiskPlan,
    cache: HostDiskCache,
    rows: base.Ints,
    include_pending: bool = True,
) -> tuple[base.Ints, FreeCapacity]:
    """Return the reason against each host, (H,), and what is reported free.

    :param rows: the hosts' rows in the cache, (H,).
    :param include_pending: whether pending choices count as used.
    """
    reported = cache.free_capacity(rows, include_pending=False)
    free = cache.free_capacity(rows) if include_pending else reported
    return rejections.of_rejected(plan, free, reported), reported
