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
from unittest import mock

import fixtures
import psutil
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.host import cgroups


class HierarchyTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.path = self.useFixture(fixtures.TempDir()).path

    def unified(self, controllers):
        """Return the root of a hierarchy with these controllers."""
        root = os.path.join(self.path, 'cgroups of')
        os.mkdir(root)
        with open(f'{root}/cgroup.controllers', 'w') as stream:
            stream.write(controllers + '\n')
        return root

    def find(self, *lines):
        os.mkdir(os.path.join(self.path, 'self'))
        with open(os.path.join(self.path, 'self/mounts'), 'w') as stream:
            stream.write('sysfs /sys sysfs rw,relatime 0 0\n')
            for line in lines:
                path = line.replace('cgroups of', 'cgroups\\040of')
                stream.write(f'{path} 0 0\n')
        with mock.patch.object(psutil, 'PROCFS_PATH', self.path):
            return cgroups.hierarchy()

    def test_with_io(self):
        root = self.unified('cpuset cpu io memory')
        self.assertEqual(
            cgroups.Hierarchy(root),
            self.find(
                'cgroup2 /gone cgroup2 rw', f'cgroup2 {root} cgroup2 rw'
            ),
        )

    def test_without_io(self):
        """A controller of cgroup v1 is none of v2."""
        root = self.unified('cpu ios')
        error = self.assertRaises(
            exception.ContentionError,
            self.find,
            f'cgroup2 {root} cgroup2 rw',
            'cgroup /sys/fs/cgroup/blkio cgroup rw,nosuid,blkio',
        )
        self.assertIn('cgroup v2 with the io controller', str(error))

    def test_paths(self):
        hierarchy = cgroups.Hierarchy('/sys/fs/cgroup')
        self.assertEqual(
            '/sys/fs/cgroup/a/b/io.stat', hierarchy.path('a/b', 'io.stat')
        )
        self.assertEqual('/sys/fs/cgroup/a', hierarchy.path('a'))
        self.assertEqual('/sys/fs/cgroup/x', hierarchy.path('', 'x'))
