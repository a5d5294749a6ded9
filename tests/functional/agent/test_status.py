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

"""Facts of diskplacer-status and metrics of a host, of a running agent."""

import os
import time
import uuid

import fixtures

from nova_diskplacer import constants
from nova_diskplacer.cmd import upgrade_checks as checks
from nova_diskplacer.cmd import upgrade_facts
from nova_diskplacer.disks import bind_failures
from nova_diskplacer.disks import settling
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.profiles import catalogue
from tests.functional.agent import base


class HostStatusTest(base.AgentTestCase):
    """Real Placement; disks are made up."""

    def setUp(self):
        super().setUp()
        self.placement.start_compute()
        self.disk = self.disks.add()
        self.server = str(uuid.uuid4())
        self.agent = self.start_agent()
        self.wait_for(lambda: self.health(self.disk) == constants.OK)

    def status(self):
        """Return the status of the disk."""
        (disk,) = self.agent.current_status().disks
        return disk

    def test_capacity_and_pending_claims(self):
        before = self.status()
        self.assertEqual((constants.OK, 0), (before.health, before.vdisks))
        self.assertIsNone(before.pending_since)
        self.placement.claim(
            self.server, {self.disk: {placement_client.GB: 10}}
        )
        pending = self.wait_for(
            lambda: (now := self.status()).pending_since and now
        )
        self.assertEqual(10, pending.pending_gb)
        self.assertEqual(10, pending.figures.used_gb)
        self.assertEqual(before.figures.free_gb - 10, pending.figures.free_gb)
        self.disks.hold(self.disk, self.server)
        filled = self.wait_for(
            lambda: (now := self.status()).pending_since is None and now
        )
        self.assertEqual(1, filled.vdisks)

    def test_the_agents_own_work(self):
        state = self.agent.current_status()
        self.assertEqual(0, state.bind_failures['disk'])
        self.assertLess(0, state.checked)
        self.assertLess(0, state.placement_updated)
        self.wait_for(lambda: self.agent.current_status().reported)
        bind_failures.count(self.conf.diskplacer.disk_root, 'disk')
        self.assertEqual(1, self.agent.current_status().bind_failures['disk'])

    def test_vdisks_that_follow_their_servers(self):
        root = self.conf.diskplacer.disk_root
        self.assertEqual((), self.agent.current_status().settling)
        vdisk = settling.VDisk(
            'v',
            'volume-v',
            self.server,
            'compute-1',
            self.disk,
            settling.AWAY,
            1.0,
        )
        settling.FILE.write(root, settling.Settling(time.time(), (vdisk,)))
        self.assertEqual((vdisk,), self.agent.current_status().settling)
        # nobody settles, and a link tells of a vdisk
        settling.FILE.write(root, settling.Settling(1.0, ()))
        os.mkdir(os.path.join(root, 'remote'))
        os.symlink('/dev/x', os.path.join(root, 'remote', 'volume-w'))
        (other,) = self.agent.current_status().settling
        self.assertEqual(('w', 'failed'), (other.volume, other.state))
        os.unlink(os.path.join(root, 'remote', 'volume-w'))
        self.assertEqual((), self.agent.current_status().settling)

    def test_facts_of_diskplacer_status(self):
        for name, value in (
            ('placement.client.PlacementClient.from_conf', self.client),
            ('cmd.common.transport', self.transport),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'nova_diskplacer.{name}',
                    lambda *_, value=value, **__: value,
                )
            )
        reader = upgrade_facts.Reader(self.conf)
        reader.make_names()
        own = catalogue.software([])
        heard, silent = reader.agents
        self.assertEqual(
            ([checks.Software(self.conf.host, **own)], []), (heard, silent)
        )
        self.assertEqual(own['release'], reader.software.release)
        self.assertEqual(own['profiles'], reader.software.profiles)
        result = checks.profiles(heard, own['release'], own['profiles'])
        self.assertEqual(checks.Code.SUCCESS, result.code)
