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

"""Several volume groups and the device mapper, with LVM's commands on them."""

import contextlib
import os

import fixtures

from nova_diskplacer import exception
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.lvm import naming
from tests.unit.nova_diskplacer.disks.lvm import fake_lvm

UUIDS = tuple(f'0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d{n}' for n in (21, 22, 23))
LOCATION = Location(UUIDS)


def limit_copies(percent):
    """Replace ``resync_throttle.limit_copies``."""


def release_throttle():
    """Replace ``resync_throttle.release_throttle``."""


class FakeStripes(fake_lvm.FakeLVM):
    """The groups of three disks.

    ``devices`` maps the names of devices of striped vdisks to their tables,
    ``loaded`` to those that the next resumption makes valid. ``suspended`` has
    the names of suspended ones. ``step`` counts the changes
    of all groups and devices. ``frozen`` tells for each snapshot's piece that
    was made whether the vdisk was suspended. ``copied`` is the part that the
    kernel has copied of what is moved, in percent, and ``dead`` has the disks
    that fail. Those in ``lost`` are not there.
    """

    def __init__(self, size_gb=20, content='old'):
        super().__init__(size_gb, content)
        self.groups = {
            f'diskplacer-{uuid}': fake_lvm.FakeLVM(size_gb, content, uuid)
            for uuid in UUIDS
        }
        self.devices = {}
        self.loaded = {}
        self.copied = 100
        self.mirrored = set()
        self.dead = set()
        self.lost = set()
        self.suspended = set()
        self.frozen = []

    def _setUp(self):
        super()._setUp()
        os.unlink(os.path.join(self.root, self.uuid))
        for group in self.groups.values():
            group.link(self.root)
            group.step = lambda what: self.step(what)
        self.mapper = self.useFixture(fixtures.TempDir()).path
        name = 'nova_diskplacer.disks.lvm.'
        for target, value in (
            # threads that look for hung disks would take most of the time
            ('groups.find', self.find),
            ('groups.run_unless_hung', lambda uuid, work: work()),
            ('stripes._DIRECTORY', self.mapper),
            ('naming.striped_device', self.path),
            ('naming.moving_device', self.moving_path),
            # tables keep paths here
            ('device_mapper.number', lambda path: path),
            ('resync_throttle.limit_copies', limit_copies),
            ('resync_throttle.release_throttle', release_throttle),
        ):
            self.useFixture(fixtures.MonkeyPatch(name + target, value))

    def path(self, vdisk):
        """Replace ``naming.striped_device``."""
        return f'{self.mapper}/diskplacer-striped-{naming.volume_name(vdisk)}'

    def moving_path(self, vdisk, leg):
        """Replace ``naming.moving_device``."""
        name = naming.volume_name(vdisk)
        return f'{self.mapper}/diskplacer-moving-{name}.{leg}'

    def places_of(self, device):
        """Return where a device writes the legs to: (disk, volume) of each."""
        found = []
        for word in self.devices[device].split():
            if word.startswith('/dev/diskplacer-'):
                group, volume = word.split('/')[2:]
                found.append((group.removeprefix('diskplacer-'), volume))
            elif word.startswith(self.mapper):
                found += self.places_of(os.path.basename(word))
        return found

    def write_all(self, vdisk, word):
        """Have the server write a word to all of a vdisk."""
        for uuid, volume in self.places_of(f'diskplacer-striped-{vdisk}'):
            if uuid not in self.dead:
                self.of(uuid).write(volume, word)

    def reboot(self):
        """Take all devices away."""
        for device in list(self.devices):
            os.unlink(f'{self.mapper}/{device}')
        self.devices.clear()
        self.loaded.clear()

    def find(self, uuid):
        """Replace ``groups.find``."""
        name = f'diskplacer-{uuid}'
        if uuid in self.lost:
            return None
        return fake_lvm.parse(self.groups[name].report()).get(name)

    def of(self, uuid):
        """Return the group of a disk."""
        return self.groups[f'diskplacer-{uuid}']

    def run(self, *command):
        if command[0] == 'dmsetup':
            return self._dmsetup(*command[1:])
        if command[0] == 'udevadm':
            return ''
        (name,) = {
            one.split('/')[0]
            for one in command
            if one.split('/')[0] in self.groups
        }
        group = self._group(name)
        if '--snapshot' in command:
            origin = command[-1].split('/')[1]
            self.frozen.append(
                f'diskplacer-striped-{origin}' in self.suspended
            )
        return group.run(*command)

    def is_open(self, path):
        return self._group(path.split('/')[2]).is_open(path)

    def _group(self, name):
        """Return a group; what a device is made of is open."""
        group = self.groups[name]
        group.open = {
            path.split('/')[3]
            for table in self.devices.values()
            for path in table.split()
            if path.startswith(f'/dev/{name}/')
        }
        return group

    def _dmsetup(self, command, *arguments):
        device = arguments[-1]
        if command == 'create':
            device, uuid, _, _, *table = device.split(',')
            if not uuid.startswith('LVM-') or device in self.devices:
                raise exception.DiskError(f'{device} cannot be made')
            self.step('create')
            self.devices[device] = '\n'.join(table)
            with open(f'{self.mapper}/{device}', 'w', encoding='utf-8'):
                pass
        elif device not in self.devices:
            raise exception.DiskError(f'no {device}')
        elif command == 'remove':
            path = f'{self.mapper}/{device}'
            if device in self.open or any(
                path in table.split() for table in self.devices.values()
            ):
                raise exception.DiskError(f'{device} is in use')
            self.step('remove')
            del self.devices[device]
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f'{self.mapper}/{device}')
        elif command == 'load':
            self.step('load')
            self.loaded[device] = arguments[1]
        elif command == 'table':
            return self.devices[device]
        elif command == 'status':
            return self._status(device)
        elif command == 'suspend':
            self.step('suspend')
            self.suspended.add(device)
        else:
            self.suspended.discard(device)
            if device in self.loaded:
                self.step('resume')
                self.devices[device] = self.loaded.pop(device)
                self.mirrored.discard(device)
                if ' mirror ' in self.devices[device]:
                    # the kernel may be this fast
                    self._copy(device)
        return ''

    def _copy(self, device):
        """Copy what a mirror has not copied yet, if it may."""
        if device in self.mirrored or self.copied < 100:
            return
        self.mirrored.add(device)
        (here, source), (there, target) = self.places_of(device)
        words = self.of(here).read(source)
        volume = self.of(there).volumes[target]
        for extent, word in zip(volume.extents, words, strict=True):
            self.of(there).content[extent] = word

    def _status(self, device):
        """Return the status of a mirror, which has copied more by now."""
        table = self.devices[device]
        if ' mirror ' not in table:
            return table
        (here, source), (there, target) = self.places_of(device)
        health = ''.join(
            'D' if one in self.dead else 'A' for one in (here, there)
        )
        if health == 'AA':
            self._copy(device)
        return f'0 9 mirror 2 253:1 253:2 {self.copied}/100 1 {health} 1 core'

    def zero(self, target, start=0, end=None):
        self._on(target).zero(target, start, end)

    def copy(self, source, target, size, compare=False, rate=0):
        self._on(target).copy(source, target, size, compare)

    def _on(self, path):
        return self.groups[path.split('/')[2]]
