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

from diskplacer_measure.sweep import labels
from tests.unit.diskplacer_measure.sweep import example


class WordsTest(testtools.TestCase):
    def test_shape(self):
        self.assertEqual('1 vCPU, 512 MiB', labels.shape(1, 512))
        self.assertEqual('4 vCPUs, 2 GiB', labels.shape(4, 2048))

    def test_place(self):
        several = example.cell(scenario='servers', servers=3)
        self.assertEqual('3 servers, 2 vCPUs, 4 GiB', labels.place(several))
        self.assertEqual(
            'Several servers, 2 vCPUs, 4 GiB', labels.place(several, False)
        )

    def test_cell(self):
        self.assertEqual(
            'Bare metal, read asynchronous, 1 thread, 256 in flight, none '
            '(noop)',
            labels.cell(example.bare(host_scheduler='none')),
        )
        self.assertEqual(
            'One server, 2 vCPUs, 4 GiB, write page cache, 4 threads, kyber',
            labels.cell(
                example.cell(
                    engine='sync_cached',
                    operation='write',
                    jobs=4,
                    host_scheduler='kyber',
                )
            ),
        )

    def test_duration(self):
        self.assertEqual(
            ['1 min', '59 min', '1 h 0 min', '2 h 5 min'],
            [labels.duration(60 * one) for one in (0, 59, 60, 125)],
        )
