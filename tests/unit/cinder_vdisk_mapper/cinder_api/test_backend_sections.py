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

"""The backends that cinder.conf has."""

import testtools
from oslo_config import cfg
from oslo_config import fixture

from cinder_vdisk_mapper.cinder_api import backend_sections
from nova_diskplacer import exception


class ReadTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.conf = self.useFixture(fixture.Config(cfg.CONF))

    def test_options_that_all_drivers_have(self):
        self.conf.config(enabled_backends=['ssd'], host='node')
        self.conf.load_raw_values(
            'ssd',
            volume_driver='cinder_vdisk_mapper.driver.VDiskMapperDriver',
            num_volume_device_scan_tries='7',
        )
        (options,) = backend_sections.read(cfg.CONF).values()
        # os-brick is told so at a login and a logout
        self.assertEqual(7, options.num_volume_device_scan_tries)
        self.assertEqual('file', options.vdisk_connection)

    def test_no_backend(self):
        self.conf.config(enabled_backends=['other'])
        error = self.assertRaises(
            exception.DiskPlacerError, backend_sections.read, cfg.CONF
        )
        self.assertIn("enabled_backends=['other']", str(error))
