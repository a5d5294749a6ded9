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

"""Sends reports of changes, and heartbeats in between."""

import collections.abc
import dataclasses
import functools
import queue
import time
import types
import typing

import oslo_messaging

from nova_diskplacer import report_format
from nova_diskplacer import reports
from nova_diskplacer.agent import reported_disks
from nova_diskplacer.disks import vdisk as vdisk_
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.host import retry_logger

# Smallest change of a disk's pressure that is reported, in per cent.
_STEP = 5

_FIGURES = ('total_gb', 'reserved_gb', 'used_gb', 'total_mbps', 'used_mbps')

Pressure = collections.abc.Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class DiskActivity:
    """The I/O of disks, of which some or all may be unknown.

    ``pressure`` is in per cent and ``idle`` tells whether disks are idle, both
    by UUID of the disk. ``moves`` tells where elastic vdisks are being moved
    to and why, by volume.
    """

    pressure: Pressure
    idle: collections.abc.Mapping[str, bool]
    moves: collections.abc.Mapping[str, str]


class ReportSender:
    """Holds the newest report and sends it.

    The agent goes on while the message bus is away. A report that could not
    be sent replaces the next heartbeat.
    """

    def __init__(self, transport: oslo_messaging.Transport) -> None:
        self._transport = transport
        self._newest: queue.Queue[report_format.Report] = queue.Queue(1)
        self._failed: report_format.Report | None = None
        self.sending = retry_logger.RetryLogger(
            'Reports cannot be sent', 'Reports are sent again'
        )

    def put(self, report: report_format.Report) -> None:
        """Replace the waiting message by a report or heartbeat.

        A heartbeat does not replace the report that it confirms. The call
        does not block as long as no two threads make it at once.
        """
        waiting: report_format.Report | None
        try:
            waiting = self._newest.get_nowait()
        except queue.Empty:
            waiting = self._failed
        if waiting is not None and report_format.is_heartbeat(report):
            report = waiting
        self._newest.put(report)

    def run(self) -> None:
        """Send reports forever."""
        while True:
            message = self._newest.get()
            if not report_format.is_heartbeat(message):
                # it replaces the one that could not be sent
                self._failed = None
            send = functools.partial(
                reports.send_report, self._transport, message
            )
            sent = self.sending.run(send)
            if not report_format.is_heartbeat(message):
                self._failed = None if sent else message


class Reporter:
    """Sends reports of changes, and heartbeats at an interval.

    :param interval: time in seconds between two heartbeats.
    :param clock: monotonic time in seconds.
    :param software: of ``catalogue.software``.
    :param weights: ``[diskplacer_weights] controller``, '' while weights are
        not on.
    """

    def __init__(
        self,
        sender: ReportSender,
        host: str,
        compute_node: str,
        interval: float,
        clock: collections.abc.Callable[[], float] = time.monotonic,
        software: collections.abc.Mapping[str, str] = types.MappingProxyType(
            {}
        ),
        weights: str = '',
    ) -> None:
        self._sender = sender
        self._host = host
        self._compute_node = compute_node
        self._interval = interval
        self._clock = clock
        self._software = software
        self._weights = weights
        self._digest = ''
        self._pressure: Pressure = {}
        self._sent = -float('inf')

    @property
    def due(self) -> bool:
        """Return whether a heartbeat is due."""
        return self._clock() - self._sent >= self._interval

    def update(
        self,
        provider: str,
        cache_mode: str | None,
        disks: collections.abc.Iterable[reported_disks.ReportedDisk],
        activity: DiskActivity,
        requested: bool = False,
    ) -> None:
        """Send a report if it differs from the last one.

        If it does not, a heartbeat is sent when one is due. The caller makes
        sure that no two threads call this at once.

        :param provider: UUID of the compute node's provider.
        :param cache_mode: cache mode of all vdisks, None if they differ.
        :param requested: send the report in any case.
        """
        self._pressure = smooth(self._pressure, activity.pressure)
        activity = dataclasses.replace(activity, pressure=self._pressure)
        report = report_format.with_digest(
            {
                'version': report_format.VERSION,
                'host': self._host,
                'compute_node': self._compute_node,
                'provider': provider,
                'cache_mode': cache_mode,
                'weights': self._weights,
                **self._software,
                'disks': [_disk(reported, activity) for reported in disks],
            }
        )
        if requested or report['digest'] != self._digest:
            self._sender.put(report)
        elif self.due:
            self._sender.put(report_format.heartbeat(report))
        else:
            return
        self._digest = report['digest']
        self._sent = self._clock()


def smooth(before: Pressure, now: Pressure) -> Pressure:
    """Return the pressure on disks without small changes.

    :param before: result of the previous call.
    """

    return {
        disk: before[disk]
        if disk in before and value and abs(value - before[disk]) < _STEP
        else value
        for disk, value in now.items()
    }


def _disk(
    reported: reported_disks.ReportedDisk, activity: DiskActivity
) -> dict[str, typing.Any]:
    disk = reported.disk
    measured: dict[str, typing.Any] = {}
    if disk.uuid in activity.pressure:
        measured['pressure'] = activity.pressure[disk.uuid]
    if disk.uuid in activity.idle:
        measured['idle'] = activity.idle[disk.uuid]
    return {
        **measured,
        'uuid': disk.uuid,
        'medium': disk.medium,
        'model': disk.model,
        'numa_node': disk.numa_node,
        'can_stripe': naming.is_entry(disk.path),
        **{name: getattr(reported.figures, name) for name in _FIGURES},
        'health': disk.health,
        'vdisks': [
            _vdisk(vdisk, activity.moves.get(vdisk.volume_id))
            for vdisk in disk.vdisks
        ],
    }


def _vdisk(vdisk: vdisk_.VDisk, move: str | None) -> dict[str, typing.Any]:
    fields = {
        'volume_id': vdisk.volume_id,
        'server_id': vdisk.server_id,
        'size_gb': vdisk.size_gb,
        'is_snapshot': vdisk.is_snapshot,
    }
    return fields if move is None else {**fields, 'move': move}
