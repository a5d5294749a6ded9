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

"""Map, openstack vdisk check and metrics agree on claims without vdisks.

Placement and the agent are real; Nova and Cinder tell of one server.
"""

import contextlib
import datetime
import io
import json
import types
import uuid

import fixtures

from nova_diskplacer import constants
from nova_diskplacer.client import facts
from nova_diskplacer.client import map_facts
from nova_diskplacer.client import vdisk_map
from nova_diskplacer.cmd import manage
from nova_diskplacer.placement import client as placement_client
from tests.functional.agent import base

NOW = datetime.datetime.now(datetime.UTC)
LONG_AGO = NOW - datetime.timedelta(days=1)


class PendingTest(base.AgentTestCase):
    def setUp(self):
        super().setUp()
        self.placement.start_compute()
        self.first, self.second = self.disks.add(), self.disks.add()
        self.server = str(uuid.uuid4())
        self.volumes = []
        for name, value in (
            ('placement.client.PlacementClient.from_conf', self.client),
            ('cmd.common.transport', self.transport),
            ('cmd.common.configure', None),
            (
                'cmd.map._read_names',
                (
                    {
                        self.server: facts.Server(
                            self.server, 'web', 'ACTIVE', LONG_AGO
                        )
                    },
                    {},
                ),
            ),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'nova_diskplacer.{name}',
                    lambda *_, value=value, **__: value,
                )
            )
        self.agent = self.start_agent()
        for disk in (self.first, self.second):
            self.wait_for(lambda disk=disk: self.health(disk) == constants.OK)
        self.placement.claim(
            self.server,
            {
                disk: {placement_client.GB: 10}
                for disk in (self.first, self.second)
            },
        )

    def hold(self, disk):
        """Have a vdisk of the server on a disk."""
        self.disks.hold(disk, self.server)
        self.volumes.append(
            {
                'id': str(uuid.uuid4()),
                'name': 'data',
                'size': 10,
                'provider_id': disk,
                'host': 'compute-1@vdisk#vdisk',
                'project_id': 'p',
                'attachments': [
                    {'server_id': self.server, 'device': '/dev/vdb'}
                ],
            }
        )

    def of_map(self):
        """Return the GiB of the finding of diskplacer-manage map."""
        with contextlib.redirect_stdout(io.StringIO()) as output:
            status = manage.main(
                ['map', '--format', 'json', '--timeout', str(base.PATIENCE)]
            )
        found = json.loads(output.getvalue())['findings']
        pending = [one['text'] for one in found if one['kind'] == 'pending']
        self.assertEqual(3 if pending else 0, status)
        return sum(int(text.split()[0]) for text in pending)

    def of_client(self):
        """Return the GiB of the finding of openstack vdisk check."""
        connection = types.SimpleNamespace(
            placement=self.client._adapter,
            compute=types.SimpleNamespace(
                servers=lambda **_: [
                    {
                        'id': self.server,
                        'name': 'web',
                        'status': 'ACTIVE',
                        'updated_at': LONG_AGO.isoformat(),
                        'project_id': 'p',
                    }
                ]
            ),
            block_storage=types.SimpleNamespace(
                volumes=lambda **_: self.volumes
            ),
        )
        known = map_facts.read(connection)
        return sum(
            int(one.text.split()[0])
            for one in vdisk_map.findings(known, vdisk_map.entries(known), NOW)
            if one.kind == 'pending'
        )

    def of_metrics(self):
        """Return the GiB that are pending for the agent."""
        disks = self.agent.current_status().disks
        for disk in disks:
            self.assertEqual(
                bool(disk.pending_gb), disk.pending_since is not None
            )
        return sum(disk.pending_gb for disk in disks)

    def assertPending(self, gb):
        for read in (self.of_map, self.of_metrics):
            self.wait_for(lambda read=read: read() == gb)
        self.assertEqual(gb, self.of_client())

    def test_they_agree(self):
        self.assertPending(20)
        self.hold(self.first)
        self.assertPending(10)
        self.hold(self.second)
        self.assertPending(0)
        # nobody can tell what is on it
        self.disks.lose(self.second)
        self.wait_for(lambda: self.health(self.second) == constants.MISSING)
        self.assertPending(0)
