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

"""The disks of all hosts, as the agents report them, in NumPy arrays.

One fleet serves all threads of a scheduler worker. Its lock is held for
array work only, never over I/O.
"""

import collections.abc
import dataclasses
import threading
import time
import typing

import numpy as np
import numpy.typing as npt

from nova_diskplacer import flavor
from nova_diskplacer.mapping import base
from nova_diskplacer.scheduler import claims
from nova_diskplacer.scheduler import rate_limit

# How long a choice made here counts as used while neither a report nor a
# look at Placement shows it, in seconds. It ends early when one does.
HOLD_SECONDS = claims.SECONDS

#: Age in seconds at which a host's last word on its vdisks is forgotten.
FORGET_SECONDS = 3600.0

#: Time in seconds between looks for room in the whole cloud.
LOOK_SECONDS = 1.0

_MEDIA = {flavor.HDD: 1, flavor.SSD: 2}

# One array for all, so that a view is one take. What is seen comes first: a
# view is made of that, and of what is held where anything is.
_SEEN = (
    'total_gb',
    'reserved_gb',
    'used_gb',
    'total_mbps',
    'used_mbps',
    'medium',
    'numa_node',
)
_FIELDS = (*_SEEN, 'held_gb', 'held_mbps', 'pressure')
_AT = {name: index for index, name in enumerate(_FIELDS)}
_PRESSURE = _AT['pressure']

#: The NUMA node of a disk that does not tell.
NO_NODE = -1


@dataclasses.dataclass(frozen=True)
class BoundVDisk:
    """A vdisk that has bytes on a disk; ``size_gb`` in GiB."""

    volume_id: str
    provider: str
    disk: str
    server_id: str | None
    size_gb: int
    host: str


@dataclasses.dataclass(frozen=True)
class View:
    """What is free on the disks of H hosts; arrays of shape (H, D).

    ``free_gb`` in GiB, ``free_mbps`` in MB/s; ``medium`` is 0 where there
    is no disk that may be used. ``load`` is the committed share of the
    capacity, 0 to 1. ``numa_node`` is NO_NODE where it is not known. ``disks``
    holds each host's disk UUIDs in the order of the columns. ``cache_mode``
    (H,) is empty where it is not known.
    """

    free_gb: base.Ints
    free_mbps: base.Ints
    medium: base.Ints
    load: base.Floats
    reserved_gb: base.Ints
    numa_node: base.Ints
    disks: list[tuple[str, ...]]
    cache_mode: npt.NDArray[np.str_]

    def take(self, rows: base.Ints) -> 'View':
        """Return the view of some of its hosts."""
        arrays = {
            field.name: getattr(self, field.name)[rows]
            for field in dataclasses.fields(self)
            if field.name != 'disks'
        }
        disks = [self.disks[row] for row in rows.tolist()]
        return View(**arrays, disks=disks)

    def arrange(self, order: base.Ints) -> 'View':
        """Return the view of one host with its disks in another order.

        :param order: each column once, (D,), those without a disk last.
        """
        (disks,) = self.disks
        arrays = {
            field.name: getattr(self, field.name)[:, order]
            for field in dataclasses.fields(self)
            if field.name not in ('disks', 'cache_mode')
        }
        return View(
            **arrays,
            disks=[tuple(disks[at] for at in order[: len(disks)].tolist())],
            cache_mode=self.cache_mode,
        )

    def slots(self, request: flavor.VDiskRequest) -> base.Ints:
        """How many of the request's vdisks each disk has room for, (H, D)."""
        slots = self.free_gb // request.vdisk_gb
        if request.vdisk_mbps:
            np.minimum(slots, self.free_mbps // request.vdisk_mbps, out=slots)
        usable = self.medium > 0
        if request.media != flavor.ANY:
            usable = self.medium == _MEDIA[request.media]
        return np.where(usable & (slots > 0), slots, 0)


class Capacity(typing.NamedTuple):
    """A disk as Placement sees it: what may be claimed and what is."""

    capacity_gb: int
    used_gb: int
    capacity_mbps: int
    used_mbps: int


class Fleet:
    """All hosts' disks.

    :param report_timeout: age in seconds at which a report expires.
    :param clock: monotonic time in seconds.
    :ivar choosing: lock to have while choosing from a ``view`` and calling
        ``hold``, so that no other thread chooses the same in between.
    :ivar under_way: the claims that what is held is for.
    :ivar looks_for_room: the pace of looks for room that no report shows.
    """

    def __init__(
        self,
        report_timeout: float,
        clock: collections.abc.Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout = report_timeout
        self._clock = clock
        self._lock = threading.Lock()
        self.choosing = threading.Lock()
        self.under_way = claims.UnderWay(clock)
        self.looks_for_room = rate_limit.Pace(LOOK_SECONDS, clock)
        self._rows: dict[str, int] = {}
        self._disks: list[tuple[str, ...]] = []
        self._volumes: list[dict[str, BoundVDisk]] = []
        self._digests: list[str] = []
        self._hosts: list[str] = []
        # rows of which more is known here than was reported, and those of
        # them whose agents were not asked to look, too
        self._ahead: set[int] = set()
        self._unasked: set[int] = set()
        self._by_volume: dict[str, BoundVDisk] = {}
        self._seen = np.zeros(0)
        self._cache_mode = np.zeros(0, dtype='U16')
        # figures (F, H, D) of fields, hosts and disks
        self._a = np.zeros((len(_FIELDS), 0, 0), dtype=np.int32)
        self._held_until = np.zeros((0, 0))
        self._last_hold = -np.inf

    def __len__(self) -> int:
        return len(self._rows)

    def update(self, report: dict[str, typing.Any]) -> None:
        """Take in an agent's report (see ``nova_diskplacer.reports``)."""
        provider = report['provider']
        disks = sorted(report['disks'], key=lambda disk: disk['uuid'])
        uuids = tuple(disk['uuid'] for disk in disks)
        vdisks = {
            vdisk['volume_id']: BoundVDisk(
                vdisk['volume_id'],
                provider,
                disk['uuid'],
                vdisk['server_id'],
                vdisk['size_gb'],
                report['host'],
            )
            for disk in disks
            for vdisk in disk['vdisks']
            if not vdisk.get('is_snapshot')
        }
        figures = np.zeros((len(_SEEN), len(disks)), dtype=np.int32)
        for column, disk in enumerate(disks):
            node = disk['numa_node']
            figures[:, column] = (
                disk['total_gb'],
                disk['reserved_gb'],
                disk['used_gb'],
                disk['total_mbps'],
                disk['used_mbps'],
                _MEDIA[disk['medium']] if disk['health'] == 'ok' else 0,
                NO_NODE if node is None else node,
            )
        with self._lock:
            row = self._row(provider, len(disks))
            if self._disks[row] != uuids:
                self._a[:, row] = 0
                self._held_until[row] = 0
                self._disks[row] = uuids
            self._a[: len(_SEEN), row, : len(disks)] = figures
            self._a[_PRESSURE, row, : len(disks)] = [
                disk.get('pressure', 0) for disk in disks
            ]
            self._cache_mode[row] = report.get('cache_mode') or ''
            self._seen[row] = self._clock()
            self._digests[row] = report.get('digest', '')
            self._hosts[row] = report['host']
            self._ahead.discard(row)
            self._unasked.discard(row)
            for volume_id in self._volumes[row].keys() - vdisks.keys():
                # it may have moved and been reported from there already
                known = self._by_volume.get(volume_id)
                if known is not None and known.provider == provider:
                    del self._by_volume[volume_id]
            self._volumes[row] = vdisks
            self._by_volume.update(vdisks)

    def confirm(self, provider: str, digest: str) -> bool:
        """Take in a heartbeat: the report with that digest is still true.

        :returns: False if the host should report anew: that report is not
            known, or something was chosen or looked up here since.
        """
        with self._lock:
            row = self._rows.get(provider)
            if row is None or self._digests[row] != digest:
                return False
            self._seen[row] = self._clock()
            return row not in self._ahead

    def ahead(self) -> list[str]:
        """Return the hosts that should look at Placement and report.

        Something was chosen or looked up here that their reports do not say.
        Each is returned once for it; the next heartbeat tells again. Those
        whose agents send no heartbeats are left out: they report often.
        """
        with self._lock:
            rows, self._unasked = self._unasked, set()
            return [self._hosts[row] for row in rows if self._digests[row]]

    def _get_ahead(self, row: int) -> None:
        self._ahead.add(row)
        self._unasked.add(row)

    def _row(self, provider: str, disks: int) -> int:
        row = self._rows.get(provider, len(self._rows))
        _, height, width = self._a.shape
        if row >= height or disks > width:
            shape = (
                max(height, 2 * row, 64) if row >= height else height,
                max(disks, width),
            )
            grown = np.zeros((len(_FIELDS), *shape), self._a.dtype)
            grown[:, :height, :width] = self._a
            self._a = grown
            held_until = np.zeros(shape)
            held_until[:height, :width] = self._held_until
            self._held_until = held_until
            seen = np.full(shape[0], -np.inf)
            seen[:height] = self._seen
            self._seen = seen
            self._cache_mode = np.concatenate(
                [
                    self._cache_mode,
                    np.zeros(shape[0] - height, self._cache_mode.dtype),
                ]
            )
        if row == len(self._disks):
            self._disks.append(())
            self._volumes.append({})
            self._digests.append('')
            self._hosts.append('')
        # rows() takes no lock: a row is published when its arrays are there
        self._rows[provider] = row
        return row

    def rows(self, providers: collections.abc.Iterable[str]) -> base.Ints:
        """Return each provider's row, -1 where no fresh report is known."""
        get = self._rows.get
        found = [get(uuid, -1) for uuid in providers]
        rows = np.array(found, dtype=np.intp)
        seen = self._seen
        if len(seen):
            rows[seen[rows] < self._clock() - self._timeout] = -1
        return rows

    def view(self, rows: base.Ints, *, holds: bool = True) -> View:
        """Return a copy of what is free on the hosts of ``rows``.

        :param rows: as returned by ``rows``, without -1.
        :param holds: count what was chosen here a moment ago as used.
        """
        with self._lock:
            seen = self._a[: len(_SEEN)].take(rows, axis=1)
            if holds:
                self._count_held(seen, rows)
            disks = [self._disks[row] for row in rows.tolist()]
            cache_mode = self._cache_mode.take(rows)
        total_gb, reserved_gb, used_gb, total_mbps, used_mbps = seen[:5]
        committed = used_gb
        committed += reserved_gb
        free_gb = total_gb - committed
        total_mbps -= used_mbps
        return View(
            free_gb=free_gb,
            free_mbps=total_mbps,
            medium=seen[_AT['medium']],
            load=committed / np.maximum(total_gb, 1),
            reserved_gb=reserved_gb,
            numa_node=seen[_AT['numa_node']],
            disks=disks,
            cache_mode=cache_mode,
        )

    def _count_held(self, seen: base.Ints, rows: base.Ints) -> None:
        """Count what was chosen here a moment ago as used.

        :param seen: what is seen of the hosts of rows, (F, H, D).
        """
        if not self.is_holding:
            return
        held = self._held_until.take(rows, axis=0) > self._clock()
        if not held.any():
            return
        for unit in ('gb', 'mbps'):
            used = seen[_AT[f'used_{unit}']]
            most = self._a[_AT[f'held_{unit}']].take(rows, axis=0)
            np.maximum(used, most, out=used, where=held)

    def pressure(
        self, rows: base.Ints, counts: base.Ints | None = None
    ) -> base.Floats:
        """Return the mean pressure on disks of hosts, 0 to 1 (H,).

        :param rows: as returned by ``rows``, without -1.
        :param counts: vdisks on each disk, (H, D), each of which counts for
            its disk. Where there are none all usable disks count.
        """
        with self._lock:
            pressure = self._a[_PRESSURE].take(rows, axis=0)
            if not pressure.any():
                return np.zeros(len(rows))
            medium = self._a[_AT['medium']].take(rows, axis=0)
            share = (medium > 0).astype(np.int32)
        if counts is not None:
            chosen = counts.any(axis=1)
            # there may be hosts with more disks since the choice was made
            share[chosen] = 0
            share[chosen, : counts.shape[1]] = counts[chosen]
        per_cent = (pressure * share).sum(axis=1)
        mean: base.Floats = per_cent / np.maximum(share.sum(axis=1), 1) / 100
        return mean

    def refresh(
        self, capacities: collections.abc.Mapping[str, Capacity], row: int
    ) -> None:
        """Take in what Placement says of the disks of the host of ``row``."""
        with self._lock:
            host = self._a[:, row]
            for column, disk in enumerate(self._disks[row]):
                seen = capacities.get(disk)
                if seen is None:
                    continue
                total = host[_AT['total_gb'], column]
                for name, value in (
                    ('reserved_gb', total - seen.capacity_gb),
                    ('used_gb', seen.used_gb),
                    ('total_mbps', seen.capacity_mbps),
                    ('used_mbps', seen.used_mbps),
                ):
                    if host[_AT[name], column] != value:
                        host[_AT[name], column] = value
                        self._get_ahead(row)

    def hold(
        self, row: int, counts: base.Ints, vdisk_gb: int, vdisk_mbps: int
    ) -> None:
        """Count a choice as used until it can be seen, or HOLD_SECONDS.

        :param counts: vdisks on each disk of the host, (D,); negative to
            let go of a choice that was not claimed.
        """
        now = self._clock()
        with self._lock:
            self._get_ahead(row)
            host, until = self._a[:, row], self._held_until[row]
            for column in np.flatnonzero(counts[: len(until)]):
                for unit, each in (('gb', vdisk_gb), ('mbps', vdisk_mbps)):
                    used = host[_AT[f'used_{unit}'], column]
                    held = _AT[f'held_{unit}'], column
                    if until[column] > now:
                        used = max(used, host[held])
                    host[held] = used + counts[column] * each
                until[column] = self._last_hold = now + HOLD_SECONDS

    @property
    def is_holding(self) -> bool:
        """Tell whether anything may be held."""
        return self._last_hold > self._clock()

    def providers(self) -> set[str]:
        """Return the providers of all hosts that have ever reported."""
        with self._lock:
            return set(self._rows)

    def bound(
        self, volume_ids: collections.abc.Iterable[str]
    ) -> list[BoundVDisk]:
        """Return those of the volumes that are vdisks with a place.

        Without those on hosts that have not reported for FORGET_SECONDS:
        they may be elsewhere by now.
        """
        oldest = self._clock() - max(FORGET_SECONDS, self._timeout)
        with self._lock:
            vdisks = [
                self._by_volume[volume_id]
                for volume_id in volume_ids
                if volume_id in self._by_volume
            ]
            return [
                vdisk
                for vdisk in vdisks
                if self._seen[self._rows[vdisk.provider]] >= oldest
            ]
