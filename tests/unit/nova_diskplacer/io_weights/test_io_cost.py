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
import os
from unittest import mock

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import saved_settings
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import io_cost
from nova_diskplacer.monitor import types
from tests import configured

MB = 10**6
MODEL = io_model.Model(20 * MB, 4000, 3000, 10 * MB, 2000, 1000, latency=400)
DEVICE = Device('uuid', 'sdx', '8:0', False)
OTHER = '8:16 enable=1 ctrl=user rlat=1'
OWN_QOS = 'enable=1 ctrl=user rpct=95.00 rlat=9 min=50.00 max=150.00'
OWN_MODEL = 'ctrl=user model=linear rbps=9 rseqiops=8 rrandiops=7'


class Killed(BaseException):
    """The process was killed at this point."""


class IOCostTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.directory = self.useFixture(fixtures.TempDir()).path
        configuration = self.useFixture(configured.Options())
        self.conf, self.state_dir = configuration.conf, configuration.state_dir
        self.root = f'{self.directory}/cgroup'
        os.makedirs(f'{self.root}/system.slice')
        self.put('io.cost.model', '')
        self.put('io.cost.qos', OTHER + '\n')
        self.put('cgroup.subtree_control', 'cpu memory\n')
        self.moved(0)
        self.sequence = '7'
        self.writes = []
        self.kill_after = None
        self.patch(io_cost, '_write', self.write)
        self.patch(block_queue, 'diskseq', self.read_diskseq)
        self.patch(saved_settings, 'boot_id', lambda: 'boot')
        self.new()

    def patch(self, target, name, replacement):
        patch = mock.patch.object(target, name, replacement)
        patch.start()
        self.addCleanup(patch.stop)

    def new(self):
        """Have a new process."""
        self.cost = io_cost.IOCost(self.conf, cgroups.Hierarchy(self.root))

    def put(self, file, text):
        with open(f'{self.root}/{file}', 'w') as stream:
            stream.write(text)

    def get(self, file):
        with open(f'{self.root}/{file}') as stream:
            return stream.read()

    def line(self, file):
        lines = self.get(file).splitlines()
        found = [one for one in lines if one.startswith('8:0 ')]
        return found[0][4:] if found else None

    def moved(self, bytes_):
        """Have cgroups have done so much since the machine was booted."""
        self.put(
            'system.slice/io.stat',
            f'8:16 rbytes=7 wbytes=7\n8:0 rbytes={bytes_} wbytes=0 rios=1\n',
        )

    def write(self, root, file, text):
        """Be the kernel, for one device."""
        self.assertEqual(self.root, root)
        if self.kill_after is not None:
            if self.kill_after == len(self.writes):
                raise Killed
        self.writes.append((file, text))
        if file == 'cgroup.subtree_control':
            self.put(file, self.get(file).strip() + text.replace('+', ' '))
            return
        number, *fields = text.split()
        self.assertEqual('8:0', number)
        merged = dict(
            one.split('=') for one in (self.line(file) or '').split()
        )
        for field in fields:
            name, value = field.split('=')
            merged[name] = value
            if name == 'ctrl' and value == 'auto':
                merged = {
                    name: one
                    for name, one in merged.items()
                    if name in ('enable', 'ctrl')
                }
            elif name not in ('enable', 'ctrl'):
                # as the kernel takes it
                self.assertEqual('user', merged['ctrl'])
        others = [
            one
            for one in self.get(file).splitlines()
            if not one.startswith('8:0 ')
        ]
        mine = ' '.join(f'{name}={value}' for name, value in merged.items())
        self.put(file, '\n'.join([*others, f'8:0 {mine}']) + '\n')

    def read_diskseq(self, name, sys=None):
        if self.sequence is None:
            raise FileNotFoundError(2, 'No such file or directory')
        return self.sequence

    def state(self, given, busy=1.0):
        return types.DiskState(
            DEVICE, 1.0, 10.0 * MB, 0.0, 600.0, 0.0, busy, 32.0, 0.05, None,
            False, 0.0, given,
        )  # fmt: skip

    def saved(self):
        try:
            return os.listdir(f'{self.state_dir}/io.cost')
        except FileNotFoundError:
            return []

    def test_enable(self):
        self.cost.enable(DEVICE, MODEL)
        self.assertEqual(
            'ctrl=user model=linear rbps=20000000 rseqiops=4000 '
            'rrandiops=3000 wbps=10000000 wseqiops=2000 wrandiops=1000',
            self.line('io.cost.model'),
        )
        self.assertEqual(
            'enable=1 ctrl=user rpct=0.00 rlat=52429 wpct=0.00 '
            'wlat=104858 min=100.00 max=100.00',
            self.line('io.cost.qos'),
        )
        self.assertEqual('cpu memory io', self.get('cgroup.subtree_control'))
        # the model first, and nothing that is right already
        self.assertEqual(
            ['cgroup.subtree_control', 'io.cost.model', 'io.cost.qos'],
            [file for file, _ in self.writes],
        )
        self.cost.enable(DEVICE, MODEL)
        self.new()
        self.cost.enable(DEVICE, MODEL)
        self.assertEqual(3, len(self.writes))
        faster = dataclasses.replace(MODEL, rseqiops=9)
        self.cost.enable(DEVICE, faster)
        self.assertIn(' rseqiops=9 ', self.line('io.cost.model'))
        self.assertEqual(4, len(self.writes))
        self.assertIn(OTHER, self.get('io.cost.qos'))

    def test_changed_by_something_else(self):
        self.cost.enable(DEVICE, MODEL)
        before = self.get('io.cost.qos')
        self.write(self.root, 'io.cost.qos', '8:0 enable=0')
        self.cost.enable(DEVICE, MODEL)
        self.assertEqual(before, self.get('io.cost.qos'))

    def test_restore_unconfigured(self):
        self.cost.enable(DEVICE, MODEL)
        self.cost.disable('uuid')
        self.assertEqual('enable=0 ctrl=auto', self.line('io.cost.qos'))
        self.assertEqual('ctrl=auto', self.line('io.cost.model'))
        self.assertEqual([], self.saved())
        count = len(self.writes)
        self.cost.disable('uuid')
        self.cost.disable_except()
        self.assertEqual(count, len(self.writes))
        self.assertEqual({}, self.cost.scales())

    def test_restore_configuration_of_the_operator(self):
        self.put('io.cost.qos', f'8:0 {OWN_QOS}\n{OTHER}\n')
        self.put('io.cost.model', f'8:0 {OWN_MODEL}\n')
        self.cost.enable(DEVICE, MODEL)
        self.assertNotEqual(OWN_QOS, self.line('io.cost.qos'))
        self.new()
        self.cost.disable_except()
        for own, file in (
            (OWN_QOS, 'io.cost.qos'),
            (OWN_MODEL, 'io.cost.model'),
        ):
            now = io_cost._fields(self.line(file))
            self.assertEqual({**now, **io_cost._fields(own)}, now)

    def test_restore_defaults_of_the_kernel(self):
        self.put('io.cost.qos', '8:0 enable=1 ctrl=auto rlat=250000\n')
        self.put('io.cost.model', '8:0 ctrl=auto model=linear rbps=488636629')
        self.cost.enable(DEVICE, MODEL)
        self.cost.disable('uuid')
        self.assertEqual('enable=1 ctrl=auto', self.line('io.cost.qos'))
        self.assertEqual('ctrl=auto', self.line('io.cost.model'))

    def test_killed_anywhere(self):
        for count in range(8):
            self.put('io.cost.qos', f'8:0 {OWN_QOS}\n')
            self.put('io.cost.model', f'8:0 {OWN_MODEL}\n')
            self.writes, self.kill_after = [], count
            self.new()
            try:
                self.cost.enable(DEVICE, MODEL)
                self.cost.disable_except()
            except Killed:
                pass
            self.kill_after = None
            self.new()
            self.cost.disable_except()
            now = io_cost._fields(self.line('io.cost.qos'))
            self.assertEqual({**now, **io_cost._fields(OWN_QOS)}, now)
            now = io_cost._fields(self.line('io.cost.model'))
            self.assertEqual({**now, **io_cost._fields(OWN_MODEL)}, now)
            self.assertEqual([], self.saved())

    def test_device_is_gone_or_replaced(self):
        for sequence in (None, '8'):
            self.sequence = '7'
            self.new()
            self.cost.enable(DEVICE, MODEL)
            count = len(self.writes)
            self.sequence = sequence
            self.new()
            self.cost.disable_except()
            self.assertEqual(count, len(self.writes))
            self.assertEqual([], self.saved())
            self.put('io.cost.qos', '')

    def test_replaced_device_is_saved(self):
        self.cost.enable(DEVICE, MODEL)
        self.sequence = '8'
        self.put('io.cost.qos', f'8:0 {OWN_QOS}\n')
        self.cost.enable(DEVICE, MODEL)
        self.cost.disable_except()
        self.assertIn('rlat=9', self.line('io.cost.qos'))

    def test_model_is_too_fast(self):
        self.cost.enable(DEVICE, MODEL)
        for second in range(5):
            # half of it is given away, and all of that of cgroups
            self.moved(second * 10 * MB)
            self.cost.adapt_models({'uuid': self.state(0.5)})
        self.assertAlmostEqual(0.5, self.cost.scales()['uuid']['bytes'])
        self.assertIn(' rbps=10000000 ', self.line('io.cost.model'))
        self.assertIn('at 50 % of its measured bytes/s', self.log.output)
        # also while nothing is new
        self.cost.enable(DEVICE, MODEL)
        self.assertIn(' rbps=10000000 ', self.line('io.cost.model'))
        # but a disk that was measured again begins again
        self.cost.enable(DEVICE, dataclasses.replace(MODEL, measured='now'))
        self.assertIn(' rbps=20000000 ', self.line('io.cost.model'))

    def test_full_disk(self):
        self.cost.enable(DEVICE, MODEL)
        for busy, rate in ((1.0, '85.00'), (0.9, '100.00')):
            self.cost.adapt_models({'uuid': self.state(1.0, busy)})
            qos = self.line('io.cost.qos')
            self.assertIn(f'min={rate} max={rate}', qos)
        self.assertEqual('', self.log.output)

    def test_seeks_take_longer_than_bytes(self):
        slow = dataclasses.replace(MODEL, rrandiops=100, wbps=10**10)
        self.cost.enable(DEVICE, slow)
        self.assertIn('rlat=80000 ', self.line('io.cost.qos'))
        self.assertIn('wlat=8000 ', self.line('io.cost.qos'))
        fast = dataclasses.replace(slow, wrandiops=10**6)
        self.cost.enable(DEVICE, fast)
        self.assertIn('wlat=1000 ', self.line('io.cost.qos'))

    def test_use_by_the_root_cgroup(self):
        self.cost.enable(DEVICE, MODEL)
        for second in range(10):
            self.moved(second * 5 * MB)
            self.cost.adapt_models({'uuid': self.state(0.5)})
        self.assertEqual(1.0, self.cost.scales()['uuid']['bytes'])

    def test_disk_without_usage(self):
        self.cost.enable(DEVICE, MODEL)
        for states in ({}, {'uuid': self.state(None)}):
            for _ in range(5):
                self.cost.adapt_models(states)
        self.assertEqual(1.0, self.cost.scales()['uuid']['bytes'])

    def test_model_is_refused(self):
        self.cost.enable(DEVICE, MODEL)
        refused = exception.ContentionError('refused')
        with mock.patch.object(io_cost, '_write', side_effect=refused):
            for second in range(5):
                self.moved(second * 10 * MB)
                self.cost.adapt_models({'uuid': self.state(0.5)})
        # once, though it is tried each second
        self.assertEqual(1, self.log.output.count('is not changed: refused'))
        self.cost.enable(DEVICE, MODEL)
        self.assertIn(' rbps=10000000 ', self.line('io.cost.model'))

    def test_forgotten_disks(self):
        self.cost.enable(DEVICE, MODEL)
        self.cost.disable_except({'uuid': DEVICE})
        self.assertIn('enable=1', self.line('io.cost.qos'))
        self.new()
        self.cost.disable_except({'another': DEVICE})
        self.assertIn('enable=0', self.line('io.cost.qos'))
        self.assertEqual([], self.saved())

    def test_no_io_cost(self):
        os.unlink(f'{self.root}/io.cost.model')
        error = self.assertRaises(
            exception.ContentionError, self.cost.enable, DEVICE, MODEL
        )
        self.assertIn('CONFIG_BLK_CGROUP_IOCOST', str(error))
        self.cost = io_cost.IOCost(self.conf, None)
        error = self.assertRaises(
            exception.ContentionError, self.cost.enable, DEVICE, MODEL
        )
        self.assertIn('needs cgroup v2', str(error))
        self.cost.adapt_models({'uuid': self.state(0.5)})
        self.cost.disable_except()

    def test_not_changed_unless_saved(self):
        os.rmdir(self.state_dir)
        with open(self.state_dir, 'w'):
            self.addCleanup(os.unlink, self.state_dir)
        self.assertRaises(exception.DiskError, self.cost.enable, DEVICE, MODEL)
        self.assertEqual([], self.writes)

    def test_failed_restore_affects_no_other_disk(self):
        self.cost.enable(DEVICE, MODEL)
        path = f'{self.state_dir}/io.cost/a.json'
        with open(path, 'w') as stream:
            stream.write('{')
        self.assertRaises(exception.DiskError, self.cost.disable_except)
        self.assertEqual(['a.json'], self.saved())
        self.assertIn('enable=0', self.line('io.cost.qos'))


class WriteTestCase(testtools.TestCase):
    def test_refused(self):
        root = self.useFixture(fixtures.TempDir()).path
        error = self.assertRaises(
            exception.ContentionError, io_cost._write, root, 'file', 'text'
        )
        self.assertIn("'text' is refused", str(error))
