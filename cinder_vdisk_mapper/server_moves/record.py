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

"""The record of a server's move, and what follows from it.

A server moves to another host first, and the data of its vdisks afterwards.
Until that is done, the record of the move is in the volume's admin metadata.
It is written before each act, so that a start of cinder-volume goes on by the
record alone, on the *source*, which the vdisk leaves, and on the
*destination*.

``volume.host`` tells which of both has the volume: the destination has it
from the save that ends the copy. Each function here decides one thing and
changes nothing.

==========  =================================================================
Phase       Meaning
==========  =================================================================
attaching   The destination is being prepared: the export of the source, and
            at the destination target, login and link, may be there.
attached    Nova has the connection. Both hosts can use the vdisk of the
            source, and a live migration sees to it that one does at a time.
aborting    The destination was detached: target, link, login and export go.
            If a process there has the vdisk open, it is attached again.
left        The source is detached, the server is at the destination.
deciding    The destination makes its copy the volume. Only it knows if its
            link leads to the copy already.
releasing   The destination has the volume: it logs out, and the source
            removes the export and deletes its vdisk.
==========  =================================================================
"""

import collections.abc
import dataclasses
import enum

from oslo_utils import uuidutils

from nova_diskplacer import exception

#: keys of the record in the admin metadata of a volume
FROM = 'vdisk_move_from'
TO = 'vdisk_move_to'
SERVER = 'vdisk_move_server'
PHASE = 'vdisk_move_phase'
KEYS = (FROM, TO, SERVER, PHASE)

#: key of what a copy of a server that was off was made of, for copy_mark
COPIED = 'vdisk_move_copied'

ATTACHING = 'attaching'
ATTACHED = 'attached'
ABORTING = 'aborting'
LEFT = 'left'
DECIDING = 'deciding'
RELEASING = 'releasing'
PHASES = (ATTACHING, ATTACHED, ABORTING, LEFT, DECIDING, RELEASING)

# Longest value of admin metadata.
_LONGEST = 255


@dataclasses.dataclass(frozen=True)
class Record:
    """The record of a server's move.

    :param source: Cinder host of the source's backend, without a pool.
    :param to: that of the destination's backend.
    :param server: UUID of the server.
    :param phase: of ``PHASES``.
    """

    source: str
    to: str
    server: str
    phase: str

    @property
    def source_host(self) -> str:
        """Name of the source."""
        return self.source.partition('@')[0]

    @property
    def host(self) -> str:
        """Name of the destination."""
        return self.to.partition('@')[0]

    @property
    def is_undecided(self) -> bool:
        """True if both hosts have the vdisk, and neither is decided on."""
        return self.phase in (ATTACHED, LEFT)


class Act(enum.Enum):
    """The next act of a move."""

    #: nothing that concerns a move
    NONE = 'none'
    #: nothing: the export, or what the destination has of it, stays as it is
    KEEP = 'keep'
    #: record the move, export the vdisk and connect the destination
    BEGIN = 'begin'
    #: export the vdisk and connect the destination, which may be done already
    GO_ON = 'go on'
    #: record that the server may use the vdisk at the source again
    RETURN = 'return'
    #: record that the source is left, and reserve the space of its vdisk
    LEAVE = 'leave'
    #: undo at the destination, remove the export, forget the record
    ABORT = 'abort'
    #: export the vdisk as it was before the host was restarted
    EXPORT = 'export'
    #: remove the export, and delete the vdisk of the source
    RELEASE = 'release'
    #: ask the destination if it has decided
    ASK = 'ask'
    #: attach nothing now
    REFUSE = 'refuse'
    #: remove target, link and login at the destination
    UNDO = 'undo'
    #: log in and link, as before the host was restarted
    CONNECT = 'connect'
    #: record that the destination has not decided
    STAY = 'stay'
    #: nothing: what settles the data goes on
    SETTLE = 'settle'
    #: have the source release, forget the record
    FINISH = 'finish'


def parse(metadata: collections.abc.Mapping[str, str]) -> Record | None:
    """Parse the record in admin metadata; None for a volume at rest.

    :raises DiskPlacerError: a value is missing or invalid.
    """
    values = {key: metadata[key] for key in KEYS if key in metadata}
    if not values:
        return None
    for key in KEYS:
        value = values.get(key, '')
        if not _is_valid(key, value):
            raise exception.DiskPlacerError(
                f'admin metadata {key}={value!r} of the volume is not valid: '
                f'it must be {_ALLOWED[key]}'
            )
    return Record(*(values[key] for key in KEYS))


def format_record(record: Record) -> dict[str, str]:
    """Return the admin metadata of a record.

    :raises DiskPlacerError: it could not be parsed again.
    """
    metadata = {
        FROM: record.source,
        TO: record.to,
        SERVER: record.server,
        PHASE: record.phase,
    }
    parse(metadata)
    return metadata


def attach_at_source(
    record: Record | None,
    here: str,
    host: str,
    server: str,
    attached: collections.abc.Container[str],
    *,
    aborted: bool = False,
) -> Act:
    """Decide how the source attaches its volume to a host.

    :param here: name of the source.
    :param host: that of the host that attaches it.
    :param server: UUID of the server that it is for.
    :param attached: names of the hosts that have it attached.
    :param aborted: whether ``ABORT`` was decided before and is done, as far
        as the destination answers.
    :returns: NONE for the host itself; BEGIN, GO_ON, RETURN, REFUSE; or ABORT
        and ASK, after which the record is read again.
    """
    is_here = host == here
    if record is None:
        return Act.NONE if is_here else Act.BEGIN
    if record.phase == ABORTING and aborted:
        return Act.NONE if is_here else Act.REFUSE
    if record.phase in (DECIDING, RELEASING):
        return Act.ASK if is_here else Act.REFUSE
    if (
        record.phase != ABORTING
        and host == record.host
        and server == record.server
    ):
        return Act.GO_ON
    if is_stale(record, attached):
        return Act.ABORT
    if not is_here:
        return Act.REFUSE
    return Act.RETURN if record.phase == LEFT else Act.NONE


def detach_at_source(
    record: Record | None,
    here: str,
    host: str,
    attached: collections.abc.Container[str],
    *,
    shared: bool = False,
    gone: bool = False,
) -> Act:
    """Decide what a detachment means, while the source has the volume.

    The attachment is still in the database.

    :param shared: whether the host has another one, and so stays attached: a
        user can make and delete one beside that of Nova.
    :param gone: whether the server is deleted, so that nobody uses what Nova
        has forgotten to detach.
    :returns: NONE, KEEP, LEAVE or ABORT; the export stays after KEEP, LEAVE.
    """
    if record is None:
        return Act.NONE
    if record.phase in (DECIDING, RELEASING):
        return Act.KEEP
    if record.phase == ABORTING:
        return Act.ABORT
    if gone and record.is_undecided:
        return Act.ABORT
    if shared:
        return Act.KEEP
    if host == record.host:
        return Act.ABORT
    if host != here:
        return Act.NONE
    if record.phase == ATTACHED:
        return Act.LEAVE if record.host in attached else Act.ABORT
    if record.phase == LEFT and is_stale(record, attached):
        return Act.ABORT
    return Act.KEEP


def unexport_at_source(
    record: Record | None, attached: collections.abc.Container[str]
) -> Act:
    """Decide what becomes of an export that Cinder wants to be removed.

    :returns: NONE, KEEP or ABORT.
    """
    if record is None:
        return Act.NONE
    return Act.ABORT if is_stale(record, attached) else Act.KEEP


def start_at_source(
    record: Record,
    attached: collections.abc.Container[str],
    *,
    has_volume: bool,
) -> Act:
    """Decide how the start of cinder-volume on the source goes on.

    :param has_volume: whether ``volume.host`` is the source.
    :returns: EXPORT, ABORT or RELEASE.
    """
    if not has_volume:
        return Act.RELEASE
    return Act.ABORT if is_stale(record, attached) else Act.EXPORT


def go_on_at_destination(
    record: Record,
    *,
    has_volume: bool,
    decided: bool,
    logged_in: bool,
    starts: bool = False,
) -> Act:
    """Decide how the destination goes on, at a start or when it is asked.

    :param has_volume: whether ``volume.host`` is the destination.
    :param decided: whether its link leads to its own copy.
    :param logged_in: whether there may be a session with the source.
    :param starts: whether cinder-volume starts there, so that an attachment
        that was in progress has ended.
    :returns: FINISH, SETTLE, STAY, UNDO, CONNECT or KEEP; after STAY, the
        record is read again.
    """
    if has_volume:
        return Act.SETTLE if logged_in else Act.FINISH
    if record.phase == DECIDING:
        return Act.SETTLE if decided else Act.STAY
    if record.phase == ATTACHING and not starts:
        # it is asked late: the next attachment has begun
        return Act.KEEP
    if record.phase in (ATTACHING, ABORTING):
        return Act.UNDO
    return Act.CONNECT


def is_stale(record: Record, attached: collections.abc.Container[str]) -> bool:
    """Return whether nobody uses the export, or is to begin to.

    Cinder saves the host of an attachment only after the source has
    connected the destination; if it fails to, it tells the driver nothing.
    """
    if record.is_undecided:
        return record.host not in attached
    return record.phase in (ATTACHING, ABORTING)


_BACKEND = 'a Cinder host without a pool, HOST@SECTION'
_ALLOWED = {
    FROM: _BACKEND,
    TO: _BACKEND,
    SERVER: 'the UUID of a server',
    PHASE: 'one of ' + ', '.join(PHASES),
}


def _is_valid(key: str, value: str) -> bool:
    if key == SERVER:
        return bool(uuidutils.is_uuid_like(value))
    if key == PHASE:
        return value in PHASES
    host, _, section = value.partition('@')
    return (
        bool(host and section)
        and len(value) <= _LONGEST
        and not {'#', '@', ' '} & set(section)
    )
