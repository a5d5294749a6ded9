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

import pathlib

import fixtures
from hypothesis import given
from hypothesis import strategies as st
from nova import exception as nova_exception
from nova.virt import hardware
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.host import cpus

RULES = st.lists(
    st.one_of(
        st.integers(0, 20).map(str),
        st.integers(0, 20).map('^{}'.format),
        st.tuples(st.integers(0, 20), st.integers(0, 20)).map(
            lambda ends: f'{ends[0]}-{ends[1]}'
        ),
        st.tuples(st.integers(0, 20), st.integers(0, 20)).map(
            lambda ends: f' ^ {ends[0]} - {ends[1]} '
        ),
        st.sampled_from(['', ' ', 'a', '-', '^', '1-', '-1', '1-2-3', '^^1']),
    ),
    max_size=6,
).map(','.join)


class ParseTest(base.BaseTestCase):
    @given(RULES)
    def test_as_nova_does(self, text):
        try:
            wanted = hardware.parse_cpu_spec(text)
        except nova_exception.Invalid:
            self.assertRaises(ValueError, cpus.parse, text)
        else:
            self.assertEqual(wanted, cpus.parse(text))

    @given(st.frozensets(st.integers(0, 200)))
    def test_render(self, wanted):
        text = cpus.render(wanted)
        self.assertEqual(wanted, cpus.parse(text))
        self.assertEqual(hardware.format_cpu_spec(set(wanted)), text)

    def test_errors_say_what_is_allowed(self):
        error = self.assertRaises(ValueError, cpus.parse, '0-3,x')
        self.assertEqual(
            "'x' in '0-3,x' is none of CPUs and ranges, those to leave out "
            'after ^, such as 0-7,^2,12',
            str(error),
        )
        error = self.assertRaises(ValueError, cpus.parse, '3-1')
        self.assertIn('ends before it begins', str(error))


class HostTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.sys = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def write(self, path, content):
        path = self.sys / 'devices' / 'system' / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + '\n')

    def test_read(self):
        self.write('cpu/online', '0-2,5')
        self.write('node/node0/cpulist', '0-1')
        self.write('node/node1/cpulist', '2-5')
        # memory only
        self.write('node/node2/cpulist', '')
        self.write('node/possible', '0-2')
        self.assertEqual(
            cpus.HostCpus(
                frozenset({0, 1, 2, 5}),
                {0: frozenset({0, 1}), 1: frozenset({2, 5}), 2: frozenset()},
            ),
            cpus.read(str(self.sys)),
        )

    def test_a_kernel_without_nodes(self):
        self.write('cpu/online', '0')
        self.assertEqual(
            cpus.HostCpus(frozenset({0}), {}), cpus.read(str(self.sys))
        )


class ConfigTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.path = self.useFixture(fixtures.TempDir()).path

    def write(self, text, name='nova.conf'):
        path = pathlib.Path(self.path, name)
        path.write_text(text)
        return str(path)

    def available(self, *lines):
        path = self.write('\n'.join(['[compute]', *lines]))
        return cpus.read_nova_sets([path]).available(frozenset(range(4)))

    def test_available(self):
        self.assertEqual({0, 1, 2, 3}, self.available())
        self.assertEqual({0, 3}, self.available('cpu_shared_set=0-3,^1,^2'))
        self.assertEqual({3}, self.available('cpu_shared_set=3-9'))
        self.assertEqual({2, 3}, self.available('cpu_dedicated_set=0-1'))
        self.assertEqual(
            {2}, self.available('cpu_shared_set=2', 'cpu_dedicated_set=0')
        )

    def test_files(self):
        one = self.write('[compute]\ncpu_shared_set=1\n[other]\nx=y')
        two = self.write('[compute]\ncpu_shared_set=2', 'nova-compute.conf')
        self.assertEqual(cpus.NovaCpuSets(), cpus.read_nova_sets([]))
        self.assertEqual(
            cpus.NovaCpuSets(frozenset({2}), None),
            cpus.read_nova_sets([one, two]),
        )

    def test_no_configuration(self):
        error = self.assertRaises(
            exception.DiskPlacerError,
            cpus.read_nova_sets,
            [self.write('what?')],
        )
        self.assertIn('[diskplacer_agent] nova_conf', str(error))

    def test_wrong(self):
        for text, problem in (
            ('0-x', 'none of CPUs and ranges'),
            ('1,^1', 'leaves no CPU; allowed are CPUs and ranges'),
        ):
            error = self.assertRaises(
                exception.DiskPlacerError,
                self.available,
                f'cpu_shared_set={text}',
            )
            self.assertIn(f'[compute] cpu_shared_set={text}', str(error))
            self.assertIn(problem, str(error))
