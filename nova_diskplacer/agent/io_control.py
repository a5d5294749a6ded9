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

"""Measures the I/O of a host, and acts on what is measured.

Beside the I/O loop run the checks of disks and guests, the standby of disks
and the decisions on elastic vdisks. Each has a thread of its own, so that none
waits for a disk or a peer of another.
"""

import collections.abc
import contextlib
import threading

from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer.agent import build_io_status
from nova_diskplacer.agent import io_loop
from nova_diskplacer.agent import reporter
from nova_diskplacer.agent import sample_tasks
from nova_diskplacer.agent import slow_checks
from nova_diskplacer.agent import spindown
from nova_diskplacer.elastic.processes import decider
from nova_diskplacer.monitor import elastic_status
from nova_diskplacer.monitor import seek_detector
from nova_diskplacer.monitor import status

# Seconds between two questions to disks whether they are in standby.
_STANDBY_INTERVAL = 10.0


class IOControl:
    """The I/O loop and the tasks beside it.

    :param servers: see ``io_loop.IOLoop``.
    :param disks: see ``io_loop.IOLoop``.
    :param free_gb: see ``decider.FreeGB``.
    :raises DiskPlacerError: an option is invalid.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        servers: io_loop.Servers,
        disks: io_loop.Disks,
        free_gb: decider.FreeGB,
    ) -> None:
        self._conf = conf
        self._spindown = spindown.Spindown(conf)
        self._checks = slow_checks.SlowChecks(
            conf, lambda: self._spindown.disks
        )
        self._loop = io_loop.IOLoop(conf, servers, disks, self._checks)
        self._width_decider = (
            decider.WidthDecider(conf, free_gb, lambda: self._checks.guests)
            if conf.diskplacer_elastic.enabled
            else None
        )

    def run(self, stopped: threading.Event) -> None:
        """Run until ``stopped`` is set, then restore weights."""
        with contextlib.suppress(exception.ContentionError):
            # of an agent that was killed; what traces raises it again
            seek_detector.clean(self._conf)
        sample_tasks.start(self._tasks(), lambda: self._loop.sample, stopped)
        self._loop.run(stopped)

    def current_status(self) -> status.Status | None:
        """Return the status after the last interval; any thread may call it.

        :returns: None before the first interval.
        """
        interval = self._loop.interval
        if interval is None:
            return None
        return build_io_status.build_status(
            self._conf.host,
            self._conf.diskplacer_weights.mode,
            interval,
            self._checks.guests,
            self._spindown.disks,
            self._elastic_status,
        )

    def disk_activity(self) -> reporter.DiskActivity:
        """Return what reports say on the I/O of disks."""
        states = self._loop.disk_states
        elastic = self._elastic_status
        return reporter.DiskActivity(
            pressure={
                uuid: round(100 * disk.pressure)
                for uuid, disk in states.items()
            },
            idle={uuid: disk.idle for uuid, disk in states.items()},
            moves=elastic_status.moves(elastic) if elastic else {},
        )

    def wanted_step(self) -> elastic_status.WantedStep | None:
        """Return the next step of an elastic vdisk; any thread may call it."""
        elastic = self._elastic_status
        return elastic.step if elastic else None

    @property
    def _elastic_status(self) -> elastic_status.ElasticStatus | None:
        return self._width_decider.status if self._width_decider else None

    def _tasks(self) -> collections.abc.Iterator[sample_tasks.SampleTask]:
        yield from self._checks.tasks()
        yield sample_tasks.SampleTask(
            _STANDBY_INTERVAL, 'The standby of disks', self._spindown.run
        )
        if self._width_decider:
            yield sample_tasks.SampleTask(
                self._conf.diskplacer_elastic.interval,
                'Elastic vdisks',
                self._width_decider.run,
            )
