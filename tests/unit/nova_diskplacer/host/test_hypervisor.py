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

import socket

import fixtures
from oslotest import base

from nova_diskplacer.host import hypervisor


class HostNameTest(base.BaseTestCase):
    def name(self, host, canonical):
        """Return the name of a host of which the resolver says that."""

        def getaddrinfo(name, port, flags):
            self.assertEqual((host, None), (name, port))
            self.assertEqual(socket.AI_CANONNAME, flags)
            if isinstance(canonical, Exception):
                raise canonical
            return [
                (socket.AF_INET, 1, 6, canonical, ('127.0.0.1', 0)),
                (socket.AF_INET, 2, 17, '', ('127.0.0.1', 0)),
            ]

        for function, replacement in (
            ('gethostname', lambda: host),
            ('getaddrinfo', getaddrinfo),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'socket.{function}', replacement)
            )
        return hypervisor.hostname()

    def test_a_name_with_a_dot_is_taken_as_it_is(self):
        error = AssertionError('the resolver is not asked')
        for host in ('one.example.org', 'localhost', 'localhost.localdomain'):
            self.assertEqual(host, self.name(host, error))

    def test_the_canonical_name(self):
        self.assertEqual(
            'one.example.org', self.name('one', 'one.example.org')
        )

    def test_the_short_name_where_there_is_no_other(self):
        # as with "127.0.0.1 localhost one" in /etc/hosts
        for canonical in (
            'localhost',
            'localhost.localdomain',
            '127.0.1.1',
            'fe80::1',
            '',
            socket.gaierror('unknown'),
        ):
            self.assertEqual('one', self.name('one', canonical))

    def test_of_this_host(self):
        self.assertTrue(hypervisor.hostname())
