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

"""Runs slow checks of disks, guests and seeks outside the I/O loop."""

import collections.abc
import functools
import threading
import time

from oslo_config import cfg

from nova_diskplacer.agent import elastic
from nova_diskplacer.agent import spindown
from nova_diskplacer.host import log_once
from nova_diskplacer.io_weights import manager
from nova_diskplacer.monitor import disk_health
from nova_diskplacer.monitor import guest_stats
from nova_diskplacer.monitor import seek_detector
from nova_diskplacer.monitor import types

# Seconds between two checks for the first sample.
_FIRST_SAMPLE_PAUSE = 0.2

# Seconds between two polls of libvirt, as in P2's monitor (P2 §2).
_GUESTS_INTERVAL = 5.0

# Seconds between two questions to disks whether they are in standby.
_STANDBY_INTERVAL = 10.0


class BackgroundChecks:
    """Runs each check in a separate thread, on the last sample.

    ``health`` is the health of disks, ``guests`` the last statistics of
    guests, None before the first, ``spindown`` the standby of disks,
    ``elastic`` the decisions on elastic vdisks, None if they are not enabled.

    :param last_sample: returns the last sample, None before the first.
    :param room: see ``elastic.Room``.
    :raises DiskPlacerError: an option is invalid.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        last_sample: collections.abc.Callable[[], types.Sample | None],
        room: elastic.Room,
    ) -> None:
        self._conf = conf
        self._last_sample = last_sample
        self.health = disk_health.HealthMonitor(conf)
        self.guests: guest_stats.GuestStats | None = None
        self.spindown = spindown.Spindown(conf)
        self.elastic = (
            elastic.Elastic(conf, room, lambda: self.guests)
            if conf.diskplacer_elastic.enabled
            else None
        )
        self._guest_poller = guest_stats.GuestPoller(
            conf.diskplacer_agent.libvirt_uri
        )
        self._seek_detector: seek_detector.SeekDetector | None = None

    @property
    def seekers(self) -> frozenset[types.ConsumerDisk]:
        """The consumers that seek excessively, and on which disks."""
        detector = self._seek_detector
        return detector.seekers if detector else frozenset()

    def start(self, stopped: threading.Event) -> None:
        """Start the threads; they end when ``stopped`` is set."""
        monitor = self._conf.diskplacer_monitor
        checks: list[tuple[float, str, _Check]] = [
            (
                monitor.health_interval,
                'The health of disks',
                self._check_smart,
            ),
            (_GUESTS_INTERVAL, 'The I/O of guests', self._poll_libvirt),
            (_STANDBY_INTERVAL, 'The standby of disks', self.spindown.run),
        ]
        if self.elastic:
            interval = self._conf.diskplacer_elastic.interval
            checks.append((interval, 'Elastic vdisks', self.elastic.run))
        weights = self._conf.diskplacer_weights
        if weights.mode != manager.OFF and weights.seek_penalty:
            checks.append(
                (monitor.interval, 'Excessive seeking', self._detect_seeks)
            )
        for check in checks:
            threading.Thread(
                target=self._repeat, args=(stopped, *check), daemon=True
            ).start()

    def _repeat(
        self,
        stopped: threading.Event,
        interval: float,
        subject: str,
        check: '_Check',
    ) -> None:
        retry = log_once.RetryLogger(
            f'{subject} cannot be checked', f'{subject} is checked again'
        )
        while not stopped.is_set():
            sample = self._last_sample()
            if sample is None:
                stopped.wait(_FIRST_SAMPLE_PAUSE)
                continue
            retry.run(functools.partial(check, sample))
            stopped.wait(interval)

    def _check_smart(self, sample: types.Sample) -> None:
        interval = self._conf.diskplacer_monitor.health_interval
        resting = {
            uuid
            for uuid in self.spindown.disks
            if uuid in sample.disks
            and sample.disks[uuid].idle_seconds >= interval
        }
        self.health.poll(sample.devices, resting)

    def _poll_libvirt(self, sample: types.Sample) -> None:
        self.guests = self._guest_poller.poll(time.monotonic(), sample)

    def _detect_seeks(self, sample: types.Sample) -> None:
        if self._seek_detector is None:
            self._seek_detector = seek_detector.SeekDetector(
                self._conf, sample.hierarchy
            )
        self._seek_detector.run(sample)


_Check = collections.abc.Callable[[types.Sample], None]
