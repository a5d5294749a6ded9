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

import contextlib
import io
import unittest
from unittest import mock

from cinder_vdisk_mapper.cmd import progress


class ProgressTestCase(unittest.TestCase):
    def test_time_left(self):
        gib = 1 << 30
        self.assertEqual(
            '1.0 of 4.0 GiB, 51 MiB/s, 1 min 0 s left',
            progress.describe(gib, 4 * gib, gib, 20),
        )

    def test_nothing_is_copied_yet(self):
        for copied, seconds in ((0, 5), (5, 0)):
            self.assertEqual(
                '0.0 of 1.0 GiB',
                progress.describe(0, 1 << 30, copied, seconds),
            )

    def test_not_every_second(self):
        output = io.StringIO()
        show = progress.Progress()
        with (
            contextlib.redirect_stderr(output),
            mock.patch('time.monotonic', side_effect=[100, 101, 102, 112]),
        ):
            for name, done in (('a', 1), ('a', 2), ('b', 1), ('b', 2)):
                show(name, done, 9)
        self.assertEqual(
            ['a', 'b', 'b'],
            [line[0] for line in output.getvalue().splitlines()],
        )
