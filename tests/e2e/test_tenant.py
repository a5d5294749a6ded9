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

"""Servers of a tenant who names a flavor and no volumes."""

import os
import uuid

from tests.e2e import base
from tools.minicloud import api
from tools.minicloud import checks
from tools.minicloud import tenant
from tools.minicloud.api import ApiError
from tools.minicloud.process import ProcessError

FLAVOR = f'round-robin-{base.VDISKS}'


class TenantTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.tenant = tenant.Tenant(self.cloud, f'tenant-{uuid.uuid4()}')

    def assert_boots(self, server, mapping='round-robin'):
        self.api.wait_server(server)
        self.assert_mapped(server, mapping)

    def assert_nothing_created(self):
        servers = self.tenant.api.get('compute', '/servers')['servers']
        self.assertEqual([], servers)
        self.assertEqual([], self.volumes())

    def volumes(self):
        return self.tenant.api.get('volumev3', '/volumes/detail')['volumes']

    def refuse(self, **options):
        """Have Nova refuse a server and return the error."""
        error = self.assertRaises(
            ApiError, self.tenant.by_api, 'refused', FLAVOR, **options
        )
        self.assert_nothing_created()
        return error


class FlavorAloneTest(TenantTestCase):
    def test_command(self):
        """In the oldest microversion, and in that which it chooses."""
        servers = {
            mapping: self.tenant.by_command(
                mapping, f'{mapping}-{base.VDISKS}', version
            )
            for mapping, version in (
                ('round-robin', tenant.FIRST),
                ('consolidated', ''),
            )
        }
        for mapping, server in servers.items():
            self.assert_boots(server, mapping)
        self.assertEqual(
            {('vdisk', 1)},
            {(one['volume_type'], one['size']) for one in self.volumes()},
        )
        for server in servers.values():
            self.tenant.api.delete_server(server)
        self.eventually('volumes gone', lambda: not self.volumes())

    def test_sdk_example(self):
        self.assert_boots(self.tenant.by_sdk('sdk', FLAVOR))

    def test_heat_example(self):
        heat = ('heat-api', 'heat-engine')
        if not self.cloud.services[heat[0]].running():
            self.cloud.start_heat()
            for name in heat:
                self.addCleanup(self.cloud.stop_service, name)
        server = self.tenant.by_heat('heat', FLAVOR)
        self.assert_boots(server)
        self.tenant.delete_stack('heat')
        self.assert_nothing_created()

    def test_two_servers_of_one_request(self):
        self.tenant.by_api('two', FLAVOR, min_count=2)
        found = self.tenant.api.get('compute', '/servers')['servers']
        self.assertEqual(2, len(found))
        for server in found:
            self.assert_boots(server['id'])

    def test_root_on_a_new_volume(self):
        """As Horizon's dialog proposes: of the default type, the vdisks'.

        Once the image is written, no other host could have the volume.
        """
        guest = self.api.get('image', f'/v2/images/{self.cloud.image}')
        image = self.api.create_image(
            f'root-{uuid.uuid4()}',
            os.urandom(2**20),
            kernel_id=guest['kernel_id'],
            ramdisk_id=guest['ramdisk_id'],
        )
        self.addCleanup(self.discard, 'image', f'/v2/images/{image}')
        root = {
            'boot_index': 0,
            'uuid': image,
            'source_type': 'image',
            'destination_type': 'volume',
            'volume_size': 1,
            'delete_on_termination': True,
        }
        error = self.refuse(min_count=2, block_device_mapping_v2=[root])
        self.assertIn('Each of 2 servers has a new volume', str(error))
        known = set()
        for name in ('one', 'two', 'three'):
            server = self.tenant.by_api(
                name, FLAVOR, block_device_mapping_v2=[root]
            )
            self.api.wait_server(server)
            vdisks = self.disks_of(server)
            (volume,) = {
                one['id']
                for one in self.volumes()
                if one['bootable'] == 'true'
            } - known
            known.add(volume)
            del vdisks[volume]
            self.assertEqual(base.VDISKS, len(vdisks))
            claims = checks.claims(self.cloud, server)
            self.assertEqual(vdisks, checks.claimed_disks(vdisks, claims, 1))
            self.assertEqual(base.VDISKS, sum(claims.values()))

    def test_default_type(self):
        """Where it is another, old microversions cannot ask for vdisks."""
        name = f'other-{uuid.uuid4()}'
        self.api.create_volume_type(name)
        self.addCleanup(self.discard, 'volumev3', f'/types/{name}')
        project = self.tenant.api.session.get_project_id()
        path = f'/default-types/{project}'
        self.api.call(
            'volumev3',
            'PUT',
            path,
            json={'default_type': {'volume_type': name}},
        )
        self.addCleanup(self.api.delete, 'volumev3', path)
        error = self.assertRaises(
            ProcessError,
            self.tenant.by_command,
            'refused',
            FLAVOR,
            tenant.FIRST,
        )
        for words in ('400', name, '--os-compute-api-version 2.67'):
            self.assertIn(words, str(error))
        self.assert_nothing_created()
        server = self.tenant.by_command('named', FLAVOR, tenant.NAMES_TYPES)
        self.assert_boots(server)


class VolumesOfRequestTest(TenantTestCase):
    def with_volumes(self, count, size_gb=1):
        return api.with_volumes(self.cloud.image, count, size_gb)

    def with_existing(self, volumes):
        """Return what a request adds to bring volumes that exist."""
        options = self.with_volumes(0)
        options['block_device_mapping_v2'] += [
            {
                'source_type': 'volume',
                'destination_type': 'volume',
                'uuid': volume,
                'boot_index': -1,
            }
            for volume in volumes
        ]
        return options

    def test_existing_volumes_count(self):
        volumes = [
            self.tenant.api.create_volume(1) for _ in range(base.VDISKS)
        ]
        error = self.assertRaises(
            ApiError,
            self.tenant.by_api,
            'refused',
            FLAVOR,
            **self.with_existing(volumes[:3]),
        )
        self.assertEqual(400, error.status)
        self.assertIn('3 volumes of 1 GiB', str(error))
        server = self.tenant.by_api(
            'existing', FLAVOR, **self.with_existing(volumes)
        )
        self.assert_boots(server)
        disks = self.disks_of(server)
        self.assertEqual({*volumes}, {*disks})
        # the next server keeps their data, and their disks
        self.tenant.api.delete_server(server)
        for volume in volumes:
            self.tenant.api.wait_volume(volume, 'available')
        server = self.tenant.by_api(
            'next', FLAVOR, **self.with_existing(volumes)
        )
        self.api.wait_server(server)
        self.assertEqual(disks, self.disks_of(server))
        # their disks reserve them, so nothing is claimed beside them
        self.assertEqual({}, checks.claims(self.cloud, server))

    def test_quota(self):
        """It is refused before a host is chosen."""
        project = self.tenant.api.session.get_project_id()
        self.api.call(
            'volumev3',
            'PUT',
            f'/os-quota-sets/{project}',
            json={'quota_set': {'volumes': 2 * base.VDISKS - 1}},
        )
        error = self.refuse(min_count=2)
        self.assertEqual(403, error.status)
        self.assertIn('quota volumes is exceeded: 8 requested', str(error))
        server = self.tenant.by_api('one', FLAVOR)
        self.api.wait_server(server)
        error = self.assertRaises(
            ApiError, self.tenant.by_api, 'second', FLAVOR
        )
        self.assertEqual(403, error.status)
        self.assertIn('4 requested, 4 in use, 7 allowed', str(error))


class VendorDataTest(base.TestCase):
    """Where its service answers: see test_path."""

    SERVICE = 'diskplacer-vendordata'

    def test_the_service_is_down(self):
        self.cloud.stop_service(self.SERVICE)
        self.addCleanup(self.cloud.start_service, self.SERVICE)
        host = self.cloud.libvirt_host
        server = self.request('round-robin', host, config_drive=True)
        self.api.wait_server(server)
        self.assertEqual('', checks.vendor_data(self.cloud, host, server))
