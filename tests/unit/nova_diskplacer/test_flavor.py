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

"""Tests of the ``diskplacer:`` extra specs."""

import unittest

from nova.api.validation.extra_specs import validators
from nova.exception import ValidationError

from nova_diskplacer import flavor
from nova_diskplacer import mapping
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions


class Refusals(unittest.TestCase):
    def _refused(self, message, profiles=flavor.NO_PROFILES, **specs):
        wanted = {'vdisks': '4', 'vdisk_gb': '10', **specs}
        with self.assertRaisesRegex(ValueError, message):
            flavor.parse(
                {
                    f'diskplacer:{name}': value
                    for name, value in wanted.items()
                    if value is not None
                },
                profiles,
            )


class ParseTest(Refusals):
    def test_nothing_asked(self):
        self.assertIsNone(flavor.parse({}))
        self.assertIsNone(flavor.parse({'hw:cpu_policy': 'dedicated'}))

    def test_defaults(self):
        request = flavor.parse(
            {'diskplacer:vdisks': '4', 'diskplacer:vdisk_gb': '10'}
        )
        self.assertEqual(
            flavor.VDiskRequest(
                vdisks=4,
                vdisk_gb=10,
                mapping='round_robin',
                media='any',
                vdisk_mbps=0,
                vdisks_per_disk=1,
            ),
            request,
        )

    def test_striped(self):
        request = flavor.parse(
            {
                'diskplacer:vdisks': '2',
                'diskplacer:vdisk_gb': '10',
                'diskplacer:vdisk_mbps': '50',
                'diskplacer:mapping': 'striped',
                'diskplacer:stripe_disks': '3',
            }
        )
        self.assertEqual(3, request.stripe_disks)
        self.assertEqual(
            (6, 4, 17), (request.pieces, request.piece_gb, request.piece_mbps)
        )
        plain = flavor.VDiskRequest(vdisks=2, vdisk_gb=10, vdisk_mbps=50)
        self.assertEqual(
            (2, 10, 50), (plain.pieces, plain.piece_gb, plain.piece_mbps)
        )

    def test_half_a_stripe(self):
        self._refused(
            'mapping=striped requires diskplacer:stripe_disks, an integer '
            'from 2 to 6',
            mapping='striped',
        )
        self._refused(
            'stripe_disks=2 is allowed only with .*, not with '
            'diskplacer:mapping=round_robin',
            stripe_disks='2',
        )
        for policy in ('striped', 'elastic'):
            self._refused(
                'stripe_disks=7 is not an integer from 2 to 6, or '
                'MINIMUM-MAXIMUM, such as 1-4, where the maximum is at '
                'most 6 and a multiple of the smaller minimum',
                mapping=policy,
                stripe_disks='7',
            )

    def test_elastic(self):
        specs = {
            'diskplacer:vdisks': '2',
            'diskplacer:vdisk_gb': '10',
            'diskplacer:vdisk_mbps': '50',
            'diskplacer:mapping': 'elastic',
        }
        for text, numbers, sizes, placed_by in (
            ('1-4', (1, 4), (2, 12, 3, 50), 'consolidated'),
            ('2-4', (2, 4), (4, 6, 3, 25), 'elastic'),
            ('3-6', (3, 6), (6, 4, 2, 17), 'elastic'),
        ):
            request = flavor.parse({**specs, 'diskplacer:stripe_disks': text})
            self.assertEqual(
                numbers, (request.stripe_disks, request.widest_disks)
            )
            self.assertEqual(
                sizes,
                (
                    request.pieces,
                    request.piece_gb,
                    request.leg_gb,
                    request.piece_mbps,
                ),
            )
            self.assertEqual(placed_by, request.placed_by)

    def test_everything(self):
        request = flavor.parse(
            {
                'diskplacer:vdisks': '8',
                'diskplacer:vdisk_gb': '256',
                'diskplacer:mapping': 'consolidated',
                'diskplacer:media': 'hdd',
                'diskplacer:vdisk_mbps': '20',
                'diskplacer:vdisks_per_disk': '2',
            }
        )
        self.assertEqual(
            flavor.VDiskRequest(8, 256, 'consolidated', 'hdd', 20, 2), request
        )

    def test_unknown_key_names_the_known(self):
        self._refused(
            r'diskplacer:color is not one of: .*diskplacer:vdisks', color='1'
        )

    def test_a_tier_asks_for_no_vdisks(self):
        self.assertIsNone(flavor.parse({'diskplacer:io_tier': 'gold'}))
        wanted = {'diskplacer:vdisks': '4', 'diskplacer:vdisk_gb': '10'}
        self.assertEqual(
            flavor.parse(wanted),
            flavor.parse({**wanted, 'diskplacer:io_tier': 'gold'}),
        )
        self._refused(
            'diskplacer:vdisk_gb is required', io_tier='gold', vdisk_gb=None
        )

    def test_the_volume_type(self):
        typed = {'diskplacer:volume_type': 'vdisk'}
        self.assertIsNone(flavor.parse(typed))
        wanted = {'diskplacer:vdisks': '4', 'diskplacer:vdisk_gb': '10'}
        self.assertIsNone(flavor.parse(wanted).volume_type)
        self.assertEqual('vdisk', flavor.parse(wanted | typed).volume_type)
        for name in ('a', 'local SSD, fast', 'x' * 255):
            self.assertEqual(
                name, flavor.SPECS['volume_type'].value('volume_type', name)
            )
        for name in ('', ' vdisk', 'x' * 256):
            self._refused('does not match', volume_type=name)

    def test_the_volume_type_by_its_id(self):
        wanted = flavor.VDiskRequest(2, 10, volume_type='vdisk')
        by_id = flavor.VDiskRequest(
            2, 10, volume_type='0f5a2f5c-6b5e-4f0c-9d5d-2a1f6c9e7d10'
        )
        # Cinder tells the driver the name
        self.assertTrue(by_id.is_vdisk(10, 'vdisk', bootable=False))
        self.assertFalse(by_id.is_vdisk(9, 'vdisk', bootable=False))
        self.assertFalse(wanted.is_vdisk(10, 'other', bootable=False))

    def test_on_host_loss(self):
        wanted = {'diskplacer:vdisks': '4', 'diskplacer:vdisk_gb': '10'}
        self.assertEqual(flavor.NONE, flavor.parse(wanted).on_host_loss)
        key = 'diskplacer:on_host_loss'
        for value in (flavor.BLANK, flavor.NONE):
            request = flavor.parse({**wanted, key: value})
            self.assertEqual(value, request.on_host_loss)
        self.assertRaises(ValueError, flavor.parse, {**wanted, key: 'yes'})
        # without vdisks there is nothing to lose
        self.assertRaises(ValueError, flavor.parse, {key: flavor.BLANK})

    def test_a_framework_in_the_guest_asks_for_no_vdisks(self):
        self.assertIsNone(flavor.parse({'diskplacer:guest': 'kafka'}))
        wanted = {'diskplacer:vdisks': '4', 'diskplacer:vdisk_gb': '10'}
        self.assertEqual('none', flavor.parse(wanted).guest)
        for guest in flavor.GUESTS:
            request = flavor.parse({**wanted, 'diskplacer:guest': guest})
            self.assertEqual((4, guest), (request.vdisks, request.guest))
        self._refused(
            'guest=hbase is not one of: hadoop, spark', guest='hbase'
        )

    def test_missing_keys(self):
        self._refused('diskplacer:vdisks is required', vdisks=None)
        self._refused('diskplacer:vdisk_gb is required', vdisk_gb=None)

    def test_bad_values_name_what_is_allowed(self):
        self._refused(r'vdisks=0 is not an integer from 1 to 64', vdisks='0')
        self._refused(r'vdisks=four is not an integer', vdisks='four')
        self._refused(
            r'mapping=scattered is not one of: ' + ', '.join(mapping.names()),
            mapping='scattered',
        )
        self._refused(r'media=tape is not one of: hdd, ssd, any', media='tape')
        with self.assertRaisesRegex(
            ValueError, r'io_tier=very fast does not match \[A-Z'
        ):
            flavor.parse({'diskplacer:io_tier': 'very fast'})


class ProfileTest(Refusals):
    """A flavor's profile fills what the flavor leaves unset."""

    profiles = catalogue.Catalogue(
        [
            definitions.Profile(
                'scan',
                'Scans',
                'Reads everything.',
                aliases=('grep',),
                specs={
                    'diskplacer:vdisks': '4',
                    'diskplacer:vdisk_gb': '100',
                    'diskplacer:media': 'hdd',
                    'diskplacer:numa': 'preferred',
                },
                cache_mode='none',
            ),
            definitions.Profile('idle', 'Nothing', 'Does nothing.'),
        ]
    )

    def _parse(self, **specs):
        return flavor.parse(
            {f'diskplacer:{name}': value for name, value in specs.items()},
            self.profiles,
        )

    def test_profile_alone_is_enough(self):
        self.assertEqual(
            flavor.VDiskRequest(
                vdisks=4,
                vdisk_gb=100,
                media='hdd',
                numa='preferred',
                cache_mode='none',
                profile='scan',
            ),
            self._parse(profile='scan'),
        )

    def test_alias_means_the_same(self):
        self.assertEqual(
            self._parse(profile='scan'), self._parse(profile='grep')
        )

    def test_flavor_wins(self):
        request = self._parse(profile='scan', vdisks='2', numa='required')
        self.assertEqual(
            (2, 100, 'required'),
            (request.vdisks, request.vdisk_gb, request.numa),
        )

    def test_profile_without_vdisks_asks_for_none(self):
        self.assertIsNone(self._parse(profile='idle'))
        self.assertIsNone(self._parse(profile='idle', io_tier='gold'))
        self.assertEqual(
            self._parse(profile='scan'),
            self._parse(profile='scan', io_tier='gold'),
        )

    def test_profile_without_vdisks_with_other_keys(self):
        self._refused(
            'diskplacer:vdisks is required',
            self.profiles,
            profile='idle',
            vdisks=None,
        )

    def test_unknown_profile_names_the_known(self):
        self._refused(
            'diskplacer:profile=sacn is not one of: idle, scan',
            self.profiles,
            profile='sacn',
        )


class ValidatorsTest(unittest.TestCase):
    """Nova's API loads the validators by their entry point."""

    def test_every_spec_is_known_to_nova(self):
        for name, spec in flavor.SPECS.items():
            value = spec.choices[0] if spec.choices else str(spec.minimum)
            if spec.pattern:
                value = '1-4' if spec.allowed else 'sequential_sync'
            validators.validate(flavor.NAMESPACE + name, value)

    def test_nova_refuses(self):
        for key, value in (
            ('diskplacer:mapping', 'scattered'),
            ('diskplacer:vdisks', '65'),
            ('diskplacer:vdisks', 'x'),
            ('diskplacer:color', 'red'),
            ('diskplacer:numa', 'yes'),
            ('diskplacer:profile', 'Big Data'),
            ('diskplacer:io_tier', 'very fast'),
            ('diskplacer:io_tier', ''),
            ('diskplacer:guest', 'hbase'),
            ('diskplacer:stripe_disks', '1'),
            ('diskplacer:stripe_disks', '22'),
            ('diskplacer:stripe_disks', '4-1'),
            ('diskplacer:stripe_disks', '1-44'),
        ):
            with self.assertRaises(ValidationError):
                validators.validate(key, value)
