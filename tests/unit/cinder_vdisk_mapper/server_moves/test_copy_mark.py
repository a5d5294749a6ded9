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

import testtools

from cinder_vdisk_mapper.server_moves import copy_mark
from nova_diskplacer.host import saved_settings


class CopyMarkTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.boot('boot-1')
        self.mark = copy_mark.CopyMark.of_now('1/sda/7/9', '42')

    def boot(self, boot_id):
        patch = mock.patch.object(saved_settings, 'boot_id', lambda: boot_id)
        patch.start()
        self.addCleanup(patch.stop)

    def test_text(self):
        """Former releases have recorded such texts."""
        self.assertEqual('boot-1 1/sda/7/9 42', str(self.mark))
        parsed = copy_mark.CopyMark.parse(str(self.mark))
        self.assertEqual(self.mark, parsed)
        self.assertIsNone(copy_mark.CopyMark.parse(''))

    def test_boot(self):
        self.assertTrue(self.mark.is_of_this_boot())
        self.boot('boot-2')
        self.assertFalse(self.mark.is_of_this_boot())

    def test_source(self):
        for now, is_written in (
            ('1/sda/7/9', False),
            ('1/sda/8/9', True),
            # of a new session
            ('2/sda/8/9', False),
            ('1/sdb/8/9', False),
        ):
            self.assertIs(is_written, self.mark.is_source_written(now))

    def test_target(self):
        self.assertFalse(self.mark.is_target_written('42'))
        self.assertTrue(self.mark.is_target_written('43'))
