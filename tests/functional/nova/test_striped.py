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

from tests.functional.nova import base


class StripedTestCase(base.CloudTestCase):
    """One of two hosts has LVM disks."""

    hosts_count = 2
    disks_count = 4

    def setUp(self):
        super().setUp()
        for disk in self.hosts['host1'].disks.values():
            disk.can_stripe = True
        self.report()

    def test_claims_of_one_request(self):
        stripe = {'mapping': 'striped', 'stripe_disks': 3, 'vdisk_mbps': 100}
        flavor = self.flavor(vdisks=1, vdisk_gb=1000, **stripe)
        server = self.boot(flavor)
        disks = self.assert_claims(server, [334] * 3, [34] * 3)
        self.assertEqual('host1', self.host_of(server).name)
        # the other disk is the emptiest of the next stripe
        self.report()
        other = self.assert_claims(self.boot(flavor), [334] * 3, [34] * 3)
        self.assertEqual({*self.hosts['host1'].disks}, disks | other)
        # two disks have room for a third, and none is claimed of them
        self.report()
        self.refuse(flavor)
        servers = [server]
        # two vdisks, which may share disks
        two = {**stripe, 'vdisk_gb': 30, 'vdisks': 2}
        self.refuse(self.flavor(**two))
        two['vdisks_per_disk'] = 2
        servers.append(self.boot(self.flavor(**two)))
        self.assert_claims(servers[-1], [10, 10, 20, 20], [34, 34, 68, 68])
        for server in servers:
            self._delete_server(server)
            self.assertEqual({}, self.allocations(server['id']))

    def test_claims_of_elastic_vdisks(self):
        """They claim their narrowest stripe."""
        elastic = {'mapping': 'elastic', 'vdisk_gb': 30, 'vdisk_mbps': 50}
        for disks, number, gb, mbps in (
            ('1-4', 2, [64], [100]),
            ('2-4', 1, [16, 16], [25, 25]),
        ):
            flavor = self.flavor(vdisks=number, stripe_disks=disks, **elastic)
            server = self.boot(flavor)
            self.assert_claims(server, gb, mbps)
            self.assertEqual('host1', self.host_of(server).name)
            self.report()
