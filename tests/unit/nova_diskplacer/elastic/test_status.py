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

import testtools

from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.elastic import inputs
from nova_diskplacer.elastic import status
from tests.unit.nova_diskplacer.elastic import hosts


class StatusTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.cloud = hosts.Host(
            {'v': hosts.vdisk('a'), 'w': hosts.vdisk('b', maximum=2)}
        )
        self.cloud.wait(300, v=0.9, w=0.5)

    def rows(self, copied=0):
        found = status.statuses(self.cloud.decision, self.cloud.host, copied)
        return [status.row(one) for one in found]

    def test_rows(self):
        found = self.rows(GIB)
        self.assertEqual(
            [
                (
                    'v', '1', '1-4', '90%', '90%', '→2, 3.0 GiB, 32 s left',
                    'pressure of 90% for 30 s',
                ),
                (
                    'w', '1', '1-2', '50%', '50%', '-',
                    'pressure of 50%, at its least width',
                ),
            ],
            found,
        )  # fmt: skip
        self.assertEqual(len(status.COLUMNS), len(found[0]))

    def test_steps_that_are_done(self):
        self.cloud.finish()
        self.cloud.settings = hosts.changed(widen_factor=4)
        move = self.cloud.wait(300)
        self.assertEqual((2, 4), (len(set(move.old)), move.width))
        self.assertEqual('→4, 4.0 GiB, 43 s left', self.rows()[0][5])
        self.cloud.vdisks['v'] = hosts.vdisk('a', 'c', 'd')
        self.cloud.observe()
        self.assertEqual('→4, 2.0 GiB, 21 s left', self.rows()[0][5])
        # more than it takes
        self.assertEqual('→4, 0.0 GiB, 0 s left', self.rows(9 * GIB)[0][5])

    def test_unknown_figures(self):
        self.cloud.vdisks['x'] = hosts.vdisk('c')
        self.cloud.observe()
        self.assertEqual(('-', '-'), self.rows()[2][3:5])

    def test_verdicts(self):
        def kinds():
            found = status.statuses(self.cloud.decision, self.cloud.host)
            return [one.verdict for one in found]

        self.assertEqual(['widen', 'stay'], kinds())
        self.cloud.finish()
        self.cloud.overrides = inputs.Overrides(forced={'w': 2})
        self.cloud.observe()
        self.assertEqual(['stay', 'forced'], kinds())
        self.cloud.finish()
        self.cloud.overrides = inputs.Overrides()
        self.assertIsNotNone(self.cloud.wait(300, v=0.0, w=0.0))
        self.assertEqual(['narrow', 'stay'], kinds())
