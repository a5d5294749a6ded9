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

import threading
import unittest
from unittest import mock

from nova_diskplacer.api import backend_media
from nova_diskplacer.api import backends

PATIENCE = 30


class BackendsTest(unittest.TestCase):
    def test_requests_at_once_wait_for_the_same_answer(self):
        asked, answered = threading.Event(), threading.Event()
        found = []

        def ask():
            asked.set()
            answered.wait(PATIENCE)
            return {'vdisk': 'b'}, [
                backend_media.Pool(host, 'b', 'any')
                for host in ('node1', 'node2')
            ]

        known = backends.Backends()
        threads = [
            threading.Thread(
                target=lambda: found.append(known.hosts('vdisk')), daemon=True
            )
            for _ in range(2)
        ]
        with mock.patch.object(backends, '_ask', side_effect=ask) as patched:
            threads[0].start()
            self.assertTrue(asked.wait(PATIENCE))
            threads[1].start()
            threads[1].join(0.2)
            answered.set()
            for thread in threads:
                thread.join(PATIENCE)
        self.assertEqual([2, 2], found)
        patched.assert_called_once_with()
