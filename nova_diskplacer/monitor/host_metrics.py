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

"""Metrics of a host's capacity, of its disks' health and of the agent."""

import collections.abc
import time

from nova_diskplacer import constants
from nova_diskplacer.disks import settling
from nova_diskplacer.disks import vdisk
from nova_diskplacer.monitor import host_status
from nova_diskplacer.monitor import metric
from nova_diskplacer.placement import inventory


def _capacity(
    name: str,
    text: str,
    gb: collections.abc.Callable[[inventory.DiskFigures], int],
) -> metric.Metric:
    def figure(disk: host_status.Disk) -> float | None:
        return gb(disk.figures) * vdisk.GIB if disk.figures else None

    return metric.of_disks(metric.GAUGE, name, text, figure)


def _bind_failures(state: host_status.HostStatus) -> metric.Samples:
    for reason, number in sorted(state.bind_failures.items()):
        yield (state.host, reason), number


def _health(state: host_status.HostStatus) -> metric.Samples:
    for disk in state.disks or ():
        for health in constants.HEALTH:
            yield (state.host, disk.uuid, health), health == disk.health


def _of_settling(
    name: str,
    text: str,
    figure: collections.abc.Callable[[settling.VDisk], float | None],
) -> metric.Metric:
    def samples(state: host_status.HostStatus) -> metric.Samples:
        for arriving in state.settling:
            value = figure(arriving)
            if value is not None:
                yield (state.host, arriving.volume, arriving.source), value

    return metric.Metric(metric.GAUGE, name, text, _SETTLING, samples)


def _settling_states(state: host_status.HostStatus) -> metric.Samples:
    for arriving in state.settling:
        for name in settling.STATES:
            labels = state.host, arriving.volume, arriving.source, name
            yield labels, name == arriving.state


# Labels of the vdisk of a server that has moved, and the host of its data.
_SETTLING = (*metric.AGENT, 'vdisk', 'source')

#: Every metric of a host, in the order of exposition.
METRICS = (
    metric.of_agent(
        metric.GAUGE,
        'last_disk_check_timestamp_seconds',
        'Last check of the disks that succeeded, since the epoch.',
        lambda s: s.checked,
    ),
    metric.of_agent(
        metric.GAUGE,
        'last_placement_update_timestamp_seconds',
        'Last update of the resource providers in Placement that succeeded, '
        'since the epoch.',
        lambda s: s.placement_updated,
    ),
    metric.of_agent(
        metric.GAUGE,
        'last_report_timestamp_seconds',
        'Last report or heartbeat that the message bus took, since the epoch.',
        lambda s: s.reported,
    ),
    metric.of_agent(
        metric.COUNTER,
        'placement_errors',
        'Updates of Placement that failed; each is tried again.',
        lambda s: s.placement_errors,
    ),
    metric.of_agent(
        metric.COUNTER,
        'report_errors',
        'Reports and heartbeats that could not be sent.',
        lambda s: s.report_errors,
    ),
    metric.Metric(
        metric.COUNTER,
        'bind_failures',
        'Volumes that the Cinder driver of the host could not bind or attach. '
        'The reason is refused (the volume does not fit the flavor or the '
        'disks), disk, placement, nova or other.',
        (*metric.AGENT, 'reason'),
        _bind_failures,
    ),
    metric.Metric(
        metric.GAUGE,
        'settling_state',
        '1 for what is done with the vdisk whose data is on another host than '
        'its server, 0 for each other: copying, waiting, away (that host does '
        'not answer, and the server may wait for it), failed.',
        (*_SETTLING, 'state'),
        _settling_states,
    ),
    _of_settling(
        'settling_remaining_bytes',
        'Bytes of the vdisk that its server has left on another host. Absent '
        'before the copy begins.',
        lambda vdisk_: vdisk_.total - vdisk_.done if vdisk_.total else None,
    ),
    _of_settling(
        'settling_stalled_seconds',
        'Seconds for which the data of the vdisk has come no further, 0 while '
        'it is not to be copied.',
        lambda vdisk_: vdisk_.stalled(time.time()),
    ),
    metric.Metric(
        metric.GAUGE,
        'disk_health',
        '1 for the present health of the disk, 0 for each other one.',
        (*metric.DISK, 'health'),
        _health,
    ),
    _capacity(
        'disk_capacity_bytes',
        'Capacity of the disk in Placement.',
        lambda f: f.total_gb,
    ),
    _capacity(
        'disk_claimed_bytes',
        'Capacity that servers claim in Placement.',
        lambda f: f.used_gb,
    ),
    _capacity(
        'disk_reserved_bytes',
        'Capacity that vdisks take without a claim; all of it while the disk '
        'is not offered.',
        lambda f: f.reserved_gb,
    ),
    _capacity(
        'disk_free_bytes',
        'Capacity that is neither claimed nor reserved.',
        lambda f: max(0, f.free_gb),
    ),
    metric.of_disks(
        metric.GAUGE,
        'disk_vdisks',
        'Vdisks on the disk, snapshots included.',
        lambda d: d.vdisks,
    ),
    metric.of_disks(
        metric.GAUGE,
        'disk_pending_bytes',
        'Claimed capacity that no vdisk of the server fills.',
        lambda d: d.pending_gb * vdisk.GIB,
    ),
    metric.of_disks(
        metric.GAUGE,
        'disk_pending_since_timestamp_seconds',
        'Time when the agent first saw the oldest claim that no vdisk fills, '
        'since the epoch. Absent without such a claim.',
        lambda d: d.pending_since,
    ),
)
