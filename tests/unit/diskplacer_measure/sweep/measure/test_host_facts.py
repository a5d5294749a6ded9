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

import os
from unittest import mock

import ddt
import fixtures
import testtools
from oslo_config import cfg

from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep.measure import host_facts
from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.host import commands
from nova_diskplacer.host import libvirt_connection
from nova_diskplacer.placement import client as placement_client
from tests import configured
from tests.fakes import disks as fake_disks
from tests.unit.diskplacer_measure.sweep import samples
from tests.unit.diskplacer_measure.sweep import world
from tests.unit.nova_diskplacer.agent import test_queue_tuner


@ddt.ddt
class HostFactsTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.conf = self.useFixture(configured.Options()).conf
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.nova_conf = os.path.join(self.directory, 'nova.conf')
        self.conf.set_override(
            'nova_conf', [self.nova_conf], 'diskplacer_agent'
        )
        self.kernel = test_queue_tuner.Kernel()
        self.kernel.schedulers = ['none', 'mq-deadline']
        self.kernel.add('sdx')
        test_queue_tuner.patch_queues(self, self.kernel)
        self.disk = fake_disks.make_disk(samples.DISK)
        self.modules = ['bfq-iosched']
        self.patch(discover, 'inspect', lambda root, uuid: self.disk)
        self.patch(discover, 'kind_of', lambda root, uuid: self.kind)
        self.patch(commands, 'run', self.run_command)
        self.kind = discover.FILESYSTEM

    def patch(self, target, name, value):
        patch = mock.patch.object(target, name, value)
        patch.start()
        self.addCleanup(patch.stop)

    def run_command(self, *command):
        if command[0] == 'fio':
            return 'fio-3.33\n'
        if command[-1] not in self.modules:
            raise exception.DiskError(command[-1])
        return ''

    def write(self, text):
        with open(self.nova_conf, 'w') as stream:
            stream.write(f'[libvirt]\n{text}\n')

    def read(self):
        return host_facts.read(self.conf, samples.DISK)

    def test_schedulers_of_the_kernel_and_its_modules(self):
        self.assertEqual(
            ('mq-deadline', 'none', 'bfq'), self.read().schedulers
        )

    def test_memory_and_processors(self):
        found = self.read()
        self.assertEqual(len(os.sched_getaffinity(0)), found.cpus)
        pages = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
        self.assertEqual(pages >> 20, found.memory_mib)

    @ddt.data(
        ('', 'none'),
        ('disk_cachemodes = file=writethrough,block=none', 'writethrough'),
    )
    @ddt.unpack
    def test_cache_mode(self, text, mode):
        self.write(text)
        self.assertEqual(mode, self.read().cache_mode)

    def test_an_unknown_cache_mode(self):
        self.assertEqual('', self.read().cache_mode)

    def test_the_queue_serves_other_devices(self):
        self.kernel.shared.add('sdx')
        error = self.assertRaises(exception.DiskError, self.read)
        self.assertEqual('sdx is shared', str(error))

    def test_a_disk_that_is_not_healthy(self):
        for health in (discover.MISSING, discover.HUNG, discover.READ_ONLY):
            self.disk = fake_disks.make_disk(samples.DISK, health=health)
            error = self.assertRaises(exception.DiskError, self.read)
            self.assertIn(f'is {health}', str(error))

    def test_a_read_ahead_that_is_fixed(self):
        path = os.path.join(self.directory, 'dm-0')
        os.makedirs(os.path.join(path, 'dm'))
        os.makedirs(os.path.join(path, 'queue'))
        with open(os.path.join(path, 'queue', 'read_ahead_kb'), 'w') as stream:
            stream.write('512\n')
        self.assertIsNone(self.read().fixed_read_ahead)
        with fixtures.MonkeyPatch(
            'nova_diskplacer.host.sysfs.device_path', lambda name: path
        ):
            self.assertEqual(512, self.read().fixed_read_ahead)
            # the volume to measure has a queue of its own
            self.kind = discover.LVM
            self.assertIsNone(self.read().fixed_read_ahead)

    def header(self, connection):
        self.conf.register_opt(cfg.StrOpt('host'))
        self.conf.set_override('host', 'compute1')
        return host_facts.make_header(
            self.conf,
            self.read(),
            (samples.make_cell(),),
            data_mib=64,
            seconds=3,
            block_kib=4,
            repetitions=2,
            connection=connection,
        )

    def test_a_header_of_bare_metal(self):
        self.write('virt_type = qemu')
        found = self.header(None)
        self.assertEqual(('compute1', 'fio-3.33'), (found.host, found.fio))
        self.assertEqual(
            ('', '', '', False),
            (found.qemu, found.libvirt, found.nova, found.emulated),
        )
        self.assertEqual((samples.DISK, 'sdx'), (
            found.disk.uuid, found.disk.device,
        ))  # fmt: skip

    @ddt.data(('', False), ('virt_type = qemu', True))
    @ddt.unpack
    def test_a_header_of_servers(self, text, emulated):
        self.write(text)
        library = mock.MagicMock(libvirtError=type('Error', (Exception,), {}))
        library.openReadOnly().getVersion.return_value = 10000002
        library.openReadOnly().getLibVersion.return_value = 11003000
        self.patch(libvirt_connection, 'import_libvirt', lambda: library)
        connection = mock.MagicMock()
        endpoint = connection.compute.get_endpoint_data()
        endpoint.max_microversion = (2, 96)
        found = self.header(connection)
        self.assertEqual(
            ('10.0.2', '11.3.0', '2.96', emulated),
            (found.qemu, found.libvirt, found.nova, found.emulated),
        )


@ddt.ddt
class CapacityTest(testtools.TestCase):
    def read(self, **inventories):
        client = mock.Mock()
        client.provider.return_value = placement_client.Provider(
            samples.DISK, 'disk', 1, 'host', 'host'
        )
        client.inventories.side_effect = {'host': (1, inventories)}.__getitem__
        return host_facts.read_capacity(client, samples.DISK)

    def test_what_placement_has(self):
        found = self.read(
            VCPU=world.make_inventory(4, 1, 4.0),
            MEMORY_MB=world.make_inventory(8192, 512, 1.5),
        )
        self.assertEqual(host_facts.Capacity(12, 4, 11520), found)

    def test_a_host_without_shared_processors(self):
        found = self.read(MEMORY_MB=world.make_inventory(8192, 512, 1.0))
        self.assertEqual((0, 0), (found.vcpus, found.vcpus_of_one))

    def test_an_unknown_disk(self):
        client = mock.Mock()
        client.provider.return_value = None
        error = self.assertRaises(
            exception.PlacementError,
            host_facts.read_capacity,
            client,
            samples.DISK,
        )
        self.assertIn('does the agent run?', str(error))

    @ddt.data(
        ((4, 1024), 1, True),
        ((5, 1024), 1, False),
        ((4, 1024), 3, True),
        ((4, 1024), 4, False),
        ((1, 2048), 4, True),
        ((1, 2049), 4, False),
    )
    @ddt.unpack
    def test_what_fits(self, shape, servers, fits):
        capacity = host_facts.Capacity(12, 4, 8192)
        self.assertEqual(fits, capacity.fits(cells.Shape(*shape), servers))
