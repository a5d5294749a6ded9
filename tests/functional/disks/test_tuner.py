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

"""Tuning with the kernel's own queues, those of loop devices."""

import dataclasses
import importlib.util
import itertools
import os
import signal

import fixtures
import testtools
from oslo_config import cfg

from nova_diskplacer import conf as options
from nova_diskplacer import exception
from nova_diskplacer.agent import queue_tuner
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import prepare
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.io_weights import controllers
from nova_diskplacer.monitor import sampler
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions
from nova_diskplacer.profiles import queue_policy
from tests import loops
from tests import shell

MINE = """
name: mine
title: All that can be set
description: For tests.
queue:
  hdd: &queue
    schedulers: [bfq, kyber]
    read_ahead_kb: 2048
    nr_requests: 300
    wbt_lat_usec: 0
    nomerges: 1
    rq_affinity: 2
    max_sectors_kb: 256
  ssd: *queue
"""

# as Nova has it
SERVER = """
<domain type='test'>
  <name>instance-00000001</name>
  <uuid>5f0c0f36-8b8e-4f7e-8d54-0a1a4c3d2e10</uuid>
  <metadata>
    <nova:instance
        xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
      <nova:flavor name="m1" id="7">
        <nova:extraSpecs>
          <nova:extraSpec name="diskplacer:profile">mine</nova:extraSpec>
        </nova:extraSpecs>
      </nova:flavor>
    </nova:instance>
  </metadata>
  <memory unit='KiB'>8192</memory>
  <vcpu>1</vcpu>
  <os><type>hvm</type></os>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='none'/>
      <source file='{disk}/vdisks/volume-1'/>
      <target dev='vdb' bus='virtio'/>
    </disk>
  </devices>
</domain>
"""


def settings_of(device):
    """Return the settings of a device's queue, from the kernel."""
    return dict(block_queue.read(os.path.basename(device)).values)


@loops.needs_root
class TunerTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.root = os.path.join(self.directory, 'disks')
        profiles = os.path.join(self.directory, 'profiles.d')
        os.mkdir(profiles)
        with open(os.path.join(profiles, 'mine.yaml'), 'w') as stream:
            stream.write(MINE)
        self.conf = cfg.ConfigOpts()
        options.register_opts(self.conf)
        self.conf([], default_config_files=[])
        state = os.path.join(self.directory, 'state')
        self.conf.set_override('state_dir', state, 'diskplacer_agent')
        self.conf.set_override('profile_dirs', [profiles], 'diskplacer')
        self.queues = os.path.join(state, 'queues')

    def make_device(self):
        """Return a loop device whose queue is put right in the end."""
        device = self.useFixture(loops.LoopDevice(1)).device
        self.addCleanup(self.put_back, device, settings_of(device))
        return device

    def put_back(self, device, values):
        for name in block_queue.SETTINGS:
            if settings_of(device)[name] != values[name]:
                block_queue.write(os.path.basename(device), name, values[name])

    def prepared(self, device):
        """Return a disk with a filesystem on a device."""
        fstab = os.path.join(self.directory, 'fstab')
        path = prepare.prepare(self.root, device, fstab=fstab).path
        self.addCleanup(shell.run_retry, 'umount', path)
        return discover.inspect(self.root, os.path.basename(path))

    def server(self, disk, profile='mine'):
        specs = {'diskplacer:profile': profile}
        paths = (f'{disk.path}/vdisks/volume-1',)
        return libvirt_servers.Server(
            'server', 'x', specs, paths, {}, True, False, ''
        )

    def saved(self):
        """Return what of disks is saved, but for what was not finished."""
        # an agent may be killed before it saves anything
        names = os.listdir(self.queues) if os.path.isdir(self.queues) else []
        return [name for name in names if name.endswith('.json')]

    def apply(self, disks, *servers):
        """Have a new agent look once."""
        queue_tuner.QueueTuner(self.conf).apply(servers, disks)

    def test_a_prepared_disk_and_no_other(self):
        device, bare, other = (self.make_device() for _ in range(3))
        disks = [self.prepared(device), self.prepared(other)]
        before = {one: settings_of(one) for one in (device, bare, other)}
        rest = {
            name: settings_of(name)
            for name in os.listdir('/sys/block')
            # others' tests come and go with theirs
            if '/virtual/' not in os.path.realpath(f'/sys/block/{name}')
        }
        self.apply(disks, self.server(disks[0]))
        self.assertEqual(
            {
                'scheduler': 'bfq',
                'nr_requests': '300',
                'wbt_lat_usec': '0',
                'max_sectors_kb': '256',
                'read_ahead_kb': '2048',
                'nomerges': '1',
                'rq_affinity': '2',
            },
            settings_of(device),
        )
        self.assertEqual(before[bare], settings_of(bare))
        self.assertEqual(before[other], settings_of(other))
        for name, values in rest.items():
            self.assertEqual(values, settings_of(name), name)
        self.apply(disks)
        self.assertEqual(before[device], settings_of(device))
        self.assertEqual([], self.saved())

    @testtools.skipUnless(
        importlib.util.find_spec('libvirt'), 'there is no libvirt-python'
    )
    def test_a_server_that_libvirt_describes(self):
        import libvirt

        device = self.make_device()
        disk = self.prepared(device)
        before = settings_of(device)
        # its servers last as long as somebody is connected
        connection = libvirt.open('test:///default')
        self.addCleanup(connection.close)
        domain = connection.defineXML(SERVER.format(disk=disk.path))
        self.addCleanup(domain.undefine)

        def look():
            servers = libvirt_servers.list_servers('test:///default')
            self.apply([disk], *servers)
            return [server.running for server in servers]

        self.assertEqual([False], look())
        self.assertEqual(before, settings_of(device))
        domain.create()
        self.assertEqual([True], look())
        self.assertEqual('2048', settings_of(device)['read_ahead_kb'])
        domain.suspend()
        self.assertEqual([True], look())
        self.assertEqual('2048', settings_of(device)['read_ahead_kb'])
        domain.destroy()
        self.assertEqual([False], look())
        self.assertEqual(before, settings_of(device))

    def test_each_shipped_profile(self):
        device = self.make_device()
        disk = self.prepared(device)
        before = settings_of(device)
        own = block_queue.read(os.path.basename(device))
        for name, profile in catalogue.load().items():
            self.apply([disk], self.server(disk, name))
            wanted = profile.queue.get(disk.medium, definitions.Queue())
            target = queue_policy.target_settings(
                wanted, before, own.schedulers, own.depth
            )
            actual = settings_of(device)
            if target['scheduler'] == 'none':
                # as many as the device has room for
                self.assertLessEqual(
                    int(actual.pop('nr_requests')),
                    int(target.pop('nr_requests')),
                )
            self.assertEqual(target, actual, name)
            self.apply([disk])
            self.assertEqual(before, settings_of(device), name)

    def test_weights_on_a_hard_disk(self):
        """The kernel honours weights there, whichever profile there is."""
        device = self.make_device()
        disk = dataclasses.replace(self.prepared(device), medium='hdd')
        block_queue.write(os.path.basename(device), 'scheduler', 'none')
        before = settings_of(device)
        self.addCleanup(self.conf.clear_override, 'mode', 'diskplacer_weights')
        self.useFixture(
            fixtures.MockPatchObject(
                cgroups,
                'hierarchy',
                lambda: cgroups.Hierarchy('/sys/fs/cgroup'),
            )
        )
        found, _ = sampler.find_devices([disk])
        for name in (None, *catalogue.load()):
            self.conf.set_override('mode', 'on', 'diskplacer_weights')
            self.apply([disk], *([self.server(disk, name)] if name else []))
            self.assertEqual(
                controllers.BFQ_CONTROLLER,
                controllers.active_controller(found[disk.uuid], None, 'auto'),
                name,
            )
            self.conf.set_override('mode', 'off', 'diskplacer_weights')
            self.apply([disk])
            self.assertEqual(before, settings_of(device), name)

    def test_killed_at_each_step(self):
        device = self.make_device()
        # not what the kernel would itself make of the other settings
        block_queue.write(os.path.basename(device), 'read_ahead_kb', '128')
        disk = self.prepared(device)
        server = self.server(disk)
        before = settings_of(device)
        for step in itertools.count():
            done = self.killed_at(step, [disk], server)
            self.apply([disk])
            self.assertEqual(before, settings_of(device), step)
            self.assertEqual([], self.saved())
            if done:
                break
        # a file and six settings, before and after each
        self.assertGreaterEqual(step, 14)
        self.apply([disk], server)
        tuned = settings_of(device)
        for step in itertools.count():
            done = self.killed_at(step, [disk])
            # it comes back, and leaves for good
            self.apply([disk], server)
            self.assertEqual(tuned, settings_of(device), step)
            self.killed_at(step, [disk])
            self.apply([disk])
            self.assertEqual(before, settings_of(device), step)
            self.apply([disk], server)
            if done:
                break
        # two of the seven are reset by others
        self.assertGreaterEqual(step, 12)

    def killed_at(self, fatal, disks, *servers):
        """Have an agent killed at a step; returns whether it came so far."""
        child = os.fork()
        if child == 0:
            try:
                self.count_steps(fatal)
                self.apply(disks, *servers)
            except BaseException:
                os._exit(1)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            self.assertEqual(signal.SIGKILL, os.WTERMSIG(status))
            return False
        self.assertEqual(0, os.WEXITSTATUS(status))
        return True

    def count_steps(self, fatal):
        left = itertools.count(fatal, -1)

        def step():
            if next(left) == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        def counted(function):
            def call(*args, **kwargs):
                step()
                result = function(*args, **kwargs)
                step()
                return result

            return call

        os.rename = counted(os.rename)
        os.unlink = counted(os.unlink)
        block_queue.write = counted(block_queue.write)

    def test_the_only_partition_of_a_disk(self):
        device = self.make_device()
        self.partition(device, 900)
        disk = self.prepared(device + 'p1')
        self.apply([disk], self.server(disk))
        self.assertEqual('bfq', settings_of(device)['scheduler'])
        self.apply([disk])

    def test_one_partition_of_several(self):
        device = self.make_device()
        self.partition(device, 500, 400)
        before = settings_of(device)
        disk = self.prepared(device + 'p1')
        self.apply([disk], self.server(disk))
        self.assertEqual(before, settings_of(device))
        self.assertIn(f'{os.path.basename(device)}p2', self.log.output)

    def partition(self, device, *sizes):
        """Make partitions of sizes in MiB; not every kernel reads tables."""
        start = 2048
        for number, size in enumerate(sizes, 1):
            sectors = size << 11
            shell.run('addpart', device, *map(str, (number, start, sectors)))
            self.addCleanup(shell.run_retry, 'delpart', device, str(number))
            start += sectors

    def test_the_disk_of_the_root_filesystem(self):
        number = os.stat('/').st_dev
        link = f'/sys/dev/block/{os.major(number)}:{os.minor(number)}'
        if not os.path.exists(link):
            self.skipTest('the root filesystem is on no block device')
        name = os.path.basename(os.path.realpath(link))
        self.assertRaises(
            exception.DiskError, block_queue.exclusive_device, f'/dev/{name}'
        )
