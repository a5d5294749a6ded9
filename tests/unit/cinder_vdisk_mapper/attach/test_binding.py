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

"""Binding vdisks to disks."""

import collections
import contextlib
import dataclasses
import threading
import time
from unittest import mock

import fixtures
import hypothesis
import testtools
from hypothesis import stateful
from hypothesis import strategies
from oslo_concurrency import lockutils
from oslo_config import fixture as config_fixture

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.attach import bind_request
from cinder_vdisk_mapper.attach import binding
from cinder_vdisk_mapper.attach import disk_choice
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import operations
from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer import mapping as mappings
from nova_diskplacer.disks import move_records
from nova_diskplacer.placement import client as placement_client
from tests.fakes import disks as fake_disks
from tests.unit.cinder_vdisk_mapper import fakes


def server(uuid='server', host='host', **request):
    """Return a server; ``request`` is what its flavor asks for."""
    return nova_api.Server(
        uuid,
        fakes.PROJECT,
        host,
        flavor.VDiskRequest(**request) if request else None,
    )


def request(volume_id='volume', size_gb=10, for_=None, **fields):
    """Return a request to bind a vdisk, which is blank."""
    wanted = for_ and for_.request
    return bind_request.BindRequest(
        **{
            'name': f'volume-{volume_id}',
            'volume_id': volume_id,
            'size_gb': size_gb,
            'server': for_,
            'boot_time': False,
            'of_flavor': not wanted or wanted.is_vdisk(size_gb, None, False),
            'policy': 'round_robin',
            'attached': dict,
            **fields,
        }
    )


class BindingTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        conf = self.useFixture(config_fixture.Config(lockutils.CONF))
        path = self.useFixture(fixtures.TempDir()).path
        conf.config(lock_path=path, group='oslo_concurrency')
        self.setup(*(fake_disks.make_disk(uuid) for uuid in 'abc'))

    def setup(self, *disks, media='any'):
        """Make a binder of these disks."""
        self.backend = fakes.Backend(*disks)
        self.placement = fakes.Placement(*disks)
        self.operations = operations.VDiskOperations(
            self.backend, self.placement
        )
        self.binder = binding.Binder(self.operations, media)

    def bind(self, what):
        """Bind a vdisk and return the text of its location."""
        with binding.locked(what):
            return str(self.binder.bind(what))

    def reserved(self):
        """Return the reserved GiB of each disk."""
        return {
            disk: offered[placement_client.GB]['reserved']
            for disk, offered in self.placement.offered.items()
        }

    def assertRefused(self, pattern, what):
        before = self.backend.disks()
        error = self.assertRaises(
            exception.DiskPlacerError, self.binder.bind, what
        )
        self.assertRegex(str(error), pattern)
        self.assertEqual(before, self.backend.disks())


class LockTestCase(BindingTestCase):
    """A disk is changed by who holds its lock, and told to Placement."""

    def setUp(self):
        super().setUp()
        self.held = []
        lock = locks.hold

        @contextlib.contextmanager
        def noted(name):
            with lock(name):
                self.held.append(name)
                try:
                    yield
                finally:
                    self.held.remove(name)

        self.useFixture(
            fixtures.MonkeyPatch(
                'cinder_vdisk_mapper.vdisks.locks.hold', noted
            )
        )
        self.seen = []
        self.backend.changed = lambda: self.seen.append(set(self.held))

    def assertLocked(self, *names):
        self.assertEqual([set(names)], self.seen)
        self.seen.clear()

    def test_claimed(self):
        self.placement.claim('server', {'a': 10})
        who = server(vdisks=1, vdisk_gb=10)
        self.bind(request('1', 10, who))
        self.assertLocked('server-server', 'volume-1', 'disk-a')

    def test_not_claimed(self):
        self.bind(request('1', 10))
        self.assertLocked('volume-1', 'disk-a')

    def test_changes(self):
        self.bind(request('1', 10))
        self.seen.clear()
        self.operations.snapshot('a', 'volume-1', 'snapshot-1', 's')
        self.assertLocked('disk-a')
        self.operations.clone('a', 'volume-1', 'volume-2', '2', 10)
        self.assertLocked('disk-a')
        self.operations.allocate('a', 'volume-3', '3', 10)
        self.assertLocked('disk-a')
        self.operations.extend('a', 'volume-1', 20)
        self.assertEqual([{'disk-a'}] * 2, self.seen)


class BindTestCase(BindingTestCase):
    def test_claims_are_filled_by_vdisks_of_the_flavor_alone(self):
        self.placement.claim('server', {'a': 10, 'c': 10})
        who = server(vdisks=2, vdisk_gb=10)
        self.assertEqual('b', self.bind(request('1', 4, who)))
        self.assertEqual('a', self.bind(request('2', 10, who)))
        self.assertEqual('c', self.bind(request('3', 10, who)))
        self.assertEqual({'a': 0, 'b': 4, 'c': 0}, self.reserved())

    def test_no_vdisk_of_the_flavor(self):
        """It takes neither the claim of one nor its place on the disk."""
        for size in (4, 10, 20):
            self.setup(*(fake_disks.make_disk(uuid) for uuid in 'ab'))
            self.placement.claim('server', {'a': 10, 'b': 10})
            who = server(vdisks=2, vdisk_gb=10)
            root = request('root', size, who, of_flavor=False)
            where = self.bind(root)
            self.assertEqual(size, self.reserved()[where])
            self.assertEqual(
                ['a', 'b'],
                sorted(
                    self.bind(request(n, 10, who, boot_time=True))
                    for n in '12'
                ),
            )
            # as at the next attachment, after the server was shelved
            self.binder.check_max_per_disk(root, where)
            self.assertEqual(size, sum(self.reserved().values()))

    def test_no_vdisk_of_the_flavor_and_nothing_but_claims(self):
        self.setup(fake_disks.make_disk('a', 20))
        self.placement.claim('server', {'a': 20})
        who = server(vdisks=2, vdisk_gb=10, mapping='consolidated')
        self.assertRefused('no disk for volume', request('root', 1, who))
        for number in '12':
            self.bind(request(number, 10, who, boot_time=True))

    def test_vdisks_per_disk(self):
        self.placement.claim('server', {'a': 20, 'b': 20})
        who = server(vdisks=4, vdisk_gb=10, vdisks_per_disk=2)
        bound = [self.bind(request(n, 10, who)) for n in '1234']
        self.assertEqual(['a', 'b', 'a', 'b'], bound)

    def test_boot_time_volume_is_bound_to_a_claim_or_not_at_all(self):
        self.placement.claim('server', {'a': 10})
        who = server(vdisks=1, vdisk_gb=10)
        self.bind(request('1', 10, who, boot_time=True))
        self.assertRefused(
            'volume 2 of 10 GiB does not fit the claims of server server',
            request('2', 10, who, boot_time=True),
        )
        # without a claim there is nothing to hold on to
        other = server('other')
        self.bind(request('3', 10, other, boot_time=True))

    def test_claim_on_a_disk_that_is_away(self):
        self.placement.claim('server', {'a': 10})
        self.setup(
            fake_disks.make_disk('a', health='missing'),
            fake_disks.make_disk('b'),
        )
        self.placement.claim('server', {'a': 10})
        self.assertRefused(
            'disk a, which server server claims, is missing',
            request(for_=server(vdisks=1, vdisk_gb=10), boot_time=True),
        )

    def test_claim_on_a_disk_that_is_none_of_the_backend(self):
        """Nothing is wrong with it: it is of another medium or host."""
        self.setup(
            fake_disks.make_disk('a', medium='hdd'),
            fake_disks.make_disk('b', medium='ssd'),
            media='ssd',
        )
        for disk in ('a', 'elsewhere'):
            self.placement.claims[disk] = {'server': 10}
            self.assertRefused(
                'does not fit the claims of server server',
                request(for_=server(vdisks=1, vdisk_gb=10), boot_time=True),
            )
            del self.placement.claims[disk]

    def test_claim_on_a_disk_that_is_drained(self):
        """It is filled by volumes of the boot alone, which it was for."""
        for boot_time, disk in ((False, 'b'), (True, 'a')):
            self.setup(
                fake_disks.make_disk('a', draining=True),
                fake_disks.make_disk('b'),
            )
            self.placement.claim('server', {'a': 10})
            who = server(vdisks=1, vdisk_gb=10)
            self.assertEqual(
                disk,
                self.bind(request('1', 10, who, boot_time=boot_time)),
            )

    def test_a_killed_attachment_to_another_server(self):
        """Its vdisk does not fill the claim of that server any more."""
        self.placement.claim('other', {'a': 10})
        before = request('1', 10, server('other', vdisks=1, vdisk_gb=10))
        self.assertEqual('a', self.bind(before))
        self.assertEqual(0, self.reserved()['a'])
        now = request('1', 10, server(vdisks=1, vdisk_gb=10))
        self.assertEqual('a', self.bind(now))
        self.assertEqual(10, self.reserved()['a'])

    def test_claimed_disk_that_refuses(self):
        self.placement.claim('server', {'a': 10})
        self.backend.full = {'a'}
        self.assertRefused(
            'a is full', request(for_=server(vdisks=1, vdisk_gb=10))
        )

    def test_a_claim_to_come_counts_for_round_robin(self):
        self.placement.claim('server', {'a': 10, 'b': 10})
        who = server(vdisks=2, vdisk_gb=10)
        # other volumes avoid its disks while another one has room
        self.assertEqual('c', self.bind(request('1', 60, who)))
        self.assertEqual('a', self.bind(request('2', 60, who)))

    def test_a_claim_that_no_vdisk_fits_counts_for_round_robin(self):
        self.placement.claim('server', {'a': 5})
        who = server(vdisks=1, vdisk_gb=10)
        bound = [self.bind(request(n, 10, who)) for n in '12']
        self.assertEqual(['b', 'c'], bound)
        self.assertRefused('no disk for volume 3', request('3', 10, who))

    def test_media(self):
        self.setup(
            fake_disks.make_disk('a', medium='ssd'),
            fake_disks.make_disk('b', health='read-only'),
            fake_disks.make_disk('c'),
            media='hdd',
        )
        self.assertEqual('c', self.bind(request('1')))

    def test_full_disk_is_passed_over(self):
        self.backend.full = {'a', 'b'}
        self.assertEqual('c', self.bind(request()))
        self.assertEqual({'a': 0, 'b': 0, 'c': 10}, self.reserved())

    def test_claim_that_comes_in_between_wins(self):
        self.backend.changed = lambda: self.placement.claim('other', {'a': 95})
        self.assertEqual('b', self.bind(request()))
        self.assertEqual({'a': 0, 'b': 10, 'c': 0}, self.reserved())
        self.assertEqual((), self.backend.known['a'].vdisks)

    def test_placement_that_goes_away_leaves_nothing(self):
        def go():
            self.placement.down = True

        self.backend.changed = go
        self.assertRefused('Placement is down', request())
        self.assertRefused('Placement is down', request(for_=server()))

    def test_project_of_the_claims(self):
        self.placement.claim('server', {'a': 10}, 'other')
        self.assertRefused('of project other', request(for_=server()))

    def test_again(self):
        self.assertEqual('a', self.bind(request()))
        self.placement.offered['a'][placement_client.GB]['reserved'] = 0
        self.assertEqual('a', self.bind(request()))
        self.assertEqual({'a': 10, 'b': 0, 'c': 0}, self.reserved())

    def test_again_when_the_volume_was_extended(self):
        """It was not bound then, as the first attachment was killed."""
        self.assertEqual('a', self.bind(request('1', 10)))
        self.placement.claim('other', {'a': 75})
        for size in (20, 10):
            self.assertEqual('a', self.bind(request('1', size)))
            (vdisk,) = self.backend.known['a'].vdisks
            self.assertEqual(20, vdisk.size_gb)
            self.assertEqual({'a': 20, 'b': 0, 'c': 0}, self.reserved())
        # there is room for 5 more
        self.assertRefused(
            'no room to extend volume-1 from 20 to 30 GiB: 5 GiB',
            request('1', 30),
        )
        self.assertEqual({'a': 20, 'b': 0, 'c': 0}, self.reserved())

    def test_again_when_the_room_is_gone(self):
        self.bind(request(size_gb=60))
        self.placement.offered['a'][placement_client.GB]['reserved'] = 0
        self.placement.claim('other', {'a': 50})
        self.assertRefused('are larger than the disk', request(size_gb=60))

    def test_bound_vdisk_of_another_server(self):
        one, other = server('one'), server('other')
        self.bind(request('1', for_=one))
        self.binder.check_max_per_disk(request('1', for_=other), 'a')
        self.binder.check_max_per_disk(request('1'), 'a')
        self.bind(request('2', for_=other))
        error = self.assertRaises(
            errors.BindingError,
            self.binder.check_max_per_disk,
            request('1', for_=other),
            'b',
        )
        self.assertIn('disk b, where server other has 1 vdisks', str(error))
        self.binder.check_max_per_disk(
            request('1', for_=other, policy='consolidated'), 'b'
        )
        lenient = server('other', vdisks=2, vdisk_gb=1, vdisks_per_disk=2)
        self.binder.check_max_per_disk(request('1', for_=lenient), 'b')

    def late(self, uuid, **fields):
        return dataclasses.replace(
            fake_disks.make_disk(uuid), **{'late': True, **fields}
        )

    def test_what_does_not_answer_is_not_chosen(self):
        self.setup(
            self.late('a'),
            self.late('b', late=False, health='hung'),
            fake_disks.make_disk('c'),
        )
        self.assertEqual('c', self.bind(request()))

    def test_a_claimed_disk_is_waited_for(self):
        for listed in (
            self.late('b'),
            self.late('b', late=False, health='hung'),
        ):
            self.setup(fake_disks.make_disk('a'), fake_disks.make_disk('b'))
            self.placement.claim('server', {'b': 10})
            with mock.patch.object(
                self.backend,
                'disks',
                return_value=[self.backend.disk('a'), listed],
            ):
                self.assertEqual(
                    'b',
                    self.bind(request(for_=server(), boot_time=True)),
                )


class MoveTestCase(BindingTestCase):
    """Volume 1 moves from disk a, of hdd, to disk b, of ssd."""

    def setUp(self):
        super().setUp()
        self.setup(
            fake_disks.make_disk('a', medium='hdd'),
            fake_disks.make_disk('b', medium='ssd'),
            fake_disks.make_disk('c', medium='hdd'),
            media='ssd',
        )
        self.backend.create('a', 'volume-1', '1', None, 10)
        self.backend.content['a', 'volume-1'] = 'new'
        self.saved = []

    def move(self):
        self.binder.move(request('1'), 'a', self.saved.append)

    def begun(self, source, target):
        """Have a drain have begun to move the vdisk."""
        record = move_records.Record(source, target)
        self.useFixture(
            fixtures.MockPatchObject(
                self.backend, 'recorded_move', return_value=record
            )
        )

    def test_move(self):
        self.move()
        self.assertEqual(['b'], self.saved)
        self.assertEqual(['b'], self.backend.disks_holding('volume-1'))
        self.assertEqual('new', self.backend.content['b', 'volume-1'])

    def test_a_drain_has_begun_to_move_it(self):
        for disk in 'bc':
            self.backend.create(disk, 'volume-1', '1', None, 10)
            self.begun('a', disk)
            error = self.assertRaises(errors.BindingError, self.move)
            self.assertIn(f'to move volume 1 to disk {disk}', str(error))
            self.assertIn(disk, self.backend.disks_holding('volume-1'))
        self.assertEqual([], self.saved)

    def test_records_of_other_moves(self):
        for source, target in (('a', 'c'), ('c', 'a')):
            self.begun(source, target)
            self.move()
            self.assertEqual(['b'], self.backend.disks_holding('volume-1'))
            self.backend.delete('b', 'volume-1')
            self.backend.create('a', 'volume-1', '1', None, 10)

    def test_the_copy_fails(self):
        error = exception.DiskError('EIO')
        with mock.patch.object(self.backend, 'copy', side_effect=error):
            self.assertRaises(exception.DiskError, self.move)
        self.assertEqual(['a'], self.backend.disks_holding('volume-1'))
        self.assertEqual([], self.saved)


class AttachedTestCase(BindingTestCase):
    def test_vdisks_of_others_that_are_attached_count(self):
        one, other = server('one'), server('other')
        self.assertEqual('a', self.bind(request('1', for_=one)))

        def attached():
            return {'a': frozenset({'volume-1'})}

        # 'a' is the fullest disk, but also where the server has a vdisk
        self.backend.full = {'c'}
        bound = self.bind(request('2', 10, other, attached=attached))
        self.assertEqual('b', bound)
        self.assertRefused(
            'no disk', request('3', 10, other, attached=attached)
        )


class RaceTestCase(BindingTestCase):
    def test_volumes_of_one_server_at_once(self):
        slow = self.backend.create

        def create(*arguments):
            # whoever chose before this one is done must have seen it
            time.sleep(0.02)
            slow(*arguments)

        self.backend.create = create
        who = server()
        results = []

        def bind(number):
            try:
                results.append(self.bind(request(number, 10, who)))
            except errors.BindingError:
                results.append(None)

        threads = [
            threading.Thread(target=bind, args=(str(number),))
            for number in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(
            ['a', 'b', 'c', None, None, None],
            sorted(results, key=lambda disk: disk or 'z'),
        )

    def test_volumes_for_nobody_at_once(self):
        choose, together = (
            disk_choice.free_disk,
            threading.Barrier(3, timeout=200),
        )

        def first_together(*arguments):
            if not hasattr(local, 'chosen'):
                local.chosen = True
                together.wait()
            return choose(*arguments)

        local = threading.local()
        self.useFixture(
            fixtures.MockPatchObject(disk_choice, 'free_disk', first_together)
        )
        results = []
        threads = [
            threading.Thread(
                target=lambda number=number: results.append(
                    self.bind(request(number))
                )
            )
            for number in 'xyz'
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # they all knew of three disks as free as each other
        self.assertEqual(['a', 'b', 'c'], sorted(results))


class LocksTestCase(BindingTestCase):
    def test_volumes_for_nobody_do_not_wait_for_each_other(self):
        disks = (
            fake_disks.make_disk('a', medium='hdd'),
            fake_disks.make_disk('b', medium='ssd'),
        )
        self.setup(*disks)
        create, both = self.backend.create, threading.Barrier(2, timeout=200)

        def together(*arguments):
            both.wait()
            create(*arguments)

        self.backend.create = together
        results = []

        def bind(media):
            binder = binding.Binder(self.operations, media)
            with binding.locked(request(media)):
                results.append(str(binder.bind(request(media))))

        threads = [
            threading.Thread(target=bind, args=(media,))
            for media in ('hdd', 'ssd')
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(['a', 'b'], sorted(results))


class Ledger(stateful.RuleBasedStateMachine):
    """Servers come, claim, get vdisks bound and go, in any order.

    However that goes: nothing is oversold, round robin never doubles, and
    what a server has claimed it can always fill.
    """

    DISKS = 'abcd'
    TOTAL = 30
    SIZE = 10

    def __init__(self):
        super().__init__()
        self.locks = fixtures.TempDir()
        self.locks.setUp()
        self.conf = config_fixture.Config(lockutils.CONF)
        self.conf.setUp()
        self.conf.config(lock_path=self.locks.path, group='oslo_concurrency')
        disks = [fake_disks.make_disk(uuid, self.TOTAL) for uuid in self.DISKS]
        self.backend = fakes.Backend(*disks)
        self.placement = fakes.Placement(*disks)
        self.operations = operations.VDiskOperations(
            self.backend, self.placement
        )
        self.binder = binding.Binder(self.operations, 'any')
        self.servers = {}
        self.volumes = 0

    def teardown(self):
        self.conf.cleanUp()
        self.locks.cleanUp()

    @stateful.rule(
        counts=strategies.lists(
            strategies.integers(0, 2), min_size=4, max_size=4
        ),
        per_disk=strategies.integers(1, 2),
        mapping=strategies.sampled_from(mappings.names_on_one_disk()),
    )
    def boot(self, counts, per_disk, mapping):
        """Boot a server with as many vdisks on each disk."""
        if mapping == 'round_robin':
            counts = [min(count, per_disk) for count in counts]
        uuid = f'server-{len(self.servers)}'
        claims = {
            disk: count * self.SIZE
            for disk, count in zip(self.DISKS, counts, strict=True)
            if count
        }
        if not claims or not self.placement.claim(uuid, claims):
            return
        self.servers[uuid] = server(
            uuid,
            vdisks=sum(counts),
            vdisk_gb=self.SIZE,
            mapping=mapping,
            vdisks_per_disk=per_disk,
        )

    @stateful.precondition(lambda self: self.servers)
    @stateful.rule(
        data=strategies.data(),
        size=strategies.integers(1, 15),
        of_flavor=strategies.booleans(),
        boot_time=strategies.booleans(),
        policy=strategies.sampled_from(mappings.names_on_one_disk()),
    )
    def attach(self, data, size, of_flavor, boot_time, policy):
        """Attach a new volume: a vdisk of the flavor, or any other one."""
        who = self.servers[
            data.draw(strategies.sampled_from(sorted(self.servers)))
        ]
        self.volumes += 1
        if of_flavor:
            size = self.SIZE
        what = request(
            str(self.volumes),
            size,
            who,
            boot_time=boot_time,
            of_flavor=of_flavor,
            policy=policy,
        )
        room = {
            disk.uuid: self.operations.free_gb(disk)
            for disk in self.backend.disks()
        }
        claimed = [
            disk
            for disk in self.backend.disks()
            if of_flavor
            and self.unfilled(disk, who.uuid) >= size
            and (
                who.request.mapping != 'round_robin'
                or self.held(disk)[who.uuid] < who.request.vdisks_per_disk
            )
        ]
        before = {
            disk.uuid: self.held(disk)[who.uuid]
            for disk in self.backend.disks()
        }
        try:
            (bound,) = self.binder.bind(what)
        except errors.BindingError:
            assert not claimed
            assert of_flavor or max(room.values()) < size
            return
        if not of_flavor:
            assert room[bound] >= size
        elif claimed:
            assert bound in [disk.uuid for disk in claimed]
        else:
            assert not (
                boot_time and self.placement.allocations(who.uuid).resources
            )
            if policy == 'round_robin':
                assert before[bound] < who.request.vdisks_per_disk

    @stateful.precondition(lambda self: self.servers)
    @stateful.rule(data=strategies.data())
    def delete_server(self, data):
        """Delete a server; its volumes stay."""
        uuid = data.draw(strategies.sampled_from(sorted(self.servers)))
        for claims in self.placement.claims.values():
            claims.pop(uuid, None)
        self.placement.generation += 1
        for disk in self.DISKS:
            # as the agent does
            self.operations.try_reserve(disk)

    @stateful.rule(data=strategies.data())
    def delete_volume(self, data):
        """Delete a volume."""
        held = self.all_held()
        if held:
            disk, vdisk = data.draw(strategies.sampled_from(held))
            self.operations.delete(disk, vdisk.name)

    @stateful.rule(data=strategies.data())
    def snapshot(self, data):
        """Snapshot a volume, or a snapshot, which is all the same here."""
        held = self.all_held()
        if held:
            disk, vdisk = data.draw(strategies.sampled_from(held))
            self.volumes += 1
            try:
                self.operations.snapshot(
                    disk,
                    vdisk.name,
                    f'snapshot-{self.volumes}',
                    str(self.volumes),
                )
            except errors.BindingError:
                assert self.placement.room_of(disk) < vdisk.size_gb

    @stateful.rule(data=strategies.data(), more=strategies.integers(0, 5))
    def clone(self, data, more):
        """Clone a volume or a snapshot."""
        held = self.all_held()
        if held:
            disk, vdisk = data.draw(strategies.sampled_from(held))
            self.volumes += 1
            size = vdisk.size_gb + more
            try:
                self.operations.clone(
                    disk,
                    vdisk.name,
                    f'volume-{self.volumes}',
                    str(self.volumes),
                    size,
                )
            except errors.BindingError:
                assert self.placement.room_of(disk) < size

    @stateful.rule(data=strategies.data(), more=strategies.integers(1, 20))
    def extend(self, data, more):
        """Extend a volume."""
        held = self.all_held()
        if held:
            disk, vdisk = data.draw(strategies.sampled_from(held))
            try:
                self.operations.extend(disk, vdisk.name, vdisk.size_gb + more)
            except errors.BindingError:
                pass

    def all_held(self):
        """Return (disk, vdisk) of all vdisks."""
        return [
            (disk.uuid, vdisk)
            for disk in self.backend.disks()
            for vdisk in disk.vdisks
        ]

    def held(self, disk):
        """Return how many vdisks of each server are on a disk."""
        return collections.Counter(vdisk.server_id for vdisk in disk.vdisks)

    def unfilled(self, disk, uuid):
        """Return the GiB of a server's claim on a disk still to be filled."""
        claim = self.placement.claims[disk.uuid].get(uuid, 0)
        return claim - sum(
            vdisk.size_gb for vdisk in disk.vdisks if vdisk.server_id == uuid
        )

    @stateful.invariant()
    def nothing_is_oversold(self):
        for disk in self.backend.disks():
            taken = sum(vdisk.size_gb for vdisk in disk.vdisks)
            to_come = sum(
                max(0, self.unfilled(disk, uuid)) for uuid in self.servers
            )
            assert taken + to_come <= self.TOTAL, disk
            assert self.placement.room_of(disk.uuid) == (
                self.TOTAL - taken - to_come
            )


LedgerTestCase = Ledger.TestCase
LedgerTestCase.settings = hypothesis.settings(
    max_examples=60, stateful_step_count=40
)
