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

"""Test the discovery of disks with invented mounts."""

import dataclasses
import itertools
import os
import threading
import uuid
from unittest import mock

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import identity
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.host import probes
from nova_diskplacer.host import sysfs
from tests.fakes import disks


class TestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.root = self.useFixture(fixtures.TempDir()).path
        self.mounted = set()
        patch = mock.patch.object(
            os.path, 'ismount', side_effect=self.mounted.__contains__
        )
        patch.start()
        self.addCleanup(patch.stop)
        block = sysfs.Block('/dev/sdx', 'Paper', True, 1)
        patch = mock.patch.object(
            sysfs, 'find_filesystem_device', return_value=block
        )
        patch.start()
        self.addCleanup(patch.stop)

    def add(self, name=None):
        """Add a healthy disk and return its UUID."""
        name = name or str(uuid.uuid4())
        path = os.path.join(self.root, name)
        os.makedirs(path)
        vdisks.make_directory(path)
        identity.write(path, identity.Identity(name, 'hdd', 90))
        self.mounted.add(path)
        return name

    def healths(self):
        """Return the health of each disk."""
        return {
            disk.uuid: disk.health for disk in discover.discover(self.root)
        }


class DiskTest(testtools.TestCase):
    def test_vdisk_of_a_name(self):
        held = [
            VDisk('volume-1', '1', None, 1, usable=False),
            VDisk('volume-2', '2', None, 1, moving=True),
        ]
        disk = disks.make_disk('a', held=held)
        self.assertEqual(held[0], disk.find('volume-1'))
        self.assertIsNone(disk.find('volume-3'))
        self.assertEqual(
            [False, True, False],
            [disk.has_moving(f'volume-{number}') for number in '123'],
        )


class DiscoverTestCase(TestCase):
    def test_no_root(self):
        self.assertEqual([], discover.discover(self.root + '/none'))

    def test_healthy(self):
        name = self.add()
        vdisks.create(f'{self.root}/{name}', 'volume-1', '1', 's', 4096)
        (disk,) = discover.discover(self.root)
        status = os.statvfs(self.root)
        self.assertEqual(
            (name, f'{self.root}/{name}', '/dev/sdx', 'hdd', 'Paper', 1, 90),
            (
                disk.uuid,
                disk.path,
                disk.device,
                disk.medium,
                disk.model,
                disk.numa_node,
                disk.mbps,
            ),
        )
        self.assertEqual('ok', disk.health)
        self.assertEqual(status.f_blocks * status.f_frsize, disk.size_bytes)
        self.assertEqual((VDisk('volume-1', '1', 's', 4096),), disk.vdisks)

    def test_draining(self):
        name = self.add()
        for draining in (True, False, False):
            discover.set_draining(self.root, name, draining)
            for (disk,) in (
                discover.discover(self.root),
                [discover.inspect(self.root, name)],
            ):
                self.assertEqual('ok', disk.health)
                self.assertEqual(draining, disk.draining)

    def test_link_to_a_directory(self):
        elsewhere = os.path.join(self.root, 'srv')
        name = self.add()
        os.rename(os.path.join(self.root, name), elsewhere)
        os.symlink(elsewhere, os.path.join(self.root, name))
        self.assertEqual({name: 'missing'}, self.healths())
        self.mounted.add(elsewhere)
        self.assertEqual({name: 'ok'}, self.healths())

    def test_bad_disks_do_not_affect_others(self):
        good = self.add()
        not_mounted = self.add()
        self.mounted.discard(os.path.join(self.root, not_mounted))
        no_identity = self.add()
        os.unlink(os.path.join(self.root, no_identity, identity.FILE))
        another = self.add()
        identity.write(
            os.path.join(self.root, another),
            identity.Identity(good, 'hdd', 90),
        )
        malformed = self.add()
        path = os.path.join(self.root, malformed, identity.FILE)
        with open(path, 'w') as stream:
            stream.write('{')
        nested = self.add()
        path = os.path.join(self.root, nested, identity.FILE)
        with open(path, 'w') as stream:
            stream.write('[' * 100_000)
        incredible = self.add()
        path = os.path.join(self.root, incredible)
        identity.write(path, identity.Identity(incredible, 'hdd', 1 << 30))
        no_vdisks = self.add()
        os.rmdir(os.path.join(self.root, no_vdisks, 'vdisks'))
        gone = str(uuid.uuid4())
        os.symlink('/no/such', os.path.join(self.root, gone))
        self.add('lost+found')
        self.assertEqual(
            {
                good: 'ok',
                not_mounted: 'missing',
                no_identity: 'missing',
                another: 'missing',
                malformed: 'missing',
                nested: 'missing',
                incredible: 'missing',
                no_vdisks: 'missing',
                gone: 'missing',
            },
            self.healths(),
        )

    def test_lvm_prints_something_else(self):
        """lvm.conf has a prefix for all that LVM prints."""
        name = self.add()
        group = str(uuid.uuid4())
        os.symlink(f'/dev/diskplacer-{group}', f'{self.root}/{group}')
        cache = groups.GroupCache(
            lambda devices: 'lvm: {\nlvm:   "report": [', mock.MagicMock()
        )
        log = self.useFixture(fixtures.FakeLogger())
        with mock.patch.object(groups, '_cache', cache):
            self.assertEqual({name: 'ok', group: 'missing'}, self.healths())
        self.assertIn("begins with 'lvm: {", log.output)

    def test_a_bug_concerns_one_disk(self):
        name, other = self.add(), self.add()
        read = vdisks.scan

        def scan(path):
            if path.endswith(other):
                raise ZeroDivisionError
            return read(path)

        log = self.useFixture(fixtures.FakeLogger())
        with mock.patch.object(vdisks, 'scan', scan):
            self.assertEqual({name: 'ok', other: 'missing'}, self.healths())
        self.assertIn('ZeroDivisionError', log.output)

    def test_failing_disk(self):
        name = self.add()
        with mock.patch.object(os, 'fstatvfs', side_effect=OSError(5, 'EIO')):
            self.assertEqual({name: 'missing'}, self.healths())

    def test_read_only(self):
        name = self.add()
        status = mock.Mock(
            f_blocks=1, f_frsize=1, f_bavail=1, f_flag=os.ST_RDONLY
        )
        with mock.patch.object(os, 'fstatvfs', return_value=status):
            self.assertEqual({name: 'read-only'}, self.healths())

    def test_missing_disk_is_logged_once(self):
        name = self.add()
        path = os.path.join(self.root, name)
        log = self.useFixture(fixtures.FakeLogger())
        for _ in range(2):
            self.mounted.discard(path)
            for _ in range(3):
                self.healths()
            self.mounted.add(path)
            self.healths()
        self.assertEqual(
            [
                f'Disk {path} is missing: nothing is mounted there',
                f'Disk {path} is ok again',
            ]
            * 2,
            log.output.splitlines(),
        )


class HungTestCase(TestCase):
    """Reads of one disk wait for an event."""

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.patience(late=0.01, hung=3600)
        self.healthy, self.hanging = self.add(), self.add()
        self.entered = threading.Semaphore(0)
        self.answers = threading.Event()
        self.answers.set()
        self.addCleanup(self.answers.set)
        read = discover._read

        def wait_and_read(path, uuid):
            if uuid == self.hanging:
                self.entered.release()
                self.answers.wait()
            return read(path, uuid)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.discover._read', wait_and_read
            )
        )

    def patience(self, **seconds):
        names = {'late': 'probes.TIMEOUT', 'hung': 'probes.HUNG_AFTER'}
        for name, value in seconds.items():
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'nova_diskplacer.host.{names[name]}', value
                )
            )

    def inspect(self, **patience):
        return discover.inspect(self.root, self.hanging, **patience)

    def hang(self):
        self.answers.clear()

    def come_back(self):
        self.answers.set()
        self.patience(late=60, hung=3600)
        self.assertEqual(
            {self.healthy: 'ok', self.hanging: 'ok'}, self.healths()
        )

    def assert_hung(self):
        # the read of the healthy disk needs some time
        for _ in range(1000):
            healths = self.healths()
            self.assertEqual('hung', healths[self.hanging])
            if healths[self.healthy] == 'ok':
                return
        self.fail('the healthy disk is never ok')

    def test_never_read(self):
        self.hang()
        self.assert_hung()
        hung = self.inspect(patience=0)
        self.assertEqual(
            ('hung', '', ()), (hung.health, hung.medium, hung.vdisks)
        )
        self.come_back()

    def test_never_read_and_late(self):
        self.hang()
        timer = threading.Timer(0.2, self.answers.set)
        self.addCleanup(timer.join)
        timer.start()
        self.assertEqual(
            {self.healthy: 'ok', self.hanging: 'ok'},
            {
                disk.uuid: disk.health
                for disk in discover.wait_for_all(self.root)
            },
        )

    def test_read_before_and_late(self):
        self.come_back()
        self.hang()
        self.patience(late=0.05)
        self.assertTrue(any(one.late for one in discover.discover(self.root)))
        timer = threading.Timer(0.2, self.answers.set)
        self.addCleanup(timer.join)
        timer.start()
        self.assertEqual(
            [False, False],
            [disk.late for disk in discover.wait_for_all(self.root)],
        )

    def test_locked_disks_share_a_minute(self):
        waited = []

        def inspect(root, uuid, patience):
            waited.append(patience)
            return discover.missing(uuid, f'{root}/{uuid}')

        late = [
            dataclasses.replace(discover.missing(uuid, uuid), late=True)
            for uuid in 'abc'
        ]
        clock = itertools.chain([0.0, 10.0, 60.0], itertools.repeat(90.0))
        with (
            mock.patch.object(discover, 'discover', return_value=late),
            mock.patch.object(discover, 'inspect', inspect),
            mock.patch.object(discover.time, 'monotonic', lambda: next(clock)),
        ):
            discover.wait_for_all(self.root)
        self.assertEqual([50.0, 0.0, 0.0], waited)

    def test_never_read_and_hung(self):
        self.hang()
        self.patience(hung=0.2)
        healths = {
            disk.uuid: disk.health for disk in discover.wait_for_all(self.root)
        }
        self.assertEqual('hung', healths[self.hanging])

    def test_of_another_kind(self):
        self.hang()
        self.assertEqual(
            [], discover.wait_for_all(self.root, kind=discover.LVM)
        )

    def test_read_before(self):
        vdisks.create(f'{self.root}/{self.hanging}', 'v', '1', None, 4096)
        self.patience(late=60)
        self.healths()
        self.patience(late=0.01)
        self.hang()
        self.assertEqual('ok', self.healths()[self.hanging])
        self.assertTrue(self.inspect(patience=0).late)
        self.patience(hung=0)
        self.assert_hung()
        hung = self.inspect()
        self.assertEqual(('hung', 'hdd'), (hung.health, hung.medium))
        self.assertEqual(['v'], [vdisk.name for vdisk in hung.vdisks])
        self.come_back()
        self.assertFalse(self.inspect().late)

    def test_another_thread_hangs(self):
        vdisks.create(f'{self.root}/{self.hanging}', 'v', '1', None, 4096)
        self.patience(late=60)
        self.healths()
        inspect = mock.Mock(side_effect=exception.DiskHung('hung'))
        with mock.patch.object(discover, '_read_filesystem', inspect):
            hung = self.inspect()
        self.assertEqual(('hung', 'hdd'), (hung.health, hung.medium))
        self.assertEqual(['v'], [vdisk.name for vdisk in hung.vdisks])
        self.come_back()

    def test_only_one_thread_hangs(self):
        self.hang()
        for _ in range(5):
            self.healths()
            self.inspect(patience=0)
        self.assertTrue(self.entered.acquire(timeout=60))
        self.assertFalse(self.entered.acquire(blocking=False))
        self.come_back()

    def test_result_is_newer_than_the_call(self):
        self.hang()
        self.inspect(patience=0)
        self.assertTrue(self.entered.acquire(timeout=60))
        path = f'{self.root}/{self.hanging}'
        vdisks.create(path, 'later', '1', None, 4096)
        answer = probes.Job(self.inspect)
        self.answers.set()
        self.assertTrue(answer.wait(60))
        self.assertEqual(
            ['later'], [vdisk.name for vdisk in answer.result().vdisks]
        )

    def test_work(self):
        def work():
            return discover.run_unless_hung(self.root, self.hanging, lambda: 5)

        self.assertEqual(5, work())
        self.hang()
        self.patience(hung=0)
        error = self.assertRaises(exception.DiskError, work)
        self.assertIn(f'{self.hanging} is hung', str(error))
        self.come_back()
        self.assertEqual(5, work())

    def test_work_that_hangs(self):
        begun, goes_on, done = (threading.Event() for _ in range(3))
        self.addCleanup(goes_on.set)

        def work():
            begun.set()
            goes_on.wait()
            done.set()

        self.healths()
        job = probes.Job(
            lambda: discover.run_unless_hung(self.root, self.hanging, work)
        )
        self.assertTrue(begun.wait(60))
        self.hang()
        self.patience(hung=0)
        self.assertTrue(job.wait(60))
        self.assertRaises(exception.DiskError, job.result)
        # the work goes on when the disk answers again
        self.come_back()
        goes_on.set()
        self.assertTrue(done.wait(60))

    def test_work_that_fails(self):
        def work():
            raise exception.DiskError('no')

        error = self.assertRaises(
            exception.DiskError,
            discover.run_unless_hung,
            self.root,
            self.healthy,
            work,
        )
        self.assertEqual('no', str(error))
