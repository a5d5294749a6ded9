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

"""Tests of the filter of nova-api, with Cinder and Glance mocked."""

import copy
import io
import json
import types
import unittest
from unittest import mock

from cinderclient import exceptions as cinder_exc
from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import objects
from nova import policy
from nova.api import openstack
from nova.api.openstack import wsgi
from oslo_middleware import sizelimit

from nova_diskplacer import conf
from nova_diskplacer.api import backends
from nova_diskplacer.api import blank_volumes
from nova_diskplacer.api import volumes

IMAGE = '155d900f-4e14-4e4c-a73d-069cbf4541e6'
VOLUME = '4c1b1f4e-27a5-4a5e-9f0f-0d1a7b9f8f10'
OTHER = '9b0f1f9e-3f6c-4a52-8d2f-6a6b4f0f7d11'
PROJECT = '6f70656e737461636b'
TYPE_ID = '6c4a1e4e-6a6e-4d7e-8f26-6c4b1b6a4d5c'
ROOT = {
    'source_type': 'image',
    'destination_type': 'local',
    'uuid': IMAGE,
    'boot_index': 0,
    'delete_on_termination': True,
}
INFINITE = float('inf')
BLANK = {
    'source_type': 'blank',
    'destination_type': 'volume',
    'volume_size': 100,
    'boot_index': -1,
    'delete_on_termination': True,
}
VDISK = {**BLANK, 'volume_type': 'vdisk'}
SERVER = {
    'name': 's',
    'flavorRef': '42',
    'imageRef': IMAGE,
    'networks': 'none',
}
SPECS = {
    'diskplacer:vdisks': '2',
    'diskplacer:vdisk_gb': '100',
    'diskplacer:volume_type': 'vdisk',
}


def volume(volume_type, size=100, bootable=False):
    """Return a volume as Nova's client of Cinder does."""
    return {
        'size': size,
        'volume_type_id': volume_type,
        'bootable': bootable,
    }


def existing(volume_id=VOLUME, **changes):
    return {
        'source_type': 'volume',
        'destination_type': 'volume',
        'uuid': volume_id,
        'boot_index': -1,
        **changes,
    }


class Nova:
    """The rest of Nova's API, which keeps the body of the last request."""

    def __init__(self):
        self.body = None

    def __call__(self, environ, start_response):
        request = wsgi.Request(environ)
        self.body = request.body
        self.headers = dict(request.headers)
        start_response('202 Accepted', [('Content-Length', '0')])
        return [b'']


class FilterTestCase(unittest.TestCase):
    def setUp(self):
        objects.register_all()
        self.cinder = mock.Mock()
        self.volumes = {}
        self.cinder.get.side_effect = lambda _, name: self.volumes[name]
        self.client = mock.Mock()
        self.client.volume_types.default.return_value.name = 'ceph'
        self.client.volume_types.list.return_value = []
        self.client.pools.list.return_value = []
        self.quotas = self.client.quotas.get.return_value.to_dict
        self.quotas.return_value = {}
        self.image = {'properties': {}}
        self.images_asked = []
        self.specs = dict(SPECS)
        for where, name, value in (
            (volumes.cinder, 'API', lambda: self.cinder),
            (volumes.cinder, 'cinderclient', lambda context: self.client),
            (volumes.glance, 'API', self._glance),
            (objects.Flavor, 'get_by_flavor_id', self._flavor),
        ):
            patch = mock.patch.object(where, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.context = context.RequestContext(
            'user', PROJECT, is_admin=False, roles=['member']
        )
        # Nova's default policies
        nova_conf.CONF([], project='nova', default_config_files=[])
        self.addCleanup(policy.reset)
        self.nova = Nova()
        self.filter = blank_volumes.BlankVolumes.factory({})(self.nova)

    def _glance(self):
        return types.SimpleNamespace(get=self._get_image)

    def _get_image(self, context, image_id, show_deleted):
        self.images_asked.append(image_id)
        return self.image

    def _flavor(self, context, flavor_id, read_deleted):
        self.assertIs(self.context, context)
        self.assertEqual('no', read_deleted)
        if flavor_id != '42':
            raise exception.FlavorNotFound(flavor_id=flavor_id)
        return types.SimpleNamespace(name='m1', extra_specs=self.specs)

    def send(self, body, path='/servers', version='2.96', app=None):
        """Send a request and return the response."""
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        request = self.request(path, body, version)
        return request.get_response(app or self.filter)

    def request(self, path, body, version='2.96', method='POST'):
        """Return a request, which becomes the one that is sent."""
        request = wsgi.Request.blank(
            path, method=method, content_type='application/json'
        )
        request.body = body
        request.environ['nova.context'] = self.context
        if version:
            request.headers['OpenStack-API-Version'] = f'compute {version}'
        self.sent, self.nova.body = body, None
        return request

    def create(self, *mappings, version='2.96', **server):
        """Send a request for servers and return the response."""
        server = {**SERVER, 'adminPass': 'secret', **server}
        if version in (None, '2.1'):
            del server['networks']
        if mappings:
            server['block_device_mapping_v2'] = list(mappings)
        return self.send({'server': server}, version=version)

    def assert_mappings(self, response, *mappings):
        """The request went on with these mappings, else unchanged."""
        self.assertEqual(202, response.status_int, response.text)
        body = json.loads(self.nova.body)
        had = copy.deepcopy(json.loads(self.sent))
        had['server']['block_device_mapping_v2'] = list(mappings)
        self.assertEqual(had, body)

    def assert_untouched(self, response):
        self.assertEqual(202, response.status_int, response.text)
        self.assertEqual(self.sent, self.nova.body)

    def assert_left_to_nova(self, response):
        """The request went on, whatever the filter made of it."""
        self.assertLess(response.status_int, 500, response.text)

    def assert_nobody_asked(self):
        self.assertEqual([], self.images_asked)
        self.assertEqual([], self.cinder.method_calls)
        self.assertEqual([], self.client.method_calls)

    def assert_refused(self, response, message, status=400, name='badRequest'):
        self.assertEqual(status, response.status_int, response.text)
        self.assertEqual('application/json', response.content_type)
        ((found, fault),) = response.json.items()
        self.assertEqual(name, found)
        self.assertEqual(status, fault['code'])
        self.assertRegex(fault['message'], message)
        self.assertIsNone(self.nova.body)


class CreateTest(FilterTestCase):
    def test_image_and_vdisks_are_added(self):
        self.assert_mappings(self.create(), ROOT, VDISK, VDISK)
        self.client.volume_types.default.assert_not_called()

    def test_flavor_by_url(self):
        self.assert_mappings(
            self.create(flavorRef='http://nova/v2.1/flavors/42'),
            ROOT,
            VDISK,
            VDISK,
        )

    def test_boot_from_volume(self):
        root = existing(OTHER, boot_index=0)
        self.assert_mappings(
            self.create(root, imageRef=''), root, VDISK, VDISK
        )
        root = {**ROOT, 'destination_type': 'volume', 'volume_size': '20'}
        self.assert_mappings(
            self.create(root, imageRef=''), root, VDISK, VDISK
        )

    def test_right_ones_are_left_alone(self):
        self.assert_untouched(self.create(ROOT, VDISK, VDISK))
        by_id = {**VDISK, 'volume_type': TYPE_ID, 'volume_size': '100'}
        self.cinder.get_all_volume_types.return_value = [
            {'id': TYPE_ID, 'name': 'vdisk'}
        ]
        self.assert_untouched(self.create(ROOT, VDISK, by_id))
        # however many mappings name it
        self.cinder.get_all_volume_types.reset_mock()
        self.assert_untouched(self.create(ROOT, by_id, by_id))
        self.cinder.get_all_volume_types.assert_called_once()

    def test_wrong_ones_are_refused(self):
        self.assert_refused(
            self.create(ROOT, VDISK),
            '2 volumes of 100 GiB .* brings 1 volume of 100 GiB',
        )
        small = {**VDISK, 'volume_size': 50}
        self.assert_refused(
            self.create(ROOT, small, small), 'brings 2 volumes of 50 GiB'
        )
        self.assert_mappings(
            self.create(ROOT, small), ROOT, small, VDISK, VDISK
        )

    def test_existing_volumes_count(self):
        self.volumes = {
            VOLUME: volume('vdisk'),
            OTHER: volume('ceph'),
        }
        self.assert_untouched(self.create(ROOT, existing(), VDISK))
        self.assert_refused(
            self.create(ROOT, existing()), 'brings 1 volume of 100 GiB'
        )
        ceph = existing(OTHER)
        self.assert_mappings(self.create(ROOT, ceph), ROOT, ceph, VDISK, VDISK)
        for other in (
            volume('vdisk', bootable=True),
            volume('vdisk', 50),
            volume('vdisk', 200),
        ):
            self.volumes[OTHER] = other
            self.assert_mappings(
                self.create(ROOT, ceph), ROOT, ceph, VDISK, VDISK
            )
            self.assert_untouched(self.create(ROOT, ceph, VDISK, VDISK))

    def test_roots_are_no_vdisks(self):
        self.volumes = {VOLUME: volume('vdisk', bootable=True)}
        self.cinder.get_snapshot.return_value = {
            'volume_id': VOLUME,
            'size': 100,
        }
        new = {**VDISK, 'source_type': 'image', 'uuid': IMAGE}
        for root in (
            existing(boot_index=0),
            existing(source_type='snapshot', boot_index=0),
            {**new, 'boot_index': 0},
            {**new, 'boot_index': 0, 'volume_size': 50},
            {**new, 'boot_index': 0, 'volume_size': 200},
        ):
            self.assert_mappings(self.create(root), root, VDISK, VDISK)
            self.assert_untouched(self.create(root, VDISK, VDISK))
        # nor is another copy of an image, or of a volume with one
        for other in (new, existing(), existing(source_type='snapshot')):
            self.assert_mappings(
                self.create(ROOT, other), ROOT, other, VDISK, VDISK
            )

    def test_snapshots_count(self):
        self.cinder.get_snapshot.return_value = {
            'volume_id': VOLUME,
            'size': 100,
        }
        self.volumes = {VOLUME: volume('vdisk')}
        snapshot = existing(source_type='snapshot')
        self.assert_untouched(self.create(ROOT, snapshot, snapshot))
        larger = {**snapshot, 'volume_size': 200}
        self.assert_refused(
            self.create(ROOT, snapshot, larger), 'and 1 volume of 200 GiB'
        )

    def test_the_image_brings_them(self):
        self.cinder.get_snapshot.return_value = {
            'volume_id': VOLUME,
            'size': 100,
        }
        self.volumes = {VOLUME: volume('vdisk')}
        of_image = {
            'source_type': 'snapshot',
            'destination_type': 'volume',
            'snapshot_id': OTHER,
        }
        self.image['properties'] = {
            'bdm_v2': True,
            'block_device_mapping': [
                {**of_image, 'boot_index': 0},
                {**of_image, 'device_name': '/dev/vdb'},
                {**of_image, 'device_name': '/dev/vdc'},
            ],
        }
        self.assert_untouched(self.create())
        # Nova prefers the one of the request
        self.volumes[OTHER] = volume('ceph')
        self.assert_refused(
            self.create(ROOT, existing(OTHER, device_name='/dev/vdc')),
            'brings 1 volume of 100 GiB',
        )

    def test_without_types(self):
        del self.specs['diskplacer:volume_type']
        self.assert_mappings(self.create(), ROOT, BLANK, BLANK)
        self.assert_mappings(self.create(version=None), ROOT, BLANK, BLANK)

    def test_the_operators_type(self):
        self.specs['diskplacer:volume_type'] = 'ssd'
        conf.CONF.set_override('volume_type', 'vdisk', 'diskplacer_api')
        self.addCleanup(
            conf.CONF.clear_override, 'volume_type', 'diskplacer_api'
        )
        ssd = {**BLANK, 'volume_type': 'ssd'}
        self.assert_mappings(self.create(), ROOT, ssd, ssd)
        del self.specs['diskplacer:volume_type']
        self.assert_mappings(self.create(), ROOT, VDISK, VDISK)

    def test_the_type_by_its_id(self):
        self.specs['diskplacer:volume_type'] = TYPE_ID
        self.cinder.get_all_volume_types.return_value = [
            {'id': TYPE_ID, 'name': 'vdisk'}
        ]
        self.assert_mappings(self.create(), ROOT, VDISK, VDISK)
        self.assert_untouched(self.create(ROOT, VDISK, VDISK))

    def test_media_that_the_volume_type_lacks(self):
        self.client.volume_types.list.return_value = [
            types.SimpleNamespace(
                name='vdisk', extra_specs={'volume_backend_name': 'fast'}
            )
        ]
        self.client.pools.list.return_value = [
            types.SimpleNamespace(name='n@lvm#lvm'),
            *(
                types.SimpleNamespace(
                    name=f'node@{name}#{name}',
                    volume_backend_name=name,
                    vdisk_media=media,
                    vdisk_mapper=True,
                )
                for name, media in (('fast', 'ssd'), ('slow', 'hdd'))
            ),
        ]
        for _ in range(2):
            self.assert_refused(
                self.create(),
                'media is any, so that hdd disks .* type vdisk has ssd disks',
            )
        self.client.pools.list.assert_called_once_with(detailed=True)
        self.assert_refused(self.create(ROOT, VDISK, VDISK), 'media is any')
        self.specs['diskplacer:media'] = 'ssd'
        self.assert_mappings(self.create(), ROOT, VDISK, VDISK)
        # no new volume
        self.specs['diskplacer:media'] = 'any'
        self.volumes = {VOLUME: volume('vdisk'), OTHER: volume('vdisk')}
        self.assert_untouched(self.create(ROOT, existing(), existing(OTHER)))

    def test_roots_on_the_disks_of_hosts(self):
        self.client.volume_types.list.return_value = [
            types.SimpleNamespace(
                name='vdisk', extra_specs={'volume_backend_name': 'vdisk'}
            )
        ]
        self.client.pools.list.return_value = [
            types.SimpleNamespace(
                name=f'{host}@{pool}#{pool}',
                volume_backend_name='vdisk',
                vdisk_media='any',
                vdisk_mapper=True,
            )
            for host in ('node1', 'node2')
            for pool in ('sata', 'nvme')
        ]
        root = {
            **ROOT,
            'destination_type': 'volume',
            'volume_size': 20,
            'volume_type': 'vdisk',
        }
        untyped = {k: v for k, v in root.items() if k != 'volume_type'}
        # Nova hands its own request ID on, by which Cinder finds the server
        for mapping, sent in (
            (root, None),
            (untyped, 'req-1'),
            ({**root, 'volume_type': 'ceph'}, 'req-1'),
        ):
            self.context.global_request_id = 'req-1'
            self.assert_mappings(self.create(mapping), mapping, VDISK, VDISK)
            self.assertEqual(sent, self.context.global_request_id)
        several = 'Each of 3 servers has a new volume of type vdisk'
        self.assert_refused(self.create(root, max_count=3), several)
        for where in (
            {'availability_zone': 'nova:node1'},
            {'host': 'node1'},
            {'hypervisor_hostname': 'node1'},
        ):
            self.assertEqual(
                202, self.create(root, max_count=3, **where).status_int
            )
        self.client.volume_types.default.return_value.name = 'vdisk'
        # Nova finds no host in the last two, and asks for no right
        for zone in ('zone', 'zone:', 'zone::'):
            where = {'availability_zone': zone}
            self.assert_refused(
                self.create(untyped, max_count=3, **where), several
            )
        self.cinder.get_snapshot.return_value = {
            'size': 20,
            'volume_id': VOLUME,
        }
        self.volumes = {VOLUME: volume('vdisk')}
        snapshot = existing(source_type='snapshot', boot_index=0)
        self.assert_refused(self.create(snapshot), 'is made of a snapshot')
        # the image of a server that has booted from a volume
        self.image['properties'] = {
            'bdm_v2': True,
            'block_device_mapping': [
                {
                    'source_type': 'snapshot',
                    'destination_type': 'volume',
                    'snapshot_id': OTHER,
                    'device_name': '/dev/vda',
                    'boot_index': 0,
                }
            ],
        }
        self.assert_refused(self.create(), 'is made of a snapshot')

    def test_media_that_cinder_does_not_tell(self):
        self.client.pools.list.side_effect = cinder_exc.Unauthorized(401)
        with self.assertLogs(backends.LOG.logger, 'WARNING') as logs:
            for _ in range(2):
                self.assert_mappings(self.create(), ROOT, VDISK, VDISK)
        self.assertEqual(1, len(logs.output))
        self.assertIn('[cinder] of nova.conf', logs.output[0])

    def test_a_profile_is_enough(self):
        self.specs = {'diskplacer:profile': 'spark'}
        blank = {**BLANK, 'volume_size': 256}
        self.assert_mappings(self.create(), ROOT, *[blank] * 4)

    def test_flavors_without_vdisks(self):
        for self.specs in ({}, {'diskplacer:io_tier': 'gold'}):
            self.assert_untouched(self.create())
            self.assert_untouched(self.create(ROOT, BLANK))

    def test_a_faulty_flavor(self):
        del self.specs['diskplacer:vdisk_gb']
        self.assert_refused(
            self.create(), 'Flavor m1 .*diskplacer:vdisk_gb is required'
        )


class OldMicroversionTest(FilterTestCase):
    def test_the_default_type_is_that_of_vdisks(self):
        self.client.volume_types.default.return_value.name = 'vdisk'
        for version in (None, '2.1', '2.66'):
            self.assert_mappings(
                self.create(version=version), ROOT, BLANK, BLANK
            )
            self.assertEqual(
                version and f'compute {version}',
                self.nova.headers.get('Openstack-Api-Version'),
            )
        self.assert_untouched(self.create(ROOT, BLANK, BLANK, version='2.1'))

    def test_it_is_not(self):
        response = self.create(version='2.66')
        self.assert_refused(response, 'type is ceph.* microversion 2.67')
        self.assertEqual(
            'compute 2.66', response.headers['OpenStack-API-Version']
        )
        self.assert_mappings(self.create(version='2.67'), ROOT, VDISK, VDISK)

    def test_the_old_root(self):
        self.client.volume_types.default.return_value.name = 'vdisk'
        app = openstack.LegacyV2CompatibleWrapper(self.filter)
        server = {'name': 's', 'flavorRef': '42', 'imageRef': IMAGE}
        # it takes no notice of the microversion
        response = self.send({'server': server}, version='2.96', app=app)
        self.assert_mappings(response, ROOT, BLANK, BLANK)

    def test_the_old_mappings(self):
        self.volumes = {VOLUME: volume('vdisk')}
        one = {'volume_id': VOLUME, 'device_name': 'vdb'}
        self.assert_untouched(self.create(block_device_mapping=[one, one]))
        self.assert_refused(
            self.create(block_device_mapping=[one]), 'brings 1 volume of 100'
        )
        self.volumes[VOLUME]['volume_type_id'] = 'ceph'
        self.assert_refused(
            self.create(block_device_mapping=[one]),
            'Use block_device_mapping_v2',
        )


class QuotaTest(FilterTestCase):
    def _limit(self, limit):
        self.quotas.return_value = {
            'volumes': {'limit': limit, 'in_use': 1, 'reserved': 0}
        }

    def test_exceeded(self):
        self._limit(2)
        self.assert_refused(
            self.create(),
            'quota volumes is exceeded: 2 requested, 1 in use, 2 allowed',
            403,
            'forbidden',
        )
        self.client.quotas.get.assert_called_once_with(PROJECT, usage=True)

    def test_volumes_that_the_user_asks_for(self):
        self._limit(2)
        self.assert_refused(
            self.create(ROOT, VDISK, VDISK), '2 requested', 403, 'forbidden'
        )
        self._limit(3)
        self.assert_untouched(self.create(ROOT, VDISK, VDISK))

    def test_a_root_that_nova_drops(self):
        of_image = {
            'source_type': 'snapshot',
            'destination_type': 'volume',
            'snapshot_id': OTHER,
            'volume_size': 20,
            'device_name': '/dev/vda',
            'boot_index': 0,
        }
        self.cinder.get_snapshot.return_value = {
            'volume_id': VOLUME,
            'size': 20,
        }
        self.volumes = {VOLUME: volume('ceph', 20, bootable=True)}
        new = {**ROOT, 'destination_type': 'volume', 'volume_size': 20}
        self._limit(4)
        for changes in ({}, {'device_name': '/dev/vda'}):
            for server in ({}, {'imageRef': ''}):
                root = {**new, **changes}
                self.image['properties'] = {
                    'bdm_v2': True,
                    'block_device_mapping': [of_image],
                }
                self.assert_mappings(
                    self.create(root, **server), root, VDISK, VDISK
                )
                self._limit(3)
                self.assert_refused(
                    self.create(root, **server),
                    '3 requested',
                    403,
                    'forbidden',
                )
                self._limit(4)
                # one that boots from nothing of its own
                self.image['properties']['block_device_mapping'] = [
                    {**of_image, 'device_name': '/dev/vdb', 'boot_index': -1}
                ]
                self.assert_refused(
                    self.create(root, **server),
                    '4 requested',
                    403,
                    'forbidden',
                )

    def test_several_servers(self):
        self._limit(6)
        self.assert_mappings(
            self.create(min_count='1', max_count=2), ROOT, VDISK, VDISK
        )
        for counts in ({'min_count': 3}, {'max_count': '3'}):
            self.assert_refused(
                self.create(**counts), '6 requested', 403, 'forbidden'
            )

    def test_cinder_does_not_tell(self):
        self.quotas.side_effect = cinder_exc.Forbidden(403)
        with self.assertLogs(blank_volumes.LOG.logger, 'WARNING'):
            response = self.create()
        self.assert_mappings(response, ROOT, VDISK, VDISK)


class PassTest(FilterTestCase):
    """What Nova refuses, and what is no request for servers."""

    def test_other_requests(self):
        body = {'server': SERVER}
        for path in (
            f'/servers/{IMAGE}/action',
            '/flavors',
            # Nova refuses another project
            '/0123456789abcdef/servers',
            '/servers/',
            '//servers',
            '/servers.json',
            '/servers%ff',
            '/%ff/servers',
            '/serv%d0%b5rs',
            '/servers/detail',
            '/nobodys/servers',
        ):
            self.assert_untouched(self.send(body, path))
        self.assert_untouched(
            self.send({'rebuild': {'imageRef': IMAGE}}, '/servers/1/action')
        )

    def test_methods_that_create_no_servers(self):
        text = json.dumps({'server': SERVER}).encode()
        for method, query in (
            ('GET', ''),
            ('PUT', ''),
            ('DELETE', ''),
            ('post', ''),
            # the router of Nova takes it for the method
            ('POST', '?_method=GET'),
            ('POST', '?_method=PUT'),
            ('PUT', '?_method=PUT'),
            # Nova reads no body
            ('GET', '?_method=POST'),
        ):
            request = self.request('/servers' + query, text, method=method)
            with self.subTest(method=method, query=query):
                self.assert_untouched(request.get_response(self.filter))
        self.assert_nobody_asked()

    def test_methods_that_create_servers(self):
        text = json.dumps({'server': SERVER}).encode()
        for method, query in (
            ('POST', '?_method=POST'),
            ('POST', '?_method=&_method'),
            ('POST', '?_method%ff=GET'),
            ('PUT', '?_method=post'),
            ('PUT', '?a=b&_method=%50OST'),
        ):
            request = self.request('/servers' + query, text, method=method)
            with self.subTest(method=method, query=query):
                self.assert_mappings(
                    request.get_response(self.filter), ROOT, VDISK, VDISK
                )

    def test_bodies_in_chunks(self):
        request = self.request(
            '/servers', json.dumps({'server': SERVER}).encode()
        )
        request.content_length = None
        request.environ['wsgi.input_terminated'] = True
        self.assert_mappings(
            request.get_response(self.filter), ROOT, VDISK, VDISK
        )
        # nobody can tell where it ends
        request = self.request('/servers', b'endless')
        request.content_length = None
        request.environ.pop('wsgi.input_terminated', None)
        request.get_response(self.filter)
        self.assertEqual(b'', self.nova.body)

    def test_a_body_that_is_too_large_is_refused_as_nova_does(self):
        request = self.request('/servers', b'{}')
        request.body_file = sizelimit.LimitingReader(io.BytesIO(b'x' * 9), 5)
        response = request.get_response(self.filter)
        self.assertEqual(413, response.status_int)
        self.assertIsNone(self.nova.body)

    def test_the_project_in_the_path(self):
        for path in (
            f'/{PROJECT}/servers',
            '/os-volumes_boot',
            # its router takes a line for what is in it
            '/servers%0a',
        ):
            self.assert_mappings(
                self.send({'server': SERVER}, path), ROOT, VDISK, VDISK
            )

    def test_bodies_that_nova_refuses(self):
        server = SERVER
        for body in (
            b'',
            b'{',
            b'\xff\xfe',
            [],
            None,
            {},
            {'server': None},
            {'server': [server]},
            {'server': {**server, 'imageRef': ''}},
            {'server': {**server, 'name': ''}},
            {'server': {**server, 'flavorRef': None}},
            {'server': {**server, 'flavorRef': ['42']}},
            {'server': {**server, 'flavorRef': 'unknown'}},
            {'server': {**server, 'min_count': 'many'}},
            {'server': {**server, 'max_count': INFINITE}},
            {'server': {**server, 'max_count': float('nan')}},
            {'server': {**server, 'unknown': 1}},
            {'server': {**server, 'networks': None}},
            {'server': server, 'unknown': 1},
            {'server': {**server, 'imageRef': 'http://stranger/a/b/c'}},
            {'server': {**server, 'block_device_mapping_v2': 1}},
            {'server': {**server, 'block_device_mapping_v2': {'a': 1}}},
            {'server': {**server, 'block_device_mapping_v2': ['x']}},
            {'server': {**server, 'block_device_mapping_v2': [{'x': 1}]}},
            {'server': {**server, 'block_device_mapping': [{}]}},
            {
                'server': {
                    **server,
                    'block_device_mapping': [{'volume_id': VOLUME}],
                    'block_device_mapping_v2': [ROOT],
                }
            },
        ):
            with self.subTest(body=body):
                self.assert_untouched(self.send(body))
                self.assert_nobody_asked()
        for changes in (
            {'volume_size': []},
            {'volume_size': INFINITE},
            {'volume_size': 0},
            {'boot_index': INFINITE},
            {'boot_index': {}},
            {'volume_type': 5},
            {'uuid': VOLUME},
            {'source_type': 'volume', 'uuid': '..'},
            {'source_type': 'snapshot', 'uuid': VOLUME[1:]},
        ):
            with self.subTest(changes=changes):
                self.assert_untouched(self.create(ROOT, {**BLANK, **changes}))
                self.assertEqual([], self.cinder.method_calls)

    def test_microversions_have_schemas_of_their_own(self):
        self.assert_untouched(self.create(ROOT, VDISK, VDISK, version='2.66'))
        self.assert_nobody_asked()
        self.assert_untouched(self.create(networks='none', version='2.36'))
        self.assert_untouched(self.send({'server': SERVER}, version='2.36'))
        self.assert_nobody_asked()

    def test_encodings_that_nova_refuses(self):
        body = json.dumps({'server': SERVER})
        for encoding in ('utf-16', 'utf-32-le', 'utf-8-sig'):
            self.assert_untouched(self.send(body.encode(encoding)))
        self.assert_nobody_asked()

    def test_mappings_of_an_image_that_nobody_checks(self):
        """Users write the properties of their images."""
        blank = {'source_type': 'blank', 'destination_type': 'volume'}
        for mappings in (
            5,
            {'a': 1},
            ['x'],
            [{}],
            [{**blank, 'volume_size': []}],
            [{**blank, 'volume_size': {}, 'volume_type': 'vdisk'}],
            [{**blank, 'volume_size': INFINITE}],
            [{**blank, 'device_name': []}],
            [{**blank, 'volume_type': {}}],
            [{**blank, 'source_type': 'snapshot', 'snapshot_id': '..'}],
        ):
            for is_new in (True, False):
                self.image['properties'] = {
                    'bdm_v2': is_new,
                    'block_device_mapping': mappings,
                }
                with self.subTest(mappings=mappings, is_new=is_new):
                    self.assert_left_to_nova(self.create())

    def test_versions_that_nova_refuses(self):
        for version in ('2.9999', 'newest'):
            self.assert_untouched(self.create(version=version))

    def test_content_that_nova_refuses(self):
        request = wsgi.Request.blank(
            '/servers', method='POST', content_type='text/xml'
        )
        request.environ['nova.context'] = self.context
        request.body = self.sent = b'<server/>'
        self.assert_untouched(request.get_response(self.filter))

    def test_volumes_that_nova_does_not_find(self):
        self.cinder.get.side_effect = exception.VolumeNotFound(volume_id='v')
        self.assert_untouched(self.create(ROOT, existing()))

    def test_cinder_is_away(self):
        self.client.volume_types.default.side_effect = (
            cinder_exc.ConnectionError('away')
        )
        with self.assertLogs(blank_volumes.LOG.logger, 'ERROR'):
            response = self.create(version='2.1')
        self.assert_refused(response, 'at present', 503, 'serviceUnavailable')
