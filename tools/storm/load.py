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


"""What clients do: the next operation of each follows from its own numbers.

A client knows what it owns, and chooses among what it can do with that. It
never owns more than a bounded number of servers and volumes.
"""

import collections
import dataclasses
import random
import typing

from tools.storm.content import Content

SERVERS = 2
VOLUMES = 2
SNAPSHOTS = 2
MAX_GB = 3


# How operations end.
OK = 'ok'
REFUSED = 'refused'
FAILED = 'failed'
SERVER_ERROR = 'HTTP 5xx'
UNREACHABLE = 'no connection'
STUCK = 'stuck'
OUTCOMES = (OK, REFUSED, FAILED, SERVER_ERROR, UNREACHABLE, STUCK)

Counts = dict[str, collections.Counter[str]]


class Flavor(typing.NamedTuple):
    """The vdisks of a flavor, of 1 GiB each; ``ram`` in MiB."""

    name: str
    vdisks: int
    mapping: str
    ram: int = 128


# Each is resized to another one: more vdisks, or only more memory.
FLAVORS = (
    Flavor('storm-2', 2, 'round_robin'),
    Flavor('storm-2-ram', 2, 'round_robin', 160),
    Flavor('storm-3', 3, 'round_robin'),
    Flavor('storm-4', 4, 'consolidated'),
    Flavor('storm-6', 6, 'consolidated'),
)
BOOTED = ('storm-2', 'storm-3', 'storm-4')
RESIZES = {
    'storm-2': ('storm-2-ram', 'storm-3'),
    'storm-2-ram': ('storm-2',),
    'storm-3': (),
    'storm-4': ('storm-6',),
    'storm-6': (),
}


@dataclasses.dataclass
class Snapshot:
    """A snapshot, and the content that it has kept."""

    uuid: str
    content: Content


@dataclasses.dataclass
class Volume:
    """A volume of a client; ``server`` has it attached.

    ``content`` is None if an operation has failed that replaces it.
    """

    uuid: str
    content: Content | None
    server: 'Server | None' = None
    snapshots: list[Snapshot] = dataclasses.field(default_factory=list)
    bound: bool = False
    of_boot: bool = False


@dataclasses.dataclass
class Server:
    """A server that is active."""

    uuid: str
    flavor: str
    host: str


@dataclasses.dataclass
class Owned:
    servers: list[Server] = dataclasses.field(default_factory=list)
    volumes: list[Volume] = dataclasses.field(default_factory=list)

    def of(self, server: Server) -> list[Volume]:
        """Return the volumes that a server has attached."""
        return [one for one in self.volumes if one.server is server]

    @property
    def free(self) -> list[Volume]:
        """Return the volumes that no server has attached."""
        return [one for one in self.volumes if one.server is None]


Subject = Server | Volume | Snapshot | None


class Operation(typing.NamedTuple):
    """What to do, and to what; a snapshot comes with its volume."""

    name: str
    first: Subject = None
    second: Subject = None


# How often each is chosen, compared with the others that are possible.
WEIGHTS = {
    'boot': 8,
    'create-volume': 4,
    'attach': 8,
    'detach': 5,
    'snapshot': 5,
    'delete-snapshot': 4,
    'clone': 3,
    'from-snapshot': 3,
    'revert': 5,
    'extend': 3,
    'resize': 3,
    'shelve': 3,
    'reboot': 2,
    'delete-volume': 4,
    'delete-server': 3,
    'write': 12,
    'read': 8,
}


def choose(rng: random.Random, owned: Owned) -> Operation:
    """Choose the next operation of a client."""
    possible = _possible(owned)
    names = sorted(possible)
    (name,) = rng.choices(names, [WEIGHTS[name] for name in names])
    return rng.choice(possible[name])


def _possible(owned: Owned) -> dict[str, list[Operation]]:
    """Return what can be done, by name."""
    found: list[Operation] = []
    if len(owned.servers) < SERVERS:
        found.append(Operation('boot'))
    for server in owned.servers:
        found += [
            Operation(name, server)
            for name in ('shelve', 'reboot', 'delete-server')
        ]
        if RESIZES[server.flavor]:
            found.append(Operation('resize', server))
        found += [
            Operation('attach', server, volume)
            for volume in owned.free
            if volume.content
        ]
    own = [volume for volume in owned.volumes if not volume.of_boot]
    if len(own) < VOLUMES:
        found.append(Operation('create-volume'))
    for volume in owned.volumes:
        found += _of_volume(volume, len(own) < VOLUMES)
    by_name: dict[str, list[Operation]] = {}
    for one in found:
        by_name.setdefault(one.name, []).append(one)
    return by_name


def _of_volume(volume: Volume, more: bool) -> list[Operation]:
    """Return what can be done with a volume; ``more`` may be made."""
    names = []
    if volume.server:
        names.append('detach')
    elif not volume.snapshots:
        names.append('delete-volume')
    if volume.content is None or not volume.bound:
        return [Operation(name, volume) for name in names]
    names += ['write', 'read'] if volume.server else ['read']
    if len(volume.snapshots) < SNAPSHOTS:
        names.append('snapshot')
    if not volume.server:
        if volume.content.size_gb < MAX_GB and not volume.snapshots:
            names.append('extend')
        if more:
            names.append('clone')
        if volume.snapshots:
            names.append('revert')
    found = [Operation(name, volume) for name in names]
    for snapshot in volume.snapshots:
        found.append(Operation('delete-snapshot', volume, snapshot))
        if more:
            found.append(Operation('from-snapshot', volume, snapshot))
    return found
