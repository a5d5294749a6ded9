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

"""Tests of what flavors ask for by this host's configuration."""

from unittest import mock

import testtools
from oslo_config import cfg
from oslo_config import fixture as config_fixture

from nova_diskplacer import conf
from nova_diskplacer import flavor
from nova_diskplacer.profiles import configured

SPECS = {'diskplacer:vdisks': '1', 'diskplacer:vdisk_gb': '2'}


class VolumeTypeTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        conf.register_opts(cfg.CONF)
        self.conf = self.useFixture(config_fixture.Config(cfg.CONF))

    def test_the_flavor_wins(self):
        for own, default, expected in (
            (None, None, None),
            (None, '', None),
            (None, 'ssd', 'ssd'),
            ('vdisk', None, 'vdisk'),
            ('vdisk', 'ssd', 'vdisk'),
        ):
            self.conf.config(volume_type=default, group='diskplacer_api')
            specs = {'diskplacer:volume_type': own} if own else {}
            self.assertEqual(
                expected, configured.parse(SPECS | specs).volume_type
            )
        self.assertIsNone(configured.parse({}))

    def test_a_flavor_is_parsed_once(self):
        with mock.patch.object(
            flavor, 'parse', side_effect=flavor.parse
        ) as parse:
            specs = {**SPECS, 'diskplacer:vdisk_gb': '4711'}
            for _ in range(2):
                self.assertEqual(4711, configured.parse(specs).vdisk_gb)
            # one that is not valid has its error each time
            for _ in range(2):
                self.assertRaises(
                    ValueError, configured.parse, {'diskplacer:none': '1'}
                )
        self.assertEqual(3, parse.call_count)
