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

import argparse

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.cmd import cloud

URL = 'http://127.0.0.1:9/v3'


class ConnectionTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        directory = self.useFixture(fixtures.TempDir()).path
        for name, value in (
            ('HOME', directory),
            ('OS_CLOUD', None),
            ('OS_AUTH_URL', URL),
            ('OS_USERNAME', 'admin'),
            ('OS_PASSWORD', 'secret'),
            ('OS_PROJECT_NAME', 'admin'),
            ('OS_USER_DOMAIN_ID', 'default'),
            ('OS_PROJECT_DOMAIN_ID', 'default'),
        ):
            self.useFixture(fixtures.EnvironmentVariable(name, value))

    def test_no_request_is_sent(self):
        # nobody listens there
        found = cloud.connection(argparse.Namespace(os_cloud=None))
        self.assertEqual(60.0, found.session.timeout)
        self.assertEqual(URL, found.session.auth.auth_url)

    def test_an_unknown_cloud(self):
        error = self.assertRaises(
            exception.DiskPlacerError,
            cloud.connection,
            argparse.Namespace(os_cloud='elsewhere'),
        )
        self.assertIn('cloud elsewhere: ', str(error))
