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

"""Tests of usage tiers and of groups."""

import unittest

import hypothesis
from hypothesis import strategies as st
from oslo_config import cfg
from oslo_config import fixture as config_fixture

from nova_diskplacer import conf as conf_
from nova_diskplacer import exception
from nova_diskplacer.io_weights import tiers
from nova_diskplacer.monitor import types
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions

PROFILES = catalogue.Catalogue(
    [
        definitions.Profile('batch', 'b', 'b', ('background',), weight=10),
        definitions.Profile('plain', 'p', 'p'),
        definitions.Profile(
            'gilded', 'g', 'g', specs={'diskplacer:io_tier': 'gold'}
        ),
    ]
)
TIERS = {'gold': '50-100', 'silver': '10-100', 'bronze': '0-40', 'one': '7-7'}


def server(key='s', project='', **specs):
    return types.Consumer(
        key,
        cgroup='',
        project=project,
        extra_specs={f'diskplacer:{name}': v for name, v in specs.items()},
    )


class TiersTest(unittest.TestCase):
    def setUp(self):
        self._set({})
        tiers._warn.cache_clear()

    def _set(self, tiers=TIERS, **values):
        self.conf = cfg.ConfigOpts()
        conf_.register_opts(self.conf)
        config = config_fixture.Config(self.conf)
        config.setUp()
        self.addCleanup(config.cleanUp)
        text = ','.join(f'{name}:{ends}' for name, ends in tiers.items())
        # as it is in a file
        config.load_raw_values(group='diskplacer_weights', tiers=text)
        config.config(group='diskplacer_weights', **values)

    def _policies(self, *consumers):
        return tiers.consumer_policies(consumers, self.conf, PROFILES)

    def _range(self, **described):
        party = self._policies(server(**described))['s']
        return party.lowest, party.highest


class BoundsTest(TiersTest):
    def test_nobody_says_anything(self):
        self._set()
        self.assertEqual((1, 10), self._range())

    def test_who_goes_before_whom(self):
        self._set(
            project_tiers={
                'p': 'bronze',
                'q': 'silver',
                'r': 'one',
                'g': 'gold',
            }
        )
        for described, expected in (
            ({'io_tier': 'gold'}, (5, 10)),
            ({'io_tier': 'silver'}, (1, 10)),
            ({'io_tier': 'bronze'}, (1, 4)),
            ({'io_tier': 'one'}, (1, 1)),
            # a tier goes before a profile, whose own goes before its weight
            ({'profile': 'batch'}, (1, 1)),
            ({'profile': 'background'}, (1, 1)),
            ({'profile': 'plain'}, (1, 10)),
            ({'profile': 'gilded'}, (5, 10)),
            ({'profile': 'gilded', 'io_tier': 'bronze'}, (1, 4)),
            ({'profile': 'batch', 'io_tier': 'gold'}, (5, 10)),
            # a project's tier cuts down
            ({'project': 'p'}, (1, 4)),
            ({'project': 'g'}, (5, 10)),
            ({'project': 'q', 'io_tier': 'gold'}, (5, 10)),
            ({'project': 'q', 'profile': 'batch'}, (1, 1)),
            ({'project': 'p', 'io_tier': 'silver'}, (1, 4)),
            # what has nothing in common is as high as the project may be
            ({'project': 'p', 'io_tier': 'gold'}, (4, 4)),
            ({'project': 'r', 'io_tier': 'gold'}, (1, 1)),
            ({'project': 'other', 'io_tier': 'gold'}, (5, 10)),
        ):
            with self.subTest(described):
                self.assertEqual(expected, self._range(**described))

    def test_the_idle_class_is_for_tiers_that_begin_at_nothing(self):
        self._set(idle_class=True)
        self.assertEqual((0, 10), self._range())
        self.assertEqual((0, 4), self._range(io_tier='bronze'))
        self.assertEqual((0, 1), self._range(profile='batch'))
        self.assertEqual((1, 10), self._range(io_tier='silver'))
        self.assertEqual((1, 1), self._range(io_tier='one'))

    @hypothesis.given(
        st.integers(1, 100),
        st.booleans(),
        st.tuples(st.integers(0, 100), st.integers(0, 100)),
        st.tuples(st.integers(0, 100), st.integers(0, 100)),
    )
    def test_bounds_are_always_bounds(self, classes, idle, own, projects):
        own, projects = sorted(own), sorted(projects)
        self._set(
            {'own': '{}-{}'.format(*own), 'all': '{}-{}'.format(*projects)},
            project_tiers={'p': 'all'},
            classes=classes,
            idle_class=idle,
        )
        lowest, highest = self._range(project='p', io_tier='own')
        self.assertLessEqual(0 if idle else 1, lowest)
        self.assertLessEqual(lowest, highest)
        self.assertLessEqual(1, highest)
        self.assertLessEqual(highest, classes)
        self.assertLessEqual(
            highest, max(1, -(-max(projects) * classes // 100))
        )

    def test_unknown_tier_or_profile_is_logged_once(self):
        self._set()
        for described, message in (
            (
                {'io_tier': 'platinum'},
                r'diskplacer:io_tier=platinum .* not one of: bronze, gold, '
                r'one, silver',
            ),
            (
                {'profile': 'cassandra'},
                r'diskplacer:profile=cassandra .* not one of: batch, gilded',
            ),
        ):
            with self.subTest(described):
                with self.assertLogs(tiers.__name__) as logs:
                    for _ in range(3):
                        self.assertEqual((1, 10), self._range(**described))
                self.assertEqual(1, len(logs.output))
                self.assertRegex(logs.output[0], message)

    def test_unknown_is_still_cut_down_for_the_project(self):
        self._set(project_tiers={'p': 'bronze'})
        self.assertEqual((1, 4), self._range(project='p', io_tier='platinum'))


class OptionsTest(TiersTest):
    def _refused(self, message):
        with self.assertRaisesRegex(exception.ContentionError, message):
            tiers.tier_ranges(self.conf)

    def test_invalid_ranges(self):
        for ends in ('50-101', '60-50', '-1-40', 'low-high', '10-', '10', ''):
            with self.subTest(ends):
                self._set({'gold': ends})
                self._refused(rf'tiers: gold:{ends} is not .* gold:50-100')

    def test_a_project_of_a_tier_that_there_is_not(self):
        self._set({}, project_tiers={'p': 'gold'})
        self._refused(
            r'\[diskplacer_weights\] project_tiers: gold of project p is not '
            'one of tiers: none'
        )


class GroupsTest(TiersTest):
    def _groups(self, *consumers):
        found = self._policies(*consumers)
        return {key: party.group for key, party in found.items()}

    def test_by_project(self):
        self.assertEqual(
            {'a': 'p', 'b': 'p', 'c': 'q', 'd': 'd', 'x.slice': 'x.slice'},
            self._groups(
                server('a', 'p'),
                server('b', 'p'),
                server('c', 'q'),
                server('d'),
                types.Consumer('x.slice', 'x.slice'),
            ),
        )

    def test_by_server(self):
        self._set({}, group_by='server')
        self.assertEqual(
            {'a': 'a', 'b': 'b'},
            self._groups(server('a', 'p'), server('b', 'p')),
        )

    def test_exempt(self):
        self._set(exempt=['a', 'p', '/x.slice/y', ''])
        consumers = (
            server('a', 'q'),
            server('b', 'p'),
            server('c'),
            types.Consumer('x.slice/y', 'x.slice/y'),
            types.Consumer('x.slice/z', 'x.slice/z'),
        )
        found = self._policies(*consumers)
        self.assertEqual(
            {'a', 'b', 'x.slice/y'},
            {key for key, party in found.items() if party.exempt},
        )
