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

"""Weights of cgroups with this kernel's BFQ."""

import json
import os
import pathlib
import signal
import subprocess

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import bfq_settings
from nova_diskplacer.io_weights import controllers
from nova_diskplacer.io_weights import disk_trials
from nova_diskplacer.io_weights import turns
from nova_diskplacer.io_weights import writer
from nova_diskplacer.monitor import types
from tests import cgroups as cgroup_fixtures
from tests import configured
from tests import shell

UUID = '0d6f6a0c-6a0e-4b5e-9f0f-4f3a5b0f1b7c'
DISK = '/dev/disk/by-id/virtio-disk2'
FILE = controllers.BFQ_CONTROLLER.file
# Rounds in which each weight is looked at again.
LOOKED_AT = 2


def device_of(path):
    name = os.path.basename(os.path.realpath(path))
    number = pathlib.Path(f'/sys/block/{name}/dev').read_text().strip()
    return Device(UUID, name, number, rotational=False, mbps=20)


def weight_of(cgroup):
    """Return the weight of a cgroup on the disk, None if it has none."""
    path = cgroups.hierarchy().path(cgroup, FILE)
    weights = dict(
        line.split() for line in pathlib.Path(path).read_text().splitlines()
    )
    assert weights['default'] == '100', weights
    found = weights.get(device_of(DISK).number)
    return None if found is None else int(found)


def apply(setter, wanted):
    """Have cgroups weigh so much on the disk; return errors."""
    device = device_of(DISK)
    controller = controllers.active_controller(
        device, cgroups.hierarchy(), 'auto'
    )
    return setter.apply(
        {(cgroup, UUID): weight for cgroup, weight in wanted.items()},
        [types.Consumer(key=cgroup, cgroup=cgroup) for cgroup in wanted],
        {UUID: device},
        {UUID: controller},
    )


class BFQTestCase(testtools.TestCase):
    """Has a disk whose scheduler is BFQ."""

    def setUp(self):
        super().setUp()
        shell.run('modprobe', 'bfq')
        self.name = device_of(DISK).name
        before = block_queue.read(self.name).values['scheduler']
        self.addCleanup(self.schedule, before)
        self.schedule('bfq')
        self.log = self.useFixture(fixtures.FakeLogger())
        configuration = self.useFixture(configured.Options())
        self.conf, self.state = configuration.conf, configuration.state_dir

    def schedule(self, scheduler):
        block_queue.write(self.name, 'scheduler', scheduler)

    def cgroup(self, name=None):
        """Return a new cgroup."""
        return self.useFixture(cgroup_fixtures.Cgroup(name))

    def writer(self):
        """Return what a new agent sets weights with."""
        return writer.WeightWriter(self.conf, cgroups.hierarchy())


class WeightsTest(BFQTestCase):
    def setUp(self):
        super().setUp()
        self.one, self.other = self.cgroup().name, self.cgroup().name

    def die(self, cgroup):
        """Have a cgroup weigh 7 by an agent that is killed then."""
        child = os.fork()
        if not child:
            try:
                apply(self.writer(), {cgroup: 7})
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        self.assertEqual(7, weight_of(cgroup))

    def set_weight(self, cgroup, weight):
        """Set a weight as somebody else does."""
        path = cgroups.hierarchy().path(cgroup, FILE)
        pathlib.Path(path).write_text(f'{device_of(DISK).number} {weight}')

    def test_set_changed_and_given_back(self):
        setter = self.writer()
        self.assertEqual({}, apply(setter, {self.one: 1, self.other: 100}))
        self.assertEqual(1, weight_of(self.one))
        self.assertIsNone(weight_of(self.other))
        apply(setter, {self.one: 100, self.other: 37})
        self.assertEqual(100, weight_of(self.one))
        self.assertEqual(37, weight_of(self.other))
        apply(setter, {self.one: 50})
        self.assertEqual(50, weight_of(self.one))
        self.assertIsNone(weight_of(self.other))
        setter.restore()
        self.assertIsNone(weight_of(self.one))
        self.assertEqual([], os.listdir(os.path.join(self.state, 'weights')))

    def share(self):
        """Return the share of one of the two while both read."""
        readers = [
            subprocess.Popen(
                ['sh', '-c', 'echo $$ > "$0"/cgroup.procs && exec "$@"',
                 cgroups.hierarchy().path(cgroup),
                 'fio', '--name=read', f'--filename=/dev/{self.name}',
                 '--readonly', '--direct=1', '--rw=read', '--bs=128k',
                 '--ioengine=libaio', '--iodepth=4', f'--offset={place}m',
                 '--size=256m', '--time_based', '--ramp_time=2',
                 '--runtime=5', '--output-format=json'],
                stdout=subprocess.PIPE,
            )
            for place, cgroup in ((0, self.one), (512, self.other))
        ]  # fmt: skip
        one, other = (
            json.loads(reader.communicate()[0])['jobs'][0]['read']['bw']
            for reader in readers
        )
        return one / (one + other)

    def test_weight_that_is_given_back_is_in_force(self):
        setter = self.writer()
        apply(setter, {self.one: 10})
        self.assertLess(self.share(), 0.25)
        setter.restore()
        self.assertIsNone(weight_of(self.one))
        self.assertGreater(self.share(), 0.4)

    def test_weight_that_somebody_had_set_is_given_back(self):
        self.set_weight(self.one, 400)
        setter = self.writer()
        apply(setter, {self.one: 10})
        self.assertEqual(10, weight_of(self.one))
        setter.restore()
        self.assertEqual(400, weight_of(self.one))

    def test_killed_and_taken_over(self):
        self.die(self.one)
        self.die(self.other)
        # the second agent was told of the other one only
        self.assertIsNone(weight_of(self.one))
        setter = self.writer()
        apply(setter, {self.other: 9})
        self.assertEqual(9, weight_of(self.other))
        setter.restore()
        self.assertIsNone(weight_of(self.other))

    def test_changed_by_something_else(self):
        setter = self.writer()
        apply(setter, {self.one: 20})
        for other in ('30', 'default'):
            self.set_weight(self.one, other)
            for _ in range(LOOKED_AT):
                apply(setter, {self.one: 20})
            self.assertEqual(20, weight_of(self.one))
        self.assertEqual(1, self.log.output.count('Something else'))

    def test_scheduler_that_goes_and_comes_back(self):
        setter = self.writer()
        apply(setter, {self.one: 20})
        self.schedule('none')
        device = device_of(DISK)
        refused = self.assertRaises(
            exception.ContentionError,
            controllers.active_controller,
            device,
            cgroups.hierarchy(),
            'bfq',
        )
        self.assertIn(
            f'the I/O scheduler of {self.name} is none', str(refused)
        )
        # the kernel has forgotten: there is nothing to give back
        consumers = [types.Consumer(key=self.one, cgroup=self.one)]
        setter.apply({}, consumers, {UUID: device}, {})
        self.assertEqual([], os.listdir(os.path.join(self.state, 'weights')))
        self.schedule('bfq')
        self.assertIsNone(weight_of(self.one))
        self.assertEqual({}, apply(setter, {self.one: 20}))
        self.assertEqual(20, weight_of(self.one))

    def test_scheduler_that_does_not_wait(self):
        file = pathlib.Path(f'/sys/block/{self.name}/queue/iosched/slice_idle')
        file.write_text('0')
        refused = self.assertRaises(
            exception.ContentionError, apply, self.writer(), {self.one: 20}
        )
        self.assertIn(f'set {file} to 8', str(refused))
        file.write_text('8')
        self.assertEqual({}, apply(self.writer(), {self.one: 20}))

    def test_departed(self):
        one = self.cgroup()
        setter = self.writer()
        apply(setter, {one.name: 20, self.other: 30})
        one.remove()
        self.assertEqual({}, apply(setter, {self.other: 31}))
        (name,) = os.listdir(os.path.join(self.state, 'weights'))
        saved = pathlib.Path(self.state, 'weights', name).read_text()
        self.assertEqual(
            {f'{self.other}/{FILE}': 'default'}, json.loads(saved)['values']
        )
        os.rmdir(cgroups.hierarchy().path(self.other))
        setter.restore()
        self.assertEqual([], os.listdir(os.path.join(self.state, 'weights')))


class SettingsTest(BFQTestCase):
    def setUp(self):
        super().setUp()
        self.settings = bfq_settings.BFQSettings(self.conf)
        self.contended = {
            device_of(DISK): disk_trials.Load(1, 1e8, frozenset())
        }
        self.original = self.values()

    def values(self):
        queue = pathlib.Path(f'/sys/block/{self.name}/queue')
        return {
            name: (queue / name).read_text().strip()
            for name in (
                'nomerges',
                'iosched/strict_guarantees',
                'iosched/low_latency',
                'iosched/max_budget',
                'iosched/slice_idle_us',
            )
        }

    def assert_set(self):
        device = device_of(DISK)
        self.assertEqual(
            bfq_settings.settings(device, turns.TURNS_S[1], None)
            | {'iosched/slice_idle_us': '8000'},
            self.values(),
        )

    def test_set_and_restored(self):
        self.settings.apply(self.contended, 1.0)
        self.assert_set()
        # another agent does it, after a kill
        bfq_settings.BFQSettings(self.conf).restore()
        self.assertEqual(self.original, self.values())
        self.assertEqual([], os.listdir(os.path.join(self.state, 'bfq')))

    def test_slice_idle_that_the_kernel_raises(self):
        file = pathlib.Path(f'/sys/block/{self.name}/queue/iosched/slice_idle')
        file.write_text('3')
        self.settings.apply(self.contended, 1.0)
        self.assert_set()
        self.settings.restore()
        self.assertEqual('3', file.read_text().strip())

    def test_scheduler_that_goes_and_comes_back(self):
        self.settings.apply(self.contended, 1.0)
        self.schedule('none')
        self.schedule('bfq')
        self.assertEqual(self.original | {'nomerges': '2'}, self.values())
        self.settings.apply(self.contended, 1.0)
        self.assert_set()
        self.schedule('none')
        self.settings.restore()
        nomerges = pathlib.Path(f'/sys/block/{self.name}/queue/nomerges')
        self.assertEqual(
            self.original['nomerges'], nomerges.read_text().strip()
        )
        self.assertEqual([], os.listdir(os.path.join(self.state, 'bfq')))
        self.assertEqual('', self.log.output)
