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

import os
import uuid

from cinder.tests.unit import fake_constants as fake

from tests import shell
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
        self.assertIn('is not in project', self.log.output)
        self.assertIn('has no host', self.log.output)
        unknown = {'local_to_instance': str(uuid.uuid4())}
        self.assertIsNone(self.host_of('data', unknown))
        server = self.server('host1')
        self.nova.down = True
        self.assertIsNone(self.host_of(f'{server}-blank-vol'))
        self.assertIn('Nova does not answer', self.log.output)

    def test_server_on_a_host_without_disks(self):
        server = self.server('host3')
        self.assertIsNone(self.host_of(f'{server}-blank-vol'))

    def test_stats(self):
        scheduler = self.scheduler.manager.driver.host_manager

        def known():
            return {
                pool.host: pool
                for pool in scheduler.get_all_backend_states(self.context)
            }

        self.wait_until(
            lambda: len(known()) == len(base.HOSTS), 'the scheduler knows all'
        )
        pools = known()
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
            self.assertEqual('up', pool.capabilities['backend_state'])
            self.assertFalse(pool.capabilities['online_extend_support'])
            self.assertEqual(4, pool.capabilities['vdisk_largest_free_gb'])
            root = self.hosts[host].root
            self.assertEqual(
                f'VDiskMapper:{host}:filesystem:{root}:any',
                pool.capabilities['location_info'],
            )


class BootFromImageTest(base.CinderTestCase):
    """Nova has Cinder make a volume of an image, and names no server."""

    def setUp(self):
        super().setUp()
        image = {
            'id': fake.IMAGE_ID,
            'status': 'active',
            'size': 1,
            'container_format': 'bare',
            'disk_format': 'raw',
        }
        self.patch(
            'cinder.image.glance.GlanceImageService.show', return_value=image
        )
        self.patch(
            'cinder.image.glance.GlanceImageService.get_location',
            return_value=(None, None),
        )
        self.patch(
            'cinder.volume.flows.manager.create_volume.'
            'CreateVolumeFromSpecTask._create_from_image',
            return_value={},
        )

    def host_of(self, request_id, project=base.PROJECT, size=1, **fields):
        """Create a volume of an image and return its host and status."""
        body = {'size': size, 'name': '', 'imageRef': fake.IMAGE_ID, **fields}
        headers = {'X-OpenStack-Request-ID': request_id} if request_id else {}
        with self.as_member(project):
            volume = self.api.api_post(
                '/volumes', {'volume': body}, headers=headers
            )['volume']
        while volume['status'] == 'creating':
            volume = self.api.get_volume(volume['id'])
        host = volume['os-vol-host-attr:host'] or ''
        return host.partition('@')[0], volume['status']

    def build(self, *hosts, project=base.PROJECT):
        """Have servers of one request be built; returns the request's ID."""
        request_id = f'req-{uuid.uuid4()}'
        for host in hosts:
            server = self.server(host, project=project)
            self.nova.build(server, request_id)
        return request_id

    def paths(self):
        return [path.rpartition('/')[2] for path, _ in self.nova.requests]

    def test_the_volume_is_on_the_host_of_the_server(self):
        requests = [
            (host, self.build(host)) for host in ('host2', 'host1', 'host2')
        ]
        for host, request_id in requests:
            self.nova.requests.clear()
            self.assertEqual((host, 'available'), self.host_of(request_id))
            # whatever the number of backends
            self.assertEqual(1, self.paths().count('detail'))
            self.assertLessEqual(len(self.paths()), 1 + len(requests))

    def test_claims_that_the_last_report_does_not_know(self):
        """The scheduler thinks that all is claimed, and the server is gone."""
        (disk,) = self.hosts['host2'].disks()
        gone = self.server('host2', claims={disk: 4})
        self.volume[1].manager.publish_service_capabilities(self.context)

        def heard():
            manager = self.scheduler.manager.driver.host_manager
            return any(
                pool.capabilities['vdisk_largest_unclaimed_gb'] == 0
                for pool in manager.get_all_backend_states(self.context)
            )

        self.wait_until(heard, 'the scheduler knows what is claimed')
        self.placement._call('delete', f'/allocations/{gone}')
        self.assertEqual(
            ('host2', 'available'), self.host_of(self.build('host2'))
        )

    def test_servers_of_one_request(self):
        self.assertEqual(
            ('host2', 'available'), self.host_of(self.build('host2', 'host2'))
        )
        host, status = self.host_of(self.build('host2', 'host1'))
        self.assertEqual('available', status)
        self.assertIn(host, base.HOSTS)
        self.assertIn('has created servers on 2 hosts', self.log.output)

    def test_ids_of_others(self):
        """A user sends any ID, and fills all but what the ID leads to."""
        theirs = self.build('host2', project='theirs')
        self.assertEqual(('host1', 'available'), self.host_of(theirs))
        self.assertEqual(['detail'], self.paths())
        # nor does he find a server that is built
        ready = self.build('host2')
        for server in self.nova.servers.values():
            server['OS-EXT-STS:task_state'] = None
        self.assertEqual(('host1', 'available'), self.host_of(ready))

    def test_volumes_that_are_not_of_a_boot(self):
        request_id = self.build('host2')
        for sent, fields in (
            (None, {}),
            (request_id, {'name': 'mine'}),
            (request_id, {'imageRef': None}),
        ):
            self.nova.requests.clear()
            self.assertEqual(
                ('host1', 'available'), self.host_of(sent, **fields)
            )
            self.assertEqual([], self.paths())

    def test_nova_does_not_answer(self):
        request_id = self.build('host2')
        self.nova.down = True
        self.assertEqual(('host1', 'available'), self.host_of(request_id))
        self.assertEqual(
            1, self.log.output.count('may be on another host than its server')
        )


class CapacityTestCase(base.CinderTestCase):
    """host1 has ten disks of 10 GiB each, and not its own three."""

    def setUp(self):
        super().setUp()
        # all at once would take longer than the test
        host = self.hosts['host1']
        for path in list(host.disks()):
            shell.run_retry('umount', os.path.join(host.root, path))
        for _ in range(10):
            self.add_disk(os.path.dirname(host.root), size_gb=11)
        host.publish()
        self.report()

    def report(self):
        """Have host1 tell the scheduler what it is like, and wait."""
        driver = self.volume[0].manager.driver
        self.volume[0].manager.publish_service_capabilities(self.context)
        (told,) = driver.get_volume_stats()['pools']

        def heard():
            pool = self.pool()
            # it also counts by itself what it has placed since the last report
            return (
                pool.free_capacity_gb == told['free_capacity_gb']
                and pool.capabilities['vdisk_largest_free_gb']
                == told['vdisk_largest_free_gb']
            )

        self.wait_until(heard, 'the scheduler knows what host1 is like')

    def pool(self):
        """Return what the scheduler knows of host1."""
        host_manager = self.scheduler.manager.driver.host_manager
        (pool,) = [
            pool
            for pool in host_manager.get_all_backend_states(self.context)
            if pool.host.startswith('host1@')
        ]
        return pool

    def test_claims(self):
        """Claimed room is for the volumes of the server that claims it."""
        claims = {
            uuid: 10
            for uuid, disk in self.hosts['host1'].disks().items()
            if disk.health == 'ok'
        }
        spared, _ = claims.popitem()
        server = self.server(claims=claims, vdisks=9, vdisk_gb=10)
        self.report()
        self.assertEqual(10, self.pool().free_capacity_gb)
        self.server(claims={spared: 7})
        self.report()
        self.assertEqual(3, self.pool().free_capacity_gb)
        # host2 has 4 GiB
        self.create(5, status='error')
        volume = self.create(10, f'{server}-blank-vol')
        self.assertEqual('host1@vdisk#vdisk', volume['os-vol-host-attr:host'])
        self.attach(volume, server)
        self.report()
        self.assertEqual(3, self.pool().free_capacity_gb)

    def test_no_more_than_fits_one_disk(self):
        self.assertEqual(100, self.pool().free_capacity_gb)
        self.create(100, status='error')
        self.create(11, status='error')
        volume = self.create(10)
        self.assertEqual('host1@vdisk#vdisk', volume['os-vol-host-attr:host'])
        # what can hold no other may hold what it holds already
        self.report()
        self.assertEqual(90, self.pool().free_capacity_gb)
        server = self.server()
        attachment, _ = self.attach(volume, server)
        self.detach(volume, attachment)
        self.report()
        self.assertEqual(90, self.pool().free_capacity_gb)
        for disk in self.hosts['host1'].disks().values():
            if disk.health == 'ok' and not disk.vdisks:
                self.hosts['host1'].fill(disk.uuid, 6)
        self.report()
        self.assertEqual(4, self.pool().capabilities['vdisk_largest_free_gb'])
        self.create(5, status='error')
        self.retype(volume)
        self.create(4)

    def retype(self, volume):
        """Give a volume another type on the same backend."""
        type_id = self.api.create_type('other')['id']
        self.api.api_post(
            f'/volumes/{volume["id"]}/action',
            {'os-retype': {'new_type': type_id, 'migration_policy': 'never'}},
            check_response_status=[202],
        )
        self.wait(volume['id'], 'available')
        self.assertEqual(
            'other', self.api.get_volume(volume['id'])['volume_type']
        )

    def test_extend(self):
        server = self.server()
        volume = self.create(6, hints={'local_to_instance': server})
        attachment, _ = self.attach(volume, server)
        url = f'/volumes/{volume["id"]}/action'
        body = {'os-extend': {'new_size': 8}}
        self.api.api_post(url, body, check_response_status=[202])
        # the guest could not be told: the scheduler knows and refuses
        self.wait(volume['id'], 'in-use')
        self.assertEqual(6, self.api.get_volume(volume['id'])['size'])
        self.detach(volume, attachment)
        self.api.api_post(url, body, check_response_status=[202])
        self.wait(volume['id'], 'available')
        self.assertEqual(8, self.api.get_volume(volume['id'])['size'])
