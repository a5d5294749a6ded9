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

from nova_diskplacer.agent import compute_node
from tests import configured


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
        return compute_node.hypervisor_hostname()

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
        self.assertTrue(compute_node.hypervisor_hostname())


class LookoutTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.now = 0
        self.conf = self.useFixture(configured.Options()).conf

    def lookout(self):
        return compute_node.ComputeNode(self.conf, lambda: self.now)

    def test_says_once_what_is_wrong(self):
        self.useFixture(
            fixtures.MonkeyPatch('socket.gethostname', lambda: 'one.test')
        )
        lookout = self.lookout()
        for self.now in range(0, 300, 10):
            lookout.missing()
            self.assertEqual(
                int(self.now >= 60), self.log.output.count('one.test')
            )
        for words in ('libvirt', '[diskplacer] compute_node', 'hypervisor'):
            self.assertIn(words, self.log.output)

    def test_where_the_name_comes_from(self):
        self.conf.set_override('compute_node', 'two', 'diskplacer')
        lookout = self.lookout()
        self.assertEqual('two', lookout.name)
        lookout.missing()
        self.now = 60
        lookout.missing()
        self.assertIn('from [diskplacer] compute_node', self.log.output)

    def test_says_it_again_when_it_went(self):
        lookout = self.lookout()
        for _ in range(2):
            lookout.missing()
            self.now += 60
            lookout.missing()
            lookout.present()
            lookout.missing()
            lookout.present()
        self.assertEqual(2, self.log.output.count('no disk of this host'))
