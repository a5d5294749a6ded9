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

"""Measures what the elastic vdisks of a host use of its disks."""

import collections
import collections.abc

from nova_diskplacer.disks import usage
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.elastic import discovery
from nova_diskplacer.elastic import observations
from nova_diskplacer.monitor import guest_stats
from nova_diskplacer.monitor import types


def observe(
    before: types.Sample,
    after: types.Sample,
    vdisks: discovery.VDisks,
    guests: guest_stats.GuestStats | None,
    end: float,
    seconds: float,
) -> observations.Observation:
    """Return the observation between two samples.

    A disk that was not measured in all of the time is left out.

    :param guests: tell the vdisks of one server on one disk apart; without
        them, each has an equal part.
    :param end: on a monotonic clock, as ``observations.Observation`` has it.
    """
    utilization = {}
    for uuid, state in after.disks.items():
        past = before.disks.get(uuid)
        if past is None:
            continue
        measured = state.totals_seconds - past.totals_seconds
        used = state.used_seconds - past.used_seconds
        if measured > 0 and used >= 0:
            utilization[uuid] = min(1.0, used / measured)
    own, total = _use(before, after)
    parts: dict[observations.VDiskDisk, float] = {}
    for uuid, (server, disk, share) in _shares(after, vdisks, guests):
        if disk in utilization:
            pair = (uuid, disk)
            parts[pair] = parts.get(pair, 0.0) + observations.part(
                utilization[disk],
                own.get((server, disk), 0.0) * share,
                total.get(disk, 0.0),
            )
    return observations.Observation(end, seconds, utilization, parts)


def _use(
    before: types.Sample, after: types.Sample
) -> tuple[dict[types.ConsumerDisk, float], dict[str, float]]:
    """Return what consumers used of disks, and all use of each disk.

    It is bytes, or with io.cost the time that was charged.
    """
    past = before.history.aligned(after.history.pairs)['totals']
    done = after.history['totals'] - past
    own: dict[types.ConsumerDisk, float] = {}
    total: dict[str, float] = collections.defaultdict(float)
    for row, (consumer, disk) in enumerate(after.history.pairs):
        state = after.disks.get(disk)
        charged = state is not None and state.iocost_usage is not None
        amounts = done[row, 4:] if charged else done[row, :2]
        own[consumer, disk] = max(0.0, float(amounts.sum()))
        total[disk] += own[consumer, disk]
    for disk, state in after.disks.items():
        if state.iocost_usage is None and disk in before.disks:
            # the host's own use, such as copies of vdisks, has no consumer
            now, then = state.totals, before.disks[disk].totals
            moved = now.read_bytes + now.write_bytes
            moved -= then.read_bytes + then.write_bytes
            total[disk] = max(total[disk], float(moved))
    return own, dict(total)


def _shares(
    sample: types.Sample,
    vdisks: discovery.VDisks,
    guests: guest_stats.GuestStats | None,
) -> collections.abc.Iterator[tuple[str, tuple[str, str, float]]]:
    """Yield the users of vdisks: (vdisk, (server, disk, share)).

    The share is that of the server's use of the disk.
    """
    names = {
        naming.striped_device(elastic.name): uuid
        for uuid, elastic in vdisks.items()
    }
    on: dict[types.ConsumerDisk, list[str]] = collections.defaultdict(list)
    for server, path, disk in usage.vdisks_in_use(
        sample.servers, sample.prepared_disks
    ):
        on[server.uuid, disk].append(path)
    for (server_uuid, disk), paths in on.items():
        moved = dict.fromkeys(paths, 0.0)
        uses = guests.uses.get(server_uuid, []) if guests else []
        for use in uses:
            if use.disk == disk and use.path in moved:
                moved[use.path] += use.read_bytes + use.write_bytes
        total = sum(moved.values())
        for path in paths:
            if path in names:
                share = moved[path] / total if total else 1 / len(paths)
                yield names[path], (server_uuid, disk, share)
