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

"""The hosts that have the bound vdisks of a server, and where it may go.

A server stays with its vdisks if its host is among those that Nova offers and
has room for it. It goes elsewhere if ``[diskplacer_scheduler] moves`` allows
it and all of its vdisks can follow, or if it comes back without its data; see
``server_moves``.
"""

import collections.abc
import typing

from oslo_log import log as logging

from nova_diskplacer import conf
from nova_diskplacer import flavor
from nova_diskplacer.scheduler import server_moves
from nova_diskplacer.scheduler.host_disk_cache import HostDiskCache
from nova_diskplacer.scheduler.plan import BoundVDisk
from nova_diskplacer.scheduler.server_volumes import AttachedVolume
from nova_diskplacer.scheduler.server_volumes import ServerVolumes

LOG = logging.getLogger(__name__)

Hosts = list[typing.Any]


class Found(typing.NamedTuple):
    """The hosts where a server may be.

    ``home`` are the hosts that have all of its bound vdisks, or all hosts if
    no volume of the server is bound. ``back`` are those that have them too,
    because they have not settled, and that the server has left. ``vdisks`` are
    those of both. ``elsewhere`` are the other hosts that it may go to, without
    vdisks there. ``pinned`` is why there are none, in words that follow "as",
    '' if that is not known.
    """

    home: Hosts
    back: Hosts
    vdisks: collections.abc.Sequence[BoundVDisk]
    elsewhere: Hosts
    pinned: str = ''


def find(
    server_id: str,
    volumes: ServerVolumes,
    request: flavor.VDiskRequest | None,
    hosts: Hosts,
    cache: HostDiskCache,
) -> Found:
    """Return where a server may be.

    :param request: the vdisks that its flavor asks for, None for none.
    :param hosts: those that Nova offers.
    """
    copies: dict[str, list[BoundVDisk]] = {}
    for vdisk in cache.bound_vdisks(v.volume_id for v in volumes.attached):
        copies.setdefault(vdisk.volume_id, []).append(vdisk)
    names, vdisks = _locate(volumes.attached, copies, hosts, cache)
    reporting: dict[str, set[str]] = {}
    for vdisk in vdisks:
        reporting.setdefault(vdisk.volume_id, set()).add(vdisk.provider)
    if not reporting and not names:
        return Found(hosts, [], (), [])
    # a host that has them all reports each of them
    providers = set.intersection(*reporting.values()) if reporting else None
    home = [
        host
        for host in hosts
        if (not names or names == {host.host})
        and (providers is None or host.uuid in providers)
    ]
    other_hosts = len(hosts) - len(home)
    uuids = {host.uuid for host in home}
    at_home = [vdisk for vdisk in vdisks if vdisk.provider in uuids]
    back: Hosts = []
    if len(home) > 1 and any(v.moving_from for v in volumes.attached):
        connected = {volume.host for volume in volumes.attached}
        back = [host for host in home if host.host not in connected]
        home = [host for host in home if host.host in connected]
    found = Found(home, back, at_home, [])
    if not other_hosts:
        return found
    pinned = ''
    if conf.CONF.diskplacer_scheduler.moves or server_moves.comes_back_blank(
        volumes, request
    ):
        pinned = server_moves.why_pinned(volumes, copies, request)
        if not pinned:
            elsewhere = [host for host in hosts if host.uuid not in uuids]
            return found._replace(elsewhere=elsewhere)
    LOG.info(
        'Server %s has vdisks on the disks of host %s and can be on no '
        'other host%s: %d of %d hosts rejected. Volumes: %s',
        server_id,
        ', '.join(sorted({vdisk.host for vdisk in vdisks} | names)),
        f', as {pinned}' if pinned else '',
        other_hosts,
        len(hosts),
        ', '.join(volume.volume_id for volume in volumes.attached),
    )
    return found._replace(pinned=pinned)


def _locate(
    volumes: collections.abc.Sequence[AttachedVolume],
    reported: server_moves.Copies,
    hosts: Hosts,
    cache: HostDiskCache,
) -> tuple[set[str], list[BoundVDisk]]:
    """Return where volumes are: the names of hosts, and reported vdisks.

    Two hosts report a volume that Cinder has moved until it has deleted the
    vdisk on the former one. The volume's connection tells which is right.
    Without a connection it may be either. It may be either too for a volume
    that has not settled: its server may stay, or go back to the data. A
    connection to a host that does not report the volume counts more than the
    report of another one, unless no host has that name: Cinder may have a name
    of its own for the host.
    """
    names, vdisks = set(), []
    for volume in volumes:
        name, copies = volume.host, reported.get(volume.volume_id, ())
        connected = [
            vdisk
            for vdisk in copies
            if vdisk.host in (name, volume.moving_from)
        ]
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
