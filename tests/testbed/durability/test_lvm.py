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
"""What is done to vdisks in volume groups survives a power failure."""

import mmap
import os
from unittest import mock

import fixtures
import testtools

from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import copies
from nova_diskplacer.disks.lvm import group_changes
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import report
from nova_diskplacer.disks.lvm import volumes
from tests.testbed.durability import base
from tests.testbed.lvm import base as lvm_base
from tools.testbed import udev

MIB = base.MIB
SIZE = 4 * MIB
UUID = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'
GROUP = f'diskplacer-{UUID}'


class LVMTestCase(testtools.TestCase):
    """LVM sees one device at a time, where the group is."""

    #: what may leave bytes to the next vdisk
    FREEING = (
        'shrink',
        'delete the snapshot',
        'delete',
        'scratch',
        'remove by hand',
    )

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.lvm.commands._launcher', ()
            )
        )
        self.etc = self.useFixture(fixtures.TempDir()).path
        self.useFixture(
            fixtures.EnvironmentVariable('LVM_SYSTEM_DIR', self.etc)
        )

    def use(self, device):
        """Have LVM see one device only."""
        with open(os.path.join(self.etc, 'lvm.conf'), 'w') as stream:
            stream.write(
                'devices { use_devicesfile = 0\n'
                f'filter = [ "a|^{device}$|", "r|.*|" ] }}\n'
                'backup { backup = 0\n archive = 0 }\n'
            )
        # nothing of the other device is remembered
        patch = mock.patch.object(
            groups,
            '_cache',
            groups.GroupCache(report.read, commands.KnownDevices()),
        )
        patch.start()
        self.addCleanup(patch.stop)

    def let_go(self):
        udev.settle()
        commands.run_retry_udev('vgchange', '--activate', 'n', GROUP)
        udev.settle()

    def test_power_fails_after_each_operation(self):
        recorder = self.useFixture(base.Recorder(72))
        self.use(recorder.path)
        commands.run(
            'vgcreate', f'--addtag={naming.TAG}',
            f'--addtag={naming.UUID}={UUID}',
            f'--addtag={naming.MEDIUM}=hdd', f'--addtag={naming.MBPS}=150',
            GROUP, recorder.path,
        )  # fmt: skip
        expected = []
        try:
            group_changes.mark_zeroed(UUID)
            os.sync()
            for name, work, *arguments in self.operations():
                work(UUID, *arguments)
                if not name.startswith('write'):
                    recorder.mark(name)
                    expected.append((name, self.look()))
        finally:
            self.let_go()
        recorder.stop()
        wrong = []
        for name, wanted in expected:
            with recorder.cut() as device:
                self.use(device)
                try:
                    commands.run('vgchange', '--activate', 'y', GROUP)
                    udev.settle()
                    found = self.look()
                    if found != wanted:
                        wrong.append((name, wanted, found))
                    if name in self.FREEING:
                        self.assertNothingOfOthers(name)
                finally:
                    self.let_go()
        self.assertEqual([], wrong)

    def look(self):
        """Return what the group holds, as far as it has to survive."""
        group = groups.require(UUID)
        return group.zeroed, [
            (volume.vdisk, self.content(volume)) for volume in group.volumes
        ]

    def content(self, volume):
        path = f'/dev/{GROUP}/{volume.name}'
        data = lvm_base.read(path, volume.size_bytes)
        return sorted({data[at : at + 4] for at in range(0, len(data), MIB)})

    def assertNothingOfOthers(self, when):
        """What the next vdisk gets reads as zeros."""
        group = groups.require(UUID)
        size = group.free_bytes // SIZE * SIZE
        volumes.create(UUID, 'volume-9', '9', None, size)
        path = naming.device_path(UUID, 'volume-9')
        self.assertTrue(lvm_base.is_zero(path, [(0, size)]), when)

    def operations(self):
        """Yield the name, the work and the arguments of each operation."""

        def write(uuid, name, word):
            path = naming.device_path(uuid, name)
            size = groups.require(uuid).find(name).size_bytes
            lvm_base.write(path, word * (size // len(word)))

        def scratch(uuid):
            path = volumes.create_temporary(uuid, SIZE)
            lvm_base.write(path, b'much' * (SIZE // 4))
            volumes.remove_temporary(uuid)

        yield 'create', volumes.create, 'volume-1', '1', 'server', SIZE
        yield 'write', write, 'volume-1', b'abcd'
        yield 'snapshot', copies.snapshot, 'volume-1', 'snapshot-1', 's'
        yield 'write again', write, 'volume-1', b'efgh'
        yield (
            'clone', copies.clone,
            'snapshot-1', 'volume-2', '2', 2 * SIZE,
        )  # fmt: skip
        yield 'revert', copies.revert, 'volume-1', 'snapshot-1'
        yield 'extend', volumes.extend, 'volume-1', 3 * SIZE
        yield 'clear', copies.clear, 'volume-2'
        yield 'rename', volumes.rename, 'volume-2', 'volume-3', '3'
        yield 'delete the snapshot', volumes.delete, 'snapshot-1'
        yield 'write more', write, 'volume-1', b'ijkl'
        yield 'shrink', volumes.shrink, 'volume-1', 2 * SIZE
        yield 'delete', self.delete, 'volume-1'
        yield 'scratch', scratch
        yield 'create again', volumes.create, 'volume-4', '4', None, SIZE
        # from here on what is free may hold anything
        yield 'remove by hand', self.remove_by_hand
        yield (
            'create where that was',
            volumes.create,
            'volume-5',
            '5',
            None,
            SIZE,
        )
        yield 'extend there', volumes.extend, 'volume-5', 2 * SIZE

    def delete(self, uuid, name):
        """Wipe as Cinder's dd does, past the page cache, and remove."""
        path, size = volumes.mark_deleted(uuid, name)
        descriptor = os.open(path, os.O_WRONLY | os.O_DIRECT)
        try:
            with mmap.mmap(-1, MIB) as zeros:
                for offset in range(0, size, MIB):
                    os.pwrite(descriptor, zeros, offset)
        finally:
            os.close(descriptor)
        volumes.remove(uuid, name, wiped=True)

    def remove_by_hand(self, uuid):
        """Do as an administrator does, and then as the driver does."""
        path = naming.device_path(uuid, 'volume-4')
        lvm_base.write(path, b'mine' * (SIZE // 4))
        commands.run_retry_udev('lvremove', '--yes', f'{GROUP}/volume-4')
        volumes.rename(uuid, 'volume-3', 'volume-3', '3')
        group_changes.flush(groups.require(uuid))
