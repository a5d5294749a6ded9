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


"""What an operator does about what Nova leaves of a live migration."""

import pathlib
import types

import fixtures
import testtools

from tools.minicloud import state as states
from tools.storm import nova_remains

HERE, THERE = 'compute1', 'compute2'


class Api:
    """Nova, Cinder and Placement, of a server with one volume."""

    def __init__(self):
        self.cinder = {'old': HERE}
        self.nova = 'old'
        self.claims = {'server': {'here': 1}, 'm': {}}
        self.source = HERE
        self.done = []

    def volume(self, volume):
        return {
            'attachments': [
                {'attachment_id': one, 'host_name': host}
                for one, host in self.cinder.items()
                if host
            ]
        }

    def get(self, service, path):
        if path.endswith('/os-volume_attachments'):
            one = {'volumeId': 'volume', 'attachment_id': self.nova}
            return {'volumeAttachments': [one]}
        if path == '/attachments?volume_id=volume':
            return {'attachments': [{'id': one} for one in self.cinder]}
        if path == '/os-migrations?instance_uuid=server':
            one = {'uuid': 'm', 'source_compute': self.source}
            return {'migrations': [one]}
        raise LookupError(path)

    def call(self, service, method, path, headers, json=None):
        if method == 'POST':
            for consumer, claim in json.items():
                assert claim['consumer_generation'] == consumer
                self.claims[consumer] = {
                    disk: one['resources']
                    for disk, one in claim['allocations'].items()
                }
            return None
        consumer = path.removeprefix('/allocations/')
        return {
            'allocations': {
                disk: {'generation': 7, 'resources': gb}
                for disk, gb in self.claims[consumer].items()
            },
            'consumer_generation': consumer,
        }

    def allocations(self, consumer):
        return self.claims[consumer]

    def delete(self, service, path):
        del self.cinder[path.removeprefix('/attachments/')]

    def action(self, server, **action):
        self.done += action

    def wait_server(self, server, status):
        self.done.append(status)


class RemainsTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.api = Api()
        path = self.useFixture(fixtures.TempDir()).path
        cloud = types.SimpleNamespace(
            api=self.api,
            state=states.State(
                pathlib.Path(path), (states.Host(HERE), states.Host(THERE))
            ),
        )
        self.directories = [
            cloud.state.host_dir(host) / 'nova/instances/server'
            for host in (HERE, THERE)
        ]
        self.directories[0].mkdir(parents=True)
        server = types.SimpleNamespace(
            cloud=cloud, uuid='server', host=lambda: HERE
        )
        self.remains = nova_remains.Remains(server)
        for name, value in (
            ('process.run', self.run_program),
            ('hypervisor.within', lambda state, host, argv: argv),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'tools.minicloud.{name}', value)
            )

    def run_program(self, *argv):
        command = argv[argv.index('volume_attachment') + 1]
        self.api.done.append(command)
        if command == 'refresh':
            assert HERE not in self.api.cinder.values()
            del self.api.cinder[self.api.nova]
            self.api.nova = 'new'
            self.api.cinder['new'] = HERE
        return 'connector'

    def assertRemoved(self, *means):
        self.assertFalse(self.remains.is_nothing())
        self.assertEqual([*means], self.remains.remove())
        self.assertTrue(self.remains.is_nothing())
        self.assertEqual({self.api.nova: HERE}, self.api.cinder)

    def test_its_directory_on_the_other_host(self):
        here, there = self.directories
        there.mkdir(parents=True)
        (there / 'disk').touch()
        self.assertRemoved('rm -r of its directory')
        self.assertFalse(there.exists())
        self.assertTrue(here.exists())

    def test_nothing(self):
        self.assertTrue(self.remains.is_nothing())

    def test_the_source_was_killed(self):
        self.api.cinder['there'] = THERE
        self.api.nova = 'there'
        self.api.claims = {'server': {'there': 1}, 'm': {'here': 2}}
        self.assertRemoved(
            'resource provider allocation set',
            'volume attachment delete',
            'nova-manage volume_attachment refresh',
            'server start',
        )
        self.assertEqual({'server': {'here': 2}, 'm': {}}, self.api.claims)
        self.assertEqual(
            ['os-stop', 'SHUTOFF', 'get_connector', 'refresh']
            + ['os-start', 'ACTIVE'],
            self.api.done,
        )

    def test_the_destination_was_killed(self):
        for host in (THERE, None):
            self.api.cinder['there'] = host
            self.assertRemoved('volume attachment delete')
        self.assertEqual([], self.api.done)

    def test_the_claim_of_a_migration_that_has_arrived(self):
        self.api.source = THERE
        self.api.claims['m'] = {'there': 1}
        self.assertRemoved('resource provider allocation set')
        self.assertEqual({'server': {'here': 1}, 'm': {}}, self.api.claims)
