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
import libvirt

from diskplacer_measure.sizing import counters
from diskplacer_measure.sizing import samples
from tests.e2e import base
from tools.minicloud import hypervisor


class SizingTest(base.TestCase):
    def setUp(self):
        super().setUp()
        host = self.cloud.libvirt_host
        self.server = self.boot('round-robin', host)
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.output = directory / 'runs'

    def collect(self, *options, load=('sleep', '5')):
        return self.cloud.run_manage(
            self.cloud.libvirt_host,
            'sizing',
            'collect',
            f'--server={self.server}',
            f'--output={self.output}',
            *options,
            '--',
            *load,
        )

    def pins(self):
        """Return the CPUs that each vCPU of the server may use."""
        connection = libvirt.open(
            hypervisor.uri(self.cloud.state, self.cloud.libvirt_host)
        )
        try:
            return connection.lookupByUUIDString(self.server).vcpuPinInfo()
        finally:
            connection.close()

    def test_pinned_and_floating_and_errors(self):
        before = self.pins()
        cpu = min(os.sched_getaffinity(0))
        done = self.collect(f'--pin={cpu}', '--runs=2')
        self.assertEqual(0, done.returncode, done.stderr)
        found = samples.read(str(self.output))
        self.assertEqual([1, 1, 2, 2], [one.block for one in found])
        self.assertEqual(
            {samples.PINNED, samples.FLOATING},
            {one.vcpus_are for one in found[:2]},
        )
        for one in found:
            self.assertEqual(self.server, one.server)
            self.assertLess(4.9, one.seconds)
            # its processors are emulated, and it boots
            self.assertLess(0, one.counters[counters.VCPU_SECONDS])
        self.assertEqual(before, self.pins())
        # errors leave nothing
        self.output = self.output.with_name('no-runs')
        done = self.collect('--pin=4096')
        self.assertEqual(1, done.returncode)
        self.assertIn('--pin 4096', done.stderr)
        done = self.collect(f'--pin={cpu}', load=('false',))
        self.assertEqual(1, done.returncode)
        self.assertIn('false: ended with 1', done.stderr)
        self.assertEqual([], samples.read(str(self.output)))
        self.assertEqual(before, self.pins())
