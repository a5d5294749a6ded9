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

"""Which volumes may follow their server to another host."""

from unittest import mock

import testtools
from cinder import objects
from cinder.volume import rpcapi

from cinder_vdisk_mapper import errors
from cinder_vdisk_mapper import handover
from tests.unit.cinder_vdisk_mapper import test_driver


class UnusedTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.snapshots = []
        for target, name, new in (
            (
                objects.SnapshotList,
                'get_all_for_volume',
                lambda *_: self.snapshots,
            ),
            (rpcapi, 'VolumeAPI', mock.Mock()),
        ):
            patch = mock.patch.object(target, name, new)
            patch.start()
            self.addCleanup(patch.stop)
        self.there = rpcapi.VolumeAPI().initialize_connection

    def volume(self, *reservations, **fields):
        """Return a volume with attachments of (server, status)."""
        return test_driver.volume(
            **{
                'group_id': None,
                'volume_attachment': [
                    test_driver.attachment(*one) for one in reservations
                ],
                **fields,
            }
        )

    def assertFollows(self, volume):
        handover._check_unused(None, volume)
        self.assertEqual(
            self.there.return_value,
            handover.connect_by_new_backend(volume, {'host': 'there'}),
        )

    def assertStays(self, reason, volume):
        self.there.reset_mock()
        for check in (
            lambda: handover._check_unused(None, volume),
            lambda: handover.connect_by_new_backend(volume, {'host': 'there'}),
        ):
            error = self.assertRaises(errors.BindingError, check)
            self.assertIn(reason, str(error))
        self.there.assert_not_called()

    def test_reservations(self):
        reserved = 's', 'reserved'
        for reservations in (
            [reserved],
            # one that was cut short, and its repetition
            [reserved, reserved],
            [reserved, ('other', 'detached')],
        ):
            self.assertFollows(self.volume(*reservations))
        for reservations in (
            [],
            [('s', 'detached')],
            [('s', 'attached')],
            [reserved, ('s', 'attached')],
            [reserved, ('s', 'attaching')],
            [reserved, ('other', 'reserved')],
            [reserved, (None, 'reserved')],
            [(None, 'reserved')],
        ):
            self.assertStays(
                'not reserved for one server', self.volume(*reservations)
            )

    def test_what_else_depends_on_it(self):
        reserved = 's', 'reserved'
        for migration in (None, '', 'success', 'error'):
            self.assertFollows(
                self.volume(reserved, migration_status=migration)
            )
        self.assertStays(
            'being migrated',
            self.volume(reserved, migration_status='target:x'),
        )
        self.assertStays('in group g', self.volume(reserved, group_id='g'))
        self.snapshots.append('snapshot')
        self.assertStays('has snapshots', self.volume(reserved))
