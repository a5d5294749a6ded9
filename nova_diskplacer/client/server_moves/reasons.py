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

"""Reasons why a server cannot move to another host now.

The filter of nova-scheduler and the Cinder driver decide; this tells in
advance what REST APIs show of it. They do not show whether
``[diskplacer_scheduler] moves`` is set.
"""

import collections.abc
import dataclasses

from nova_diskplacer import flavor
from nova_diskplacer.client.server_moves import facts

_LIVE_ONLY = (facts.LIVE,)
_COLD_ONLY = (facts.COLD,)

# What to do before Nova moves a server in another state.
_STATES = {
    'suspended': 'is suspended: resume it',
    'rescued': 'is in rescue mode: unrescue it',
    'shelved': 'is shelved: offload it (openstack server shelve --offload)',
    'shelved_offloaded': 'is shelved: its data leaves the host when it is '
    'unshelved while nova-compute of the host is disabled',
    facts.RESIZED: 'waits until its resize or cold migration is confirmed or '
    'reverted (openstack server resize confirm)',
    'soft-delete': 'is soft-deleted: restore it, or delete it for good',
    facts.ERROR: 'is in ERROR',
}

# Statuses of the volumes of servers, shelved ones included.
_ATTACHED = ('in-use', 'reserved')


@dataclasses.dataclass(frozen=True)
class Reason:
    """A reason against moves of these kinds, in words that follow a server.

    ``passes``: it ends without anybody's help.
    """

    text: str
    kinds: tuple[str, ...] = facts.KINDS
    passes: bool = False


def find(
    server: facts.Server,
    hosts_with_room: collections.abc.Collection[str] | None = None,
) -> list[Reason]:
    """Return why a server cannot move, the reasons of its state first.

    :param hosts_with_room: the other hosts whose disks have room for the
        vdisks of its flavor, None if that is not known.
    """
    reasons = [*_of_state(server)]
    if server.flavor_error:
        reasons.append(
            Reason(f'has a flavor that is wrong: {server.flavor_error}')
        )
    elif server.request is None:
        if server.volumes:
            reasons.append(
                Reason('has vdisks, and its flavor claims none elsewhere')
            )
    else:
        reasons += _of_request(server, server.request, hosts_with_room)
    for volume in server.volumes:
        reasons += [
            dataclasses.replace(
                reason, text=f'has volume {volume.id}, which {reason.text}'
            )
            for reason in _of_volume(volume, server)
        ]
    return reasons


def against(
    reasons: collections.abc.Iterable[Reason], kind: str
) -> list[Reason]:
    """Return the reasons against a kind of move."""
    return [reason for reason in reasons if kind in reason.kinds]


def _of_state(server: facts.Server) -> collections.abc.Iterator[Reason]:
    if server.is_locked:
        why = f' ({server.locked_reason})' if server.locked_reason else ''
        yield Reason(f'is locked{why}: openstack server unlock {server.id}')
    if server.vm_state == 'building':
        yield Reason('is being built', passes=True)
    elif server.task:
        yield Reason(f'has a task of Nova: {server.task}', passes=True)
    elif server.vm_state == facts.PAUSED:
        yield Reason('is paused: unpause it, or move it live', _COLD_ONLY)
    elif server.vm_state == facts.STOPPED:
        yield Reason('is off, and moves cold', _LIVE_ONLY)
    elif server.vm_state == facts.ERROR and server.is_running:
        yield Reason(
            'is in ERROR, but runs: after an aborted live migration, '
            f'openstack server set --state active {server.id}'
        )
    elif server.vm_state != facts.ACTIVE:
        yield Reason(
            _STATES.get(server.vm_state, f'is in state {server.vm_state}')
        )


def _of_request(
    server: facts.Server,
    request: flavor.VDiskRequest,
    hosts_with_room: collections.abc.Collection[str] | None,
) -> collections.abc.Iterator[Reason]:
    if server.volumes and request.legs > 1:
        yield Reason(
            f'has vdisks with mapping {request.mapping}, which do not change '
            'hosts'
        )
    number = len(server.volumes)
    if number > request.vdisks:
        yield Reason(
            f'has {number} vdisks, and its flavor claims {request.vdisks} '
            'elsewhere'
        )
    if hosts_with_room is not None and not hosts_with_room:
        yield Reason(
            'finds no other host with its backend of Cinder whose disks have '
            f'room for {request.vdisks} '
            f'vdisks of {request.vdisk_gb} GiB ({request.mapping}, media '
            f'{request.media})'
        )


def _of_volume(
    volume: facts.Volume, server: facts.Server
) -> collections.abc.Iterator[Reason]:
    request = server.request
    if server.host and volume.host != server.host:
        yield Reason(
            f'has not settled: its data is on host {volume.host}', passes=True
        )
    elif not volume.location:
        yield Reason('is exported for a move that begins or ends', passes=True)
    if volume.location.is_striped:
        yield Reason('is striped or elastic, and does not change hosts')
    elif (
        request is not None
        and not volume.is_bootable
        and volume.size_gb != request.vdisk_gb
    ):
        yield Reason(
            f'has {volume.size_gb} GiB, and its flavor claims vdisks of '
            f'{request.vdisk_gb} GiB elsewhere'
        )
    elif request is not None and not request.is_vdisk(
        volume.size_gb, volume.volume_type, volume.is_bootable
    ):
        yield Reason(
            f'is none of the {request.vdisks} vdisks of {request.vdisk_gb} '
            'GiB that its flavor claims elsewhere'
        )
    if volume.is_encrypted:
        yield Reason('is encrypted')
    if volume.has_snapshots:
        yield Reason('has snapshots')
    if volume.in_group:
        yield Reason('is in a group')
    if volume.is_multiattach:
        yield Reason('can be attached to several servers')
    if volume.is_migrating:
        yield Reason('is migrated or retyped by Cinder', passes=True)
    elif volume.status not in _ATTACHED:
        yield Reason(f'has status {volume.status}')
    if volume.is_file:
        yield Reason(
            'is attached as a file, and changes hosts only while the server '
            'is off',
            _LIVE_ONLY,
        )
