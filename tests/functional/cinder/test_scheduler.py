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

"""VDiskLocalityFilter in a real cinder-scheduler."""

import uuid

from tests.functional.cinder import base


class LocalityTestCase(base.CinderTestCase):
    def host_of(self, name, hints=None):
        """Create a volume and return its host; None if it has none."""
        body = {'volume': {'size': 1, 'name': name}}
        if hints:
            body['OS-SCH-HNT:scheduler_hints'] = hints
        volume = self.api.post_volume(body)
        while volume['status'] == 'creating':
            volume = self.api.get_volume(volume['id'])
        return (volume['os-vol-host-attr:host'] or '').split('@')[0] or None

    def test_blank_volumes_are_on_the_host_of_their_server(self):
        for host in ('host1', 'host2', 'host2', 'host1'):
            server = self.server(host)
            self.nova.requests.clear()
            self.assertEqual(host, self.host_of(f'{server}-blank-vol'))
            # one question per request, whatever the number of backends
            self.assertEqual(
                [(f'/servers/{server}', 'compute 2.47')],
                [
                    (path[path.index('/servers') :], version)
                    for path, version in self.nova.requests
                ],
            )

    def test_hint(self):
        for host in ('host1', 'host2', 'host2'):
            server = self.server(host)
            self.assertEqual(
                host, self.host_of('data', {'local_to_instance': server})
            )

    def test_not_for_a_server(self):
        for name in ('data', 'a-blank-vol', f'{uuid.uuid4()}-blank-vol'):
            self.assertIn(self.host_of(name), base.HOSTS)

    def test_refused(self):
        foreign = self.server('host1', project='somebody')
        homeless = self.server(None)
        for server in (foreign, homeless):
            self.assertIsNone(self.host_of(f'{server}-blank-vol'))
            self.assertIsNone(
                self.host_of('data', {'local_to_instance': server})
            )
        self.assertIn('is not of project', self.log.output)
        self.assertIn('has no host', self.log.output)
        unknown = {'local_to_instance': str(uuid.uuid4())}
        self.assertIsNone(self.host_of('data', unknown))
        server = self.server('host1')
        self.nova.down = True
        self.assertIsNone(self.host_of(f'{server}-blank-vol'))
        self.assertIn('Nova cannot be asked', self.log.output)

    def test_server_on_a_host_without_disks(self):
        server = self.server('host3')
        self.assertIsNone(self.host_of(f'{server}-blank-vol'))

    def test_stats(self):
        scheduler = self.scheduler.manager.driver.host_manager
        pools = {
            pool.host: pool
            for pool in scheduler.get_all_backend_states(self.context)
        }
        self.assertEqual(
            {f'{host}@vdisk#vdisk' for host in base.HOSTS}, set(pools)
        )
        for host, count in base.HOSTS.items():
            pool = pools[f'{host}@vdisk#vdisk']
            self.assertEqual(4 * count, pool.free_capacity_gb)
            self.assertEqual(4 * count, pool.total_capacity_gb)
            self.assertFalse(pool.thin_provisioning_support)
            self.assertTrue(pool.thick_provisioning_support)
            self.assertFalse(pool.multiattach)
            self.assertTrue(pool.capabilities['vdisk_mapper'])
            self.assertFalse(pool.capabilities['online_extend_support'])
            self.assertEqual(4, pool.capabilities['vdisk_largest_free_gb'])
