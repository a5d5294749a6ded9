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

"""What is looked at beside the rounds, as it takes longer than they may."""

import collections.abc
import dataclasses
import functools
import threading
import time

from oslo_config import cfg

from nova_diskplacer.disks import discover
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host import log_once
from nova_diskplacer.io_weights import manager
from nova_diskplacer.monitor import disk_health
from nova_diskplacer.monitor import guest_stats
from nova_diskplacer.monitor import sampler
from nova_diskplacer.monitor import seek_detector
from nova_diskplacer.monitor import types

# How often it is looked whether a round has seen anything yet, in seconds.
_SOON = 0.2


@dataclasses.dataclass(frozen=True)
class Seen:
    """What a round saw."""

    sight: sampler.Sight
    servers: collections.abc.Sequence[libvirt_servers.Server]
    disks: collections.abc.Sequence[discover.Disk]


class Asides:
    """Looks at the health of disks, for seekers, and at what guests tell.

    ``guests`` is what libvirt told last, None before it did.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self.health = disk_health.Health(conf)
        self.guests: guest_stats.Look | None = None
        #: what the last round saw
        self.seen: Seen | None = None
        self._blocks = guest_stats.BlockStats(
            conf.diskplacer_agent.libvirt_uri
        )
        self._inspector: seek_detector.Inspector | None = None

    @property
    def seekers(self) -> frozenset[types.ConsumerDisk]:
        """Who is held to seek excessively, and on which disk."""
        return self._inspector.seekers() if self._inspector else frozenset()

    def start(self, stopped: threading.Event) -> None:
        """Begin, each in a thread of its own, until ``stopped`` is set."""
        monitor = self._conf.diskplacer_monitor
        works: list[tuple[str, float, _Work]] = [
            ('The health of disks', monitor.health_interval, self._examine),
            (
                'What guests do on their disks',
                self._conf.diskplacer_agent.report_interval,
                self._ask,
            ),
        ]
        weights = self._conf.diskplacer_weights
        if weights.mode != manager.OFF and weights.seek_penalty:
            works.append(
                ('Who seeks excessively', monitor.interval, self._inspect)
            )
        for what, interval, work in works:
            threading.Thread(
                target=self._repeat,
                args=(stopped, interval, what, work),
                daemon=True,
            ).start()

    def _repeat(
        self,
        stopped: threading.Event,
        interval: float,
        what: str,
        work: '_Work',
    ) -> None:
        troubled = log_once.RetryLogger(
            f'{what} is not known', f'{what} is known again'
        )
        while not stopped.is_set():
            seen = self.seen
            if seen is None:
                stopped.wait(_SOON)
                continue
            troubled.run(functools.partial(work, seen))
            stopped.wait(interval)

    def _examine(self, seen: Seen) -> None:
        self.health.look(seen.sight.devices)

    def _ask(self, seen: Seen) -> None:
        self.guests = self._blocks.look(
            time.monotonic(), seen.servers, seen.disks, seen.sight.counters
        )

    def _inspect(self, seen: Seen) -> None:
        sight = seen.sight
        if self._inspector is None:
            self._inspector = seek_detector.Inspector(
                self._conf, sight.hierarchy
            )
        self._inspector.inspect(
            [one.device for one in sight.states.values() if one.flagged],
            sight.consumers.values(),
            sight.round,
        )


_Work = collections.abc.Callable[[Seen], None]
