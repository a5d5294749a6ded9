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

"""The hosts that have the bound vdisks of a server."""

import collections.abc
import typing

from oslo_log import log as logging

from nova_diskplacer.scheduler.host_disk_cache import HostDiskCache
from nova_diskplacer.scheduler.plan import BoundVDisk
from nova_diskplacer.scheduler.server_volumes import AttachedVolume

LOG = logging.getLogger(__name__)

Hosts = list[typing.Any]


def find(
    server_id: str,
    volumes: collections.abc.Sequence[AttachedVolume],
    hosts: Hosts,
    cache: HostDiskCache,
) -> tuple[Hosts, list[BoundVDisk]]:
    """Return the hosts that have all bound vdisks of a server, and these.

    All hosts are returned if no volume of the server is bound.
    """
    names, vdisks = _locate(volumes, hosts, cache)
    reporting: dict[str, set[str]] = {}
    for vdisk in vdisks:
        reporting.setdefault(vdisk.volume_id, set()).add(vdisk.provider)
    if not reporting and not names:
        return hosts, []
    # a host that has them all reports each of them
    providers = set.intersection(*reporting.values()) if reporting else None
    allowed = [
        host
        for host in hosts
        if names <= {host.host}
        and (providers is None or host.uuid in providers)
    ]
    if len(allowed) < len(hosts):
        LOG.info(
            'Server %s has vdisks on the disks of host %s and can be on no '
            'other host: %d of %d hosts rejected. Volumes: %s',
            server_id,
            ', '.join(sorted({vdisk.host for vdisk in vdisks} | names)),
            len(hosts) - len(allowed),
            len(hosts),
            ', '.join(volume.volume_id for volume in volumes),
        )
    uuids = {host.uuid for host in allowed}
    return allowed, [vdisk for vdisk in vdisks if vdisk.provider in uuids]


def _locate(
    volumes: collections.abc.Sequence[AttachedVolume],
    hosts: Hosts,
    cache: HostDiskCache,
) -> tuple[set[str], list[BoundVDisk]]:
    """Return where volumes are: the names of hosts, and reported vdisks.

    Two hosts report a volume that Cinder has moved until it has deleted the
    vdisk on the former one. The volume's connection tells which is right.
    Without a connection it may be either. A connection to a host that does not
    report the volume counts more than the report of another one, unless no
    host has that name: Cinder may have a name of its own for the host.
    """
    reported: dict[str, list[BoundVDisk]] = {}
    for vdisk in cache.bound_vdisks(volume.volume_id for volume in volumes):
        reported.setdefault(vdisk.volume_id, []).append(vdisk)
    names, vdisks = set(), []
    for volume_id, name, *_ in volumes:
        copies = reported.get(volume_id, [])
        connected = [vdisk for vdisk in copies if vdisk.host == name]
        if connected:
            vdisks += connected
        elif name and (
            not copies
            or cache.knows(name)
            or any(host.host == name for host in hosts)
        ):
            names.add(name)
        else:
            vdisks += copies
    return names, vdisks
