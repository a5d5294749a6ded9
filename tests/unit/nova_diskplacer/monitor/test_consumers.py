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
from oslotest import base

from nova_diskplacer.host import cgroups
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.monitor import consumers


def make_server(uuid, number=None, partition='/machine', **values):
    xml = f"""
<domain type='kvm'>
  <resource>
    <partition>{partition}</partition>
  </resource>
</domain>
"""
    return libvirt_servers.Server(
        uuid,
        f'instance-{uuid}',
        {},
        (),
        {},
        number is not None,
        False,
        xml,
        number,
        **values,
    )


class ConsumersTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        root = self.useFixture(fixtures.TempDir()).path
        self.hierarchy = cgroups.Hierarchy(root)

    def make(self, *paths):
        for path in paths:
            os.makedirs(os.path.join(self.hierarchy.root, path))

    def find(self, servers=(), patterns=()):
        found = consumers.find(servers, patterns, self.hierarchy)
        return [found[key] for key in sorted(found)]

    def cgroup(self, **server):
        (found,) = self.find([make_server('s', **server)])
        return found.cgroup

    def test_libvirt_servers(self):
        path = 'machine.slice/machine-qemu\\x2d7\\x2dinstance\\x2da.scope'
        self.make(path + '/libvirt/emulator')
        server = make_server('a', 7, project='p')
        stopped = make_server('b')
        found = self.find([stopped, server])
        self.assertEqual(['a', 'b'], [one.key for one in found])
        self.assertEqual(path, found[0].cgroup)
        self.assertEqual('instance-a', found[0].domain)
        self.assertEqual('p', found[0].project)
        self.assertEqual('', found[1].cgroup)

    def test_another_libvirt_with_the_same_number(self):
        self.make(
            'machine/qemu-2-other-00000001.libvirt-qemu',
            'machine.slice/machine-qemu\\x2d2\\x2dinstance\\x2d.scope',
        )
        self.assertEqual(
            'machine.slice/machine-qemu\\x2d2\\x2dinstance\\x2d.scope',
            self.cgroup(number=2),
        )

    def test_by_number_and_not_by_name(self):
        self.make(
            'machine/qemu-1-qemu-12-instance-s.libvirt-qemu',
            'machine/qemu-2-instance-s.libvirt-qemu',
            'machine/lxc-12-instance-s.libvirt-lxc',
        )
        self.assertEqual(
            'machine/qemu-2-instance-s.libvirt-qemu', self.cgroup(number=2)
        )
        self.assertEqual('', self.cgroup(number=12))
        self.assertEqual('', self.cgroup(number=None))

    def test_partitions(self):
        home = 'machine.slice/machine-gold\\x2dclass.slice'
        name = 'machine-qemu\\x2d3\\x2dinstance\\x2ds.scope'
        self.make(
            f'{home}/{name}',
            'machine/a.partition/qemu-4-instance-s.libvirt-qemu',
        )
        self.assertEqual(
            f'{home}/{name}',
            self.cgroup(number=3, partition='/machine/gold-class'),
        )
        self.assertEqual(
            'machine/a.partition/qemu-4-instance-s.libvirt-qemu',
            self.cgroup(number=4, partition='/machine/a'),
        )
        self.assertEqual('', self.cgroup(number=4))

    def test_where_partitions_are(self):
        for partition, systemd, plain in (
            ('/machine', 'machine.slice', 'machine'),
            (
                '/machine/a/b.x',
                'machine.slice/machine-a.slice/machine-a-b.x.slice',
                'machine/a.partition/b.x',
            ),
            (
                '/gold/user',
                'gold.slice/gold-user.slice',
                'gold.partition/user.partition',
            ),
        ):
            self.assertEqual(
                [systemd, plain], consumers.parent_cgroups(partition)
            )

    def test_cgroups_by_pattern(self):
        self.make('backup.slice/a.service', 'backup.slice/b.scope', 'x/y')
        with open(self.hierarchy.path('backup.slice', 'c.service'), 'w'):
            pass
        found = self.find(
            patterns=['backup.slice/*.service', '/x/y/', 'x/*', 'none/*']
        )
        self.assertEqual(
            [('backup.slice/a.service',) * 2, ('x/y',) * 2],
            [(one.key, one.cgroup) for one in found],
        )
        self.assertEqual({''}, {one.domain for one in found})

    def test_a_servers_cgroup_is_not_taken_twice(self):
        self.make('machine/qemu-1-instance-s.libvirt-qemu', 'machine/other')
        found = self.find([make_server('s', 1)], ['machine/*'])
        self.assertEqual(['machine/other', 's'], [one.key for one in found])
