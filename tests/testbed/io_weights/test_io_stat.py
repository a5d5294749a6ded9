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

"""What servers and cgroups do is counted as it was done."""

import os
import time

import fixtures
import libvirt
import libvirt_qemu
import testtools

from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.monitor import consumers
from nova_diskplacer.monitor import guest_stats
from nova_diskplacer.monitor import io_stat
from nova_diskplacer.monitor import sampler
from nova_diskplacer.monitor import types
from tests import cgroups as cgroup_fixtures
from tests import shell
from tests.fakes import disks as fake_disks
from tests.testbed import hypervisor
from tests.unit.nova_diskplacer.monitor import samples
from tools.testbed import udev

MIB = 1 << 20
BLOCK = 64 << 10
BACKEND = '/machine/peripheral/virtio-disk0/virtio-backend'


def make_disk(index, **values):
    """Return one of the guest's disks, as if it were prepared."""
    device = os.path.realpath(f'/dev/disk/by-id/virtio-disk{index}')
    return fake_disks.make_disk(f'disk{index}', device=device, **values)


class CgroupReaderTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.hierarchy = cgroups.hierarchy()
        self.reader = io_stat.CgroupReader(self.hierarchy)

    def devices(self, *disks):
        found, missing = sampler.find_devices(disks)
        self.assertEqual({}, missing)
        return found

    def moved(self, before, after):
        """Return bytes and requests, read and written, of each pair."""
        done = after.values[:, :4].tolist()
        known = dict(zip(before.pairs, before.values.tolist(), strict=True))
        return {
            pair: [
                new - old
                for new, old in zip(
                    values, known.get(pair, [0] * 4)[:4], strict=True
                )
            ]
            for pair, values in zip(after.pairs, done, strict=True)
        }


class CgroupsTest(CgroupReaderTestCase):
    def setUp(self):
        super().setUp()
        self.cgroup = self.useFixture(cgroup_fixtures.Cgroup())
        self.found = self.devices(make_disk(2), make_disk(3))
        self.consumers = [types.Consumer(key='it', cgroup=self.cgroup.name)]

    def read(self):
        return self.reader.read(self.consumers, self.found)

    def test_disks(self):
        before = self.read()
        self.cgroup.write('/dev/disk/by-id/virtio-disk3', 4)
        self.cgroup.read('/dev/disk/by-id/virtio-disk2', 3)
        self.cgroup.read('/dev/disk/by-id/virtio-disk3', 2)
        self.assertEqual(
            {
                ('it', 'disk2'): [3 * BLOCK, 0, 3, 0],
                ('it', 'disk3'): [2 * BLOCK, 4 * BLOCK, 2, 4],
            },
            self.moved(before, self.read()),
        )

    def test_volumes(self):
        path = '/dev/disk/by-id/virtio-disk3'
        shell.run('vgcreate', '--yes', 'accounts', path)
        self.addCleanup(shell.run, 'pvremove', path)
        self.addCleanup(shell.run, 'vgremove', '--yes', 'accounts')
        shell.run('lvcreate', '--yes', '-L', '16m', '-n', 'v', 'accounts')
        self.addCleanup(udev.settle)
        before = self.read()
        self.cgroup.write('/dev/accounts/v', 5)
        self.cgroup.read('/dev/accounts/v', 1)
        # of the disk itself, and once
        self.assertEqual(
            {('it', 'disk3'): [BLOCK, 5 * BLOCK, 1, 5]},
            self.moved(before, self.read()),
        )

    def test_what_the_page_cache_writes_later(self):
        # when it looks for partitions, it is udev that writes
        udev.settle()
        before = self.read()
        self.cgroup.run(
            'dd',
            'if=/dev/zero',
            'of=/dev/disk/by-id/virtio-disk3',
            'bs=64k',
            'count=8',
            'conv=fsync',
        )
        done = self.moved(before, self.read())
        self.assertEqual(8 * BLOCK, done['it', 'disk3'][1])

    def test_under_every_scheduler(self):
        shell.run('modprobe', 'bfq')
        name = self.found['disk3'].name
        before = block_queue.read(name)
        self.addCleanup(
            block_queue.write, name, 'scheduler', before.values['scheduler']
        )
        for scheduler in before.schedulers:
            block_queue.write(name, 'scheduler', scheduler)
            counters = self.read()
            self.cgroup.read('/dev/disk/by-id/virtio-disk3', 4)
            done = self.moved(counters, self.read())
            self.assertEqual(
                [4 * BLOCK, 0, 4, 0], done['it', 'disk3'], scheduler
            )

    def test_cgroup_that_goes_and_comes_back(self):
        self.cgroup.read('/dev/disk/by-id/virtio-disk3', 5)
        self.assertIn(('it', 'disk3'), self.read().pairs)
        self.cgroup.remove()
        self.assertNotIn(('it', 'disk3'), self.read().pairs)
        os.mkdir(self.cgroup.path)
        self.cgroup.read('/dev/disk/by-id/virtio-disk3', 2)
        counters = self.read()
        self.assertEqual([('it', 'disk3')], list(counters.pairs))
        self.assertEqual([True], counters.first.tolist())
        self.assertEqual([2 * BLOCK, 0, 2, 0], counters.values[0, :4].tolist())


class ServersTest(CgroupReaderTestCase):
    """Has a server, for all tests, whose disk is all of disk 3."""

    start_libvirt = staticmethod(hypervisor.start)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.start_libvirt(cls)

    def start(self, partition):
        """Start a server; returns its UUID."""
        home = self.useFixture(fixtures.TempDir()).path
        self.disk = make_disk(3, path=home)
        self.path = os.path.join(home, 'vdisks', 'volume-1')
        os.mkdir(os.path.dirname(self.path))
        os.symlink('/dev/disk/by-id/virtio-disk3', self.path)
        domain = self.libvirt.createXML(
            hypervisor.server(
                'instance-00000001',
                f'<resource><partition>{partition}</partition></resource>',
                hypervisor.disk(self.path, 'block'),
            ),
            libvirt.VIR_DOMAIN_START_PAUSED,
        )
        self.addCleanup(hypervisor.destroy, domain)
        return domain.UUIDString()

    def act(self, *commands):
        """Have QEMU do what a guest would have it do."""
        domain = self.libvirt.lookupByName('instance-00000001')
        for command in commands:
            said = libvirt_qemu.qemuMonitorCommand(
                domain,
                f'qemu-io -d {BACKEND} "{command}"',
                libvirt_qemu.VIR_DOMAIN_QEMU_MONITOR_COMMAND_HMP,
            )
            self.assertNotIn('rror', said)

    def consumer(self):
        """Return the server, with its cgroup."""
        (found,) = consumers.find(
            libvirt_servers.list_servers(self.uri), [], self.hierarchy
        ).values()
        self.assertTrue(os.path.isdir(self.hierarchy.path(found.cgroup)))
        self.assertEqual('instance-00000001', found.domain)
        return found

    def sample(self, disks, counters):
        return samples.make_sample(
            counters.pairs,
            servers=libvirt_servers.list_servers(self.uri),
            prepared_disks=disks,
            history=types.PairTable(counters.pairs, counters=counters.values),
        )

    def test_a_server(self):
        server = self.start('/machine')
        disks = [self.disk]
        found = self.devices(*disks)
        poller = guest_stats.GuestPoller(self.uri)
        consumers_ = [self.consumer()]
        before = self.reader.read(consumers_, found)
        began = time.monotonic()
        poller.poll(began, self.sample(disks, before))
        self.act('aio_read 0 1M', 'aio_read 4M 1M', 'aio_write 8M 3M')
        self.act('aio_flush')
        deadline = time.monotonic() + 180
        wanted = {(server, 'disk3'): [2 * MIB, 3 * MIB]}
        while True:
            after = self.reader.read(consumers_, found)
            done = {
                pair: values[:2]
                for pair, values in self.moved(before, after).items()
            }
            if done == wanted or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        self.assertEqual(wanted, done)
        now = time.monotonic()
        stats = poller.poll(now, self.sample(disks, after))
        (use,) = stats.uses[server]
        self.assertEqual((self.path, 'disk3'), (use.path, use.disk))
        self.assertAlmostEqual(2 * MIB, use.read_bytes * (now - began), 0)
        self.assertAlmostEqual(3 * MIB, use.write_bytes * (now - began), 0)
        self.assertGreater(use.read_seconds, 0)
        self.assertLess(use.read_seconds, now - began)
        self.assertEqual({}, stats.unaccounted)

    def test_a_partition(self):
        partition = '/machine/gold-class'
        path = self.hierarchy.path(consumers.parent_cgroups(partition)[1])
        os.makedirs(path)
        self.addCleanup(os.rmdir, path)
        # libvirt has controllers in the partition that it makes alone
        for parent in (self.hierarchy.root, os.path.dirname(path), path):
            with open(f'{parent}/cgroup.subtree_control', 'w') as stream:
                stream.write('+io')
        server = self.start(partition)
        found = self.consumer()
        self.assertEqual(server, found.key)
        self.assertIn('gold-class.partition/', found.cgroup)
        self.assertTrue(
            os.path.isfile(self.hierarchy.path(found.cgroup, 'io.stat'))
        )


class ServersWithSystemdTest(ServersTest):
    start_libvirt = staticmethod(hypervisor.start_with_systemd)

    def test_a_partition(self):
        server = self.start('/machine/gold-class')
        found = self.consumer()
        self.assertEqual(server, found.key)
        self.assertIn('gold\\x2dclass.slice/', found.cgroup)
        self.assertTrue(
            os.path.isfile(self.hierarchy.path(found.cgroup, 'io.stat'))
        )
