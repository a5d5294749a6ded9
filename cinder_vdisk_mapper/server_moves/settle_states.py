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

"""How far each vdisk is that is to follow its server, for the agent."""

import collections.abc
import dataclasses
import time

from nova_diskplacer.disks import settling

# Seconds after which a state that has not changed is written again.
WRITE_PAUSE = 60.0


class SettleStates:
    """The states of vdisks by the IDs of their volumes.

    Of one volume, one thread changes the state at a time.
    """

    def __init__(self) -> None:
        self._vdisks: dict[str, settling.VDisk] = {}
        self._root_of: dict[str, str] = {}
        self._most: dict[str, int] = {}
        self._written: dict[str, settling.Settling] = {}

    def __len__(self) -> int:
        return len(self._vdisks)

    def __getitem__(self, volume_id: str) -> settling.VDisk:
        return self._vdisks[volume_id]

    def volumes(self) -> collections.abc.Set[str]:
        """Return the IDs of the volumes."""
        return self._vdisks.keys()

    def add(self, vdisk: settling.VDisk, root: str) -> None:
        """Add a vdisk that is found; a known one keeps all but its disk.

        :param root: the disk root.
        """
        self._vdisks.setdefault(vdisk.volume, vdisk)
        self.change(vdisk.volume, disk=vdisk.disk)
        self._root_of[vdisk.volume] = root

    def forget(self, volume_id: str) -> None:
        """Forget a vdisk that has followed its server, or is not to."""
        del self._vdisks[volume_id]
        self._root_of.pop(volume_id, None)
        self._most.pop(volume_id, None)

    def change(self, volume_id: str, **fields: object) -> None:
        """Change fields of a state, if there is one."""
        if before := self._vdisks.get(volume_id):
            self._vdisks[volume_id] = dataclasses.replace(
                before,
                **fields,  # type: ignore[arg-type]
            )

    def progress(self, volume_id: str, done: int, total: int) -> bool:
        """Change the bytes that are copied.

        :returns: True if there are more than ever before.
        """
        before, now = self._vdisks.get(volume_id), time.time()
        if before is None or (
            # it waits for the other host
            before.state == settling.AWAY
            and (before.done, before.total) == (done, total)
        ):
            return False
        if before.state != settling.COPYING or done < before.done:
            self.change(
                volume_id,
                state=settling.COPYING,
                reason='',
                began=now,
                first=done,
            )
        self.change(volume_id, done=done, total=total)
        if done <= self._most.get(volume_id, 0):
            return False
        self._most[volume_id] = done
        self.change(volume_id, moved=now)
        return True

    def write(self, roots: collections.abc.Iterable[str]) -> None:
        """Write the states to disk roots, if they have changed or are old.

        :raises DiskError: a disk root cannot be written to.
        """
        now = time.time()
        for root in sorted(set(roots)):
            vdisks = tuple(
                vdisk
                for volume_id, vdisk in sorted(self._vdisks.items())
                if self._root_of.get(volume_id) == root
            )
            last = self._written.get(root)
            if (
                last is None
                or last.vdisks != vdisks
                or now - last.time > WRITE_PAUSE
            ):
                state = settling.Settling(now, vdisks)
                settling.FILE.write(root, state)
                self._written[root] = state
