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
"""A disk that hangs for real, with load on it, beside one that does not.

It is a mapped device that is suspended without its filesystem being frozen:
what reads or writes waits in the kernel until it is resumed.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from oslo_config import cfg
from oslo_privsep import priv_context

from cinder_vdisk_mapper import privsep
from cinder_vdisk_mapper import privsep_lvm
from cinder_vdisk_mapper.backend import filesystem
from cinder_vdisk_mapper.backend import lvm as backend_lvm
from nova_diskplacer import exception
from nova_diskplacer.agent import build_io_status
from nova_diskplacer.agent import io_loop
from nova_diskplacer.agent import reported_disks
from nova_diskplacer.agent import service
from nova_diskplacer.agent import slow_checks
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.lvm import prepare as lvm_prepare
from nova_diskplacer.host import probes
from nova_diskplacer.monitor import io_metrics
from tests import configured
from tests import shell
from tests.testbed.lvm import base
from tools.testbed import udev

NAME = 'hanging'
DEVICE = f'/dev/mapper/{NAME}'

# Where it begins on the device below it, in sectors.
_START = 2048

# Seconds until something must have happened, in a guest that is slow.
PATIENCE = 300

# Calls about the disk that hangs, more than the helper has threads.
CALLS = privsep.THREADS + 6


class HangingTestCase(base.LVMTestCase):
    """Has a disk that can hang and a healthy one, as volume groups."""

    options = lvm_prepare.Options(thin=True)
    backend_class = backend_lvm.LVMBackend
    context = privsep_lvm.context

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        device, other = cls.spare
        # so that LVM finds what is on it in one place only
        sectors = int(shell.run('blockdev', '--getsz', device)) - _START
        shell.run(
            'dmsetup', 'create', NAME,
            '--table', f'0 {sectors} linear {device} {_START}',
        )  # fmt: skip
        cls.addClassCleanup(cls.remove)
        cls.hanging, cls.healthy = (
            prepare.prepare(
                cls.root,
                one,
                medium='hdd',
                fstab=cls.fstab,
                lvm_options=cls.options,
            ).uuid
            for one in (DEVICE, other)
        )
        # beside the disks, so that nothing waits for one
        state = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, state)
        cls.state = state

    @classmethod
    def remove(cls):
        cls.release()
        udev.settle()
        shell.run('dmsetup', 'remove', '--retry', NAME)

    @classmethod
    def release(cls):
        base.erase(DEVICE)

    def setUp(self):
        super().setUp()
        cfg.CONF([], project='test', default_config_files=[])
        self.addCleanup(cfg.CONF.reset)
        self.backend = self.backend_class(self.root)
        self.context.set_client_mode(True)
        self.context.start(priv_context.Method.FORK)
        self.addCleanup(self.context.stop)
        self.listing = []
        self.conf = self.useFixture(configured.Options()).conf
        self.conf.register_opt(cfg.StrOpt('host', default='compute'))
        self.conf.set_override('disk_root', self.root, 'diskplacer')
        self.conf.set_override('metrics_port', 0, 'diskplacer_monitor')

    def load(self):
        """Begin to write to a vdisk of the disk that will hang."""
        self.backend.create(self.hanging, 'volume-load', 'load', None, 1)
        self.addCleanup(self.backend.delete, self.hanging, 'volume-load')
        fio = subprocess.Popen(
            [
                'fio', '--thread', '--name=load', '--rw=randwrite', '--bs=4k',
                '--direct=1', '--ioengine=libaio', '--iodepth=16',
                '--time_based', '--runtime=3600', '--size=512m',
                '--filename='
                + self.backend.device_path(self.hanging, 'volume-load'),
            ],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        self.addCleanup(udev.settle)
        self.addCleanup(fio.wait)
        self.addCleanup(fio.kill)
        return fio

    def until(self, condition, what):
        ends = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), ends, what)
            time.sleep(0.1)

    def healths(self):
        return {disk.uuid: disk.health for disk in self.backend.disks()}

    def test_hang_and_come_back(self):
        both = {self.hanging: 'ok', self.healthy: 'ok'}
        fio = self.load()
        self.until(lambda: self.healths() == both, 'both are seen')
        self.agent_sees(both)
        calm = self.change_the_healthy_one('volume-0')
        self.addCleanup(self.reap)
        # whatever fails: nothing that uses the device ends while it hangs
        self.addCleanup(shell.run, 'dmsetup', 'resume', NAME)
        shell.run('dmsetup', 'suspend', '--noflush', '--nolockfs', NAME)
        stuck = probes.Job(lambda: self.create(self.hanging, 'volume-stuck'))
        # at once: nobody has noticed yet
        times = [self.change_the_healthy_one('volume-1')]
        self.assertEqual('ok', self.healths()[self.healthy])
        hung = {**both, self.hanging: 'hung'}
        self.until(lambda: self.healths() == hung, 'it is hung')
        self.assertTrue(stuck.wait(PATIENCE))
        self.assert_refused(stuck.result)
        times.append(self.change_the_healthy_one('volume-2'))
        known = {disk.uuid: disk for disk in self.backend.disks()}
        self.assertIn(
            'volume-load', [one.name for one in known[self.hanging].vdisks]
        )
        # no call keeps a thread of the helper
        calls = [
            probes.Job(lambda: self.create(self.hanging, 'volume-more'))
            for _ in range(CALLS)
        ]
        times.append(self.change_the_healthy_one('volume-3'))
        for call in calls:
            self.assertTrue(call.wait(PATIENCE))
            self.assert_refused(call.result)
        self.assert_refused(
            lambda: self.backend.delete(self.hanging, 'volume-load')
        )
        self.agent_sees(hung)
        self.command_sees(hung)
        self.assertIsNone(fio.poll())
        print(f'{calm:.1f} s with no disk hung, then', times, flush=True)
        # none has waited until the disk was held to hang; the calls about
        # that disk take the processor
        self.assertLess(max(times[:2]), 2 * calm + probes.HUNG_AFTER)

        shell.run('dmsetup', 'resume', NAME)
        self.until(lambda: self.healths() == both, 'both are seen again')
        self.agent_sees(both)
        # it may have been begun, and would have been done by now
        self.backend.delete(self.hanging, 'volume-stuck')
        self.create(self.hanging, 'volume-4')
        self.backend.delete(self.hanging, 'volume-4')

    def create(self, disk, name):
        self.backend.create(disk, name, name, None, 1)

    def reap(self):
        for process in self.listing:
            process.wait()
            process.stdout.close()

    def change_the_healthy_one(self, name):
        """Do what the driver does, and return the seconds that it took."""
        began = time.monotonic()
        snapshot = name.replace('volume', 'snapshot')

        def change():
            self.create(self.healthy, name)
            self.backend.snapshot(self.healthy, name, snapshot, name)
            self.backend.delete(self.healthy, snapshot)
            self.backend.delete(self.healthy, name)
            return self.backend.disk(self.healthy).vdisks

        job = probes.Job(change)
        self.assertTrue(job.wait(PATIENCE), f'{name} waits')
        self.assertEqual((), job.result())
        return time.monotonic() - began

    def assert_refused(self, call):
        error = self.assertRaises(exception.DiskError, call)
        self.assertIn('hung', str(error))

    def agent_sees(self, healths):
        """Have the agent do its work, in threads that end."""

        def work():
            disks = service.discover_disks(self.root)
            seen = reported_disks.comparable(
                discover.inspect(
                    self.root, self.healthy, patience=probes.TIMEOUT
                )
            )
            loop = io_loop.IOLoop(
                self.conf,
                lambda: [],
                lambda: disks,
                slow_checks.SlowChecks(self.conf),
            )
            loop.run_once()
            state = build_io_status.build_status(
                'testbed', 'off', loop.interval, None, {}, None
            )
            figures = {
                labels[1]
                for metric in io_metrics.METRICS
                if metric.name == 'disk_hung'
                for labels, value in metric.samples(state)
                if value
            }
            return disks, seen, figures

        ends = time.monotonic() + PATIENCE
        while True:
            job = probes.Job(work)
            self.assertTrue(job.wait(PATIENCE), 'the agent waits')
            disks, seen, figures = job.result()
            found = {disk.uuid: disk.health for disk in disks}
            if found == healths:
                break
            # it has its own patience
            self.assertLess(time.monotonic(), ends, found)
        self.assertEqual('ok', seen.health)
        self.assertEqual(
            {uuid for uuid, health in healths.items() if health == 'hung'},
            figures,
        )

    def command_sees(self, healths):
        """Have a new process list the disks."""
        script = (
            'import json, sys\n'
            'from nova_diskplacer.disks import discover\n'
            'print(json.dumps({one.uuid: one.health'
            ' for one in discover.discover(sys.argv[1])}), flush=True)\n'
            # as one whose disk hangs cannot end
            'import os; os._exit(0)\n'
        )
        process = subprocess.Popen(
            [sys.executable, '-c', script, self.root],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.listing.append(process)
        line = probes.Job(process.stdout.readline)
        self.assertTrue(line.wait(PATIENCE), 'the command waits')
        self.assertEqual(healths, json.loads(line.result()))


class FilesystemTestCase(HangingTestCase):
    """Has them as filesystems."""

    options = None
    backend_class = filesystem.FilesystemBackend
    context = privsep.context

    @classmethod
    def release(cls):
        for uuid in os.listdir(cls.root):
            shell.run('umount', os.path.join(cls.root, uuid))
        shell.run('wipefs', '--all', '--force', DEVICE)
