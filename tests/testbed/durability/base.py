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
"""A device that is cut off: what was not flushed is lost.

All writes go through dm-log-writes. What it has logged before a flush is
complete is what survives if the power fails right then, in a device that
keeps what it must and nothing else.
"""

import contextlib
import os
import struct
import tempfile

import fixtures

from nova_diskplacer.disks.lvm import blockcopy
from tests import shell
from tests.testbed.lvm import base
from tools.testbed import udev

MIB = base.MIB

_SECTOR = 512
_MAGIC = 0x6A736677736872
_SUPER = struct.Struct('<QQQI')
_ENTRY = struct.Struct('<QQQQ')
_FLUSH, _FUA, _DISCARD, _MARK = 1, 2, 4, 8


class Recorder(fixtures.Fixture):
    """A device of some MiB, ``path``, of which all writes are recorded."""

    path = '/dev/mapper/recorded'

    def __init__(self, mib):
        super().__init__()
        self.sectors = mib * MIB // _SECTOR

    def _setUp(self):
        self.device, self.log, self.replayed, self.changes = (
            base.spare_devices()[:4]
        )
        for device in (self.device, self.replayed):
            # not what LVM does, to which the one is the same as the other
            self.addCleanup(shell.run, 'wipefs', '--all', '--force', device)
            self.addCleanup(udev.settle)
            blockcopy.zero(device, 0, self.sectors * _SECTOR)
        self.marks = []
        self.position = _SECTOR
        shell.run('modprobe', 'dm-log-writes')
        self._make('recorded', f'log-writes {self.device} {self.log}')
        self.recording = True
        self.addCleanup(self.stop)

    def mark(self, name):
        """Note a moment; the name is one word to the device mapper."""
        name = name.replace(' ', '-')
        shell.run('dmsetup', 'message', 'recorded', '0', 'mark', name)
        self.marks.append(name)

    def stop(self):
        """Take the device away; nobody may have it open."""
        if self.recording:
            udev.settle()
            shell.run('dmsetup', 'remove', '--retry', 'recorded')
            self.recording = False

    @contextlib.contextmanager
    def cut(self):
        """Have the device as after a power failure at the next mark.

        Yields its path, None if there are no more marks.
        """
        if not self._replay():
            yield None
            return
        blockcopy.zero(self.changes, 0, MIB)
        self._make('cut', f'snapshot {self.replayed} {self.changes} N 8')
        try:
            yield '/dev/mapper/cut'
        finally:
            udev.settle()
            shell.run('dmsetup', 'remove', '--retry', 'cut')

    def _make(self, name, table):
        shell.run(
            'dmsetup', 'create', name, '--table', f'0 {self.sectors} {table}'
        )
        udev.settle()

    def _replay(self):
        """Write what was written before the next mark; False if it is none."""
        with (
            open(self.log, 'rb') as log,
            open(self.replayed, 'r+b', buffering=0) as target,
        ):
            magic, _, _, size = _SUPER.unpack(log.read(_SUPER.size))
            assert (magic, size) == (_MAGIC, _SECTOR), (magic, size)
            while True:
                log.seek(self.position)
                sector, count, flags, length = _ENTRY.unpack(
                    log.read(_ENTRY.size)
                )
                name = log.read(length) if flags & _MARK else b''
                self.position += _SECTOR
                if flags & _MARK:
                    if name.rstrip(b'\0').decode() not in self.marks:
                        return False
                    os.fsync(target.fileno())
                    return True
                if flags & _DISCARD:
                    data = bytes(count * _SECTOR)
                else:
                    log.seek(self.position)
                    data = log.read(count * _SECTOR)
                    self.position += count * _SECTOR
                target.seek(sector * _SECTOR)
                target.write(data)


@contextlib.contextmanager
def mounted(device):
    """Have the filesystem on a device mounted; yields where."""
    with tempfile.TemporaryDirectory() as directory:
        shell.run('mount', device, directory)
        try:
            yield directory
        finally:
            udev.settle()
            shell.run('umount', directory)
