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

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks import move_records

DISK = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'
OTHER = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d12'
NAME = 'volume-1'
RECORD = move_records.Record(DISK, OTHER)


class MovesTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.root = self.useFixture(fixtures.TempDir()).path
        self.path = os.path.join(self.root, move_records.DIRECTORY, NAME)

    def test_record(self):
        self.assertIsNone(move_records.read(self.root, NAME))
        self.assertEqual({}, move_records.from_disk(self.root, DISK))
        move_records.write(self.root, NAME, move_records.Record(OTHER, DISK))
        move_records.write(self.root, NAME, RECORD)
        self.assertEqual(RECORD, move_records.read(self.root, NAME))
        # the driver reads it, and is not root
        self.assertEqual(0o644, os.stat(self.path).st_mode & 0o777)
        self.assertEqual(
            {NAME: RECORD}, move_records.from_disk(self.root, DISK)
        )
        self.assertEqual({}, move_records.from_disk(self.root, OTHER))
        for _ in range(2):
            move_records.remove(self.root, NAME)
            self.assertIsNone(move_records.read(self.root, NAME))

    def test_what_was_unfilled(self):
        for number in (-3, 0, 3):
            record = RECORD._replace(unfilled_gb=number)
            move_records.write(self.root, NAME, record)
            self.assertEqual(record, move_records.read(self.root, NAME))
        # as an earlier release writes it
        with open(self.path, 'w') as stream:
            stream.write(f'{DISK} {OTHER}\n')
        self.assertEqual(RECORD, move_records.read(self.root, NAME))

    def test_what_is_no_record(self):
        move_records.write(self.root, NAME, RECORD)
        for text in (
            '',
            DISK,
            f'{DISK} ../x',
            f'{DISK} 1',
            f'{DISK} {OTHER} {OTHER}',
            f'{DISK} {OTHER} 1 1',
        ):
            with open(self.path, 'w') as stream:
                stream.write(text)
            self.assertIsNone(move_records.read(self.root, NAME))
            self.assertEqual({}, move_records.from_disk(self.root, DISK))
        with open(self.path, 'wb') as stream:
            stream.write(bytes(range(256)))
        self.assertIsNone(move_records.read(self.root, NAME))

    def test_a_file_that_is_being_replaced(self):
        move_records.write(self.root, NAME, RECORD)
        os.rename(self.path, self.path + '.diskplacer')
        self.assertIsNone(move_records.read(self.root, NAME))
        move_records.write(self.root, NAME, RECORD)
        self.assertEqual(
            {NAME: RECORD}, move_records.from_disk(self.root, DISK)
        )

    def test_it_is_durable(self):
        synced = []

        def fsync(descriptor):
            synced.append(os.readlink(f'/proc/self/fd/{descriptor}'))

        directory = os.path.dirname(self.path)
        with mock.patch('os.fsync', fsync):
            move_records.write(self.root, NAME, RECORD)
            # the new directory, the file, and its name
            self.assertEqual(
                [self.root, self.path + '.diskplacer', directory], synced
            )
            move_records.remove(self.root, NAME)
        self.assertEqual(directory, synced[-1])

    def test_invalid(self):
        for disk in ('', '../etc', DISK.upper()):
            record = move_records.Record(DISK, disk)
            self.assertRaises(
                exception.DiskError,
                move_records.write,
                self.root,
                NAME,
                record,
            )
        for name in ('', '..', 'a/b'):
            for call in (move_records.read, move_records.remove):
                self.assertRaises(exception.DiskError, call, self.root, name)

    def test_errors(self):
        with open(os.path.join(self.root, move_records.DIRECTORY), 'w'):
            pass
        for call in (move_records.read, move_records.remove):
            self.assertRaises(exception.DiskError, call, self.root, NAME)
