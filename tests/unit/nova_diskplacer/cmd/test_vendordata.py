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
import pathlib
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import fixtures
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.cmd import vendordata
from tests import configured
from tests import loopback

GROUP = vendordata.conf.vendordata.GROUP.name
PORT = 9749


def hello(environ, start_response):
    """Answer as an application."""
    start_response('200 OK', [('Content-Type', 'text/plain')])
    return [b'hello']


class PrepareTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.conf = self.useFixture(configured.Options()).conf
        self.address = loopback.address()
        self.conf.set_override('listen_address', self.address, GROUP)

    def test_serves(self):
        server = vendordata.prepare(self.conf, hello)
        thread = threading.Thread(target=server.serve)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.stop)
        url = f'http://{self.address}:{PORT}/'
        with urllib.request.urlopen(url) as answer:
            self.assertEqual(b'hello', answer.read())
        large = urllib.request.Request(url, headers={'X': 'x' * (1 << 17)})
        error = self.assertRaises(
            urllib.error.HTTPError, urllib.request.urlopen, large
        )
        self.addCleanup(error.close)
        self.assertEqual(413, error.code)

    def test_address_in_use(self):
        server = vendordata.prepare(self.conf, hello)
        self.addCleanup(server.stop)
        error = self.assertRaises(
            exception.DiskPlacerError, vendordata.prepare, self.conf, hello
        )
        self.assertIn(
            f'[{GROUP}] listen_address={self.address}, listen_port={PORT}: ',
            str(error),
        )


class MainTest(base.BaseTestCase):
    """The command and the application, in processes of their own."""

    MAIN = 'import sys; from {0} import main; sys.exit(main())'
    APPLICATION = 'from {0} import application; print(application())'

    def setUp(self):
        super().setUp()
        directory = self.useFixture(fixtures.TempDir()).path
        self.path = pathlib.Path(directory, 'vendordata.conf')
        self.address = loopback.address()
        self.write('auth_type = none')

    def write(self, account):
        self.path.write_text(
            '[keystone_authtoken]\n'
            'www_authenticate_uri = http://keystone.test\n'
            # with it, eventlet is imported at the first request
            'memcached_servers = 127.0.0.1:9\n'
            f'[{GROUP}]\nlisten_address = {self.address}\n{account}\n'
        )

    def start(self, code, *arguments, **variables):
        process = subprocess.Popen(
            [sys.executable, '-c', code.format(vendordata.__name__)]
            + list(arguments),
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def status(self, process):
        """Return the status of the first answer."""
        while process.poll() is None:
            try:
                urllib.request.urlopen(f'http://{self.address}:{PORT}/', b'{}')
            except urllib.error.HTTPError as error:
                error.close()
                return error.code
            except urllib.error.URLError:
                time.sleep(0.1)
        self.fail(process.communicate())

    def test_serves_until_sigterm(self):
        process = self.start(self.MAIN, f'--config-file={self.path}')
        self.assertEqual(401, self.status(process))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait())

    def test_wrong_configuration(self):
        self.write('')
        process = self.start(self.MAIN, f'--config-file={self.path}')
        _, errors = process.communicate()
        self.assertEqual(1, process.returncode)
        self.assertIn(
            f'diskplacer-vendordata: [{GROUP}] auth_type is not set', errors
        )

    def test_application(self):
        process = self.start(
            self.APPLICATION, OS_DISKPLACER_CONFIG_FILES=f'{self.path};'
        )
        out, errors = process.communicate()
        self.assertIn('AuthProtocol', out, errors)
