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

import os

import fixtures
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.agent import service
from tests.fakes import disks as fake_disks


class FindTest(base.BaseTestCase):
    def test_no_disk_root(self):
        root = os.path.join(self.useFixture(fixtures.TempDir()).path, 'none')
        error = self.assertRaises(
            exception.DiskError, service.discover_disks, root
        )
        self.assertIn(root, str(error))

    def test_no_disks(self):
        root = self.useFixture(fixtures.TempDir()).path
        self.assertEqual([], service.discover_disks(root))

    def test_what_changes_by_itself_is_left_out(self):
        root = self.useFixture(fixtures.TempDir()).path
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.discover.discover',
                lambda *_: [fake_disks.make_disk('a', free_bytes=5)],
            )
        )
        before = service.discover_disks(root)
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.discover.discover',
                lambda disk_root: [fake_disks.make_disk('a', free_bytes=6)],
            )
        )
        self.assertEqual(before, service.discover_disks(root))


class UntilNextTest(base.BaseTestCase):
    def test_all_agents_look_at_the_same_moments(self):
        for now, expected in ((100.0, 2.0), (100.5, 1.5), (101.75, 0.25)):
            self.assertEqual(expected, service.until_next(2, now))
