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

"""Test the identity of disks and its file."""

import json
import os

import fixtures
import testtools

from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer.disks import identity
from nova_diskplacer.host import sysfs

UUID = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'


class IdentityTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.disk = self.useFixture(fixtures.TempDir()).path

    def test_write_and_read(self):
        self.assertIsNone(identity.read(self.disk))
        for mbps in (150, 90):
            known = identity.Identity(UUID, 'hdd', mbps)
            identity.write(self.disk, known)
            self.assertEqual(known, identity.read(self.disk))
        self.assertEqual([identity.FILE], os.listdir(self.disk))

    def test_malformed(self):
        good = {'version': 1, 'uuid': UUID, 'medium': 'hdd', 'mbps': 150}
        self.assertEqual(UUID, identity.parse(good).uuid)
        for change in (
            {'version': 2},
            {'uuid': 'sda'},
            {'uuid': None},
            {'medium': 'any'},
            {'mbps': 0},
            {'mbps': '150'},
            {'mbps': True},
            {'mbps': 150.0},
        ):
            self.write(json.dumps({**good, **change}))
            self.assertRaises(exception.DiskError, identity.read, self.disk)
        for text in ('', '[]', '{', '\0', '[' * 100_000, '9' * 5000):
            self.write(text)
            self.assertRaises(exception.DiskError, identity.read, self.disk)

    def test_mbps_fit_in_a_report(self):
        disk = {'version': 1, 'uuid': UUID, 'medium': 'ssd'}
        most = constants.MAX_FIGURE
        for mbps in (1, most):
            known = identity.parse({**disk, 'mbps': mbps})
            self.assertEqual(mbps, known.mbps)
        for mbps in (0, most + 1, 1 << 70):
            self.write(json.dumps({**disk, 'mbps': mbps}))
            error = self.assertRaises(
                exception.DiskError, identity.read, self.disk
            )
            self.assertTrue(
                str(error).endswith(
                    f'mbps {mbps} is not an integer from 1 to {most}'
                ),
                error,
            )

    def test_uuid_becomes_canonical(self):
        found = identity.parse(
            {
                'version': 1,
                'uuid': UUID.upper(),
                'medium': 'ssd',
                'mbps': 1,
            }
        )
        self.assertEqual(UUID, found.uuid)

    def test_choose(self):
        known = identity.Identity(UUID, 'hdd', 90)
        block = sysfs.Block('/dev/nvme0n1')
        for medium, mbps, old, found in (
            (None, None, None, ('ssd', 400)),
            ('hdd', None, None, ('hdd', 150)),
            (None, None, known, ('hdd', 90)),
            ('ssd', None, known, ('ssd', 400)),
            (None, 7, known, ('hdd', 7)),
        ):
            self.assertEqual(
                identity.Identity(UUID, *found),
                identity.choose('/dev/x', UUID, medium, mbps, block, old),
            )

    def write(self, text):
        """Write an identity file."""
        with open(os.path.join(self.disk, identity.FILE), 'w') as stream:
            stream.write(text)


class MediumTest(testtools.TestCase):
    def test_medium(self):
        for medium, block in (
            ('hdd', sysfs.Block('/dev/sda', rotational=True)),
            ('ssd', sysfs.Block('/dev/nvme0n1')),
            (None, sysfs.Block()),
        ):
            self.assertEqual(medium, identity.medium_of(block))
