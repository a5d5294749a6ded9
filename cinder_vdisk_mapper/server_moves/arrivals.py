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

"""Finds the vdisks that are to follow their servers to this host."""

import collections
import collections.abc
import concurrent.futures
import time

from cinder.volume import volume_utils

from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import stale_moves
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.server_moves.destination import Destination
from cinder_vdisk_mapper.vdisks import naming
from nova_diskplacer import exception
from nova_diskplacer.disks import links
from nova_diskplacer.disks import settling
from nova_diskplacer.host import log_once


class Arrivals:
    """The moves to this host that Cinder's database has.

    :param destinations: the backends, by their Cinder hosts.
    :param log: tells once of each volume or vdisk why it does not follow.
    """

    def __init__(
        self,
        destinations: collections.abc.Mapping[str, Destination],
        log: log_once.ChangeLogger,
    ) -> None:
        self._destinations = destinations
        self._log = log
        self._stale = stale_moves.StaleMoves()

    def find(
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


def _holders(destination: Destination) -> dict[str, list[str]]:
    """Return the disks of a backend that hold a vdisk, by its name."""
    holders = collections.defaultdict(list)
    for disk in destination.backend.disks():
        for vdisk in disk.vdisks:
            holders[vdisk.name].append(disk.uuid)
    return holders
