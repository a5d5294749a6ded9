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

from oslotest import base

from nova_diskplacer.client import facts
from nova_diskplacer.client import map_facts


def volume(**fields):
    return {
        'id': 'one',
        'name': 'data',
        'project_id': 'project',
        'size': 10,
        'provider_id': 'a',
        'attachments': [],
        **fields,
    }


class VDisksTest(base.BaseTestCase):
    def test_striped_volume(self):
        """It has a row for each disk that the picture has."""
        attached = [{'server_id': 'server', 'device': '/dev/vdb'}]
        found = map_facts.vdisks_of(
            [
                volume(provider_id='a,b,x', attachments=attached),
                volume(id='two', provider_id='b'),
                volume(id='three', provider_id='x'),
                volume(id='four', provider_id=None),
                volume(id='five', provider_id='a,a,x,b'),
            ],
            ('a', 'b'),
            {},
        )
        self.assertEqual(
            [
                facts.VDisk('one', 'a', 4, 'server', device='vdb'),
                facts.VDisk('one', 'b', 4, 'server', device='vdb'),
                facts.VDisk('two', 'b', 10),
                facts.VDisk('five', 'a', 6),
                facts.VDisk('five', 'b', 3),
            ],
            found,
        )

    def test_devices_that_users_name(self):
        """An attachment without Nova may name any device."""
        attached = [
            {'server_id': 'server', 'device': '/dev/\x1b[2Jv\nb\u202e'}
        ]
        one = volume(provider_id='a', attachments=attached)
        (found,) = map_facts.vdisks_of([one], ('a',), {})
        self.assertEqual('?[2Jv?b?', found.device)


class MovingTest(base.BaseTestCase):
    DISK = 'b0000000-0000-4000-8000-000000000000'
    EXPORT = '192.0.2.1:3260,1 iqn.2010-10.org.openstack:volume-1 0'

    def moving(self, *volumes, there='host-b', node=None):
        return map_facts.moving_of(
            volumes,
            [
                facts.Disk('b', 'host-b.example.org'),
                facts.Disk('c', 'host-b.example.org'),
                facts.Disk('d', 'host-d.example.org'),
            ],
            {
                's1': {
                    'id': 's1',
                    'compute_host': there,
                    'hypervisor_hostname': node,
                }
            },
        )

    def exported(self, host='host-a@vdisk#pool', **fields):
        attached = [{'server_id': 's1', 'device': '/dev/vdb'}]
        return volume(
            **{
                'provider_id': self.EXPORT,
                'host': host,
                'attachments': attached,
                **fields,
            }
        )

    def at_rest(self, host='host-c@vdisk#pool'):
        return volume(id='rest', provider_id=self.DISK, host=host)

    def test_exported(self):
        found = self.moving(self.exported(), self.at_rest())
        self.assertEqual(
            [
                facts.MovingVDisk(
                    'one', 10, 's1', 'host-b.example.org', 'host-a', 'vdb'
                )
            ],
            found,
        )

    def test_move_that_begins_or_ends(self):
        """The server is on the host that has the data."""
        exported = self.exported('host-b@vdisk#pool')
        (found,) = self.moving(exported, self.at_rest())
        self.assertEqual('', found.source)

    def test_host_with_another_name_than_its_node(self):
        volumes = self.exported(), self.at_rest()
        (found,) = self.moving(*volumes, there='rack-1', node='host-b')
        self.assertEqual('host-b.example.org', found.host)
        self.assertEqual('host-a', found.source)

    def test_what_does_not_move(self):
        for volumes in (
            # of another driver: no backend of this name has vdisks
            (self.exported('host-a@san#pool'), self.at_rest()),
            (self.exported(),),
            # at rest
            (self.exported(provider_id=self.DISK), self.at_rest()),
            (self.exported(provider_id=None), self.at_rest()),
            # Cinder migrates a volume of no server
            (self.exported(attachments=[]), self.at_rest()),
        ):
            self.assertEqual([], self.moving(*volumes))
        # shelved meanwhile, or on a host that is not asked for
        for there in (None, 'host-x'):
            volumes = self.exported(), self.at_rest()
            self.assertEqual([], self.moving(*volumes, there=there))


class ServersTest(base.BaseTestCase):
    def test_names_that_a_terminal_does_not_show(self):
        servers = {
            's': {
                'id': 's',
                'name': 'a\x1b]0;title\x07\r\nb\u202eé日本 ',
                'status': 'ACTIVE',
                'updated_at': None,
            }
        }
        (found,) = map_facts.servers_of(servers).values()
        self.assertEqual('a?]0;title???b?é日本 ', found.name)
