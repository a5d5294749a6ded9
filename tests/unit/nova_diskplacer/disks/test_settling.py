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
import json
import os
import time

import fixtures
import testtools

from nova_diskplacer.disks import settling


def vdisk(**fields):
    made = {
        'volume': '1',
        'name': 'volume-1',
        'server': 's',
        'source': 'host1',
        'disk': 'd',
        'state': settling.COPYING,
        'moved': 100.0,
        **fields,
    }
    return settling.VDisk(**made)


class SettlingTestCase(testtools.TestCase):
    def test_file(self):
        root = self.useFixture(fixtures.TempDir()).path
        self.assertIsNone(settling.FILE.read(root))
        state = settling.Settling(1.0, (vdisk(), vdisk(volume='2')))
        settling.FILE.write(root, state)
        self.assertEqual(state, settling.FILE.read(root))
        place = settling.FILE.path(root)
        self.assertEqual(0o644, os.stat(place).st_mode & 0o777)
        with open(place, 'w') as stream:
            stream.write('{"time": 1, "vdisks": [{}]}')
        self.assertIsNone(settling.FILE.read(root))

    def test_nothing_settles(self):
        """The links tell what there is, and since when."""
        root = self.useFixture(fixtures.TempDir()).path
        self.assertEqual((), settling.of_host(root, 1000.0))
        os.mkdir(os.path.join(root, 'remote'))
        for name in ('volume-1', 'volume-2'):
            link = os.path.join(root, 'remote', name)
            os.symlink('/dev/x', link)
            os.utime(link, (800, 800), follow_symlinks=False)
        state = settling.Settling(900.0, (vdisk(done=3, total=10),))
        settling.FILE.write(root, state)
        self.assertEqual(state.vdisks, settling.of_host(root, 1000.0))
        one, two = settling.of_host(root, 2000.0)
        self.assertEqual((3, 'host1'), (one.done, one.source))
        self.assertEqual(('2', ''), (two.volume, two.source))
        self.assertEqual(1200.0, two.stalled(2000.0))
        for found in (one, two):
            self.assertEqual(settling.FAILED, found.state)
            self.assertIn('does not run', found.reason)
        self.assertIn('from another host', settling.describe(two, 2000.0))

    def test_a_later_release(self):
        """It adds fields, or gives one another type."""
        log = self.useFixture(fixtures.FakeLogger())
        root = self.useFixture(fixtures.TempDir()).path
        os.mkdir(os.path.join(root, 'remote'))
        os.symlink('/dev/x', os.path.join(root, 'remote/volume-1'))
        now = time.time()
        written = dataclasses.asdict(vdisk(done=3, total=10))
        self.write(root, now, {**written, 'pace': 4})
        self.assertEqual(
            (vdisk(done=3, total=10),), settling.of_host(root, now)
        )
        self.assertEqual('', log.output)
        self.write(root, now, {**written, 'done': {'here': 3}})
        (found,) = settling.of_host(root, now)
        self.assertIn('is of another release', found.reason)
        # where it has ended, nobody knows its release
        (found,) = settling.of_host(root, now + 900)
        self.assertIn('does not run', found.reason)

    def test_an_earlier_release(self):
        root = self.useFixture(fixtures.TempDir()).path
        written = dataclasses.asdict(vdisk())
        del written['reason']
        self.write(root, 1000.0, written)
        self.assertEqual((vdisk(),), settling.of_host(root, 1000.0))

    def write(self, root, now, vdisk):
        with open(settling.FILE.path(root), 'w') as stream:
            json.dump({'time': now, 'vdisks': [vdisk]}, stream)

    def test_words(self):
        for fields, words in (
            ({}, 'moving 0 % from host1'),
            (
                {'began': 110.0, 'done': 37, 'total': 100},
                'moving 37 % from host1',
            ),
            (
                {'began': 80.0, 'first': 10, 'done': 37, 'total': 100},
                'moving 37 % from host1, 1 min 10 s left',
            ),
            (
                {'state': settling.AWAY, 'reason': 'no answer'},
                'moving 0 % from host1, away: no answer',
            ),
            ({'state': settling.WAITING}, 'moving 0 % from host1, waiting'),
        ):
            self.assertEqual(words, settling.describe(vdisk(**fields), 110.0))

    def test_stalled(self):
        self.assertEqual(10.0, vdisk().stalled(110.0))
        self.assertEqual(0.0, vdisk().stalled(90.0))
        self.assertEqual(0.0, vdisk(state=settling.WAITING).stalled(110.0))
