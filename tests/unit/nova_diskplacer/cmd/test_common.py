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
"""What all commands share."""

import os
import threading

import testtools

from nova_diskplacer import exception
from nova_diskplacer.cmd import common
from nova_diskplacer.host import probes


class RunInChildTestCase(testtools.TestCase):
    def test_result(self):
        self.assertNotEqual(os.getpid(), common.run_in_child(os.getpid))

    def test_error(self):
        def fail():
            raise exception.DiskError('no')

        error = self.assertRaises(
            exception.DiskError, common.run_in_child, fail
        )
        self.assertEqual('no', str(error))

    def test_what_hangs_there_is_not_waited_for(self):
        def work():
            probes.Job(threading.Event().wait)
            return 5

        self.assertEqual(5, common.run_in_child(work))
