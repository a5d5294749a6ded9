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

"""Elastic volumes with real volumes, claims and locks."""

import dataclasses
from unittest import mock

from cinder import objects

from cinder_vdisk_mapper.drain import drainer
from cinder_vdisk_mapper.drain import survey
from cinder_vdisk_mapper.moves import backends
from cinder_vdisk_mapper.moves import leg_mover
from nova_diskplacer import exception
from nova_diskplacer.disks.location import Location
from nova_diskplacer.host import files
from nova_diskplacer.placement.client import GB
from tests.functional.cinder import base
from tests.functional.cinder import test_striped

GIB = 1 << 30


class FileLegs(test_striped.FileStripes):
    """Stores the legs of a disk, a GiB each, as one file; copies nothing.

    ``coming`` is the location after each vdisk's move, and ``minima`` its
    least number of disks.
    """

    def __init__(self, root):
        super().__init__(root)
        self.minima = {}
        self.coming = {}
        self.copied = (1, 1)

    def _tagged(self, disk):
        vdisks = []
        for vdisk in super()._tagged(disk).vdisks:
            target = self.coming.get(vdisk.name, vdisk.stripe)
            vdisks.append(
                dataclasses.replace(
                    vdisk,
                    minimum=self.minima.get(vdisk.name, 0),
                    moving=target.count(disk.uuid)
                    > vdisk.stripe.count(disk.uuid),
                )
            )
        return dataclasses.replace(disk, vdisks=tuple(vdisks))

    def create_piece(
        self, disk, name, volume_id, server_id, size_gb, stripe, minimum
    ):
        super().create_piece(
            disk, name, volume_id, server_id, size_gb, stripe, minimum
        )
        self.minima[name] = minimum

    def as_root(self, function, *arguments):
        return getattr(self, function.__name__)(*arguments)

    def create_legs(self, old, name, new):
        step = old.step_to(new)
        size_gb = new.count(step.target)
        if step.target in old:
            self.extend(step.target, name, size_gb)
        else:
            _, vdisk = self.find_vdisk(step.source, name)
            owners = vdisk.volume_id, vdisk.server_id
            self.create(step.target, name, *owners, size_gb)
        self.coming[name] = new

    def begin_move(self, old, name, new, size_bytes, percent):
        pass

    def move_progress(self, old, name, new):
        return self.copied

    def limit_copies(self, percent):
        pass

    def complete_legs(self, old, name, new):
        pass

    def end_move(self, kept, name, size_bytes):
        pass

    def settle_legs(self, new, name, old, forgotten):
        self.tags[name] = new

    def interrupted_move(self, disk, name):
        if name in self.coming and self.coming[name] != self.tags[name]:
            return self.tags[name], self.coming[name]
        return None

    def release_throttle(self):
        pass

    def delete_moving(self, disk, name):
        self.coming.pop(name, None)
        if size_gb := self.tags[name].count(disk):
            self.shrink(disk, name, size_gb)
        else:
            self.delete(disk, name)


class ElasticTestCase(base.CinderTestCase):
    def setUp(self):
        patch = mock.patch(
            'cinder_vdisk_mapper.backend.base.load',
            lambda options: FileLegs(options.vdisk_disk_root),
        )
        patch.start()
        self.addCleanup(patch.stop)
        super().setUp()
        lock_directory = files.lock_directory()
        self.addCleanup(files.set_lock_directory, lock_directory)
        self.host = self.hosts['host1']
        files.set_lock_directory(self.host.root + '-commands')
        self.disks = sorted(self.host.disks())
        operations = self.volume[0].manager.driver.operations
        self.backend = operations.backend
        found = backends.Backend(
            self.context, 'host1@vdisk', 'any', operations, self.backend
        )
        patch = mock.patch.object(backends, 'from_conf', lambda conf: [found])
        patch.start()
        self.addCleanup(patch.stop)

    def held(self):
        """Return the GiB of vdisks on each disk."""
        return [
            sum(one.size_bytes for one in disk.vdisks) // GIB
            for disk in self.host.disks().values()
        ]

    def test_disk_is_emptied(self):
        first, second, third = self.disks
        server = self.server(
            claims={first: 1, second: 1},
            vdisks=1,
            vdisk_gb=2,
            mapping='striped',
            stripe_disks=2,
        )
        volume = self.create(2, name=f'{server}-blank-vol')
        attachment, _ = self.attach(volume, server)
        name = f'volume-{volume["id"]}'
        progress = mock.Mock()
        drainer_ = drainer.Drainer(
            survey.Surveyor(
                self.context,
                self.volume[0].manager.driver.operations,
                'host1@vdisk',
                'any',
                'round_robin',
                frozenset({'host1'}),
                mock.Mock(rate=0, **{'find.return_value': None}),
            ),
            progress,
        )

        def check(*disks):
            location = Location(disks)
            row = objects.Volume.get_by_id(self.context, volume['id'])
            self.assertEqual(str(location), row.provider_location)
            self.assertEqual(
                {disk: {GB: 1} for disk in location},
                self.placement.allocations(server).resources,
            )

        def planned():
            return drainer_.plan(first)[1]

        # a disk without another part of it has no room
        self.claim(base.fake.USER2_ID, {third: 4})
        self.assertIn(
            f'disk {second} has another part of it; disk {third} lacks',
            planned().refusals[name],
        )
        self.placement._call('delete', f'/allocations/{base.fake.USER2_ID}')
        self.assertEqual({name: third}, planned().targets)
        check(first, second)
        # interrupted, and undone
        self.backend.copied = 0, 1
        progress.side_effect = KeyboardInterrupt
        for _ in range(2):
            self.assertRaises(KeyboardInterrupt, drainer_.drain, first)
            self.assertEqual([1, 1, 1], self.held())
            self.assertEqual({name: third}, planned().targets)
        self.assertEqual({}, drainer_.cancel(first))
        self.assertEqual([1, 1, 0], self.held())
        check(first, second)
        # interrupted, and continued
        self.assertRaises(KeyboardInterrupt, drainer_.drain, first)
        self.backend.copied = 1, 1
        progress.side_effect = None
        self.assertEqual({}, drainer_.drain(first))
        progress.assert_called_with(name, 1, 1)
        check(third, second)
        self.assertEqual([0, 1, 1], self.held())
        total = self.host.disks()[first].total_gb
        self.assertEqual(
            {first: total, second: 0, third: 0}, self.host.reserved()
        )
        self.assertEqual({}, drainer_.cancel(first))
        self.assertEqual({0}, {*self.host.reserved().values()})
        self.detach(volume, attachment)
        self.delete(volume)
        self.assertEqual([0, 0, 0], self.held())

    def test_claims_follow_the_legs(self):
        first, second, third = self.disks
        server = self.server(
            claims={first: 4},
            vdisks=1,
            vdisk_gb=4,
            mapping='elastic',
            stripe_disks='1-4',
        )
        volume = self.create(4, name=f'{server}-blank-vol')
        attachment, _ = self.attach(volume, server)

        def move(location, copied=(1, 1)):
            self.backend.copied = copied
            leg_mover.LegMover().move(
                volume['id'],
                location,
                lambda *bytes_: None,
                lambda: True,
                10,
            )

        def check(location):
            row = objects.Volume.get_by_id(self.context, volume['id'])
            self.assertEqual(str(location), row.provider_location)
            self.assertEqual(row.provider_location, row.provider_id)
            self.assertEqual(
                {
                    disk: {GB: location.count(disk)}
                    for disk in self.disks
                    if disk in location
                },
                self.placement.allocations(server).resources,
            )
            self.assertEqual(
                dict.fromkeys(self.disks, 0), self.host.reserved()
            )
            self.assertEqual(
                [location.count(disk) for disk in self.disks], self.held()
            )

        narrow = Location((first,) * 4)
        check(narrow)
        wide = Location((first, first, second, second))
        error = self.assertRaises(
            exception.DiskPlacerError, move, wide, (0, 1)
        )
        self.assertIn('was stopped', str(error))
        check(narrow)
        move(wide)
        check(wide)
        # a disk whose space is claimed
        self.claim(base.fake.USER2_ID, {third: 4})
        wider = Location((first, third, second, second))
        error = self.assertRaises(exception.DiskPlacerError, move, wider)
        self.assertIn('has no room to hold 1 GiB', str(error))
        check(wide)
        move(narrow)
        check(narrow)
        self.detach(volume, attachment)
        self.delete(volume)
        self.assertEqual(
            [()] * 3, [disk.vdisks for disk in self.host.disks().values()]
        )
