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

"""The volume groups that are disks of this host, read when they change.

Such a disk is one volume group, ``diskplacer-<uuid>``, with its identity in
tags. Its entry in the disk root is a symbolic link to the group's directory
below /dev. So the disk of an absent group is missing, and a host without such
entries never runs LVM. Every function raises DiskError if LVM fails.
"""

import collections.abc
import math
import threading
import time
from typing import TypeVar

from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import report
from nova_diskplacer.host import probes

# Where LVM writes the state of a physical volume's metadata.
_HEADER_AT = 4096
_HEADER_SIZE = 512
_BLOCK = 4096
_HEADER_MAGIC = b' LVM2 x[5A%r0N*>'

_Headers = dict[str, bytes | None]
_Result = TypeVar('_Result')


class _GroupLock:
    """A lock of one group, which raises DiskHung if its holder hangs."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        # when its holder got it
        self._since = math.inf

    def __enter__(self) -> None:
        # others may have had it since, one after another
        while not self._lock.acquire(timeout=self._patience()):
            if not self._patience():
                raise exception.DiskHung(
                    f'{self._name} is hung: it does not answer'
                )
        self._since = time.monotonic()

    def _patience(self) -> float:
        """Return for how many seconds its holder may still have it."""
        held = max(0.0, time.monotonic() - self._since)
        return max(0.0, probes.HUNG_AFTER - held)

    def __exit__(self, *_: object) -> None:
        # the next holder writes its own time a moment after it has the lock
        self._since = math.inf
        self._lock.release()


class GroupCache:
    """The groups of this host; LVM runs only after a change.

    A change shows in the metadata header of a physical volume. LVM reads only
    the known devices of a group, since any other device may hang.

    :param read: returns LVM's report from some devices, or from all devices
        if it gets none.
    :param known: the devices of each group.
    """

    def __init__(
        self,
        read: collections.abc.Callable[[tuple[str, ...]], str],
        known: commands.KnownDevices,
    ) -> None:
        self._read_report = read
        self._known = known
        self._lock = threading.Lock()
        self._locks: dict[str, _GroupLock] = {}
        # groups with the headers of their devices
        self._groups: dict[str, tuple[report.Group, _Headers]] = {}
        self._probes: dict[str, probes.Probe[report.Group | None]] = {}
        self._search = probes.Probe(lambda: report.parse(read(())))

    def get(self, name: str) -> report.Group | None:
        """Return a group, None if it is absent.

        The call hangs with any device of the group, and with any device of
        the host while the group's devices are not known.

        :raises DiskHung: another call hangs already.
        """
        with self._lock:
            lock = self._locks.setdefault(name, _GroupLock(name))
        with lock:
            cached = self._groups.get(name)
            if cached is not None and all(
                before is not None and before == header(device)
                for device, before in cached[1].items()
            ):
                return cached[0]
            return self._read(name, self._known.get(name))

    def probe(self, name: str) -> probes.Probe[report.Group | None]:
        """Return the probe of a group, the same one for each name."""
        with self._lock:
            return self._probes.setdefault(
                name, probes.Probe(lambda: self.get(name))
            )

    def _read(
        self, name: str, devices: tuple[str, ...]
    ) -> report.Group | None:
        before = {device: header(device) for device in devices}
        group = None
        if any(before.values()):
            group = report.parse(self._read_report(devices)).get(name)
        if group is None or group.partial:
            # the group may have moved to other devices
            group = self._find(name)
        self._groups.pop(name, None)
        if group is not None:
            headers = {device: header(device) for device in group.devices}
            if headers == before:
                self._groups[name] = group, headers
        return group

    def _find(self, name: str) -> report.Group | None:
        """Search all devices of the host, whatever the number of callers."""
        number = self._search.request()
        while not self._search.wait(number, probes.HUNG_AFTER):
            pass
        groups = self._search.latest or {}
        # LVM reports no path for devices that are missing
        self._known.replace(
            {
                group.name: [
                    path for path in group.devices if path.startswith('/')
                ]
                for group in groups.values()
            }
        )
        return groups.get(name)


def header(device: str) -> bytes | None:
    """Return the header of a physical volume, which each change modifies.

    None if the metadata is elsewhere, or the device cannot be read.
    """
    try:
        block = probes.read_direct(device, _HEADER_AT, _BLOCK)[:_HEADER_SIZE]
    except OSError:
        return None
    # the magic follows a checksum
    return block if block[4:].startswith(_HEADER_MAGIC) else None


_cache = GroupCache(report.read, commands.KNOWN)


def find(uuid: str) -> report.Group | None:
    """Return the volume group of a disk, None if it is absent."""
    return _cache.get(naming.group_name(uuid))


def require(uuid: str) -> report.Group:
    """Return the volume group of a disk, which can be used.

    :raises DiskError: the group is absent or cannot be used.
    """
    group = find(uuid)
    if group is None:
        raise exception.DiskError(
            f'there is no volume group {naming.group_name(uuid)}'
        )
    if group.exported:
        raise exception.DiskError(
            f'{group.name}: its volume group is exported'
        )
    if group.partial:
        raise exception.DiskError(
            f'{group.name}: physical volumes of its volume group are missing'
        )
    return group


def run_unless_hung(
    uuid: str, work: collections.abc.Callable[[], _Result]
) -> _Result:
    """Run work on a volume group, as :func:`probes.run_unless_hung`."""
    probe = _cache.probe(naming.group_name(uuid))
    return probes.run_unless_hung(probe, f'disk {uuid}', work)
