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

from oslotest import base

from nova_diskplacer.agent import known_disks
from nova_diskplacer.agent import reported_disks
from nova_diskplacer.disks import discover
from tests.fakes import disks as fake_disks
from tests.unit.nova_diskplacer.agent import test_reported_disks


class KnownDisksTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.known = known_disks.KnownDisks()
        self.disk = fake_disks.make_disk('a')
        self.reported = reported_disks.ReportedDisk(
            self.disk, test_reported_disks.FIGURES
        )

    def sent(self):
        sent = []
        self.known.report(lambda *fields: sent.append(fields))
        return sent

    def test_nothing_is_reported_before_all_is_known(self):
        self.assertEqual([], self.sent())
        self.known.set_reported('root', [self.reported])
        self.assertEqual([], self.sent())
        self.known.set_disks([self.disk])
        self.assertEqual([('root', None, [self.reported])], self.sent())
        # it cannot be read
        self.known.set_disks(None)
        self.assertEqual([], self.sent())
        self.known.set_disks([self.disk])
        # nova-compute's provider is gone
        self.known.set_reported(None, [self.reported])
        self.assertEqual([], self.sent())

    def test_current_disks_with_the_last_figures(self):
        self.known.set_disks([self.disk])
        self.assertEqual({}, self.known.free_gb())
        (status,) = self.known.status()
        self.assertIsNone(status.figures)
        self.known.set_reported('root', [self.reported])
        self.known.set_modes({'a': 'writeback'})
        read_only = fake_disks.make_disk('a', health=discover.READ_ONLY)
        self.known.set_disks([read_only])
        figures = self.reported.figures
        self.assertEqual({'a': figures.free_gb}, self.known.free_gb())
        (status,) = self.known.status()
        self.assertEqual(
            (discover.READ_ONLY, figures), (status.health, status.figures)
        )
        ((_, mode, (reported,)),) = self.sent()
        self.assertEqual('writeback', mode)
        self.assertEqual(
            reported_disks.ReportedDisk(read_only, figures), reported
        )
        self.assertEqual(
            ([read_only], {'a': 'writeback'}), self.known.checked()
        )

    def test_status_of_unknown_disks(self):
        self.assertIsNone(self.known.status())
