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

"""Entries in a file like /etc/fstab."""

import contextlib
import errno
import os
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import fixtures
import testtools

from nova_diskplacer.host import fstab

BEFORE = '# disks\n/dev/sda1 / ext4 defaults 0 1\n\n/dev/sdb /mnt/a xfs 0 0'

OPTIONS = 'nofail,noatime,x-systemd.before=local-fs.target'


class FstabTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.fstab = os.path.join(self.directory, 'fstab')
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.files._lock_directory',
                self.useFixture(fixtures.TempDir()).path,
            )
        )

    def read(self):
        with open(self.fstab) as stream:
            return stream.read()

    def test_add_and_remove(self):
        with open(self.fstab, 'w') as stream:
            stream.write(BEFORE)
        for _ in range(2):
            fstab.add(self.fstab, 'u-1', '/mnt/u-1')
        self.assertEqual(
            f'{BEFORE}\nUUID=u-1 /mnt/u-1 xfs {OPTIONS} 0 0\n',
            self.read(),
        )
        for _ in range(2):
            fstab.remove(self.fstab, '/mnt/u-1')
        self.assertEqual(BEFORE + '\n', self.read())
        self.assertEqual(['fstab'], os.listdir(self.directory))

    def test_an_entry_of_an_earlier_release(self):
        """What it has made is replaced, what people have changed stays."""
        for options, after in (
            ('nofail,noatime', OPTIONS),
            ('nofail', 'nofail'),
            ('noatime', 'noatime'),
        ):
            with open(self.fstab, 'w') as stream:
                stream.write(f'{BEFORE}\nUUID=u-1 /u xfs {options} 0 0\n#\n')
            fstab.add(self.fstab, 'u-1', '/u')
            self.assertEqual(
                f'{BEFORE}\nUUID=u-1 /u xfs {after} 0 0\n#\n', self.read()
            )

    def test_a_device_for_which_services_do_not_wait(self):
        for _ in range(2):
            fstab.add(self.fstab, 'u-1', '/u', waits=False)
            self.assertIn('UUID=u-1 /u xfs nofail,noatime 0 0\n', self.read())

    def test_bytes_of_others_stay(self):
        entry = f'UUID=u-1 /mnt/u-1 xfs {OPTIONS} 0 0\n'.encode()
        for before in (
            # a comment in Latin-1
            b'# Fr\xfcher\n/dev/sda1 / ext4 defaults 0 1\n',
            '# Früher\u2028\x85\n'.encode(),
            b'/dev/sda1 / ext4 defaults 0 1\r\n',
            b'/dev/sda1\t/\text4\x0b\x0c x\n\n\n',
            b'\x00\xff\xfe\n',
            b'',
            b'\n',
        ):
            for kind in ('file', 'mount point'):
                with open(self.fstab, 'wb') as stream:
                    stream.write(before)
                with contextlib.ExitStack() as stack:
                    if kind == 'mount point':
                        busy = OSError(errno.EBUSY, 'busy')
                        stack.enter_context(
                            mock.patch.object(os, 'rename', side_effect=busy)
                        )
                    fstab.check(self.fstab)
                    fstab.add(self.fstab, 'u-1', '/mnt/u-1')
                    self.assertEqual(before + entry, self.read_bytes())
                    self.assertTrue(fstab.has(self.fstab, '/mnt/u-1'))
                    fstab.remove(self.fstab, '/mnt/u-1')
                    self.assertEqual(before, self.read_bytes())

    def read_bytes(self):
        with open(self.fstab, 'rb') as stream:
            return stream.read()

    def test_white_space_of_unicode_separates_no_fields(self):
        with open(self.fstab, 'w') as stream:
            stream.write('x\u00a0y /mnt/u-1 xfs defaults 0 0\n')
        self.assertTrue(fstab.has(self.fstab, '/mnt/u-1'))

    def test_mode_and_link_stay(self):
        target = self.fstab + '.target'
        with open(target, 'w') as stream:
            stream.write('//server/share /mnt cifs password=secret 0 0\n')
        os.chmod(target, 0o600)
        os.symlink(target, self.fstab)
        fstab.add(self.fstab, 'u-1', '/mnt/u-1')
        self.assertTrue(os.path.islink(self.fstab))
        self.assertEqual(0o100600, os.stat(target).st_mode)
        self.assertTrue(fstab.has(target, '/mnt/u-1'))

    def test_check(self):
        fstab.check(self.fstab)
        self.assertFalse(os.path.exists(self.fstab))
        self.assertRaises(
            FileNotFoundError, fstab.check, self.directory + '/none/fstab'
        )
        os.mkdir(self.fstab)
        self.assertRaises(IsADirectoryError, fstab.check, self.fstab)
        os.rmdir(self.fstab)
        with mock.patch.object(os, 'access', return_value=False):
            self.assertRaises(PermissionError, fstab.check, self.fstab)

    def test_two_commands_at_once(self):
        """Neither loses the entry of the other one."""
        with ThreadPoolExecutor(8) as pool:
            for number in range(12):
                pool.submit(fstab.add, self.fstab, f'u-{number}', f'/{number}')
        self.assertEqual(12, len(self.read().splitlines()))

    def test_only_the_entry_itself_is_removed(self):
        with open(self.fstab, 'w') as stream:
            stream.write(BEFORE + '\n# /dev/sdc /mnt/a xfs\n')
        fstab.remove(self.fstab, '/mnt')
        fstab.remove(self.fstab, '/mnt/a/b')
        self.assertEqual(BEFORE + '\n# /dev/sdc /mnt/a xfs\n', self.read())

    def test_no_file_yet(self):
        fstab.remove(self.fstab, '/mnt/a b')
        self.assertFalse(os.path.exists(self.fstab))
        for _ in range(2):
            fstab.add(self.fstab, 'u-1', '/mnt/a b')
        self.assertEqual(
            f'UUID=u-1 /mnt/a\\040b xfs {OPTIONS} 0 0\n', self.read()
        )
