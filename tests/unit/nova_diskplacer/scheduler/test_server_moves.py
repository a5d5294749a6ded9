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

"""The reasons why a server stays with its vdisks."""

import dataclasses
import unittest

from nova.compute import task_states

from nova_diskplacer import flavor
from nova_diskplacer.scheduler import server_moves
from nova_diskplacer.scheduler.plan import BoundVDisk
from nova_diskplacer.scheduler.server_volumes import AttachedVolume
from nova_diskplacer.scheduler.server_volumes import ServerVolumes

SERVER = 'server'
REQUEST = flavor.VDiskRequest(vdisks=2, vdisk_gb=10)


def attached(volume_id, host='host0', **more):
    return AttachedVolume(volume_id, host, **more)


def copy(volume_id, host='host0', disk='disk0', size_gb=10, server=SERVER):
    return BoundVDisk(volume_id, f'p-{host}', disk, server, size_gb, host)


class WhyPinnedTest(unittest.TestCase):
    def why(self, volumes, copies, request=REQUEST, **server):
        by_volume = {}
        for vdisk in copies:
            by_volume.setdefault(vdisk.volume_id, []).append(vdisk)
        return server_moves.why_pinned(
            ServerVolumes(volumes, **server), by_volume, request
        )

    def test_vdisks_of_the_flavor_follow(self):
        for state in (
            None,
            task_states.RESIZE_PREP,
            task_states.MIGRATING,
            task_states.UNSHELVING,
        ):
            for number in (1, 2):
                names = 'vw'[:number]
                self.assertEqual(
                    '',
                    self.why(
                        [attached(name) for name in names],
                        [copy(name) for name in names],
                        task_state=state,
                    ),
                )

    def test_another_servers_vdisk_fills_a_place_of_the_flavor(self):
        self.assertEqual(
            '', self.why([attached('v')], [copy('v', server='other')])
        )

    def test_volumes_that_are_no_vdisks_do_not_matter(self):
        network = [
            AttachedVolume('root', None, is_root=True),
            AttachedVolume('data', None, size_gb=500),
        ]
        self.assertEqual('', self.why([attached('v'), *network], [copy('v')]))

    def test_a_new_server_boots_where_its_volumes_are(self):
        why = self.why([attached('v')], [copy('v')], at_boot=[])
        self.assertIn('a new server', why)

    def test_an_evacuated_server(self):
        why = self.why(
            [attached('v')],
            [copy('v')],
            task_state=task_states.REBUILDING,
        )
        self.assertIn('evacuated', why)

    def test_a_server_of_a_lost_host(self):
        lost = {'task_state': task_states.REBUILDING, 'is_host_lost': True}
        self.assertIn(
            'evacuated', self.why([attached('v')], [copy('v')], **lost)
        )
        request = dataclasses.replace(REQUEST, on_host_loss=flavor.BLANK)
        for volume, copies in (
            (attached('v', is_file=True, size_gb=10), [copy('v')]),
            # the last report of its host is too old
            (attached('v'), []),
            (attached('v', is_striped=True), [copy('v', size_gb=5)]),
        ):
            self.assertEqual('', self.why([volume], copies, request, **lost))
            # of a host that is not forced down, nothing is given up
            self.assertIn(
                'evacuated',
                self.why([volume], copies, request, task_state='rebuilding'),
            )
        for volume, copies, word in (
            (attached('v', is_root=True), [], 'none of the 2'),
            (attached('v', size_gb=20), [], 'has 20 GiB, and the flavor'),
            (
                attached('v', 'host1', moving_from='host0'),
                [copy('v')],
                'has not settled',
            ),
        ):
            self.assertIn(word, self.why([volume], copies, request, **lost))
        three = [attached(name) for name in 'uvw']
        self.assertIn('it has 3 vdisks', self.why(three, [], request, **lost))

    def test_flavors_whose_vdisks_do_not_move(self):
        self.assertIn(
            'no vdisks', self.why([attached('v')], [copy('v')], None)
        )
        for mapping, disks in (
            (flavor.STRIPED, {'stripe_disks': 2}),
            (flavor.ELASTIC, {'stripe_disks': 1, 'widest_disks': 4}),
        ):
            request = dataclasses.replace(REQUEST, mapping=mapping, **disks)
            why = self.why([attached('v')], [copy('v')], request)
            self.assertIn(f'mapping {mapping}', why)

    def test_volumes_that_do_not_move(self):
        for volume, copies, word in (
            (attached('v'), [], 'reported by no agent'),
            (attached('v', is_striped=True), [copy('v')], 'striped'),
            (
                attached('v'),
                [copy('v', disk='disk0'), copy('v', disk='disk1')],
                'striped',
            ),
            (attached('v', is_root=True), [copy('v')], 'none of the 2'),
            (
                attached('v'),
                [copy('v', size_gb=20)],
                'has 20 GiB, and the flavor claims vdisks of 10 GiB',
            ),
        ):
            why = self.why([attached('w'), volume], [copy('w'), *copies])
            self.assertTrue(why.startswith('volume v '), why)
            self.assertIn(word, why)

    def test_vdisks_beyond_the_flavor(self):
        names = 'uvw'
        why = self.why(
            [attached(name) for name in names], [copy(name) for name in names]
        )
        self.assertIn('it has 3 vdisks, and its flavor claims 2', why)

    def test_a_reported_volume_without_a_connection_counts(self):
        why = self.why(
            [attached('u'), attached('v'), attached('w', None)],
            [copy('u'), copy('v'), copy('w')],
        )
        self.assertIn('it has 3 vdisks', why)

    def test_files_do_not_migrate_live(self):
        file = [attached('v', is_file=True)]
        self.assertEqual(
            '',
            self.why(file, [copy('v')], task_state=task_states.RESIZE_PREP),
        )
        why = self.why(file, [copy('v')], task_state=task_states.MIGRATING)
        self.assertIn('volume v is attached as a file', why)

    def test_a_volume_that_has_not_settled(self):
        volume = [attached('v', 'host1', moving_from='host0')]
        both = [copy('v', 'host0'), copy('v', 'host1')]
        why = self.why(volume, both)
        self.assertIn('volume v has not settled: its data is on host', why)
        # the other host has deleted it
        self.assertEqual('', self.why(volume, both[1:]))
        # the target is not there yet, or not any more
        self.assertIn('has not settled', self.why(volume, both[:1]))

    def test_a_copy_of_another_host_is_no_stripe(self):
        """Cinder has moved the volume, and not deleted it there yet."""
        copies = [copy('v', 'host0'), copy('v', 'host1')]
        self.assertEqual('', self.why([attached('v', 'host1')], copies))

    def test_a_host_with_two_providers_has_no_stripe(self):
        """Its former one counts until the report is old."""
        copies = [
            dataclasses.replace(copy('v', 'host1'), provider=provider)
            for provider in ('before', 'now')
        ]
        self.assertEqual('', self.why([attached('v', 'host1')], copies))
