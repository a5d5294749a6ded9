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

"""Test which devices may be prepared."""

import json
import os

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks import block


def node(path, *children, type='disk', mounted=(), ro=False):
    """Return a device as lsblk describes it."""
    found = {
        'path': path,
        'type': type,
        'ro': ro,
        'mountpoints': list(mounted) or [None],
    }
    if children:
        found['children'] = list(children)
    return found


def part(path, *children, mounted=()):
    """Return a partition as lsblk describes it."""
    return node(path, *children, type='part', mounted=mounted)


FOREST = [
    node(
        '/dev/sda',
        part('/dev/sda1', mounted=['/boot']),
        part(
            '/dev/sda2',
            node('/dev/vg/root', type='lvm', mounted=['/']),
            node('/dev/vg/data', type='lvm'),
        ),
        part('/dev/sda3'),
    ),
    node('/dev/sdb', part('/dev/sdb1', mounted=['/srv'])),
    node('/dev/sdc', part('/dev/sdc1'), part('/dev/sdc2')),
    node('/dev/sdd', node('/dev/md0', type='raid1', mounted=['/home'])),
    node('/dev/sde', node('/dev/md0', type='raid1', mounted=['/home'])),
    node('/dev/sdf', node('/dev/mapper/crypt', type='crypt')),
    node('/dev/sdg'),
    node('/dev/sdh', mounted=['[SWAP]']),
    node('/dev/sdi', ro=True),
]

PREPARED = (('xfs', block.LABEL, 'u-1'),)


class RefusalTestCase(testtools.TestCase):
    def refusal(self, path, wipe=False, **changes):
        """Return the reason to refuse a device of the forest."""
        device = block.parse_lsblk(path, FOREST)
        return block.refusal_reason(
            type(device)(**{**vars(device), **changes}), wipe
        )

    def test_refused_always(self):
        for path, reason in (
            ('/dev/sda', 'on the root disk'),
            ('/dev/sda2', 'on the root disk'),
            ('/dev/sda3', 'on the root disk'),
            ('/dev/vg/data', 'on the root disk'),
            ('/dev/sdb', 'mounted at /srv'),
            ('/dev/sdb1', 'mounted at /srv'),
            ('/dev/sdd', 'mounted at /home'),
            ('/dev/md0', 'mounted at /home'),
            ('/dev/sdf', 'by /dev/mapper/crypt'),
            ('/dev/sdh', 'mounted at [SWAP]'),
            ('/dev/sdi', 'read-only'),
        ):
            for wipe in (False, True):
                for signatures in ((), PREPARED):
                    self.assertIn(
                        reason,
                        self.refusal(path, wipe, signatures=signatures),
                    )
        self.assertIn('exclusively', self.refusal('/dev/sdg', True, busy=True))

    def test_refused_unless_wiped(self):
        for path, signatures, reason in (
            ('/dev/sdc', (), 'is partitioned (/dev/sdc1, /dev/sdc2)'),
            ('/dev/sdc', PREPARED, 'is partitioned'),
            ('/dev/sdg', (('ext4', 'data', 'u-2'),), 'signature (ext4)'),
            ('/dev/sdg', (('xfs', 'data', 'u-2'),), 'signature (xfs)'),
            ('/dev/sdg', (*PREPARED, ('gpt', '', '')), 'signature (xfs, gpt)'),
        ):
            refusal = self.refusal(path, signatures=signatures)
            self.assertIn(reason, refusal)
            self.assertIn('--wipe', refusal)
            self.assertIsNone(self.refusal(path, True, signatures=signatures))

    def test_accepted(self):
        self.assertIsNone(self.refusal('/dev/sdg'))
        self.assertIsNone(self.refusal('/dev/sdc2'))
        self.assertIsNone(self.refusal('/dev/sdg', signatures=PREPARED))

    def test_prepared(self):
        for path, signatures, uuid in (
            ('/dev/sdg', PREPARED, 'u-1'),
            ('/dev/sdg', (), None),
            ('/dev/sdg', (('xfs', '', 'u-1'),), None),
            ('/dev/sdc', PREPARED, None),
        ):
            device = block.parse_lsblk(path, FOREST)
            device = type(device)(**{**vars(device), 'signatures': signatures})
            self.assertEqual(uuid, block.prepared_uuid(device))

    def test_unknown(self):
        self.assertRaises(
            exception.DiskError, block.parse_lsblk, '/dev/sdz', FOREST
        )


class ReportTestCase(testtools.TestCase):
    """lsblk and wipefs print something else."""

    def inspect(self, lsblk, wipefs):
        path = self.useFixture(fixtures.TempDir()).path
        for name, text in (('lsblk', lsblk), ('wipefs', wipefs)):
            with open(os.path.join(path, name), 'w') as stream:
                stream.write(f"#!/bin/sh\ncat << 'END'\n{text}\nEND\n")
            os.chmod(stream.name, 0o755)
        self.useFixture(
            fixtures.EnvironmentVariable('PATH', f'{path}:/usr/bin:/bin')
        )
        return block.inspect('/dev/sdg')

    def test_good(self):
        forest = json.dumps({'blockdevices': FOREST})
        signature = {'type': 'xfs', 'label': None, 'uuid': 'u-1'}
        found = self.inspect(forest, json.dumps({'signatures': [signature]}))
        self.assertEqual((('xfs', '', 'u-1'),), found.signatures)
        self.assertEqual((), self.inspect(forest, '').signatures)

    def test_bad(self):
        forest = json.dumps({'blockdevices': FOREST})
        for lsblk, wipefs, tool in (
            ('lsblk: a message', '', 'lsblk'),
            ('{"devices": []}', '', 'lsblk'),
            ('{"blockdevices": [{"name": "sdg"}]}', '', 'lsblk'),
            (forest, 'DEVICE OFFSET TYPE', 'wipefs'),
            (forest, '{"signatures": [{"type": "xfs"}]}', 'wipefs'),
        ):
            error = self.assertRaises(
                exception.DiskError, self.inspect, lsblk, wipefs
            )
            self.assertIn(f'the report of {tool} cannot', str(error))
