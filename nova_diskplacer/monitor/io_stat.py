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

"""Reads the kernel's I/O counters of consumers' cgroups."""

import collections.abc
import contextlib
import os
import re
import resource
import weakref

import numpy
from oslo_log import log as logging

from nova_diskplacer.host import cgroups
from nova_diskplacer.host import log_once
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import cgroup_v1
from nova_diskplacer.monitor import interpolated_counters
from nova_diskplacer.monitor import types

LOG = logging.getLogger(__name__)

#: The files with a cgroup's bytes read and written, reads and writes, by the
#: cgroup version.
FILES = {
    1: (
        'blkio.throttle.io_service_bytes_recursive',
        'blkio.throttle.io_serviced_recursive',
    ),
    2: ('io.stat',),
}

# Patterns that begin with a constant are much faster.
_V1 = re.compile(rb' Read (\d+)\n(\d+:\d+) Write (\d+)')
_V2 = re.compile(rb'(\d+:\d+) rbytes=(\d+) wbytes=(\d+) rios=(\d+) wios=(\d+)')

# File descriptors for the rest of the process.
_OTHER_FILES = 512

# The initial size of a read in bytes.
_READ_SIZE = 512

# Readings between two attempts to open unreadable cgroups.
_REOPEN_READINGS = 10

_Rows = dict[types.ConsumerDisk, list[int]]


class CgroupReader:
    """Reads the counters of cgroups and keeps their files open.

    The files are closed when the object is deleted. ``errors`` are the reasons
    why cgroups cannot be read, by the consumer's key.
    """

    def __init__(self, hierarchy: cgroups.Hierarchy) -> None:
        self.errors: dict[str, str] = {}
        self._hierarchy = hierarchy
        self._v1 = cgroup_v1.Accounting(hierarchy)
        self._names = FILES[hierarchy.version]
        self._parse = _parse_v1 if hierarchy.version == 1 else _V2.findall
        self._requests = interpolated_counters.InterpolatedCounters()
        self._read_size = _READ_SIZE
        self._readings = 0
        # key and cgroup of each consumer, and those with open files
        self._wanted: set[tuple[str, str]] = set()
        self._files: dict[tuple[str, str], list[int]] = {}
        weakref.finalize(self, _close_all, self._files)
        self._log = log_once.ChangeLogger(LOG)
        self._devices: collections.abc.Mapping[str, Device] = {}
        self._uuids: dict[bytes, str] = {}
        # keys and UUIDs that were not read yet
        self._new: set[str] = set()
        self._pairs = types.Pairs()

    def set_consumers(
        self, consumers: collections.abc.Iterable[types.Consumer]
    ) -> None:
        """Set the consumers that ``read`` reads."""
        self._wanted = {
            (consumer.key, consumer.cgroup)
            for consumer in consumers
            if consumer.cgroup
        }
        for consumer in self._files.keys() - self._wanted:
            _close(self._files.pop(consumer))
        self._log.clear_except({key for key, _ in self._wanted})
        _raise_file_limit(len(self._names) * len(self._wanted))
        self._open()

    def read(
        self, devices: collections.abc.Mapping[str, Device]
    ) -> types.Counters:
        """Return the counters of all consumers on devices, by UUID.

        Cgroups that have gone are left out until they can be read again.
        With cgroup v1, requests are behind by up to
        ``interpolated_counters.INTERVALS`` readings.
        """
        if devices != self._devices:
            self._set_devices(devices)
        elif self._readings % _REOPEN_READINGS == 0:
            self._open()
            self._v1.enable(devices.values())
        self._readings += 1
        rows = self._parse_files(0)
        if rows.keys() != set(self._pairs):
            self._pairs = types.Pairs(sorted(rows))
        pairs = self._pairs
        values = _array(pairs, rows, 4 // len(self._names))
        if len(self._names) > 1:
            if self._new:
                self._requests = interpolated_counters.InterpolatedCounters()
            if self._requests.due(pairs):
                requests = _array(pairs, self._parse_files(1), 2)
                self._requests.put(pairs, requests)
            values = numpy.hstack((values, self._requests.get()))
        first = numpy.zeros(len(pairs), numpy.bool_)
        if self._new:
            first[:] = [not self._new.isdisjoint(pair) for pair in pairs]
            self._new.clear()
        return types.Counters(pairs, values, first)

    def _parse_files(self, index: int) -> _Rows:
        """Return the counters in one file of each cgroup."""
        rows: _Rows = {}
        size, parse, uuids = self._read_size, self._parse, self._uuids
        for consumer, files in list(self._files.items()):
            key, cgroup = consumer
            try:
                text = os.pread(files[index], size, 0)
            except OSError as error:
                _close(self._files.pop(consumer))
                self.errors[key] = f'{cgroup}: {error.strerror}'
                continue
            if len(text) == size:
                # the file may be longer
                self._read_size *= 2
                return self._parse_files(index)
            for number, *counters in parse(text):
                if number in uuids:
                    rows[key, uuids[number]] = list(map(int, counters))
        return rows

    def _open(self) -> None:
        """Open the files of all wanted cgroups that exist."""
        self.errors = {}
        for consumer in sorted(self._wanted - self._files.keys()):
            key, cgroup = consumer
            files: list[int] = []
            try:
                for name in self._names:
                    path = self._hierarchy.path(cgroup, name)
                    files.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            except OSError as error:
                _close(files)
                reason = self.errors[key] = f'{path}: {error.strerror}'
            else:
                self._files[consumer] = files
                self._new.add(key)
                self._log.clear(key)
                continue
            # the agent drops a consumer whose cgroup has gone
            if os.path.exists(self._hierarchy.path(cgroup)):
                self._log.log(
                    key, 'The I/O of %s cannot be monitored: %s', key, reason
                )

    def _set_devices(
        self, devices: collections.abc.Mapping[str, Device]
    ) -> None:
        self._new |= {
            uuid
            for uuid, device in devices.items()
            if self._devices.get(uuid) != device
        }
        self._devices = dict(devices)
        self._uuids = {
            device.number.encode(): uuid for uuid, device in devices.items()
        }
        self._v1.enable(devices.values())


def _parse_v1(text: bytes) -> list[tuple[bytes, bytes, bytes]]:
    """Return the number and the counters of each device."""
    found = _V1.findall(text)
    return [(number, read, write) for read, number, write in found]


def _array(pairs: types.Pairs, rows: _Rows, width: int) -> types.Integers:
    zeros = [0] * width
    return numpy.array(
        [rows.get(pair, zeros) for pair in pairs], numpy.int64
    ).reshape(len(pairs), width)


def _raise_file_limit(count: int) -> None:
    """Raise the limit of open files by ``count``, if possible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _close_all(files: dict[tuple[str, str], list[int]]) -> None:
    while files:
        _close(files.popitem()[1])


def _close(files: collections.abc.Iterable[int]) -> None:
    for file in files:
        with contextlib.suppress(OSError):
            os.close(file)
