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

import pathlib
import sys

import testtools

TOP = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(TOP / 'benchmarks'))

import _all  # noqa: E402


class ResultsTest(testtools.TestCase):
    def test_results_are_of_the_code_that_they_measure(self):
        """A release shows no figure of older code.

        ``tools/bench.sh all`` measures what is named here.
        """
        results = TOP / 'benchmarks' / 'results'
        self.assertEqual(
            [],
            [
                job.name
                for job in _all.jobs(quick=False)
                if not _all.is_done(job, results / f'{job.name}.json')
            ],
        )
