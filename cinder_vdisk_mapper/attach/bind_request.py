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

"""A request to bind a vdisk, and how many vdisks of a server share a disk."""

import collections.abc
import dataclasses

from cinder_vdisk_mapper import nova_api

#: more vdisks of one server than any disk holds
UNLIMITED = 1 << 30


@dataclasses.dataclass(frozen=True)
class BindRequest:
    """A request to bind a vdisk.

    ``server`` is the server that attaches the volume, in the volume's
    project, or None. ``boot_time`` is True for a volume that Nova made for
    the boot of that server. ``of_flavor`` is False for a volume that is none
    of the vdisks of the server's flavor, such as the one that it boots from:
    it fills no claim, and does not count where the flavor limits the vdisks
    on a disk. ``policy`` is the mapping where no claim decides. ``attached``
    returns the names of the vdisks that are attached to the server and count,
    by disk; it is called while the server is locked.
    """

    name: str
    volume_id: str
    size_gb: int
    policy: str
    server: nova_api.Server | None = None
    boot_time: bool = False
    of_flavor: bool = True
    attached: collections.abc.Callable[[], dict[str, frozenset[str]]] = dict

    @property
    def bound_for(self) -> str | None:
        """UUID of the server whose claims the vdisk counts against."""
        return self.server.uuid if self.server and self.of_flavor else None


def max_per_disk(
    server: nova_api.Server | None, of_flavor: bool = True
) -> int:
    """Return how many vdisks of a server round robin binds to one disk.

    :param of_flavor: False for a volume that is no vdisk of its flavor.
    """
    if not of_flavor:
        return UNLIMITED
    return server.request.vdisks_per_disk if server and server.request else 1
