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

import contextlib
import io

import testtools

import _measured
import profile_effect
from nova_diskplacer.profiles import catalogue
from tests.unit.benchmarks import test_measured


def profile(name, **queues):
    return catalogue.Profile(
        name=name,
        title='',
        description='',
        queue={
            medium: catalogue.Queue(schedulers=schedulers)
            for medium, schedulers in queues.items()
        },
    )


PROFILES = {
    'sequential_async': profile(
        'sequential_async', hdd=('bfq', 'none'), ssd=('kyber', 'none')
    ),
    'sequential_sync': profile('sequential_sync', hdd=('none',)),
    'mine': profile('mine', hdd=('none',)),
}


class ShowProfilesTest(testtools.TestCase):
    def show(self, rates):
        measured = _measured.Measured.of({'host': test_measured.sweep(rates)})
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            figures, goals = profile_effect.show_profiles(
                measured, PROFILES, ('hdd', 'ssd')
            )
        return shown.getvalue(), figures, goals

    def test_right_and_wrong(self):
        shown, figures, goals = self.show(
            {
                (test_measured.READ, 'none'): [[10], [11]],
                (test_measured.READ, 'bfq'): [[5], [5.5]],
                (test_measured.WRITE, 'none'): [[10], [11]],
                (test_measured.WRITE, 'bfq'): [[10], [11]],
            }
        )
        self.assertEqual(
            {
                'sequential_async_hdd_best': False,
                'sequential_async_ssd_best': True,
            },
            {goal.figure: goal.met(figures) for goal in goals},
        )
        ratio = figures['sequential_async_hdd_of_best']
        self.assertAlmostEqual(0.5**0.5, ratio)
        self.assertEqual(0.5, figures['sequential_async_hdd_best_at'])
        self.assertIn('NO', shown)
        self.assertIn('0.50 async read 1', shown)
        self.assertIn(
            'sequential_sync (hdd), sequential_sync (ssd), mine (hdd), '
            'mine (ssd)',
            shown,
        )

    def test_nothing_to_compare_with(self):
        _, figures, goals = self.show(
            {(test_measured.READ, 'bfq'): [[5], [5.5]]}
        )
        self.assertEqual(({}, []), (figures, goals))
