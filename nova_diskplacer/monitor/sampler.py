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

"""Measures the I/O of consumers and disks once in each interval."""

import collections.abc
import os

from oslo_config import cfg

from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host import sysfs
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import consumers
from nova_diskplacer.monitor import disk_health
from nova_diskplacer.monitor import disk_monitor
from nova_diskplacer.monitor import history
from nova_diskplacer.monitor import io_stat
from nova_diskplacer.monitor import types

# Intervals between two searches for the devices of unchanged disks.
_DEVICE_INTERVALS = 10


class Sampler:
    """Takes samples.

    :param now: start of the first interval, in seconds of a monotonic clock.
    :param health: the health of disks, for their warnings.
    :raises ContentionError: the kernel does not account for I/O.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        now: float,
        health: disk_health.HealthMonitor,
    ) -> None:
        self._patterns: list[str] = conf.diskplacer_monitor.cgroups
        self._hierarchy = cgroups.hierarchy()
        self._reader = io_stat.CgroupReader(self._hierarchy)
        self._history = history.History()
        self._disk_monitor = disk_monitor.DiskMonitor(
            conf, self._hierarchy, health
        )
        self._then = now
        self._intervals = 0
        # UUID, device and health of each disk, which determine the devices
        self._disks: list[tuple[str, str, str]] = []
        self._devices: dict[str, Device] = {}
        self._unwatched: dict[str, str] = {}
        self._servers: list[libvirt_servers.Server] | None = None
        self._consumers: dict[str, types.Consumer] = {}

    def sample(
        self,
        servers: collections.abc.Sequence[libvirt_servers.Server],
        disks: collections.abc.Sequence[discover.Disk],
        now: float,
    ) -> types.Sample:
        """Return the I/O since the last sample.

        :param now: seconds of a monotonic clock, later than the last sample.
        :raises OSError: the kernel's statistics cannot be read.
        """
        identities = [(disk.uuid, disk.device, disk.health) for disk in disks]
        if (
            identities != self._disks
            or self._intervals % _DEVICE_INTERVALS == 0
        ):
            self._disks = identities
            self._devices, self._unwatched = find_devices(disks)
        # cgroups that match patterns come and go at any time
        if servers != self._servers or self._patterns:
            self._servers = list(servers)
            self._consumers = consumers.find(
                servers, self._patterns, self._hierarchy
            )
        self._intervals += 1
        seconds, self._then = now - self._then, now
        counters = self._reader.read(self._consumers.values(), self._devices)
        done = self._history.update(seconds, counters)
        read_bytes, write_bytes, reads, writes, charged_us = done.T
        idle = ~history.has_requests(done)
        return types.Sample(
            seconds=seconds,
            pairs=counters.pairs,
            read_bytes=read_bytes,
            write_bytes=write_bytes,
            reads=reads,
            writes=writes,
            charged_seconds=charged_us / 1e6,
            idle=idle,
            disks=self._disk_monitor.update(
                now, self._devices, counters.pairs, idle
            ),
            devices=self._devices,
            unwatched=self._unwatched,
            hung=[disk.uuid for disk in disks if disk.health == discover.HUNG],
            consumers=self._consumers,
            history=self._history.table,
            hierarchy=self._hierarchy,
            servers=servers,
            prepared_disks=disks,
        )


def find_devices(
    disks: collections.abc.Iterable[discover.Disk], sys: str = sysfs.SYS
) -> tuple[dict[str, Device], dict[str, str]]:
    """Return the devices of disks, and the reasons why disks have none.

    Both are by the disk's UUID.
    """
    devices, missing = {}, {}
    for disk in disks:
        if disk.health in discover.UNAVAILABLE and not disk.device:
            missing[disk.uuid] = f'the disk is {disk.health}'
            continue
        try:
            name = block_queue.exclusive_device(disk.device, sys)
            number = block_queue.device_number(name, sys)
            rotational = _is_rotational(disk, name, sys)
        except (exception.DiskError, OSError) as error:
            missing[disk.uuid] = str(error)
            continue
        paths = sysfs.nvme_paths(sysfs.device_path(name, sys))
        devices[disk.uuid] = Device(
            disk.uuid,
            name,
            number,
            rotational,
            disk.mbps,
            tuple(map(os.path.basename, paths)),
        )
    return devices, missing


def _is_rotational(disk: discover.Disk, name: str, sys: str) -> bool:
    # as the operator has told, where a virtual device tells wrongly
    if disk.medium:
        return disk.medium == constants.HDD
    return block_queue.read_setting(name, 'rotational', sys) == '1'
