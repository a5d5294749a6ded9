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


class ParseTest(unittest.TestCase):
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

    def _refused(self, message, **specs):
        wanted = {'vdisks': '4', 'vdisk_gb': '10', **specs}
        with self.assertRaisesRegex(ValueError, message):
            flavor.parse(
                {
                    f'diskplacer:{name}': value
                    for name, value in wanted.items()
                    if value is not None
                }
            )

    def test_unknown_key_names_the_known(self):
        self._refused(
            r'diskplacer:color is not one of: .*diskplacer:vdisks', color='1'
        )

    def test_missing_keys(self):
        self._refused('diskplacer:vdisks is required', vdisks=None)
        self._refused('diskplacer:vdisk_gb is required', vdisk_gb=None)

    def test_bad_values_name_what_is_allowed(self):
        self._refused(r'vdisks=0 is not an integer from 1 to 64', vdisks='0')
        self._refused(r'vdisks=four is not an integer', vdisks='four')
        self._refused(
            r'mapping=striped is not one of: round_robin, consolidated',
            mapping='striped',
        )
        self._refused(r'media=tape is not one of: hdd, ssd, any', media='tape')


class ValidatorsTest(unittest.TestCase):
    """Nova's API loads the validators by their entry point."""

    def test_every_spec_is_known_to_nova(self):
        for name, spec in flavor.SPECS.items():
            value = spec.choices[0] if spec.choices else str(spec.minimum)
            validators.validate(flavor.NAMESPACE + name, value)

    def test_nova_refuses(self):
        for key, value in (
            ('diskplacer:mapping', 'striped'),
            ('diskplacer:vdisks', '65'),
            ('diskplacer:vdisks', 'x'),
            ('diskplacer:color', 'red'),
        ):
            with self.assertRaises(ValidationError):
                validators.validate(key, value)
