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

"""Looks at what servers and disks do, once a round."""

import collections.abc
import dataclasses

from oslo_config import cfg

from nova_diskplacer.disks import discover
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import consumers as consumers_
from nova_diskplacer.monitor import disk_devices
from nova_diskplacer.monitor import disk_health
from nova_diskplacer.monitor import disk_monitor
from nova_diskplacer.monitor import history
from nova_diskplacer.monitor import io_stat
from nova_diskplacer.monitor import types

# In how many rounds devices are looked for, though disks seem the same.
_ROUNDS = 10


@dataclasses.dataclass(frozen=True)
class Sight:
    """What was seen in a round.

    ``devices`` and ``states`` are by the disk's UUID, and ``unwatched`` says
    why a disk is not among them. ``consumers`` and ``devices`` are the same
    objects as in the round before while nothing has changed.
    """

    round: types.Round
    states: collections.abc.Mapping[str, types.DiskState]
    devices: collections.abc.Mapping[str, Device]
    unwatched: collections.abc.Mapping[str, str]
    consumers: collections.abc.Mapping[str, types.Consumer]
    counters: io_stat.Counters
    summary: history.Summary
    hierarchy: cgroups.Hierarchy


class Watch:
    """What has been seen so far.

    :param now: when watching begins, in seconds of the clock of ``look``.
    :param known: what else is known of the disks.
    :raises ContentionError: the kernel has no accounts of I/O.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, now: float, known: disk_health.Health
    ) -> None:
        self._patterns: list[str] = conf.diskplacer_monitor.cgroups
        self._hierarchy = cgroups.hierarchy()
        self._accounts = io_stat.Accounts(self._hierarchy)
        self._history = history.History(now)
        self._hardware = disk_monitor.Hardware(conf, self._hierarchy, known)
        self._round = 0
        self._known: object = None
        self._devices: dict[str, Device] = {}
        self._unwatched: dict[str, str] = {}
        self._listed: object = None
        self._consumers: dict[str, types.Consumer] = {}

    def look(
        self,
        servers: collections.abc.Sequence[libvirt_servers.Server],
        disks: collections.abc.Sequence[discover.Disk],
        now: float,
    ) -> Sight:
        """Return what was done since the last look.

        :param servers: the same object while they were not looked for anew.
        :param now: later than at the last look.
        :raises OSError: the kernel does not tell.
        """
        self._find_devices(disks)
        self._find_consumers(servers)
        self._round += 1
        counters = self._accounts.read(self._devices)
        round_ = self._history.update(now, counters)
        return Sight(
            round=round_,
            states=self._hardware.update(now, self._devices, round_),
            devices=self._devices,
            unwatched=self._unwatched,
            consumers=self._consumers,
            counters=counters,
            summary=self._history.summary(),
            hierarchy=self._hierarchy,
        )

    def _find_devices(
        self, disks: collections.abc.Sequence[discover.Disk]
    ) -> None:
        # how full they are is of no interest
        known = [(disk.uuid, disk.device, disk.health) for disk in disks]
        if known == self._known and self._round % _ROUNDS:
            return
        self._known = known
        found, self._unwatched = disk_devices.find(disks)
        if found != self._devices:
            self._devices = found

    def _find_consumers(
        self, servers: collections.abc.Sequence[libvirt_servers.Server]
    ) -> None:
        if servers is self._listed and not self._patterns:
            return
        self._listed = servers
        found = {
            consumer.key: consumer
            for consumer in consumers_.find(
                servers, self._patterns, self._hierarchy
            )
        }
        if found != self._consumers:
            self._consumers = found
            self._accounts.track(found.values())
