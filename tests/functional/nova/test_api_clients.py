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

"""The filter in nova-api with Nova's clients of Glance and Cinder.

Nothing is between the clients and the network: listeners on the loopback
device are Glance, Cinder, and a host of a user.
"""

import http.server
import json
import threading
import types
import unittest
from unittest import mock

from keystoneauth1 import loading
from nova import context
from nova import objects
from nova import service_auth
from nova.api.openstack import wsgi
from nova.conf import CONF
from oslo_config import fixture

from nova_diskplacer.api import blank_volumes
from tests import loopback

IMAGE = '155d900f-4e14-4e4c-a73d-069cbf4541e6'
VOLUME = '4c1b1f4e-27a5-4a5e-9f0f-0d1a7b9f8f10'
SNAPSHOT = '9b0f1f9e-3f6c-4a52-8d2f-6a6b4f0f7d11'
PROJECT = '6f70656e737461636b'
SPECS = {
    'diskplacer:vdisks': '1',
    'diskplacer:vdisk_gb': '100',
    'diskplacer:volume_type': 'vdisk',
}
VOLUMES = f'/v3/{PROJECT}/volumes/'
SNAPSHOTS = f'/v3/{PROJECT}/snapshots/'
# Each becomes another path, or another host, in the URL of a client.
NAMES = (
    '..',
    '.',
    'a/../../b',
    '../' * 9 + 'b',
    '/',
    '//',
    'a?b=c',
    'a#b',
    'a%2f..',
    'detail',
    f'{VOLUME}/action',
    f'{VOLUME}\n',
    f'{VOLUME}?x',
    VOLUME[:-1],
    '@',
    '',
    ' ',
    '\0',
    '١' * 32,
    1,
    None,
    [VOLUME],
    {'id': VOLUME},
)


class Service(http.server.ThreadingHTTPServer):
    """Answers requests by ``answers``, and remembers them all.

    :ivar asked: (path, headers) of each request.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__((loopback.address(), 0), Handler)
        self.asked = []
        self.answers = {}

    @property
    def url(self):
        return 'http://{}:{}'.format(*self.server_address)

    @property
    def paths(self):
        return [path.partition('?')[0] for path, _ in self.asked]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append((self.path, self.headers))
        answer = self.server.answers.get(self.path)
        body = json.dumps(answer or {}).encode()
        self.send_response(200 if answer else 404)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_HEAD = do_GET

    def log_message(self, *args):
        pass


class ClientsTestCase(unittest.TestCase):
    def setUp(self):
        objects.register_all()
        self.glance, self.cinder, self.stranger = (
            self._service() for _ in range(3)
        )
        self._configure()
        self.context = context.RequestContext(
            'user',
            PROJECT,
            is_admin=False,
            auth_token='token-of-the-user',
            roles=['member'],
            service_catalog=[
                {
                    'type': 'block-storage',
                    'name': 'cinder',
                    'endpoints': [
                        {'publicURL': f'{self.cinder.url}/v3/{PROJECT}'}
                    ],
                }
            ],
        )
        patch = mock.patch.object(
            objects.Flavor,
            'get_by_flavor_id',
            lambda context, flavor_id, read_deleted: types.SimpleNamespace(
                name='m1', extra_specs=SPECS
            ),
        )
        patch.start()
        self.addCleanup(patch.stop)
        self.passed = []
        self.filter = blank_volumes.BlankVolumes(self._nova)

    def _service(self):
        service = Service()
        self.addCleanup(service.server_close)
        thread = threading.Thread(
            target=service.serve_forever, kwargs={'poll_interval': 0.01}
        )
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(service.shutdown)
        return service

    def _configure(self):
        """Configure Nova as operators do, with the token of its account."""
        CONF([], project='nova', default_config_files=[])
        conf = self.useFixture_(fixture.Config(CONF))
        CONF.register_opts(
            loading.get_auth_plugin_conf_options('admin_token'),
            'service_user',
        )
        conf.config(
            group='service_user',
            send_service_user_token=True,
            auth_type='admin_token',
            endpoint=self.glance.url,
            token='token-of-nova',
        )
        conf.config(
            group='glance', endpoint_override=self.glance.url, num_retries=0
        )
        conf.config(
            group='cinder',
            catalog_info='block-storage:cinder:publicURL',
            http_retries=0,
        )
        service_auth.reset_globals()
        self.addCleanup(service_auth.reset_globals)

    def useFixture_(self, made):
        made.setUp()
        self.addCleanup(made.cleanUp)
        return made

    def _nova(self, environ, start_response):
        self.passed.append(wsgi.Request(environ).body)
        start_response('202 Accepted', [('Content-Length', '0')])
        return [b'']

    def create(self, version='2.96', **server):
        """Send a request for servers through the filter."""
        server = {
            'name': 's',
            'flavorRef': '42',
            'imageRef': IMAGE,
            **({} if version == '2.1' else {'networks': 'none'}),
            **server,
        }
        request = wsgi.Request.blank(
            '/servers', method='POST', content_type='application/json'
        )
        request.body = json.dumps({'server': server}).encode()
        request.environ['nova.context'] = self.context
        request.headers['OpenStack-API-Version'] = f'compute {version}'
        sent = request.body
        response = request.get_response(self.filter)
        return response.status_int, self.passed.pop() == sent

    def assert_left_to_nova(self, **server):
        """Nova gets the request as it is, and nobody was asked for it."""
        for version in ('2.1', '2.96'):
            with self.subTest(server=server, version=version):
                self.assertEqual((202, True), self.create(version, **server))
        self.assertEqual([], self.stranger.asked)
        self.assertEqual([], self.cinder.asked)

    def image(self, *mappings, is_new=True):
        """Give the image the mappings of a server's image."""
        # what glanceclient makes an image of
        self.glance.answers['/v2/schemas/image'] = {
            'name': 'image',
            'properties': {},
            'additionalProperties': {'type': 'string'},
        }
        self.glance.answers[f'/v2/images/{IMAGE}'] = {
            'id': IMAGE,
            'status': 'active',
            'visibility': 'private',
            'disk_format': 'qcow2',
            'container_format': 'bare',
            'bdm_v2': str(is_new),
            'block_device_mapping': json.dumps(mappings),
        }


class AskedTest(ClientsTestCase):
    """The clients do send tokens, and reach the services."""

    def test_the_image_and_its_snapshot(self):
        self.image(
            {
                'source_type': 'snapshot',
                'destination_type': 'volume',
                'snapshot_id': SNAPSHOT,
                'boot_index': -1,
                'device_name': '/dev/vdb',
            }
        )
        self.assertEqual((202, True), self.create())
        self.assertEqual(f'/v2/images/{IMAGE}', self.glance.paths[0])
        self.assertEqual([SNAPSHOTS + SNAPSHOT], self.cinder.paths)
        for service in (self.glance, self.cinder):
            _, headers = service.asked[0]
            self.assertEqual('token-of-the-user', headers['X-Auth-Token'])
            self.assertEqual('token-of-nova', headers['X-Service-Token'])

    def test_volumes(self):
        self.image()
        for key, one in (
            ('block_device_mapping', {'volume_id': VOLUME}),
            (
                'block_device_mapping_v2',
                {
                    'source_type': 'volume',
                    'destination_type': 'volume',
                    'uuid': VOLUME,
                    'boot_index': -1,
                },
            ),
        ):
            one['device_name'] = 'vdb'
            self.assertEqual((202, True), self.create(**{key: [one]}))
            self.assertEqual([VOLUMES + VOLUME], self.cinder.paths)
            self.cinder.asked.clear()


class NotAskedTest(ClientsTestCase):
    """What is no UUID reaches nobody, wherever it is in a request."""

    def test_images(self):
        for name in (
            f'{self.stranger.url}/any/v2/images/{IMAGE}',
            f'{self.stranger.url}/{IMAGE}',
            f'//{self.stranger.url[7:]}/v2/images/{IMAGE}',
            f'{IMAGE}@{self.stranger.url[7:]}/v2/images/{IMAGE}',
            *NAMES,
        ):
            self.assert_left_to_nova(imageRef=name)
            self.assert_left_to_nova(
                imageRef='',
                block_device_mapping_v2=[
                    {
                        'source_type': 'image',
                        'destination_type': 'volume',
                        'volume_size': 1,
                        'uuid': name,
                        'boot_index': 0,
                    }
                ],
            )
        self.assertEqual([], self.glance.asked)

    def test_volumes_and_snapshots(self):
        self.image()
        for name in (f'{self.stranger.url}/v3/volumes/{VOLUME}', *NAMES):
            for source in ('volume', 'snapshot'):
                one = {
                    'source_type': source,
                    'destination_type': 'volume',
                    'uuid': name,
                    'boot_index': -1,
                }
                self.assert_left_to_nova(block_device_mapping_v2=[one])
                # the new kind takes the keys of the old one
                self.assert_left_to_nova(
                    block_device_mapping_v2=[{**one, f'{source}_id': name}]
                )
                self.assert_left_to_nova(
                    block_device_mapping=[
                        {f'{source}_id': name, 'device_name': 'vdb'}
                    ]
                )

    def test_mappings_of_an_image(self):
        """Users write the properties of their images."""
        for name in (f'{self.stranger.url}/v3/volumes/{VOLUME}', *NAMES):
            for source in ('volume', 'snapshot'):
                self.image(
                    {
                        'source_type': source,
                        'destination_type': 'volume',
                        f'{source}_id': name,
                        'boot_index': -1,
                        'device_name': '/dev/vdb',
                    }
                )
                self.assert_left_to_nova()
                self.image(
                    {f'{source}_id': name, 'device_name': 'vdb'}, is_new=False
                )
                self.assert_left_to_nova()
