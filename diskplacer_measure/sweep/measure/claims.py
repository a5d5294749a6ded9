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

"""Claims in Placement that keep other servers from the disks of this host."""

import collections.abc
import time

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import inventory
from nova_diskplacer.placement.client import GB

CONSUMER_TYPE = 'DISKPLACER_SWEEP'

_ATTEMPTS = 10


class Claims:
    """The claims of a run, whose consumer is its ID.

    Nova can then place servers of the measured disk's medium on this host on
    the measured disk alone, and there only in the room that the run needs.

    The schedulers know the freed space of a boot only when the agent has
    reported it. So there is room for two boots, if the disk has as much, and
    otherwise each boot waits.

    :param disk: the measured disk.
    :param need_gb: GiB that a boot needs on it, at most.
    :param settle: seconds until schedulers know freed space.
    """

    def __init__(
        self,
        client: placement_client.PlacementClient,
        disk_root: str,
        disk: discover.Disk,
        run_id: str,
        need_gb: int,
        settle: float,
    ) -> None:
        self._client = client
        self._disk_root = disk_root
        self._disk = disk
        self._consumer = run_id
        self._need_gb = need_gb
        self._settle = settle

    def hold(self) -> None:
        """Claim all free space but the space that the run needs.

        Waits until Nova can place servers there. Repeatable; an earlier claim
        of the run is replaced.

        :raises DiskPlacerError: the measured disk has less free, or Placement
            does not answer.
        """
        uuid = self._disk.uuid
        inventory.sync_disk(
            self._client,
            uuid,
            lambda: discover.inspect(self._disk_root, uuid),
        )
        for _ in range(_ATTEMPTS):
            earlier = self._client.allocations(self._consumer)
            free = {disk: self._free_gb(disk) for disk in self._disks()}
            if free[uuid] < self._need_gb:
                raise exception.DiskPlacerError(
                    f'disk {uuid} has {free[uuid]} GiB free in Placement, '
                    f'{self._need_gb} GiB are measured: --mib is less'
                )
            room_gb = min(free[uuid], 2 * self._need_gb)
            free[uuid] -= room_gb
            session = self._client.session
            try:
                self._client.claim(
                    self._consumer,
                    placement_client.Allocations(
                        session.get_project_id(),
                        {
                            disk: {GB: gb}
                            for disk, gb in free.items()
                            if gb > 0
                        },
                        session.get_user_id(),
                        earlier.generation,
                    ),
                    CONSUMER_TYPE,
                )
            except exception.Conflict as error:
                refusal = error
                continue
            if room_gb < 2 * self._need_gb:
                time.sleep(self._settle)
            return
        raise refusal

    def release(self) -> None:
        """Release all claims of the run; repeatable.

        :raises PlacementError: Placement does not answer.
        """
        self._client.claim(
            self._consumer,
            placement_client.Allocations(None, {}),
            CONSUMER_TYPE,
        )

    def _disks(self) -> collections.abc.Iterator[str]:
        yield self._disk.uuid
        for disk in discover.discover(self._disk_root):
            if disk.uuid != self._disk.uuid and disk.medium in (
                self._disk.medium,
                # it is missing, but may return
                '',
            ):
                yield disk.uuid

    def _free_gb(self, uuid: str) -> int:
        _, inventories = self._client.inventories(uuid)
        total = inventories.get(GB, {'total': 0, 'reserved': 0})
        others = sum(
            claim.get(GB, 0)
            for consumer, claim in self._client.provider_allocations(
                uuid
            ).items()
            if consumer != self._consumer
        )
        return int(total['total'] - total['reserved'] - others)
