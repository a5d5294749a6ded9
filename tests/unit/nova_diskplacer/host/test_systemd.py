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

import os
import socket

import fixtures
import testtools

from nova_diskplacer.host import systemd


class TestWatchdog(testtools.TestCase):
    def listen(self, address):
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(listening.close)
        listening.bind(address)
        listening.settimeout(120)
        return listening

    def setUp(self):
        super().setUp()
        self.path = self.useFixture(fixtures.TempDir()).path + '/notify'
        self.systemd = self.listen(self.path)
        self.set_environment(self.path, '30000000', str(os.getpid()))

    def set_environment(self, address, patience, watched):
        for name, value in (
            ('NOTIFY_SOCKET', address),
            ('WATCHDOG_USEC', patience),
            ('WATCHDOG_PID', watched),
        ):
            self.useFixture(fixtures.EnvironmentVariable(name, value))

    def told(self):
        """Return what was said, up to a mark that is sent now."""
        marking = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with marking:
            marking.sendto(b'mark', self.systemd.getsockname())
        found = []
        while True:
            message = self.systemd.recv(4096).decode()
            if message == 'mark':
                return found
            found.append(message)

    def test_told(self):
        systemd.notify_ready(1)
        systemd.notify_watchdog()
        systemd.notify_watchdog()
        self.assertEqual(['READY=1', 'WATCHDOG=1', 'WATCHDOG=1'], self.told())

    def test_abstract_address(self):
        name = f'diskplacer-test-{os.getpid()}'
        self.systemd = self.listen('\0' + name)
        self.set_environment('@' + name, '30000000', None)
        systemd.notify_watchdog()
        self.assertEqual(['WATCHDOG=1'], self.told())

    def test_beats_that_are_far_apart(self):
        systemd.notify_ready(60)
        self.assertEqual(['READY=1\nWATCHDOG_USEC=180000000'], self.told())

    def test_a_service_without_watchdog(self):
        systemd.notify_ready()
        self.assertEqual(['READY=1'], self.told())

    def test_nobody_watches(self):
        for patience, watched in (
            (None, None),
            ('', None),
            ('30000000', str(os.getppid())),
        ):
            self.set_environment(self.path, patience, watched)
            systemd.notify_ready(60)
            systemd.notify_watchdog()
            self.assertEqual(['READY=1'], self.told())

    def test_without_systemd(self):
        for address in (None, '', f'{self.path}-gone'):
            self.set_environment(address, '30000000', None)
            systemd.notify_ready(1)
            systemd.notify_watchdog()
            self.assertEqual([], self.told())
