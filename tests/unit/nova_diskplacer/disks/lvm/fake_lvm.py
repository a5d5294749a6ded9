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
"""A volume group in memory, with LVM's commands and device I/O.

Each extent of the disk holds a word: ``ZERO``, or one that a test has written.
Extents keep it when their volume is removed, as on a real disk.
"""

import functools
import json
import os
from unittest import mock

import fixtures

from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import report

UUID = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'
GROUP = f'diskplacer-{UUID}'
DEVICE = '/dev/null'

GIB = 1 << 30
EXTENT = GIB // 4
ZERO = 'zero'

#: Parses a report once: code under test reads the same one again and again.
parse = functools.lru_cache(maxsize=64)(report.parse)


class Killed(BaseException):
    """The process is killed."""


class Volume:
    """A logical volume; ``frozen`` is the content of a snapshot."""

    def __init__(self, number, tags, extents, origin='', frozen=None):
        self.uuid = f'uuid-{number}'
        self.tags = set(tags)
        self.extents = extents
        self.origin = origin
        self.frozen = frozen
        self.active = True


class FakeLVM(fixtures.Fixture):
    """A thick group, ``GROUP`` without another UUID.

    ``open`` holds the names of open volumes, ``refreshed`` those that LVM has
    made lead to the present devices of the group. ``step`` is called before
    each change of the metadata and of the content. ``devices`` and
    ``suspended`` are those of striped vdisks: none.
    """

    def __init__(self, size_gb=20, content='old', uuid=UUID):
        super().__init__()
        self.group = f'diskplacer-{uuid}'
        self.uuid = uuid
        self.content = [content] * (size_gb * GIB // EXTENT)
        self.volumes = {}
        self.open = set()
        self.refreshed = []
        self.devices = {}
        self.suspended = set()
        self.tags = {
            naming.TAG,
            f'{naming.UUID}={uuid}',
            f'{naming.MEDIUM}=hdd',
            f'{naming.MBPS}=150',
        }
        self.seqno = 1
        self.made = 0
        self.step = lambda what: None

    def _setUp(self):
        self.root = self.useFixture(fixtures.TempDir()).path
        self.link(self.root)
        locks = self.useFixture(fixtures.TempDir()).path
        for name, value in (
            ('disks.lvm.commands.run', self.run),
            ('disks.lvm.commands._launcher', ()),
            (
                'disks.lvm.groups._cache',
                groups.GroupCache(report.read, commands.KnownDevices()),
            ),
            ('disks.lvm.device_mapper.is_open', self.is_open),
            ('host.files._lock_directory', locks),
            ('host.files.set_lock_directory', lambda path: None),
            ('disks.lvm.blockcopy.zero', self.zero),
            ('disks.lvm.blockcopy.copy', self.copy),
            ('disks.lvm.blockcopy.clear', self.clear),
            ('disks.lvm.blockcopy.flush', lambda path: None),
            ('disks.lvm.blockcopy.write_counters', lambda path: ('0', '0')),
        ):
            self.useFixture(
                fixtures.MonkeyPatch('nova_diskplacer.' + name, value)
            )

    def link(self, root):
        """Make the disk's entry in a disk root."""
        os.symlink('/dev/' + self.group, os.path.join(root, self.uuid))

    def killed_at(self, count):
        """Kill the process before its step ``count``, counted from 0."""
        left = [count]

        def step(what):
            left[0] -= 1
            if left[0] < 0:
                raise Killed(what)

        return mock.patch.object(self, 'step', step)

    def of(self, uuid):
        """Return the group of a disk."""
        return self

    def read(self, vdisk):
        """Return the content of a vdisk, a word for each extent."""
        volume = self.volumes[naming.volume_name(vdisk)]
        if volume.frozen is not None:
            return list(volume.frozen)
        return [self.content[extent] for extent in volume.extents]

    def write(self, vdisk, word, first=0, last=None):
        """Write a word to all or some extents of a vdisk."""
        volume = self.volumes[naming.volume_name(vdisk)]
        for extent in volume.extents[first:last]:
            self.content[extent] = word

    def free(self):
        """Return the extents without a volume."""
        held = {
            one for volume in self.volumes.values() for one in volume.extents
        }
        return [n for n in range(len(self.content)) if n not in held]

    # commands of LVM

    def run(self, *command):
        """Replace ``lvm.commands.run``."""
        name, *rest = command
        if name == 'lvm':
            return self.report()
        if name != 'udevadm':
            options, words = _parse(rest)
            getattr(self, '_' + name)(options, *words)
        return ''

    def is_open(self, path):
        """Replace ``device_mapper.is_open``."""
        return os.path.basename(path) in self.open

    def report(self):
        """Return LVM's report of the group."""
        group = {
            'vg_name': self.group,
            'vg_tags': ','.join(sorted(self.tags)),
            'vg_size': len(self.content) * EXTENT,
            'vg_free': len(self.free()) * EXTENT,
            'vg_permissions': 'writeable',
            'vg_partial': '',
            'vg_exported': '',
            'vg_seqno': self.seqno,
        }
        listed = [
            {
                'lv_name': name,
                'lv_uuid': volume.uuid,
                'lv_tags': ','.join(sorted(volume.tags)),
                'lv_size': len(volume.extents) * EXTENT,
                'lv_layout': 'linear',
                'origin': volume.origin,
                'origin_size': len(volume.frozen or ()) * EXTENT,
                'pool_lv': '',
            }
            for name, volume in self.volumes.items()
        ]
        one = {'vg': [group], 'lv': listed, 'pv': [{'pv_name': DEVICE}]}
        return json.dumps({'report': [one]})

    def _lvcreate(self, options, where):
        frozen, origin = None, ''
        if 'snapshot' in options:
            origin = where.split('/')[1]
            frozen = self.read(origin)
            count = len(frozen)
        else:
            count = int(options['size'][0].rstrip('b')) // EXTENT
        name = options['name'][0]
        if name in self.volumes:
            raise exception.DiskError(f'{name} exists')
        self._commit('lvcreate')
        self.made += 1
        self.volumes[name] = Volume(
            self.made,
            options.get('addtag', ()),
            self._allocate(count),
            origin,
            frozen,
        )

    def _lvextend(self, options, path):
        volume = self._volume(path)
        wanted = int(options['size'][0].rstrip('b')) // EXTENT
        self._commit('lvextend')
        volume.extents += self._allocate(wanted - len(volume.extents))

    def _lvreduce(self, options, path):
        volume = self._volume(path)
        wanted = int(options['size'][0].rstrip('b')) // EXTENT
        self._commit('lvreduce')
        del volume.extents[wanted:]

    def _lvchange(self, options, *paths):
        for path in paths:
            volume = self._volume(path)
            if 'activate' in options:
                wanted = options['activate'][0] == 'y'
                if not wanted:
                    self._check_closed(path)
                volume.active = wanted
                continue
            if 'refresh' in options:
                self.refreshed.append(path.split('/')[1])
                continue
            self._commit('lvchange')
            volume.tags -= set(options.get('deltag', ()))
            volume.tags |= set(options.get('addtag', ()))

    def _lvrename(self, options, group, old, new):
        self._volume(f'{group}/{old}')
        self._commit('lvrename')
        self.volumes[new] = self.volumes.pop(old)

    def _lvremove(self, options, *paths):
        for path in paths:
            self._volume(path)
            self._check_closed(path)
            self._commit('lvremove')
            del self.volumes[path.split('/')[1]]

    def _lvconvert(self, options, path):
        volume = self._volume(path)
        self._commit('lvconvert')
        # a snapshot has copies of changed extents: here, of all
        for extent, word in zip(volume.extents, volume.frozen, strict=True):
            self.content[extent] = word
        volume.frozen, volume.origin = None, ''

    def _vgchange(self, options, group):
        self._commit('vgchange')
        self.tags -= set(options.get('deltag', ()))
        self.tags |= set(options.get('addtag', ()))

    def _commit(self, what):
        self.step(what)
        self.seqno += 1

    def _volume(self, path):
        try:
            return self.volumes[path.split('/')[1]]
        except KeyError:
            raise exception.DiskError(f'no {path}') from None

    def _check_closed(self, path):
        if path.split('/')[1] in self.open:
            raise exception.DiskError(f'{path} in use')

    def _allocate(self, count):
        free = self.free()
        if count > len(free):
            raise exception.DiskError('insufficient free space')
        return free[:count]

    # I/O on devices

    def zero(self, target, start=0, end=None):
        """Replace ``blockcopy.zero``."""
        extents = self._device(target).extents
        end = len(extents) * EXTENT if end is None else end
        self._fill(extents, [ZERO] * len(extents), start, end)

    def clear(self, target, start, end):
        """Replace ``blockcopy.clear``."""
        self.zero(target, start, end)

    def copy(self, source, target, size, compare=False, rate=0):
        """Replace ``blockcopy.copy``."""
        found = self.read(os.path.basename(source).removeprefix('_'))
        self._fill(self._device(target).extents, found, 0, size)

    def _fill(self, extents, words, start, end):
        for number in range(start // EXTENT, end // EXTENT):
            self.step('write')
            self.content[extents[number]] = words[number]

    def _device(self, path):
        volume = self._volume(f'{self.group}/{os.path.basename(path)}')
        if not volume.active:
            raise exception.DiskError(f'{path} is not there')
        return volume


def _parse(words):
    """Return the options of a command, as lists of values, and the rest."""
    options, rest = {}, []
    words = list(words)
    while words:
        word = words.pop(0)
        name, _, value = word.removeprefix('--').partition('=')
        if not word.startswith('--'):
            rest.append(word)
        elif value:
            options.setdefault(name, []).append(value)
        elif name in _FLAGS:
            options[name] = []
        else:
            options.setdefault(name, []).append(words.pop(0))
    return options, rest


_FLAGS = (
    'yes',
    'force',
    'snapshot',
    'splitsnapshot',
    'ignoreactivationskip',
    'refresh',
)
