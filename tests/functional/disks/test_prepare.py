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

"""diskplacer-manage disk on real devices."""

import contextlib
import dataclasses
import functools
import io
import json
import os
import shutil
import struct
import threading
from unittest import mock

import fixtures
import testtools
from oslo_config import cfg

from nova_diskplacer import conf
from nova_diskplacer import exception
from nova_diskplacer.cmd import manage
from nova_diskplacer.disks import block
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import identity
from nova_diskplacer.disks import prepare
from nova_diskplacer.disks import standby
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.host import commands
from nova_diskplacer.host import files
from nova_diskplacer.host import sysfs
from tests import loops
from tests import shell

# of a filesystem in fstab
OPTIONS = 'nofail,noatime,x-systemd.before=local-fs.target'


class Killed(BaseException):
    """The process was killed at this point."""


@loops.needs_root
class DiskTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        directory = self.useFixture(fixtures.TempDir()).path
        self.root = os.path.join(directory, 'disks')
        self.fstab = os.path.join(directory, 'fstab')
        self.loop = self.useFixture(loops.LoopDevice())
        self.device = self.loop.device
        self.conf = cfg.ConfigOpts()
        conf.register_opts(self.conf)
        self.conf([], default_config_files=[])
        self.conf.set_override('disk_root', self.root, 'diskplacer')

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

    def prepared(self, *arguments):
        """Prepare a disk; returns what is printed as JSON."""
        status, output = self.manage('prepare', '--format', 'json', *arguments)
        self.assertEqual(0, status)
        return json.loads(output)

    def assertRefused(self, reason, *arguments):
        status, output = self.manage(*arguments)
        self.assertIn(reason, str(status))
        self.assertEqual('', output)

    def disks(self):
        """Return the disks in the disk root, there or missing."""
        return [disk.uuid for disk in discover.discover(self.root)]

    def entries(self):
        """Return the entries of the fstab."""
        if not os.path.exists(self.fstab):
            return []
        with open(self.fstab) as stream:
            return stream.read().splitlines()


class DeviceTestCase(DiskTestCase):
    def test_life(self):
        disk = self.prepared(self.device)
        uuid, path = disk['uuid'], disk['path']
        self.assertEqual(os.path.join(self.root, uuid), path)
        self.assertEqual([path], self.loop.mountpoints())
        self.assertEqual(
            [f'UUID={uuid} {path} xfs {OPTIONS} 0 0'], self.entries()
        )
        self.assertEqual(
            ('ok', self.device, 4, 4),
            (
                disk['health'],
                disk['device'],
                disk['total_gb'],
                disk['free_gb'],
            ),
        )
        self.assertIn('reflink=1', shell.run('xfs_info', path))
        self.assertIn('TYPE="xfs"', shell.run('blkid', '-p', self.device))
        again = self.prepared(self.device)
        self.assertEqual(uuid, again['uuid'])
        self.assertEqual(1, len(self.entries()))

        vdisks.create(path, 'volume-1', '1', None, GIB)
        status, output = self.manage('list')
        self.assertEqual(0, status)
        self.assertIn(uuid, output)
        _, output = self.manage('show', uuid)
        self.assertIn(uuid, output)
        _, output = self.manage('list', '--format', 'json')
        self.assertEqual(
            [(uuid, 4, 3, 1)],
            [
                (
                    one['uuid'],
                    one['total_gb'],
                    one['free_gb'],
                    len(one['vdisks']),
                )
                for one in json.loads(output)
            ],
        )
        self.assertRefused('holds 1 vdisks', 'forget', uuid)
        self.assertRefused('in use: mounted', 'prepare', self.device, '--wipe')
        vdisks.delete(path, 'volume-1')
        self.assertEqual(0, self.manage('forget', uuid)[0])
        self.assertEqual([], self.loop.mountpoints())
        self.assertEqual([], self.entries())
        self.assertEqual([], self.disks())
        self.assertTrue(discover.is_forgotten(self.root, uuid))
        self.assertRefused('no disk', 'show', uuid)
        # again
        self.assertEqual(0, self.manage('forget', uuid)[0])

        # what is on it stays, so it is the same disk when it comes back
        self.assertEqual(uuid, self.prepared(self.device)['uuid'])
        self.assertEqual([uuid], os.listdir(self.root))

    def test_fstab_is_a_mount_point(self):
        """As in a container that has the host's file."""
        on_host = self.fstab + '-on-host'
        before = '# the root disk\n/dev/sda1 / ext4 defaults 0 1\n'
        for path, text in ((on_host, before), (self.fstab, '')):
            with open(path, 'w') as stream:
                stream.write(text)
        shell.run('mount', '--bind', on_host, self.fstab)
        self.addCleanup(shell.run, 'umount', self.fstab)

        disk = self.prepared(self.device)
        with open(on_host) as stream:
            self.assertEqual(
                f'{before}UUID={disk["uuid"]} {disk["path"]} xfs '
                f'{OPTIONS} 0 0\n',
                stream.read(),
            )
        self.assertEqual(0, self.manage('forget', disk['uuid'])[0])
        with open(on_host) as stream:
            self.assertEqual(before, stream.read())
        self.assertEqual(
            ['disks', 'fstab', 'fstab-on-host'],
            sorted(os.listdir(os.path.dirname(self.fstab))),
        )

    def test_forget_removes_the_standby_timeout(self):
        disk = self.prepared(self.device)
        calls = []
        run = commands.run

        def hdparm(*command, **arguments):
            if command[0] != 'hdparm':
                return run(*command, **arguments)
            calls.append(command)
            if len(calls) > 1:
                raise exception.DiskError('it is no ATA disk')
            return ''

        self.useFixture(
            fixtures.MonkeyPatch('nova_diskplacer.host.commands.run', hdparm)
        )
        for _ in range(2):
            standby.set_mark(disk['path'], True)
            self.assertEqual(0, self.manage('forget', disk['uuid'])[0])
            self.assertEqual(set(), standby.marked(self.root))
            self.assertEqual([], self.disks())
            self.prepared(self.device)
        self.assertEqual(2 * [('hdparm', '-q', '-S', '0', self.device)], calls)
        # without a mark nobody has set one
        self.assertEqual(0, self.manage('forget', disk['uuid'])[0])
        self.assertEqual(2, len(calls))

    def test_forget_a_disk_that_is_not_there(self):
        disk = self.prepared(self.device)
        other = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'
        status, output = self.manage('forget', other)
        self.assertEqual(0, status)
        self.assertIn(f'{other} is not in {self.root}', output)
        self.assertTrue(discover.is_forgotten(self.root, other))
        self.assertEqual([disk['uuid']], self.disks())
        self.assertRefused('not the UUID of a disk', 'forget', 'x')

    def test_forget_a_disk_that_is_busy(self):
        """It stays as it was: drained, and not forgotten."""
        disk = self.prepared(self.device)
        uuid, path = disk['uuid'], disk['path']
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.commands.DEVICE_ATTEMPTS', 1
            )
        )
        for draining in (True, False):
            discover.set_draining(self.root, uuid, draining)
            with open(os.path.join(path, 'open'), 'w'):
                self.assertRefused('umount', 'forget', uuid)
            self.assertEqual('ok', self.prepared(self.device)['health'])
            self.assertEqual(
                [uuid] + [f'{uuid}.draining'] * draining,
                sorted(os.listdir(self.root)),
            )
        self.assertEqual(0, self.manage('forget', uuid)[0])

    def test_forget_that_is_interrupted(self):
        uuid = self.prepared(self.device)['uuid']
        for interrupt in (KeyboardInterrupt, SystemExit):
            with mock.patch.object(
                prepare, '_remove_entry', side_effect=interrupt
            ):
                self.assertRaises(
                    interrupt, prepare.forget, self.root, uuid, self.fstab
                )
            self.assertEqual([uuid], os.listdir(self.root))

    def test_a_vdisk_that_comes_meanwhile(self):
        """No vdisk comes to a disk that is withheld, but one may have."""
        disk = self.prepared(self.device)
        uuid, path = disk['uuid'], disk['path']
        set_draining = discover.set_draining

        def create(disk_root, uuid, draining):
            vdisks.create(path, 'volume-1', '1', None, GIB)
            set_draining(disk_root, uuid, draining)

        with mock.patch.object(discover, 'set_draining', create):
            self.assertRefused('holds 1 vdisks', 'forget', uuid)
        self.assertEqual([path], self.loop.mountpoints())

    def test_medium_and_throughput(self):
        rotational = f'/sys/class/block/{os.path.basename(self.device)}/queue'
        with open(rotational + '/rotational') as stream:
            medium = 'hdd' if stream.read().strip() == '1' else 'ssd'
        disk = self.prepared(self.device)
        self.assertEqual(
            (medium, identity.DEFAULT_MBPS[medium]),
            (disk['medium'], disk['mbps']),
        )
        for arguments, expected in (
            (('--mbps', '90'), (medium, 90)),
            ((), (medium, 90)),
            (('--medium', 'ssd', '--mbps', '500'), ('ssd', 500)),
            (('--medium', 'hdd'), ('hdd', 150)),
        ):
            disk = self.prepared(self.device, *arguments)
            self.assertEqual(expected, (disk['medium'], disk['mbps']))

    def test_signature(self):
        shell.run('mkfs.ext4', '-q', self.device)
        self.assertRefused('signature (ext4)', 'prepare', self.device)
        self.assertEqual([], self.entries())
        self.assertEqual('ok', self.prepared(self.device, '--wipe')['health'])

    def test_partitioned(self):
        with open(self.device, 'r+b') as stream:
            # an MBR with a partition of 1 GiB from sector 2048 on
            stream.seek(446)
            stream.write(struct.pack('<4xB3xII', 0x83, 2048, 1 << 21))
            stream.seek(510)
            stream.write(b'\x55\xaa')
        part = self.device + 'p1'
        shell.run('blockdev', '--rereadpt', self.device)
        if not os.path.exists(part):
            # a kernel that cannot read the table has to be told
            shell.run('partx', '--add', self.device)
        self.assertRefused(f'partitioned ({part})', 'prepare', self.device)
        shell.run('mkfs.xfs', '-q', part)
        target = self.useFixture(fixtures.TempDir()).path
        shell.run('mount', part, target)
        self.assertRefused('in use', 'prepare', self.device, '--wipe')
        shell.run('umount', target)
        self.assertEqual('ok', self.prepared(self.device, '--wipe')['health'])
        self.assertFalse(os.path.exists(part))

    def test_mounted_elsewhere(self):
        shell.run('mkfs.xfs', '-q', self.device)
        target = self.useFixture(fixtures.TempDir()).path
        shell.run('mount', self.device, target)
        for wipe in ((), ('--wipe',)):
            self.assertRefused('in use', 'prepare', self.device, *wipe)
        self.assertEqual([target], self.loop.mountpoints())

    def test_held_open(self):
        holder = os.open(self.device, os.O_RDONLY | os.O_EXCL)
        self.addCleanup(os.close, holder)
        self.assertRefused('in use', 'prepare', self.device, '--wipe')

    def test_root_disk(self):
        source = shell.run('findmnt', '-n', '-o', 'SOURCE', '/')
        if not os.path.exists(source):
            self.skipTest(f'/ is on {source}, which is no device')
        self.assertRefused('root disk', 'prepare', source, '--wipe')

    def test_neither_device_nor_directory(self):
        self.assertRefused('neither', 'prepare', '/dev/null')
        self.assertRefused('No such file', 'prepare', '/no/such')

    def test_wiped_disk_is_another_disk(self):
        first = self.prepared(self.device)['uuid']
        self.manage('forget', first)
        second = self.prepared(self.device, '--wipe')['uuid']
        self.assertNotEqual(first, second)
        self.assertEqual([second], self.disks())

    def test_a_disk_that_is_not_mounted_is_not_wiped(self):
        disk = self.prepared(self.device)
        self.loop.unmount()
        for backend in ((), ('--backend', 'lvm')):
            self.assertRefused(
                'forget that first', 'prepare', self.device, '--wipe', *backend
            )
        self.assertEqual(disk['uuid'], self.prepared(self.device)['uuid'])

    def test_killed_mkfs(self):
        block.make_filesystem(
            self.device, '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'
        )
        shell.run(
            'xfs_db', '-x', '-c', 'sb 0', '-c', 'write inprogress 1',
            self.device,
        )  # fmt: skip
        self.assertEqual('ok', self.prepared(self.device)['health'])

    def test_killed_before_any_step(self):
        steps = [
            'os.makedirs',
            'nova_diskplacer.host.fstab.add',
            'nova_diskplacer.disks.filesystem.vdisks.make_directory',
            'nova_diskplacer.disks.identity.write',
            'nova_diskplacer.disks.discover.inspect',
        ]
        commands = ['mkfs.xfs', 'mount']
        for step in [*commands, *steps]:
            self.check_killed(step)
            self.forget(self.disks()[0])
            shell.run('wipefs', '--all', self.device)

    def test_killed_before_any_step_of_wiping(self):
        shell.run('mkfs.ext4', '-q', self.device)
        for step in (
            'wipefs',
            'mkfs.xfs',
            'mount',
            'nova_diskplacer.host.fstab.add',
            'nova_diskplacer.disks.filesystem.vdisks.make_directory',
            'nova_diskplacer.disks.identity.write',
        ):
            self.check_killed(step, '--wipe')
            self.assertRefused('in use', 'prepare', self.device, '--wipe')
            prepare.forget(self.root, self.disks()[0], self.fstab)

    def check_killed(self, step, *wipe):
        """Repeat a command that was killed before a step."""
        with self.killed_before(step):
            self.assertRaises(
                Killed,
                prepare.prepare,
                self.root,
                self.device,
                wipe=bool(wipe),
                fstab=self.fstab,
            )
        disk = self.prepared(self.device, *wipe)
        self.assertEqual('ok', disk['health'], step)
        self.assertEqual([disk['uuid']], self.disks(), step)
        self.assertEqual(1, len(self.entries()), step)

    def test_fstab_in_latin_1(self):
        before = b'# Fr\xfcher\n/dev/sda1 / ext4 defaults 0 1\n'
        with open(self.fstab, 'wb') as stream:
            stream.write(before)
        disk = self.prepared(self.device)
        self.assertEqual('ok', disk['health'])
        with open(self.fstab, 'rb') as stream:
            self.assertEqual(
                before
                + f'UUID={disk["uuid"]} {disk["path"]} xfs '
                f'{OPTIONS} 0 0\n'.encode(),
                stream.read(),
            )
        self.assertEqual(0, self.manage('forget', disk['uuid'])[0])
        with open(self.fstab, 'rb') as stream:
            self.assertEqual(before, stream.read())

    def test_what_fails_without_the_device_comes_first(self):
        shell.run('mkfs.ext4', '-q', self.device)
        before = shell.run('blkid', '-p', self.device)
        wipe = 'prepare', self.device, '--wipe'
        os.mkdir(self.fstab)
        self.assertRefused('Is a directory', *wipe)
        os.rmdir(self.fstab)
        for name in ('mkfs.xfs', 'mount'):
            found = functools.partial(self.found_without, name)
            with mock.patch.object(shutil, 'which', found):
                self.assertRefused(f'{name} is not installed', *wipe)
        unknown = sysfs.Block()
        with mock.patch.object(sysfs, 'find_device', return_value=unknown):
            self.assertRefused('set --medium', *wipe)
        self.assertEqual(before, shell.run('blkid', '-p', self.device))

    @staticmethod
    def found_without(missing, name):
        return None if name == missing else name

    def test_one_command_at_a_time(self):
        number = os.stat(self.device).st_rdev
        with files.lock(f'prepare-{number}', wait=True):
            self.assertRefused('by another process', 'prepare', self.device)
        self.assertEqual('ok', self.prepared(self.device)['health'])

    def forget(self, uuid):
        """Forget a disk, killed before each step; then for good."""
        for step in (
            'nova_diskplacer.disks.discover.set_forgotten',
            'umount',
            'nova_diskplacer.host.fstab.remove',
            'os.rmdir',
        ):
            with self.killed_before(step):
                self.assertRaises(
                    Killed, prepare.forget, self.root, uuid, self.fstab
                )
                self.assertFalse(discover.is_forgotten(self.root, uuid))
        prepare.forget(self.root, uuid, self.fstab)
        self.assertTrue(discover.is_forgotten(self.root, uuid))
        self.assertEqual([], self.disks())
        self.assertEqual([], self.entries())
        self.assertEqual([], self.loop.mountpoints())

    @contextlib.contextmanager
    def killed_before(self, step):
        """Have the process die when it comes to a command or function."""
        if '.' in step and not step.startswith('mkfs'):
            with mock.patch(step, side_effect=Killed):
                yield
            return
        run = commands.run

        def dying(*command, **options):
            if command[0] == step:
                raise Killed
            return run(*command, **options)

        with mock.patch.object(commands, 'run', dying):
            yield


class DirectoryTestCase(DiskTestCase):
    def setUp(self):
        super().setUp()
        self.target = self.useFixture(fixtures.TempDir()).path

    def mount(self):
        """Mount a filesystem of its own at the directory."""
        shell.run('mkfs.xfs', '-q', self.device)
        shell.run('mount', self.device, self.target)

    def test_life(self):
        self.assertRefused('not a mount point', 'prepare', self.target)
        self.mount()
        disk = self.prepared(self.target)
        uuid = disk['uuid']
        self.assertEqual(('ok', 4), (disk['health'], disk['total_gb']))
        self.assertEqual(
            self.target, os.readlink(os.path.join(self.root, uuid))
        )
        self.assertEqual([], self.entries())
        self.assertEqual(uuid, self.prepared(self.target)['uuid'])
        self.assertRefused('only devices', 'prepare', self.target, '--wipe')
        self.assertRefused('in use', 'prepare', self.device)
        vdisks.create(disk['path'], 'volume-1', '1', None, GIB)
        self.assertRefused('holds 1 vdisks', 'forget', uuid)
        vdisks.delete(disk['path'], 'volume-1')
        self.manage('forget', uuid)
        self.assertEqual([], self.disks())
        self.assertEqual([self.target], self.loop.mountpoints())
        self.assertEqual(uuid, self.prepared(self.target)['uuid'])

    def test_beside_a_volume_group_without_active_volumes(self):
        self.mount()
        uuid = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'
        path = os.path.join(self.root, uuid)
        os.makedirs(self.root)
        os.symlink(f'/dev/diskplacer-{uuid}', path)
        disk = dataclasses.replace(
            discover.missing(uuid, path), health=discover.OK
        )
        with mock.patch.object(discover, 'discover', return_value=[disk]):
            self.assertEqual('ok', self.prepared(self.target)['health'])

    def test_directory_of_a_prepared_device(self):
        disk = self.prepared(self.device)
        again = self.prepared(disk['path'])
        self.assertEqual(disk['uuid'], again['uuid'])
        self.assertEqual([disk['uuid']], self.disks())

    def test_forget_while_somebody_looks(self):
        disk = self.prepared(self.device)
        looking = os.open(disk['path'], os.O_RDONLY)
        threading.Timer(0.5, os.close, [looking]).start()
        self.assertEqual(0, self.manage('forget', disk['uuid'])[0])
        self.assertEqual([], self.loop.mountpoints())

    def test_one_filesystem_is_one_disk(self):
        disk = self.prepared(self.device)
        shell.run('mount', '--bind', disk['path'] + '/vdisks', self.target)
        self.addCleanup(shell.run, 'umount', self.target)
        self.assertRefused(
            f'same filesystem as disk {disk["uuid"]}', 'prepare', self.target
        )

    def test_root_filesystem(self):
        self.assertRefused('root disk', 'prepare', '/')

    def test_copy(self):
        self.mount()
        disk = self.prepared(self.target)
        other = self.useFixture(loops.LoopDevice())
        shell.run('mkfs.xfs', '-q', other.device)
        target = self.useFixture(fixtures.TempDir()).path
        shell.run('mount', other.device, target)
        identity.write(target, identity.Identity(disk['uuid'], 'hdd', 1))
        self.assertRefused('is a copy', 'prepare', target)

    def test_filesystem_that_cannot_hold_vdisks(self):
        shell.run('mount', '-t', 'ramfs', 'none', self.target)
        self.addCleanup(shell.run, 'umount', self.target)
        self.assertRefused('set --medium', 'prepare', self.target)
        self.assertRefused(
            'cannot hold vdisks', 'prepare', self.target, '--medium', 'ssd'
        )

    def test_disk_that_went_read_only(self):
        disk = self.prepared(self.device)
        log = self.useFixture(fixtures.FakeLogger())
        shell.run('mount', '-o', 'remount,ro', disk['path'])
        _, output = self.manage('show', disk['uuid'], '--format', 'json')
        self.assertEqual('read-only', json.loads(output)['health'])
        self.disks()
        shell.run('mount', '-o', 'remount,rw', disk['path'])
        self.disks()
        path = disk['path']
        self.assertEqual(
            [
                f"Disk {path} is read-only, see the kernel's log",
                f'Disk {path} is ok again',
            ],
            log.output.splitlines(),
        )
        shell.run('mount', '-o', 'remount,ro', disk['path'])
        self.assertRaises(
            exception.DiskError,
            vdisks.create,
            disk['path'],
            'volume-1',
            '1',
            None,
            GIB,
        )

    def test_disk_that_fails(self):
        disk = self.prepared(self.device)
        shell.run('xfs_io', '-x', '-c', 'shutdown', disk['path'])
        _, output = self.manage('list', '--format', 'json')
        self.assertEqual('missing', json.loads(output)[0]['health'])
        for change, arguments in (
            (vdisks.create, ('volume-1', '1', None, GIB)),
            (vdisks.delete, ('volume-1',)),
        ):
            self.assertRaises(
                exception.DiskError, change, disk['path'], *arguments
            )
        shell.run('umount', disk['path'])
        self.assertEqual('ok', self.prepared(self.device)['health'])

    def test_log_of_a_disk_that_fails(self):
        path = self.prepared(self.device)['path']
        log = self.useFixture(fixtures.FakeLogger())
        shell.run('xfs_io', '-x', '-c', 'shutdown', path)
        for _ in range(3):
            self.disks()
        error = self.assertRaises(
            exception.DiskError,
            discover.require_mounted,
            self.root,
            os.path.basename(path),
        )
        reason = (
            'is missing: its filesystem is mounted, but fails: Input/output '
            "error; see the kernel's log"
        )
        self.assertEqual(f'Disk {path} {reason}\n', log.output)
        self.assertEqual(f'disk {path} {reason}', str(error))

    def test_forget_a_disk_that_fails(self):
        disk = self.prepared(self.device)
        shell.run('xfs_io', '-x', '-c', 'shutdown', disk['path'])
        discover.set_forgotten(self.root, disk['uuid'], True)
        self.assertFalse(discover.is_forgotten(self.root, disk['uuid']))
        self.assertEqual(0, self.manage('forget', disk['uuid'])[0])
        self.assertEqual([], self.loop.mountpoints())
        self.assertEqual([], self.entries())
        self.assertEqual([], self.disks())
        self.assertTrue(discover.is_forgotten(self.root, disk['uuid']))

    def test_disk_that_was_unmounted(self):
        disk = self.prepared(self.device)
        shell.run('umount', disk['path'])
        _, output = self.manage('list', '--format', 'json')
        self.assertEqual('missing', json.loads(output)[0]['health'])
        self.assertEqual('ok', self.prepared(self.device)['health'])
