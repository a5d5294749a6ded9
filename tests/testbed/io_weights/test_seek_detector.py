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

"""A disk that seeks, and who makes it: all of one round after another.

Disk 1 gives 20 MB/s and 150 requests a second, as a rotational disk would.
"""

import contextlib
import dataclasses
import itertools
import math
import os
import subprocess
import time
import uuid

import fixtures
import testtools

from nova_diskplacer.host import cgroups
from nova_diskplacer.host import devices
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import policy
from nova_diskplacer.io_weights import tiers
from nova_diskplacer.monitor import disk_monitor
from nova_diskplacer.monitor import history
from nova_diskplacer.monitor import io_stat
from nova_diskplacer.monitor import seek_detector
from nova_diskplacer.monitor import types
from tests import configured
from tests import shell
from tests import tracefs
from tests.unit.nova_diskplacer.monitor import example
from tests.unit.nova_diskplacer.monitor import samples
from tools.testbed import udev

ROOT = '/sys/fs/cgroup'
UUID = str(uuid.uuid4())

# Rounds, or inspections, until all is as it should be: not while the machine
# that the bed is on has stalled, or a task has not begun yet.
PATIENCE = 60

SECOND_CPU = '/sys/devices/system/cpu/cpu1/online'

FIO = ('fio', '--name=task', '--direct=1', '--thread', '--time_based',
       '--runtime=3600', '--output=/dev/null', '--size=256m')  # fmt: skip
RANDOM = ('--rw=randread', '--bs=4k', '--ioengine=libaio', '--iodepth=16')
STREAM = ('--bs=64k', '--ioengine=psync')


def write(path, text):
    with open(path, 'w') as stream:
        stream.write(text)


def device(index, rotational=True):
    node = os.path.realpath(f'/dev/disk/by-id/virtio-disk{index}')
    name = os.path.basename(node)
    write(f'/sys/block/{name}/queue/rotational', str(int(rotational)))
    with open(f'/sys/block/{name}/dev') as stream:
        number = stream.read().strip()
    return Device(UUID, name, number, rotational, mbps=20)


class Task(fixtures.Fixture):
    """A command in the cgroup of a consumer."""

    def __init__(self, key, *command):
        super().__init__()
        self.key, self.command = key, command

    def _setUp(self):
        home = f'{ROOT}/{self.key}'
        os.makedirs(home, exist_ok=True)
        self.addCleanup(self.remove, home)
        self.process = subprocess.Popen(
            ['sh', '-c', 'echo $$ > "$0"/cgroup.procs; exec "$@"', home,
             *self.command]
        )  # fmt: skip
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)

    def remove(self, home):
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(home)


class SeekersTest(testtools.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Traces change the kernel's code. QEMU may execute an int3 that the
        # kernel put there meanwhile for ever, on a processor other than that
        # which changes it.
        write(SECOND_CPU, '0')
        cls.addClassCleanup(write, SECOND_CPU, '1')

    def setUp(self):
        super().setUp()
        self.useFixture(tracefs.Tracefs())
        write(f'{ROOT}/cgroup.subtree_control', '+io')
        self.useFixture(fixtures.FakeLogger())
        self.conf = self.useFixture(configured.Options()).conf
        self.hierarchy = cgroups.hierarchy()
        self.consumers = {}
        self.begin()

    def patch(self, module, name, value):
        self.useFixture(
            fixtures.MonkeyPatch(f'{module.__name__}.{name}', value)
        )

    def begin(self):
        self.reader = io_stat.CgroupReader(self.hierarchy)
        self.history = history.History()
        self.disk_monitor = disk_monitor.DiskMonitor(self.conf, self.hierarchy)
        self.detector = seek_detector.SeekDetector(self.conf, self.hierarchy)

    def start(self, key, *command):
        task = self.useFixture(Task(key, *command))
        self.consumers[key] = types.Consumer(key, key)
        return task

    def measure(self, disk, count):
        """Return the last of some samples, and the states of the disk.

        The very first sample has none.
        """
        states, found, then = [], {UUID: disk}, time.monotonic() - 1
        for _ in range(count):
            now = time.monotonic()
            counters = self.reader.read(self.consumers.values(), found)
            done = self.history.update(now - then, counters)
            idle = ~done.any(axis=1)
            disks = self.disk_monitor.update(now, found, counters.pairs, idle)
            states += disks.values()
            sample = samples.make_sample(
                counters.pairs,
                seconds=now - then,
                read_bytes=done[:, 0],
                write_bytes=done[:, 1],
                idle=idle,
                disks=disks,
                consumers=self.consumers,
            )
            then = now
            time.sleep(1)
        return sample, states

    def until(self, disk, right, count=1):
        """Measure until the last samples and their states are right."""
        for _ in range(PATIENCE):
            sample, states = self.measure(disk, count)
            if len(states) == count and right(sample, states):
                return sample, states
        raise AssertionError((sample, states))

    def all_are_there(self, sample, states):
        used = {
            key for key, _ in itertools.compress(sample.pairs, ~sample.idle)
        }
        return used == self.consumers.keys()

    def wipe(self):
        shell.run('wipefs', '--all', f'/dev/{device(3).name}')

    def detect(self, disk, sample):
        flagged = example.disk_state(UUID, device=disk, flagged=True)
        sample = dataclasses.replace(sample, disks={UUID: flagged})
        self.detector.run(sample)
        return {key for key, _ in self.detector.seekers}

    def until_found(self, seekers, disk, sample):
        """Trace a disk until these are found, and never anybody else."""
        for _ in range(PATIENCE):
            found = self.detect(disk, sample)
            self.assertLessEqual(found, seekers)
            if found == seekers:
                return
            time.sleep(1)
        raise AssertionError(found)

    def test_seeker_beside_a_sequential_task(self):
        disk = device(1)
        node = f'--filename=/dev/{disk.name}'
        self.start('reader', *FIO, node, '--rw=read', *STREAM)
        self.until(disk, self.all_are_there)
        # alone, and in order: all is well
        self.until(
            disk,
            lambda _, states: not any(state.flagged for state in states),
            3,
        )
        self.start('seeker', *FIO, node, '--offset=1g', *RANDOM)
        sample, _ = self.until(
            disk,
            lambda sample, states: (
                self.all_are_there(sample, states)
                and states[-1].flagged
                and states[-1].score < 4e6
                and states[-1].busy > 0.9
            ),
        )
        self.until_found({'seeker'}, disk, sample)
        found = self.detector.seekers
        held, free = (self.decide(sample, seekers) for seekers in (found, ()))
        lost = (free.classes - held.classes).round(3).tolist()
        self.assertEqual([0.0, 5.0], lost)

    def decide(self, sample, seekers):
        parties = tiers.consumer_policies(
            self.consumers.values(), self.conf, {}
        )
        generator = policy.SharePolicy(self.conf)
        used = sample.read_bytes + sample.write_bytes
        return generator.compute(sample, used, parties, seekers)

    def test_sequential_tasks_only(self):
        disk = device(1)
        node = f'--filename=/dev/{disk.name}'
        self.start('reader', *FIO, node, '--rw=read', *STREAM)
        self.start('writer', *FIO, node, '--rw=write', '--offset=1g', *STREAM)
        self.start(
            'streams', *FIO, node, '--rw=read', '--offset=2g', '--numjobs=8',
            '--offset_increment=512m', *STREAM,
        )  # fmt: skip
        # each gets little, but all together have what it gives
        sample, _ = self.until(
            disk,
            lambda sample, states: (
                self.all_are_there(sample, states)
                and states[-1].busy > 0.9
                and states[-1].score < 4e6
                and not any(state.flagged for state in states)
            ),
            3,
        )
        self.assertEqual(set(), self.detect(disk, sample))

    def test_logical_volumes(self):
        """Also what the kernel writes out later is that of the server."""
        self.patch(seek_detector, '_CONFIRM_SECONDS', 2.0)
        disk = device(3)
        shell.run('vgcreate', 'group', f'/dev/{disk.name}')
        self.addCleanup(shell.run, 'vgremove', '--force', 'group')
        for name in ('random', 'cached'):
            shell.run('lvcreate', '-y', '-L', '1g', '-n', name, 'group')
        self.addCleanup(udev.settle)
        tops = devices.submission_devices(disk)
        self.assertEqual({True}, set(tops.values()))
        self.start(
            'random', *FIO, '--filename=/dev/group/random', *RANDOM,
            '--rate_iops=200',
        )  # fmt: skip
        self.start(
            'cached', *FIO, '--filename=/dev/group/cached', '--direct=0',
            '--rw=randrw', '--bs=4k', '--rwmixread=5', '--sync_file_range='
            'write:8', '--rate_iops=200,200',
        )  # fmt: skip
        sample, _ = self.until(disk, self.all_are_there)
        self.until_found({'random', 'cached'}, disk, sample)

    def test_partition_unplugged_and_plugged_in(self):
        self.patch(seek_detector, '_CONFIRM_SECONDS', 2.0)
        disk = device(3)
        shell.run(
            'sh', '-c',
            f'echo 2048,1G,L | sfdisk --label gpt /dev/{disk.name}',
        )  # fmt: skip
        self.addCleanup(self.wipe)
        udev.settle()
        self.start(
            'seeker', *FIO, f'--filename=/dev/{disk.name}1', *RANDOM,
            '--rate_iops=200',
        )  # fmt: skip
        sample, _ = self.until(disk, self.all_are_there)
        self.until_found({'seeker'}, disk, sample)
        driver = '/sys/bus/virtio/drivers/virtio_blk'
        path = os.path.realpath(f'/sys/block/{disk.name}/device')
        write(f'{driver}/unbind', os.path.basename(path))
        self.assertEqual(
            {},
            self.disk_monitor.update(
                time.monotonic(), {}, sample.pairs, sample.idle
            ),
        )
        self.detect(disk, sample)
        write(f'{driver}/bind', os.path.basename(path))
        udev.settle()
        disk = device(3)
        _, states = self.measure(disk, 2)
        (state,) = states
        self.assertTrue(0 <= state.reads < 1000, state)

    def test_pressure_with_io_cost(self):
        """What io.cost holds back presses as well, though nothing waits."""
        disk = device(0, rotational=False)
        bps = 5_000_000
        write(f'{ROOT}/io.cost.qos', f'{disk.number} enable=1 ctrl=user '
              'min=100 max=100')  # fmt: skip
        self.addCleanup(
            write, f'{ROOT}/io.cost.qos', f'{disk.number} enable=0'
        )
        write(
            f'{ROOT}/io.cost.model',
            f'{disk.number} ctrl=user model=linear rbps={bps} wbps={bps} '
            + ' '.join(
                f'{kind}iops={bps // 4096}'
                for kind in ('rseq', 'rrand', 'wseq', 'wrand')
            ),
        )
        self.start(
            'task', *FIO, f'--filename=/dev/{disk.name}', '--rw=read',
            '--bs=64k', '--ioengine=libaio', '--iodepth=32',
        )  # fmt: skip
        _, states = self.until(disk, self.all_are_there)
        for _ in range(PATIENCE // 4):
            pressure = states[-1].pressure
            begun, before = time.monotonic(), self.used(disk)
            _, states = self.measure(disk, 4)
            share = (self.used(disk) - before) / (time.monotonic() - begun)
            gained = (states[-1].pressure - pressure) / (1 - pressure)
            expected = 1 - math.exp(-sum(one.seconds for one in states) / 300)
            if (
                0.9 < share < 1.1
                # at a quarter of what the disk gives, and with hardly a queue
                and states[-1].read_bytes < 0.35 * 20e6
                and gained > 0.8 * expected
            ):
                return
        self.fail(f'{share} of the time, {gained} of {expected}: {states}')

    def used(self, disk):
        """Return the seconds of a disk that io.cost has given away."""
        return disk_monitor.read_charged_seconds(self.hierarchy)[disk.number]
