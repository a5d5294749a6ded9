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
import stat
import threading
from unittest import mock

import fixtures
import testtools

from nova_diskplacer.host import files


class ReplaceTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        directory = self.useFixture(fixtures.TempDir()).path
        self.path = os.path.join(directory, 'file')

    def read(self):
        with open(self.path, encoding='utf-8') as stream:
            return stream.read()

    def test_replace(self):
        for text in ('one', 'ü'):
            for durable in (True, False):
                files.replace(self.path, text, durable=durable)
                self.assertEqual(text, self.read())
        self.assertEqual(['file'], os.listdir(os.path.dirname(self.path)))

    def test_a_symbolic_link_of_somebody_else(self):
        target = self.path + '.target'
        os.symlink(target, self.path + '.diskplacer')
        self.assertRaises(
            OSError, files.replace, self.path, 'one', durable=False
        )
        self.assertFalse(os.path.exists(target))

    def test_mode(self):
        self.addCleanup(os.umask, os.umask(0o077))
        files.replace(self.path, '', durable=True, mode=0o644)
        self.assertEqual(0o100644, os.stat(self.path).st_mode)

    def test_durable(self):
        """What is renamed is on the disk, and then the name too."""
        with mock.patch.object(os, 'fsync') as flushed:
            files.replace(self.path, 'one', durable=False)
            self.assertEqual(0, flushed.call_count)
            with mock.patch.object(os, 'rename', flushed.rename):
                files.replace(self.path, 'two', durable=True)
        self.assertEqual(
            ['', 'rename', ''], [call[0] for call in flushed.mock_calls]
        )

    def test_as_it_was(self):
        files.replace(self.path, 'one', durable=True)
        with mock.patch.object(os, 'fsync', side_effect=OSError(28, 'full')):
            self.assertRaises(
                OSError, files.replace, self.path, 'two', durable=True
            )
        self.assertEqual('one', self.read())

    def test_nothing_is_left_of_what_cannot_be_renamed(self):
        os.mkdir(self.path)
        self.assertRaises(
            IsADirectoryError, files.replace, self.path, 'one', durable=True
        )
        self.assertEqual(['file'], os.listdir(os.path.dirname(self.path)))


class ReplaceLinkTest(testtools.TestCase):
    def test_durable(self):
        """The name is on the disk, and that of a new directory before."""
        root = self.useFixture(fixtures.TempDir()).path
        path = os.path.join(root, 'links', 'link')
        acts = mock.Mock()
        acts.sync.side_effect = files.sync
        acts.rename.side_effect = os.rename
        with (
            mock.patch.object(files, 'sync', acts.sync),
            mock.patch.object(os, 'rename', acts.rename),
        ):
            files.replace_link(path, 'one')
            files.replace_link(path, 'two')
        self.assertEqual('two', os.readlink(path))
        self.assertEqual(['link'], os.listdir(f'{root}/links'))
        renamed = mock.call.rename(mock.ANY, path)
        synced = mock.call.sync(f'{root}/links')
        self.assertEqual(
            [mock.call.sync(root), renamed, synced, renamed, synced],
            acts.mock_calls,
        )


class ExistsTest(testtools.TestCase):
    def test_exists(self):
        directory = self.useFixture(fixtures.TempDir()).path
        link = os.path.join(directory, 'link')
        os.symlink('/no/such', link)
        for path, expected in (
            (directory, True),
            (link, True),
            ('/no/such', False),
            ('/dev/null/file', False),
        ):
            self.assertIs(expected, files.exists(path))

    def test_mount_point(self):
        directory = self.useFixture(fixtures.TempDir()).path
        for path, expected in (
            ('/', True),
            ('/proc', True),
            (directory, False),
            ('/no/such', False),
            ('/dev/null/file', False),
        ):
            self.assertIs(expected, files.is_mount_point(path))

    def test_the_disk_fails(self):
        with mock.patch.object(os, 'lstat', side_effect=OSError(5, 'EIO')):
            self.assertTrue(files.exists('/srv'))
            self.assertTrue(files.is_mount_point('/srv'))


class OverwriteTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        directory = self.useFixture(fixtures.TempDir()).path
        self.path = os.path.join(directory, 'file')
        with open(self.path, 'w') as stream:
            stream.write('one\ntwo\nthree\n')

    def read(self):
        with open(self.path, encoding='utf-8') as stream:
            return stream.read()

    def test_longer_and_shorter(self):
        identity = os.stat(self.path).st_ino
        for text in ('one\ntwo\nthree\nfour\n', 'one\nthree\n', ''):
            files.overwrite(self.path, text)
            self.assertEqual(text, self.read())
        self.assertEqual(identity, os.stat(self.path).st_ino)

    def test_killed_before_it_shrinks(self):
        with (
            mock.patch.object(os, 'ftruncate', side_effect=KeyboardInterrupt),
            testtools.ExpectedException(KeyboardInterrupt),
        ):
            files.overwrite(self.path, 'one\nthree\n')
        self.assertEqual('one\nthree\n\n\n\n\n', self.read())

    def test_disk_full(self):
        """The kernel writes as much as there is space for."""
        write = os.pwrite
        with mock.patch.object(
            os, 'pwrite', lambda file, data, at: write(file, data[:17], at)
        ):
            error = self.assertRaises(
                OSError,
                files.overwrite,
                self.path,
                'one\ntwo\nthree\nfour\n',
            )
        self.assertEqual('No space left on device', error.strerror)
        self.assertEqual('one\ntwo\nthree\n', self.read())

    def test_missing(self):
        self.assertRaises(
            FileNotFoundError, files.overwrite, self.path + '2', ''
        )


class LocksTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        parent = self.useFixture(fixtures.TempDir()).path
        self.path = os.path.join(parent, 'locks')
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.files._lock_directory', self.path
            )
        )

    def refused(self, name):
        try:
            with files.lock(name, wait=False):
                return False
        except BlockingIOError:
            return True

    def test_held(self):
        self.assertFalse(files.is_locked('one'))
        with files.lock('one', wait=True):
            self.assertTrue(files.is_locked('one'))
            self.assertTrue(self.refused('one'))
            self.assertFalse(self.refused('other'))
        self.assertFalse(self.refused('one'))

    def test_released_by_an_error(self):
        def fail():
            with files.lock('one', wait=False):
                raise KeyError

        self.assertRaises(KeyError, fail)
        self.assertFalse(self.refused('one'))

    def test_waits(self):
        order = []

        def second():
            with files.lock('one', wait=True):
                order.append('second')

        with files.lock('one', wait=True):
            other = threading.Thread(target=second)
            other.start()
            other.join(0.1)
            self.assertTrue(other.is_alive())
            order.append('first')
        other.join()
        self.assertEqual(['first', 'second'], order)

    def test_nobody_else_may_open_it(self):
        with files.lock('one', wait=True):
            pass
        for path, wanted in ((self.path, 0o700), (f'{self.path}/one', 0o600)):
            self.assertEqual(wanted, stat.S_IMODE(os.stat(path).st_mode))


class TakeWithinTest(testtools.TestCase):
    def test_another_holder_releases_it(self):
        take = mock.Mock(side_effect=[BlockingIOError, BlockingIOError, None])
        files.take_within(take, BlockingIOError, 60.0)
        self.assertEqual(3, take.call_count)

    def test_another_holder_keeps_it(self):
        take = mock.Mock(side_effect=BlockingIOError)
        self.assertRaises(
            BlockingIOError, files.take_within, take, BlockingIOError, 0.05
        )
        self.assertGreater(take.call_count, 1)

    def test_other_errors(self):
        take = mock.Mock(side_effect=OSError)
        self.assertRaises(
            OSError, files.take_within, take, BlockingIOError, 60.0
        )
        take.assert_called_once_with()
