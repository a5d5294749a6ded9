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

"""Moves of legs of striped vdisks on the real device mapper."""

import contextlib
import pathlib

from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import stripes
from tests.testbed.lvm import base
from tests.testbed.lvm_long import elastic


class MoveTestCase(elastic.ElasticTestCase):
    def test_what_has_left_is_wiped(self):
        self.writes.write(4000)
        old = [
            place
            for suffix in ('.2', '.3')
            for place in base.places(self.a, elastic.NAME + suffix)
        ]
        self.assertFalse(base.is_zero(self.spare[0], old))
        self.move((self.a, self.a, self.b, self.b))
        self.assertTrue(base.is_zero(self.spare[0], old))
        self.assertWhole()

    def test_a_piece_of_a_striped_vdisk(self):
        """It goes to another disk, as in a drain."""
        stripes.deactivate(elastic.NAME)
        self.purge()
        self.make((self.a, self.b), 0)
        with self.writes.going_on():
            self.move((self.c, self.b))
        self.assertIsNone(self.writes.error)
        self.assertWhole()

    def test_throttle(self):
        self.vdisk.percent = 1
        new = (self.a, self.a, self.b, self.b)
        throttle = pathlib.Path(elastic.THROTTLE)
        before = throttle.read_bytes() if throttle.exists() else b''
        seen = []

        def stopped():
            seen.append(throttle.read_text().strip())
            # it may be killed now
            return True

        with contextlib.suppress(exception.DiskPlacerError):
            self.move(new, stopped)
        if seen:
            self.assertEqual(['1'], seen)
        self.assertEqual(before or b'100\n', throttle.read_bytes())
        self.assertWhole()
