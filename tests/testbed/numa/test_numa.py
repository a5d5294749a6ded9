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

"""Real servers, as far as the host is concerned: QEMU under libvirt.

They are paused and never execute anything. They are described to libvirt as
Nova describes a server with shared CPUs.
"""

import contextlib
import itertools
import os
import pathlib
import shutil
import tempfile
import uuid

import fixtures
import libvirt
import testtools
from oslo_config import cfg

from nova_diskplacer import conf as options
from nova_diskplacer.agent import numa_affinity
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.lvm import prepare as lvm_prepare
from nova_diskplacer.host import libvirt_servers
from tests import shell
from tests.testbed import hypervisor
from tests.testbed import numa
from tests.testbed.lvm import base
from tools.testbed import udev

SERVER = """
<domain type='qemu'>
  <name>{name}</name>
  <uuid>{uuid}</uuid>
  <metadata>
    <nova:instance
        xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
      <nova:flavor name="near">
        <nova:extraSpecs>{specs}</nova:extraSpecs>
      </nova:flavor>
    </nova:instance>
  </metadata>
  <memory unit='MiB'>16</memory>
  <vcpu {confined}>1</vcpu>
  <iothreads>1</iothreads>
  {cputune}
  <os><type machine='q35'>hvm</type></os>
  <cpu>{topology}</cpu>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <controller type='usb' model='none'/>
    <controller type='pci' model='pcie-root'/>
    <controller type='pci' model='pcie-root-port'/>
    <controller type='pci' model='pcie-root-port'/>
    <controller type='pci' model='pcie-root-port'/>
    <memballoon model='none'/>
    {disks}
  </devices>
</domain>
"""

NODES = "<numa><cell id='0' cpus='0' memory='16' unit='MiB'/></numa>"
PINS = """
<cputune>
  <vcpupin vcpu='0' cpuset='0'/>
  <emulatorpin cpuset='0'/>
</cputune>
"""


def device(index):
    return f'/dev/disk/by-id/virtio-disk{index}'


def disk_xml(path, number=0, driver=''):
    kind = 'block' if path.startswith('/dev/') else 'file'
    return hypervisor.disk(path, kind, f'vd{"bcd"[number]}', driver)


class NUMATest(testtools.TestCase):
    """Has disks, libvirt and servers, for all tests.

    Disks 0 and 3 are on node 1. Disks 1 and 3 have LVM. Each server has
    vdisks on some, and starts again only where a test does it: that takes
    seconds.
    """

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.path)
        cls.prepare_disks()
        hypervisor.start(cls)
        cls.numbers = itertools.count(1)
        cls.file = cls.start([0])
        cls.block = cls.start([1])
        cls.both = cls.start([3, 0])
        cls.confined = cls.start([0], confined="cpuset='0'")
        cls.silent = cls.start([0], numa='none')
        cls.by_nova = cls.start([3], cputune=PINS, topology=NODES)
        cls.by_hand = cls.start([0], cputune=PINS)

    @classmethod
    def prepare_disks(cls):
        cls.root = os.path.join(cls.path, 'disks')
        fstab = os.path.join(cls.path, 'fstab')
        cls.uuids = []
        for index in range(len(numa.OWN)):
            cls.addClassCleanup(base.erase, device(index))
            disk = prepare.prepare(
                cls.root,
                device(index),
                medium='hdd',
                fstab=fstab,
                lvm_options=lvm_prepare.Options(thin=False, zero=False)
                if index % 2
                else None,
            )
            cls.addClassCleanup(prepare.forget, cls.root, disk.uuid, fstab)
            cls.uuids.append(disk.uuid)

    @classmethod
    def vdisk(cls, index):
        """Return the path of a new vdisk on a disk."""
        name = f'volume-{uuid.uuid4()}'
        if index % 2:
            group = f'diskplacer-{cls.uuids[index]}'
            shell.run(
                'lvcreate', '--zero', 'n', '-L', '16m', '-n', name, group
            )
            cls.addClassCleanup(shell.run, 'lvremove', '-f', f'{group}/{name}')
            cls.addClassCleanup(udev.settle)
            return f'/dev/{group}/{name}'
        path = f'{cls.root}/{cls.uuids[index]}/vdisks/{name}'
        with open(path, 'wb') as stream:
            stream.truncate(16 << 20)
        cls.addClassCleanup(os.unlink, path)
        return path

    @classmethod
    def start(cls, indexes, numa='required', **parts):
        """Start a server with vdisks on these disks."""
        paths = [cls.vdisk(index) for index in indexes]
        parts = {'confined': '', 'cputune': '', 'topology': '', **parts}
        domain = cls.libvirt.defineXML(
            SERVER.format(
                name=f'instance-{next(cls.numbers):08x}',
                uuid=uuid.uuid4(),
                specs='<nova:extraSpec name="diskplacer:numa">'
                f'{numa}</nova:extraSpec>',
                disks=''.join(
                    disk_xml(path, number) for number, path in enumerate(paths)
                ),
                **parts,
            )
        )
        cls.addClassCleanup(domain.undefine)
        domain.createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED)
        cls.addClassCleanup(hypervisor.destroy, domain)
        return domain

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.conf = cfg.ConfigOpts()
        self.conf([], default_config_files=[])
        options.register_opts(self.conf)
        self.path_of_nova_conf = pathlib.Path(self.path, 'nova.conf')
        self.conf.set_override(
            'nova_conf', [str(self.path_of_nova_conf)], 'diskplacer_agent'
        )
        self.affinity = numa_affinity.Affinity(self.conf)

    def apply(self):
        self.affinity.apply(
            libvirt_servers.list_servers(self.uri),
            discover.discover(self.root),
        )

    def threads(self, domain):
        """Return the CPUs that the kernel lets each of QEMU's threads use."""
        process = pathlib.Path(f'/run/libvirt/qemu/{domain.name()}.pid')
        tasks = pathlib.Path(f'/proc/{process.read_text().strip()}/task')
        found = {}
        for task in tasks.iterdir():
            # QEMU ends those that have nothing to do
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                name = (task / 'comm').read_text().strip()
                found[f'{name} {task.name}'] = next(
                    line.split()[1]
                    for line in (task / 'status').read_text().splitlines()
                    if line.startswith('Cpus_allowed_list:')
                )
        return found

    def assertOn(self, cpus, domain):  # noqa: N802
        """Check that libvirt says and the kernel does the same."""
        wanted = tuple(cpu in cpus for cpu in range(2))
        self.assertEqual([wanted], domain.vcpuPinInfo())
        self.assertEqual(wanted, domain.emulatorPinInfo())
        self.assertEqual([(1, list(wanted))], domain.ioThreadInfo())
        threads = self.threads(domain)
        text = '0-1' if len(cpus) == 2 else str(*cpus)
        self.assertEqual({text}, set(threads.values()), threads)
        for name in ('CPU 0/', 'IO iothread1'):
            self.assertIn(name, ' '.join(threads))

    def test_nodes_of_disks(self):
        found = {disk.uuid: disk for disk in discover.discover(self.root)}
        self.assertEqual(
            [disk.node for disk in numa.OWN],
            [found[uuid].numa_node for uuid in self.uuids],
        )
        self.assertEqual(
            [os.path.realpath(device(index)) for index in range(4)],
            [found[uuid].device for uuid in self.uuids],
        )

    def test_each_on_its_node(self):
        self.apply()
        for server, node in ((self.file, 1), (self.block, 0), (self.both, 1)):
            self.assertOn({node}, server)
            mark = server.metadata(
                libvirt.VIR_DOMAIN_METADATA_ELEMENT,
                'urn:nova-diskplacer:affinity',
            )
            self.assertIn(f'node="{node}"', mark)
            # Nova's description stays as it is
            self.assertNotIn(
                'pin', server.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
            )

    def test_undone_and_started_again(self):
        self.apply()
        self.assertOn({1}, self.file)
        # by an agent that has not pinned it
        self.affinity = numa_affinity.Affinity(self.conf)
        self.file.attachDeviceFlags(
            disk_xml(self.vdisk(2), 1), libvirt.VIR_DOMAIN_AFFECT_LIVE
        )
        self.apply()
        self.assertOn({0, 1}, self.file)
        self.assertNotIn('urn:nova-diskplacer', self.file.XMLDesc())
        self.assertIn('on several NUMA nodes', self.log.output)
        # as a hard reboot does it; the disk has gone with the process
        hypervisor.destroy(self.file)
        self.file.createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED)
        self.assertOn({0, 1}, self.file)
        self.apply()
        self.assertOn({1}, self.file)

    def test_shared_set(self):
        self.apply()
        self.assertOn({1}, self.both)
        # by the set that it was started with
        self.assertOn({0}, self.confined)
        self.path_of_nova_conf.write_text('[compute]\ncpu_shared_set=0-1,^1')
        self.addCleanup(self.path_of_nova_conf.unlink)
        self.apply()
        self.assertOn({0, 1}, self.both)
        self.assertIn('NUMA node 1 has 0 CPUs that it may', self.log.output)

    def test_left_alone(self):
        """What does not ask, and what Nova or somebody else has pinned."""
        servers = (self.silent, self.by_nova, self.by_hand, self.confined)
        before = [server.XMLDesc() for server in servers]
        self.apply()
        self.assertEqual(before, [server.XMLDesc() for server in servers])
        self.assertIn('another tool has pinned it', self.log.output)

    def test_io_threads_of_disks(self):
        """Why vdisks get none: see the limitations."""
        live = libvirt.VIR_DOMAIN_AFFECT_LIVE
        (path,) = libvirt_servers.parse(self.silent.XMLDesc(), True).vdisks
        self.silent.addIOThread(2, live)
        self.silent.pinIOThread(2, (False, True), live)
        error = self.assertRaises(
            libvirt.libvirtError,
            self.silent.updateDeviceFlags,
            disk_xml(path, driver='iothread="2"'),
            live,
        )
        self.assertIn("cannot modify field 'iothread'", str(error))
        # only a disk that is being attached can be given one
        self.silent.attachDeviceFlags(
            disk_xml(self.vdisk(0), 1, 'iothread="2"'), live
        )
        self.assertIn("iothread='2'", self.silent.XMLDesc())
