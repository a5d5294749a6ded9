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

"""Servers of flavors that say little more than a profile's name."""

import os

import fixtures

from tests import profile_cache
from tests.functional.nova import base


class ProfileBootTestCase(base.CloudTestCase):
    hosts_count = 2

    def setUp(self):
        super().setUp()
        profile_cache.clear()
        self.addCleanup(profile_cache.clear)

    def write_profile(self, specs):
        """Make the operator's own profile, with these extra specs."""
        directory = self.useFixture(fixtures.TempDir()).path
        with open(os.path.join(directory, 'own.yaml'), 'w') as stream:
            stream.write(
                '{name: own, title: Own, description: Our own,'
                f' specs: {{{specs}}}}}'
            )
        self.flags(profile_dirs=[directory], group='diskplacer')

    def test_profile_alone(self):
        """Four vdisks of 256 GiB on four disks, where no page cache is."""
        self.hosts['host0'].cache_mode = 'writeback'
        self.hosts['host1'].cache_mode = 'none'
        self.report()
        for name in ('sequential_async', 'spark'):
            server = self.boot(self.flavor(profile=name))
            self.assert_claims(server, [256] * 4)
            self.assertEqual('host1', self.host_of(server).name)

    def test_no_host_has_the_cache_mode(self):
        self.hosts['host0'].cache_mode = 'directsync'
        self.report()
        self.refuse(self.flavor(profile='spark'))
        # others do not mind
        self.assert_claims(self.boot(self.flavor(profile='interactive')), [40])

    def test_flavor_wins(self):
        self.report()
        server = self.boot(
            self.flavor(profile='batch', vdisks=3, vdisk_gb=100)
        )
        # the mapping is the profile's
        self.assert_claims(server, [300])

    def test_medium_of_the_profile(self):
        for host in self.hosts.values():
            for disk in list(host.disks.values())[1:]:
                disk.medium = 'ssd'
                host.publish(disk)
        self.write_profile('diskplacer:media: hdd')
        self.report()
        server = self.boot(self.flavor(profile='own', vdisks=1, vdisk_gb=100))
        (disk,) = self.assert_claims(server, [100])
        self.assertEqual('hdd', self.host_of(server).disks[disk].medium)

    def test_profile_of_the_operators(self):
        self.write_profile('diskplacer:vdisks: 6, diskplacer:vdisk_gb: 7')
        self.report()
        server = self.boot(self.flavor(profile='own'))
        self.assert_claims(server, [7] * 6)

    def test_profile_that_asks_for_nothing(self):
        server = self.boot(self.flavor(profile='neutral'))
        self.assertEqual({}, self.claims(server['id']))

    def test_unknown_profile(self):
        self.report()
        self.refuse(self.flavor(profile='hadop'))
        self.assertIn(
            'diskplacer:profile=hadop is not one of: batch, interactive',
            self.stdlog.logger.output,
        )
