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

"""Statistics of the backend for cinder-scheduler."""

from unittest import mock

import testtools

from cinder_vdisk_mapper.features import migration
from tests.unit.cinder_vdisk_mapper import fakes
from tests.unit.cinder_vdisk_mapper import test_driver


class StatsTestCase(test_driver.DriverTestCase):
    def setUp(self):
        super().setUp()
        self.volumes = []
        self.driver.db = mock.Mock(
            volume_get_all_by_host=lambda context, host, filters: self.volumes
        )

    def test_one_pool_of_the_healthy_disks(self):
        self.driver.backend.create('a', 'volume-1', '1', None, 30)
        self.driver.operations.reserve('a')
        stats = self.driver.get_volume_stats(True)
        (pool,) = stats['pools']
        self.assertEqual(
            {
                'total_capacity_gb': 150,
                'free_capacity_gb': 70 + 50,
                'provisioned_capacity_gb': 30,
                'vdisk_largest_free_gb': 70,
                'vdisk_largest_unclaimed_gb': 70,
                'vdisk_mapper': True,
                'thin_provisioning_support': False,
                'thick_provisioning_support': True,
                'online_extend_support': False,
                'multiattach': False,
            },
            {
                key: value
                for key, value in pool.items()
                if key.endswith('_gb')
                or key.endswith('support')
                and key != 'QoS_support'
                or key in ('vdisk_mapper', 'multiattach')
            },
        )

    def test_medium(self):
        self.driver.configuration.vdisk_media = 'ssd'
        (pool,) = self.driver.get_volume_stats(True)['pools']
        self.assertEqual(50, pool['total_capacity_gb'])

    def test_no_disks(self):
        self.driver.backend = fakes.Backend()
        (pool,) = self.driver.get_volume_stats(True)['pools']
        self.assertEqual(
            (0, 0), (pool['free_capacity_gb'], pool['vdisk_largest_free_gb'])
        )

    def test_unbound_volumes_are_not_free(self):
        self.driver.backend.create('a', 'volume-1', '1', None, 30)
        self.driver.operations.reserve('a')
        self.driver.backend.snapshot('a', 'volume-1', 'snapshot-2', '2')
        self.driver.operations.reserve('a')
        self.volumes = [
            test_driver.volume(size=15, status='available'),
            test_driver.volume(size=5, status='creating'),
            test_driver.volume(size=99, status='error'),
            test_driver.volume(
                size=99, status='available', provider_location='a'
            ),
        ]
        (pool,) = self.driver.get_volume_stats(True)['pools']
        self.assertEqual(
            (40 + 50 - 20, 60 + 20, 50),
            (
                pool['free_capacity_gb'],
                pool['provisioned_capacity_gb'],
                pool['vdisk_largest_free_gb'],
            ),
        )
        self.volumes = [test_driver.volume(size=100, status='available')]
        (pool,) = self.driver.get_volume_stats(True)['pools']
        self.assertEqual(0, pool['free_capacity_gb'])

    def test_claims_are_not_free(self):
        self.assertTrue(self.placement.claim('server', {'a': 60, 'b': 50}))
        self.volumes = [
            # it is for the claim
            test_driver.volume(
                size=60, status='available', display_name='server-blank-vol'
            ),
            test_driver.volume(size=5, status='available'),
        ]
        self.assertEqual((40 - 5, 65, 100, 40), self.figures())
        # filled: it has not become less
        self.driver.backend.create('a', 'volume-1', '1', 'server', 60)
        self.driver.operations.reserve('a')
        self.volumes.pop(0)
        self.assertEqual((40 - 5, 65, 50, 40), self.figures())

    def figures(self):
        (pool,) = self.driver.get_volume_stats(True)['pools']
        return (
            pool['free_capacity_gb'],
            pool['provisioned_capacity_gb'],
            pool['vdisk_largest_free_gb'],
            pool['vdisk_largest_unclaimed_gb'],
        )

    def test_placement_away(self):
        self.placement.down = True
        self.assertEqual((0, 0, 100, 0), self.figures())
        self.placement.down = False
        self.assertEqual((150, 0, 100, 100), self.figures())
        self.placement.down = True
        self.assertEqual((150, 0, 100, 100), self.figures())
        self.assertIn('Placement is down', self.log.output)

    def test_backend_state(self):
        self.assertEqual('up', self.state())
        self.driver.backend = fakes.Backend(
            *(disk for disk in self.disks if disk.health != 'ok')
        )
        self.assertEqual('down', self.state())

    def state(self):
        return self.driver.get_volume_stats(True)['backend_state']


class LocationTestCase(testtools.TestCase):
    def test_round_trip(self):
        for disk_root in ('/disks', '/odd:path'):
            location = migration.BackendDisks(
                'node', 'filesystem', disk_root, 'ssd'
            )
            self.assertEqual(location, migration.parse_location(str(location)))

    def test_others(self):
        for info in (None, '', 'LVMVolumeDriver:node:vg:default:0', 'x'):
            self.assertIsNone(migration.parse_location(info))
