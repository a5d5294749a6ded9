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

"""Weights with this kernel's BFQ, on a loop device.

The suite tests/testbed/io_weights has cgroup v2, and servers.
"""

import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

import fixtures
import testtools
from oslo_config import cfg

from nova_diskplacer import conf as options
from nova_diskplacer import exception
from nova_diskplacer.agent import restore
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import controllers
from nova_diskplacer.io_weights import writer
from nova_diskplacer.monitor import types
from tests import loops
from tests import shell

UUID = '0d6f6a0c-6a0e-4b5e-9f0f-4f3a5b0f1b7c'

# sets a weight, and is killed before it can undo anything
AGENT = """
import sys
from tests.functional.io_weights import test_writer
test_writer.apply_and_die(*sys.argv[1:])
"""


def hierarchy():
    """Return this machine's hierarchy, None if it has none."""
    try:
        return cgroups.hierarchy()
    except exception.ContentionError:
        return None


def configured(state_dir):
    conf = cfg.ConfigOpts()
    options.register_opts(conf)
    # overrides would be those of all others: groups of options are shared
    path = state_dir + '.conf'
    pathlib.Path(path).write_text(
        f'[diskplacer_agent]\nstate_dir = {state_dir}\n'
    )
    conf([], default_config_files=[path])
    return conf


def device_of(path):
    name = os.path.basename(path)
    number = pathlib.Path(f'/sys/block/{name}/dev').read_text().strip()
    return Device(UUID, name, number, rotational=False)


def consumer_of(cgroup):
    return types.Consumer(key=cgroup, cgroup=cgroup)


def apply(conf, path, wanted):
    """Have cgroups weigh so much on a loop device, as a new agent would."""
    setter = writer.WeightWriter(conf, hierarchy())
    return setter, apply_again(setter, path, wanted)


def apply_again(setter, path, wanted):
    device = device_of(path)
    controller = controllers.active_controller(device, hierarchy(), 'auto')
    return setter.apply(
        {(cgroup, UUID): weight for cgroup, weight in wanted.items()},
        [consumer_of(cgroup) for cgroup in wanted],
        {UUID: device},
        {UUID: controller},
    )


def apply_and_die(state_dir, path, cgroup, weight):
    _, errors = apply(configured(state_dir), path, {cgroup: int(weight)})
    assert not errors, errors
    os.kill(os.getpid(), signal.SIGKILL)


@loops.needs_root
@unittest.skipUnless(hierarchy(), 'no cgroups with block I/O are mounted')
class BFQTestCase(testtools.TestCase):
    """Has a device, ``path``, whose scheduler is BFQ."""

    def setUp(self):
        super().setUp()
        self.path = self.useFixture(loops.LoopDevice(1)).device
        self.name = os.path.basename(self.path)
        before = block_queue.read(self.name).values['scheduler']
        self.addCleanup(self.schedule, before)
        try:
            self.schedule('bfq')
        except OSError as error:
            self.skipTest(f'the kernel has no bfq: {error}')

    def schedule(self, scheduler):
        block_queue.write(self.name, 'scheduler', scheduler)


class WeightsTest(BFQTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.state = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 's'
        )
        self.conf = configured(self.state)
        self.numbers = itertools.count()
        self.file = controllers.active_controller(
            device_of(self.path), hierarchy(), 'auto'
        ).file

    def cgroup(self):
        name = f'diskplacer-test-{os.getpid()}-{next(self.numbers)}'
        path = os.path.join(hierarchy().root, name)
        os.mkdir(path)
        self.addCleanup(self.remove, path)
        return name

    def remove(self, path):
        if os.path.isdir(path):
            os.rmdir(path)

    def die(self, cgroup):
        """Have a cgroup weigh 7 by an agent that is killed then."""
        died = subprocess.run(
            [sys.executable, '-c', AGENT, self.state, self.path, cgroup, '7']
        )
        self.assertEqual(-signal.SIGKILL, died.returncode)

    def in_force(self, cgroup):
        """Return what the kernel has, without the default."""
        path = os.path.join(hierarchy().root, cgroup, self.file)
        lines = pathlib.Path(path).read_text().splitlines()
        self.assertIn('default 100', lines)
        return [line for line in lines if not line.startswith('default')]

    def entry(self, weight):
        return [f'{device_of(self.path).number} {weight}']

    def test_set_changed_and_given_back(self):
        one, other = self.cgroup(), self.cgroup()
        setter, errors = apply(self.conf, self.path, {one: 1, other: 100})
        self.assertEqual({}, errors)
        self.assertEqual(self.entry(1), self.in_force(one))
        self.assertEqual([], self.in_force(other))
        apply_again(setter, self.path, {one: 100, other: 37})
        self.assertEqual(self.entry(100), self.in_force(one))
        self.assertEqual(self.entry(37), self.in_force(other))
        apply_again(setter, self.path, {one: 50})
        self.assertEqual(self.entry(50), self.in_force(one))
        self.assertEqual([], self.in_force(other))
        setter.restore()
        self.assertEqual([], self.in_force(one))
        self.assertEqual([], os.listdir(os.path.join(self.state, 'weights')))

    def test_weight_that_somebody_had_set_is_given_back(self):
        one = self.cgroup()
        path = os.path.join(hierarchy().root, one, self.file)
        pathlib.Path(path).write_text(self.entry(400)[0])
        setter, _ = apply(self.conf, self.path, {one: 10})
        self.assertEqual(self.entry(10), self.in_force(one))
        setter.restore()
        self.assertEqual(self.entry(400), self.in_force(one))

    def test_killed_and_restored(self):
        one = self.cgroup()
        self.die(one)
        self.assertEqual(self.entry(7), self.in_force(one))
        restore.restore_kernel_state(self.conf)
        self.assertEqual([], self.in_force(one))
        restore.restore_kernel_state(self.conf)

    def test_killed_and_taken_over(self):
        one, other = self.cgroup(), self.cgroup()
        for cgroup in (one, other):
            self.die(cgroup)
        # the second agent was told of the other one only
        self.assertEqual([], self.in_force(one))
        setter, _ = apply(self.conf, self.path, {other: 9})
        self.assertEqual(self.entry(9), self.in_force(other))
        setter.restore()
        self.assertEqual([], self.in_force(other))

    def test_command(self):
        one = self.cgroup()
        apply(self.conf, self.path, {one: 7})
        config = os.path.join(self.state, 'conf')
        pathlib.Path(config).write_text(
            f'[diskplacer_agent]\nstate_dir = {self.state}\n'
        )
        # neither Placement nor the message bus is needed
        for _ in range(2):
            shell.run('diskplacer-agent', '--config-file', config, '--restore')
            self.assertEqual([], self.in_force(one))

    def test_changed_by_something_else(self):
        one = self.cgroup()
        path = os.path.join(hierarchy().root, one, self.file)
        setter, _ = apply(self.conf, self.path, {one: 20})
        for other in ('30', 'default'):
            number, _ = self.entry(20)[0].split()
            pathlib.Path(path).write_text(f'{number} {other}')
            for _ in range(30):
                apply_again(setter, self.path, {one: 20})
            self.assertEqual(self.entry(20), self.in_force(one))
        self.assertEqual(1, self.log.output.count('Something else'))

    def test_scheduler_that_goes_and_comes_back(self):
        one = self.cgroup()
        setter, _ = apply(self.conf, self.path, {one: 20})
        self.schedule('none')
        device = device_of(self.path)
        refused = self.assertRaises(
            exception.ContentionError,
            controllers.active_controller, device, hierarchy(), 'bfq',
        )  # fmt: skip
        self.assertIn(
            f'the I/O scheduler of {self.name} is none', str(refused)
        )
        # the kernel has forgotten: there is nothing to give back
        setter.apply({}, [consumer_of(one)], {UUID: device}, {})
        self.assertEqual([], os.listdir(os.path.join(self.state, 'weights')))
        self.schedule('bfq')
        self.assertEqual([], self.in_force(one))
        self.assertEqual({}, apply_again(setter, self.path, {one: 20}))
        self.assertEqual(self.entry(20), self.in_force(one))

    def test_scheduler_that_does_not_wait(self):
        file = pathlib.Path(f'/sys/block/{self.name}/queue/iosched/slice_idle')
        file.write_text('0')
        device = device_of(self.path)
        refused = self.assertRaises(
            exception.ContentionError,
            controllers.active_controller, device, hierarchy(), 'bfq',
        )  # fmt: skip
        self.assertIn(f'set {file} to 8', str(refused))
        file.write_text('8')
        self.assertEqual(
            'bfq',
            controllers.active_controller(device, hierarchy(), 'bfq').name,
        )

    def test_departed(self):
        one, other = self.cgroup(), self.cgroup()
        setter, _ = apply(self.conf, self.path, {one: 20, other: 30})
        os.rmdir(os.path.join(hierarchy().root, one))
        self.assertEqual({}, apply_again(setter, self.path, {other: 31}))
        (name,) = os.listdir(os.path.join(self.state, 'weights'))
        saved = pathlib.Path(self.state, 'weights', name).read_text()
        self.assertEqual(
            {f'{other}/{self.file}': 'default'}, json.loads(saved)['values']
        )
        os.rmdir(os.path.join(hierarchy().root, other))
        setter.restore()
        self.assertEqual([], os.listdir(os.path.join(self.state, 'weights')))
