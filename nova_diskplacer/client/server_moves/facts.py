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

"""Facts of a server and its volumes that REST APIs tell."""

import dataclasses

from nova_diskplacer import flavor
from nova_diskplacer.disks.location import Location

#: The kinds of moves: the server runs on, or is off meanwhile.
LIVE = 'live'
COLD = 'cold'
KINDS = (LIVE, COLD)

# States of Nova, as OS-EXT-STS:vm_state has them.
ACTIVE = 'active'
PAUSED = 'paused'
STOPPED = 'stopped'
RESIZED = 'resized'
ERROR = 'error'


@dataclasses.dataclass(frozen=True)
class Volume:
    """A volume with data on a local disk.

    ``host`` is the host of its backend, which has its data, and ``section``
    the backend's section of cinder.conf. ``location`` is
    empty while the volume is exported to another host: then no API tells its
    disk. ``server_id`` is the server that it is attached to, None for none.
    ``is_file``: QEMU opens it as a file; ``is_bootable``: a server boots from
    it, or may. ``is_migrating``: Cinder migrates or retypes it.
    """

    id: str
    size_gb: int
    host: str
    section: str
    location: Location = Location()
    server_id: str | None = None
    status: str = 'in-use'
    volume_type: str | None = None
    is_file: bool = False
    is_bootable: bool = False
    is_encrypted: bool = False
    is_multiattach: bool = False
    is_migrating: bool = False
    in_group: bool = False
    has_snapshots: bool = False


@dataclasses.dataclass(frozen=True)
class Server:
    """A server, and its volumes with data on local disks.

    ``host`` is empty for a server that is on none. ``status`` is as users see
    it, ``vm_state`` and ``task`` are Nova's; ``task`` is empty without any.
    ``request`` are the vdisks of its flavor, None for none;
    ``flavor_error`` says why the flavor is wrong. ``is_running``: its guest
    runs, whatever its state is.
    """

    id: str
    name: str
    host: str
    status: str
    vm_state: str
    task: str = ''
    is_locked: bool = False
    locked_reason: str = ''
    is_running: bool = False
    request: flavor.VDiskRequest | None = None
    flavor_error: str = ''
    volumes: tuple[Volume, ...] = ()
