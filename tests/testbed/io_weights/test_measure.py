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

"""Disks with a known limit are measured, and shared by what was found."""

import contextlib
import dataclasses
import io
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

import fixtures
import numpy
import testtools

from nova_diskplacer import conf
from nova_diskplacer.cmd import manage
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import identity
from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.lvm import group_changes
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import prepare as lvm_prepare
from nova_diskplacer.disks.lvm import volumes
from nova_diskplacer.disks.measure import fio
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.io_weights import io_cost
from nova_diskplacer.monitor import disk_monitor
from nova_diskplacer.monitor import sampler
from nova_diskplacer.monitor import types
from tests import configured
from tests import shell
from tools.testbed import udev

MB = 10**6
MIB = 1 << 20
LIMIT = 20 * MB
# How many times as much a weight of 100 gets as one of 10, at the least: it is
# 10, or less where the machine stalls; without control it is 1.
CONTROL = 4
# How often a disk is measured, and looked at, until that is right: not while
# the machine that the bed is on has stalled.
MEASURINGS = 10
LOOKS = 20
WEIGHTS = {'often': 100, 'seldom': 10}


def device_path(index):
    return os.path.realpath(f'/dev/disk/by-id/virtio-disk{index}')


class Tasks(fixtures.Fixture):
    """Two tasks that read all that they get, each in its own cgroup."""

    def __init__(self, root, device, number):
        super().__init__()
        self.root, self.device, self.number = root, device, number

    def _setUp(self):
        for place, (name, weight) in enumerate(WEIGHTS.items()):
            cgroup = os.path.join(self.root, name)
            os.makedirs(cgroup, exist_ok=True)
            self.addCleanup(os.rmdir, cgroup)
            with open(f'{cgroup}/io.weight', 'w') as stream:
                stream.write(str(weight))
            process = subprocess.Popen(
                [
                    'sh', '-c', 'echo $$ > "$0"/cgroup.procs; exec "$@"',
                    cgroup, 'fio', f'--name={name}',
                    f'--filename={self.device}', '--direct=1', '--thread',
                    '--ioengine=libaio', '--rw=randread', '--bs=16k',
                    '--iodepth=16', '--runtime=3600', '--time_based',
                    f'--offset={4 * place}g', '--size=2g',
                ],
                stdout=subprocess.DEVNULL,
            )  # fmt: skip
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
        # fio takes its time to begin
        deadline = time.monotonic() + 180
        while self._read().keys() != WEIGHTS.keys():
            if time.monotonic() > deadline:
                raise AssertionError('the tasks do nothing')
            time.sleep(0.2)
        time.sleep(1)

    def got(self, seconds, each=None):
        """Return what each gets, in bytes per second.

        :param each: to be called each second.
        """
        before, begun = self._read(), time.monotonic()
        for _ in range(seconds):
            if each:
                each()
            time.sleep(1)
        after, taken = self._read(), time.monotonic() - begun
        return [(after[name] - before[name]) / taken for name in WEIGHTS]

    def _read(self):
        found = {}
        for name in WEIGHTS:
            with open(os.path.join(self.root, name, 'io.stat')) as stream:
                # there is none before the first request has ended
                read = re.search(
                    rf'\b{self.number} rbytes=(\d+)', stream.read()
                )
            if read:
                found[name] = int(read[1])
        return found


class MeasureTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        # not self.useFixture: a disk is unmounted before it goes
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        self.root = os.path.join(self.directory, 'disks')
        self.fstab = os.path.join(self.directory, 'fstab')
        configuration = self.useFixture(configured.Options())
        self.conf, self.state_dir = configuration.conf, configuration.state_dir

    def prepare(self, index, lvm_options=None):
        device = device_path(index)
        disk = prepare.prepare(
            self.root, device, medium='hdd', mbps=150, wipe=True,
            fstab=self.fstab, lvm_options=lvm_options,
        )  # fmt: skip
        self.addCleanup(shell.run, 'wipefs', '--all', '--force', device)
        self.addCleanup(prepare.forget, self.root, disk.uuid, self.fstab)
        return disk

    def inspect(self, uuid):
        return discover.inspect(self.root, uuid)

    def measure(self, uuid, *options):
        """Run the command; returns what it found, None if it could not."""
        path = os.path.join(self.directory, 'nova.conf')
        with open(path, 'w') as stream:
            stream.write(
                f'[diskplacer]\ndisk_root = {self.root}\n'
                f'[diskplacer_agent]\nstate_dir = {self.state_dir}\n'
            )
        # the command parses its arguments once in a process
        conf.CONF.reset()
        self.addCleanup(conf.CONF.reset)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            status = manage.main(
                [
                    '--config-file', path, 'disk', 'measure', uuid,
                    '--format', 'json', *options,
                ]
            )  # fmt: skip
        if status:
            return None
        (found,) = json.loads(printed.getvalue())
        return found

    def test_a_filesystem_and_its_model(self):
        disk = self.prepare(0)
        before = self.inspect(disk.uuid)
        name = block_queue.exclusive_device(disk.device)
        for setting, value in (
            ('scheduler', 'mq-deadline'),
            ('nr_requests', '99'),
            ('nomerges', '2'),
        ):
            self.addCleanup(
                block_queue.write,
                name,
                setting,
                block_queue.read(name).values[setting],
            )
            block_queue.write(name, setting, value)
        queue = block_queue.read(name).values
        with self._seen_settings(name) as seen:
            found = self._measured(disk.uuid)
        self.assertEqual({('none', '1')}, seen)
        self.assertEqual('none', found['scheduler'])
        self.assertEqual(queue, block_queue.read(name).values)
        self.assertEqual(20, found['mbps'])
        after = self.inspect(disk.uuid)
        self.assertEqual(20, after.mbps)
        self.assertLess(before.free_bytes - after.free_bytes, MIB)
        self.assertEqual(
            {identity.FILE, io_model.FILE, 'vdisks'},
            set(os.listdir(disk.path)),
        )
        model = io_model.load(self.root, disk.uuid)
        self.assertEqual(found['rbps'], model.rbps)
        self._check_control(after, model)

    @contextlib.contextmanager
    def _seen_settings(self, device):
        """Yield the schedulers and merges that fio found, as they come."""
        seen = set()
        measure = fio.Fio.measure

        def look(*args):
            values = block_queue.read(device).values
            seen.add((values['scheduler'], values['nomerges']))
            return measure(*args)

        with fixtures.MonkeyPatch(
            'nova_diskplacer.disks.measure.fio.Fio.measure', look
        ):
            yield seen

    def test_hardware_database(self):
        disk = self.prepare(2)
        device = block_queue.exclusive_device(disk.device)
        self.assertIsNone(self.measure(disk.uuid, '--from-hwdb'))
        rules = '/run/udev/rules.d/90-solution.rules'
        os.makedirs(os.path.dirname(rules), exist_ok=True)
        with open(rules, 'w') as stream:
            # as 90-iocost.rules imports it
            stream.write(
                f'KERNEL=="{device}", ENV{{IOCOST_MODEL_NAIVE}}="rbps=30000000'
                ' rseqiops=2 rrandiops=1000 wbps=40000000 wseqiops=5'
                ' wrandiops=6"\n'
            )
        self.addCleanup(self._trigger, device)
        self.addCleanup(os.unlink, rules)
        self._trigger(device)
        found = self.measure(disk.uuid, '--from-hwdb')
        self.assertEqual(
            io_model.Model(
                30 * MB, 2, 1000, 40 * MB, 5, 6, 1000, source='hwdb'
            ),
            io_model.load(self.root, disk.uuid),
        )
        self.assertEqual(30, found['mbps'])

    def _trigger(self, device):
        shell.run('udevadm', 'control', '--reload')
        shell.run('udevadm', 'trigger', f'/sys/class/block/{device}')
        udev.settle()

    def _measured(self, uuid):
        for _ in range(MEASURINGS):
            found = self.measure(uuid, '--size', '64', '--seconds', '1')
            if (
                found
                and found['mbps'] == LIMIT // MB
                and all(
                    self._is_right(name, found[name])
                    for name in io_model.COEFFICIENTS
                )
            ):
                return found
        self.fail(f'measured {MEASURINGS} times, and still {found}')

    def _is_right(self, name, value):
        if name.endswith('bps'):
            return abs(value / LIMIT - 1) < 0.05
        # what holds the disk back lets more through for a tenth of a second;
        # and a guest on a busy machine makes fewer requests than it may
        return 0.15 < value * 4096 / LIMIT < 1.15

    def _comes_to_control(self, tasks, look):
        """Weights are honoured, and next to nothing lost, in 60 rounds.

        How little is what benchmarks/contention.py measures.
        """
        for _ in range(LOOKS):
            # in some rounds the disk is emptied of what was in it before
            often, seldom = tasks.got(3, look)
            whole = (often + seldom) / LIMIT
            if often > CONTROL * seldom and 0.85 < whole < 1.05:
                return
        self.fail(f'{often} and {seldom}, {whole} of the disk')

    def _check_control(self, disk, model):
        hierarchy = cgroups.hierarchy()
        found, missing = sampler.find_devices([disk])
        self.assertEqual({}, missing)
        device = found[disk.uuid]
        with open(f'{hierarchy.root}/io.cost.qos') as stream:
            before = stream.read()
        cost = io_cost.IOCost(self.conf, hierarchy)
        self.addCleanup(cost.disable_except)
        cost.enable(device, model)
        tasks = self.useFixture(
            Tasks(hierarchy.root, f'/dev/{device.name}', device.number)
        )
        look = self._looker(cost, device)
        self._comes_to_control(tasks, look)

        # twice as fast as it is
        fast = dataclasses.replace(
            model,
            **{
                name: 2 * getattr(model, name)
                for name in io_model.COEFFICIENTS
            },
        )
        # the command has set up logging of its own
        log = self.useFixture(fixtures.FakeLogger())
        cost.enable(device, fast)
        tasks.got(1)
        for _ in range(LOOKS):
            often, seldom = tasks.got(2)
            if often < 1.5 * seldom:
                break
        else:
            self.fail(f'it has control all the same: {often} and {seldom}')
        rounds = 0
        while cost.scales()[disk.uuid]['bytes'] == 1:
            self.assertLess(rounds, 3 * LOOKS, 'the model is not corrected')
            tasks.got(1, look)
            rounds += 1
        self.assertIn('is modeled at', log.output)
        for _ in range(LOOKS):
            tasks.got(4, look)
            scale = cost.scales()[disk.uuid]['bytes']
            if abs(scale / 0.5 - 1) < 0.2:
                break
        else:
            self.fail(f'the model is corrected by {scale}')
        self._comes_to_control(tasks, look)

        # as after the agent was killed
        io_cost.IOCost(self.conf, hierarchy).disable_except()
        with open(f'{hierarchy.root}/io.cost.qos') as stream:
            after = stream.read()
        self.assertNotIn('enable=1', before)
        self.assertIn(f'{device.number} enable=0 ctrl=auto', after)
        with open(f'{hierarchy.root}/io.cost.model') as stream:
            self.assertIn(f'{device.number} ctrl=auto', stream.read())
        self.assertEqual(
            [], os.listdir(os.path.join(self.state_dir, 'io.cost'))
        )

    def _looker(self, cost, device):
        """Return what does a round of the agent, as far as io.cost goes."""
        nobody, idle = types.Pairs(), numpy.zeros(0, bool)
        disks = disk_monitor.DiskMonitor(self.conf, cgroups.hierarchy())

        def look():
            now = time.monotonic()
            states = disks.update(now, {device.uuid: device}, nobody, idle)
            cost.adapt_models(states)

        return look

    def test_a_volume_group(self):
        disk = self.prepare(2, lvm_prepare.Options(zero=False))
        group_changes.mark_zeroed(disk.uuid)
        # what a process that was killed has left
        volumes.create_temporary(disk.uuid, 8 * MIB)
        with fio.temporary_space(self.root, disk.uuid, 16 * MIB) as path:
            with open(path, 'r+b') as stream:
                stream.write(b'\1' * MIB)
                stream.flush()
                os.fsync(stream.fileno())
            udev.settle()
            self.assertEqual(
                16 * MIB,
                groups.require(disk.uuid).find(volumes.TEMPORARY).size_bytes,
            )
        self.assertEqual((), groups.require(disk.uuid).volumes)
        # what is free reads as zeros still
        self.assertTrue(groups.require(disk.uuid).zeroed)
        volumes.create(disk.uuid, 'volume-1', '1', None, 16 * MIB)
        with open(naming.device_path(disk.uuid, 'volume-1'), 'rb') as stream:
            self.assertEqual(b'', stream.read(16 * MIB).strip(b'\0'))
        volumes.mark_deleted(disk.uuid, 'volume-1')
        volumes.remove(disk.uuid, 'volume-1', wiped=True)

        model = io_model.Model(
            20 * MB, 1, 1, 21 * MB, 1, 1, 9, 'none', '2026-01-01T00:00:00'
        )
        for one in (model, dataclasses.replace(model, wbps=30 * MB, rbps=MB)):
            io_model.save(self.root, disk.uuid, one)
            self.assertEqual(one, io_model.load(self.root, disk.uuid))
            self.assertEqual(one.mbps, self.inspect(disk.uuid).mbps)
