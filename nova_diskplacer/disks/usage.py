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

"""Finds the vdisks that servers of this host use."""

import collections
import collections.abc
import os

from nova_diskplacer.disks import discover
from nova_diskplacer.disks import links
from nova_diskplacer.disks.filesystem import devices
from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.host.libvirt_servers import Server


def vdisks_in_use(
    servers: collections.abc.Iterable[Server],
    disks: collections.abc.Iterable[discover.Disk],
) -> collections.abc.Iterator[tuple[Server, str, str]]:
    """Yield each vdisk in use as (server, path, UUID of its disk).

    A striped vdisk is yielded once for each of its disks.
    """
    by_directory = {}
    striped: dict[str, list[str]] = collections.defaultdict(list)
    for disk in disks:
        for vdisk in disk.vdisks:
            if vdisk.stripe:
                striped[naming.striped_device(vdisk.name)].append(disk.uuid)
        # the entry of an LVM disk is a link to the directory of its volumes
        inside = '' if naming.is_entry(disk.path) else files.DIRECTORY
        directory = os.path.join(os.path.realpath(disk.path), inside)
        by_directory[os.path.normpath(directory)] = disk.uuid
        by_directory[os.path.join(devices.DIRECTORY, disk.uuid)] = disk.uuid
    # a path elsewhere may be on a network filesystem that is away
    names = {os.path.basename(directory) for directory in by_directory}
    for server in servers:
        for path in server.vdisks:
            if path in striped:
                for uuid in striped[path]:
                    yield server, path, uuid
                continue
            # the directory itself is not read, because its disk may hang; its
            # parent is not on that disk
            place = os.path.dirname(links.resolve(path))
            parent, name = os.path.split(place)
            if name not in names:
                continue
            directory = os.path.join(os.path.realpath(parent), name)
            if directory in by_directory:
                yield server, path, by_directory[directory]


def is_made_device(path: str) -> bool:
    """Return whether the path of a vdisk in use is that of a loop device."""
    return links.resolve(path).startswith(devices.DIRECTORY + '/')


def servers_by_disk(
    servers: collections.abc.Iterable[Server],
    disks: collections.abc.Iterable[discover.Disk],
) -> dict[str, list[Server]]:
    """Return the servers that use vdisks on each disk, by the disk's UUID.

    A disk without any is left out. Each server is listed once per disk.
    """
    by_disk: dict[str, dict[str, Server]] = {}
    for server, _, disk in vdisks_in_use(servers, disks):
        by_disk.setdefault(disk, {})[server.uuid] = server
    return {disk: list(by_uuid.values()) for disk, by_uuid in by_disk.items()}
