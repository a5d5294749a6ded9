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

import os
import threading
import time

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.host import probes
from tests.unit.nova_diskplacer.disks.lvm import test_report
from tests.unit.nova_diskplacer.disks.lvm.test_report import NAME
from tests.unit.nova_diskplacer.disks.lvm.test_report import UUID

PROBES = 'nova_diskplacer.host.probes.'


class GroupsTestCase(testtools.TestCase):
    """LVM runs again only if the header of the metadata changes."""

    def setUp(self):
        super().setUp()
        self.device = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'device'
        )
        self.locks = self.useFixture(fixtures.TempDir()).path
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.files._lock_directory', self.locks
            )
        )
        self.write(b'1')
        self.runs = 0
        self.fields = {}
        self.groups = groups.GroupCache(self.report, commands.KnownDevices())
        self.during = lambda: None

    def write(self, data, magic=b'crc. LVM2 x[5A%r0N*>'):
        with open(self.device, 'wb') as stream:
            stream.seek(4096)
            stream.write((magic + data).ljust(512, b'\0'))

    def report(self, known):
        self.runs += 1
        self.searched = known
        one = test_report.group(size_gb=self.runs, **self.fields)
        one['pv'] = [{'pv_name': self.device}]
        self.during()
        return test_report.to_json(one)

    def known(self):
        return commands.KnownDevices().get(NAME)

    def sizes(self, count):
        return [self.groups.get(NAME).size_bytes // GIB for _ in range(count)]

    def test_unchanged(self):
        # the first read has no header to compare with
        self.assertEqual([1, 2, 2, 2], self.sizes(4))
        self.write(b'2')
        self.assertEqual([3, 3], self.sizes(2))

    def test_only_devices_of_a_known_group_are_read(self):
        self.sizes(1)
        self.assertEqual((), self.searched)
        self.sizes(1)
        self.assertEqual((self.device,), self.searched)
        self.assertEqual((self.device,), self.known())

    def test_moved_group_is_searched_everywhere(self):
        self.sizes(2)
        os.rename(self.device, self.device + '2')
        self.device += '2'
        self.assertEqual([3, 4, 4], self.sizes(3))
        self.assertEqual((self.device,), self.known())

    def test_partial_group_is_searched_everywhere(self):
        self.sizes(2)
        self.fields = {'vg_partial': 'partial'}
        self.write(b'2')
        self.sizes(1)
        self.assertEqual((4, ()), (self.runs, self.searched))

    def test_processes_share_known_devices(self):
        for _ in range(2):
            self.groups = groups.GroupCache(
                self.report, commands.KnownDevices()
            )
            self.sizes(1)
        self.assertEqual((2, (self.device,)), (self.runs, self.searched))
        with open(
            os.path.join(self.locks, commands.KNOWN_FILE), 'w'
        ) as stream:
            stream.write('[]')
        self.assertEqual((), commands.KnownDevices().get(NAME))

    def test_hung_group_does_not_delay_others(self):
        self.sizes(1)
        hanging, going_on = threading.Event(), threading.Event()
        self.addCleanup(going_on.set)

        def hang():
            hanging.set()
            going_on.wait()

        self.during = hang
        job = probes.Job(lambda: self.sizes(1))
        self.assertTrue(hanging.wait(60))
        self.during = lambda: None
        self.assertIsNone(self.groups.get('other'))
        self.assertFalse(job.wait(0))
        going_on.set()
        self.assertTrue(job.wait(60))

    def test_a_lock_that_goes_from_hand_to_hand_is_not_hung(self):
        self.useFixture(fixtures.MonkeyPatch(PROBES + 'HUNG_AFTER', 2.0))
        lock = groups._GroupLock(NAME)
        with lock:
            waiting = [probes.Job(lambda: self.hold(lock)) for _ in range(4)]
            time.sleep(0.7)
        for job in waiting:
            self.assertTrue(job.wait(60))
            job.result()

    def hold(self, lock):
        with lock:
            time.sleep(0.7)

    def test_a_lock_that_is_held_for_too_long_is_hung(self):
        self.useFixture(fixtures.MonkeyPatch(PROBES + 'HUNG_AFTER', 0.2))
        lock = groups._GroupLock(NAME)
        with lock:
            job = probes.Job(lambda: self.hold(lock))
            self.assertTrue(job.wait(60))
            self.assertRaises(exception.DiskHung, job.result)

    def test_change_while_lvm_runs(self):
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

    def test_absent_group(self):
        self.assertIsNone(self.groups.get('other'))
        self.assertEqual(1, self.runs)


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
        self.groups[UUID] = test_report.parsed(vg_exported='exported')
        self.assertEqual('missing', discover.inspect(self.root, UUID).health)
        self.assertIn('is exported', log.output)
        self.groups[UUID] = test_report.parsed(vg_partial='partial')
        self.assertEqual('missing', discover.inspect(self.root, UUID).health)
        self.assertIn('are missing', log.output)

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

    def test_lvm_never_runs_without_its_disks(self):
        os.unlink(os.path.join(self.root, UUID))
        os.mkdir(os.path.join(self.root, UUID))
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.lvm.commands.run', None
            )
        )
        self.assertEqual('missing', discover.inspect(self.root, UUID).health)
