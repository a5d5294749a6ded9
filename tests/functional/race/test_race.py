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

"""Two processes of eight threads each change the vdisks of one host."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import uuid
from wsgiref import simple_server

import fixtures
import testtools
from oslo_config import cfg
from oslo_config import fixture as config_fixture
from placement import deploy
from placement.tests.functional.fixtures import placement as placement_fixture

from nova_diskplacer import exception
from nova_diskplacer.agent import placement_sync
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import prepare
from nova_diskplacer.placement import client as placement_client
from tests import loops
from tests.functional.race import racer

PROCESSES = 2
DISKS = 4


class Server(simple_server.WSGIServer):
    # threads that may all ask at once
    request_queue_size = 128


class Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, *arguments):
        """Log nothing."""


class PlacementServer(fixtures.Fixture):
    """Placement that other processes can ask, at ``endpoint``."""

    def _setUp(self):
        conf = self.useFixture(config_fixture.Config(cfg.ConfigOpts()))
        self.useFixture(
            placement_fixture.PlacementFixture(
                conf_fixture=conf, use_intercept=False
            )
        )
        server = simple_server.make_server(
            '127.0.0.1',
            0,
            deploy.loadapp(conf.conf),
            server_class=Server,
            handler_class=Quiet,
        )
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        self.endpoint = f'http://127.0.0.1:{server.server_port}'


@loops.needs_root
class RaceTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.endpoint = self.useFixture(PlacementServer()).endpoint
        self.client = racer.client(self.endpoint)
        self.client.ensure_names()
        self.client._call(
            'post',
            '/resource_providers',
            {'name': 'node', 'uuid': str(uuid.uuid4())},
        )
        self.root = self.useFixture(fixtures.TempDir()).path
        self.disk_root = os.path.join(self.root, 'disks')
        for _ in range(DISKS):
            prepare.prepare(
                self.disk_root,
                self.useFixture(loops.LoopDevice(12)).device,
                fstab=os.path.join(self.root, 'fstab'),
            )
        self.sync = placement_sync.PlacementSync(self.client, 'node')
        self.look()

    def look(self):
        """Do as the agent does; returns the disks."""
        disks = discover.discover(self.disk_root)
        self.sync.reconcile(disks)
        return disks

    def race(self):
        """Run the processes; returns what each has to say."""
        locks = os.path.join(self.root, 'locks')
        running = [
            subprocess.Popen(
                [
                    sys.executable,
                    '-m',
                    racer.__name__,
                    self.disk_root,
                    locks,
                    self.endpoint,
                    str(number),
                ],
                stdout=subprocess.PIPE,
                env={**os.environ, 'PYTHONWARNINGS': 'ignore'},
            )
            for number in range(PROCESSES)
        ]
        for process in running:
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
        while any(process.poll() is None for process in running):
            # the agent leaves what others keep changing to its next round
            with contextlib.suppress(exception.Conflict):
                self.look()
        said = []
        for process in running:
            with process.stdout as stream:
                said.append(stream.read())
            self.assertEqual(0, process.returncode)
        return [json.loads(one) for one in said]

    def test_race(self):
        outcomes = self.race()
        for outcome in outcomes:
            self.assertEqual([], outcome['failures'])
        # the same volume was bound by all of them, once
        (shared,) = {disk for one in outcomes for disk in one['shared']}
        expected = {f'volume-{racer.SHARED}': (shared, 1)}
        claims = {}
        for outcome in outcomes:
            expected.update(
                (name, tuple(held)) for name, held in outcome['held'].items()
            )
            claims.update(outcome['claims'])
        disks = self.look()
        found = {
            vdisk.name: (disk.uuid, vdisk.size_gb)
            for disk in disks
            for vdisk in disk.vdisks
        }
        self.assertEqual(expected, found)
        for disk in disks:
            self.check(disk, [k for k, v in claims.items() if v == disk.uuid])
        # it was about the last room on the disks
        refused = sum(sum(one['refused'].values()) for one in outcomes)
        self.assertGreater(refused, 0)

    def check(self, disk, claimed):
        """A disk is not oversold, and Placement knows what is on it."""
        unfilled = reserved = 0
        taken = dict.fromkeys(claimed, 0)
        for vdisk in disk.vdisks:
            if vdisk.server_id in taken:
                taken[vdisk.server_id] += vdisk.size_gb
            else:
                reserved += vdisk.size_gb
        for size in taken.values():
            unfilled += max(0, 1 - size)
            reserved += max(0, size - 1)
        inventory = self.client.inventories(disk.uuid)[1][placement_client.GB]
        self.assertEqual(reserved, inventory['reserved'])
        self.assertLessEqual(
            sum(vdisk.size_gb for vdisk in disk.vdisks) + unfilled,
            inventory['total'],
        )
        self.assertEqual(
            set(claimed), set(self.client.provider_allocations(disk.uuid))
        )
