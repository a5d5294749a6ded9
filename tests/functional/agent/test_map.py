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

import contextlib
import io
import json
import uuid

import fixtures
import oslo_messaging
from oslo_config import cfg

from nova_diskplacer.agent import placement_sync
from nova_diskplacer.agent import reporter
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import manage
from nova_diskplacer.placement import client as placement_client
from tests.functional.agent import base


class MapTest(base.AgentTestCase):
    """diskplacer-manage map of a running agent and real Placement."""

    def setUp(self):
        super().setUp()
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.placement.client.PlacementClient.from_conf',
                lambda *_, **__: self.client,
            )
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.cmd.common.transport',
                lambda: oslo_messaging.get_rpc_transport(
                    cfg.CONF, url='fake:/'
                ),
            )
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.cmd.common.configure', lambda *_: None
            )
        )
        # there is neither Nova nor Cinder
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.cmd.map._read_names', lambda _: ({}, {})
            )
        )
        self.assertIsNotNone(common.transport())
        self.placement.start_compute()
        self.first, self.second = self.disks.add(), self.disks.add()
        self.server = str(uuid.uuid4())
        self.start_agent()
        self.wait_for(lambda: self.health(self.second) == 'ok')

    def claim(self, *disks):
        self.placement.claim(
            self.server, {disk: {placement_client.GB: 10} for disk in disks}
        )

    def map(self, *arguments):
        """Run the command; returns its exit status and its output."""
        output = io.StringIO()
        with fixtures.MonkeyPatch('sys.stdout', output):
            status = manage.main(
                ['map', '--timeout', str(base.PATIENCE), *arguments]
            )
        return status, output.getvalue()

    def json(self, *arguments):
        status, output = self.map('--format', 'json', *arguments)
        return status, json.loads(output)

    def statuses(self, *arguments):
        """Return the exit status and the status of each row."""
        status, shown = self.json(*arguments)
        return status, [
            (row['claimed_disk'], row['actual_disk'], row['status'])
            for server in shown['servers']
            for row in server['vdisks']
        ]

    def assertBecome(self, expected, *arguments):
        """Check statuses that a report from before a change may hide."""
        with contextlib.suppress(AssertionError):
            self.wait_for(lambda: self.statuses(*arguments) == expected)
        self.assertEqual(expected, self.statuses(*arguments))

    def test_from_claim_to_vdisks(self):
        self.assertEqual((0, []), self.statuses())
        self.claim(self.first)
        self.assertEqual((0, [(self.first, None, 'pending')]), self.statuses())
        self.disks.hold(self.first, self.server)
        self.assertBecome((0, [(self.first, self.first, 'ok')]))
        self.disks.hold(self.second, self.server)
        self.assertBecome(
            (
                0,
                [
                    (self.first, self.first, 'ok'),
                    (None, self.second, 'unclaimed'),
                ],
            ),
            '--server',
            self.server,
        )

    def test_elsewhere_than_claimed(self):
        self.claim(self.first)
        self.disks.hold(self.second, self.server)
        self.assertBecome(
            (
                0,
                [
                    (None, self.second, 'unclaimed'),
                    (self.first, None, 'pending'),
                ],
            )
        )

    def test_a_host(self):
        self.claim(self.first)
        rows = [(self.first, None, 'pending')]
        for name in (base.NODE, self.conf.host):
            self.assertEqual((0, rows), self.statuses('--host', name))
        errors = io.StringIO()
        with fixtures.MonkeyPatch('sys.stderr', errors):
            status, _ = self.map('--host', 'nonsense', '--timeout', '1')
        self.assertEqual(1, status)
        self.assertIn('nonsense', errors.getvalue())

    def test_another_server(self):
        self.claim(self.first)
        self.assertEqual((0, []), self.statuses('--server', 'nonsense'))

    def test_a_host_whose_agent_is_away(self):
        self.placement.start_compute('compute-2')
        disk = self.disks.add_elsewhere()
        placement_sync.PlacementSync(self.client, 'compute-2').reconcile(
            [disk]
        )
        self.claim(disk.uuid)

        def ask():
            status, shown = self.json('--timeout', '2')
            self.assertEqual(0, status)
            # who does not answer in time is missing, too
            return shown['missing_hosts'] == ['compute-2'] and shown

        shown = self.wait_for(ask)
        self.assertEqual('compute-2', shown['servers'][0]['host'])

    def test_an_unhealthy_disk(self):
        self.disks.lose(self.first)
        self.wait_for(lambda: self.health(self.first) == 'missing')
        _, shown = self.json()
        self.assertEqual(
            [
                {
                    'disk': self.first,
                    'host': self.conf.host,
                    'health': 'missing',
                }
            ],
            shown['unhealthy_disks'],
        )

    def test_pressure(self):
        _, shown = self.json()
        self.assertEqual([None, None], [d['pressure'] for d in shown['disks']])
        pressure = {self.first: 0, self.second: 42}
        # these disks are no block devices, which the I/O loop would measure
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.agent.io_control.IOControl.disk_activity',
                lambda _: reporter.DiskActivity(pressure, {}, {}),
            )
        )
        self.claim(self.second)
        self.wait_for(
            lambda: (
                {
                    disk['disk']: disk['pressure']
                    for disk in self.json()[1]['disks']
                }
                == pressure
            )
        )
        _, table = self.map('--long')
        self.assertRegex(table, f'{self.second} .* 42 % .* pending')
