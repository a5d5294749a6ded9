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

"""Reads what libvirt counts of all guests, in one call.

libvirt queries each QEMU, which takes much longer than reading the kernel's
counters.
"""

import collections.abc
import dataclasses
from typing import Any

from nova_diskplacer.host import libvirt_connection

_DISK_COUNTERS = (
    'rd.bytes',
    'wr.bytes',
    'rd.reqs',
    'wr.reqs',
    'fl.reqs',
    'rd.times',
    'wr.times',
    'fl.times',
)
_KIB = 1024

#: Counters of a guest's disk: bytes read and written; reads, writes and
#: flushes; the time of each of these three in nanoseconds.
DiskCounters = tuple[int, ...]

#: The bulk statistics of a domain by libvirt's names.
Stats = collections.abc.Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class GuestResources:
    """The CPU time, memory and network of a guest.

    ``cpu_seconds`` is the CPU time of the guest and its QEMU. ``memory_bytes``
    is the memory that the guest has, ``memory_used_bytes`` the part of it that
    programs in the guest cannot get without swapping. The bytes received and
    transmitted by the guest are by its network interface on the host. Counters
    begin when the domain starts. None is a figure that libvirt does not know:
    the use of memory if the guest has no driver of the balloon.
    """

    cpu_seconds: float | None
    memory_bytes: int | None
    memory_used_bytes: int | None
    received_bytes: dict[str, int]
    transmitted_bytes: dict[str, int]


@dataclasses.dataclass(frozen=True)
class GuestCounters:
    """The counters of a guest; ``disks`` is by the path on the host."""

    disks: dict[str, DiskCounters]
    resources: GuestResources


def read(uri: str) -> dict[str, GuestCounters]:
    """Return the counters of all running domains by UUID, in one call.

    A domain that is busy with another job lacks what only QEMU knows: its
    disks and the use of its memory.

    :raises HypervisorError: libvirt cannot be queried.
    """
    libvirt = libvirt_connection.import_libvirt()
    if libvirt is None:
        return {}
    groups = (
        libvirt.VIR_DOMAIN_STATS_BLOCK
        | libvirt.VIR_DOMAIN_STATS_CPU_TOTAL
        | libvirt.VIR_DOMAIN_STATS_BALLOON
        | libvirt.VIR_DOMAIN_STATS_INTERFACE
    )
    flags = (
        libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE
        | libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
    )
    purpose = 'report the I/O of its domains'
    with libvirt_connection.connect(uri, purpose) as connection:
        return {
            domain.UUIDString(): parse(stats)
            for domain, stats in connection.getAllDomainStats(groups, flags)
        }


def parse(stats: Stats) -> GuestCounters:
    """Return the counters that libvirt's statistics of a domain contain."""
    time, memory = stats.get('cpu.time'), stats.get('balloon.current')
    return GuestCounters(
        _disks(stats),
        GuestResources(
            cpu_seconds=None if time is None else time / 1e9,
            memory_bytes=None if memory is None else memory * _KIB,
            memory_used_bytes=_used_memory(stats),
            received_bytes=_interfaces(stats, 'rx.bytes'),
            transmitted_bytes=_interfaces(stats, 'tx.bytes'),
        ),
    )


def _disks(stats: Stats) -> dict[str, DiskCounters]:
    disks = {}
    for index in range(stats.get('block.count', 0)):
        path = stats.get(f'block.{index}.path')
        # a busy domain's disks have a path and no counters
        if path and f'block.{index}.rd.bytes' in stats:
            disks[path] = tuple(
                stats.get(f'block.{index}.{name}', 0)
                for name in _DISK_COUNTERS
            )
    return disks


def _used_memory(stats: Stats) -> int | None:
    try:
        used: int = stats['balloon.available'] - stats['balloon.usable']
    except KeyError:
        return None
    return used * _KIB


def _interfaces(stats: Stats, counter: str) -> dict[str, int]:
    return {
        stats[f'net.{index}.name']: stats[f'net.{index}.{counter}']
        for index in range(stats.get('net.count', 0))
        if f'net.{index}.{counter}' in stats
    }
