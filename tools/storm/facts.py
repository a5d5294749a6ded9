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


"""What the databases and the disks of a cloud say, side by side."""

import dataclasses

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Volume:
    """A volume of Cinder; ``name`` is that of its vdisk.

    ``ended`` is when it was deleted, as ISO 8601 in UTC.
    """

    uuid: str
    name: str
    title: str
    status: str
    host: str
    size_gb: int
    location: str
    deleted: bool = False
    ended: str = ''


@dataclasses.dataclass(frozen=True)
class Snapshot:
    uuid: str
    volume: str
    status: str
    size_gb: int
    location: str
    deleted: bool = False

    @property
    def name(self) -> str:
        """Name of its vdisk."""
        return f'snapshot-{self.uuid}'


@dataclasses.dataclass(frozen=True)
class Server:
    """A server of Nova, with the vdisks that its flavor asks for.

    ``begun`` is when it was built, resized or unshelved, as ISO 8601 in UTC.
    """

    uuid: str
    state: str
    task: str
    host: str
    vdisks: int = 0
    vdisk_gb: int = 0
    mapping: str = ''
    deleted: bool = False
    begun: str = ''


@dataclasses.dataclass(frozen=True)
class Migration:
    """A migration of a server."""

    status: str
    server: str


@dataclasses.dataclass(frozen=True)
class Provider:
    """A disk in Placement, in GiB; ``claims`` are by consumer."""

    uuid: str
    total: int
    reserved: int
    claims: dict[str, int]


@dataclasses.dataclass(frozen=True)
class File:
    """A file among the vdisks of a disk; sizes in bytes."""

    name: str
    size: int
    allocated: int
    server: str


@dataclasses.dataclass(frozen=True)
class Disk:
    uuid: str
    host: str
    size: int
    files: tuple[File, ...] = ()
    draining: bool = False


@dataclasses.dataclass(frozen=True)
class Facts:
    """All of it; ``attached`` are pairs of a volume and its server.

    ``links`` has the disk that the link of a vdisk leads to, by host and
    name; ``guests`` the disk of each vdisk that QEMU has open, by server and
    name.
    """

    volumes: dict[str, Volume] = dataclasses.field(default_factory=dict)
    snapshots: dict[str, Snapshot] = dataclasses.field(default_factory=dict)
    attached: frozenset[tuple[str, str]] = frozenset()
    servers: dict[str, Server] = dataclasses.field(default_factory=dict)
    migrations: dict[str, Migration] = dataclasses.field(default_factory=dict)
    providers: dict[str, Provider] = dataclasses.field(default_factory=dict)
    disks: dict[str, Disk] = dataclasses.field(default_factory=dict)
    links: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)
    guests: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)

    def places(self, name: str) -> list[tuple[Disk, File]]:
        """Return each disk with a file of a name, and the file."""
        return [
            (disk, file)
            for disk in self.disks.values()
            for file in disk.files
            if file.name == name
        ]
