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

"""The commands that move servers, with answers of requests_mock."""

from nova_diskplacer import exception
from nova_diskplacer.client.osc import moves
from nova_diskplacer.client.osc import vdisks
from tests.unit.nova_diskplacer.client.osc import test_commands
from tests.unit.nova_diskplacer.client.osc.test_commands import CINDER
from tests.unit.nova_diskplacer.client.osc.test_commands import HDD
from tests.unit.nova_diskplacer.client.osc.test_commands import NOVA
from tests.unit.nova_diskplacer.client.osc.test_commands import PLACEMENT
from tests.unit.nova_diskplacer.client.osc.test_commands import ROOT
from tests.unit.nova_diskplacer.client.osc.test_commands import SERVER
from tests.unit.nova_diskplacer.client.osc.test_commands import SSD
from tests.unit.nova_diskplacer.client.osc.test_commands import VOLUMES

HOST = 'compute-1.example.org'
OTHER = 'compute-2.example.org'
OTHER_ROOT = 'aaaaaaaa-1111-4000-8000-000000000000'
OTHER_DISK = 'b1111111-1111-4000-8000-000000000000'
EXPORT = '192.0.2.1:3260,1 iqn.2010-10.org.openstack:volume-1'


class MoveTestCase(test_commands.CommandTestCase):
    """Two hosts with disks, and a server on the first one with a vdisk."""

    def setUp(self):
        super().setUp()
        self.services = [
            self.service(HOST, 'up', 'enabled'),
            self.service(OTHER, 'up', 'enabled'),
        ]
        self.requests.get(
            f'{NOVA}/os-services',
            json=lambda *_: {'services': self.services},
        )
        self.nodes = {HOST: HOST, OTHER: OTHER}
        self.requests.get(
            f'{NOVA}/os-hypervisors/detail',
            json=lambda *_: {
                'hypervisors': [
                    {
                        'id': f'id-of-{node}',
                        'hypervisor_hostname': node,
                        'service': {'host': host},
                    }
                    for node, host in self.nodes.items()
                ]
            },
        )
        self.backends = [
            {'host': f'{host}@vdisk', 'state': 'up', 'status': 'enabled'}
            for host in (HOST, OTHER)
        ]
        self.requests.get(
            f'{CINDER}/os-services',
            json=lambda *_: {'services': self.backends},
        )
        self.answer_other_host()
        self.snapshots = []
        self.requests.get(
            f'{CINDER}/snapshots',
            json=lambda *_: {'snapshots': self.snapshots},
        )
        self.connection_info = {
            'driver_volume_type': 'local',
            'vdisk': {'disk': HDD, 'host': HOST},
        }
        self.requests.get(
            f'{CINDER}/attachments/detail',
            json=lambda *_: {
                'attachments': [
                    {
                        'id': 'attachment',
                        'volume_id': VOLUMES[0],
                        'connection_info': self.connection_info,
                    }
                ]
            },
        )
        self.requests.get(f'{NOVA}/servers', json={'servers': [self.server]})
        self.server.update(
            {
                'OS-EXT-SRV-ATTR:host': HOST,
                'OS-EXT-SRV-ATTR:root_device_name': '/dev/vda',
                'OS-EXT-STS:vm_state': 'active',
                'OS-EXT-STS:task_state': None,
                'flavor': {
                    'extra_specs': {
                        'diskplacer:vdisks': '1',
                        'diskplacer:vdisk_gb': '10',
                    }
                },
                'os-extended-volumes:volumes_attached': [{'id': VOLUMES[0]}],
            }
        )
        self.answer_volume()

    def service(self, host, state, status, reason=None):
        return {
            'id': f'id-of-{host}',
            'binary': 'nova-compute',
            'host': host,
            'state': state,
            'status': status,
            'disabled_reason': reason,
        }

    def answer_other_host(self):
        """Let the other host have a disk with room for nine vdisks."""
        mine = [
            test_commands.provider(HDD, 'one'),
            test_commands.provider(SSD, 'two'),
        ]
        other = {
            'uuid': OTHER_DISK,
            'name': 'three',
            'generation': 1,
            'parent_provider_uuid': OTHER_ROOT,
            'root_provider_uuid': OTHER_ROOT,
        }
        roots = [
            test_commands.provider(ROOT, HOST),
            {
                **other,
                'uuid': OTHER_ROOT,
                'name': OTHER,
                'parent_provider_uuid': None,
            },
        ]

        def answer(request, _):
            if 'required' not in request.qs:
                return {'resource_providers': [*roots, *mine, other]}
            traits = request.qs['required'][0].split(',')[1:]
            found = [] if traits else [*mine, other]
            return {'resource_providers': found}

        self.requests.get(f'{PLACEMENT}/resource_providers', json=answer)
        self.requests.get(
            f'{PLACEMENT}/allocation_candidates',
            json={
                'provider_summaries': {
                    uuid: {
                        'resources': {
                            'CUSTOM_VDISK_GB': {'capacity': gb, 'used': 0},
                            'CUSTOM_VDISK_MBPS': {'capacity': 9, 'used': 0},
                        }
                    }
                    for uuid, gb in ((HDD, 70), (SSD, 0), (OTHER_DISK, 90))
                }
            },
        )

    def answer_volume(self, disk=HDD, host=HOST, **fields):
        self.answer_cinder(
            test_commands.volume(
                VOLUMES[0],
                disk,
                **{
                    'status': 'in-use',
                    'os-vol-host-attr:host': f'{host}@vdisk#vdisk',
                    'attachments': [
                        {'server_id': SERVER, 'device': '/dev/vdb'}
                    ],
                    **fields,
                },
            )
        )


class ListTest(MoveTestCase):
    def test_moving(self):
        """The server has moved to this host, and its data has not."""
        self.answer_cinder(
            test_commands.volume(
                VOLUMES[0],
                EXPORT,
                **{
                    'os-vol-host-attr:host': f'{OTHER}@vdisk#vdisk',
                    'attachments': [
                        {'server_id': SERVER, 'device': '/dev/vdb'}
                    ],
                },
            ),
            test_commands.volume(
                VOLUMES[1],
                OTHER_DISK,
                **{'os-vol-host-attr:host': f'{OTHER}@vdisk#vdisk'},
            ),
        )
        url = f'{PLACEMENT}/resource_providers/{OTHER_DISK}'
        self.requests.get(f'{url}/allocations', json={'allocations': {}})
        self.requests.get(
            f'{url}/inventories',
            json={'resource_provider_generation': 1, 'inventories': {}},
        )
        _, rows = self.json(vdisks.ListVDisks, '--server', 'web')
        (row,) = rows
        self.assertEqual('1 pending 1 moving from compute-2', row['Status'])
        self.assertEqual(
            [('vdb', OTHER, 'moving'), (None, None, 'pending')],
            [
                (one['device'], one['moving_from'], one['status'])
                for one in row['VDisks']
            ],
        )
        self.assertNotIn('data is on host', self.log.output)
        self.services[1]['state'] = 'down'
        status, _ = self.json(vdisks.ListVDisks, '--pending', '90')
        self.assertEqual(3, status)
        self.assertIn(f'its data is on host {OTHER}, whose', self.log.output)


class CheckMoveTest(MoveTestCase):
    def check(self):
        status, shown = self.json(moves.CheckMove, SERVER)
        return status, shown['live'], shown['cold'], shown

    def test_server_that_can_move(self):
        status, live, cold, shown = self.check()
        self.assertEqual((0, True, True), (status, live, cold))
        self.assertEqual([], shown['reasons'])
        self.assertEqual([OTHER], shown['hosts_with_room'])
        self.assertEqual(
            (HOST, 'web', SERVER, 'ACTIVE'),
            tuple(
                shown[key] for key in ('host', 'server', 'server_id', 'status')
            ),
        )

    def test_file(self):
        self.connection_info['driver_volume_type'] = 'gpfs'
        status, live, cold, shown = self.check()
        self.assertEqual((0, False, True), (status, live, cold))
        self.assertEqual(
            [['live']], [reason['kinds'] for reason in shown['reasons']]
        )
        _, text = self.run_(moves.CheckMove, SERVER, format_='table')
        self.assertIn(f'live: has volume {VOLUMES[0]}, which is attach', text)
        # only administrators are shown the connection, by this microversion
        (asked,) = {
            one.headers['OpenStack-API-Version']
            for one in self.requests.request_history
            if one.path.endswith('/attachments/detail')
        }
        self.assertEqual('volume 3.27', asked)

    def test_what_cinder_knows(self):
        self.snapshots = [{'id': 'one', 'volume_id': VOLUMES[0]}]
        self.answer_volume(encrypted=True, multiattach=True, group_id='g')
        status, live, cold, shown = self.check()
        self.assertEqual((3, False, False), (status, live, cold))
        self.assertEqual(
            ['encrypted', 'snapshots', 'group', 'servers'],
            [reason['reason'].split()[-1] for reason in shown['reasons']],
        )

    def test_bootable_volume(self):
        for fields in (
            {'bootable': 'true'},
            {'attachments': [{'server_id': SERVER, 'device': '/dev/vda'}]},
        ):
            self.answer_volume(**fields)
            status, _, _, shown = self.check()
            self.assertEqual(3, status)
            (reason,) = shown['reasons']
            self.assertIn('is none of the 1 vdisks', reason['reason'])

    def test_not_settled(self):
        """The volume is exported, so that no API tells its disk."""
        self.answer_volume(EXPORT, OTHER)
        status, _, _, shown = self.check()
        self.assertEqual(3, status)
        (reason,) = shown['reasons']
        self.assertIn(f'its data is on host {OTHER}', reason['reason'])
        self.assertTrue(reason['passes'])

    def test_volume_of_another_driver(self):
        self.connection_info = {'driver_volume_type': 'rbd'}
        self.answer_volume('192.0.2.1:3260', 'ceph', encrypted=True)
        self.assertEqual((0, True, True), self.check()[:3])

    def test_hosts_that_take_no_servers(self):
        for service in (
            self.service(OTHER, 'down', 'enabled'),
            self.service(OTHER, 'up', 'disabled'),
        ):
            self.services[1] = service
            status, _, _, shown = self.check()
            self.assertEqual((3, []), (status, shown['hosts_with_room']))

    def test_hosts_without_the_backend(self):
        for fields in (
            {'state': 'down'},
            {'status': 'disabled'},
            {'host': f'{OTHER}@slow'},
        ):
            self.backends[1] = {
                'host': f'{OTHER}@vdisk',
                'state': 'up',
                'status': 'enabled',
                **fields,
            }
            status, _, _, shown = self.check()
            self.assertEqual((3, []), (status, shown['hosts_with_room']))
            self.assertIn('no other host', shown['reasons'][0]['reason'])

    def test_hosts_with_other_names_than_their_nodes(self):
        self.nodes = {HOST: 'rack-1', OTHER: 'rack-2'}
        self.services = [
            self.service(host, 'up', 'enabled')
            for host in ('rack-1', 'rack-2')
        ]
        for backend, host in zip(
            self.backends, ('rack-1', 'rack-2'), strict=True
        ):
            backend['host'] = f'{host}@vdisk'
        self.server['OS-EXT-SRV-ATTR:host'] = 'rack-1'
        self.server['OS-EXT-SRV-ATTR:hypervisor_hostname'] = HOST
        self.answer_volume(host='rack-1')
        status, live, cold, shown = self.check()
        self.assertEqual(['rack-2'], shown['hosts_with_room'])
        self.assertEqual((0, True, True), (status, live, cold))

    def test_flavor_without_vdisks(self):
        self.server['flavor'] = {'extra_specs': {}}
        self.server['os-extended-volumes:volumes_attached'] = []
        status, _, _, shown = self.check()
        self.assertEqual((0, None), (status, shown['hosts_with_room']))

    def test_no_such_server(self):
        self.requests.get(f'{NOVA}/servers/{SERVER}', status_code=404)
        self.requests.get(f'{NOVA}/servers', json={'servers': []})
        error = self.assertRaises(
            exception.DiskPlacerError, self.run_, moves.CheckMove, SERVER
        )
        self.assertIn(SERVER, str(error))
