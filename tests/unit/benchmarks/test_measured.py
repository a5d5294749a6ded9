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

import _measured
from tools.io_sweep import Load

READ = Load('async', 'read', 1)
WRITE = Load('async', 'write', 16)


def sweep(rates):
    """Return a sweep of ``{(load, scheduler): [rates of a repetition]}``."""
    return {
        'schedulers': sorted({scheduler for _, scheduler in rates}),
        'samples': [
            {
                'engine': load.engine,
                'operation': load.operation,
                'jobs': load.jobs,
                'scheduler': scheduler,
                'repetition': number,
                'mbps': float(sum(each)),
                'rates': each,
            }
            for (load, scheduler), repetitions in rates.items()
            for number, each in enumerate(repetitions)
        ],
    }


class MeasuredTest(testtools.TestCase):
    def test_schedulers_of_one_sweep(self):
        found = _measured.Measured.of(
            {
                'host': sweep(
                    {
                        (READ, 'none'): [[10], [20]],
                        (READ, 'bfq'): [[1, 1], [3, 1]],
                    }
                )
            }
        )
        self.assertEqual(('bfq', 'none'), found.arms)
        self.assertEqual({'none': [10, 20], 'bfq': [2, 4]}, found.mbps[READ])
        self.assertEqual({'none': [1, 1], 'bfq': [1, 0.8]}, found.jain[READ])

    def test_sweeps_of_flavors(self):
        slim = sweep({(READ, 'none'): [[10], [20]]})
        fat = sweep({(READ, 'none'): [[5], [6]]})
        found = _measured.Measured.of({'slim': slim, 'fat': fat})
        self.assertEqual({'slim': [10, 20], 'fat': [5, 6]}, found.mbps[READ])
        both = sweep({(READ, 'none'): [[5], [6]], (READ, 'bfq'): [[7], [8]]})
        found = _measured.Measured.of({'slim': slim, 'fat': both})
        self.assertEqual(('fat bfq', 'fat none', 'slim'), found.arms)

    def test_sweeps_that_cannot_be_compared(self):
        slim = sweep({(READ, 'none'): [[10], [20]]})
        for other in (
            sweep({(WRITE, 'none'): [[10], [20]]}),
            sweep({(READ, 'none'): [[10], [20], [30]]}),
            sweep({(READ, 'none'): [[1], [2]], (WRITE, 'none'): [[1], [2]]}),
        ):
            error = self.assertRaises(
                ValueError,
                _measured.Measured.of,
                {'slim': slim, 'other': other},
            )
            self.assertIn('slim, other: not all have the same', str(error))
