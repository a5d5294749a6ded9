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

"""The reasons for which the vdisk of a volume stays on its disk.

A pure function over facts that the survey has read. ``drain.plan`` adds the
reasons of space and mapping.
"""

import dataclasses

from cinder_vdisk_mapper.cinder_api.types import is_migrating
from nova_diskplacer.disks import move_records


@dataclasses.dataclass(frozen=True)
class Facts:
    """Facts that decide if the vdisk of a volume can be moved at all.

    ``servers`` have the volume attached, ``paths`` are those that they were
    given, and ``link`` is the one that stays true. ``is_settled`` is false
    while Nova builds, moves or deletes the server. ``is_running`` tells if the
    server runs with the volume. ``is_striped`` tells if the vdisk is a part of
    a striped one, which the kernel copies below the device of the server.
    ``guest_problem`` is what libvirt says against a copy by QEMU.

    ``disk`` is the one with the vdisk, ``volume_disk`` that of the volume, and
    ``link_problem`` the reason why the latter is not known. ``copies`` are
    other disks with a complete vdisk of its name. ``recorded_move`` is the
    move of the vdisk that was begun last.
    """

    status: str
    migration_status: str | None
    backend: str
    servers: tuple[str, ...]
    is_attached_to_host: bool
    paths: tuple[str, ...]
    link: str
    is_encrypted: bool
    snapshots: int
    is_settled: bool
    is_running: bool
    is_striped: bool
    guest_problem: str
    disk: str
    volume_disk: str | None
    link_problem: str
    copies: tuple[str, ...]
    recorded_move: move_records.Record | None


def reason(facts: Facts, backend: str) -> str:
    """Return why a vdisk cannot be moved, '' if it can.

    :param backend: the backend of the disk, as ``host@section``.
    """
    if facts.link_problem:
        return facts.link_problem
    if facts.backend != backend:
        return f'its volume belongs to backend {facts.backend}'
    if not facts.is_striped and (copy := _copy_reason(facts)):
        return copy
    if facts.snapshots:
        return f'it has {facts.snapshots} snapshots: delete them first'
    if facts.status not in ('available', 'in-use'):
        return f'its volume is {facts.status}'
    if is_migrating(facts.migration_status):
        return 'Cinder migrates its volume'
    if facts.is_attached_to_host:
        return 'it is attached to a host and not to a server: detach it'
    if len(facts.servers) > 1:
        return 'it is attached to several servers: ' + ', '.join(facts.servers)
    if not facts.is_settled:
        return (
            'Nova builds, moves or deletes its server, or does not have it '
            'on this host'
        )
    if facts.is_striped:
        return ''
    if facts.guest_problem:
        return facts.guest_problem
    if facts.servers and any(path != facts.link for path in facts.paths):
        return (
            'its server was given the path of the disk, which Nova would '
            'look for afterwards: detach and attach the volume, or shelve '
            'and unshelve the server, once'
        )
    if facts.is_running and facts.is_encrypted:
        return 'it is encrypted and its server runs: stop the server'
    return ''


def _copy_reason(facts: Facts) -> str:
    """Return why a vdisk stays that is a copy, '' if it is the volume.

    The source of a move that is decided can be deleted, and is no such copy.
    """
    disk, volume_disk = facts.disk, facts.volume_disk
    move = facts.recorded_move
    if move and move.target == disk and move.source in facts.copies:
        return (
            f'a drain of disk {move.source} has begun to move it here: '
            'repeat that drain, or cancel it'
        )
    if volume_disk == disk or (
        move
        and move.disks == (disk, volume_disk)
        and volume_disk in facts.copies
    ):
        return ''
    return (
        f'it is a copy, and its volume is on disk {volume_disk}: see '
        '"diskplacer-manage disk audit"'
    )
