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


"""Which faults come follows from the seed."""

import itertools

import hypothesis
import testtools
from hypothesis import strategies

from tools.minicloud.state import Host
from tools.storm import plan

HOSTS = (Host('one', 'libvirt'), Host('two', disks=3))
SEEDS = strategies.integers(0, 2**32)


def first(seed, lane, count=200):
    return list(itertools.islice(plan.lanes(seed, HOSTS)[lane], count))


class LanesTest(testtools.TestCase):
    @hypothesis.given(SEEDS, strategies.sampled_from([*plan.lanes(0, HOSTS)]))
    @hypothesis.settings(max_examples=20, deadline=None)
    def test_same_seed_same_faults(self, seed, lane):
        self.assertEqual(first(seed, lane), first(seed, lane))
        self.assertNotEqual(first(seed, lane), first(seed + 1, lane))

    @hypothesis.given(SEEDS)
    @hypothesis.settings(max_examples=10, deadline=None)
    def test_all_kinds_come_before_one_comes_again(self, seed):
        for lane in plan.lanes(seed, HOSTS):
            kinds = [(one.kind, one.target) for one in first(seed, lane)]
            length = len(set(kinds))
            self.assertEqual(set(kinds), set(kinds[:length]))
            self.assertEqual(set(kinds), set(kinds[length : 2 * length]))

    def test_every_service_is_killed_and_hangs(self):
        found = {(one.kind, one.target) for one in first(1, 'services')}
        for name in (
            *plan.CONTROLLERS,
            'nova-compute@one',
            'cinder-volume@one',
            'cinder-volume@two',
            'diskplacer-agent@one',
            'diskplacer-agent@two',
        ):
            self.assertTrue({('kill', name), ('hang', name)} <= found, name)
        for name in plan.BACKING:
            self.assertIn(('stop', name), found)

    def test_servers_of_the_fake_driver_survive(self):
        found = {(one.kind, one.target) for one in first(1, 'services')}
        self.assertIn(('hang', 'nova-compute@two'), found)
        self.assertNotIn(('kill', 'nova-compute@two'), found)

    def test_disks_that_guests_have_open_are_only_filled_and_frozen(self):
        faults = first(1, 'disks')
        self.assertEqual(
            set(plan.OPEN_DISK_FAULTS),
            {one.kind for one in faults if one.target == 'one'},
        )
        self.assertEqual(
            set(plan.DISK_FAULTS),
            {one.kind for one in faults if one.target == 'two'},
        )

    def test_disks_are_those_of_the_host(self):
        for one in (*first(1, 'disks'), *first(1, 'operator')):
            wanted = 2 if one.kind == 'two-drains' else 1
            self.assertEqual(wanted, len(set(one.disks)))
            limit = {'one': 4, 'two': 3}[one.target]
            self.assertTrue(set(one.disks) <= set(range(limit)))

    def test_names_are_of_kinds(self):
        self.assertEqual(
            'kill cinder-volume',
            plan.Fault('kill', 'cinder-volume@two', 1, 1).name,
        )
        self.assertEqual(
            'fill disk', plan.Fault('fill', 'two', 1, 1, (0,)).name
        )
