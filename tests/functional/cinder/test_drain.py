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


"""A disk is emptied, with real volumes, claims and locks."""

import contextlib
import functools
import os
from unittest import mock

import fixtures
from oslo_concurrency import processutils
from oslo_db import exception as db_exc

from cinder_vdisk_mapper.drain import drainer
from cinder_vdisk_mapper.drain import survey
from cinder_vdisk_mapper.vdisks import linking
from cinder_vdisk_mapper.vdisks import records
from nova_diskplacer import exception
from nova_diskplacer.host import files
from nova_diskplacer.placement import claim_moves
from nova_diskplacer.placement.client import GB
from nova_diskplacer.placement.client import MBPS
from tests.functional.cinder import base
from tests.functional.cinder import test_snapshots


class DrainerTestCase(test_snapshots.SnapshotTestCase):
    def setUp(self):
        super().setUp()
        lock_directory = files.lock_directory()
        self.addCleanup(files.set_lock_directory, lock_directory)
        files.set_lock_directory(self.host.root + '-commands')
        # servers that are stopped
        self.guests = mock.Mock(rate=0, **{'find.return_value': None})
        operations = self.volume[0].manager.driver.operations
        self.drainer = drainer.Drainer(
            survey.Surveyor(
                self.context,
                operations,
                'host1@vdisk',
                'any',
                'round_robin',
                frozenset({'host1'}),
                self.guests,
            ),
            mock.Mock(),
        )

    def server_of(self, *disks, per_disk=1):
        """Return a server with a claim of 1 GiB and 5 MB/s on each disk."""
        server = self.server(
            vdisks=len(disks),
            vdisk_gb=1,
            vdisk_mbps=5,
            vdisks_per_disk=per_disk,
        )
        self.claim(server, *disks)
        return server

    def claim(self, server, *disks, gb=1):
        """Claim some GiB and 5 MB/s on each disk."""
        claims = {disk: {'resources': {GB: gb, MBPS: 5}} for disk in disks}
        self.placement._call(
            'put',
            f'/allocations/{server}',
            {
                'allocations': claims,
                'project_id': base.PROJECT,
                'user_id': 'user',
                'consumer_generation': None,
                'consumer_type': 'INSTANCE',
            },
        )

    def claims(self, server):
        return self.placement.allocations(server).resources

    def holding(self, volume):
        """Return the disks with a vdisk of a volume."""
        name = f'volume-{volume["id"]}'
        return [
            uuid
            for uuid, disk in self.host.disks().items()
            if name in [vdisk.name for vdisk in disk.vdisks]
        ]

    def stays(self, disk):
        """Drain a disk, and return the reasons of what stays, joined."""
        return '; '.join(self.drainer.drain(disk).values())

    def after_the_copy(self, event):
        """Have something happen once a vdisk has been copied."""
        backend = self.drainer.operations.backend
        copy = backend.copy

        def copy_and_more(*arguments):
            copy(*arguments)
            event()

        return mock.patch.object(backend, 'copy', copy_and_more)

    def of_a_new_server(self):
        """Make a volume as ``bound``, for another server."""
        self.server_id = self.server()
        self.hints = {'local_to_instance': self.server_id}
        return self.bound()[0]

    def target_of(self, volume, disk):
        _, planned = self.drainer.plan(disk)
        return planned.targets[f'volume-{volume["id"]}']

    def assertIsOn(self, disk, volume, content=b'one'):
        """A volume is on one disk alone, with its content."""
        self.assertEqual([disk], self.holding(volume))
        self.assertEqual(disk, self.where(volume))
        name = f'volume-{volume["id"]}'
        backend = self.drainer.operations.backend
        self.assertIn(backend.linked_disk(name), (disk, None))
        self.assertIsNone(backend.recorded_move(name))
        path = f'{self.host.root}/{disk}/vdisks/{name}'
        self.assertEqual(content, self.read(path))


class DrainTestCase(DrainerTestCase):
    def test_claims_and_content_move(self):
        first, second, _ = self.host.disks()
        server = self.server_of(first, second)
        volumes = [self.create(1, f'{server}-blank-vol') for _ in range(2)]
        paths = [self.attach(one, server)[1] for one in volumes]
        self.write(paths[0], b'one')
        (drained,) = self.holding(volumes[0])
        (other,) = self.holding(volumes[1])
        (_, plan) = self.drainer.plan(drained)
        ((name, target),) = plan.targets.items()
        self.assertEqual(f'volume-{volumes[0]["id"]}', name)
        # round robin: not where the server has the other one
        self.assertNotIn(target, (drained, other))
        self.assertEqual({}, self.drainer.drain(drained))
        self.assertEqual([target], self.holding(volumes[0]))
        self.assertEqual(
            {other: {GB: 1, MBPS: 5}, target: {GB: 1, MBPS: 5}},
            self.claims(server),
        )
        link = f'{self.host.root}/by-volume/volume-{volumes[0]["id"]}'
        self.assertEqual(b'one', self.read(link))
        told = self.api.get_volume(volumes[0]['id'])
        self.assertEqual(target, told['provider_id'])
        # the disk offers nothing, whatever the agent does
        total = self.host.disks()[drained].total_gb
        self.host.publish()
        self.assertEqual(total, self.host.reserved()[drained])
        self.assertEqual({}, self.drainer.cancel(drained))
        self.assertEqual({0}, {*self.host.reserved().values()})

    def test_claims_of_vdisks_to_come_stay(self):
        volume, _ = self.bound()
        (drained,) = self.holding(volume)
        # as after a resize: what exists is reserved, what is to come claimed
        second = next(one for one in self.host.disks() if one != drained)
        self.claim(self.server_id, second)
        snapshot = self.snapshot(volume)
        for command in (self.drainer.drain, self.drainer.cancel):
            command(drained)
            self.assertEqual(
                {second: {GB: 1, MBPS: 5}}, self.claims(self.server_id)
            )
        self.delete_snapshot(snapshot)

    def test_claims_of_vdisks_to_come_stay_after_a_kill(self):
        volume, _ = self.bound()
        (drained,) = self.holding(volume)
        target = self.target_of(volume, drained)
        with mock.patch.object(
            self.drainer.operations, 'allocate', side_effect=KeyboardInterrupt
        ):
            self.assertRaises(KeyboardInterrupt, self.drainer.drain, drained)
        self.claim(self.server_id, target)
        self.assertEqual('', self.stays(drained))
        (other,) = {*self.host.disks()} - {drained, target}
        self.assertIsOn(other, volume)
        self.assertEqual(
            {target: {GB: 1, MBPS: 5}}, self.claims(self.server_id)
        )

    def test_claims_come_back(self):
        """That of the vdisk does, and that of one to come has stayed."""
        volume, _ = self.bound()
        (drained,) = self.holding(volume)
        self.claim(self.server_id, drained, gb=2)
        backend = self.drainer.operations.backend
        failing = exception.DiskError('EIO')
        with mock.patch.object(backend, 'copy', side_effect=failing):
            self.assertIn('EIO', self.stays(drained))
        self.assertEqual(
            {drained: {GB: 2, MBPS: 5}}, self.claims(self.server_id)
        )
        self.assertEqual('', self.stays(drained))
        self.assertEqual(
            {drained: {GB: 1, MBPS: 3}, self.where(volume): {GB: 1, MBPS: 2}},
            self.claims(self.server_id),
        )

    def test_no_vdisk_goes_where_one_is_to_come(self):
        """It would fill the claim, whose space others could take then."""
        volume, _ = self.bound()
        (drained,) = self.holding(volume)
        second, third = (one for one in self.host.disks() if one != drained)
        self.claim(self.server_id, second)
        self.host.fill(third, 4)
        self.assertIn('claims for vdisks to come', self.stays(drained))
        self.assertIsOn(drained, volume)
        self.drainer.operations.delete(third, 'theirs')
        self.assertEqual('', self.stays(drained))
        self.assertIsOn(third, volume)
        self.assertEqual(
            {second: {GB: 1, MBPS: 5}}, self.claims(self.server_id)
        )
        self.assertEqual(1, self.host.reserved()[third])

    def test_claims_on_the_disk_of_vdisks_to_come(self):
        volume, _ = self.bound()
        (holding,) = self.holding(volume)
        drained = next(one for one in self.host.disks() if one != holding)
        # the vdisk elsewhere is reserved, and takes no claim
        self.claim(self.server_id, drained)
        for command in (self.drainer.drain, self.drainer.cancel):
            self.assertEqual({}, command(drained))
            self.assertEqual(
                {drained: {GB: 1, MBPS: 5}}, self.claims(self.server_id)
            )

    def test_what_stays_and_why(self):
        drained, second, third = self.host.disks()
        server = self.server_of(drained, second, third)
        volumes = [self.create(1, f'{server}-blank-vol') for _ in range(3)]
        attachments = [self.attach(one, server)[0] for one in volumes]
        (here,) = [one for one in volumes if self.holding(one) == [drained]]
        self.assertIn('round_robin allows 1', self.stays(drained))
        self.assertEqual({}, self.drainer.cancel(drained))
        for volume, attachment in zip(volumes, attachments, strict=True):
            self.detach(volume, attachment)
            if volume is not here:
                self.delete(volume)
        # claims of volumes that were deleted are not filled; they count
        snapshot = self.snapshot(here)
        stays = self.stays(drained)
        self.assertIn('1 snapshots', stays)
        self.assertIn('it is a snapshot', stays)
        self.assertEqual({}, self.drainer.cancel(drained))
        self.delete_snapshot(snapshot)
        for disk in (second, third):
            self.host.fill(disk, 4)
        self.assertIn('lacks', self.stays(drained))
        self.assertEqual([drained], self.holding(here))

    def test_a_path_of_an_earlier_release(self):
        server = self.server()
        volume = self.create(1, hints={'local_to_instance': server})
        with mock.patch(
            'cinder_vdisk_mapper.vdisks.linking.stable_path', return_value=None
        ):
            attachment, _ = self.attach(volume, server)
        (drained,) = self.holding(volume)
        self.assertIn('detach and attach', self.stays(drained))
        self.detach(volume, attachment)
        self.attach(volume, server)
        self.assertEqual('', self.stays(drained))
        self.assertNotEqual([drained], self.holding(volume))

    def test_the_link_leads_elsewhere(self):
        volume, _ = self.bound()
        (drained,) = self.holding(volume)
        link = f'{self.host.root}/by-volume/volume-{volume["id"]}'
        os.unlink(link)
        os.symlink('/dev/null', link)
        self.assertIn('leads to /dev/null', self.stays(drained))
        self.assertEqual([drained], self.holding(volume))
        self.assertEqual({}, self.drainer.cancel(drained))
        os.unlink(link)
        self.assertEqual('', self.stays(drained))
        self.assertIsOn(self.where(volume), volume)
        self.assertNotEqual(drained, self.where(volume))

    def test_used_while_it_is_copied(self):
        volume, path = self.bound()
        (drained,) = self.holding(volume)
        backend = self.drainer.operations.backend
        copy = backend.copy

        def copy_and_open(*arguments):
            copy(*arguments)
            # as QEMU does that is started at the last moment
            self.addCleanup(os.close, os.open(path, os.O_RDWR))

        with mock.patch.object(backend, 'copy', copy_and_open):
            self.assertIn('has it open', self.stays(drained))
        self.assertEqual([drained], self.holding(volume))
        told = self.api.get_volume(volume['id'])
        self.assertEqual(drained, told['provider_id'])

    def test_written_to_while_it_is_copied(self):
        volume, path = self.bound()
        (drained,) = self.holding(volume)
        backend = self.drainer.operations.backend
        copy = backend.copy

        def copy_and_write(*arguments):
            copy(*arguments)
            # by a server that is started and stopped again
            self.write(path, b'two')

        with mock.patch.object(backend, 'copy', copy_and_write):
            self.assertIn('written to', self.stays(drained))
        self.assertEqual([drained], self.holding(volume))
        self.assertEqual('', self.stays(drained))
        (moved,) = self.holding(volume)
        root = f'{self.host.root}/{moved}'
        self.assertEqual(
            b'two', self.read(f'{root}/vdisks/volume-{volume["id"]}')
        )

    def test_one_command_at_a_time(self):
        volume, _ = self.bound()
        (drained,) = self.holding(volume)
        target = self.target_of(volume, drained)

        def others():
            for command in (self.drainer.drain, self.drainer.cancel):
                for disk in (drained, target):
                    self.assertRaisesRegex(
                        exception.DiskError,
                        'another "diskplacer-manage disk drain" runs',
                        command,
                        disk,
                    )
            # a drain of another host on this machine
            with drainer._alone(self.useFixture(fixtures.TempDir()).path):
                pass

        with self.after_the_copy(others):
            self.assertEqual('', self.stays(drained))
        self.assertIsOn(target, volume)

    def test_the_targets_disk_is_drained_too(self):
        # by a command that the lock does not keep off
        for command in (self.drainer.cancel, self.drainer.drain):
            volume, _ = self.bound()
            (drained,) = self.holding(volume)
            target = self.target_of(volume, drained)
            beside = mock.Mock(side_effect=functools.partial(command, target))
            with (
                mock.patch.object(drainer, '_alone', contextlib.nullcontext),
                self.after_the_copy(beside),
            ):
                self.drainer.drain(drained)
            beside.assert_called_once_with()
            self.assertEqual({}, self.drainer.cancel(target))
            self.assertEqual('', self.stays(drained))
            self.assertIsOn(target, volume)
            self.drainer.cancel(drained)
            self.delete(volume)

    def lose_target(self):
        """Have the target of a move go missing once it has the copy.

        :returns: the volume, its disk, the target, and what mounts that.
        """
        volume, _ = self.bound()
        (drained,) = self.holding(volume)
        self.claim(self.server_id, drained)
        target = self.target_of(volume, drained)
        disk = self.host.disks()[target]
        path = os.path.realpath(disk.path)
        with self.after_the_copy(
            lambda: processutils.execute('umount', '--lazy', path)
        ):
            self.assertIn(f'disk {target} is missing', self.stays(drained))
        self.assertEqual(drained, self.where(volume))
        self.assertEqual([drained], self.holding(volume))
        return (
            volume,
            drained,
            target,
            lambda: processutils.execute('mount', disk.device, path),
        )

    def test_target_goes_missing(self):
        volume, drained, target, mount = self.lose_target()
        mount()
        self.assertEqual('', self.stays(drained))
        self.assertIsOn(target, volume)
        self.assertEqual(
            {target: {GB: 1, MBPS: 5}}, self.claims(self.server_id)
        )

    def test_target_goes_missing_and_the_drain_is_cancelled(self):
        volume, drained, target, mount = self.lose_target()
        # while the disk is away, it keeps copy and claim
        self.assertEqual({}, self.drainer.cancel(drained))
        self.assertIn(f'Disk {target} is missing', self.log.output)
        mount()
        self.assertEqual({}, self.drainer.cancel(drained))
        self.assertIsOn(drained, volume)
        self.assertEqual(
            {drained: {GB: 1, MBPS: 5}}, self.claims(self.server_id)
        )

    def test_target_is_lost(self):
        volume, drained, target, _ = self.lose_target()
        backend = self.drainer.operations.backend
        with mock.patch.object(
            backend, 'forgotten', lambda uuid: uuid == target
        ):
            self.assertEqual({}, self.drainer.cancel(drained))
        self.assertIsOn(drained, volume)

    def test_claim_does_not_come_back_at_once(self):
        volume, _ = self.bound()
        (drained,) = self.holding(volume)
        self.claim(self.server_id, drained)
        backend = self.drainer.operations.backend
        give_back = claim_moves.VDiskMove.give_back
        failures = [exception.PlacementError('away')]

        def failing(move):
            if failures:
                raise failures.pop()
            give_back(move)

        with (
            mock.patch.object(
                backend, 'copy', side_effect=exception.DiskError('EIO')
            ),
            mock.patch.object(claim_moves.VDiskMove, 'give_back', failing),
        ):
            self.assertIn('EIO', self.stays(drained))
        self.assertIsOn(drained, volume)
        self.assertEqual(
            {drained: {GB: 1, MBPS: 5}}, self.claims(self.server_id)
        )

    def test_target_goes_missing_after_the_decision(self):
        volume, _ = self.bound()
        (drained,) = self.holding(volume)
        target = self.target_of(volume, drained)
        disk = self.host.disks()[target]
        path = os.path.realpath(disk.path)
        save = linking.save_disk

        def save_and_umount(*arguments):
            save(*arguments)
            processutils.execute('umount', '--lazy', path)

        with mock.patch.object(linking, 'save_disk', save_and_umount):
            self.assertIn(f'disk {target} is missing', self.stays(drained))
        # that of the source is the only one that is there
        self.assertEqual([drained], self.holding(volume))
        self.assertIn(f'on disk {target}', self.stays(drained))
        self.assertEqual([drained], self.holding(volume))
        processutils.execute('mount', disk.device, path)
        self.assertEqual('', self.stays(drained))
        self.assertIsOn(target, volume)

    def test_database_errors(self):
        for wrapped in (db_exc.DBError('away'), None):
            volumes = [self.of_a_new_server() for _ in range(3)]
            for drained in self.disks:
                failures = [wrapped] * 2
                save = linking.save_disk

                def failing(volume, disk, failures=failures, save=save):
                    # the answer is lost if not the request
                    if failures and (error := failures.pop()):
                        raise error
                    save(volume, disk)
                    if failures:
                        raise db_exc.DBError('away')

                with mock.patch.object(linking, 'save_disk', failing):
                    self.drainer.drain(drained)
                self.assertEqual('', self.stays(drained))
                self.assertEqual({}, self.drainer.cancel(drained))
            for volume in volumes:
                self.assertIsOn(self.where(volume), volume)
                self.delete(volume)

    def test_deleted_while_it_is_surveyed(self):
        first, _ = self.bound()
        (drained,) = self.holding(first)
        second = first
        while self.holding(second) != [drained] or second is first:
            second = self.of_a_new_server()
        others = records.Records.others

        def delete_first(*arguments):
            found = others(*arguments)
            if self.holding(first):
                self.delete(first)
            return found

        with mock.patch.object(records.Records, 'others', delete_first):
            self.assertEqual('', self.stays(drained))
        self.assertEqual([], self.holding(first))
        self.assertIsOn(self.where(second), second)
        self.assertNotEqual(drained, self.where(second))

    def test_deleted_while_it_is_copied(self):
        volume, _ = self.bound()
        (drained,) = self.holding(volume)
        backend = self.drainer.operations.backend
        with mock.patch.object(
            backend, 'copy', lambda *arguments: self.delete(volume)
        ):
            self.assertEqual('', self.stays(drained))
        self.assertEqual([], self.holding(volume))
