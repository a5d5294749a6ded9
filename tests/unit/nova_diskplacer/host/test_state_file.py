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

import concurrent.futures
import fcntl
import json
import os
import stat

import fixtures
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.host import files
from nova_diskplacer.host import state_file


def parse(fields):
    if fields['count'] < 0:
        raise ValueError('count is negative')
    return fields['count']


class StateFileTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.path = os.path.join(self.directory, 'state.json')

    def write(self, text):
        with open(self.path, 'w') as stream:
            stream.write(text)

    def read(self):
        return state_file.read(self.path, parse, 'a count', 'remove it')

    def test_write_and_read(self):
        self.assertIsNone(self.read())
        for count in (1, 2):
            for durable in (False, True):
                state_file.write(self.path, {'count': count}, durable=durable)
                self.assertEqual(count, self.read())
        self.assertEqual(['state.json'], os.listdir(self.directory))
        with open(self.path) as stream:
            self.assertEqual('{"count": 2}\n', stream.read())

    def test_mode(self):
        state_file.write(self.path, {}, durable=False, mode=0o600)
        self.assertEqual(0o600, stat.S_IMODE(os.stat(self.path).st_mode))

    def test_something_else(self):
        for text, reason in (
            ('', 'Expecting value'),
            ('{', 'Expecting property name'),
            ('[' * 100_000, 'RecursionError'),
            ('9' * 5000, 'Exceeds the limit'),
            ('\0', 'Expecting value'),
            ('[]', 'TypeError'),
            ('{}', "KeyError('count')"),
            ('{"count": null}', 'TypeError'),
            ('{"count": -1}', 'count is negative'),
        ):
            self.write(text)
            error = self.assertRaises(exception.DiskError, self.read)
            self.assertIn(
                f'{self.path} does not contain a count: ', str(error)
            )
            self.assertIn(reason, str(error))
            self.assertTrue(str(error).endswith(': remove it'))

    def test_bytes_that_are_no_text(self):
        with open(self.path, 'wb') as stream:
            stream.write(b'"\xff"')
        error = self.assertRaises(exception.DiskError, self.read)
        self.assertIn('does not contain a count', str(error))

    def test_a_file_without_end(self):
        self.useFixture(fixtures.MockPatchObject(state_file, '_MOST', 1 << 20))
        error = self.assertRaises(
            exception.DiskError, state_file.read, '/dev/zero', parse, 'a count'
        )
        self.assertIn('longer than 1 MiB', str(error))

    def test_a_file_that_cannot_be_read(self):
        os.mkdir(self.path)
        error = self.assertRaises(exception.DiskError, self.read)
        self.assertEqual(f'{self.path}: Is a directory', str(error))

    def test_a_file_that_cannot_be_written(self):
        path = os.path.join(self.directory, 'none', 'state.json')
        error = self.assertRaises(
            exception.DiskError, state_file.write, path, {}, durable=True
        )
        self.assertIn(path, str(error))

    def test_unusable_files_are_logged_once_until_they_can_be_used(self):
        for _ in range(2):
            self.write('{')
            for _ in range(3):
                self.assertIsNone(
                    state_file.read_usable(self.path, parse, 'a count')
                )
            self.write(json.dumps({'count': 3}))
            self.assertEqual(
                3, state_file.read_usable(self.path, parse, 'a count')
            )
        self.assertEqual(2, self.log.output.count('is not used'))

    def test_changes_at_once(self):
        def change(_):
            with state_file.changing(self.path):
                count = (self.read() or 0) + 1
                state_file.write(self.path, {'count': count}, durable=False)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(change, range(40)))
        self.assertEqual(40, self.read())

    def test_others_who_lock_the_directory_do_not_block(self):
        """Any user can open it, and then lock it."""
        with files.opened(self.directory, os.O_RDONLY) as directory:
            fcntl.flock(directory, fcntl.LOCK_EX)
            with state_file.changing(self.path):
                pass
        status = os.stat(self.path + '.lock')
        self.assertEqual(0o600, stat.S_IMODE(status.st_mode))

    def test_a_change_does_not_wait_for_ever(self):
        self.useFixture(fixtures.MockPatchObject(state_file, '_PATIENCE', 0.1))
        with state_file.changing(self.path):
            with self.assertRaisesRegex(
                exception.DiskError, f'{self.path} is being changed by'
            ):
                with state_file.changing(self.path):
                    pass

    def test_a_change_without_directory(self):
        path = os.path.join(self.directory, 'none', 'state.json')
        with self.assertRaisesRegex(exception.DiskError, path):
            with state_file.changing(path):
                pass

    def test_an_error_in_a_change_is_not_the_lock_s(self):
        def fail():
            with state_file.changing(self.path):
                raise OSError(5, 'another')

        self.assertRaises(OSError, fail)
        # and the lock is free again
        with state_file.changing(self.path):
            pass
