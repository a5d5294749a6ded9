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

"""Volume groups, as LVM has reported them."""

import json
import os
import threading
from unittest import mock

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import identity
from nova_diskplacer.disks.lvm import devices as lvm_devices
from nova_diskplacer.disks.lvm import groups as lvm_groups
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.host import jobs

UUID = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'
NAME = f'diskplacer-{UUID}'
TAGS = (
    'diskplacer,diskplacer.mbps=150,diskplacer.medium=hdd,'
    f'diskplacer.uuid={UUID}'
)


def volume(name, size_gb=1, tags='', **fields):
    """Return a volume as LVM reports it."""
    return {
        'lv_name': name,
        'lv_uuid': f'uuid-{name}',
        'lv_tags': tags,
        'lv_size': str(int(size_gb * GIB)),
        'lv_layout': 'linear',
        'origin': '',
        'origin_size': '',
        'pool_lv': '',
        **fields,
    }


def group(*volumes, size_gb=10, free_gb=10, **fields):
    """Return a report about one group."""
    return {
        'vg': [
            {
                'vg_name': NAME,
                'vg_tags': TAGS,
                'vg_size': str(size_gb * GIB),
                'vg_free': str(int(free_gb * GIB)),
                'vg_permissions': 'writeable',
                'vg_partial': '',
                'vg_exported': '',
                'vg_seqno': '7',
                **fields,
            }
        ],
        'pv': [{'pv_name': '/dev/sdx'}],
        'lv': list(volumes),
        'pvseg': [{'pvseg_start': '0'}],
        'seg': [],
    }


def report(*groups):
    return json.dumps({'report': list(groups)})


def parsed(*volumes, **fields):
    return lvm_groups.parse(report(group(*volumes, **fields)))[NAME]


class ParseTestCase(testtools.TestCase):
    def test_no_groups(self):
        self.assertEqual({}, lvm_groups.parse(report()))

    def test_identity(self):
        self.assertEqual(
            identity.Identity(UUID, 'hdd', 150), parsed().identity
        )
        for tags, reason in (
            ('', 'medium'),
            (TAGS.replace('hdd', 'tape'), "'tape'"),
            (TAGS.replace('=150', '=fast'), 'mbps None'),
            (TAGS.replace(UUID, 'x'), 'UUID'),
            (TAGS + ',diskplacer.mbps=200', 'mbps None'),
        ):
            error = self.assertRaises(
                exception.DiskError,
                lambda tags: parsed(vg_tags=tags).identity,
                tags,
            )
            self.assertIn(reason, str(error))

    def test_thick(self):
        found = parsed(
            volume('volume-1', 2, 'diskplacer.server=s,diskplacer.volume=1'),
            volume(
                '_snapshot-2',
                2.125,
                'diskplacer.volume=2',
                origin='volume-1',
                origin_size=str(2 * GIB),
            ),
            volume('somebody', 1),
            free_gb=4.875,
        )
        self.assertEqual(
            (
                VDisk('snapshot-2', '2', None, 2 * GIB),
                VDisk('somebody', '', None, GIB),
                VDisk('volume-1', '1', 's', 2 * GIB),
            ),
            found.vdisks,
        )
        self.assertFalse(found.thin)
        # what maps the snapshot's changes is not for vdisks
        self.assertEqual(
            (9, int(4.875 * GIB)), (found.total_gb, found.free_bytes)
        )
        self.assertEqual('volume-1', found.find('snapshot-2').origin)
        self.assertEqual('', found.find('volume-1').origin)
        self.assertIsNone(found.find('volume-2'))

    def test_thin(self):
        found = parsed(
            volume('pool', 9, lv_layout='thin,pool'),
            volume('volume-1', 4, lv_layout='thin,sparse', pool_lv='pool'),
            volume(
                '_snapshot-1',
                4,
                lv_layout='thin,sparse',
                pool_lv='pool',
                origin='volume-1',
            ),  # fmt: skip
            free_gb=0,
        )
        self.assertTrue(found.thin)
        self.assertEqual(
            (9 * GIB, GIB, 8),
            (found.size_bytes, found.free_bytes, found.total_gb),
        )
        self.assertEqual('', found.find('snapshot-1').origin)
        # a volume that happens to have the name of a pool is none
        self.assertFalse(parsed(volume('pool')).thin)

    def test_trouble(self):
        self.assertEqual('', parsed().trouble)
        self.assertIn('exported', parsed(vg_exported='exported').trouble)
        self.assertIn('missing', parsed(vg_partial='partial').trouble)
        self.assertTrue(parsed(vg_permissions='read-only').read_only)


class NamesTestCase(testtools.TestCase):
    def test_volumes(self):
        for vdisk, name in (
            ('volume-1', 'volume-1'),
            ('snapshot-1', '_snapshot-1'),
            ('unmanaged-1', 'unmanaged-1'),
        ):
            self.assertEqual(name, lvm_groups.volume_name(vdisk))
            self.assertEqual(
                f'/dev/{NAME}/{name}', lvm_groups.device_path(UUID, vdisk)
            )
        for vdisk in ('', 'pool', '-a', '.', '..', 'a/b', 'a b', 'a' * 64):
            self.assertRaises(
                exception.DiskError, lvm_groups.volume_name, vdisk
            )

    def test_groups(self):
        self.assertEqual(NAME, lvm_groups.group_name(UUID))
        for uuid in ('', UUID.upper(), UUID + '\n', '../' + UUID, 'x'):
            self.assertRaises(exception.DiskError, lvm_groups.group_name, uuid)

    def test_entries(self):
        root = self.useFixture(fixtures.TempDir()).path
        entry = os.path.join(root, UUID)
        self.assertFalse(lvm_groups.is_entry(entry))
        os.symlink('/dev/' + NAME, entry)
        self.assertTrue(lvm_groups.is_entry(entry))
        other = os.path.join(root, UUID.replace('0', '1'))
        os.symlink('/dev/' + NAME, other)
        self.assertFalse(lvm_groups.is_entry(other))
        os.mkdir(os.path.join(root, 'directory'))
        self.assertFalse(lvm_groups.is_entry(os.path.join(root, 'directory')))


class GroupsTestCase(testtools.TestCase):
    """Asks LVM again if the metadata's header has changed."""

    def setUp(self):
        super().setUp()
        self.device = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'device'
        )
        self.write(b'1')
        self.asked = 0
        self.fields = {}
        self.groups = lvm_groups.Groups(self.report)
        self.during = lambda: None

    def write(self, data, magic=b'crc. LVM2 x[5A%r0N*>'):
        with open(self.device, 'wb') as stream:
            stream.seek(4096)
            stream.write((magic + data).ljust(512, b'\0'))

    def report(self, devices):
        self.asked += 1
        self.looked_at = devices
        one = group(size_gb=self.asked, **self.fields)
        one['pv'] = [{'pv_name': self.device}]
        self.during()
        return report(one)

    def sizes(self, count):
        return [self.groups.get(NAME).size_bytes // GIB for _ in range(count)]

    def test_unchanged(self):
        # the first time it is not known what to compare with
        self.assertEqual([1, 2, 2, 2], self.sizes(4))
        self.write(b'2')
        self.assertEqual([3, 3], self.sizes(2))

    def test_only_the_devices_of_a_known_group_are_looked_at(self):
        self.sizes(1)
        self.assertEqual((), self.looked_at)
        self.sizes(1)
        self.assertEqual((self.device,), self.looked_at)
        self.assertEqual((self.device,), self.groups.devices(NAME))

    def test_a_group_on_other_devices_is_looked_for_everywhere(self):
        self.sizes(2)
        os.rename(self.device, self.device + '2')
        self.device += '2'
        self.assertEqual([3, 4, 4], self.sizes(3))
        self.assertEqual((self.device,), self.groups.devices(NAME))

    def test_a_group_that_lacks_a_device_is_looked_for_everywhere(self):
        self.sizes(2)
        self.fields = {'vg_partial': 'partial'}
        self.write(b'2')
        self.sizes(1)
        self.assertEqual((4, ()), (self.asked, self.looked_at))

    def test_another_process_knows_the_devices(self):
        directory = self.useFixture(fixtures.TempDir()).path
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.locks.DIRECTORY', directory
            )
        )
        for _ in range(2):
            self.groups = lvm_groups.Groups(self.report, lvm_devices.Keeper())
            self.sizes(1)
        self.assertEqual((2, (self.device,)), (self.asked, self.looked_at))
        with open(os.path.join(directory, lvm_devices.FILE), 'w') as stream:
            stream.write('[]')
        self.assertEqual({}, lvm_devices.Keeper().load())

    def test_one_that_hangs_does_not_keep_others(self):
        self.sizes(1)
        hanging, going_on = threading.Event(), threading.Event()
        self.addCleanup(going_on.set)

        def hang():
            hanging.set()
            going_on.wait()

        self.during = hang
        job = jobs.Job(lambda: self.sizes(1))
        self.assertTrue(hanging.wait(60))
        self.during = lambda: None
        self.assertIsNone(self.groups.get('other'))
        self.assertFalse(job.wait(0))
        going_on.set()
        self.assertTrue(job.wait(60))

    def test_changed_while_lvm_was_asked(self):
        self.sizes(2)
        self.write(b'2')
        self.during = lambda: self.write(b'3')
        self.assertEqual([3], self.sizes(1))
        self.during = lambda: None
        self.assertEqual([4, 4], self.sizes(2))

    def test_no_header(self):
        self.write(b'', magic=b'another')
        self.assertEqual([1, 2, 3], self.sizes(3))
        os.unlink(self.device)
        self.assertEqual([4, 5], self.sizes(2))

    def test_not_there(self):
        self.assertIsNone(self.groups.get('other'))
        self.assertEqual(1, self.asked)


class DiscoverTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.root = self.useFixture(fixtures.TempDir()).path
        os.symlink('/dev/' + NAME, os.path.join(self.root, UUID))
        self.groups = {}
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.lvm.groups.find',
                lambda uuid: self.groups.get(uuid),
            )
        )

    def test_missing(self):
        log = self.useFixture(fixtures.FakeLogger())
        self.assertEqual('missing', discover.inspect(self.root, UUID).health)
        self.assertIn(f'no volume group {NAME}', log.output)
        self.groups[UUID] = parsed(vg_exported='exported')
        self.assertEqual('missing', discover.inspect(self.root, UUID).health)
        self.assertIn('is exported', log.output)

    def test_kinds(self):
        filesystem = UUID.replace('0', '1')
        os.mkdir(os.path.join(self.root, filesystem))
        for kind, found in (
            (None, [UUID, filesystem]),
            (discover.LVM, [UUID]),
            (discover.FILESYSTEM, [filesystem]),
        ):
            self.assertEqual(
                found,
                [disk.uuid for disk in discover.discover(self.root, kind)],
            )

    def test_without_such_disks_lvm_is_not_asked(self):
        os.unlink(os.path.join(self.root, UUID))
        os.mkdir(os.path.join(self.root, UUID))
        self.useFixture(
            fixtures.MonkeyPatch('nova_diskplacer.disks.lvm.groups.run', None)
        )
        self.assertEqual('missing', discover.inspect(self.root, UUID).health)


class RunTestCase(testtools.TestCase):
    def test_failures_are_explained(self):
        for command, reason in (
            (('/no/such/command',), 'No such file'),
            (('sh', '-c', 'echo a >&2; echo b >&2; exit 5'), ': a b'),
        ):
            error = self.assertRaises(
                exception.DiskError, lvm_groups.run, *command
            )
            self.assertIn(reason, str(error))

    def test_udev_has_it_open(self):
        path = self.useFixture(fixtures.TempDir()).path
        released = os.path.join(path, 'released')
        with open(os.path.join(path, 'udevadm'), 'w') as stream:
            stream.write(f'#!/bin/sh\ntest "$1" = settle && touch {released}')
        os.chmod(stream.name, 0o755)
        self.useFixture(
            fixtures.EnvironmentVariable('PATH', f'{path}:/usr/bin:/bin')
        )
        command = ('sh', '-c', f'echo in use >&2; test -e {released}')
        self.assertRaises(exception.DiskError, lvm_groups.run, *command)
        lvm_groups.let_go(*command)

    def test_somebody_else_has_it_open(self):
        self.useFixture(fixtures.EnvironmentVariable('PATH', '/bin'))
        error = self.assertRaises(
            exception.DiskError,
            lvm_groups.let_go,
            'sh',
            '-c',
            'echo in use >&2; exit 5',
        )
        self.assertIn('in use', str(error))

    def test_environment(self):
        self.useFixture(fixtures.EnvironmentVariable('LC_ALL', 'xx'))
        self.assertEqual('C\n', lvm_groups.run('sh', '-c', 'echo $LC_ALL'))
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.lvm.groups.wrapper', ('env', 'X=1')
            )
        )
        self.assertEqual('1\n', lvm_groups.run('sh', '-c', 'echo $X'))

    def test_dmeventd_is_left_alone(self):
        directory = self.useFixture(fixtures.TempDir()).path
        command = os.path.join(directory, 'lvchange')
        with open(command, 'w') as stream:
            stream.write('#!/bin/sh\necho "$@"\n')
        os.chmod(command, 0o755)
        self.useFixture(fixtures.EnvironmentVariable('PATH', directory))
        self.assertEqual(
            '--activate y --config activation/monitoring=0\n',
            lvm_groups.run('lvchange', '--activate', 'y'),
        )

    def test_a_command_is_confined_to_the_devices_of_its_group(self):
        groups = mock.Mock()
        groups.devices.return_value = ('/dev/sdx', '/dev/sdy')
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.lvm.groups._groups', groups
            )
        )
        for argument in (NAME, f'{NAME}/volume-1'):
            self.assertEqual(
                f'{argument} --devices /dev/sdx,/dev/sdy\n',
                lvm_groups.run('echo', argument),
            )
            groups.devices.assert_called_with(NAME)
        for arguments in (['/dev/sdz'], [f'/dev/{NAME}/volume-1'], [UUID]):
            self.assertEqual(
                ' '.join(arguments) + '\n', lvm_groups.run('echo', *arguments)
            )
