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

from oslotest import base

from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer.agent import provider_traits
from nova_diskplacer.disks import discover
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import traits
from tests.fakes import disks as fake_disks

DISK = placement_client.DISK_TRAIT


class OfDiskTest(base.BaseTestCase):
    def test_disks(self):
        health = traits.HEALTH
        ssd = traits.MEDIA[constants.SSD]
        for cache_mode, fields, managed, expected in (
            (None, {}, provider_traits.DISK, {DISK, ssd}),
            (
                'none',
                {'path': '/root/.lvm/a'},
                provider_traits.DISK,
                {DISK, ssd, traits.CACHE_MODES['none'], traits.LVM},
            ),
            (
                None,
                {'health': discover.READ_ONLY},
                provider_traits.DISK,
                {DISK, ssd, health[discover.READ_ONLY]},
            ),
            # nothing else is known of it
            (
                'none',
                {'medium': '', 'health': discover.MISSING},
                provider_traits.HEALTH,
                {health[discover.MISSING]},
            ),
        ):
            fields = {'medium': constants.SSD, **fields}
            disk = fake_disks.make_disk('a', **fields)
            with mock.patch.object(
                provider_traits.naming, 'is_entry', lambda path: '.lvm' in path
            ):
                found = provider_traits.of_disk(disk, cache_mode)
            self.assertEqual((managed, expected), found)


class ReplaceTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.client = mock.Mock()
        self.client.traits.return_value = 7, {'A', 'CUSTOM_OTHER'}

    def replace(self, required):
        provider_traits.replace(self.client, 'uuid', {'A', 'B'}, required)

    def test_others_are_kept(self):
        self.replace({'B'})
        self.client.set_traits.assert_called_once_with(
            'uuid', 7, {'B', 'CUSTOM_OTHER'}
        )

    def test_no_request_without_a_change(self):
        self.replace({'A'})
        self.client.set_traits.assert_not_called()

    def test_another_process_changes_them_too(self):
        conflict = exception.Conflict('changed')
        self.client.set_traits.side_effect = [conflict, conflict, None]
        self.replace(set())
        self.client.set_traits.side_effect = conflict
        self.assertRaises(exception.Conflict, self.replace, set())
