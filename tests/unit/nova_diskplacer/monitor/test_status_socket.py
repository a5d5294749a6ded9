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

import fixtures
from oslotest import base

from nova_diskplacer.monitor import status_socket
from tests.unit.nova_diskplacer.monitor import example


class StatusSocketTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.dir = self.useFixture(fixtures.TempDir()).path

    def serve(self, provider):
        server = status_socket.serve(self.dir, provider)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)

    def test_the_status_of_now(self):
        self.serve(example.status_provider())
        self.assertEqual(
            example.status_provider()(), status_socket.fetch(self.dir)
        )

    def test_before_the_first_interval_there_is_none(self):
        self.serve(lambda: None)
        self.assertIsNone(status_socket.fetch(self.dir))
