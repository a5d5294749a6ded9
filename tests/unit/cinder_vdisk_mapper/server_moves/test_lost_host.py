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

import types
from unittest import mock

import fixtures
import testtools

from cinder_vdisk_mapper.server_moves import lost_host
from cinder_vdisk_mapper.server_moves import lost_rules
from cinder_vdisk_mapper.server_moves import release
from nova_diskplacer import exception


class GiveUpTestCase(testtools.TestCase):
    """A server with two volumes on the lost host."""

    def setUp(self):
        super().setUp()
        self.volumes = [types.SimpleNamespace(id=id_) for id_ in ('1', '2')]
        self.check, self.finish, self.take = (
            self.useFixture(
                fixtures.MockPatchObject(
                    target, name, mock.Mock(return_value=None)
                )
            ).mock
            for target, name in (
                (lost_host, '_check_lost'),
                (release, 'finish'),
                (lost_host, '_take'),
            )
        )
        for target, name, value in (
            (lost_host.objects.Service, 'get_by_args', mock.Mock()),
            (
                lost_host.objects.VolumeList,
                'get_all_by_host',
                lambda *_: self.volumes,
            ),
            (
                lost_host,
                '_decide',
                lambda *_: iter(
                    [[lost_host.Entry(id_, 's', '') for id_ in ('1', '2')]]
                ),
            ),
        ):
            self.useFixture(fixtures.MockPatchObject(target, name, value))

    def reasons(self):
        return [
            entry.reason
            for entry in lost_host.give_up(['live@vdisk'], 'lost', True)
        ]

    def test_a_vdisk_that_is_not_released_keeps_both(self):
        move = types.SimpleNamespace(source='left@vdisk')
        self.finish.side_effect = [None, move]
        kept, why = self.reasons()
        self.assertEqual('volume 2 of its server stays', kept)
        self.assertIn('of left@vdisk, is not released: start', why)
        self.take.assert_not_called()
        self.finish.side_effect = None
        self.assertEqual(['', ''], self.reasons())
        self.take.assert_called_once_with(
            mock.ANY, self.volumes, dict.fromkeys(('1', '2'), mock.ANY)
        )

    def test_a_change_keeps_both(self):
        self.take.side_effect = lost_host._Changed('1')
        self.assertEqual(
            [
                'it has changed meanwhile: repeat this',
                'volume 1 of its server stays',
            ],
            self.reasons(),
        )

    def test_the_host_comes_back_meanwhile(self):
        """While the hosts that the volumes have left release them."""
        self.check.side_effect = [None, None, exception.DiskPlacerError('up')]
        self.assertRaises(exception.DiskPlacerError, self.reasons)
        self.take.assert_not_called()


class RulesTestCase(testtools.TestCase):
    def test_statuses_of_a_volume_of_a_server(self):
        for status, why in (
            ('in-use', ''),
            # its evacuation has failed
            ('reserved', ''),
            ('detaching', 'it is detaching'),
        ):
            facts = lost_rules.Facts(
                is_encrypted=False,
                has_group=False,
                has_snapshots=False,
                is_migrated=False,
                status=status,
                has_server=True,
                of_flavor=True,
                moves=False,
                in_other_zone=False,
            )
            self.assertEqual(why, lost_rules.why_volume_stays(facts))
