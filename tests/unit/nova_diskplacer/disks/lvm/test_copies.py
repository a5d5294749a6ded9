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


"""Copies of what other hosts have, with files as devices."""

import os
import types

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks import remote
from nova_diskplacer.disks.lvm import blockcopy
from nova_diskplacer.disks.lvm import copies
from nova_diskplacer.disks.lvm import group_changes
from nova_diskplacer.disks.lvm import groups

MIB = 1 << 20
SOURCE, TARGET = 70 * MIB, 72 * MIB


class RemoteTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        directory = self.useFixture(fixtures.TempDir()).path
        self.source = os.path.join(directory, 'source')
        self.target = os.path.join(directory, 'target')
        self.content = os.urandom(3 * MIB) + bytes(66 * MIB) + b'e' * MIB
        for path, text in (
            (self.source, self.content),
            (self.target, b'x' * TARGET),
        ):
            with open(path, 'wb') as stream:
                stream.write(text)
        self.used = False
        self.volume = types.SimpleNamespace(size_bytes=TARGET)
        for target, name, value in (
            # the filesystem of a temporary file may lack direct I/O
            (blockcopy, '_FLAGS', os.O_CLOEXEC),
            (
                groups,
                'require',
                lambda uuid: types.SimpleNamespace(
                    require_usable=lambda name: self.volume
                ),
            ),
            (group_changes, 'check_unused', self.check_unused),
            (group_changes, 'activate', lambda volume: self.target),
            (remote, 'size_bytes', os.path.getsize),
            (remote, 'parts', self.parts),
        ):
            self.useFixture(fixtures.MockPatchObject(target, name, value))

    def check_unused(self, volume):
        if self.used:
            raise exception.DiskError('in use')

    def parts(self, device, start, stop):
        with open(device, 'rb') as stream:
            stream.seek(start)
            for offset in range(start, stop, 4 * MIB):
                text = stream.read(min(4 * MIB, stop - offset))
                with memoryview(bytearray(text)) as part:
                    yield offset, part

    def copy(self):
        starts, start = [], 0
        while start is not None:
            starts.append(start // MIB)
            start = copies.copy_remote('uuid', 'volume-1', self.source, start)
        return starts

    def test_copy(self):
        """By parts; beyond the end of the other one are zeros."""
        for _ in range(2):
            self.assertEqual([0, 64], self.copy())
            with open(self.target, 'rb') as stream:
                self.assertTrue(stream.read() == self.content + bytes(2 * MIB))

    def test_refused(self):
        self.used = True
        self.assertRaises(exception.DiskError, self.copy)
        self.used = False
        for start in (-1, TARGET):
            self.assertRaises(
                exception.DiskError,
                copies.copy_remote,
                'uuid',
                'volume-1',
                self.source,
                start,
            )
        self.volume.size_bytes = SOURCE - MIB
        error = self.assertRaises(exception.DiskError, self.copy)
        self.assertIn('is smaller than', str(error))
        with open(self.target, 'rb') as stream:
            self.assertEqual(b'x', stream.read(1))
