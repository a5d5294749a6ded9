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

from unittest import mock

from cinder_vdisk_mapper import errors
from cinder_vdisk_mapper import locks
from cinder_vdisk_mapper.backend import striping
from cinder_vdisk_mapper.striping.operations import StripeOperations
from nova_diskplacer import exception
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk
from tests.fakes import disks as fake_disks
from tests.unit.cinder_vdisk_mapper import fakes
from tests.unit.cinder_vdisk_mapper import test_binding

request = test_binding.request


class StripingBackend(fakes.Backend, striping.StripingBackend):
    """Stripes vdisks in memory; ``active`` holds those with a device."""

    def __init__(self, *disks):
        super().__init__(*disks)
        self.active = set()
        self.writes = []

    def create_piece(
        self, disk, name, volume_id, server_id, size_gb, stripe, minimum
    ):
        if self._add(disk, name, volume_id, server_id, size_gb):
            held = self.known[disk].vdisks
            piece = VDisk(
                name,
                volume_id,
                server_id,
                size_gb * GIB,
                stripe=tuple(stripe.split(',')),
                minimum=minimum,
            )
            self._set(disk, (*held[:-1], piece))
            self.content[disk, name] = ''

    def deactivate_stripe(self, location, name):
        self.active.discard(name)

    def snapshot_stripe(self, location, name, snapshot, snapshot_id):
        for disk in location.split(','):
            self.snapshot(disk, name, snapshot, snapshot_id)

    def delete_moving(self, disk, name):
        raise NotImplementedError

    def stripe_is_active(self, name):
        return name in self.active

    def stripe_writes(self, location, name):
        return self.writes.pop(0) if self.writes else ''


def server(**changes):
    fields = {
        'vdisks': 1,
        'vdisk_gb': 30,
        'mapping': 'striped',
        'stripe_disks': 3,
        **changes,
    }
    return test_binding.server(**fields)


class StripingTestCase(test_binding.BindingTestCase):
    """Four disks of 100 GiB."""

    def setUp(self):
        super().setUp()
        self.setup(*(fake_disks.make_disk(uuid) for uuid in 'abcd'))
        self.backend = StripingBackend(*self.backend.disks())
        self.operations = StripeOperations(self.backend, self.placement)
        self.binder.operations = self.operations

    def claim(self, *disks, gb=10):
        self.placement.claim('server', dict.fromkeys(disks, gb))

    def pieces(self, name='volume-1'):
        """Return the GiB of each piece of a vdisk, by disk."""
        return {
            disk.uuid: vdisk.size_gb
            for disk in self.backend.disks()
            for vdisk in disk.vdisks
            if vdisk.name == name
        }


class BindTestCase(StripingTestCase):
    def test_claimed(self):
        self.claim('a', 'c', 'd')
        found = self.binder.bind(request('1', 30, server(), boot_time=True))
        self.assertEqual('a,c,d', found)
        self.assertEqual({'a': 10, 'c': 10, 'd': 10}, self.pieces())
        self.assertEqual(dict.fromkeys('abcd', 0), self.reserved())
        for uuid in 'acd':
            (piece,) = self.backend.known[uuid].vdisks
            self.assertEqual(('a', 'c', 'd'), piece.stripe)
            self.assertEqual('server', piece.server_id)
        # again, after a kill before it was saved
        self.assertEqual(found, self.binder.bind(request('1', 30, server())))

    def test_several(self):
        who = server(vdisks=2, vdisks_per_disk=2)
        self.claim('a', 'b', 'c', gb=20)
        for number in '12':
            found = self.binder.bind(request(number, 30, who))
            self.assertEqual('a,b,c', found)
        self.assertRefused(
            'needs 10 GiB on each of 3 disks',
            request('3', 30, who, boot_time=True),
        )

    def test_one_beside_the_flavor_is_not_striped(self):
        self.claim('a', 'b', 'c')
        self.binder.bind(request('1', 30, server()))
        self.assertEqual('d', self.binder.bind(request('2', 30, server())))

    def test_without_a_claim(self):
        """As on a host that Nova was forced to."""
        found = self.binder.bind(request('1', 30, server(), boot_time=True))
        self.assertEqual('a,b,c', found)
        self.assertEqual({'a': 10, 'b': 10, 'c': 10, 'd': 0}, self.reserved())
        # one that is attached later is of its type's mapping
        self.assertEqual('d', self.binder.bind(request('2', 30, server())))

    def test_all_or_none(self):
        self.claim('a', 'b', 'c')
        self.backend.full = {'c'}
        what = request('1', 30, server(), boot_time=True)
        self.assertRefused('c is full', what)
        self.placement.claims.clear()
        self.backend.full = {'b'}
        self.assertRefused('b is full', what)
        self.assertEqual(dict.fromkeys('abcd', 0), self.reserved())
        self.backend.full = set()
        self.backend.changed = lambda: self.placement.claim('x', {'c': 95})
        self.assertRefused('disk c and the claims', what)
        self.backend.changed = lambda: None
        self.placement.claims.clear()
        # too few disks with room
        self.placement.claim('server', {'a': 40})
        self.assertRefused(
            'needs 34 GiB on each of 3 disks: server server claims GiB by '
            "disk {'a': 40}",
            request('1', 100, server(vdisk_gb=100), boot_time=True),
        )

    def test_no_vdisk_of_the_flavor_is_not_striped(self):
        self.claim('a', 'b', 'c')
        self.assertEqual('d', self.binder.bind(request('1', 20, server())))
        self.assertEqual('a,b,c', self.binder.bind(request('2', 30, server())))

    def test_completed_after_a_kill(self):
        self.claim('a', 'b', 'c')
        self.backend.create_piece(
            'b', 'volume-1', '1', 'server', 10, 'b,a,c', 0
        )
        found = self.binder.bind(request('1', 30, server()))
        self.assertEqual('b,a,c', found)
        self.assertEqual({'a': 10, 'b': 10, 'c': 10}, self.pieces())

    def test_filesystem(self):
        self.setup(*(fake_disks.make_disk(uuid) for uuid in 'abc'))
        self.claim('a', 'b', 'c')
        self.assertRefused(
            'has no striping: prepare the disks with --backend lvm, or make a '
            'stripe inside the guest .* --layout stripe',
            request('1', 30, server()),
        )


class OperationsTestCase(StripingTestCase):
    """Disks a, b and c hold volume-1 of 30 GiB."""

    def setUp(self):
        super().setUp()
        self.claim('a', 'b', 'c')
        self.location = self.binder.bind(request('1', 30, server()))
        for uuid in 'abc':
            self.backend.content[uuid, 'volume-1'] = f'data {uuid}'

    def assertRefusedChange(self, reason, method, *arguments):
        before, reserved = self.backend.disks(), self.reserved()
        error = self.assertRaises(
            exception.DiskPlacerError, method, *arguments
        )
        self.assertRegex(str(error), reason)
        self.assertEqual(before, self.backend.disks())
        self.assertEqual(reserved, self.reserved())

    def test_extend(self):
        self.backend.active.add('volume-1')
        self.operations.extend(self.location, 'volume-1', 100)
        self.assertEqual(dict.fromkeys('abc', 34), self.pieces())
        self.assertEqual(set(), self.backend.active)
        self.assertEqual({'a': 24, 'b': 24, 'c': 24, 'd': 0}, self.reserved())
        self.operations.extend(self.location, 'volume-1', 100)
        self.placement.claim('other', {'c': 60})
        self.assertRefusedChange(
            'disk c has no room',
            self.operations.extend,
            self.location,
            'volume-1',
            200,
        )

    def test_snapshot_and_revert(self):
        arguments = self.location, 'volume-1', 'snapshot-s', 's'
        self.placement.claim('other', {'b': 81})
        self.assertRefusedChange(
            'disk b has no room', self.operations.snapshot, *arguments
        )
        self.placement.claims['b'].pop('other')
        self.backend.changed = lambda: self.placement.claim('x', {'c': 85})
        self.assertRefusedChange(
            'disk c has no room', self.operations.snapshot, *arguments
        )
        self.placement.claims['c'].pop('x')
        self.backend.changed = lambda: None
        with mock.patch.object(locks, 'hold', wraps=locks.hold) as hold:
            self.operations.snapshot(*arguments)
        self.assertEqual(
            ['legs-volume-1', 'disk-a', 'disk-b', 'disk-c'],
            [call.args[0] for call in hold.call_args_list],
        )
        self.operations.snapshot(*arguments)
        self.assertEqual({'a': 10, 'b': 10, 'c': 10, 'd': 0}, self.reserved())
        # what exists is not undone
        self.placement.claim('other', {'b': 80})
        with mock.patch.object(self.operations, 'reserve', return_value=False):
            self.assertRaises(
                errors.BindingError, self.operations.snapshot, *arguments
            )
        self.assertEqual(3, len(self.pieces('snapshot-s')))
        self.backend.content['b', 'volume-1'] = 'new'
        self.operations.revert(self.location, 'volume-1', 'snapshot-s')
        self.assertEqual('data b', self.backend.content['b', 'volume-1'])
        self.operations.revert(self.location, 'volume-1', None)
        self.assertEqual('', self.backend.content['b', 'volume-1'])

    def clone(self):
        self.operations.clone(self.location, 'volume-1', 'volume-2', '2', 60)

    def test_clone(self):
        self.backend.full = {'c'}
        self.assertRefusedChange('c is full', self.clone)
        self.backend.full = set()
        self.backend.writes = ['1 0', '2 0']
        self.assertRefusedChange('was attached and written to', self.clone)
        self.clone()
        self.assertEqual(dict.fromkeys('abc', 20), self.pieces('volume-2'))
        self.assertEqual('data c', self.backend.content['c', 'volume-2'])

    def test_clone_that_was_killed(self):
        """No piece of another moment is kept."""
        self.backend.clone('a', 'volume-1', 'volume-2', '2', 20)
        self.backend.content['a', 'volume-1'] = 'new'
        self.clone()
        self.assertEqual('new', self.backend.content['a', 'volume-2'])
        # one from a snapshot goes on with that
        self.operations.delete_everywhere(self.location, 'volume-2')
        self.backend.snapshot_stripe(
            self.location, 'volume-1', 'cloning-2', '2'
        )
        self.backend.clone('a', 'cloning-2', 'volume-2', '2', 20)
        for uuid in 'abc':
            self.backend.content[uuid, 'volume-1'] = 'newer'
        self.clone()
        self.assertEqual('new', self.backend.content['a', 'volume-2'])
        self.assertEqual('data c', self.backend.content['c', 'volume-2'])
        self.assertEqual({}, self.pieces('cloning-2'))

    def test_clone_of_one_in_use(self):
        self.backend.active.add('volume-1')
        with mock.patch.object(
            self.backend, 'snapshot_stripe', wraps=self.backend.snapshot_stripe
        ) as made:
            self.clone()
        made.assert_called_once_with('a,b,c', 'volume-1', 'cloning-2', '2')
        self.assertEqual({}, self.pieces('cloning-2'))
        self.assertEqual(dict.fromkeys('abc', 20), self.pieces('volume-2'))
        self.assertEqual({'volume-1'}, self.backend.active)
        self.assertEqual({'a': 20, 'b': 20, 'c': 20, 'd': 0}, self.reserved())

    def test_delete(self):
        disk = self.backend.known['b']
        self.backend.known['b'] = fake_disks.make_disk('b', health='missing')
        before = self.backend.disks()
        self.assertRaises(
            exception.DiskError,
            self.operations.delete_everywhere,
            self.location,
            'volume-1',
        )
        self.assertEqual(before, self.backend.disks())
        self.backend.known['b'] = disk
        # what is on a forgotten disk is gone
        del self.backend.known['c']
        self.operations.delete_everywhere(self.location, 'volume-1')
        self.assertEqual({}, self.pieces())
        self.assertEqual(0, self.reserved()['a'])

    def test_a_backend_without_stripes(self):
        self.operations.backend = fakes.Backend(*self.backend.disks())
        self.assertRaises(
            exception.DiskError,
            self.operations.extend,
            self.location,
            'volume-1',
            60,
        )
