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

"""The filter in nova-api: the flavor alone gives the vdisks."""

import configparser
import os
from unittest import mock

import fixtures
from nova.policies import servers as policies
from nova.tests.functional.api import client

from nova_diskplacer.api import blank_volumes
from tests.functional.nova import base
from tests.functional.nova import test_volumes

FACTORY = 'nova_diskplacer.api.blank_volumes:BlankVolumes.factory'
# as Nova's fixture of Cinder names it
TYPE = 'lvm-1'


def with_filter(test, shipped):
    """Return the path of an ``api-paste.ini`` with the filter."""
    paste = configparser.RawConfigParser()
    paste.read(shipped)
    for name in paste.sections():
        if name.startswith('composite:openstack_compute_api_v21'):
            pipeline = paste[name]['keystone'].split()
            pipeline.insert(-1, 'diskplacer')
            paste[name]['keystone'] = ' '.join(pipeline)
    paste['filter:diskplacer'] = {'paste.filter_factory': FACTORY}
    path = os.path.join(test.useFixture(fixtures.TempDir()).path, 'i')
    with open(path, 'w') as stream:
        paste.write(stream)
    return path


class ApiFilterTestCase(base.CloudTestCase):
    """Nova's own pipelines, with the filter where the manual puts it."""

    hosts_count = 2
    disks_count = 4
    disk = {'total_gb': 100}

    def setUp(self):
        super().setUp()
        self.vdisks = self.flavor(vdisks=3, vdisk_gb=20, volume_type=TYPE)
        self.report()

    def api_paste_config(self):
        return with_filter(self, super().api_paste_config())

    def assert_vdisks(self, server, number=3):
        """Check that the server's vdisks are on as many disks."""
        volumes = list(self.volumes.volume_ids_for_instance(server['id']))
        self.assertEqual(number, len(volumes))
        host = self.host_of(server).name
        places = {self.volumes.places[volume] for volume in volumes}
        self.assertEqual(number, len(places))
        disks = self.assert_claims(server, [20] * number)
        self.assertEqual({(host, disk) for disk in disks}, places)
        for volume in volumes:
            self.assertEqual(
                TYPE, self.volumes.volumes[volume]['volume_type_id']
            )

    def boot_at(self, version):
        """Boot a server by a microversion."""
        with mock.patch.object(self.api, 'microversion', version):
            server = self.api.post_server(self.request(self.vdisks))
        server = self.settled(server)
        self.assertEqual('ACTIVE', server['status'], server.get('fault'))
        return server

    def assert_refused(self, status, message, **kwargs):
        """Ask for a server and be refused."""
        body = self.request(self.vdisks, **kwargs)
        error = self.assertRaises(
            client.OpenStackApiException, self.api.post_server, body
        )
        self.assertEqual(status, error.response.status_code)
        self.assertRegex(error.response.text, message)

    def assert_nothing_left(self):
        self.assertEqual([], self.api.get_servers(detail=False))
        self.assertEqual({}, self.volumes.volumes)


class FlavorAloneTest(ApiFilterTestCase):
    def test_every_microversion(self):
        for version in ('2.37', '2.66', '2.67', 'latest'):
            server = self.boot_at(version)
            self.assert_vdisks(server)
            self._delete_server(server)
            # with the server
            self.assertEqual({}, self.volumes.volumes)
            self.reconcile()

    def test_the_old_root(self):
        """Microversions are none of its business."""
        url = self.api_fixture.base_url.replace('v2.1', 'v2')
        self.useFixture(fixtures.MockPatchObject(self.api, 'base_url', url))
        body = self.request(self.vdisks)
        del body['server']['networks']
        server = self.api.post_server(body)
        self.assert_vdisks(self.settled(server))

    def test_several_servers(self):
        self.api.post_server(self.request(self.vdisks, min_count=2))
        servers = self.api.get_servers(detail=False)
        self.assertEqual(2, len(servers))
        for server in servers:
            self.assert_vdisks(self.settled(server))

    def test_rebuild_and_resize_change_no_volumes(self):
        plain = self._create_flavor(memory_mb=512, vcpu=1, disk=1, ephemeral=0)
        server = self.boot(self.vdisks)
        self.reconcile()
        self._rebuild_server(server, '155d900f-4e14-4e4c-a73d-069cbf4541e6')
        self.assert_vdisks(server)
        other = self.boot(plain)
        self._resize_server(other, self.vdisks)
        self.assertEqual(
            [], list(self.volumes.volume_ids_for_instance(other['id']))
        )


class OtherVolumesTest(ApiFilterTestCase):
    """Volumes that are no vdisks come along."""

    def test_roots_and_extra_volumes(self):
        self.flags(blank_volumes='require', group='diskplacer_scheduler')
        root, extra = test_volumes.blank(1, 10)
        root = {**root, 'destination_type': 'volume', 'volume_type': TYPE}
        extra['volume_type'] = TYPE
        for size in (10, 20, 30):
            root['volume_size'] = size
            server = self.boot(
                self.vdisks, block_device_mapping_v2=[root, extra]
            )
            volumes = self.volumes.volume_ids_for_instance(server['id'])
            sizes = [self.volumes.volumes[one]['size'] for one in volumes]
            self.assertEqual(sorted([10, size, 20, 20, 20]), sorted(sizes))
            self.assert_claims(server, [20] * 3)
            self._delete_server(server)

    def test_no_host_has_room_for_the_root(self):
        (root,) = test_volumes.blank(0, 0)
        root = {
            **root,
            'destination_type': 'volume',
            'volume_type': TYPE,
            'volume_size': 10,
        }
        full = self.flavor(vdisks=4, vdisk_gb=100, volume_type=TYPE)
        self.refuse(full, block_device_mapping_v2=[root])
        self.assertIn(
            'New volumes of 10 GiB, which are no vdisks of server',
            self.stdlog.logger.output,
        )
        less = self.flavor(vdisks=3, vdisk_gb=100, volume_type=TYPE)
        server = self.boot(less, block_device_mapping_v2=[root])
        self.assert_claims(server, [100] * 3)


class RefusedTest(ApiFilterTestCase):
    def test_what_does_not_suit_the_flavor(self):
        self.api.microversion = '2.66'
        wrong = test_volumes.blank(2, 20)
        text = '3 volumes of 20 GiB .* brings 2 volumes of 20 GiB'
        self.assert_refused(400, text, block_device_mapping_v2=wrong)
        self.volumes.default_type = 'other'
        self.assert_refused(400, 'type is other.* microversion 2.67')
        self.volumes.quotas = {
            'volumes': {'limit': 5, 'in_use': 0, 'reserved': 0}
        }
        self.api.microversion = '2.67'
        self.assert_refused(
            403, '6 requested, 0 in use, 5 allowed', min_count=2
        )
        # Nova checks what is added
        self.policy.set_rules(
            {policies.SERVERS % 'create:attach_volume': '!'}, overwrite=False
        )
        self.assert_refused(403, "Policy doesn't allow")
        self.assert_nothing_left()

    def test_who_may_create_no_servers(self):
        """Nova says so, whatever the request is, and nobody is asked."""
        self.policy.set_rules({policies.SERVERS % 'create': '!'})
        asked = self.useFixture(
            fixtures.MockPatchObject(
                blank_volumes.volumes,
                'Volumes',
                wraps=blank_volumes.volumes.Volumes,
            )
        ).mock
        for number in (2, 3):
            self.assert_refused(
                403,
                "Policy doesn't allow os_compute_api:servers:create to",
                block_device_mapping_v2=test_volumes.blank(number, 20),
            )
        asked.assert_not_called()

    def test_media_that_the_volume_type_lacks(self):
        self.volumes.media = {TYPE: 'ssd', 'slow': 'hdd'}
        self.assert_refused(
            400, f'media is any, so that hdd .* type {TYPE} has ssd disks only'
        )
        self.assert_nothing_left()

    def test_what_nova_refuses(self):
        self.assert_refused(400, 'Invalid imageRef|imageRef', imageRef='x')
        self.assert_refused(
            400, 'nobodys could not be found', flavorRef='nobodys'
        )
        self.assert_refused(400, 'min_count', min_count='many')
        self.assert_refused(
            400,
            'Additional properties are not allowed',
            block_device_mapping_v2=[{'x': 1}],
        )
        self.assert_nothing_left()


class RequiredTest(test_volumes.VolumesTestCase):
    """A Nova without the filter."""

    def test_servers_without_their_volumes(self):
        self.flags(blank_volumes='require', group='diskplacer_scheduler')
        flavor = self.flavor(vdisks=2, vdisk_gb=50)
        self.refuse(flavor)
        self.refuse(flavor, block_device_mapping_v2=test_volumes.blank(1, 50))
        self.refuse(flavor, block_device_mapping_v2=test_volumes.blank(2, 40))
        server = self.boot(
            flavor, block_device_mapping_v2=test_volumes.blank(2, 50)
        )
        self.assert_claims(server, [50] * 2)
        self.reconcile()
        # it is no new server any more
        self.shelve(server)
        self._unshelve_server(server)
        self.assertEqual('ACTIVE', self.settled(server)['status'])
