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

"""Weights of real servers."""

import json
import os
import pathlib
import signal
import time

import libvirt
import testtools

from nova_diskplacer.agent import restore
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import controllers
from nova_diskplacer.io_weights import io_cost
from nova_diskplacer.io_weights import writer
from nova_diskplacer.monitor import consumers
from tests import configured
from tests import shell
from tests.testbed import hypervisor

LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE
PAUSED = libvirt.VIR_DOMAIN_START_PAUSED
# Rounds in which each weight is looked at again.
LOOKED_AT = 2
MODEL = io_model.Model(20_000_000, 5000, 5000, 20_000_000, 5000, 5000, 200)

TUNING = """
<blkiotune>
  <device><path>{path}</path><weight>50</weight></device>
</blkiotune>
"""


class WeightsTestCase(testtools.TestCase):
    """Has two disks and two servers, for all tests."""

    start_libvirt = staticmethod(hypervisor.start)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        shell.run('modprobe', 'bfq')
        cls.hierarchy = cgroups.hierarchy()
        cls.disks = {f'disk{index}': cls.device(index) for index in (2, 3)}
        cls.start_libvirt(cls)
        cls.one, cls.other = cls.start('one'), cls.start('other')

    @classmethod
    def device(cls, index):
        path = os.path.realpath(f'/dev/disk/by-id/virtio-disk{index}')
        number = os.stat(path).st_rdev
        return Device(
            f'disk{index}',
            os.path.basename(path),
            f'{os.major(number)}:{os.minor(number)}',
            # io.cost is refused on hard disks
            rotational=False,
        )

    @classmethod
    def define(cls, name, tuning=''):
        domain = cls.libvirt.defineXML(hypervisor.server(name, tuning))
        cls.addClassCleanup(
            domain.undefineFlags, libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
        )
        return domain

    @classmethod
    def start(cls, name):
        domain = cls.define(name)
        domain.createWithFlags(PAUSED)
        cls.addClassCleanup(hypervisor.destroy, domain)
        return domain

    def setUp(self):
        super().setUp()
        configuration = self.useFixture(configured.Options())
        self.conf, self.state = configuration.conf, configuration.state_dir
        self.addCleanup(restore.restore_kernel_state, self.conf)
        self.weights = writer.WeightWriter(self.conf, self.hierarchy)

    def use_bfq(self):
        for device in self.disks.values():
            self.schedule(device, 'bfq')
            self.addCleanup(self.schedule, device, 'mq-deadline')

    def schedule(self, device, scheduler):
        block_queue.write(device.name, 'scheduler', scheduler)

    def use_io_cost(self):
        setter = io_cost.IOCost(self.conf, self.hierarchy)
        for device in self.disks.values():
            setter.enable(device, MODEL)

    def apply(self, *wanted, rounds=1):
        """Have servers weigh so much on disks 2 and 3, None for nothing."""
        servers = libvirt_servers.list_servers(self.uri)
        found = consumers.find(servers, [], self.hierarchy).values()
        pairs = {
            (domain.UUIDString(), disk): weight
            for domain, of_domain in zip(
                (self.one, self.other), wanted, strict=True
            )
            for disk, weight in zip(self.disks, of_domain, strict=True)
            if weight is not None
        }
        active = {
            disk: controllers.active_controller(device, self.hierarchy, 'auto')
            for disk, device in self.disks.items()
        }
        for _ in range(rounds):
            errors = self.weights.apply(pairs, found, self.disks, active)
            self.assertEqual({}, errors)

    def cgroup(self, domain):
        """Return the cgroup of a server."""
        found = consumers.find(
            libvirt_servers.list_servers(self.uri), [], self.hierarchy
        )
        return found[domain.UUIDString()].cgroup

    def in_force(self, domain, file='io.weight'):
        """Return the weights by default and on disks 2 and 3."""
        path = self.hierarchy.path(self.cgroup(domain), file)
        lines = pathlib.Path(path).read_text().splitlines()
        weights = dict(line.split() for line in lines)
        return [
            weights.get(number)
            for number in ('default', *(d.number for d in self.disks.values()))
        ]

    def assert_libvirt_unchanged(self):
        """Assert that libvirt shows the defaults of both servers."""
        for domain in (self.one, self.other):
            found = domain.blkioParameters(LIVE)
            self.assertEqual('', found['device_weight'])
            self.assertEqual(100, found['weight'])
            self.assertNotIn('blkiotune', domain.XMLDesc())


class WeightsTest(WeightsTestCase):
    def test_io_cost(self):
        self.use_io_cost()
        self.apply([10, 100], [50, None])
        self.assertEqual(['100', '10', None], self.in_force(self.one))
        self.assertEqual(['100', '50', None], self.in_force(self.other))
        self.assert_libvirt_unchanged()
        self.apply([20, 30], [100, 100])
        self.assertEqual(['100', '20', '30'], self.in_force(self.one))
        self.assertEqual(['100', '100', None], self.in_force(self.other))
        self.assert_libvirt_unchanged()
        self.apply([None, None], [None, None])
        for domain in (self.one, self.other):
            self.assertEqual(['100', None, None], self.in_force(domain))

    def test_killed(self):
        qos = pathlib.Path(self.hierarchy.path('', 'io.cost.qos'))
        numbers = {device.number for device in self.disks.values()}

        def enabled():
            lines = [line.split() for line in qos.read_text().splitlines()]
            return numbers & {
                number for number, on, *_ in lines if on == 'enable=1'
            }

        child = os.fork()
        if not child:
            # it sets weights, and is gone before it can undo anything
            try:
                self.use_io_cost()
                self.apply([10, 20], [30, None])
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        self.assertEqual(numbers, enabled())
        self.assertEqual(['100', '10', '20'], self.in_force(self.one))
        restore.restore_kernel_state(self.conf)
        self.assertEqual(set(), enabled())
        for domain in (self.one, self.other):
            self.assertEqual(['100', None, None], self.in_force(domain))

    def test_bfq_started_and_resumed(self):
        self.use_bfq()
        wanted = [7, 100], [100, 100]
        file = 'io.bfq.weight'
        self.apply(*wanted)
        self.assertEqual(['100', '7', None], self.in_force(self.one, file))
        self.assert_libvirt_unchanged()
        # a hard reboot
        hypervisor.destroy(self.one)
        self.one.createWithFlags(PAUSED)
        self.assertEqual(['100', None, None], self.in_force(self.one, file))
        self.apply(*wanted)
        self.assertEqual(['100', '7', None], self.in_force(self.one, file))
        (saved,) = {
            os.path.dirname(path)
            for one in pathlib.Path(self.state, 'weights').iterdir()
            for path in json.loads(one.read_text())['values']
        }
        self.assertEqual(self.cgroup(self.one), saved)
        # suspended, and resumed where nothing honours weights any more
        self.one.managedSave()
        for device in self.disks.values():
            self.schedule(device, 'mq-deadline')
        self.one.createWithFlags(PAUSED)
        self.assertEqual(['100', None, None], self.in_force(self.one, file))

    def test_why_not_by_libvirt(self):
        """What it would keep keeps a server from being started."""
        shell.run('modprobe', 'loop')
        path = os.path.join(self.state, 'file')
        pathlib.Path(path).write_bytes(bytes(1 << 20))
        shell.run('losetup', '/dev/loop7', path)
        self.addCleanup(shell.run, 'losetup', '-d', '/dev/loop7')
        # io.cost never was enabled on it
        domain = self.define('three', TUNING.format(path='/dev/loop7'))
        error = self.assertRaises(
            libvirt.libvirtError, domain.createWithFlags, PAUSED
        )
        self.assertIn('io.weight', str(error))


class WeightsWithSystemdTest(WeightsTestCase):
    start_libvirt = staticmethod(hypervisor.start_with_systemd)

    def reload(self):
        """Have systemd write its settings, as package updates do.

        It writes the default weight, which BFQ applies to all devices.
        """
        paths = [
            pathlib.Path(
                self.hierarchy.path(self.cgroup(domain), 'io.bfq.weight')
            )
            for domain in (self.one, self.other)
        ]
        for path in paths:
            path.write_text('default 55')
        self.systemd.enter('systemctl', 'daemon-reload')
        deadline = time.monotonic() + 180
        while any('default 100' not in path.read_text() for path in paths):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)

    def assert_weights(self, one, other, file='io.weight'):
        for domain, wanted in ((self.one, one), (self.other, other)):
            self.assertEqual(wanted, self.in_force(domain, file))

    def test_bfq(self):
        self.use_bfq()
        file = 'io.bfq.weight'
        wanted = [7, 20], [100, 50]
        in_force = ['100', '7', '20'], ['100', None, '50']
        self.apply(*wanted)
        for domain in (self.one, self.other):
            self.assertRegex(
                self.cgroup(domain),
                rf'^machine\.slice/machine-qemu\\x2d{domain.ID()}\\x2d.*\.scope$',
            )
        self.assert_weights(*in_force, file)
        self.reload()
        self.apply(*wanted, rounds=LOOKED_AT)
        self.assert_weights(*in_force, file)
        self.weights.restore()
        self.assert_weights(*2 * [['100', None, None]], file)

    def test_io_cost(self):
        self.use_io_cost()
        in_force = ['100', '10', None], ['100', '50', None]
        self.apply([10, 100], [50, None])
        self.assert_weights(*in_force)
        self.reload()
        self.assert_weights(*in_force)
        self.weights.restore()
        self.assert_weights(*2 * [['100', None, None]])
