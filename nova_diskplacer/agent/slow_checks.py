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

"""Checks disks, guests and seeks, which may take longer than an interval."""

import collections.abc
import time

from oslo_config import cfg

from nova_diskplacer.agent import sample_tasks
from nova_diskplacer.io_weights import manager
from nova_diskplacer.monitor import disk_health
from nova_diskplacer.monitor import guest_stats
from nova_diskplacer.monitor import seek_detector
from nova_diskplacer.monitor import types

# Seconds between two polls of libvirt, as in P2's monitor (P2 §2).
_GUESTS_INTERVAL = 5.0

# Seconds after which a poll of libvirt says nothing of the present any more.
_GUESTS_AGE = 6 * _GUESTS_INTERVAL


class SlowChecks:
    """Holds the last results of the checks, which change nothing.

    ``health`` is the health of disks.

    :param timeouts: returns the UUIDs of disks with a standby timeout.
    :raises DiskPlacerError: an option is invalid.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        timeouts: collections.abc.Callable[
            [], collections.abc.Iterable[str]
        ] = tuple,
    ) -> None:
        self._conf = conf
        self._timeouts = timeouts
        self.health = disk_health.HealthMonitor(conf)
        self._polled: tuple[float, guest_stats.GuestStats] | None = None
        self._guest_poller = guest_stats.GuestPoller(
            conf.diskplacer_agent.libvirt_uri
        )
        self._seek_detector: seek_detector.SeekDetector | None = None

    @property
    def guests(self) -> guest_stats.GuestStats | None:
        """The last statistics of guests, None while libvirt has none.

        It has none before the first poll, and while it refuses or hangs.
        """
        polled = self._polled
        if polled is None or time.monotonic() - polled[0] > _GUESTS_AGE:
            return None
        return polled[1]

    @property
    def seekers(self) -> frozenset[types.ConsumerDisk]:
        """The consumers that seek excessively, and on which disks."""
        detector = self._seek_detector
        return detector.seekers if detector else frozenset()

    def tasks(self) -> list[sample_tasks.SampleTask]:
        """Return a task for each check that the options enable."""
        monitor = self._conf.diskplacer_monitor
        tasks = [
            sample_tasks.SampleTask(
                monitor.health_interval,
                'The health of disks',
                self._check_smart,
            ),
            sample_tasks.SampleTask(
                _GUESTS_INTERVAL, 'The I/O of guests', self._poll_libvirt
            ),
        ]
        weights = self._conf.diskplacer_weights
        if weights.mode != manager.OFF and weights.seek_penalty:
            tasks.append(
                sample_tasks.SampleTask(
                    monitor.interval, 'Excessive seeking', self._detect_seeks
                )
            )
        return tasks

    def _check_smart(self, sample: types.Sample) -> None:
        interval = self._conf.diskplacer_monitor.health_interval
        resting = {
            uuid
            for uuid in self._timeouts()
            if uuid in sample.disks
            and sample.disks[uuid].idle_seconds >= interval
        }
        self.health.poll(sample.devices, resting)

    def _poll_libvirt(self, sample: types.Sample) -> None:
        try:
            stats = self._guest_poller.poll(time.monotonic(), sample)
        except Exception:
            self._polled = None
            raise
        self._polled = time.monotonic(), stats

    def _detect_seeks(self, sample: types.Sample) -> None:
        if self._seek_detector is None:
            self._seek_detector = seek_detector.SeekDetector(
                self._conf, sample.hierarchy
            )
        self._seek_detector.run(sample)
