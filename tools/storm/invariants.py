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


"""What must hold when a storm is over: pure functions over facts.

Each rule returns the violations. One of Nova's or Cinder's own names its
owner and the reason, and is told apart.
"""

import collections
import collections.abc
import dataclasses

from tools.storm.facts import GIB
from tools.storm.facts import Disk
from tools.storm.facts import Facts
from tools.storm.facts import Server
from tools.storm.facts import Volume

PROJECT = 'project'
NOVA = 'nova'
CINDER = 'cinder'
USER = 'user'

# Statuses in which nothing works on a volume or snapshot.
QUIET = ('available', 'in-use', 'reserved')
# A server that has its vdisks attached, or has them again when it starts.
SETTLED = ('active', 'stopped')
# How Nova names the volumes that it makes for a boot, after the server.
_BLANK = '-blank-vol'
# The finding of an audit that names one of them without its server.
_BLANK_FINDING = 'blank-volume-without-server'
OFFLOADED = 'shelved_offloaded'


@dataclasses.dataclass(frozen=True, order=True)
class Violation:
    """What is not as it must be; ``owner`` is whose fault it is."""

    rule: str
    subject: str
    what: str
    owner: str = PROJECT
    reason: str = ''


Violations = collections.abc.Iterator[Violation]


def check(facts: Facts) -> list[Violation]:
    """Return the violations of all rules."""
    return sorted(
        {violation for rule in RULES for violation in rule(facts)},
    )


def vdisks(facts: Facts) -> Violations:
    """Each bound volume is there once, whole, where Cinder has it."""
    for volume in facts.volumes.values():
        if volume.deleted or volume.status not in QUIET:
            continue
        if volume.location:
            yield from _vdisk(
                facts,
                volume.name,
                volume.location,
                volume.host,
                volume.size_gb,
            )
        elif facts.places(volume.name):
            yield Violation('vdisk', volume.name, 'has a file and no location')
    for snapshot in facts.snapshots.values():
        if not snapshot.deleted and snapshot.status == 'available':
            volume = facts.volumes[snapshot.volume]
            if volume.location or snapshot.location:
                yield from _vdisk(
                    facts,
                    snapshot.name,
                    snapshot.location,
                    volume.host,
                    snapshot.size_gb,
                )


def _vdisk(
    facts: Facts, name: str, location: str, host: str, size_gb: int
) -> Violations:
    places = facts.places(name)
    if len(places) != 1:
        where = ', '.join(disk.uuid for disk, _ in places)
        yield Violation(
            'vdisk', name, f'is there {len(places)} times: {where}'
        )
        return
    ((disk, file),) = places
    if disk.uuid != location:
        yield Violation(
            'vdisk', name, f'is on {disk.uuid}, and recorded on {location}'
        )
    if disk.host != host:
        yield Violation('vdisk', name, f'is on {disk.host}, not on {host}')
    if file.size != size_gb * GIB:
        yield Violation(
            'vdisk', name, f'has {file.size} bytes, not {size_gb} GiB'
        )
    # nothing is ever written to a snapshot, so its holes may stay
    if file.allocated < file.size and not name.startswith('snapshot-'):
        yield Violation('vdisk', name, f'has {file.allocated} bytes allocated')


def attachments(facts: Facts) -> Violations:
    """Each vdisk of a server is on its host, and its link leads there."""
    for volume, server in _attached(facts):
        for disk, _ in facts.places(volume.name):
            if disk.host != server.host:
                yield Violation(
                    'attachment',
                    volume.name,
                    f'is on {disk.host}, its server on {server.host}',
                )
            link = facts.links.get(disk.host, {}).get(volume.name)
            if link != disk.uuid:
                yield Violation(
                    'attachment',
                    volume.name,
                    f'is on {disk.uuid}, its link leads to {link}',
                )
            used = disk.uuid
            if server.state == 'active' and server.uuid in facts.guests:
                used = facts.guests[server.uuid].get(volume.name, 'none')
            if used != disk.uuid:
                yield Violation(
                    'attachment',
                    volume.name,
                    f'is on {disk.uuid}, its server has open: {used}',
                )


def _attached(
    facts: Facts,
) -> collections.abc.Iterator[tuple[Volume, Server]]:
    """Yield each bound volume and the server that it is attached to."""
    for volume_id, server_id in sorted(facts.attached):
        volume = facts.volumes.get(volume_id)
        server = facts.servers.get(server_id)
        if (
            volume
            and volume.location
            and server
            and server.state in SETTLED
            and not server.task
            and not server.deleted
        ):
            yield volume, server


def leftovers(facts: Facts) -> Violations:
    """No disk has a file, and no host a link, of something deleted."""
    alive = {
        one.name
        for one in (*facts.volumes.values(), *facts.snapshots.values())
        if not one.deleted
    }
    for disk in facts.disks.values():
        for file in disk.files:
            if file.name not in alive:
                yield Violation(
                    'leftover', file.name, f'is on disk {disk.uuid}'
                )
    for host, links in facts.links.items():
        for name in links:
            if name not in alive:
                yield Violation('leftover', name, f'has a link on {host}')


def mappings(facts: Facts) -> Violations:
    """The vdisks that a boot gave a server are on disks of their own."""
    places: dict[str, list[str]] = collections.defaultdict(list)
    for volume, server in _attached(facts):
        if server.mapping == 'round_robin' and _is_boot_vdisk(volume, server):
            places[server.uuid].append(volume.location)
    for uuid, used in places.items():
        if len(set(used)) < len(used):
            yield Violation('mapping', uuid, f'has vdisks on {sorted(used)}')


def _is_boot_vdisk(volume: Volume, server: Server) -> bool:
    return volume.title.startswith(server.uuid)


def ledger(facts: Facts) -> Violations:
    """Claims and reservations are the content, and no disk is oversold."""
    for disk in facts.disks.values():
        provider = facts.providers.get(disk.uuid)
        if provider is None:
            yield Violation('ledger', disk.uuid, 'is not in Placement')
            continue
        taken = _taken(disk)
        outside = sum(
            max(0, gb - provider.claims.get(server, 0))
            for server, gb in taken.items()
        )
        claimed = sum(provider.claims.values())
        if provider.total * GIB > disk.size:
            yield Violation(
                'ledger',
                disk.uuid,
                f'offers {provider.total} GiB of {disk.size} bytes',
            )
        if claimed + outside > provider.total:
            yield _oversold(facts, disk.uuid, claimed, outside)
        if disk.draining:
            outside = provider.total
        wanted = min(outside, provider.total)
        if provider.reserved != wanted:
            yield Violation(
                'ledger',
                disk.uuid,
                f'reserves {provider.reserved} GiB of {provider.total}, and '
                f'vdisks outside the claims take {wanted}: {taken}, claims '
                f'{provider.claims}',
            )


def _taken(disk: Disk) -> dict[str, int]:
    """Return the GiB that the vdisks of each server take on a disk."""
    taken: dict[str, int] = collections.defaultdict(int)
    for file in disk.files:
        taken[file.server] += -(-file.size // GIB)
    return dict(taken)


def _oversold(
    facts: Facts, disk: str, claimed: int, outside: int
) -> Violation:
    provider = facts.providers[disk]
    leaked = {
        consumer: gb
        for consumer, gb in provider.claims.items()
        if leak(facts, consumer)
    }
    what = (
        f'has {claimed} GiB claimed and {outside} outside the claims of '
        f'{provider.total}'
    )
    if claimed + outside - sum(leaked.values()) <= provider.total:
        return Violation(
            'oversold', disk, what, NOVA, f'of which leaked: {leaked}'
        )
    return Violation('oversold', disk, what)


def leak(facts: Facts, consumer: str) -> str:
    """Return why a consumer should have no claim, '' if it should."""
    server = facts.servers.get(consumer)
    if server is not None:
        return 'its server is deleted' if server.deleted else ''
    migration = facts.migrations.get(consumer)
    if migration is None:
        return 'it is neither a server nor a migration'
    status = migration.status
    if status in ('error', 'failed', 'confirmed', 'reverted', 'completed'):
        return f'its migration is {status}'
    if _is_gone(facts, migration.server):
        return f'its migration is {status}, and its server deleted'
    return ''


def leaks(facts: Facts) -> Violations:
    """Every claim is that of a server or of a migration that goes on."""
    for provider in facts.providers.values():
        for consumer, gb in provider.claims.items():
            if reason := leak(facts, consumer):
                yield Violation(
                    'leaked-claim',
                    consumer,
                    f'claims {gb} GiB of disk {provider.uuid}',
                    NOVA,
                    f'{reason}: Nova makes and removes claims',
                )


def promises(facts: Facts) -> Violations:
    """What a server's flavor asks for is there, or is claimed for it.

    But for what its user has deleted: the space of vdisks that a resize or an
    unshelve has found is reserved for them, not claimed for the server.
    """
    deleted = _deleted_gb(facts)
    for server in facts.servers.values():
        if (
            server.deleted
            or server.state not in SETTLED
            or server.task
            or not server.vdisks
        ):
            continue
        there = spare = 0
        for disk in facts.disks.values():
            taken = _taken(disk).get(server.uuid, 0)
            provider = facts.providers.get(disk.uuid)
            claim = provider.claims.get(server.uuid, 0) if provider else 0
            there += taken
            spare += max(0, claim - taken)
        wanted = server.vdisks * server.vdisk_gb - deleted[server.uuid]
        if there + spare < wanted:
            yield Violation(
                'promise',
                server.uuid,
                f'asks for {wanted} GiB; {there} are there, {spare} more are '
                'claimed',
            )


def busy(facts: Facts) -> list[str]:
    """Return the ids of what Nova or Cinder still works on."""
    servers = [
        one.uuid
        for one in facts.servers.values()
        if not one.deleted and (one.task or one.state == 'building')
    ]
    others = [
        one.uuid
        for one in (*facts.volumes.values(), *facts.snapshots.values())
        if not one.deleted
        and one.status.endswith('ing')
        and not one.status.startswith('error')
    ]
    return servers + others


def broken(facts: Facts) -> dict[str, str]:
    """Return what Nova and Cinder have not finished, by id, and why.

    What a check says of these is told apart.
    """
    found = {
        consumer: f'the claim is leaked: {reason}'
        for provider in facts.providers.values()
        for consumer in provider.claims
        if (reason := leak(facts, consumer))
    }
    for server in facts.servers.values():
        if not server.deleted and (
            server.task or server.state not in (*SETTLED, OFFLOADED)
        ):
            found[server.uuid] = (
                f'the server is {server.state} {server.task}'.rstrip()
            )
    for one in (*facts.volumes.values(), *facts.snapshots.values()):
        if not one.deleted and one.status not in QUIET:
            found[one.uuid] = f'it is {one.status} in Cinder'
    return found


def told(
    facts: Facts, rule: str, subject: str, texts: list[str]
) -> list[Violation]:
    """Return what a check of the project's says of a cloud that is well.

    What it says of an object that Nova or Cinder left is told apart, a blank
    volume among them, and that vdisks lack which users have deleted, or that
    nothing fills the space that a resize or an unshelve has claimed for them.
    """
    apart = broken(facts)
    deleted = _deleted_gb(facts)
    ever = {server.uuid for server, _ in _deleted(facts)}
    found = []
    for text in texts:
        owner, reason = PROJECT, ''
        for uuid, why in apart.items():
            if uuid in text:
                owner, reason = NOVA, why
        if _BLANK_FINDING in text:
            owner, reason = NOVA, 'Nova leaves it, and the audit names it'
        if 'without-vdisks' in text and any(one in text for one in deleted):
            owner, reason = USER, 'its user has deleted vdisks of it'
        if '"pending"' in text and any(one in text for one in ever):
            owner, reason = USER, 'its user has deleted vdisks of it'
        found.append(Violation(rule, subject, text, owner, reason))
    return found


def _deleted_gb(facts: Facts) -> collections.Counter[str]:
    """Return the GiB of deleted vdisks of boots, by server.

    A resize and an unshelve claim anew what is deleted before.
    """
    found: collections.Counter[str] = collections.Counter()
    for server, volume in _deleted(facts):
        if volume.ended > server.begun:
            found[server.uuid] += volume.size_gb
    return found


def _deleted(
    facts: Facts,
) -> collections.abc.Iterator[tuple[Server, Volume]]:
    """Return the deleted vdisks of boots, and their servers."""
    for volume in facts.volumes.values():
        server = facts.servers.get(volume.title.removesuffix(_BLANK))
        if server and volume.deleted:
            yield server, volume


def unused(
    facts: Facts, owned: collections.abc.Container[str], named: str
) -> list[Violation]:
    """Return the blank volumes of boots that were cut short.

    :param owned: ids of the volumes that somebody goes on with.
    :param named: what the audits say; one that they name is told apart, and
        one with snapshots.
    """
    reasons = {
        snapshot.volume: 'Cinder deletes no volume with snapshots'
        for snapshot in facts.snapshots.values()
        if not snapshot.deleted
    } | {
        uuid: 'Nova leaves it; the audit names it'
        for uuid in facts.volumes
        if uuid in named
    }
    return [
        Violation(
            'blank-volume',
            volume.uuid,
            f'{volume.title}, {volume.status}',
            CINDER if volume.uuid in reasons else PROJECT,
            reasons.get(volume.uuid, ''),
        )
        for volume in facts.volumes.values()
        if not volume.deleted
        and volume.uuid not in owned
        and volume.status in QUIET
        and volume.title.endswith(_BLANK)
        and volume.location
        and _is_gone(facts, volume.title.removesuffix(_BLANK))
    ]


def _is_gone(facts: Facts, server: str) -> bool:
    found = facts.servers.get(server)
    return found is None or found.deleted


def empty(facts: Facts) -> list[Violation]:
    """Return what is left when everything was deleted."""
    found = [
        Violation(
            'not-deleted',
            one.uuid,
            f'{kind} is {status}: deleting it does not help',
        )
        for kind, status, one in (
            *(('server', one.state, one) for one in facts.servers.values()),
            *(('volume', one.status, one) for one in facts.volumes.values()),
            *(
                ('snapshot', one.status, one)
                for one in facts.snapshots.values()
            ),
        )
        if not one.deleted
    ]
    for disk in facts.disks.values():
        found += [
            Violation('leftover', file.name, f'is on disk {disk.uuid}')
            for file in disk.files
        ]
    for provider in facts.providers.values():
        if provider.reserved and provider.uuid in facts.disks:
            found.append(
                Violation(
                    'ledger',
                    provider.uuid,
                    f'is empty and reserves {provider.reserved} GiB',
                )
            )
    return sorted({*found, *leaks(facts), *leftovers(facts)})


RULES = (
    vdisks,
    attachments,
    leftovers,
    mappings,
    ledger,
    leaks,
    promises,
)
