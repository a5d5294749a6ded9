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

"""diskplacer-manage disk on devices that become volume groups."""

import contextlib
import functools
import io
import json
import os
import shutil
from unittest import mock

import fixtures
from oslo_config import cfg

from nova_diskplacer import conf
from nova_diskplacer import exception
from nova_diskplacer.agent import reported_disks
from nova_diskplacer.cmd import manage
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.lvm import blockcopy
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import groups as lvm_groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import prepare as lvm_prepare
from nova_diskplacer.disks.lvm import report
from nova_diskplacer.disks.lvm import volumes
from tests import shell
from tests.testbed.lvm import base

GIB = base.GIB


class Killed(BaseException):
    """The process was killed at this point."""


def seen_by_agent(root):
    """Return the disks as the agent compares them.

    Not by its service: to import that takes an emulated guest long.
    """
    return [
        reported_disks.comparable(disk) for disk in discover.discover(root)
    ]


class PrepareTestCase(base.LVMTestCase):
    devices = 1

    def setUp(self):
        super().setUp()
        self.device = self.spare[0]
        self.addCleanup(self.reset)
        self.conf = cfg.ConfigOpts()
        conf.register_opts(self.conf)
        self.conf([], default_config_files=[])
        self.conf.set_override('disk_root', self.root, 'diskplacer')

    def reset(self):
        base.erase(self.device)
        shutil.rmtree(self.root, ignore_errors=True)

    def disks(self):
        """Return the disks in the disk root, there or missing."""
        return [disk.uuid for disk in discover.discover(self.root)]

    def manage(self, *arguments):
        """Run diskplacer-manage disk; returns (status or error, output)."""
        if arguments[0] in ('prepare', 'forget'):
            arguments += ('--fstab', self.fstab)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            args = manage.make_parser(['disk']).parse_args(
                ['disk', *arguments]
            )
            try:
                status = args.handler(self.conf, args)
            except exception.DiskPlacerError as error:
                status = str(error)
        return status, output.getvalue()

    def lvm(self, *arguments):
        """Prepare the device with LVM; returns what is printed as JSON."""
        status, output = self.manage(
            'prepare', '--backend', 'lvm', '--format', 'json',
            self.device, *arguments,
        )  # fmt: skip
        self.assertEqual(0, status)
        return json.loads(output)

    def assertRefused(self, reason, *arguments):
        status, output = self.manage(*arguments)
        self.assertIn(reason, str(status))
        self.assertEqual('', output)

    def test_life(self):
        disk = self.lvm('--no-zero', '--mbps', '90')
        uuid = disk['uuid']
        self.assertEqual(
            ('ok', self.device, 90),
            (disk['health'], disk['device'], disk['mbps']),
        )
        size = int(shell.run('blockdev', '--getsize64', self.device))
        self.assertEqual((size - (66 << 20)) // GIB, disk['total_gb'])
        self.assertIn(uuid, self.manage('list')[1])
        disk = self.lvm('--no-zero', '--medium', 'ssd')
        self.assertEqual(
            (uuid, 'ssd', 400), (disk['uuid'], disk['medium'], disk['mbps'])
        )
        for arguments in (('--wipe',), ('--backend', 'lvm', '--wipe')):
            self.assertRefused('in use', 'prepare', self.device, *arguments)
        volumes.create(uuid, 'volume-1', '1', 'server', GIB)
        for arguments in ((), ('--wipe',), ('--backend', 'lvm', '--wipe')):
            self.assertRefused('in use', 'prepare', self.device, *arguments)
        self.assertRefused('thick', 'prepare', self.device, '--thin',
                           '--backend', 'lvm')  # fmt: skip
        self.assertIn('volume-1', self.manage('show', uuid)[1])
        self.assertRefused('holds 1 vdisks', 'forget', uuid)
        # the agent sees what the command does
        (seen,) = seen_by_agent(self.root)
        self.assertEqual(
            [('volume-1', 'server')],
            [(vdisk.name, vdisk.server_id) for vdisk in seen.vdisks],
        )
        base.purge(uuid)
        self.assertEqual(0, self.manage('forget', uuid)[0])
        self.assertEqual([], self.disks())
        self.assertEqual(0, self.manage('forget', uuid)[0])
        self.assertTrue(lvm_groups.find(uuid).exported)
        self.assertRefused('LVM2_member', 'prepare', self.device)
        self.assertEqual(uuid, self.lvm()['uuid'])
        self.assertEqual(0, self.manage('forget', uuid)[0])
        self.assertNotEqual(uuid, self.lvm('--wipe', '--no-zero')['uuid'])

    def test_zeroed(self):
        places = [(8 << 20, 1 << 20), (GIB, 1 << 20)]
        for offset, size in places:
            base.write(self.device, base.pattern('old', size), offset)
        uuid = self.lvm()['uuid']
        self.assertTrue(base.is_zero(self.device, places))
        self.assertTrue(lvm_groups.find(uuid).zeroed)
        # also when it comes back
        self.assertEqual(0, self.manage('forget', uuid)[0])
        self.assertEqual(uuid, self.lvm('--no-zero', '--mbps', '90')['uuid'])
        self.assertTrue(lvm_groups.find(uuid).zeroed)
        self.assertEqual((), lvm_groups.find(uuid).volumes)

    def test_thin(self):
        disk = self.lvm('--thin')
        group = lvm_groups.find(disk['uuid'])
        self.assertTrue(group.thin)
        pool = f'{group.name}/{naming.POOL}'
        self.assertEqual(
            'zero', shell.run('lvs', '--noheadings', '-o', 'zero', pool)
        )
        self.assertEqual(disk['uuid'], self.lvm('--thin')['uuid'])
        self.assertEqual(0, self.manage('forget', disk['uuid'])[0])
        # it stays what it is, also without the option
        self.assertEqual(disk['uuid'], self.lvm()['uuid'])
        self.assertTrue(lvm_groups.find(disk['uuid']).thin)

    def test_signature(self):
        shell.run('mkfs.ext4', '-q', self.device)
        lvm_ = ('--backend', 'lvm', '--no-zero')
        self.assertRefused('signature', 'prepare', self.device, *lvm_)
        self.assertEqual('ok', self.lvm('--wipe', '--no-zero')['health'])
        uuid = self.disks()[0]
        self.assertEqual(0, self.manage('forget', uuid)[0])
        # a volume group of somebody else
        base.erase(self.device)
        shell.run('vgcreate', 'other', self.device)
        self.assertRefused('signature', 'prepare', self.device, *lvm_)
        # and one of the project's other kind
        base.erase(self.device)
        disk = json.loads(
            self.manage('prepare', self.device, '--format', 'json')[1]
        )
        self.assertRefused('in use', 'prepare', self.device, *lvm_)
        self.assertEqual(0, self.manage('forget', disk['uuid'])[0])
        self.assertRefused('filesystem', 'prepare', self.device, *lvm_)

    def test_devices_file(self):
        """It gets the device of a disk that returns, and of nobody else."""
        uuid = self.lvm('--no-zero')['uuid']
        self.assertEqual(0, self.manage('forget', uuid)[0])
        system = self.useFixture(fixtures.TempDir()).path
        self.useFixture(fixtures.EnvironmentVariable('LVM_SYSTEM_DIR', system))
        with open(f'{system}/lvm.conf', 'w', encoding='ascii') as stream:
            stream.write('devices { use_devicesfile = 1 }\n')
        file = f'{system}/devices/system.devices'
        self.assertEqual(uuid, self.lvm('--no-zero')['uuid'])
        self.assertFalse(os.path.exists(file))
        self.assertEqual(0, self.manage('forget', uuid)[0])
        # LVM sees no device
        os.mkdir(os.path.dirname(file))
        with open(file, 'w', encoding='ascii') as stream:
            stream.write('VERSION=1.1.1\n')
        self.assertEqual('', shell.run('pvs', '--noheadings'))
        self.assertEqual(uuid, self.lvm('--no-zero')['uuid'])
        with open(file, encoding='ascii') as stream:
            added = stream.read()
        self.assertEqual(1, added.count('IDNAME='))
        self.assertIn(self.device, shell.run('pvs', '--noheadings'))
        self.assertEqual('ok', discover.inspect(self.root, uuid).health)
        self.assertEqual(0, self.manage('forget', uuid)[0])
        base.erase(self.device)
        with open(file, 'w', encoding='ascii') as stream:
            stream.write('VERSION=1.1.1\n')
        shell.run('vgcreate', '--devices', self.device, 'other', self.device)
        self.assertRefused(
            'signature', 'prepare', self.device, '--backend', 'lvm'
        )
        with open(file, encoding='ascii') as stream:
            self.assertNotIn('IDNAME=', stream.read())
        os.unlink(file)

    def test_killed_before_any_step(self):
        self.check_killed(lvm_prepare.Options())

    def test_killed_before_any_step_thin(self):
        self.check_killed(lvm_prepare.Options(thin=True))

    def test_killed_before_any_step_of_wiping(self):
        shell.run('mkfs.ext4', '-q', self.device)
        # a thick group takes the same steps without those of the pool
        once = functools.partial(
            self.prepare_once, lvm_prepare.Options(thin=True), wipe=True
        )
        # what has no group yet is wiped anew
        self.assertGreater(self.kill(once, first=3), 3)
        self.assertRefused('in use', 'prepare', self.device, '--wipe')
        self.assertEqual(0, self.manage('forget', *self.disks())[0])

    def check_killed(self, options):
        once = functools.partial(self.prepare_once, options)
        self.assertGreater(self.kill(once), 2)
        (uuid,) = self.disks()
        forget = functools.partial(self.forget_once, uuid)
        self.assertGreater(self.kill(forget), 1)
        self.reset()
        # a physical volume without a group, which a killed vgcreate leaves
        shell.run('pvcreate', self.device)
        once()

    def prepare_once(self, options, wipe=False):
        disk = prepare.prepare(
            self.root,
            self.device,
            medium='hdd',
            wipe=wipe,
            fstab=self.fstab,
            lvm_options=options,
        )
        self.assertEqual('ok', disk.health)
        self.assertEqual([disk.uuid], self.disks())
        group = lvm_groups.find(disk.uuid)
        self.assertEqual(
            (options.thin, not options.thin, ()),
            (group.thin, group.zeroed, group.volumes),
        )

    def forget_once(self, uuid):
        prepare.forget(self.root, uuid, self.fstab)
        self.assertTrue(lvm_groups.find(uuid).exported)
        self.assertEqual([], self.disks())

    def kill(self, work, first=0):
        """Have work die before each of its steps in turn; count them."""
        for steps in range(first, 20):
            left = [steps]

            def step(real, left=left):
                def wrapped(*arguments):
                    if arguments[0] not in ('pvs', 'lvmconfig', 'lvm'):
                        left[0] -= 1
                    if left[0] < 0:
                        raise Killed
                    return real(*arguments)

                return wrapped

            with (
                mock.patch.object(commands, 'run', step(commands.run)),
                mock.patch.object(blockcopy, 'zero', step(self.zero)),
                mock.patch.object(os, 'symlink', step(os.symlink)),
                mock.patch.object(os, 'unlink', step(os.unlink)),
            ):
                try:
                    work()
                except Killed:
                    continue
                return steps
        raise AssertionError('it never ends')

    @staticmethod
    def zero(path):
        """Zero no more than a test can wait for."""


class HealthTestCase(base.LVMTestCase):
    devices = 1

    def setUp(self):
        super().setUp()
        self.addCleanup(shutil.rmtree, self.root)
        self.addCleanup(base.erase, self.spare[0])

    def test_read_only_and_missing(self):
        (device,) = self.spare
        disk = self.prepared(device)

        def health():
            return discover.inspect(self.root, disk.uuid).health

        self.assertEqual('ok', health())
        shell.run('blockdev', '--setro', device)
        self.addCleanup(shell.run, 'blockdev', '--setrw', device)
        self.assertEqual('read-only', health())
        shell.run('blockdev', '--setrw', device)
        shell.run('vgchange', '--activate', 'n', naming.group_name(disk.uuid))
        shell.run('vgexport', naming.group_name(disk.uuid))
        self.assertEqual('missing', health())
        shell.run('vgimport', naming.group_name(disk.uuid))
        self.assertEqual('ok', health())
        shell.run('vgrename', naming.group_name(disk.uuid), 'elsewhere')
        self.assertEqual('missing', health())

    def test_asks_lvm_when_something_has_changed(self):
        (device,) = self.spare
        disk = self.prepared(device)
        discover.inspect(self.root, disk.uuid)
        with mock.patch.object(
            report, 'read', side_effect=report.read
        ) as asked:
            groups = lvm_groups.GroupCache(asked, commands.KnownDevices())
            name = naming.group_name(disk.uuid)
            for _ in range(3):
                groups.get(name)
            known = asked.call_count
            self.assertLess(known, 3)
            shell.run('lvcreate', '--yes', '-L', '64m', '-n', 'x', name)
            self.assertEqual(
                ['x'], [one.name for one in groups.get(name).volumes]
            )
            self.assertEqual(known + 1, asked.call_count)


class NumaTestCase(base.LVMTestCase):
    devices = 4

    def test_the_agent_sees_the_node_of_each_disk(self):
        expected = {}
        for device in self.spare:
            name = os.path.basename(device)
            path = f'/sys/block/{name}/device/../numa_node'
            with open(path, encoding='ascii') as stream:
                node = int(stream.read())
            expected[self.prepared(device, zeroed=False).uuid] = node
        self.assertEqual({0, 1}, set(expected.values()))
        self.assertEqual(
            expected,
            {disk.uuid: disk.numa_node for disk in seen_by_agent(self.root)},
        )
