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
import itertools
import os

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.host import cgroups
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import controllers
from nova_diskplacer.profiles import definitions
from nova_diskplacer.profiles import queue_policy

HDD = Device('uuid-a', 'sda', '8:0', rotational=True)
SSD = dataclasses.replace(HDD, rotational=False)
SCHEDULERS = {
    'bfq': 'none mq-deadline [bfq]\n',
    'mq-deadline': 'none [mq-deadline]\n',
    'none': 'none\n',
}
ENABLED = (
    '8:16 enable=1 ctrl=user rpct=0.00 min=100.00 max=100.00\n'
    '8:0 enable=1 ctrl=user rpct=0.00 min=100.00 max=100.00\n'
)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as stream:
        stream.write(text)


class ControllersTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.path = self.useFixture(fixtures.TempDir()).path
        self.hierarchy = cgroups.Hierarchy(f'{self.path}/cgroup')

    def block(self, scheduler, name='sda', number='8:0', slice_idle=8):
        path = f'{self.path}/class/block/{name}'
        write(f'{path}/queue/scheduler', SCHEDULERS[scheduler])
        write(f'{path}/dev', f'{number}\n')
        write(f'{path}/size', '2048\n')
        if scheduler == 'bfq':
            write(f'{path}/queue/iosched/slice_idle', f'{slice_idle}\n')

    def qos(self, text=ENABLED):
        write(f'{self.path}/cgroup/io.cost.qos', text)

    def active(self, choice='auto', device=SSD):
        return controllers.active_controller(
            device, self.hierarchy, choice, self.path
        )

    def refused(self, *args, **kwargs):
        error = self.assertRaises(
            exception.ContentionError, self.active, *args, **kwargs
        )
        return str(error)


class TestActiveController(ControllersTestCase):
    def test_bfq(self):
        self.block('bfq')
        self.qos()
        for choice in ('auto', 'bfq'):
            for device in (HDD, SSD):
                self.assertEqual(
                    controllers.Controller('bfq', 'io.bfq.weight'),
                    self.active(choice, device),
                )

    def test_bfq_that_does_not_wait(self):
        self.block('bfq', slice_idle=0)
        self.qos()
        for choice in ('auto', 'bfq'):
            error = self.refused(choice)
            self.assertIn('sda is bfq with slice_idle 0', error)
            self.assertIn(
                'set /sys/block/sda/queue/iosched/slice_idle to 8', error
            )
        # io.cost does not need it
        self.assertEqual('io.cost', self.active('io.cost').name)
        self.block('bfq', slice_idle=1)
        self.assertEqual('bfq', self.active().name)

    def test_io_cost(self):
        self.qos()
        found = controllers.Controller('io.cost', 'io.weight')
        for scheduler in ('mq-deadline', 'none'):
            self.block(scheduler)
            self.assertEqual(found, self.active())
        self.block('bfq')
        self.assertEqual(found, self.active('io.cost'))

    def test_scheduler_is_not_bfq(self):
        self.qos()
        for scheduler in ('mq-deadline', 'none'):
            self.block(scheduler)
            for choice, device, why in (
                ('bfq', SSD, 'with [diskplacer_weights] controller=bfq'),
                ('bfq', HDD, 'on a hard disk'),
                # although io.cost is enabled
                ('auto', HDD, 'on a hard disk'),
            ):
                error = self.refused(choice, device)
                self.assertIn(f'scheduler of sda is {scheduler}', error)
                self.assertIn(f'need bfq {why}', error)
                self.assertIn('queue_tuning=on', error)

    def test_io_cost_is_refused_on_hard_disks(self):
        self.qos()
        for scheduler in SCHEDULERS:
            self.block(scheduler)
            error = self.refused('io.cost', HDD)
            self.assertIn('[diskplacer_weights] controller=io.cost', error)
            self.assertIn('are auto (bfq there,', error)

    def test_kernel_without_io_cost(self):
        self.block('none')
        error = self.refused()
        self.assertIn('CONFIG_BLK_CGROUP_IOCOST', error)
        self.assertIn(f'{self.path}/cgroup/io.cost.qos does not exist', error)

    def test_io_cost_is_not_enabled(self):
        self.block('mq-deadline')
        off = ENABLED.replace('8:0 enable=1', '8:0 enable=0')
        for text in ('', '\n', off, '8:1 enable=1\n'):
            self.qos(text)
            for choice in ('auto', 'io.cost'):
                error = self.refused(choice)
                self.assertIn('not enabled for sda', error)
                self.assertIn('disk measure uuid-a', error)

    def test_nvme_multipath(self):
        self.block('none')
        self.qos()
        head = Device('u', 'sda', '8:0', False, paths=('nvme0c0n1',))
        for choice in ('auto', 'bfq', 'io.cost'):
            for call, arguments in (
                (controllers.active_controller, (head, self.hierarchy)),
                (controllers.configured_controller, (head,)),
            ):
                error = self.assertRaises(
                    exception.ContentionError, call, *arguments, choice,
                    self.path,
                )  # fmt: skip
                self.assertIn('nvme_core.multipath=N', str(error))

    def test_device_is_gone(self):
        self.assertRaises(OSError, self.active)


class TestAgreement(ControllersTestCase):
    """What profiles and weights make of a disk is no error to weights."""

    def test_each_choice(self):
        self.qos()
        lists = [
            wanted
            for length in range(4)
            for wanted in itertools.permutations(SCHEDULERS, length)
        ]
        for wanted, device, choice in itertools.product(
            lists, (HDD, SSD), ('auto', 'bfq', 'io.cost')
        ):
            medium = controllers.medium_of(device)
            profile = definitions.Profile(
                'p', '', '', queue={medium: definitions.Queue(wanted)}
            )
            decision = queue_policy.decide([profile], medium, choice)
            self.block((*decision.queue.schedulers, 'mq-deadline')[0])
            if (medium, choice) == ('hdd', 'io.cost'):
                # the operator has chosen what is refused
                self.assertIn('is refused', self.refused(choice, device))
            elif not decision.left_out:
                self.active(choice, device)
