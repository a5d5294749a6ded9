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


from cinder_vdisk_mapper.backend import striping
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.vdisks.layouts import Operations
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk
from tests.fakes import disks as fake_disks
from tests.unit.cinder_vdisk_mapper import fakes
from tests.unit.cinder_vdisk_mapper.attach import test_binding

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
                stripe=stripe,
                minimum=minimum,
            )
            self._set(disk, (*held[:-1], piece))
            self.content[disk, name] = ''

    def deactivate_stripe(self, location, name):
        self.active.discard(name)

    def snapshot_stripe(self, location, name, snapshot, snapshot_id):
        for disk in location.disks:
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
        self.operations = Operations(self.backend, self.placement)
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
        found = self.bind(request('1', 30, server(), boot_time=True))
        self.assertEqual('a,c,d', found)
        self.assertEqual({'a': 10, 'c': 10, 'd': 10}, self.pieces())
        self.assertEqual(dict.fromkeys('abcd', 0), self.reserved())
        for uuid in 'acd':
            (piece,) = self.backend.known[uuid].vdisks
            self.assertEqual(('a', 'c', 'd'), piece.stripe)
            self.assertEqual('server', piece.server_id)
        # again, after a kill before it was saved
        self.assertEqual(found, self.bind(request('1', 30, server())))

    def test_several(self):
        who = server(vdisks=2, vdisks_per_disk=2)
        self.claim('a', 'b', 'c', gb=20)
        for number in '12':
            found = self.bind(request(number, 30, who))
            self.assertEqual('a,b,c', found)
        self.assertRefused(
            'needs 10 GiB on each of 3 disks',
            request('3', 30, who, boot_time=True),
        )

    def test_a_claimed_disk_is_missing(self):
        self.claim('a', 'b', 'c')
        missing = fake_disks.make_disk('b', health='missing')
        self.backend.known['b'] = missing
        self.assertRefused(
            'disk b, which server server claims, is missing',
            request('1', 30, server(), boot_time=True),
        )

    def test_a_claimed_disk_is_drained(self):
        """A volume of a running server is as one without a claim."""
        self.claim('a', 'b', 'c')
        self.backend.known['b'] = fake_disks.make_disk('b', draining=True)
        what = request('1', 30, server())
        self.assertEqual('d', self.bind(what))
        what = request('2', 30, server(), boot_time=True)
        self.assertEqual('a,b,c', self.bind(what))

    def test_one_beside_the_flavor_is_not_striped(self):
        self.claim('a', 'b', 'c')
        self.bind(request('1', 30, server()))
        self.assertEqual('d', self.bind(request('2', 30, server())))

    def test_without_a_claim(self):
        """As on a host that Nova was forced to."""
        found = self.bind(request('1', 30, server(), boot_time=True))
        self.assertEqual('a,b,c', found)
        self.assertEqual({'a': 10, 'b': 10, 'c': 10, 'd': 0}, self.reserved())
        # one that is attached later is of its type's mapping
        self.assertEqual('d', self.bind(request('2', 30, server())))

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
        self.assertEqual('d', self.bind(request('1', 20, server())))
        self.assertEqual('a,b,c', self.bind(request('2', 30, server())))

    def test_completed_after_a_kill(self):
        self.claim('a', 'b', 'c')
        self.backend.create_piece(
            'b', 'volume-1', '1', 'server', 10, Location('bac'), 0
        )
        found = self.bind(request('1', 30, server()))
        self.assertEqual('b,a,c', found)
        self.assertEqual({'a': 10, 'b': 10, 'c': 10}, self.pieces())

    def test_a_killed_attachment_to_another_server(self):
        """Its pieces do not fill the claims of that server any more."""
        self.claim('a', 'b', 'c')
        for made in ('b', 'ba'):
            for of_flavor in (True, False):
                self.placement.claim('other', dict.fromkeys('abc', 10))
                for disk in made:
                    self.backend.create_piece(
                        disk, 'volume-1', '1', 'other', 10, Location('bac'), 0
                    )
                what = request('1', 30, server(), of_flavor=of_flavor)
                for _ in range(2):
                    self.assertEqual('b,a,c', self.bind(what))
                    for uuid in 'abc':
                        (piece,) = self.backend.known[uuid].vdisks
                        self.assertIsNone(piece.server_id)
                        self.assertEqual(('b', 'a', 'c'), piece.stripe)
                    self.assertEqual(
                        {'a': 10, 'b': 10, 'c': 10, 'd': 0}, self.reserved()
                    )
                for uuid in 'abc':
                    self.operations.delete(uuid, 'volume-1')

    def test_a_killed_attachment_of_a_volume_that_was_extended(self):
        for made in ('b', 'ba', 'bac'):
            for disk in made:
                self.backend.create_piece(
                    disk, 'volume-1', '1', None, 10, Location('bac'), 0
                )
            self.assertEqual('b,a,c', self.bind(request('1', 60, server())))
            for uuid in 'abc':
                (piece,) = self.backend.known[uuid].vdisks
                self.assertEqual(20, piece.size_gb)
            self.assertEqual(
                {'a': 20, 'b': 20, 'c': 20, 'd': 0}, self.reserved()
            )
            # on a disk without the room: all or none
            self.placement.claim('other', {'a': 75})
            error = self.assertRaises(
                errors.BindingError,
                self.binder.bind,
                request('1', 90, server()),
            )
            self.assertIn('are larger than the disk', str(error))
            self.assertEqual([], self.backend.disks_holding('volume-1'))
            self.assertEqual(0, sum(self.reserved().values()))
            self.placement.claims['a'].clear()

    def test_filesystem(self):
        self.setup(*(fake_disks.make_disk(uuid) for uuid in 'abc'))
        self.claim('a', 'b', 'c')
        self.assertRefused(
            'has no striping: prepare the disks with --backend lvm, or make a '
            'stripe inside the guest .* --layout stripe',
            request('1', 30, server()),
        )
