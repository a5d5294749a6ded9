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

import dataclasses
import os
from unittest import mock

import fixtures
import testtools

from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer.disks import identity
from nova_diskplacer.disks.lvm import group_changes
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.host import files
from tests.unit.nova_diskplacer.disks.lvm import fake_lvm

UUID = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'

MODEL = io_model.Model(
    rbps=190_400_000,
    rseqiops=40_000,
    rrandiops=180,
    wbps=170_600_000,
    wseqiops=39_000,
    wrandiops=170,
    latency=8100,
    scheduler='mq-deadline',
    measured='2026-11-21T17:00:00+00:00',
    source='hwdb',
)


class ModelTestCase(testtools.TestCase):
    def test_lower_throughput_may_be_claimed(self):
        self.assertEqual(171, MODEL.mbps)
        self.assertEqual(19, dataclasses.replace(MODEL, rbps=19_400_000).mbps)
        self.assertEqual(1, dataclasses.replace(MODEL, wbps=1).mbps)

    def test_text(self):
        text = io_model.to_text(MODEL)
        self.assertEqual(MODEL, io_model.parse(text))
        # a valid tag of LVM
        self.assertRegex(text, r'^[A-Za-z0-9_+.\-/=!:#&]{1,1000}$')
        bare = dataclasses.replace(MODEL, scheduler='', measured='')
        self.assertEqual(bare, io_model.parse(io_model.to_text(bare)))
        # of a release that knew no source
        before = text.replace('/source=hwdb', '')
        self.assertEqual(
            dataclasses.replace(MODEL, source=''), io_model.parse(before)
        )

    def test_malformed(self):
        text = io_model.to_text(MODEL)
        for bad in (
            '',
            'x',
            text.replace('rbps=190400000', 'rbps=0'),
            text.replace('rbps=190400000', 'rbps=-1'),
            text.replace('wrandiops=170', 'wrandiops=1.5'),
            text.replace('latency=8100/', ''),
        ):
            self.assertRaises(ValueError, io_model.parse, bad)

    def test_mbps_fit_in_the_identity(self):
        most = constants.MAX_FIGURE * 10**6
        fields = dataclasses.asdict(MODEL)
        fields.update(rbps=most, wbps=most)
        model = io_model.parse(io_model.to_text(io_model.Model(**fields)))
        self.assertEqual(constants.MAX_FIGURE, model.mbps)
        fields.update(rbps=10**400)
        error = self.assertRaises(
            ValueError,
            io_model.parse,
            io_model.to_text(io_model.Model(**fields)),
        )
        self.assertEqual(
            f"rbps '{10**400}' is not an integer from 1 to {most}", str(error)
        )


class FileTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.root = self.useFixture(fixtures.TempDir()).path
        self.disk = os.path.join(self.root, UUID)
        os.mkdir(self.disk)
        self.known = identity.Identity(UUID, 'hdd', 150)
        identity.write(self.disk, self.known)
        patch = mock.patch.object(os.path, 'ismount', return_value=True)
        patch.start()
        self.addCleanup(patch.stop)

    def test_save_and_load(self):
        self.assertIsNone(io_model.load(self.root, UUID))
        for model in (MODEL, dataclasses.replace(MODEL, wbps=150_000_000)):
            io_model.save(self.root, UUID, model)
            self.assertEqual(model, io_model.load(self.root, UUID))
            self.assertEqual(
                dataclasses.replace(self.known, mbps=model.mbps),
                identity.read(self.disk),
            )
        self.assertEqual(
            {identity.FILE, io_model.FILE}, set(os.listdir(self.disk))
        )

    def test_save_after_a_killed_one(self):
        with mock.patch.object(
            identity, 'write', side_effect=KeyboardInterrupt
        ):
            self.assertRaises(
                KeyboardInterrupt, io_model.save, self.root, UUID, MODEL
            )
        self.assertEqual(150, identity.read(self.disk).mbps)
        io_model.save(self.root, UUID, MODEL)
        self.assertEqual(171, identity.read(self.disk).mbps)

    def test_malformed(self):
        with open(os.path.join(self.disk, io_model.FILE), 'w') as stream:
            stream.write('rbps=fast\n')
        error = self.assertRaises(
            exception.DiskError, io_model.load, self.root, UUID
        )
        self.assertIn("rbps 'fast' is not an integer from 1 to", str(error))
        self.assertIn('measure the disk again', str(error))

    def test_missing(self):
        os.unlink(os.path.join(self.disk, identity.FILE))
        for call in (
            lambda: io_model.load(self.root, UUID),
            lambda: io_model.save(self.root, UUID, MODEL),
        ):
            self.assertRaises(exception.DiskError, call)

    def test_disk_refuses(self):
        error = OSError(30, 'Read-only file system')
        with mock.patch.object(files, 'replace', side_effect=error):
            raised = self.assertRaises(
                exception.DiskError, io_model.save, self.root, UUID, MODEL
            )
        self.assertIn('Read-only', str(raised))


class GroupTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.lvm = self.useFixture(fake_lvm.FakeLVM())

    def test_save_and_load(self):
        root = self.lvm.root
        self.assertIsNone(io_model.load(root, UUID))
        for model in (MODEL, dataclasses.replace(MODEL, rbps=1_000_000)):
            before = self.lvm.seqno
            io_model.save(root, UUID, model)
            # one command changes all tags
            self.assertEqual(before + 1, self.lvm.seqno)
            self.assertEqual(model, io_model.load(root, UUID))
            self.assertEqual(
                identity.Identity(UUID, 'hdd', model.mbps),
                groups.require(UUID).identity,
            )
        self.assertEqual(5, len(self.lvm.tags))

    def test_tag_zeroed_stays_valid(self):
        group_changes.mark_zeroed(UUID)
        io_model.save(self.lvm.root, UUID, MODEL)
        self.assertTrue(groups.require(UUID).zeroed)

    def test_malformed(self):
        self.lvm.tags.add(f'{io_model.TAG}=rbps=1')
        error = self.assertRaises(
            exception.DiskError, io_model.load, self.lvm.root, UUID
        )
        self.assertIn(f'tag {io_model.TAG} of volume group', str(error))
