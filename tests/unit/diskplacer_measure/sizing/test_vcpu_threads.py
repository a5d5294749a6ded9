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

import ddt
import fixtures
import testtools

from diskplacer_measure.sizing import errors
from diskplacer_measure.sizing import vcpu_threads

UUID = '5f0c0f36-8b8e-4f7e-8d54-0a1a4c3d2e10'

# What Linux 6.1 writes, shortened.
SCHED = """\
CPU 0/KVM (4242, #threads: 7)
-------------------------------------------------------------------
se.exec_start                                :       1234567.123456
se.nr_migrations                             :            {}
nr_switches                                  :                  913
numa_pages_migrated                          :                    0
"""


@ddt.ddt
class MigrationsTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.proc = self.useFixture(fixtures.TempDir()).path
        self.add_process(7, 'qemu-system-x86', '-uuid', 'another')

    def write(self, path, text):
        path = os.path.join(self.proc, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as stream:
            stream.write(text)

    def add_process(self, pid, *arguments):
        self.write(f'{pid}/cmdline', '\0'.join(arguments) + '\0')

    def add_thread(self, pid, tid, name, sched):
        self.write(f'{pid}/task/{tid}/comm', name + '\n')
        self.write(f'{pid}/task/{tid}/sched', sched)

    def add_qemu(self):
        self.add_process(42, 'qemu-system-x86', '-name', 'x', '-uuid', UUID)

    @ddt.data('KVM', 'TCG')
    def test_those_of_vcpus(self, accelerator):
        self.add_qemu()
        for tid, name, count in (
            (42, 'qemu-system-x86', 1000),
            (43, f'CPU 0/{accelerator}', 17),
            (44, f'CPU 1/{accelerator}', 5),
            (45, f'CPU 10/{accelerator}', 2),
            (46, 'IO iothread1', 500),
            (47, 'worker', 300),
        ):
            self.add_thread(42, tid, name, SCHED.format(count))
        self.assertEqual(24, vcpu_threads.migrations(UUID, self.proc))

    def test_one_thread_for_all_vcpus(self):
        self.add_qemu()
        self.add_thread(42, 43, 'ALL CPUs/TCG', SCHED.format(3))
        self.assertEqual(3, vcpu_threads.migrations(UUID, self.proc))

    def test_a_thread_that_ends(self):
        self.add_qemu()
        self.add_thread(42, 43, 'CPU 0/KVM', SCHED.format(3))
        os.makedirs(os.path.join(self.proc, '42/task/44'))
        self.assertEqual(3, vcpu_threads.migrations(UUID, self.proc))

    def assert_error(self, text):
        error = self.assertRaises(
            errors.SizingError, vcpu_threads.migrations, UUID, self.proc
        )
        self.assertIn(text, str(error))

    def test_no_process(self):
        # it names the server, but is not its QEMU
        self.add_process(8, 'grep', UUID)
        self.assert_error(f'has the argument -uuid {UUID}')

    def test_a_kernel_that_does_not_tell(self):
        self.add_qemu()
        self.write('42/task/43/comm', 'CPU 0/KVM\n')
        self.assert_error('CONFIG_SCHED_DEBUG')

    def test_another_format(self):
        self.add_qemu()
        self.add_thread(42, 43, 'CPU 0/KVM', 'nr_switches : 3\n')
        self.assert_error('43/sched has no se.nr_migrations')

    def test_this_kernel(self):
        """A process of ours, as far as this kernel tells."""
        text = SCHED
        if os.path.exists('/proc/self/sched'):
            with open('/proc/self/sched', encoding='utf-8') as stream:
                text = stream.read()
        self.add_qemu()
        self.add_thread(42, 43, 'CPU 0/KVM', text.format(0))
        self.assertGreaterEqual(vcpu_threads.migrations(UUID, self.proc), 0)
