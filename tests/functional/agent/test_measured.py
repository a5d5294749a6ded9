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

"""What a disk was measured to do is what may be claimed of it."""

import os
import uuid

import fixtures

from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.placement import client as placement_client
from tests import loops
from tests.functional.agent import base

MB = 10**6


def model(mbps):
    return io_model.Model(mbps * MB, 9, 9, (mbps + 7) * MB, 9, 9, latency=9)


@loops.needs_root
class MeasuredTest(base.AgentTestCase):
    simulated = False

    def setUp(self):
        super().setUp()
        temporary = self.useFixture(fixtures.TempDir()).path
        self.disk_root = os.path.join(temporary, 'disks')
        self.conf.set_override('disk_root', self.disk_root, 'diskplacer')
        self.placement.start_compute()
        self.disk = prepare.prepare(
            self.disk_root,
            self.useFixture(loops.LoopDevice(2)).device,
            medium='hdd',
            fstab=os.path.join(temporary, 'fstab'),
        ).uuid

    def total(self):
        found = self.placement.inventory(self.disk, placement_client.MBPS)
        return found and found[0]

    def measured(self, mbps):
        io_model.save(self.disk_root, self.disk, model(mbps))
        self.wait_for(lambda: self.total() == mbps)

    def test_more_is_claimed_than_it_does(self):
        self.start_agent()
        self.wait_for(lambda: self.total() == 150)
        self.wait_for(lambda: self.reports.disk(self.disk))
        self.measured(180)
        first, second = str(uuid.uuid4()), str(uuid.uuid4())
        self.placement.claim(first, {self.disk: {placement_client.MBPS: 100}})
        self.wait_for(lambda: self.reports.disk(self.disk)['used_mbps'] == 100)
        self.measured(90)
        # who has it keeps it, and nobody else gets any
        self.wait_for(
            lambda: (
                (
                    self.reports.disk(self.disk)['total_mbps'],
                    self.reports.disk(self.disk)['used_mbps'],
                )
                == (90, 100)
            )
        )
        claim = {self.disk: {placement_client.MBPS: 1}}
        self.assertRaises(AssertionError, self.placement.claim, second, claim)
        self.placement.unclaim(first)
        self.placement.claim(second, claim)
