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


import contextlib
import errno
import os
import shutil
import tempfile
from unittest import mock

import hypothesis
import testtools
from hypothesis import strategies

from nova_diskplacer import exception
from nova_diskplacer.disks.filesystem import devices

UUID = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'
NAME = 'volume-1'

#: what happens to a vdisk, and the step at which the process is killed, if any
ACTIONS = strategies.lists(
    strategies.tuples(
        strategies.sampled_from(
            ('attach', 'detach', 'ask', 'open', 'close', 'take')
        ),
        strategies.one_of(strategies.none(), strategies.integers(1, 9)),
    ),
    max_size=14,
)


class Killed(BaseException):
    """The process was killed."""


class Device:
    """A loop device: its file, and how often it is open."""

    def __init__(self, file):
        self.file = file
        self.openers = 0
        self.autoclear = False


class Kernel:
    """The loop driver, with one vdisk whose file is 7, and its users.

    ``left`` counts the steps of a process until it is killed.
    """

    FILE, OTHERS = 7, 8

    def __init__(self, directory):
        self.devices = {}
        self.made = 0
        self.left = None
        self.place = os.path.join(directory, UUID, NAME)
        self.users = []

    def step(self):
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                raise Killed

    def find(self, file, name):
        return [k for k, v in self.devices.items() if v.file == file]

    def bind(self, file):
        self.step()
        self.made += 1
        node = f'/dev/loop{self.made}'
        self.devices[node] = Device(file)
        self.step()
        return node

    def bind_again(self, node, file):
        self.step()
        device = self.devices.get(node)
        if device is None or device.file is not None:
            return self.bind(file)
        device.file = file
        self.step()
        return node

    def keep(self, node):
        self.step()
        self.devices[node].autoclear = False

    def release(self, node, file):
        self.step()
        device = self.devices.get(node)
        if device is None or device.file != file:
            return True
        if not device.openers:
            device.file, device.autoclear = None, False
            self.step()
            return True
        device.autoclear = True
        self.step()
        device.autoclear = False
        return False

    def remove(self, node):
        self.step()
        if self.devices[node].file is None:
            del self.devices[node]

    # what others do

    def open(self):
        """Have a server open what the link leads to."""
        with contextlib.suppress(FileNotFoundError):
            device = self.devices[os.readlink(self.place)]
            assert device.file == self.FILE, 'the file of another'
            device.openers += 1
            self.users.append(device)

    def close(self):
        if self.users:
            device = self.users.pop()
            device.openers -= 1
            if not device.openers and device.autoclear:
                device.file, device.autoclear = None, False

    def take(self):
        """Have other programs take the devices that have no file."""
        for device in self.devices.values():
            if device.file is None:
                device.file = self.OTHERS


class DevicesTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)

    def test_paths(self):
        path = devices.path(UUID, NAME)
        self.assertEqual(f'/dev/diskplacer/{UUID}/{NAME}', path)
        self.assertEqual(UUID, devices.disk_of(path, NAME))
        for other in (
            f'{path}x',
            f'/dev/diskplacer/x/{NAME}',
            f'/dev/diskplacer-{UUID}/{NAME}',
            f'/mnt{path}',
            f'/dev/loop1/{NAME}',
            NAME,
            '',
        ):
            self.assertIsNone(devices.disk_of(other, NAME), other)
        for uuid, name in (('..', NAME), (UUID, '../volume-1'), (UUID, '')):
            self.assertRaises(exception.DiskError, devices.path, uuid, name)

    # the kernel would take the device away with its user
    @hypothesis.example(
        [('attach', None), ('open', None), ('ask', 4), ('attach', None)]
    )
    @hypothesis.given(ACTIONS)
    def test_any_order_of_kills_and_users(self, actions):
        """A link leads to the vdisk or nowhere, and users keep theirs."""
        directory = tempfile.mkdtemp(dir=self.directory)
        kernel = Kernel(directory)
        link, unlink = devices._link, os.unlink

        def step_and_link(place, device):
            kernel.step()
            link(place, device)
            kernel.step()

        def step_and_unlink(path):
            kernel.step()
            unlink(path)
            kernel.step()

        with (
            mock.patch.multiple(
                devices,
                loop_devices=kernel,
                DIRECTORY=directory,
                _link=step_and_link,
            ),
            mock.patch('time.sleep'),
            mock.patch('os.unlink', step_and_unlink),
        ):
            for action, left in actions:
                self.act(kernel, action, left)
                self.check(kernel)
            while kernel.users:
                kernel.close()
                self.check(kernel)
            self.act(kernel, 'attach', None)
            self.assertTrue(os.path.lexists(kernel.place))
            self.act(kernel, 'detach', None)
            self.assertEqual([], kernel.find(Kernel.FILE, NAME))
            self.assertFalse(os.path.lexists(kernel.place))

    def act(self, kernel, action, left):
        """Do one of ``ACTIONS``."""
        if action in ('open', 'close', 'take'):
            getattr(kernel, action)()
            return
        in_use = any(
            kernel.devices[node].openers
            for node in kernel.find(Kernel.FILE, NAME)
        )
        kernel.left = left
        try:
            if action == 'attach':
                devices.attach(UUID, NAME, Kernel.FILE)
                self.check_attached(kernel)
            else:
                released = devices.detach(UUID, NAME, Kernel.FILE)
                self.assertFalse(in_use)
                if action == 'detach':
                    devices.remove(UUID, released)
                elif released:
                    devices.attach(UUID, NAME, Kernel.FILE, released[0])
                    self.check_attached(kernel)
        except OSError as error:
            self.assertEqual(errno.EBUSY, error.errno)
            self.assertTrue(in_use)
            self.check_attached(kernel)
        except Killed:
            pass
        finally:
            kernel.left = None

    def check_attached(self, kernel):
        """A server finds the device, which outlasts it."""
        device = kernel.devices[os.readlink(kernel.place)]
        self.assertEqual(Kernel.FILE, device.file)
        self.assertFalse(device.autoclear)

    def check(self, kernel):
        self.assertLessEqual(len(kernel.find(Kernel.FILE, NAME)), 1)
        for device in kernel.users:
            self.assertEqual(Kernel.FILE, device.file)
        with contextlib.suppress(FileNotFoundError):
            device = kernel.devices[os.readlink(kernel.place)]
            self.assertEqual(Kernel.FILE, device.file)
