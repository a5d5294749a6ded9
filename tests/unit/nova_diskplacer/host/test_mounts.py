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

import fixtures
import testtools

from nova_diskplacer.host import mounts


class ReadTest(testtools.TestCase):
    def test_escaped_paths(self):
        path = os.path.join(self.useFixture(fixtures.TempDir()).path, 'mounts')
        with open(path, 'w') as stream:
            stream.write(
                'tracefs /sys/kernel/tracing tracefs rw,nosuid 0 0\n'
                '/dev/sdb /data\\040one xfs rw 0 0\n'
            )
        self.assertEqual(
            [
                mounts.Mount(
                    'tracefs',
                    '/sys/kernel/tracing',
                    'tracefs',
                    ('rw', 'nosuid'),
                ),
                mounts.Mount('/dev/sdb', '/data one', 'xfs', ('rw',)),
            ],
            mounts.read(path),
        )

    def test_of_this_host(self):
        self.assertIn('/', [mount.target for mount in mounts.read()])
