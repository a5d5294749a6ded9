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

"""The reasons for which the vdisk of a volume stays where it is.

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
    given, and ``link`` is the one that stays true. ``settled`` is false while
    Nova builds, moves or deletes the server. ``runs`` tells if the server
    runs with it; ``striped`` if the vdisk is a part of a striped one, which
    the kernel copies below the device of the server. ``problem`` is what
    libvirt says against a copy by QEMU.

    ``disk`` is the one with the vdisk, ``place`` that of the volume,
    ``copies`` are other disks with a complete vdisk of its name, and
    ``record`` is that of a move which was begun.
    """

    status: str
    migration_status: str | None
    backend: str
    servers: tuple[str, ...]
    attached_to_host: bool
    paths: tuple[str, ...]
    link: str
    encrypted: bool
    snapshots: int
    settled: bool
    runs: bool
    striped: bool
    problem: str
    disk: str
    place: str | None
    copies: tuple[str, ...]
    record: move_records.Record | None


def reason(facts: Facts, backend: str) -> str:
    """Return why a vdisk cannot be moved, '' if it can.

    :param backend: the backend of the disk, as ``host@section``.
    """
    if facts.backend != backend:
        return f'its volume belongs to backend {facts.backend}'
    if not facts.striped and (copy := _copy_reason(facts)):
        return copy
    if facts.snapshots:
        return f'it has {facts.snapshots} snapshots: delete them first'
    if facts.status not in ('available', 'in-use'):
        return f'its volume is {facts.status}'
    if is_migrating(facts.migration_status):
        return 'Cinder migrates its volume'
    if facts.attached_to_host:
        return 'it is attached to a host and not to a server: detach it'
    if len(facts.servers) > 1:
        return 'it is attached to several servers: ' + ', '.join(facts.servers)
    if not facts.settled:
        return (
            'Nova builds, moves or deletes its server, or does not have it '
            'on this host'
        )
    if facts.striped:
        return ''
    if facts.problem:
        return facts.problem
    if facts.servers and any(path != facts.link for path in facts.paths):
        return (
            'its server was given the path of the disk, which Nova would '
            'look for afterwards: detach and attach the volume, or shelve '
            'and unshelve the server, once'
        )
    if facts.runs and facts.encrypted:
        return 'it is encrypted and its server runs: stop the server'
    return ''


def _copy_reason(facts: Facts) -> str:
    """Return why a vdisk stays that is a copy, '' if it is the volume.

    The source of a move that is decided can be deleted, and is no such copy.
    """
    record, disk, place = facts.record, facts.disk, facts.place
    if record and record.target == disk and record.source in facts.copies:
        return (
            f'a drain of disk {record.source} has begun to move it here: '
            'repeat that drain, or cancel it'
        )
    if place == disk or (record == (disk, place) and place in facts.copies):
        return ''
    return (
        f'it is a copy, and its volume is on disk {place}: see '
        '"diskplacer-manage disk audit"'
    )
