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


import unittest
from unittest import mock

from cinder.objects import fields

from cinder_vdisk_mapper.cinder_api import types as cinder_types


class MigrationStatusTestCase(unittest.TestCase):
    def test_what_an_administrator_can_set(self):
        """Only what has ended is no migration; ``none`` is stored as None."""
        self.assertEqual(
            {'success', 'error', 'none'},
            {
                status
                for status in fields.VolumeMigrationStatus.ALL
                if status == 'none' or not cinder_types.is_migrating(status)
            },
        )

    def test_others(self):
        for status in (None, ''):
            self.assertFalse(cinder_types.is_migrating(status))
        for status in ('target:1', 'deleting', 'new'):
            self.assertTrue(cinder_types.is_migrating(status))


class AttachmentsTestCase(unittest.TestCase):
    def test_those_that_are_detached_are_left_out(self):
        found = [
            mock.Mock(attach_status=status)
            for status in ('attached', 'detached', 'reserved', 'detached')
        ]
        volume = mock.Mock(volume_attachment=found)
        self.assertEqual(
            [found[0], found[2]], cinder_types.attachments(volume)
        )
