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
import types
from unittest import mock

import fixtures
import testtools

from cinder_vdisk_mapper.server_moves import settle_states
from nova_diskplacer.disks import settling

VDISK = settling.VDisk('1', 'volume-1', 's', 'host1', 'A', 'waiting', 1.0)


class SettleStatesTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.root = self.useFixture(fixtures.TempDir()).path
        self.now = 5.0
        self.useFixture(
            fixtures.MockPatchObject(
                settle_states,
                'time',
                types.SimpleNamespace(time=lambda: self.now),
            )
        )
        self.states = settle_states.SettleStates()
        self.states.add(VDISK, self.root)

    def test_progress(self):
        self.assertTrue(self.states.progress('1', 10, 50))
        self.now = 7.0
        self.assertTrue(self.states.progress('1', 20, 50))
        found = self.states['1']
        self.assertEqual(
            (settling.COPYING, 10, 20, 50, 5.0, 7.0),
            (
                found.state,
                found.first,
                found.done,
                found.total,
                found.began,
                found.moved,
            ),
        )
        # again, from its start
        self.now = 9.0
        self.assertFalse(self.states.progress('1', 0, 50))
        self.assertFalse(self.states.progress('1', 20, 50))
        found = self.states['1']
        self.assertEqual(
            (0, 9.0, 7.0), (found.first, found.began, found.moved)
        )

    def test_a_copy_that_waits_for_the_other_host(self):
        self.states.progress('1', 10, 50)
        self.states.change('1', state=settling.AWAY)
        self.assertFalse(self.states.progress('1', 10, 50))
        self.assertEqual(settling.AWAY, self.states['1'].state)
        self.assertTrue(self.states.progress('1', 11, 50))
        self.assertEqual(settling.COPYING, self.states['1'].state)

    def test_what_is_found_again(self):
        """Its disk may have been decided since."""
        self.states.change('1', state=settling.FAILED, reason='bad')
        self.states.add(dataclasses.replace(VDISK, disk='B'), self.root)
        found = self.states['1']
        self.assertEqual(
            ('B', settling.FAILED, 'bad'),
            (found.disk, found.state, found.reason),
        )

    def test_what_is_forgotten(self):
        self.states.forget('1')
        self.assertEqual(0, len(self.states))
        # by a thread that has not ended
        self.assertFalse(self.states.progress('1', 10, 50))
        self.states.change('1', state=settling.FAILED)
        self.assertEqual(set(), self.states.volumes())

    def test_files(self):
        other = self.useFixture(fixtures.TempDir()).path
        self.states.write([self.root, other, self.root])
        self.assertEqual(
            ((VDISK,), ()),
            tuple(
                settling.FILE.read(root).vdisks for root in (self.root, other)
            ),
        )
        with mock.patch.object(settling.FILE.__class__, 'write') as write:
            self.states.write([self.root])
            write.assert_not_called()
            self.states.change('1', state=settling.FAILED)
            self.states.write([self.root])
            self.now += settle_states.WRITE_PAUSE + 1
            self.states.write([self.root])
        self.assertEqual(2, len(write.mock_calls))
