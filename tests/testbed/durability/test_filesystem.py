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
"""What is done to vdisks that are files survives a power failure."""

import contextlib
import os
import zlib
from unittest import mock

import testtools

from nova_diskplacer.disks import identity
from nova_diskplacer.disks.filesystem import copies
from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.disks.filesystem import space
from nova_diskplacer.disks.filesystem import vdisks
from tests import shell
from tests.testbed.durability import base

MIB = base.MIB
UUID = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'


class Killed(BaseException):
    """The process was killed at this point."""


def write(disk, name, word):
    """Write all over a vdisk, as a guest that syncs."""
    with open(vdisks.path(disk, name), 'r+b') as stream:
        stream.write(word * (os.fstat(stream.fileno()).st_size // len(word)))
        stream.flush()
        os.fsync(stream.fileno())


def killed_before_the_sync(work, *arguments):
    """Do all but make it durable, and then repeat it."""
    with (
        contextlib.suppress(Killed),
        mock.patch.object(os, 'fsync', side_effect=Killed),
    ):
        work(*arguments)
    work(*arguments)


def look(disk, other):
    """Return what a disk holds, as far as it has to survive."""
    found = {'identity': identity.read(disk)}
    for one in (disk, other):
        if not os.path.isdir(one):
            continue
        found[os.path.basename(one), 'others'] = space.foreign_bytes(
            os.path.join(one, files.DIRECTORY)
        )
        for vdisk in vdisks.scan(one):
            path = vdisks.path(one, vdisk.name)
            status = os.stat(path)
            with open(path, 'rb') as stream:
                content = zlib.crc32(stream.read())
            found[os.path.basename(one), vdisk.name] = (
                vdisk,
                status.st_mode,
                status.st_uid,
                status.st_blocks * 512 >= status.st_size,
                content,
            )
    return found


class FilesystemTestCase(testtools.TestCase):
    def test_power_fails_after_each_operation(self):
        recorder = self.useFixture(base.Recorder(320))
        shell.run('mkfs.xfs', '-q', recorder.path)
        expected = []
        with base.mounted(recorder.path) as top:
            disk, other = (os.path.join(top, name) for name in 'ab')
            for one in (disk, other):
                os.mkdir(one)
                vdisks.make_directory(one)
            os.sync()
            for name, work in self.operations(disk, other):
                work()
                recorder.mark(name)
                expected.append((name, self.look(top)))
        recorder.stop()
        wrong = []
        for name, wanted in expected:
            with recorder.cut() as device, base.mounted(device) as top:
                found = self.look(top)
                if found != wanted:
                    wrong.append((name, wanted, found))
        self.assertEqual([], wrong)

    def look(self, top):
        """Return what both disks hold."""
        found = look(os.path.join(top, 'a'), os.path.join(top, 'b'))
        return {str(key): value for key, value in found.items()}

    def operations(self, disk, other):
        """Yield the name and the work of each operation in turn."""

        def do(work, *arguments):
            return lambda: work(disk, *arguments)

        def killed(work, *arguments):
            return lambda: killed_before_the_sync(work, disk, *arguments)

        yield (
            'identity',
            do(identity.write, identity.Identity(UUID, 'hdd', 150)),
        )
        yield (
            'identity again',
            do(identity.write, identity.Identity(UUID, 'hdd', 99)),
        )
        yield 'create', do(vdisks.create, 'volume-1', '1', 'server', 2 * MIB)
        yield 'write', do(write, 'volume-1', b'before')
        yield 'snapshot', do(copies.snapshot, 'volume-1', 'snapshot-1', 's')
        yield 'write again', do(write, 'volume-1', b'after')
        yield (
            'clone',
            do(copies.clone, 'snapshot-1', 'volume-2', '2', 4 * MIB),
        )
        yield 'extend', do(vdisks.extend, 'volume-1', 5 * MIB)
        yield 'shrink', do(vdisks.shrink, 'volume-1', 3 * MIB)
        yield 'revert', do(copies.revert, 'volume-1', 'snapshot-1')
        yield 'clear', do(copies.clear, 'volume-2')
        yield 'give', do(vdisks.rename, 'volume-2', 'volume-2', '3')
        yield 'rename', do(vdisks.rename, 'volume-2', 'unmanaged-2', '')
        yield (
            'create the copy',
            lambda: vdisks.create(other, 'volume-1', '1', None, 4 * MIB),
        )
        yield 'copy', do(copies.copy, 'volume-1', other, 0)
        yield 'delete', do(vdisks.delete, 'volume-1')
        # what a run that was killed has done all but made durable
        yield 'create later', killed(vdisks.create, 'volume-4', '4', None, MIB)
        yield (
            'snapshot later',
            killed(copies.snapshot, 'volume-4', 'snapshot-4', '4s'),
        )
        yield (
            'clone later',
            killed(copies.clone, 'volume-4', 'volume-5', '5', MIB),
        )
        yield (
            'rename later',
            killed(vdisks.rename, 'volume-5', 'volume-6', '6'),
        )
        yield 'delete later', killed(vdisks.delete, 'volume-6')
