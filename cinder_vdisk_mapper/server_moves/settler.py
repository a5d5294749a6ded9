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


"""Has the data of servers that have moved to this host follow them.

One process does so for each host, beside cinder-volume. It holds no plan: the
records of moves in Cinder's database tell what is due. So it may be ended and
started at any time. Copies that QEMU makes go on meanwhile.

The vdisks of a disk are copied one after the other, those of several disks
side by side.
"""

import collections
import collections.abc
import concurrent.futures
import dataclasses
import threading
import time
import uuid as uuid_

from cinder.volume import volume_utils
from oslo_log import log as logging

from cinder_vdisk_mapper.moves import guests
from cinder_vdisk_mapper.server_moves import at_rest
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import settle_attempt
from cinder_vdisk_mapper.server_moves import settle_move
from cinder_vdisk_mapper.server_moves import stale_moves
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.server_moves.destination import Destination
from cinder_vdisk_mapper.vdisks import naming
from nova_diskplacer import exception
from nova_diskplacer.disks import links
from nova_diskplacer.disks import remote
from nova_diskplacer.disks import settling
from nova_diskplacer.host import files
from nova_diskplacer.host import log_once
from nova_diskplacer.host import retry_logger

LOG = logging.getLogger(__name__)

# Seconds between two looks at the records, without any, and after an attempt
# that failed.
_PAUSE = 3.0
_IDLE_PAUSE = 15.0
_RETRY_PAUSE = 30.0

# Most seconds after attempts that failed, each twice as many as before.
_LONGEST_PAUSE = 600.0

# Copies that are under way, or wait for another host.
_THREADS = 64

# Seconds after which a state that has not changed is written again.
_WRITE_PAUSE = 60.0

_MB = 10**6
_MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits of copies.

    :param rate: MiB/s of each, 0 for no limit.
    :param share: percent of the throughput of the disk that it goes to.
    :param parallel: number of copies at a time.
    """

    rate: int = 0
    share: int = 100
    parallel: int = 1

    def rate_of(self, mbps: float) -> int:
        """Return MiB/s for a disk of a throughput in MB/s, 0 for no limit."""
        own = max(1, int(mbps * self.share / 100 * _MB / _MIB)) if mbps else 0
        return min(filter(None, (self.rate, own)), default=0)


class Settler:
    """Settles the data of servers that have moved to backends of this host.

    :param destinations: the backends, by their Cinder hosts.
    :param libvirt_uri: URI of libvirt.
    """

    def __init__(
        self,
        destinations: collections.abc.Mapping[str, Destination],
        libvirt_uri: str,
        limits: Limits,
        stopped: threading.Event,
    ) -> None:
        self._destinations = destinations
        self._libvirt_uri = libvirt_uri
        self._limits = limits
        self._stopped = stopped
        self._states: dict[str, settling.VDisk] = {}
        self._most: dict[str, int] = {}
        self._due: dict[str, float] = {}
        self._pauses: dict[str, float] = {}
        self._root_of: dict[str, str] = {}
        self._copied: dict[str, str] = {}
        self._stale = stale_moves.StaleMoves()
        self._written: dict[str, settling.Settling] = {}
        self._running: dict[str, concurrent.futures.Future[None]] = {}
        self._log = log_once.ChangeLogger(LOG)
        self._looking = retry_logger.RetryLogger(
            'Moves of servers are not settled', 'Moves of servers are settled'
        )

    def run(self) -> None:
        """Work until ``stopped`` is set.

        :raises DiskPlacerError: another process does so on this host.
        """
        names = ' '.join(sorted(self._destinations))
        lock = uuid_.uuid5(uuid_.NAMESPACE_URL, names)
        refusal = exception.DiskPlacerError(
            f'another "diskplacer-manage settle" settles the moves to {names}'
            ', and only one may'
        )
        with (
            files.sole(f'settle-{lock}', refusal),
            concurrent.futures.ThreadPoolExecutor(_THREADS, 'settle') as pool,
        ):
            while not self._stopped.is_set():
                self._looking.run(lambda: self.look(pool))
                self._stopped.wait(_PAUSE if self._states else _IDLE_PAUSE)

    def look(self, pool: concurrent.futures.Executor) -> None:
        """Begin what is due, and write the state.

        :raises DiskPlacerError: the database does not answer, or a disk root
            cannot be written to.
        """
        arriving = self._find(pool)
        self._running = {
            volume_id: future
            for volume_id, future in self._running.items()
            if not future.done()
        }
        for volume_id in (
            self._states.keys() - arriving.keys() - self._running.keys()
        ):
            del self._states[volume_id]
            self._due.pop(volume_id, None)
            self._pauses.pop(volume_id, None)
            self._most.pop(volume_id, None)
            self._root_of.pop(volume_id, None)
            self._copied.pop(volume_id, None)
            self._log.clear(volume_id)
        for volume_id in arriving.keys() & self._running.keys():
            self._look_at_source(arriving[volume_id][0], volume_id)
        for volume_id, (destination, vdisk) in arriving.items():
            self._keep_waiting(destination, vdisk.name)
            if volume_id in self._running:
                continue
            self._states.setdefault(volume_id, vdisk)
            self._change(volume_id, disk=vdisk.disk)
            backend = destination.backend
            self._root_of[volume_id] = backend.disk_root
            if self._due.get(
                volume_id, 0.0
            ) <= time.monotonic() and self._has_room(vdisk.disk):
                self._running[volume_id] = pool.submit(
                    self._settle, destination, vdisk
                )
        self._write()

    def _has_room(self, disk: str) -> bool:
        """Return whether a copy to a disk may begin.

        Copies that wait for another host keep no others back.

        :param disk: its UUID, '' if it is not known.
        """
        disks = [
            self._states[volume_id].disk
            for volume_id in self._running
            if self._states[volume_id].state != settling.AWAY
        ]
        return (
            bool(disk)
            and disk not in disks
            and len(disks) < self._limits.parallel
            and len(self._running) < _THREADS
        )

    def _find(
        self, pool: concurrent.futures.Executor
    ) -> dict[str, tuple[Destination, settling.VDisk]]:
        """Return the vdisks that are to follow their servers, by volume.

        Moves that nobody uses any more are undone meanwhile.
        """
        arriving = {}
        holders: dict[str, dict[str, list[str]]] = {}
        volumes = store.arriving_volumes(self._destinations)
        self._stale.keep(volumes)
        for volume_id in volumes:
            try:
                move = store.read(volume_id)
                volume = store.fresh(volume_id)
                destination = self._destinations.get(move.to) if move else None
                if move is None or destination is None:
                    continue
                if store.holder(volume) != move.to:
                    self._stale.look(pool, destination, volume, move)
            except exception.DiskPlacerError as error:
                self._log.log(volume_id, 'Volume %s: %s', volume_id, error)
                continue
            if store.holder(volume) != move.to and move.phase not in (
                record.ATTACHED,
                record.LEFT,
                record.DECIDING,
            ):
                continue
            name = naming.volume(volume)
            if move.to not in holders:
                holders[move.to] = _holders(destination)
            vdisk = settling.VDisk(
                volume_id,
                name,
                move.server,
                volume_utils.extract_host(move.source, 'host'),
                self._disk_of(
                    destination, name, holders[move.to].get(name, [])
                ),
                settling.WAITING,
                time.time(),
            )
            arriving[volume_id] = destination, vdisk
        return arriving

    def _disk_of(
        self, destination: Destination, name: str, disks: list[str]
    ) -> str:
        """Return the disk here of a vdisk, '' if it is not known.

        :param disks: those that hold it.
        """
        try:
            linked = destination.backend.linked_disk(name)
            if linked not in (None, links.REMOTE):
                return linked or ''
            reason = f'its targets are on disks {", ".join(disks) or "none"}'
        except exception.DiskPlacerError as error:
            disks, reason = [], str(error)
        if len(disks) == 1:
            return disks[0]
        self._log.log(name, '%s does not follow its server: %s', name, reason)
        return ''

    def _keep_waiting(self, destination: Destination, name: str) -> None:
        """Have a server see no error while the other host is away."""
        root = destination.backend.disk_root
        try:
            if device := links.remote_device(root, name):
                remote.keep_waiting(device)
        except exception.DiskPlacerError as error:
            self._log.log(
                (name, 'session'), '%s may see errors of its disk when the '
                'other host is away: %s', name, error,
            )  # fmt: skip

    def _settle(self, destination: Destination, vdisk: settling.VDisk) -> None:
        """Make one attempt; it raises no error."""
        volume_id = vdisk.volume
        whole = self._copied.pop(volume_id, '')
        try:
            disk = destination.backend.disk(vdisk.disk)
            rate = self._limits.rate_of(disk.mbps)
            move = settle_move.SettleMove(
                destination,
                guests.Guests(self._libvirt_uri, rate),
                volume_id,
                vdisk.name,
                vdisk.server,
                vdisk.disk,
                lambda done, total: self._progress(volume_id, done, total),
                self._stopped.is_set,
                whole,
            )
            settle_attempt.settle(move)
        except settle_move.Stopped:
            return
        except at_rest.Waits as error:
            self._copied[volume_id] = move.whole
            state, reason = settling.WAITING, str(error)
            LOG.debug('%s waits: %s', vdisk.name, error)
        except remote.Away as error:
            state, reason = settling.AWAY, str(error)
        except exception.DiskPlacerError as error:
            state, reason = settling.FAILED, str(error)
        except Exception as error:
            # of Cinder or its database: the next attempt may succeed
            LOG.exception('%s does not follow its server', vdisk.name)
            state, reason = settling.FAILED, f'{type(error).__name__}: {error}'
        else:
            state, reason = settling.WAITING, ''
        pause = _RETRY_PAUSE
        if state == settling.FAILED:
            last = self._pauses.get(volume_id, pause / 2)
            pause = min(2 * last, _LONGEST_PAUSE)
        self._pauses[volume_id] = pause
        self._due[volume_id] = time.monotonic() + pause
        self._change(volume_id, state=state, reason=reason)
        if state in (settling.AWAY, settling.FAILED):
            self._log.log(
                volume_id, '%s has not followed its server: %s', vdisk.name,
                reason,
            )  # fmt: skip

    def _progress(self, volume_id: str, done: int, total: int) -> None:
        before, now = self._states.get(volume_id), time.time()
        if before is None or (
            # it waits for the other host
            before.state == settling.AWAY
            and (before.done, before.total) == (done, total)
        ):
            return
        if before.state != settling.COPYING or done < before.done:
            self._change(
                volume_id,
                state=settling.COPYING,
                reason='',
                began=now,
                first=done,
            )
        self._change(volume_id, done=done, total=total)
        if done > self._most.get(volume_id, 0):
            self._most[volume_id] = done
            self._change(volume_id, moved=now)
            self._log.clear(volume_id)

    def _look_at_source(
        self, destination: Destination, volume_id: str
    ) -> None:
        """See if a copy that is under way waits for the other host."""
        vdisk = self._states[volume_id]
        root = destination.backend.disk_root
        try:
            if device := links.remote_device(root, vdisk.name):
                remote.check_there(device)
        except exception.DiskPlacerError as error:
            self._change(volume_id, state=settling.AWAY, reason=str(error))
            self._log.log(volume_id, '%s waits: %s', vdisk.name, error)
        else:
            if vdisk.state == settling.AWAY:
                self._change(volume_id, state=settling.COPYING, reason='')
                self._log.clear(volume_id)

    def _change(self, volume_id: str, **fields: object) -> None:
        # of one volume, one thread changes these at a time
        if before := self._states.get(volume_id):
            self._states[volume_id] = dataclasses.replace(
                before,
                **fields,  # type: ignore[arg-type]
            )

    def _write(self) -> None:
        """Write the state of each disk root, if it has changed or is old."""
        now = time.time()
        for root in sorted(self._roots()):
            vdisks = tuple(
                vdisk
                for volume_id, vdisk in sorted(self._states.items())
                if self._root_of.get(volume_id) == root
            )
            last = self._written.get(root)
            if (
                last is None
                or last.vdisks != vdisks
                or now - last.time > _WRITE_PAUSE
            ):
                state = settling.Settling(now, vdisks)
                settling.FILE.write(root, state)
                self._written[root] = state

    def _roots(self) -> set[str]:
        return {
            destination.backend.disk_root
            for destination in self._destinations.values()
        }


def _holders(destination: Destination) -> dict[str, list[str]]:
    """Return the disks of a backend that hold a vdisk, by its name."""
    holders = collections.defaultdict(list)
    for disk in destination.backend.disks():
        for vdisk in disk.vdisks:
            holders[vdisk.name].append(disk.uuid)
    return holders
