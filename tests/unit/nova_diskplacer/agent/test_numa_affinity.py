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

import fixtures
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.agent import numa_affinity
from nova_diskplacer.host import cpus
from tests import configured
from tests.fakes import disks as fake_disks
from tests.fakes import libvirt as fake_libvirt
from tests.unit.nova_diskplacer.agent import guests

HOST = cpus.HostCpus(
    frozenset(range(4)), {0: frozenset({0, 1}), 1: frozenset({2, 3})}
)
OTHER = '7a2b1c36-8b8e-4f7e-8d54-0a1a4c3d2e11'


class AffinityTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.root = self.useFixture(fixtures.TempDir()).path
        self.guest = self.make_guest()
        self.libvirt = fake_libvirt.FakeLibvirt(self.guest)
        for name, value in (
            ('libvirt_connection.import_libvirt', lambda: self.libvirt),
            ('cpus.read', lambda: HOST),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'nova_diskplacer.host.{name}', value)
            )
        self.conf = self.useFixture(configured.Options()).conf
        self.nova_conf = pathlib.Path(self.root, 'nova.conf')
        self.conf.set_override(
            'nova_conf', [str(self.nova_conf)], 'diskplacer_agent'
        )
        self.written = 0
        self.disks = [self.make_disk(0), self.make_disk(1)]
        self.affinity = numa_affinity.Affinity(self.conf)

    def make_guest(self, nodes=(1,), **kwargs):
        paths = [f'{self.path(node)}/vdisks/volume-1' for node in nodes]
        return guests.Guest(paths=paths, vcpus=1, **kwargs)

    def path(self, node):
        return f'{self.root}/{node}'

    def make_disk(self, node):
        return fake_disks.make_disk(
            f'disk-{node}', path=self.path(node), numa_node=node
        )

    def configure(self, shared):
        self.nova_conf.write_text(f'[compute]\ncpu_shared_set = {shared}\n')
        self.written += 1
        os.utime(self.nova_conf, (self.written, self.written))

    def apply(self, *seen):
        self.affinity.apply(
            list(seen) or [guest.seen() for guest in self.libvirt.running],
            self.disks,
        )

    def allowed(self, guest=None):
        return set((guest or self.guest).allowed(HOST).values())

    def test_kept(self):
        self.apply()
        self.assertEqual({HOST.nodes[1]}, self.allowed())
        self.assertEqual(1, self.guest.mark)
        self.assertIn(
            f'Server {guests.UUID} is pinned to CPUs 2-3 of NUMA node 1',
            self.log.output,
        )
        # nothing to do: libvirt is not told anything
        self.apply()
        self.assertEqual(['qemu:///system'], self.libvirt.uris)
        self.assertEqual(1, self.libvirt.closed)
        # a hard reboot
        self.guest.start()
        self.apply()
        self.assertEqual({HOST.nodes[1]}, self.allowed())

    def test_undone(self):
        self.apply()
        self.guest.paths = self.make_guest(nodes=(0, 1)).paths
        self.apply()
        self.apply()
        self.assertEqual({HOST.online}, self.allowed())
        self.assertIsNone(self.guest.mark)
        self.assertIn('may use CPUs 0-3 again', self.log.output)
        self.assertEqual(
            1, self.log.output.count('its disks are on several NUMA nodes')
        )

    def test_an_agent_that_starts_again(self):
        self.apply()
        self.guest.specs = {}
        self.affinity = numa_affinity.Affinity(self.conf)
        self.apply()
        self.assertEqual({HOST.online}, self.allowed())

    def test_shared_set(self):
        self.configure('0,3')
        self.apply()
        self.assertEqual({frozenset({3})}, self.allowed())
        self.configure('2')
        self.apply()
        self.assertEqual({frozenset({2})}, self.allowed())

    def test_shared_set_without_the_node(self):
        self.configure('0-1')
        self.apply()
        self.assertEqual({HOST.online}, self.allowed())
        self.assertIn(
            'NUMA node 1 has 0 CPUs that it may use', self.log.output
        )

    def test_wrong_shared_set(self):
        self.configure('all')
        for _ in range(2):
            self.assertRaises(exception.DiskPlacerError, self.apply)
        self.assertEqual({HOST.online}, self.allowed())
        self.configure('2')
        self.apply()
        self.assertEqual({frozenset({2})}, self.allowed())

    def test_no_servers(self):
        self.affinity.apply([], self.disks)
        self.assertEqual([], self.libvirt.uris)

    def test_restarted_meanwhile(self):
        seen = self.guest.seen()
        self.guest.start()
        self.apply(seen)
        self.assertEqual({HOST.online}, self.allowed())

    def test_gone_meanwhile(self):
        seen = self.guest.seen()
        self.libvirt.running.clear()
        self.apply(seen)
        self.assertEqual(1, self.libvirt.closed)

    def test_ends_meanwhile(self):
        def end(*args):
            self.libvirt.running.remove(self.guest)
            raise fake_libvirt.Error(55)

        self.guest.pinEmulator = end
        self.apply()
        self.assertEqual(1, self.libvirt.closed)

    def test_one_that_is_refused(self):
        def refuse(*args):
            raise fake_libvirt.Error(55)

        self.guest.pinEmulator = refuse
        other = self.make_guest(uuid=OTHER)
        other.run = 99
        self.libvirt.running.append(other)
        error = self.assertRaises(exception.HypervisorError, self.apply)
        self.assertIn(f'{guests.UUID}: error 55', str(error))
        self.assertNotIn(OTHER, str(error))
        self.assertEqual({HOST.nodes[1]}, self.allowed(other))
        self.assertEqual(1, self.libvirt.closed)

    def test_libvirt_does_not_answer(self):
        def refuse(uri):
            raise fake_libvirt.Error(38)

        self.libvirt.open = refuse
        error = self.assertRaises(exception.HypervisorError, self.apply)
        self.assertIn('libvirt_uri=qemu:///system', str(error))
