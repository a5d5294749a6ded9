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

import hypothesis
from hypothesis import strategies as st
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.profiles import definitions
from nova_diskplacer.profiles import queue_policy

SCHEDULERS = ('none', 'mq-deadline', 'kyber', 'bfq')
TOGETHER = ('schedulers', 'nr_requests', 'wbt_lat_usec')
ALONE = ('read_ahead_kb', 'max_sectors_kb', 'nomerges', 'rq_affinity')
ORIGINALS = {
    'scheduler': 'none',
    'nr_requests': '128',
    'wbt_lat_usec': '2000',
    'max_sectors_kb': '1280',
    'read_ahead_kb': '128',
    'nomerges': '0',
    'rq_affinity': '1',
}


def make_profile(name, priority=0, medium='hdd', **queue):
    return definitions.Profile(
        name, name, name, queue={medium: definitions.Queue(**queue)},
        priority=priority,
    )  # fmt: skip


numbers = st.none() | st.integers(0, 9)
queues = st.builds(
    definitions.Queue,
    schedulers=st.lists(st.sampled_from(SCHEDULERS), unique=True).map(tuple),
    **dict.fromkeys(TOGETHER[1:] + ALONE, numbers),
)
profiles = st.lists(
    st.builds(
        definitions.Profile,
        name=st.sampled_from('abcdefgh'),
        title=st.just(''),
        description=st.just(''),
        queue=st.dictionaries(st.sampled_from(['hdd', 'ssd']), queues),
        priority=st.integers(0, 3),
    ),
    max_size=6,
    unique_by=lambda profile: profile.name,
)


def rank(profile):
    return -profile.priority, profile.name


class MergeTest(base.BaseTestCase):
    def test_nobody_wants_anything(self):
        self.assertEqual(
            definitions.Queue(), queue_policy.merge_profiles([], 'hdd')
        )
        neutral = definitions.Profile('neutral', '', '')
        self.assertEqual(
            definitions.Queue(), queue_policy.merge_profiles([neutral], 'hdd')
        )

    def test_priority_then_name(self):
        low = make_profile('a', 1, read_ahead_kb=1)
        high = make_profile('z', 2, read_ahead_kb=2)
        equal = make_profile('b', 2, read_ahead_kb=3)
        merged = queue_policy.merge_profiles([low, high], 'hdd')
        self.assertEqual(2, merged.read_ahead_kb)
        merged = queue_policy.merge_profiles([low, high, equal], 'hdd')
        self.assertEqual(3, merged.read_ahead_kb)

    def test_what_the_first_leaves_open_is_the_next_one_s(self):
        first = make_profile('a', 2, schedulers=('bfq',), nomerges=0)
        second = make_profile(
            'b', 1, schedulers=('none',), nr_requests=7, read_ahead_kb=4,
            nomerges=2,
        )  # fmt: skip
        self.assertEqual(
            # a depth that was meant for another scheduler is not taken
            definitions.Queue(
                schedulers=('bfq',), read_ahead_kb=4, nomerges=0
            ),
            queue_policy.merge_profiles([second, first], 'hdd'),
        )

    def test_a_depth_alone_keeps_others_schedulers_off(self):
        first = make_profile('a', 2, nr_requests=9)
        second = make_profile('b', 1, schedulers=('bfq',), wbt_lat_usec=0)
        self.assertEqual(
            definitions.Queue(nr_requests=9),
            queue_policy.merge_profiles([first, second], 'hdd'),
        )

    def test_what_is_said_of_another_medium(self):
        profile = make_profile('a', medium='ssd', nomerges=1)
        self.assertEqual(
            definitions.Queue(), queue_policy.merge_profiles([profile], 'hdd')
        )

    @hypothesis.given(profiles, st.randoms(use_true_random=False))
    def test_order_and_number_do_not_matter(self, found, random):
        again = found + found[: len(found) // 2]
        random.shuffle(again)
        self.assertEqual(
            queue_policy.merge_profiles(found, 'hdd'),
            queue_policy.merge_profiles(again, 'hdd'),
        )

    @hypothesis.given(profiles)
    def test_every_value_is_that_of_the_first_that_states_it(self, found):
        merged = queue_policy.merge_profiles(found, 'hdd')
        ranked = [
            profile.queue['hdd']
            for profile in sorted(found, key=rank)
            if 'hdd' in profile.queue
        ]
        for name in ALONE:
            stated = [getattr(queue, name) for queue in ranked]
            stated = [value for value in stated if value is not None]
            self.assertEqual(
                stated[0] if stated else None, getattr(merged, name)
            )
        together = [
            tuple(getattr(queue, name) for name in TOGETHER)
            for queue in ranked
        ]
        together = [one for one in together if one != ((), None, None)]
        self.assertEqual(
            together[0] if together else ((), None, None),
            tuple(getattr(merged, name) for name in TOGETHER),
        )

    @hypothesis.given(profiles)
    def test_the_last_in_rank_changes_nothing_that_others_state(self, found):
        hypothesis.assume(found)
        *others, _ = sorted(found, key=rank)
        before = queue_policy.merge_profiles(others, 'hdd')
        after = queue_policy.merge_profiles(found, 'hdd')
        for name in (*TOGETHER, *ALONE):
            value = getattr(before, name)
            if value not in (None, ()):
                self.assertEqual(value, getattr(after, name))


class DecideTest(base.BaseTestCase):
    def decide(self, *schedulers, medium='hdd', controller='auto', rank=1):
        found = []
        if schedulers:
            found.append(
                make_profile('p', rank, medium=medium, schedulers=schedulers)
            )
        return queue_policy.decide(found, medium, controller)

    def schedulers(self, *schedulers, **kwargs):
        decision = self.decide(*schedulers, **kwargs)
        self.assertEqual('', decision.left_out)
        return decision.queue.schedulers

    def test_without_weights_profiles_decide(self):
        for wanted in ((), ('kyber', 'bfq'), ('none',)):
            for medium in ('hdd', 'ssd'):
                self.assertEqual(
                    wanted,
                    self.schedulers(*wanted, medium=medium, controller=None),
                )

    def test_weights_on_a_hard_disk(self):
        for controller in ('auto', 'bfq'):
            for wanted, expected in (
                ((), ('bfq',)),
                (('bfq',), ('bfq',)),
                (('kyber', 'bfq', 'none'), ('bfq', 'kyber', 'none')),
            ):
                self.assertEqual(
                    expected, self.schedulers(*wanted, controller=controller)
                )

    def test_weights_on_a_solid_state_disk(self):
        for wanted in ((), ('none', 'mq-deadline')):
            for controller in ('auto', 'io.cost'):
                self.assertEqual(
                    wanted,
                    self.schedulers(
                        *wanted, medium='ssd', controller=controller
                    ),
                )
        self.assertEqual(
            ('bfq', 'none'),
            self.schedulers('none', 'bfq', medium='ssd', controller='bfq'),
        )

    def test_a_profile_without_bfq(self):
        for medium, controller in (
            ('hdd', 'auto'),
            ('hdd', 'bfq'),
            ('ssd', 'bfq'),
        ):
            decision = self.decide(
                'kyber', 'none', medium=medium, controller=controller
            )
            self.assertEqual(('kyber', 'none'), decision.queue.schedulers)
            self.assertIn(
                f'queue.{medium}.schedulers of profile p is kyber, none, '
                'without bfq',
                decision.left_out,
            )

    def test_the_first_profile_that_states_a_scheduler_decides(self):
        without = make_profile('a', 1, schedulers=('none',))
        silent = make_profile('b', 3, read_ahead_kb=1)
        for rank, named in ((0, 'profile a'), (2, '')):
            other = make_profile('c', rank, schedulers=('bfq', 'none'))
            decision = queue_policy.decide(
                [without, silent, other], 'hdd', 'auto'
            )
            self.assertEqual(bool(named), bool(decision.left_out))
            self.assertIn(named, decision.left_out)

    def test_io_cost_is_refused_on_hard_disks(self):
        # profiles decide on such a disk
        self.assertEqual(
            ('kyber',), self.schedulers('kyber', controller='io.cost')
        )
        error = self.assertRaises(
            exception.ContentionError,
            queue_policy.check_controller,
            'hdd',
            'io.cost',
        )
        self.assertIn('controller=io.cost is refused', str(error))
        for medium, controller in (
            ('hdd', 'auto'),
            ('hdd', 'bfq'),
            ('ssd', 'io.cost'),
        ):
            queue_policy.check_controller(medium, controller)

    @hypothesis.given(
        profiles,
        st.sampled_from(['hdd', 'ssd']),
        st.sampled_from(['auto', 'bfq', 'io.cost', None]),
    )
    def test_weights_are_left_out_or_their_scheduler_is_first(
        self, found, medium, controller
    ):
        decision = queue_policy.decide(found, medium, controller)
        merged = queue_policy.merge_profiles(found, medium)
        schedulers = decision.queue.schedulers
        if controller and queue_policy.needs_bfq(medium, controller):
            self.assertEqual(
                bool(decision.left_out), schedulers[0] != 'bfq', decision
            )
        else:
            self.assertEqual(queue_policy.Decision(merged), decision)
        self.assertEqual({*schedulers, 'bfq'}, {*merged.schedulers, 'bfq'})


class TargetTest(base.BaseTestCase):
    def target(
        self, wanted, originals=ORIGINALS, schedulers=SCHEDULERS, depth=None
    ):
        """Return what is to be changed."""
        values = queue_policy.target_settings(
            wanted, originals, schedulers, depth
        )
        self.assertEqual(originals.keys(), values.keys())
        return {
            name: value
            for name, value in values.items()
            if value != originals[name]
        }

    def test_nothing(self):
        self.assertEqual({}, self.target(definitions.Queue()))

    def test_the_first_scheduler_that_there_is(self):
        wanted = definitions.Queue(('bfq', 'kyber', 'mq-deadline'))
        some = ('none', 'kyber', 'mq-deadline')
        self.assertEqual(
            {'scheduler': 'kyber'}, self.target(wanted, schedulers=some)
        )
        self.assertEqual({}, self.target(wanted, schedulers=('none',)))

    def test_numbers(self):
        self.assertEqual(
            {'nr_requests': '64', 'read_ahead_kb': '0', 'nomerges': '2'},
            self.target(
                definitions.Queue(nr_requests=64, read_ahead_kb=0, nomerges=2)
            ),
        )

    def test_bfq_throttles_by_itself(self):
        bfq = definitions.Queue(('bfq',))
        self.assertEqual(
            {'scheduler': 'bfq', 'wbt_lat_usec': '0'}, self.target(bfq)
        )
        told = definitions.Queue(('bfq',), wbt_lat_usec=9)
        self.assertEqual('9', self.target(told)['wbt_lat_usec'])
        # unless it did not before
        before = {**ORIGINALS, 'scheduler': 'bfq'}
        self.assertEqual({}, self.target(bfq, before))

    def test_the_depth_that_comes_with_a_scheduler(self):
        bfq = definitions.Queue(('bfq',))
        for depth, expected in ((32, '64'), (128, '256'), (1023, '256')):
            changed = self.target(bfq, depth=depth)
            self.assertEqual(expected, changed.get('nr_requests'), depth)
        told = definitions.Queue(('bfq',), nr_requests=9)
        self.assertEqual('9', self.target(told, depth=32)['nr_requests'])
        before = {**ORIGINALS, 'scheduler': 'bfq', 'nr_requests': '64'}
        none = definitions.Queue(('none',))
        changed = self.target(none, before, depth=32)
        self.assertEqual('32', changed['nr_requests'])
        # it was that scheduler before, with that depth
        self.assertEqual({}, self.target(bfq, before, depth=16))

    def test_what_the_kernel_lacks(self):
        wanted = definitions.Queue(('bfq',), wbt_lat_usec=0, nomerges=1)
        self.assertEqual(
            {'nomerges': '1'}, self.target(wanted, {'nomerges': '0'})
        )

    @hypothesis.given(queues, st.sets(st.sampled_from(SCHEDULERS)))
    def test_what_is_not_stated_is_as_it_was(self, wanted, schedulers):
        values = queue_policy.target_settings(
            wanted, ORIGINALS, schedulers, None
        )
        self.assertEqual(ORIGINALS.keys(), values.keys())
        self.assertIn(values['scheduler'], {*schedulers, 'none'})
        for name in ALONE:
            stated = getattr(wanted, name)
            self.assertEqual(
                ORIGINALS[name] if stated is None else str(stated),
                values[name],
            )
