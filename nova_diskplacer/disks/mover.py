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

"""Interface of what moves the legs of elastic vdisks.

Who decides the steps knows disks and locations alone. What carries them out
knows the volumes as well: the Cinder driver.
"""

import abc
import collections.abc

from nova_diskplacer.disks.location import Location

#: called with the copied bytes and all bytes
Progress = collections.abc.Callable[[int, int], None]

#: tells if what goes on is to be taken back
IsStopped = collections.abc.Callable[[], bool]


class Mover(abc.ABC):
    """Moves the legs of volumes of this host, one move at a time."""

    @abc.abstractmethod
    def move(
        self,
        volume_id: str,
        location: Location,
        progress: Progress,
        stopped: IsStopped,
        percent: int,
    ) -> None:
        """Move legs of a volume by one step; repeatable.

        :param location: UUID of the disk of each leg afterwards.
        :param progress: called once a second.
        :param stopped: asked once a second.
        :param percent: of the disks' time that the copy takes, 1 to 100.
        :raises DiskPlacerError: the legs are where they were; the message has
            the reason.
        """

    @abc.abstractmethod
    def recover(self) -> None:
        """Finish or take back all interrupted moves of this host.

        :raises DiskPlacerError: some can neither be finished nor taken back,
            or another process moves legs.
        """
