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

from nova_diskplacer.elastic import status
from tests.unit.nova_diskplacer.elastic import hosts


class StatusTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.cloud = hosts.Host(
            {'v': hosts.vdisk('a'), 'w': hosts.vdisk('b', maximum=2)}
        )
        self.cloud.wait(300, v=0.9, w=0.5)
        self.found = status.statuses(
            self.cloud.decision, self.cloud.host, self.cloud.now + 100
        )

    def test_rows(self):
        self.assertEqual(
            [
                (
                    'v', '1', '1-4', '90%', '90%', '→2, 29 s left',
                    'pressure of 90% for 30 s',
                ),
                (
                    'w', '1', '1-2', '50%', '50%', '-',
                    'pressure of 50%, at its least width',
                ),
            ],
            [status.row(one) for one in self.found],
        )  # fmt: skip
        self.assertEqual(len(status.COLUMNS), len(status.row(self.found[0])))

    def test_late_move_and_unknown_figures(self):
        self.cloud.vdisks['x'] = hosts.vdisk('c')
        decision = self.cloud.observe()
        late, _, new = status.statuses(
            decision, self.cloud.host, self.cloud.now + 1000
        )
        self.assertEqual('→2, 0 s left', status.row(late)[5])
        self.assertEqual(('-', '-'), status.row(new)[3:5])

    def test_metrics(self):
        state = status.ElasticStatus('node', self.found)
        samples = {
            one.full_name: {
                labels[1]: round(value, 2)
                for labels, value in one.samples(state)
            }
            for one in status.METRICS
        }
        self.assertEqual(
            {
                'diskplacer_vdisk_width': {'v': 1, 'w': 1},
                'diskplacer_vdisk_pressure_ratio': {'v': 0.9, 'w': 0.5},
                'diskplacer_vdisk_use_ratio': {'v': 0.9, 'w': 0.5},
                'diskplacer_vdisk_move_target_width': {'v': 2},
                'diskplacer_vdisk_move_left_seconds': {'v': 28.85},
            },
            samples,
        )
