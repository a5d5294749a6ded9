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

"""Reads what consumers have done on disks, from the kernel's accounts."""

import collections.abc
import contextlib
import dataclasses
import itertools
import os
import resource
import weakref

import numpy
from oslo_log import log as logging

from nova_diskplacer.host import cgroups
from nova_diskplacer.host import log_once
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import cgroup_v1
from nova_diskplacer.monitor import interpolated_counters
from nova_diskplacer.monitor import io_files
from nova_diskplacer.monitor import types

LOG = logging.getLogger(__name__)

# descriptors that are left to the rest of the process
_OTHERS = 512

# bytes that are read of a file at first
_SIZE = 512

# reads between two looks for what may have come back unnoticed
_PATIENCE = 10


@dataclasses.dataclass(frozen=True)
class Counters:
    """What consumers have done on disks since their cgroups were made.

    ``pairs`` is sorted, and the same object as at the last read while no pair
    has come or gone. ``values`` has the shape (R, 4): bytes read, bytes
    written, reads, writes. Where requests are in a file of their own, with
    cgroup v1, they come later by up to ``interpolated_counters.READS`` reads.
    ``first`` (R,) is true at the first look at a cgroup or a disk: how old
    the figures are is not known.
    """

    pairs: tuple[types.ConsumerDisk, ...]
    values: types.Integers
    first: types.Booleans


class Accounts:
    """The kernel's accounts of cgroups, whose files are kept open.

    They are closed when nobody has this object any more.
    ``problems`` tells, by key, why a consumer that has a cgroup is not seen.
    """

    def __init__(self, hierarchy: cgroups.Hierarchy) -> None:
        self.problems: dict[str, str] = {}
        self._hierarchy = hierarchy
        self._log = log_once.ChangeLogger(LOG)
        self._counting = cgroup_v1.Counting(hierarchy)
        self._forms = io_files.FORMS[hierarchy.version]
        self._parsers = [io_files.Parser(form) for form in self._forms]
        # where they are in a file of their own
        self._requests = interpolated_counters.Spread()
        self._size = _SIZE
        self._reads = 0
        self._wanted: set[tuple[str, str]] = set()
        # by key and cgroup, a descriptor for each form
        self._open: dict[tuple[str, str], list[int]] = {}
        weakref.finalize(self, _close_all, self._open)
        self._devices: collections.abc.Mapping[str, Device] = {}
        # by key or UUID: not read before
        self._new: set[str] = set()
        # of the last read: whose the lines were, None if that changed since,
        # and which are those of the pairs
        self._lines: types.Integers | None = None
        self._order = numpy.zeros(0, numpy.intp)
        self._pairs: tuple[types.ConsumerDisk, ...] = ()
        self._first = numpy.zeros(0, numpy.bool_)

    def track(
        self, consumers: collections.abc.Iterable[types.Consumer]
    ) -> None:
        """Read these consumers' cgroups from now on, and no others."""
        self._wanted = {
            (consumer.key, consumer.cgroup)
            for consumer in consumers
            if consumer.cgroup
        }
        for one in self._open.keys() - self._wanted:
            self._forget(one)
        self._log.clear_except({key for key, _ in self._wanted})
        _make_room(len(self._forms) * len(self._wanted))
        self._begin()

    def read(self, devices: collections.abc.Mapping[str, Device]) -> Counters:
        """Return what the tracked consumers have done on devices, by UUID.

        Cgroups that have gone are left out, until they are there again.
        """
        if devices is not self._devices:
            self._watch(devices)
        elif self._reads % _PATIENCE == 0:
            self._begin()
            self._counting.keep(devices.values())
        self._reads += 1
        while True:
            try:
                lines, values = self._parse()
                break
            except OSError:
                if not self._drop_gone():
                    raise
        if self._lines is None or not numpy.array_equal(lines, self._lines):
            self._arrange(lines)
            self._new.clear()
        elif self._first.any():
            self._first = numpy.zeros(len(self._pairs), numpy.bool_)
        return Counters(self._pairs, values[self._order], self._first)

    def _parse(self) -> tuple[types.Integers, types.Integers]:
        lines, values = self._parsers[0].parse(self._texts(0))
        if len(self._parsers) == 1:
            return lines, values
        if self._requests.due(lines):
            self._requests.put(lines, *self._parsers[1].parse(self._texts(1)))
        return lines, numpy.hstack((values, self._requests.get()))

    def _texts(self, place: int) -> list[bytes]:
        files = [files[place] for files in self._open.values()]
        texts = list(
            map(
                os.pread,
                files,
                itertools.repeat(self._size),
                itertools.repeat(0),
            )
        )
        if max(map(len, texts), default=0) == self._size:
            self._size *= 2
            return self._texts(place)
        return texts

    def _arrange(self, lines: types.Integers) -> None:
        """Note which lines are those of pairs, in the pairs' order."""
        keys = [key for key, _ in self._open]
        uuids = {one.number: one.uuid for one in self._devices.values()}
        rows = []
        for index, line in enumerate(lines.tolist()):
            file, number = io_files.split(line)
            if number in uuids:
                rows.append((keys[file], uuids[number], index))
        rows.sort()
        pairs = tuple((key, uuid) for key, uuid, _ in rows)
        if pairs != self._pairs:
            self._pairs = pairs
        self._lines = lines
        self._order = numpy.array([index for _, _, index in rows], numpy.intp)
        self._first = numpy.array(
            [not self._new.isdisjoint(pair) for pair in pairs], numpy.bool_
        )

    def _begin(self) -> None:
        """Open the files of those that are wanted, as far as they exist."""
        self.problems = {}
        for one in sorted(self._wanted - self._open.keys()):
            key, cgroup = one
            files: list[int] = []
            try:
                for form in self._forms:
                    path = self._hierarchy.path(cgroup, form.file)
                    files.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            except OSError as error:
                _close(files)
                problem = self.problems[key] = f'{path}: {error.strerror}'
                # one whose cgroup has gone will be dropped anyway
                if os.path.exists(self._hierarchy.path(cgroup)):
                    self._log.log(
                        key, 'The I/O of %s is not counted: %s', key, problem
                    )
                continue
            self._log.clear(key)
            self._open[one] = files
            self._new.add(key)
            self._lines = None

    def _forget(self, one: tuple[str, str]) -> None:
        _close(self._open.pop(one))
        self._lines = None

    def _drop_gone(self) -> bool:
        """Return whether there were any whose cgroup cannot be read."""
        dropped = False
        for one, files in list(self._open.items()):
            try:
                for file in files:
                    os.pread(file, 1, 0)
            except OSError as error:
                self._forget(one)
                self.problems[one[0]] = f'{one[1]}: {error.strerror}'
                dropped = True
        return dropped

    def _watch(self, devices: collections.abc.Mapping[str, Device]) -> None:
        for uuid, device in devices.items():
            if self._devices.get(uuid) != device:
                self._new.add(uuid)
        self._devices = devices
        self._lines = None
        self._counting.keep(devices.values())


def _make_room(count: int) -> None:
    """Let this process have so many files open, if it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _OTHERS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _close_all(opened: dict[tuple[str, str], list[int]]) -> None:
    while opened:
        _close(opened.popitem()[1])


def _close(files: collections.abc.Iterable[int]) -> None:
    for file in files:
        with contextlib.suppress(OSError):
            os.close(file)
