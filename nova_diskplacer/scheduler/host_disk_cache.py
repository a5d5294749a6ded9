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

"""Disks of all hosts, as the agents report them, in NumPy arrays.

One cache serves all threads of a scheduler worker. Its lock is held for
array work only, never over I/O.

A choice of disks is *pending* for ``pending_claims.SECONDS``, or until its
claim has failed: see ``pending_choices``.
"""

import collections
import collections.abc
import itertools
import threading
import time
import typing

import numpy as np

from nova_diskplacer import constants
from nova_diskplacer.mapping import base
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.scheduler import pending_choices
from nova_diskplacer.scheduler import pending_claims
from nova_diskplacer.scheduler.plan import MEDIA
from nova_diskplacer.scheduler.plan import NO_NODE
from nova_diskplacer.scheduler.plan import BoundVDisk
from nova_diskplacer.scheduler.plan import FreeCapacity

#: Time in seconds after a host's last report at which its vdisks are ignored.
FORGET_SECONDS = 3600.0

#: Interval in seconds between queries for room in the whole cloud.
ROOM_QUERY_SECONDS = 1.0

# All figures are in one array, so that one ``take`` copies those of many
# hosts. The reported ones come first.
_AMOUNTS = ('total_gb', 'reserved_gb', 'used_gb', 'total_mbps', 'used_mbps')
_REPORTED = (*_AMOUNTS, 'used_vdisks', 'medium', 'numa_node', 'can_stripe')
_UNITS = pending_choices.UNITS
_FIELDS = (*_REPORTED, 'pressure', *(f'pending_{unit}' for unit in _UNITS))
_INDEX = {name: index for index, name in enumerate(_FIELDS)}
_MEDIUM, _PRESSURE = _INDEX['medium'], _INDEX['pressure']
# what is used of a disk, and what is used at least, with pending choices
_USED = [_INDEX[f'used_{unit}'] for unit in _UNITS]
_PENDING = [_INDEX[f'pending_{unit}'] for unit in _UNITS]


class HostDiskCache:
    """The disks of all hosts.

    Methods take and return *rows*, the indices of hosts in the arrays.

    :param report_timeout: age in seconds at which a report expires.
    :param clock: monotonic time in seconds.
    :ivar selection_lock: held from ``free_capacity`` to ``add_pending``, so
        that no other thread chooses the same disks in between.
    :ivar pending_claims: the claims that pending choices are for.
    """

    def __init__(
        self,
        report_timeout: float,
        clock: collections.abc.Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout = report_timeout
        self._clock = clock
        self._lock = threading.Lock()
        self.selection_lock = threading.Lock()
        self.pending_claims = pending_claims.PendingClaims(clock)
        self._next_room_query = -np.inf
        self._rows: dict[str, int] = {}
        self._disks: list[tuple[str, ...]] = []
        self._volumes: list[dict[str, list[BoundVDisk]]] = []
        # GiB by disk and server
        self._taken: list[dict[str, dict[str | None, int]]] = []
        self._digests: list[str] = []
        self._hosts: list[str] = []
        # rows whose last report is older than the cache, and those of them
        # whose agents have not been requested to report since
        self._outdated: set[int] = set()
        self._not_requested: set[int] = set()
        # the vdisks of a volume by the provider of the host that reports them:
        # a striped vdisk is on several disks of a host, and a volume that
        # moves is on two hosts for a while
        self._by_volume: dict[str, dict[str, list[BoundVDisk]]] = {}
        self._reported_at = np.zeros(0)
        self._cache_mode = np.zeros(0, dtype='U16')
        # figures (F, H, D) of fields, hosts and disks
        self._figures = np.zeros((len(_FIELDS), 0, 0), dtype=np.int32)
        self._pending = pending_choices.PendingChoices(clock)

    def __len__(self) -> int:
        return len(self._rows)

    def update(self, report: dict[str, typing.Any]) -> None:
        """Replace a host's disks by an agent's report."""
        provider = report['provider']
        disks = sorted(report['disks'], key=lambda disk: disk['uuid'])
        uuids = tuple(disk['uuid'] for disk in disks)
        vdisks: dict[str, list[BoundVDisk]] = collections.defaultdict(list)
        taken: dict[str, dict[str | None, int]] = {}
        for disk in disks:
            sizes = taken[disk['uuid']] = collections.Counter[str | None]()
            for vdisk in disk['vdisks']:
                sizes[vdisk['server_id']] += vdisk['size_gb']
                if not vdisk.get('is_snapshot'):
                    vdisks[vdisk['volume_id']].append(
                        BoundVDisk(
                            vdisk['volume_id'],
                            provider,
                            disk['uuid'],
                            vdisk['server_id'],
                            vdisk['size_gb'],
                            report['host'],
                        )
                    )
        figures = np.zeros((_PRESSURE + 1, len(disks)), dtype=np.int32)
        for column, disk in enumerate(disks):
            node = disk['numa_node']
            figures[:, column] = (
                *(disk[name] for name in _AMOUNTS),
                sum(not vdisk.get('is_snapshot') for vdisk in disk['vdisks']),
                MEDIA[disk['medium']] if disk['health'] == constants.OK else 0,
                NO_NODE if node is None else node,
                disk.get('can_stripe', False),
                disk.get('pressure', 0),
            )
        with self._lock:
            row = self._row_of(provider, len(disks))
            if self._disks[row] != uuids:
                self._figures[:, row] = 0
                self._pending.clear(row)
                self._disks[row] = uuids
            self._figures[: len(figures), row, : len(disks)] = figures
            self._cache_mode[row] = report.get('cache_mode') or ''
            self._reported_at[row] = self._clock()
            self._digests[row] = report.get('digest', '')
            self._hosts[row] = report['host']
            self._outdated.discard(row)
            self._not_requested.discard(row)
            for volume_id in self._volumes[row].keys() - vdisks.keys():
                reported = self._by_volume[volume_id]
                del reported[provider]
                if not reported:
                    del self._by_volume[volume_id]
            for volume_id, pieces in vdisks.items():
                self._by_volume.setdefault(volume_id, {})[provider] = pieces
            self._volumes[row] = vdisks
            self._taken[row] = taken

    def confirm(self, provider: str, digest: str) -> bool:
        """Count a host's last report as fresh: a heartbeat has confirmed it.

        :param digest: digest of the confirmed report.
        :returns: False if the host must send a new report: the confirmed one
            is not in the cache, or is older than the cache.
        """
        with self._lock:
            row = self._rows.get(provider)
            if row is None or self._digests[row] != digest:
                return False
            self._reported_at[row] = self._clock()
            return row not in self._outdated

    def hosts_to_renew(self) -> list[str]:
        """Return the hosts whose last reports are older than the cache.

        The cache has newer choices of disks or figures of Placement. Each host
        is returned once after its first change. Hosts whose agents send no
        heartbeats are left out: they report often.
        """
        with self._lock:
            rows, self._not_requested = self._not_requested, set()
            return [self._hosts[row] for row in rows if self._digests[row]]

    def _mark_outdated(self, row: int) -> None:
        self._outdated.add(row)
        self._not_requested.add(row)

    def _row_of(self, provider: str, disks: int) -> int:
        """Return a provider's row; the arrays grow as needed."""
        row = self._rows.get(provider, len(self._rows))
        _, height, width = self._figures.shape
        if row >= height or disks > width:
            shape = (
                max(height, 2 * row, 64) if row >= height else height,
                max(disks, width),
            )
            more = shape[0] - height
            pad = (0, more), (0, shape[1] - width)
            self._figures = np.pad(self._figures, ((0, 0), *pad))
            self._reported_at = np.pad(
                self._reported_at, (0, more), constant_values=-np.inf
            )
            self._cache_mode = np.pad(
                self._cache_mode, (0, more), constant_values=''
            )
        if row == len(self._disks):
            self._disks.append(())
            self._volumes.append({})
            self._taken.append({})
            self._digests.append('')
            self._hosts.append('')
        # rows() takes no lock, so the arrays come before the row
        self._rows[provider] = row
        return row

    def rows(self, providers: collections.abc.Iterable[str]) -> base.Ints:
        """Return each provider's row, -1 where there is no fresh report."""
        rows = np.fromiter(
            map(self._rows.get, providers, itertools.repeat(-1)), np.intp
        )
        reported_at = self._reported_at
        if len(reported_at):
            rows[reported_at[rows] < self._clock() - self._timeout] = -1
        return rows

    def free_capacity(
        self, rows: base.Ints, *, include_pending: bool = True
    ) -> FreeCapacity:
        """Return a copy of the free capacity of hosts.

        :param rows: as returned by ``rows``, without -1.
        :param include_pending: count pending choices as used.
        """
        with self._lock:
            figures = self._figures[: len(_REPORTED)].take(rows, axis=1)
            if include_pending:
                self._count_pending(figures, rows)
            disks = list(map(self._disks.__getitem__, rows.tolist()))
            cache_mode = self._cache_mode.take(rows)
        total_gb, reserved_gb, used_gb, total_mbps, used_mbps = figures[:5]
        committed = used_gb
        committed += reserved_gb
        return FreeCapacity(
            total_gb=total_gb,
            free_gb=total_gb - committed,
            total_mbps=total_mbps,
            free_mbps=total_mbps - used_mbps,
            vdisks=figures[_INDEX['used_vdisks']],
            medium=figures[_MEDIUM],
            load=committed / np.maximum(total_gb, 1),
            reserved_gb=reserved_gb,
            numa_node=figures[_INDEX['numa_node']],
            can_stripe=figures[_INDEX['can_stripe']] > 0,
            disks=disks,
            cache_mode=cache_mode,
        )

    def _count_pending(self, figures: base.Ints, rows: base.Ints) -> None:
        """Count pending choices as used in reported figures, (F, H, D)."""
        self._end_pending()
        chosen = self._pending.rows()
        if not chosen:
            return
        # they are few of the fleet's
        has_pending = np.zeros(self._figures.shape[1], dtype=bool)
        has_pending[chosen] = True
        at = np.flatnonzero(has_pending.take(rows))
        for used, pending in zip(_USED, _PENDING, strict=True):
            most = self._figures[pending].take(rows[at], axis=0)
            figures[used, at] = np.maximum(figures[used, at], most)

    def _end_pending(self) -> None:
        """End the pending choices whose time is over."""
        for row in self._pending.expire(lambda row: self._figures[_USED, row]):
            self._count_choices(row)

    def _count_choices(self, row: int) -> None:
        """Count the pending choices on a host anew."""
        used = self._pending.used(row, self._figures.shape[2])
        self._figures[_PENDING, row] = used

    def pressure(
        self, rows: base.Ints, counts: base.Ints | None = None
    ) -> base.Floats:
        """Return the mean pressure on each host's disks, 0 to 1, (H,).

        :param rows: as returned by ``rows``, without -1.
        :param counts: vdisks on each disk, (H, D); a disk counts once for
            each. On a host without vdisks all usable disks count once.
        """
        with self._lock:
            pressure = self._figures[_PRESSURE].take(rows, axis=0)
            if not pressure.any():
                return np.zeros(len(rows))
            share = np.zeros_like(pressure)
            if counts is None:
                share[:] = self._figures[_MEDIUM].take(rows, axis=0) > 0
            else:
                # a host may have more disks now than at the choice
                share[:, : counts.shape[1]] = counts
                rest = np.flatnonzero(np.einsum('hd->h', counts) == 0)
                share[rest] = self._figures[_MEDIUM, rows[rest]] > 0
        # it takes half of the time of sum()
        per_cent = np.einsum('hd,hd->h', pressure, share)
        disks = np.einsum('hd->h', share)
        mean: base.Floats = per_cent / np.maximum(disks, 1) / 100
        return mean

    def update_from_placement(
        self,
        row: int,
        capacities: collections.abc.Mapping[
            str, placement_client.DiskCapacity
        ],
    ) -> None:
        """Replace a host's figures by those of Placement.

        :param capacities: of all its disks, none if no disk has a free GiB.
            A disk that is missing has left the host, and counts as full.
        """
        with self._lock:
            host = self._figures[:, row]
            before = host.copy()
            for column, disk in enumerate(self._disks[row]):
                total = host[_INDEX['total_gb'], column]
                capacity = capacities.get(disk)
                if capacity is None:
                    reserved = host[_INDEX['reserved_gb'], column]
                    host[_INDEX['used_gb'], column] = max(total - reserved, 0)
                    continue
                for name, value in (
                    ('reserved_gb', total - capacity.capacity_gb),
                    ('used_gb', capacity.used_gb),
                    ('total_mbps', capacity.capacity_mbps),
                    ('used_mbps', capacity.used_mbps),
                ):
                    host[_INDEX[name], column] = value
            if not np.array_equal(host, before):
                self._mark_outdated(row)

    def add_pending(
        self, row: int, counts: base.Ints, vdisk_gb: int, vdisk_mbps: int
    ) -> pending_choices.PendingChoice:
        """Count a choice as used while it is pending.

        :param counts: vdisks on each disk of the host, (D,).
        """
        with self._lock:
            self._mark_outdated(row)
            self._end_pending()
            taken = np.zeros(self._figures.shape[2], dtype=np.int32)
            taken[: len(counts)] = counts
            amounts = np.outer((vdisk_gb, vdisk_mbps, 1), taken)
            used = self._figures[_USED, row]
            choice = self._pending.add(row, amounts, used)
            self._count_choices(row)
        return choice

    def release_pending(self, choice: pending_choices.PendingChoice) -> None:
        """Release a pending choice that was not claimed."""
        with self._lock:
            self._mark_outdated(choice.row)
            if self._pending.remove(choice):
                self._count_choices(choice.row)

    @property
    def has_pending(self) -> bool:
        """Return whether there may be pending choices."""
        return self._pending.any()

    def providers(self) -> set[str]:
        """Return the providers of all hosts that have ever reported."""
        with self._lock:
            return set(self._rows)

    def knows(self, host: str) -> bool:
        """Return whether a host of that name has ever reported."""
        with self._lock:
            return host in self._hosts

    def allow_room_query(self) -> bool:
        """Return whether a query for room in the whole cloud is due now."""
        now = self._clock()
        with self._lock:
            if now < self._next_room_query:
                return False
            self._next_room_query = now + ROOM_QUERY_SECONDS
            return True

    def bound_vdisks(
        self, volume_ids: collections.abc.Iterable[str]
    ) -> list[BoundVDisk]:
        """Return the vdisks of those volumes that are bound to a disk.

        Two hosts may report one volume: Cinder has moved it, and its vdisk on
        the former host is not deleted yet. Those of hosts that have not
        reported for FORGET_SECONDS are left out: they may have moved.
        """
        oldest = self._clock() - max(FORGET_SECONDS, self._timeout)
        with self._lock:
            vdisks = [
                vdisk
                for volume_id in volume_ids
                for pieces in self._by_volume.get(volume_id, {}).values()
                for vdisk in pieces
            ]
            return [
                vdisk
                for vdisk in vdisks
                if self._reported_at[self._rows[vdisk.provider]] >= oldest
            ]

    def vdisks_of(self, provider: str, server: str) -> list[BoundVDisk]:
        """Return the vdisks on a host that were bound for a server."""
        with self._lock:
            row = self._rows.get(provider)
            if row is None:
                return []
            return [
                vdisk
                for vdisks in self._volumes[row].values()
                for vdisk in vdisks
                if vdisk.server_id == server
            ]

    def taken_gb(self, provider: str, disk: str) -> dict[str | None, int]:
        """Return the GiB of a disk's vdisks and snapshots, by server."""
        with self._lock:
            row = self._rows.get(provider)
            return {} if row is None else dict(self._taken[row].get(disk, {}))
