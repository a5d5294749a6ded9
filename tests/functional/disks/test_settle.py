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


"""The data of a server follows it to a real disk, as a loop device.

Another loop device stands for that of the iSCSI session, and a process for
QEMU. Cinder and Nova are stand-ins.
"""

import contextlib
import itertools
import os
import subprocess
import types
from unittest import mock

from cinder_vdisk_mapper.backend import filesystem
from cinder_vdisk_mapper.moves import vdisk_steps
from cinder_vdisk_mapper.server_moves import at_rest
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import remote as sessions
from cinder_vdisk_mapper.server_moves import settle_attempt
from cinder_vdisk_mapper.server_moves import settle_move
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.vdisks import locks
from nova_diskplacer import exception
from nova_diskplacer.disks import links
from nova_diskplacer.disks.filesystem import devices
from tests import loops
from tests.functional.crash import qemu
from tests.functional.disks import base

MIB = base.MIB
NAME = 'volume-1'
SERVER = '5e3c6d0e-6f0f-4a0e-9a52-8a3f3c1d9b11'
THERE, HERE = 'there@vdisk', 'here@vdisk'


class Killed(BaseException):
    """The process ends here."""


class SettleTestCase(base.VDiskTestCase):
    disk_gb = 3

    def setUp(self):
        super().setUp()
        self.device = self.useFixture(loops.LoopDevice(1)).device
        self.uuid = os.path.basename(self.disk)
        self.backend = filesystem.FilesystemBackend(self.root)
        self.backend.create(self.uuid, NAME, '1', SERVER, 1)
        os.mkdir(os.path.join(self.root, 'remote'))
        os.symlink(self.device, os.path.join(self.root, 'remote', NAME))
        self.backend.link_remote(NAME)
        self.link = self.backend.link_path(NAME)
        self.addCleanup(self.backend.detach_device, self.uuid, NAME)
        self.guests = qemu.Guests(os.path.join(self.directory, 'qemu'))
        self.addCleanup(self.guests.end)
        self.record = record.Record(THERE, HERE, SERVER, record.LEFT)
        self.holder = THERE
        self.copied, self.changes = '', 0
        self.steps, self.fatal = 0, None
        for target, name, value in (
            (store, 'read', lambda _: self.record),
            (store, 'advance', self.advance),
            (store, 'changed', lambda _: str(self.changes)),
            (store, 'copied', lambda _: self.copied),
            (store, 'fresh', lambda _: self.volume()),
            (vdisk_steps, '_INTERVAL', 0.01),
            (at_rest, 'check', lambda *_: None),
            (sessions, 'log_out', self.log_out),
            (locks, 'hold_within', lambda *_: contextlib.nullcontext()),
        ):
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    # the other host, and Cinder

    def volume(self):
        return types.SimpleNamespace(id='1', size=1, host=self.holder + '#p')

    def step(self):
        self.steps += 1
        if self.steps == self.fatal:
            raise Killed

    def advance(self, _, before, phase, copied=None):
        self.step()
        self.assertEqual(before, self.record)
        self.copied = self.copied if copied is None else copied
        self.record = record.Record(THERE, HERE, SERVER, phase)
        self.changes += 1
        self.step()

    def save(self, volume, disk):
        self.step()
        self.assertEqual(self.uuid, disk)
        self.holder = HERE
        self.step()

    def log_out(self, backend, name):
        backend.remove_remote(name)
        self.step()

    def go_on(self, volume, found):
        self.assertIsNone(self.backend.remote_device(NAME))
        self.record = None

    # the server

    def put(self, letter):
        """Write as the server; it runs or not."""
        if os.path.exists(self.guests.address):
            self.guests.ask('write', letter)
            return
        with open(self.link, 'r+b', buffering=0) as stream:
            stream.write(letter.encode() * (1 << 16))
            os.fsync(stream.fileno())

    def assertHas(self, letter):
        with open(os.path.realpath(self.link), 'rb') as stream:
            self.assertEqual(letter.encode() * 16, stream.read(16))

    def settle(self):
        destination = types.SimpleNamespace(
            backend_host=HERE,
            backend=self.backend,
            save=self.save,
            go_on=self.go_on,
        )
        settle_attempt.settle(
            settle_move.SettleMove(
                destination,
                self.guests,
                '1',
                NAME,
                SERVER,
                self.uuid,
                lambda done, total: None,
                lambda: False,
            )
        )

    def assertSettled(self, letter):
        self.assertIsNone(self.record)
        self.assertEqual(HERE, self.holder)
        self.assertEqual(self.uuid, self.backend.linked_disk(NAME))
        self.assertEqual(devices.path(self.uuid, NAME), os.readlink(self.link))
        self.assertHas(letter)
        self.assertEqual([], links.remotes(self.root))
        # all of it is allocated
        self.assertAllocated()
        # nobody has the other one open
        self.guests.end()
        self.guests.boot(self.link)
        self.guests.ask('write', 'z')
        self.assertHas('z')

    def test_a_server_that_runs(self):
        self.guests.boot(self.link)
        self.put('b')
        self.settle()
        self.put('c')
        self.assertSettled('c')

    def test_a_server_that_is_off(self):
        self.put('b')
        self.settle()
        self.assertSettled('b')

    def test_killed_at_each_step(self):
        for runs in (True, False):
            self.record = record.Record(THERE, HERE, SERVER, record.LEFT)
            self.holder = THERE
            self.guests.end()
            with contextlib.suppress(FileExistsError):
                os.symlink(
                    self.device, os.path.join(self.root, 'remote', NAME)
                )
            self.backend.link_remote(NAME)
            if runs:
                self.guests.boot(self.link)
            self.put('b')
            letters = itertools.cycle('cdefgh')
            letter = 'b'
            for self.fatal in itertools.count(1):
                self.steps = 0
                try:
                    self.settle()
                    break
                except Killed:
                    # it goes on, or is rebooted
                    if runs and self.fatal % 2:
                        self.guests.end()
                        self.guests.boot(self.link)
                    self.assertHas(letter)
                    letter = next(letters)
                    self.put(letter)
            self.assertLess(3, self.fatal)
            self.fatal = None
            self.assertSettled(letter)

    def test_a_process_uses_it_that_is_no_server(self):
        # this one does not count itself
        with (
            open(self.link, 'rb') as stream,
            subprocess.Popen(['sleep', '60'], stdin=stream) as process,
        ):
            error = self.assertRaises(exception.DiskError, self.settle)
            process.kill()
        self.assertIn('in use', str(error))
        self.assertEqual(links.REMOTE, self.backend.linked_disk(NAME))
