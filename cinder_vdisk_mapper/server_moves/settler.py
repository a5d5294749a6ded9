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

import collections.abc
import concurrent.futures
import dataclasses
import threading
import time
import uuid as uuid_

from oslo_log import log as logging

from cinder_vdisk_mapper.moves import guests
from cinder_vdisk_mapper.server_moves import arrivals
from cinder_vdisk_mapper.server_moves import at_rest
from cinder_vdisk_mapper.server_moves import settle_attempt
from cinder_vdisk_mapper.server_moves import settle_move
from cinder_vdisk_mapper.server_moves import settle_states
from cinder_vdisk_mapper.server_moves.destination import Destination
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
        self._states = settle_states.SettleStates()
        self._due: dict[str, float] = {}
        self._pauses: dict[str, float] = {}
        self._copied: dict[str, str] = {}
        self._running: dict[str, concurrent.futures.Future[None]] = {}
        self._log = log_once.ChangeLogger(LOG)
        self._arrivals = arrivals.Arrivals(destinations, self._log)
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
        arriving = self._arrivals.find(pool)
        self._running = {
            volume_id: future
            for volume_id, future in self._running.items()
            if not future.done()
        }
        for volume_id in (
            self._states.volumes() - arriving.keys() - self._running.keys()
        ):
            self._states.forget(volume_id)
            self._due.pop(volume_id, None)
            self._pauses.pop(volume_id, None)
            self._copied.pop(volume_id, None)
            self._log.clear(volume_id)
        for volume_id in arriving.keys() & self._running.keys():
            self._look_at_source(arriving[volume_id][0], volume_id)
        for volume_id, (destination, vdisk) in arriving.items():
            self._keep_waiting(destination, vdisk.name)
            if volume_id in self._running:
                continue
            self._states.add(vdisk, destination.backend.disk_root)
            if self._due.get(
                volume_id, 0.0
            ) <= time.monotonic() and self._has_room(vdisk.disk):
                self._running[volume_id] = pool.submit(
                    self._settle, destination, vdisk
                )
        self._states.write(
            destination.backend.disk_root
            for destination in self._destinations.values()
        )

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
        self._states.change(volume_id, state=state, reason=reason)
        if state in (settling.AWAY, settling.FAILED):
            self._log.log(
                volume_id, '%s has not followed its server: %s', vdisk.name,
                reason,
            )  # fmt: skip

    def _progress(self, volume_id: str, done: int, total: int) -> None:
        if self._states.progress(volume_id, done, total):
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
            self._states.change(
                volume_id, state=settling.AWAY, reason=str(error)
            )
            self._log.log(volume_id, '%s waits: %s', vdisk.name, error)
        else:
            if vdisk.state == settling.AWAY:
                self._states.change(
                    volume_id, state=settling.COPYING, reason=''
                )
                self._log.clear(volume_id)
