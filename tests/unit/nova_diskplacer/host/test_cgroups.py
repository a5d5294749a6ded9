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
        """Return the root of a hierarchy of version 2."""
        root = os.path.join(self.path, 'unified')
        os.mkdir(root)
        with open(f'{root}/cgroup.controllers', 'w') as stream:
            stream.write(controllers + '\n')
        return root

    def find(self, *lines):
        os.mkdir(os.path.join(self.path, 'self'))
        with open(os.path.join(self.path, 'self/mounts'), 'w') as stream:
            stream.write('sysfs /sys sysfs rw,relatime 0 0\n')
            stream.writelines(f'{line} 0 0\n' for line in lines)
        with mock.patch.object(psutil, 'PROCFS_PATH', self.path):
            return cgroups.hierarchy()

    def test_version_1(self):
        self.assertEqual(
            cgroups.Hierarchy(1, '/sys/fs/cgroup/blkio'),
            self.find(
                'cgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct',
                'cgroup /sys/fs/cgroup/blkio cgroup rw,nosuid,blkio',
            ),
        )

    def test_version_2(self):
        root = self.unified('cpuset cpu io memory')
        self.assertEqual(
            cgroups.Hierarchy(2, root), self.find(f'cgroup2 {root} cgroup2 rw')
        )

    def test_both(self):
        root = self.unified('')
        self.assertEqual(
            cgroups.Hierarchy(1, '/cgroups of/blkio'),
            self.find(
                f'cgroup2 {root} cgroup2 rw',
                'cgroup /cgroups\\040of/blkio cgroup rw,blkio',
            ),
        )

    def test_none(self):
        root = self.unified('cpu ios')
        error = self.assertRaises(
            exception.ContentionError,
            self.find,
            f'cgroup2 {root} cgroup2 rw',
            'cgroup2 /gone cgroup2 rw',
            'cgroup /sys/fs/cgroup/cpu cgroup rw,cpu',
        )
        self.assertIn('io controller', str(error))

    def test_paths(self):
        hierarchy = cgroups.Hierarchy(2, '/sys/fs/cgroup')
        self.assertEqual(
            '/sys/fs/cgroup/a/b/io.stat', hierarchy.path('a/b', 'io.stat')
        )
        self.assertEqual('/sys/fs/cgroup/a', hierarchy.path('a'))
        self.assertEqual('/sys/fs/cgroup/x', hierarchy.path('', 'x'))

    def test_this_host(self):
        self.assertIn(cgroups.hierarchy().version, (1, 2))
