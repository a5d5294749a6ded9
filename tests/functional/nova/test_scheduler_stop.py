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

"""The listener of reports lives as long as nova-scheduler's service.

Nova's own fixture sees in every test of this package that no listener is left
behind at its end.
"""

import threading
import time

from nova import service

from nova_diskplacer.scheduler import report_listener
from tests.functional.nova import base

# What runs in the threads of a listener, the poller of oslo.messaging first.
POLLER, *OWN = '_runner', '_renew', '_become_ready'


def threads():
    """Return the threads of all listeners and RPC servers."""
    return {
        thread
        for thread in threading.enumerate()
        if name(thread) in (POLLER, *OWN)
    }


def name(thread):
    """Return the name of the function that runs in a thread."""
    return getattr(getattr(thread, '_target', None), '__name__', '')


class SchedulerStopTestCase(base.CloudTestCase):
    hosts_count = 1

    def setUp(self):
        super().setUp()
        self.vdisks = self.flavor(vdisks=1, vdisk_gb=10)

    def assert_ends(self, began):
        end = time.monotonic() + base.PATIENCE
        while left := [thread for thread in began if thread.is_alive()]:
            self.assertLess(time.monotonic(), end, left)
            time.sleep(0.05)

    def listening(self):
        """Boot a server; returns the threads that this has begun."""
        before = threads()
        self.assert_claims(self.boot(self.vdisks), [10])
        return threads() - before

    def assert_begun(self, began):
        self.assertLessEqual({POLLER, '_renew'}, {name(one) for one in began})

    def test_stop_and_start_again(self):
        before = threads()
        for _ in range(2):
            began = self.listening()
            self.assert_begun(began)
            self.scheduler_service.stop()
            self.assert_ends(began)
            self.assertEqual({}, report_listener._listeners)
            self.scheduler_service.start()
        self.assertEqual(len(before), len(threads()))

    def test_stop_of_another_service(self):
        began = self.listening()
        self.assert_begun(began)
        self.restart_compute_service(self.computes['host0'])
        self.assertEqual(set(), self.listening())
        for thread in began:
            self.assertTrue(
                name(thread) == '_become_ready' or thread.is_alive()
            )

    def test_two_schedulers_in_one_process(self):
        other = service.Service.create(
            host='other', binary='nova-scheduler', topic='scheduler'
        )
        other.start()
        began = self.listening()
        self.assert_begun(began)
        self.scheduler_service.stop()
        self.assert_ends(began)
        began = self.listening()
        self.assert_begun(began)
        other.stop()
        self.assert_ends(began)
        self.assertEqual({}, report_listener._listeners)
