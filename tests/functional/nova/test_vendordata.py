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

"""Vendor data of servers, as Nova asks for it and passes it on."""

import json

from tests.functional.nova import vendordata

NOWHERE = 'http://127.0.0.1:1/'


class VendorDataTestCase(vendordata.VendorDataTestCase):
    def vendor_data(self, server):
        """Return what cloud-init finds under its name, both ways."""
        found = self.metadata(server)
        (drive,) = [
            data
            for path, data in found.metadata_for_config_drive()
            if path == 'openstack/latest/vendor_data2.json'
        ]
        served = json.loads(
            found.lookup('/openstack/latest/vendor_data2.json')
        )
        on_drive = json.loads(drive)
        self.assertEqual({'static', 'cloud-init'}, set(served))
        self.assertEqual(
            bool(served['cloud-init']), bool(on_drive['cloud-init'])
        )
        return served['cloud-init']

    def boot_with(self, **specs):
        return self.boot(self.flavor(vdisks=2, vdisk_gb=10, **specs))

    def test_flavors(self):
        text = self.vendor_data(self.boot_with(guest='kafka'))
        self.assertIn("'count': 2", text)
        self.assertIn(f"'bytes': {10 << 30}", text)
        self.assertIn('/etc/kafka/conf/server.properties', text)
        self.assertEqual('', self.vendor_data(self.boot_with()))
        self.assertEqual('', self.vendor_data(self.boot_with(guest='none')))

    def test_profile(self):
        server = self.boot_with(guest='hadoop', profile='batch')
        self.assertIn("'filesystem': 'ext4'", self.vendor_data(server))

    def test_no_failure_is_one_of_the_boot(self):
        server = self.boot_with(guest='plain')
        self.assertNotEqual('', self.vendor_data(server))
        # the service has no such token, or is away
        self.use_nova_token('stolen')
        self.assertEqual({}, self.vendor_data(server))
        self.use_nova_token(self.nova_token)
        self.ask_at(NOWHERE)
        self.assertEqual({}, self.vendor_data(server))
        self.ask_at(vendordata.URL)
        self.assertNotEqual('', self.vendor_data(server))
        # the service cannot reach Nova
        self.serve(NOWHERE)
        self.assertEqual('', self.vendor_data(server))
        self.assertIn('gets no vendor data', self.stdlog.logger.output)
