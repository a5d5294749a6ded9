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

"""Disks of a testbed guest, as volume groups.

The disks are the guest's spare ones: whatever is on them is destroyed.
"""

import json
import os
import shutil
import subprocess
import tempfile

import fixtures
import testtools

from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.lvm import blockcopy
from nova_diskplacer.disks.lvm import group_changes
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import prepare as lvm_prepare
from nova_diskplacer.disks.lvm import volumes
from tests import shell
from tools.testbed import udev

MIB = 1 << 20
GIB = 1 << 30

# Where the volumes of tests are, at the beginning of a device.
PART = GIB


def spare_devices():
    """Return the disks that nothing is mounted from, large ones first."""
    columns = 'PATH,TYPE,MOUNTPOINTS,SIZE'
    listed = shell.run('lsblk', '--json', '--bytes', '--output', columns)
    spare = [
        one
        for one in json.loads(listed)['blockdevices']
        if one['type'] == 'disk' and not any(_mountpoints(one))
    ]
    spare.sort(key=lambda one: (-one['size'], one['path']))
    return [one['path'] for one in spare]


def _mountpoints(node):
    yield from filter(None, node['mountpoints'])
    for child in node.get('children', ()):
        yield from _mountpoints(child)


def erase(device):
    """Take whatever LVM or another has made of a device off it."""
    udev.settle()
    # not what lsblk tells: udev misses what is closed while it looks at what
    # was closed before, and goes on to have what it found then
    found = shell.run('wipefs', '--noheadings', '--output', 'TYPE', device)
    if 'LVM2_member' in found.split():
        group = shell.run('pvs', '--noheadings', '-o', 'vg_name', device)
        if group:
            subprocess.run(['vgimport', group], capture_output=True)
            shell.run('vgchange', '--activate', 'n', group)
            shell.run('vgremove', '--force', '--force', '--yes', group)
    shell.run('wipefs', '--all', '--force', device)


class LVMTestCase(testtools.TestCase):
    """Has erased devices and a disk root, for all tests of the class."""

    devices = 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.directory = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        os.chmod(cls.directory, 0o755)
        cls.root = os.path.join(cls.directory, 'disks')
        cls.fstab = os.path.join(cls.directory, 'fstab')
        spare = spare_devices()
        if len(spare) < cls.devices:
            raise AssertionError(f'{cls.devices} spare disks are needed')
        cls.spare = spare[: cls.devices]
        for device in cls.spare:
            erase(device)
            cls.addClassCleanup(erase, device)

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        # no test confines another one's commands
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.lvm.commands._launcher', ()
            )
        )

    @classmethod
    def prepared(cls, device, thin=False, zeroed=True):
        """Return a disk; ``zeroed`` has the tests' part of it zeroed."""
        if zeroed:
            blockcopy.zero(device, 0, PART)
        disk = prepare.prepare(
            cls.root,
            device,
            medium='hdd',
            fstab=cls.fstab,
            lvm_options=lvm_prepare.Options(thin=thin, zero=False),
        )
        if zeroed and not thin:
            group_changes.mark_zeroed(disk.uuid)
        return disk


def write(path, data, *offsets):
    """Write to a device at its begin, or elsewhere, until it is there.

    Each time that a device is closed, udev looks at all that is on it, which
    takes the guest long. That has ended, too.
    """
    with open(path, 'r+b', buffering=0) as stream:
        for offset in offsets or (0,):
            os.pwrite(stream.fileno(), data, offset)
        os.fsync(stream.fileno())
    udev.settle()


def read(path, size, offset=0):
    """Read from a device what it holds now."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return os.pread(descriptor, size, offset)
    finally:
        os.close(descriptor)


def pattern(seed, size=MIB):
    """Return bytes that tell ``seed`` from others."""
    return (f'{seed}.'.encode() * (size // len(f'{seed}.') + 1))[:size]


def places(uuid, vdisk):
    """Return where on the disk a volume lies, as (start, size) in bytes."""
    path = f'{naming.group_name(uuid)}/{naming.volume_name(vdisk)}'
    listed = shell.run(
        'lvs', '--segments', '--reportformat', 'json', '--units', 'b',
        '--nosuffix', '-o', 'devices,seg_size', path,
    )  # fmt: skip
    start = int(
        shell.run('pvs', '--noheadings', '--units', 'b', '--nosuffix',
            '-o', 'pe_start', groups.require(uuid).devices[0])
    )  # fmt: skip
    extent = 4 * MIB
    found = []
    for segment in json.loads(listed)['report'][0]['seg']:
        first = int(segment['devices'].rsplit('(', 1)[1].rstrip(')'))
        found.append((start + first * extent, int(segment['seg_size'])))
    return found


def is_zero(path, places):
    """Tell whether ranges of a device hold nothing but zeros."""
    shell.run('blockdev', '--flushbufs', path)
    with open(path, 'rb', buffering=0) as stream:
        for start, size in places:
            for offset in range(start, start + size, 4 * MIB):
                stream.seek(offset)
                step = min(4 * MIB, start + size - offset)
                if stream.read(step).strip(b'\0'):
                    return False
    return True


def purge(uuid):
    """Delete the vdisks of a disk, snapshots first."""
    udev.settle()
    for vdisk in sorted(
        groups.require(uuid).vdisks, key=lambda vdisk: not vdisk.is_snapshot
    ):
        if volumes.mark_deleted(uuid, vdisk.name):
            volumes.zero(uuid, vdisk.name)
        volumes.remove(uuid, vdisk.name, True)
