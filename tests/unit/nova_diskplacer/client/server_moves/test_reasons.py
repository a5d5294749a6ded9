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

import dataclasses

from oslotest import base

from nova_diskplacer import flavor
from nova_diskplacer.client.server_moves import facts
from nova_diskplacer.client.server_moves import reasons
from nova_diskplacer.disks.location import Location

REQUEST = flavor.VDiskRequest(2, 10, volume_type='local')


def volume(id_='v1', **fields):
    return facts.Volume(
        id_,
        **{
            'size_gb': 10,
            'host': 'host-a',
            'section': 'vdisk',
            'location': Location(['d1']),
            'server_id': 's1',
            'volume_type': 'local',
            **fields,
        },
    )


def server(*volumes, **fields):
    """Return a running server on host-a that can move."""
    return facts.Server(
        's1',
        'web',
        **{
            'host': 'host-a',
            'status': 'ACTIVE',
            'vm_state': 'active',
            'request': REQUEST,
            'volumes': volumes or (volume('v1'), volume('v2')),
            **fields,
        },
    )


class ReasonsTest(base.BaseTestCase):
    def found(self, one, room=('host-b',)):
        """Return what is against live and cold moves."""
        found = reasons.find(one, room)
        return tuple(
            '; '.join(reason.text for reason in reasons.against(found, kind))
            for kind in facts.KINDS
        )

    def test_server_that_can_move(self):
        self.assertEqual(('', ''), self.found(server()))
        # shelved or booting volumes are reserved
        reserved = volume(status='reserved')
        self.assertEqual(('', ''), self.found(server(reserved)))
        # without vdisks, or with vdisks to come
        bare = dataclasses.replace(server(), volumes=(), request=None)
        self.assertEqual(('', ''), self.found(bare, None))
        to_come = dataclasses.replace(server(), volumes=())
        self.assertEqual(('', ''), self.found(to_come))

    def test_volumes(self):
        for fields, expected in (
            ({'is_encrypted': True}, 'is encrypted'),
            ({'has_snapshots': True}, 'has snapshots'),
            ({'in_group': True}, 'is in a group'),
            ({'is_multiattach': True}, 'can be attached to several servers'),
            ({'is_migrating': True}, 'is migrated or retyped'),
            ({'status': 'backing-up'}, 'has status backing-up'),
            ({'host': 'host-c'}, 'has not settled: its data is on host'),
            ({'location': Location(['d1', 'd2'])}, 'is striped or elastic'),
            ({'location': Location()}, 'is exported for a move'),
            # legs of an elastic one that share a disk
            ({'location': Location(['d1', 'd1'])}, 'is striped or elastic'),
            (
                {'size_gb': 11},
                'has 11 GiB, and its flavor claims vdisks of 10 GiB',
            ),
            ({'volume_type': 'other'}, 'is none of the 2 vdisks of 10 GiB'),
            ({'is_bootable': True}, 'is none of the 2 vdisks of 10 GiB'),
        ):
            found = self.found(server(volume(**fields), volume('v2')))
            for text in found:
                self.assertIn(f'has volume v1, which {expected}', text)
                self.assertNotIn(';', text)

    def test_file_moves_cold(self):
        live, cold = self.found(server(volume(is_file=True)))
        self.assertIn('has volume v1, which is attached as a file', live)
        self.assertEqual('', cold)

    def test_states(self):
        for state, live, cold in (
            ('paused', '', 'is paused'),
            ('stopped', 'is off', ''),
            ('suspended', 'is suspended', 'is suspended'),
            ('rescued', 'is in rescue mode', 'is in rescue mode'),
            ('resized', 'waits until its resize', 'waits until its resize'),
            ('shelved', 'is shelved: offload', 'is shelved: offload'),
            ('shelved_offloaded', 'is shelved: its data', 'is shelved: its'),
            ('soft-delete', 'is soft-deleted', 'is soft-deleted'),
            ('error', 'is in ERROR', 'is in ERROR'),
            ('building', 'is being built', 'is being built'),
            ('unheard-of', 'is in state unheard-of', 'is in state unheard-of'),
        ):
            found = self.found(server(vm_state=state))
            for text, expected in zip(found, (live, cold), strict=True):
                self.assertTrue(text.startswith(expected), (state, text))
                self.assertEqual(bool(expected), bool(text), state)

    def test_lock(self):
        live, _ = self.found(server(is_locked=True, locked_reason='payroll'))
        self.assertIn('is locked (payroll): openstack server unlock s1', live)

    def test_flavors(self):
        elastic = dataclasses.replace(
            REQUEST, mapping='elastic', widest_disks=4
        )
        for fields, expected in (
            ({'request': None}, 'has vdisks, and its flavor claims none'),
            ({'request': elastic}, 'has vdisks with mapping elastic'),
            (
                {'request': None, 'flavor_error': 'x'},
                'that is wrong: x',
            ),
        ):
            for text in self.found(server(**fields)):
                self.assertIn(expected, text)
        three = server(*map(volume, ('v1', 'v2', 'v3')))
        self.assertIn('has 3 vdisks', self.found(three)[0])

    def test_no_room(self):
        for text in self.found(server(), ()):
            self.assertIn('whose disks have room for 2', text)

    def test_what_passes(self):
        for one, passes in (
            (server(task='rebooting'), True),
            (server(vm_state='building', task='spawning'), True),
            (server(volume(host='host-c')), True),
            (server(volume(is_migrating=True)), True),
            (server(vm_state='error'), False),
            (server(volume(has_snapshots=True)), False),
            (server(is_locked=True), False),
        ):
            found = reasons.find(one, ('host-b',))
            self.assertEqual([passes], [reason.passes for reason in found])
