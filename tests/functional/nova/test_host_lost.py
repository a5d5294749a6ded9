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

"""openstack vdisk host lost with the real Nova and Placement.

Cinder is a fixture, as in ``test_host_empty``.
"""

from unittest import mock

import fixtures

from nova_diskplacer import exception
from nova_diskplacer import nova_server
from nova_diskplacer.client.osc import moves
from nova_diskplacer.client.server_moves import returning
from tests.functional.nova import test_host_empty

HOST = test_host_empty.HOST


class HostLostTest(test_host_empty.HostTestCase):
    asked = {'vdisks': 2, 'vdisk_gb': 100, 'on_host_loss': 'blank'}

    def setUp(self):
        super().setUp()
        self.flags(moves=False, group='diskplacer_scheduler')
        self.useFixture(fixtures.MockPatchObject(returning, '_INTERVAL', 0.2))

    def lose(self):
        self.computes[HOST].stop()
        self.api.put_service_force_down(
            self.computes[HOST].service_ref.uuid, True
        )
        self.volumes_down.add(HOST)

    def lost(self, *arguments):
        """Return the exit status, and result, host and reason by server."""
        with mock.patch.object(nova_server, '_SILENCE', 0.0):
            status, rows = self.run_command(moves.LostHost, *arguments)
        return status, {
            id_: (row['Result'], row['Host'], row['Reason'])
            for id_, row in rows.items()
        }

    def give_up(self, ids):
        """Do as ``diskplacer-manage host give-up``."""
        for id_ in ids:
            del self.volumes.places[id_]

    def test_servers_come_back(self):
        """One that may, one whose flavor says nothing, one not given up."""
        self.disable_others(HOST)
        plain = self.flavor(vdisks=2, vdisk_gb=100)
        returns, given_up = self.boot_bound()
        stays, kept = self.boot_bound(plain)
        later, not_yet = self.boot_bound()
        self.enable_all()
        self.assertRaisesRegex(
            exception.DiskPlacerError, 'is not forced down', self.lost, '--yes'
        )
        self.lose()
        self.volumes_down.clear()
        self.assertRaisesRegex(
            exception.DiskPlacerError,
            f'cinder-volume of {HOST}@vdisk is up',
            self.lost,
            '--yes',
        )
        self.volumes_down.add(HOST)
        # whoever forces a host down has a minute to see that it is alive
        self.assertRaisesRegex(
            exception.DiskPlacerError,
            'was heard of, or forced down',
            self.run_command,
            moves.LostHost,
            '--yes',
        )
        self.give_up(given_up)
        before = {
            server['id']: self.claims(server['id'])
            for server in (stays, later)
        }
        status, rows = self.lost()
        self.assertEqual(3, status)
        self.assertEqual((returning.RETURNS, HOST, ''), rows[returns['id']])
        self.assertEqual(HOST, self.host_of(returns).name)
        status, rows = self.lost('--yes')
        self.assertEqual(3, status)
        host = self.host_of(returns).name
        self.assertNotEqual(HOST, host)
        self.assertEqual((returning.RETURNED, host, ''), rows[returns['id']])
        self.assertEqual(
            sorted((host, disk) for disk in self.claims(returns['id'])[host]),
            sorted(self.places(given_up)),
        )
        for server, ids, reason in (
            (stays, kept, 'without diskplacer:on_host_loss=blank'),
            (later, not_yet, 'whose data is not given up'),
        ):
            result, _, why = rows[server['id']]
            self.assertEqual(returning.STAYS, result)
            self.assertIn(reason, why)
            self.assertEqual(before[server['id']], self.claims(server['id']))
            self.assertEqual(HOST, self.host_of(server).name)
            self.assertEqual({HOST}, {host for host, _ in self.places(ids)})
        # a repetition takes the rest
        self.give_up(not_yet)
        status, rows = self.lost('--yes')
        self.assertEqual(3, status)
        self.assertEqual({stays['id'], later['id']}, rows.keys())
        self.assertNotEqual(HOST, self.host_of(later).name)

    def test_nova_evacuates_none(self):
        """No disk elsewhere has room; the server is where it was."""
        self.disable_others(HOST)
        server, ids = self.boot_bound()
        self.lose()
        self.give_up(ids)
        held = self.api.post_aggregate(
            {'aggregate': {'name': f'vdisk-host-lost:{HOST}'}}
        )
        self.assertRaisesRegex(
            exception.DiskPlacerError, 'another run', self.lost, '--yes'
        )
        self.assertEqual(3, self.lost()[0])
        self.api.delete_aggregate(held['id'])
        status, rows = self.lost('--yes')
        self.assertEqual(3, status)
        self.assertEqual(
            [], self.api.api_get('/os-aggregates').body['aggregates']
        )
        result, host, why = rows[server['id']]
        self.assertEqual((returning.STAYS, HOST), (result, host))
        self.assertRegex(why, 'was not evacuated, .* in ERROR: .*No valid')
        # it is tried again
        self.enable_all()
        status, rows = self.lost('--yes')
        self.assertEqual(0, status, rows)
        self.assertNotEqual(HOST, self.host_of(server).name)
