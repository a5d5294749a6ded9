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

"""Test copying and zeroing with files as devices."""

import os

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import blockcopy

MIB = 1 << 20
SIZE = 10 * MIB


class RawTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        # the filesystem of a temporary file may lack direct I/O
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.lvm.blockcopy._FLAGS', os.O_CLOEXEC
            )
        )
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.source = self.file('source', b'\0' * SIZE)
        self.target = self.file('target', b'x' * SIZE)

    def file(self, name, data):
        path = os.path.join(self.directory, name)
        with open(path, 'wb') as stream:
            stream.write(data)
        return path

    def read(self, path):
        with open(path, 'rb') as stream:
            return stream.read()

    def written(self, work):
        """Return the offsets in MiB at which ``work`` writes."""
        offsets = []
        pwrite = os.pwrite

        def recorded(descriptor, data, offset):
            offsets.append(offset // MIB)
            return pwrite(descriptor, data, offset)

        with fixtures.MonkeyPatch('os.pwrite', recorded):
            work()
        return offsets

    def test_copy(self):
        data = b'a' * 5 * MIB + b'\0' * 3 * MIB + b'b' * 2 * MIB
        self.source = self.file('source', data)
        for compare, again in ((False, [0, 4, 8]), (True, [])):
            self.file('target', b'x' * SIZE + b'y')

            def copy(compare=compare):
                blockcopy.copy(self.source, self.target, SIZE, compare)

            self.assertEqual([0, 4, 8], self.written(copy))
            self.assertEqual(data + b'y', self.read(self.target))
            self.assertEqual(again, self.written(copy))
            self.assertEqual(data + b'y', self.read(self.target))

    def test_rate(self):
        waited = []
        self.useFixture(fixtures.MonkeyPatch('time.sleep', waited.append))
        self.useFixture(fixtures.MonkeyPatch('time.monotonic', lambda: 0.0))
        blockcopy.copy(self.source, self.target, SIZE, rate=2)
        self.assertEqual([0.0, 2.0, 4.0], waited)

    def test_zeros_are_not_copied_onto_zeros(self):
        self.file('target', b'\0' * SIZE)
        self.assertEqual(
            [],
            self.written(
                lambda: blockcopy.copy(self.source, self.target, SIZE)
            ),
        )

    def test_write(self):
        """Parts that are zeros are written only over something else."""
        self.target = self.file('target', bytes(4 * MIB) + b'x' * 6 * MIB)
        parts = ((0, bytes(4 * MIB)), (4 * MIB, bytes(MIB)), (8 * MIB, b'a'))

        def write():
            blockcopy.write(self.target, parts)

        self.assertEqual([4, 8], self.written(write))
        self.assertEqual([8], self.written(write))
        after = self.read(self.target)
        self.assertEqual(bytes(5 * MIB) + b'xxx', after[: 5 * MIB + 3])
        self.assertEqual(b'axx', after[8 * MIB : 8 * MIB + 3])

    def test_clear(self):
        blockcopy.clear(self.target, 3 * MIB, 9 * MIB)
        self.assertEqual(
            b'x' * 3 * MIB + b'\0' * 6 * MIB + b'x' * MIB,
            self.read(self.target),
        )

    def test_zero(self):
        spans = []

        def ioctl(descriptor, request, span):
            spans.append(tuple(span))

        self.useFixture(fixtures.MonkeyPatch('fcntl.ioctl', ioctl))
        blockcopy.zero(self.target, MIB, 41 * MIB)
        self.assertEqual(
            [
                (MIB, 16 * MIB),
                (17 * MIB, 16 * MIB),
                (33 * MIB, 8 * MIB),
            ],
            spans,
        )

    def test_refused(self):
        self.file('source', b'short')
        for source, target, reason in (
            (self.source, self.target, 'short read'),
            ('/no/such', self.target, '/no/such: No such file'),
            (self.source, '/no/such', '/no/such: No such file'),
        ):
            error = self.assertRaises(
                exception.DiskError, blockcopy.copy, source, target, SIZE
            )
            self.assertIn(reason, str(error))

    def test_service_has_ended(self):
        self.useFixture(
            fixtures.MonkeyPatch('concurrent.futures.thread._shutdown', True)
        )
        for work, *arguments in (
            (blockcopy.copy, self.source, self.target, SIZE),
            (blockcopy.clear, self.target, 0, SIZE),
            (blockcopy.zero, self.target),
        ):
            error = self.assertRaises(exception.DiskError, work, *arguments)
            self.assertIn('ended', str(error))
        self.assertEqual(b'x' * SIZE, self.read(self.target))
