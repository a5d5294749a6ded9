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


from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer.guest import config
from nova_diskplacer.guest import vendor_data
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions
from nova_diskplacer.vendordata import answer

PROFILES = catalogue.Catalogue(
    [
        definitions.Profile(
            'scan',
            'Scans',
            'Reads everything.',
            aliases=('grep',),
            specs={
                'diskplacer:vdisks': '4',
                'diskplacer:vdisk_gb': '100',
            },
            guest=definitions.Guest(
                filesystem='ext4',
                mount_options=('nodiratime',),
                scheduler='none',
            ),
        ),
        definitions.Profile('idle', 'Nothing', 'Does nothing.'),
        definitions.Profile(
            'wrong',
            'Wrong',
            'Has a mount option that is none.',
            guest=definitions.Guest(mount_options=('a b',)),
        ),
    ]
)


class ForFlavorTest(base.BaseTestCase):
    def answer(self, **specs):
        return answer.for_flavor(
            {f'diskplacer:{name}': value for name, value in specs.items()},
            PROFILES,
        )

    def assert_settings(self, settings, text):
        """Check that the answer is vendor data with these settings."""
        wanted = vendor_data.vendor_data(settings)
        body, end = (
            one.partition('Content-Disposition')[2] for one in (wanted, text)
        )
        boundary = wanted.split('"')[1]
        self.assertEqual(body, end.replace(text.split('"')[1], boundary))

    def test_every_framework(self):
        for guest in flavor.GUESTS:
            text = self.answer(guest=guest, vdisks='2', vdisk_gb='10')
            if guest == flavor.NONE:
                self.assertEqual('', text)
            else:
                self.assert_settings(
                    config.settings(guest, count=2, gib=10), text
                )

    def test_advice_of_the_profile(self):
        for name in ('scan', 'grep'):
            self.assert_settings(
                config.settings(
                    'kafka',
                    count=4,
                    gib=50,
                    advice=definitions.Guest('ext4', ('nodiratime',), 'none'),
                ),
                self.answer(guest='kafka', profile=name, vdisk_gb='50'),
            )

    def test_nothing_asked(self):
        self.assertEqual('', self.answer())
        self.assertEqual('', self.answer(profile='scan'))
        self.assertEqual('', self.answer(profile='idle', guest='plain'))
        self.assertEqual('', self.answer(guest='plain'))

    def test_wrong_flavors(self):
        for specs in (
            {'guest': 'hbase'},
            {'guest': 'plain', 'vdisks': '4'},
            {'guest': 'plain', 'profile': 'sacn'},
        ):
            self.assertRaises(ValueError, self.answer, **specs)
        self.assertRaises(
            exception.DiskPlacerError,
            self.answer,
            guest='plain',
            profile='wrong',
            vdisks='1',
            vdisk_gb='1',
        )
