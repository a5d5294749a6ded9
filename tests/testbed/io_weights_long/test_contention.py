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

"""Two servers on one disk: weights follow what they do, and are restored.

QEMU reads for a guest that has its vdisk by virtio; the agent is the real one.
"""

import dataclasses
import os
import pathlib
import signal
import subprocess
import time

import fixtures
import libvirt
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks import identity
from nova_diskplacer.disks import prepare
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.monitor import consumers
from nova_diskplacer.monitor import status_socket
from tests import shell
from tests.testbed import hypervisor
from tools.testbed import machine
from tools.testbed import nested

DEVICE = '/dev/disk/by-id/virtio-disk0'
DEFAULT = 100
# of the lowest of ten classes
LOWEST = 10
PATIENCE = 300
# Seconds for a guest to boot: many times what it takes on an idle machine.
BOOT_PATIENCE = 1500

CONFIG = """
[DEFAULT]
host = testbed
transport_url = fake://
[diskplacer]
disk_root = {path}/disks
[diskplacer_agent]
state_dir = {path}/state
[diskplacer_monitor]
metrics_port = 0
[diskplacer_weights]
mode = on
scale_mb = 2
[placement]
auth_type = none
endpoint_override = http://127.0.0.1:1
"""

# A disk that is limited to 20 MB/s, as diskplacer-manage disk measure has it.
MODEL = """
rbps=19000000 rseqiops=4600 rrandiops=4600
wbps=19000000 wseqiops=4600 wrandiops=4600
"""

BOOT = """
<os>
  <type machine='q35'>hvm</type>
  <kernel>{kernel}</kernel>
  <initrd>{initrd}</initrd>
  <cmdline>{cmdline}</cmdline>
</os>
"""
CONSOLE = "<serial type='file'><source path='{path}.console'/></serial>"
MACHINE = """
<features><acpi/><apic/></features>
<cpu mode='custom' match='exact'><model>{cpu}</model></cpu>
"""


class ContentionTest(testtools.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        hypervisor.start(cls)

    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.conf = self.path / 'diskplacer.conf'
        self.conf.write_text(CONFIG.format(path=self.path))
        self.hierarchy = cgroups.hierarchy()
        device = os.path.realpath(DEVICE)
        self.name = os.path.basename(device)
        number = os.stat(device).st_rdev
        self.number = f'{os.major(number)}:{os.minor(number)}'
        shell.run('modprobe', 'bfq')
        before = block_queue.read(self.name).values['scheduler']
        self.addCleanup(block_queue.write, self.name, 'scheduler', before)
        self.addCleanup(shell.run, 'wipefs', '--all', device)
        self.disk = prepare.prepare(
            str(self.path / 'disks'), device, fstab=str(self.path / 'fstab')
        )
        self.addCleanup(shell.run_retry, 'umount', self.disk.path)
        nested.make_initrd(self.path / 'initrd')
        # it does no I/O, and takes no processor from the other one
        self.victim = self.start_server(
            'victim', flags=libvirt.VIR_DOMAIN_START_PAUSED
        )
        self.hog = self.start_server('hog', nested.SCAN)
        self.eventually(
            'the hog has booted',
            lambda: 'guest: ready' in self.console(),
            BOOT_PATIENCE,
        )

    def console(self):
        path = pathlib.Path(self.disk.path, 'volume-hog.console')
        return path.read_text() if path.exists() else ''

    def start_server(self, name, *words, flags=0):
        """Start a server with a vdisk on the disk."""
        vdisk = pathlib.Path(self.disk.path, f'volume-{name}')
        # what was never written is not read from the disk
        with vdisk.open('wb') as stream:
            stream.write(bytes(64 << 20))
            os.fsync(stream.fileno())
        xml = hypervisor.server(
            name,
            MACHINE.format(cpu=machine.CPUS['tcg']),
            hypervisor.disk(vdisk, 'file') + CONSOLE.format(path=vdisk),
        )
        boot = BOOT.format(
            kernel=nested.KERNEL,
            initrd=self.path / 'initrd',
            cmdline=' '.join([machine.KERNEL, *words]),
        )
        xml = xml.replace("<os><type machine='q35'>hvm</type></os>", boot)
        xml = xml.replace('>16<', f'>{nested.MEMORY_MIB}<')
        domain = self.libvirt.defineXML(xml)
        self.addCleanup(domain.undefine)
        domain.createWithFlags(flags)
        self.addCleanup(hypervisor.destroy, domain)
        return domain

    def manage(self, *argv):
        shell.run('diskplacer-manage', '--config-file', str(self.conf), *argv)

    def start_agent(self):
        """Start the agent, and wait until it weighs."""
        self.agent = subprocess.Popen(
            ['diskplacer-agent', f'--config-file={self.conf}']
        )
        self.addCleanup(self.agent.wait)
        self.addCleanup(self.agent.kill)
        self.eventually('the agent measures', self.status)

    def status(self):
        try:
            return status_socket.fetch(str(self.path / 'state'))
        except exception.DiskPlacerError:
            return None

    def error(self):
        """Return why nothing honours weights, by the agent."""
        (disk,) = self.status().disks or [None]
        return disk.error if disk else 'not seen yet'

    def told(self, domain):
        """Return the class and the weight of a server, by the agent."""
        pairs = self.status().pairs
        place = pairs.servers.index(domain.UUIDString())
        return pairs.classes[place], pairs.weights[place]

    def weight(self, domain, file):
        """Return the weight of a server on the disk, as the kernel has it."""
        (found,) = (
            one
            for one in consumers.find(
                libvirt_servers.list_servers(self.uri), [], self.hierarchy
            ).values()
            if one.key == domain.UUIDString()
        )
        text = pathlib.Path(
            self.hierarchy.path(found.cgroup, file)
        ).read_text()
        weights = dict(line.split() for line in text.splitlines())
        return int(weights.get(self.number, weights['default']))

    def eventually(self, what, true, patience=PATIENCE):
        deadline = time.monotonic() + patience
        while not true():
            if time.monotonic() > deadline:
                self.fail(self.seen(what))
            time.sleep(0.5)

    def seen(self, what):
        """Return what there is to tell when something does not happen."""
        return f'{what}: {self.status()}\n{self.console()}'

    def assert_falls(self, file):
        self.eventually(
            'the hog in the lowest class',
            lambda: self.weight(self.hog, file) == LOWEST,
        )
        self.eventually(
            'the agent tells it', lambda: self.told(self.hog) == (1.0, LOWEST)
        )
        self.assertEqual(DEFAULT, self.weight(self.victim, file))

    def assert_default(self, file):
        for domain in (self.hog, self.victim):
            self.assertEqual(DEFAULT, self.weight(domain, file))

    def test_weights_follow_and_are_restored(self):
        bfq, io_cost = 'io.bfq.weight', 'io.weight'
        block_queue.write(self.name, 'scheduler', 'mq-deadline')
        self.start_agent()
        # the agent sets BFQ
        self.assert_falls(bfq)
        self.assertEqual('', self.error())
        # it does nothing any more
        self.hog.suspend()
        seen = []

        def risen():
            seen.append(self.weight(self.hog, bfq))
            return seen[-1] == DEFAULT

        self.eventually('forgiven', risen)
        self.assertEqual(sorted(seen), seen)
        # a new QEMU, with a new cgroup, as after a hard reboot; the guest goes
        # on where it was, because it takes long to boot
        qemu, saved = self.hog.ID(), str(self.path / 'saved')
        self.hog.save(saved)
        self.libvirt.restoreFlags(saved, None, libvirt.VIR_DOMAIN_SAVE_RUNNING)
        self.assertNotEqual(qemu, self.hog.ID())
        self.assert_falls(bfq)
        self.agent.terminate()
        self.assertEqual(0, self.agent.wait())
        self.assert_default(bfq)
        model = self.path / 'model'
        model.write_text(MODEL)
        self.manage('disk', 'measure', self.disk.uuid, '--from', str(model))
        # a hard disk has no io.cost
        known = identity.read(self.disk.path)
        identity.write(
            self.disk.path, dataclasses.replace(known, medium='ssd')
        )
        self.start_agent()
        self.assert_falls(io_cost)
        values = block_queue.read(self.name).values
        self.assertEqual('mq-deadline', values['scheduler'])
        self.agent.send_signal(signal.SIGKILL)
        self.agent.wait()
        self.assertEqual(LOWEST, self.weight(self.hog, io_cost))
        # what systemd does then
        for _ in range(2):
            shell.run(
                'diskplacer-agent', f'--config-file={self.conf}', '--restore'
            )
            self.assert_default(io_cost)
        for domain in (self.hog, self.victim):
            self.assertTrue(domain.isActive())
            self.assertNotIn('blkiotune', domain.XMLDesc())
