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

import itertools
import unittest

import hypothesis
import testtools
from hypothesis import stateful
from hypothesis import strategies

from cinder_vdisk_mapper.server_moves import record
from nova_diskplacer import exception

SERVER = '3b241101-e2bb-4255-8caf-4136c566a962'
OTHER = '3b241101-e2bb-4255-8caf-4136c566a963'
HERE, THERE = 'a', 'b'
FROM, TO = 'a@vdisk', 'b@vdisk'


class FormatTestCase(testtools.TestCase):
    def test_round_trip(self):
        for phase in record.PHASES:
            one = record.Record(FROM, TO, SERVER, phase)
            self.assertEqual(one, record.parse(record.format_record(one)))
        self.assertEqual('b', one.host)

    def test_at_rest(self):
        self.assertIsNone(record.parse({'readonly': 'False'}))

    def test_bad_values(self):
        good = record.format_record(
            record.Record(FROM, TO, SERVER, record.ATTACHED)
        )
        for key, value in (
            (record.FROM, ''),
            (record.FROM, 'a'),
            (record.TO, ''),
            (record.TO, 'b'),
            (record.TO, '@vdisk'),
            (record.TO, 'b@'),
            (record.TO, 'b@vdisk#pool'),
            (record.TO, 'b@vdisk@x'),
            (record.TO, f'{"b" * 250}@vdisk'),
            (record.SERVER, 'server'),
            (record.SERVER, ''),
            (record.PHASE, 'Attached'),
            (record.PHASE, ''),
        ):
            error = self.assertRaises(
                exception.DiskPlacerError, record.parse, good | {key: value}
            )
            self.assertIn(f'{key}={value!r}', str(error))
        for key in record.KEYS:
            missing = {k: v for k, v in good.items() if k != key}
            error = self.assertRaises(
                exception.DiskPlacerError, record.parse, missing
            )
            self.assertIn(key, str(error))

    def test_is_not_written_if_it_cannot_be_read(self):
        self.assertRaises(
            exception.DiskPlacerError,
            record.format_record,
            record.Record(FROM, 'b' * 256, SERVER, record.ATTACHED),
        )

    @hypothesis.given(
        strategies.dictionaries(
            strategies.sampled_from(record.KEYS), strategies.text()
        )
    )
    def test_any_value(self, metadata):
        try:
            found = record.parse(metadata)
        except exception.DiskPlacerError:
            return
        self.assertEqual(metadata, found and record.format_record(found) or {})


class AttachTestCase(testtools.TestCase):
    def assertAct(self, expected, phase, host, attached, **fields):
        one = record.Record(FROM, TO, SERVER, phase) if phase else None
        server = fields.pop('server', SERVER)
        self.assertIs(
            expected,
            record.attach_at_source(
                one, HERE, host, server, attached, **fields
            ),
            (phase, host, attached, fields),
        )

    def test_at_rest(self):
        self.assertAct(record.Act.NONE, None, HERE, ())
        self.assertAct(record.Act.BEGIN, None, THERE, (HERE,))

    def test_repeated(self):
        for phase in (record.ATTACHING, record.ATTACHED, record.LEFT):
            self.assertAct(record.Act.GO_ON, phase, THERE, (HERE,))

    def test_of_another_server(self):
        """A record that was left when its server was deleted."""
        self.assertAct(
            record.Act.ABORT, record.ATTACHED, THERE, (), server=OTHER
        )
        self.assertAct(
            record.Act.REFUSE, record.ATTACHED, THERE, (THERE,), server=OTHER
        )

    def test_to_a_third_host(self):
        self.assertAct(record.Act.ABORT, record.ATTACHING, 'c', ())
        self.assertAct(record.Act.REFUSE, record.LEFT, 'c', (THERE,))
        self.assertAct(record.Act.REFUSE, record.DECIDING, 'c', (THERE,))

    def test_back(self):
        self.assertAct(record.Act.RETURN, record.LEFT, HERE, (THERE,))
        self.assertAct(record.Act.NONE, record.ATTACHED, HERE, (THERE,))
        self.assertAct(record.Act.ABORT, record.ATTACHED, HERE, ())
        self.assertAct(record.Act.ASK, record.DECIDING, HERE, ())

    def test_while_the_destination_is_away(self):
        """The vdisk is whole here, and its server may have it."""
        self.assertAct(record.Act.ABORT, record.ABORTING, HERE, ())
        self.assertAct(
            record.Act.NONE, record.ABORTING, HERE, (), aborted=True
        )
        self.assertAct(
            record.Act.REFUSE, record.ABORTING, THERE, (), aborted=True
        )


class DetachTestCase(testtools.TestCase):
    def assertAct(self, expected, phase, host, **fields):
        one = record.Record(FROM, TO, SERVER, phase)
        self.assertIs(
            expected,
            record.detach_at_source(one, HERE, host, (HERE, THERE), **fields),
            (phase, host, fields),
        )

    def test_one_of_two_attachments_of_a_host(self):
        """Who has made the other one still uses the vdisk there."""
        for phase in (record.ATTACHED, record.LEFT):
            self.assertAct(record.Act.ABORT, phase, THERE)
            self.assertAct(record.Act.KEEP, phase, THERE, shared=True)
        self.assertAct(record.Act.LEAVE, record.ATTACHED, HERE)
        self.assertAct(record.Act.KEEP, record.ATTACHED, HERE, shared=True)
        self.assertAct(record.Act.KEEP, record.LEFT, HERE)
        self.assertAct(record.Act.ABORT, record.ABORTING, THERE, shared=True)

    def test_nobody_uses_it(self):
        """The destination asks the source, which is not attached either."""
        for phase, act in (
            (record.ATTACHING, record.Act.KEEP),
            (record.ATTACHED, record.Act.ABORT),
            (record.ABORTING, record.Act.ABORT),
            (record.LEFT, record.Act.ABORT),
            (record.DECIDING, record.Act.KEEP),
        ):
            one = record.Record(FROM, TO, SERVER, phase)
            self.assertIs(
                act, record.detach_at_source(one, HERE, HERE, ()), phase
            )

    def test_the_server_is_deleted(self):
        """Nobody uses what Nova has forgotten to detach."""
        for phase, act in (
            (record.ATTACHED, record.Act.ABORT),
            (record.LEFT, record.Act.ABORT),
            (record.ABORTING, record.Act.ABORT),
            # it may have decided
            (record.DECIDING, record.Act.KEEP),
            (record.RELEASING, record.Act.KEEP),
        ):
            one = record.Record(FROM, TO, SERVER, phase)
            found = record.detach_at_source(
                one, HERE, HERE, (THERE,), gone=True
            )
            self.assertEqual(act, found, phase)

    def test_the_destination_is_asked_late(self):
        """An attachment in progress is undone by a start alone."""
        for phase, asked, starts in (
            (record.ATTACHING, record.Act.KEEP, record.Act.UNDO),
            (record.ABORTING, record.Act.UNDO, record.Act.UNDO),
            (record.ATTACHED, record.Act.CONNECT, record.Act.CONNECT),
        ):
            one = record.Record(FROM, TO, SERVER, phase)
            for act, is_start in ((asked, False), (starts, True)):
                found = record.go_on_at_destination(
                    one,
                    has_volume=False,
                    decided=False,
                    logged_in=True,
                    starts=is_start,
                )
                self.assertIs(act, found, phase)


class Move(stateful.RuleBasedStateMachine):
    """Two hosts, Cinder's database and Nova.

    Operations of both hosts are generators that yield before each act, so
    that others run in between, and that a kill ends. Of each host one runs at
    a time, as its lock sees to. ``latest`` counts the writes of the guest.
    """

    def __init__(self):
        super().__init__()
        # the database
        self.record = None
        self.holder = HERE
        self.exported = False
        self.attached = {HERE}
        # the hosts: content of the vdisks, None where there is none
        self.content = {HERE: 0, THERE: None}
        self.export = self.login = False
        self.link = None
        self.up = {HERE: True, THERE: True}
        self.running = {}
        # the server, and whether its QEMU writes to source and destination
        self.host = HERE
        self.connected = {HERE}
        self.mirrored = False
        self.latest = 0

    def run_at(self, host):
        """Have the server run there, or not at all; its copy ends."""
        if host != self.host:
            self.host = host
            self.mirrored = False

    # the database

    def advance(self, before, after):
        """Change the phase, if it is as expected."""
        if self.record and self.record.phase == before:
            self.record = record.Record(FROM, TO, self.record.server, after)
            return True
        return False

    # acts of the source

    def make_export(self):
        self.exported = True
        yield
        self.export = True

    def abort(self):
        phase = self.record.phase
        yield
        if phase != record.ABORTING and not self.advance(
            phase, record.ABORTING
        ):
            return False
        yield
        undone = yield from self.call(THERE, self.undo_aborted)
        if self.record and self.record.phase != record.ABORTING:
            # its server is there in truth
            return False
        if not undone and self.host == THERE and THERE in self.attached:
            return False
        yield
        self.export = False
        yield
        self.exported = False
        yield
        if undone and self.record and self.record.phase == record.ABORTING:
            self.record = None
        return True

    def attach(self, host, tried=False, aborted=False):
        """Attach at the source; returns whether it is attached."""
        if self.holder != HERE:
            return (yield from self.attach_settled(host))
        act = record.attach_at_source(
            self.record, HERE, host, SERVER, self.attached, aborted=aborted
        )
        if act is record.Act.ABORT:
            if tried:
                return False
            aborted = yield from self.abort()
            return (yield from self.attach(host, True, aborted))
        if act is record.Act.REFUSE:
            return False
        if act is record.Act.ASK:
            yield from self.call(THERE, self.go_on)
            return False
        if act is record.Act.NONE:
            return True
        if act is record.Act.RETURN:
            return self.advance(record.LEFT, record.ATTACHED)
        if act is record.Act.BEGIN:
            self.record = record.Record(FROM, TO, SERVER, record.ATTACHING)
        yield
        yield from self.make_export()
        yield
        if not (yield from self.call(THERE, self.connect)):
            yield from self.unexport()
            return False
        yield
        if self.advance(record.ATTACHING, record.ATTACHED):
            return True
        return self.record is not None and self.record.phase in (
            record.ATTACHED,
            record.LEFT,
        )

    def attach_settled(self, host):
        """The destination has the volume; another move is another test."""
        yield
        return host == THERE

    def detach(self, host):
        """Return once the attachment may be deleted."""
        if self.holder == HERE:
            act = record.detach_at_source(
                self.record, HERE, host, self.attached
            )
            if act is record.Act.LEAVE:
                yield
                self.advance(record.ATTACHED, record.LEFT)
            elif act is record.Act.ABORT:
                yield from self.abort()
            if act not in (record.Act.LEAVE, record.Act.KEEP):
                yield from self.unexport()
        return True

    def unexport(self):
        if self.holder != HERE:
            return
        act = record.unexport_at_source(self.record, self.attached)
        if act is record.Act.ABORT:
            yield from self.abort()

    def release(self):
        if self.record is None or self.holder == HERE:
            return True
        yield
        self.export = False
        yield
        self.content[HERE] = None
        yield
        self.exported = False
        return True

    def start_source(self):
        if self.record is None:
            return
        act = record.start_at_source(
            self.record, self.attached, has_volume=self.holder == HERE
        )
        if act is record.Act.ABORT:
            yield from self.abort()
        elif act is record.Act.EXPORT:
            yield from self.make_export()
        else:
            yield from self.release()
            yield from self.call(THERE, self.go_on)

    # acts of the destination

    def connect(self):
        if not self.record or self.record.phase not in (
            record.ATTACHING,
            record.ATTACHED,
            record.LEFT,
        ):
            return False
        yield
        if self.content[THERE] is None:
            self.content[THERE] = -1
        yield
        if not self.export:
            return False
        self.login = True
        yield
        self.link = 'remote'
        return True

    @property
    def is_open(self):
        """Whether QEMU has the device of the session open."""
        return self.host == THERE and self.login and self.link == 'remote'

    def undo_aborted(self):
        if self.is_open:
            yield
            if self.exported:
                self.advance(record.ABORTING, record.ATTACHED)
            return False
        return (yield from self.undo())

    def undo(self):
        if self.link == 'own':
            raise AssertionError('what was decided is undone')
        assert not self.is_open, 'QEMU loses its disk'
        yield
        assert not self.is_open, 'QEMU loses its disk'
        self.link = None
        yield
        self.login = False
        yield
        self.content[THERE] = None
        return True

    def go_on(self, starts=False):
        if self.record is None:
            return True
        act = record.go_on_at_destination(
            self.record,
            has_volume=self.holder == THERE,
            decided=self.link == 'own',
            logged_in=self.login,
            starts=starts,
        )
        yield
        if act is record.Act.STAY:
            self.advance(record.DECIDING, record.LEFT)
            yield from self.go_on(starts)
        elif act is record.Act.UNDO:
            if not (yield from self.undo_aborted()):
                return False
            if (
                self.record
                and self.record.phase == record.ABORTING
                and not self.exported
            ):
                self.record = None
        elif act is record.Act.CONNECT:
            yield from self.connect()
        elif act is record.Act.FINISH:
            yield from self.finish()
        return True

    def finish(self):
        if self.link != 'own':
            raise AssertionError('the destination has the volume unlinked')
        self.advance(record.DECIDING, record.RELEASING)
        yield
        if self.exported:
            yield
            if not (yield from self.call(HERE, self.release)):
                return
        yield
        if not self.exported:
            self.record = None

    def settle(self):
        """Copy, and make the copy the volume."""
        yield
        if self.link != 'own':
            if self.host != THERE:
                return
            self.content[THERE] = self.latest
            self.mirrored = True
            yield
            if not self.mirrored or self.attached != {THERE}:
                return
            if not self.advance(record.LEFT, record.DECIDING):
                return
            yield
            self.link = 'own'
            yield
        self.holder = THERE
        yield
        self.advance(record.DECIDING, record.RELEASING)
        yield
        self.login = False
        yield
        yield from self.go_on()

    # who runs

    def call(self, host, operation):
        """Have the other host do something; False if it does not answer."""
        if not self.up[host] or host in self.running:
            return False
        inner = operation()
        self.running[host] = inner
        while True:
            try:
                next(inner)
            except StopIteration as stop:
                self.running.pop(host, None)
                return bool(stop.value)
            yield
            if self.running.get(host) is not inner:
                # it was killed
                return False

    def run_all(self, host):
        """Let the operation of a host end; returns its result."""
        operation = self.running.get(host)
        while operation is not None:
            try:
                next(operation)
            except StopIteration as stop:
                if self.running.get(host) is operation:
                    del self.running[host]
                return stop.value
        return None

    def do(self, host, operation, done=lambda: None):
        """Begin an operation of a host."""

        def whole():
            if (yield from operation):
                done()

        self.running[host] = whole()

    def free(self, *hosts):
        return all(
            self.up[host] and host not in self.running for host in hosts
        )

    # Nova

    @stateful.initialize(
        reached=strategies.sampled_from((None, 'attached', 'left', 'copied')),
        acts=strategies.integers(0, 9),
        restarted=strategies.booleans(),
    )
    def is_under_way(self, reached, acts, restarted):
        """Begin with a move that has come so far."""
        if reached is None:
            return
        self.do(HERE, self.attach(THERE), lambda: self._attached(THERE))
        self.run_all(HERE)
        if reached == 'attached':
            return
        self.guest_migrates()
        self.nova_detaches(HERE)
        self.run_all(HERE)
        if reached == 'copied':
            self.settle_begins()
            for _ in range(acts):
                self.goes_on(THERE)
            if restarted:
                self.is_killed(THERE)
                self.starts(THERE)

    @stateful.precondition(lambda self: self.free(HERE))
    @stateful.rule(host=strategies.sampled_from((HERE, THERE)))
    def nova_attaches(self, host):
        """Of one server; a host that is down attaches nothing."""
        if self.holder == HERE and self.up[host]:
            self.do(HERE, self.attach(host), lambda: self._attached(host))

    def _attached(self, host):
        self.attached.add(host)
        self.connected.add(host)
        if self.host is None:
            self.run_at(host)

    @stateful.precondition(
        lambda self: self.free(HERE) and self.holder == HERE
    )
    @stateful.rule(host=strategies.sampled_from((HERE, THERE)))
    def nova_detaches(self, host):
        """The server is stopped there, or at the other end."""
        if host not in self.attached:
            return
        if self.host == host:
            others = self.connected - {host}
            self.run_at(min(others) if others else None)
        self.connected.discard(host)
        self.do(HERE, self.detach(host), lambda: self.attached.discard(host))

    @stateful.precondition(
        lambda self: self.free(HERE) and self.holder == HERE
    )
    @stateful.rule()
    def abort_is_late(self):
        """A request to detach comes once more, or from a user."""
        if THERE in self.attached:
            self.do(HERE, self.detach(THERE))

    @stateful.precondition(
        lambda self: self.free(HERE) and self.holder == HERE
    )
    @stateful.rule()
    def nobody_has_used_it_for_long(self):
        """The destination asks the source to undo it."""
        found = self.record
        if (
            found
            and found.phase != record.ATTACHING
            and record.is_stale(found, self.attached)
        ):
            self.do(HERE, self.detach(HERE))

    @stateful.precondition(lambda self: len(self.connected) == 2)
    @stateful.rule()
    def guest_migrates(self):
        """Live: it runs on one of two hosts that have the volume."""
        if self.record and self.record.phase == record.ATTACHED:
            self.run_at(THERE if self.host == HERE else HERE)

    @stateful.rule()
    def guest_writes(self):
        host = self.host
        if host is None:
            return
        if host == HERE:
            assert self.holder == HERE, 'it runs where the volume is not'
            self.latest = self.content[HERE] = self.latest + 1
        elif self.link == 'own':
            self.latest = self.content[THERE] = self.latest + 1
        elif self.link == 'remote' and self.login and self.export:
            self.latest = self.content[HERE] = self.latest + 1
            if self.mirrored:
                self.content[THERE] = self.latest

    @stateful.precondition(
        lambda self: (
            self.up[THERE]
            and THERE not in self.running
            and self.record
            and self.record.phase == record.LEFT
            and self.host == THERE
            and self.attached == {THERE}
            and self.login
            and self.link == 'remote'
        )
    )
    @stateful.rule()
    def settle_begins(self):
        self.do(THERE, self.settle())

    # time and faults

    @stateful.precondition(lambda self: self.running)
    @stateful.rule(host=strategies.sampled_from((HERE, THERE)))
    def goes_on(self, host):
        """One more act of an operation."""
        operation = self.running.get(host)
        if operation is not None:
            try:
                next(operation)
            except (StopIteration, ValueError):
                # ValueError: its caller runs it
                if self.running.get(host) is operation:
                    del self.running[host]

    @stateful.precondition(lambda self: self.running)
    @stateful.rule(host=strategies.sampled_from((HERE, THERE)))
    def ends(self, host):
        self.run_all(host)

    @stateful.rule(host=strategies.sampled_from((HERE, THERE)))
    def is_killed(self, host):
        """cinder-volume is; the kernel keeps exports and sessions."""
        self.running.pop(host, None)
        self.up[host] = False

    @stateful.rule(host=strategies.sampled_from((HERE, THERE)))
    def loses_power(self, host):
        self.is_killed(host)
        if host == HERE:
            self.export = False
        else:
            self.login = False
        if self.host == host:
            self.run_at(None)
            self.connected.discard(host)

    @stateful.precondition(lambda self: not all(self.up.values()))
    @stateful.rule(host=strategies.sampled_from((HERE, THERE)))
    def starts(self, host):
        if self.up[host]:
            return
        self.up[host] = True
        self.do(
            host, self.start_source() if host == HERE else self.go_on(True)
        )
        self.run_all(host)

    # what holds at any time

    @stateful.invariant()
    def has_one_true_copy(self):
        decided = self.record and self.record.phase == record.DECIDING
        if self.holder == THERE or (decided and self.link == 'own'):
            truth = self.content[THERE]
        else:
            truth = self.content[HERE]
        assert truth == self.latest, (truth, self.latest)

    @stateful.invariant()
    def has_a_record_of_what_is_there(self):
        if self.record is None:
            assert not self.export
            assert not self.exported
            assert not self.login
            assert self.content[THERE if self.holder == HERE else HERE] is None
            assert self.link == (None if self.holder == HERE else 'own')

    def teardown(self):
        """Both start, in any order, and nothing is left.

        The source starts once more: the destination may have told it only now
        that it has not decided, for a server that was detached meanwhile.
        """
        self.running.clear()
        self.up = dict.fromkeys(self.up, False)
        order = (HERE, THERE) if self.latest % 2 else (THERE, HERE)
        for host in order:
            self.starts(host)
        if self.link == 'own' and self.record:
            # it has decided, and is started again, too
            self.do(THERE, self.settle())
            self.run_all(THERE)
        self.has_one_true_copy()
        self.has_a_record_of_what_is_there()
        self.is_killed(HERE)
        self.starts(HERE)
        self.has_one_true_copy()
        self.has_a_record_of_what_is_there()
        if self.record and self.record.phase == record.ABORTING:
            # Cinder has an attachment there, which the destination keeps
            assert THERE in self.attached
            self.nova_detaches(THERE)
            self.run_all(HERE)
            self.has_one_true_copy()
            self.has_a_record_of_what_is_there()
            assert self.record is None
        if self.record is None:
            return
        # the destination uses the volume, which is not settled
        assert self.record.phase in (record.ATTACHED, record.LEFT)
        assert THERE in self.attached
        assert self.holder == HERE
        assert self.export


class MoveTestCase(Move.TestCase, unittest.TestCase):
    settings = hypothesis.settings(
        max_examples=200, stateful_step_count=40, deadline=None
    )


class DecisionTestCase(unittest.TestCase):
    """All orders of three events after each act of the move of the data."""

    def attach(self, move):
        if move.free(HERE):
            move.nova_attaches(HERE)
            move.run_all(HERE)

    def detach(self, move):
        if move.free(HERE) and move.holder == HERE:
            move.nova_detaches(THERE)
            move.run_all(HERE)

    def test_events(self):
        for acts, restarted, events in itertools.product(
            range(10),
            (False, True),
            itertools.product(
                (
                    self.attach,
                    self.detach,
                    Move.guest_writes,
                    lambda move: move.ends(THERE),
                    lambda move: move.loses_power(THERE),
                    lambda move: move.starts(THERE),
                ),
                repeat=3,
            ),
        ):
            move = Move()
            move.is_under_way('copied', acts, restarted)
            for event in events:
                event(move)
                move.has_one_true_copy()
                move.has_a_record_of_what_is_there()
            move.teardown()
