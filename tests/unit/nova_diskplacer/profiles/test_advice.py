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

import dataclasses

from oslotest import base

from nova_diskplacer import flavor
from nova_diskplacer.profiles import advice
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions

PIN = definitions.Profile(
    'pin',
    'Pinned',
    'Pins.',
    aliases=('nail',),
    specs={
        'diskplacer:vdisks': '2',
        'diskplacer:vdisk_gb': '10',
        'diskplacer:mapping': 'round_robin',
        'diskplacer:numa': 'preferred',
    },
    hw={'hw:cpu_policy': 'dedicated', 'hw:numa_nodes': '1'},
    shape=definitions.Shape(
        vcpus=definitions.Limits(minimum=2, maximum=8, recommended=(4, 4)),
        ram_gb=definitions.Limits(minimum=2, measured=(3, 5)),
        vdisks=definitions.Limits(recommended=(2, 8)),
    ),
    sources={
        'specs.diskplacer:mapping': 'P2 §2',
        'hw.hw:cpu_policy': 'P1 §III-B',
        'shape.vcpus.recommended': 'P0 §V-B',
        'shape.vcpus.maximum': 'P3 Results',
    },
)
SHARE = definitions.Profile(
    'share', 'Shared', 'Shares.', hw={'hw:numa_nodes': '1'}
)
PROFILES = catalogue.Catalogue([PIN, SHARE])


class AppliedTest(base.BaseTestCase):
    def test_sets_the_profile_and_novas_own(self):
        self.assertEqual(
            {
                'diskplacer:profile': 'pin',
                'hw:cpu_policy': 'dedicated',
                'hw:numa_nodes': '1',
                'trait:CUSTOM_DISKPLACER_HOST': 'required',
                'diskplacer:vdisks': '4',
                'diskplacer:vdisk_gb': '10',
            },
            advice.specs_with_profile(
                PIN, {'diskplacer:vdisks': '4'}, PROFILES
            ),
        )

    def test_again_changes_nothing(self):
        once = advice.specs_with_profile(PIN, {}, PROFILES)
        self.assertEqual(once, advice.specs_with_profile(PIN, once, PROFILES))

    def test_takes_away_what_another_profile_had_set(self):
        specs = advice.specs_with_profile(
            PIN, {'hw:mem_page_size': 'large'}, PROFILES
        )
        specs['diskplacer:profile'] = 'nail'
        self.assertEqual(
            {
                'diskplacer:profile': 'share',
                'hw:numa_nodes': '1',
                'hw:mem_page_size': 'large',
                'trait:CUSTOM_DISKPLACER_HOST': 'required',
            },
            advice.specs_with_profile(SHARE, specs, PROFILES),
        )

    def test_leaves_what_the_operator_has_set(self):
        specs = {'diskplacer:profile': 'pin', 'hw:cpu_policy': 'shared'}
        self.assertEqual(
            'shared',
            advice.specs_with_profile(SHARE, specs, PROFILES)['hw:cpu_policy'],
        )

    def test_number_and_size_go_together_or_not_at_all(self):
        sizeless = dataclasses.replace(
            PIN,
            name='sizeless',
            aliases=(),
            specs={'diskplacer:vdisks': '2'},
        )
        profiles = catalogue.Catalogue([PIN, SHARE, sizeless])
        for name, own, wanted in (
            ('pin', ('2', '10'), (None, None)),
            # the rest of a removal that broke off
            ('pin', (None, '10'), (None, None)),
            ('pin', ('2', None), (None, None)),
            # the flavor's own, of which one is as in the profile
            ('pin', ('2', '100'), ('2', '100')),
            ('pin', ('4', '10'), ('4', '10')),
            ('sizeless', ('2', '100'), ('2', '100')),
        ):
            specs = {
                'diskplacer:profile': name,
                'diskplacer:vdisks': own[0],
                'diskplacer:vdisk_gb': own[1],
            }
            after = advice.specs_with_profile(
                SHARE, {k: v for k, v in specs.items() if v}, profiles
            )
            self.assertEqual(
                wanted,
                (
                    after.get('diskplacer:vdisks'),
                    after.get('diskplacer:vdisk_gb'),
                ),
            )
            flavor.parse(after, profiles)

    def test_the_flavors_own_pair_under_several_profiles(self):
        larger = dataclasses.replace(
            PIN,
            name='larger',
            aliases=(),
            specs={**PIN.specs, 'diskplacer:vdisks': '8'},
        )
        profiles = catalogue.Catalogue([PIN, SHARE, larger])
        own = {'diskplacer:vdisks': '2', 'diskplacer:vdisk_gb': '100'}
        specs = own
        for profile in (PIN, SHARE, larger, PIN, larger):
            specs = advice.specs_with_profile(profile, specs, profiles)
            self.assertEqual(own, {key: specs[key] for key in own})

    def test_the_volume_type(self):
        typed = dataclasses.replace(
            PIN, specs={**PIN.specs, 'diskplacer:volume_type': 'of-profile'}
        )
        own = {'diskplacer:volume_type': 'own'}
        for profile, specs, wanted in (
            (PIN, {}, 'default'),
            (typed, {}, 'of-profile'),
            (typed, own, 'own'),
            # there are no vdisks
            (SHARE, {}, None),
        ):
            specs = advice.specs_with_profile(
                profile, specs, PROFILES, 'default'
            )
            self.assertEqual(wanted, specs.get('diskplacer:volume_type'))

    def test_a_type_that_is_left_over_asks_for_nothing(self):
        specs = advice.specs_with_profile(PIN, {}, PROFILES, 'vdisk')
        specs = advice.specs_with_profile(SHARE, specs, PROFILES, 'vdisk')
        self.assertEqual('vdisk', specs['diskplacer:volume_type'])
        self.assertIsNone(flavor.parse(specs, PROFILES))

    def test_unknown_profile_before(self):
        self.assertEqual(
            'share',
            advice.specs_with_profile(
                SHARE, {'diskplacer:profile': 'gone'}, PROFILES
            )['diskplacer:profile'],
        )


class EffectiveTest(base.BaseTestCase):
    def test_all_of_a_profile(self):
        specs = advice.specs_with_profile(PIN, {}, PROFILES)
        self.assertEqual(
            advice.profile_specs(PIN), advice.effective_specs(specs, PROFILES)
        )

    def test_flavor_wins(self):
        specs = {'diskplacer:profile': 'nail', 'diskplacer:vdisks': '4'}
        effective = advice.effective_specs(specs, PROFILES)
        self.assertEqual('4', effective['diskplacer:vdisks'])
        self.assertEqual('10', effective['diskplacer:vdisk_gb'])
        self.assertEqual('pin', effective['diskplacer:profile'])

    def test_no_profile(self):
        self.assertEqual(
            {'a': 'b'}, advice.effective_specs({'a': 'b'}, PROFILES)
        )


class CheckTest(base.BaseTestCase):
    def _check(self, vcpus=4, ram_mb=4096, profile='pin', **specs):
        specs = {f'diskplacer:{k}': v for k, v in specs.items()}
        if profile:
            specs['diskplacer:profile'] = profile
        return self._findings(advice.Flavor('m1', vcpus, ram_mb, specs))

    def _findings(self, one):
        return [
            (finding.text, finding.source)
            for finding in advice.check(one, PROFILES)
        ]

    def test_framework_in_the_guest_without_vdisks(self):
        text = 'diskplacer:guest=kafka has no effect without vdisks'
        for profile in (None, 'share'):
            self.assertIn(
                (text, ''), self._check(profile=profile, guest='kafka')
            )
            self.assertNotIn(
                'guest', str(self._check(profile=profile, guest='none'))
            )
        self.assertEqual([], self._check(guest='kafka'))

    def test_nothing_to_tell(self):
        self.assertEqual([], self._check())
        self.assertEqual([], self._check(profile='nail'))
        self.assertEqual([], self._check(profile=None))

    def test_names_the_flavor_and_the_profile(self):
        one = advice.Flavor('m1', 1, 4096, {'diskplacer:profile': 'nail'})
        (finding,) = advice.check(one, PROFILES)
        self.assertEqual(('m1', 'pin'), (finding.flavor, finding.profile))

    def test_what_the_scheduler_refuses(self):
        for specs, text in (
            ({'profile': 'gone'}, 'profile=gone is not one of: pin, share'),
            ({'colour': 'red'}, 'diskplacer:colour is not one of'),
            ({'vdisks': '99'}, 'vdisks=99 is not an integer from 1 to 64'),
            ({'profile': None, 'vdisks': '1'}, 'vdisk_gb is required'),
        ):
            ((found, source),) = self._check(**specs)
            self.assertIn(text, found)
            self.assertEqual('', source)

    def test_override(self):
        self.assertEqual(
            [
                (
                    'diskplacer:mapping=consolidated, the profile has '
                    'round_robin',
                    'P2 §2',
                )
            ],
            self._check(mapping='consolidated'),
        )

    def test_override_of_novas_own(self):
        one = advice.Flavor(
            'm1',
            4,
            4096,
            {'diskplacer:profile': 'pin', 'hw:cpu_policy': 'shared'},
        )
        self.assertEqual(
            [('hw:cpu_policy=shared, the profile has dedicated', 'P1 §III-B')],
            self._findings(one),
        )

    def test_number_and_size_of_vdisks_are_the_flavors(self):
        self.assertEqual([], self._check(vdisks='3', vdisk_gb='5'))

    def test_numa_may_be_stricter(self):
        self.assertEqual([], self._check(numa='required'))
        self.assertEqual(
            [('diskplacer:numa=none, the profile has preferred', '')],
            self._check(numa='none'),
        )

    def test_not_recommended(self):
        self.assertEqual(
            [('8 vCPUs, best with 4', 'P0 §V-B')], self._check(vcpus=8)
        )
        self.assertEqual(
            [('1 vdisks, best with 2 to 8', '')], self._check(vdisks='1')
        )

    def test_advised_against(self):
        self.assertEqual(
            [('9 vCPUs, 8 or fewer advised', 'P3 Results')],
            self._check(vcpus=9),
        )
        self.assertEqual(
            [('1 vCPUs, 2 or more advised', '')], self._check(vcpus=1)
        )
        self.assertEqual(
            [('1.5 GiB of memory, 2 or more advised', '')],
            self._check(ram_mb=1536, vdisk_gb='5'),
        )

    def test_nothing_is_said_of_what_was_not_measured(self):
        self.assertEqual([], self._check(ram_mb=16384))

    def test_everything_at_once(self):
        findings = self._check(1, 1024, numa='none', mapping='consolidated')
        self.assertEqual(4, len(findings), findings)
