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
import io
import os
import re
import resource

import numpy
from oslo_log import log as logging

from nova_diskplacer.host import cgroups
from nova_diskplacer.host import log_once
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import types

LOG = logging.getLogger(__name__)

# The file with a cgroup's counters on each device.
FILE = 'io.stat'

_LINE = re.compile(
    rb'(\d+:\d+) rbytes=(\d+) wbytes=(\d+) rios=(\d+) wios=(\d+)'
    rb'(?:.*? cost\.usage=(\d+))?'
)

# More bytes than such a file usually has.
_USUAL_SIZE = 16 << 10

# The key and the cgroup of a consumer.
_KeyCgroup = tuple[str, str]

_Rows = dict[types.ConsumerDisk, list[int]]


class CgroupReader:
    """Reads the counters of cgroups, and keeps their files open.

    Opening the files takes longer than reading them. So that they may be
    many, the process gets the highest limit that it can have.
    """

    def __init__(self, hierarchy: cgroups.Hierarchy) -> None:
        self._hierarchy = hierarchy
        # by cgroup
        self._files: dict[str, io.FileIO] = {}
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self._log = log_once.ChangeLogger(LOG)
        # those of the last reading
        self._devices: dict[str, Device] = {}
        self._readable: set[_KeyCgroup] = set()
        self._pairs = types.Pairs()

    def read(
        self,
        consumers: collections.abc.Iterable[types.Consumer],
        devices: collections.abc.Mapping[str, Device],
    ) -> types.Counters:
        """Return the counters of consumers on devices, by UUID.

        Cgroups that have gone are left out.
        """
        present = {
            (consumer.key, consumer.cgroup)
            for consumer in consumers
            if consumer.cgroup
        }
        rows, errors = self._parse_files(present, devices)
        self._log.clear_except({key for key, _ in errors})
        for (key, cgroup), error in errors.items():
            # the agent drops a consumer whose cgroup has gone
            if os.path.exists(self._hierarchy.path(cgroup)):
                self._log.log(
                    key, 'The I/O of %s cannot be monitored: %s', key, error
                )
        readable = present - errors.keys() if errors else present
        if readable != self._readable:
            left = {cgroup for _, cgroup in readable}
            for gone in self._files.keys() - left:
                self._files.pop(gone).close()
        new = {key for key, _ in readable - self._readable} | {
            uuid
            for uuid, device in devices.items()
            if self._devices.get(uuid) != device
        }
        self._readable, self._devices = readable, dict(devices)
        if rows.keys() != set(self._pairs):
            self._pairs = types.Pairs(sorted(rows))
        pairs = self._pairs
        values = numpy.array(
            [rows[pair] for pair in pairs], numpy.int64
        ).reshape(len(pairs), types.COUNTERS)
        first = [not new.isdisjoint(pair) for pair in pairs]
        return types.Counters(pairs, values, numpy.array(first, numpy.bool_))

    def _parse_files(
        self,
        consumers: collections.abc.Iterable[_KeyCgroup],
        devices: collections.abc.Mapping[str, Device],
    ) -> tuple[_Rows, dict[_KeyCgroup, str]]:
        """Return the counters of each cgroup, and errors."""
        uuids = {
            device.number.encode(): uuid for uuid, device in devices.items()
        }
        rows: _Rows = {}
        errors = {}
        for consumer in consumers:
            key, cgroup = consumer
            try:
                if cgroup not in self._files:
                    path = self._hierarchy.path(cgroup, FILE)
                    self._files[cgroup] = io.FileIO(path)
                file = self._files[cgroup]
                text = os.pread(file.fileno(), _USUAL_SIZE, 0)
                if len(text) == _USUAL_SIZE:
                    file.seek(0)
                    text = file.readall()
            except OSError as error:
                path = self._hierarchy.path(cgroup, FILE)
                errors[consumer] = f'{path}: {error.strerror}'
                continue
            for number, *counters in _LINE.findall(text):
                if number in uuids:
                    # io.cost's charge is empty without io.cost
                    rows[key, uuids[number]] = [
                        int(counter or 0) for counter in counters
                    ]
        return rows, errors
