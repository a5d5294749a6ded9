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

"""The script of sweeps with a real fio."""

import os
import time

import ddt

from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import plan
from diskplacer_measure.sweep.measure import outcome
from diskplacer_measure.sweep.measure import workload
from nova_diskplacer.disks.measure import fio
from tests.functional.disks import base
from tests.unit.diskplacer_measure.sweep import samples

MIB = 4
JOBS = 2


@ddt.ddt
class WorkerTest(base.VDiskTestCase):
    def setUp(self):
        super().setUp()
        self.file = os.path.join(self.disk, 'measured')
        with open(self.file, 'wb') as stream:
            stream.write(os.urandom(MIB << 20))

    @ddt.data(
        *(
            (engine, operation)
            for engine in cells.ENGINES
            for operation in cells.OPERATIONS
        )
    )
    @ddt.unpack
    def test_figures(self, engine, operation):
        cell = samples.make_cell(
            engine=engine, operation=operation, jobs=JOBS, depth=4
        )
        script = workload.script(
            [workload.line('0.0', cell, 0)],
            token='token',
            mib=MIB,
            kib=64,
            seconds=30,
            device=self.file,
            launch=' '.join(fio.KILLED_WITH_PARENT),
        )
        began = time.time()
        done = fio.run(('sh', '-s'), '', script)
        taken = time.time() - began
        printed = workload.parse(done.stdout, 'token')
        self.assertEqual({}, printed.failed, f'{done.stdout}{done.stderr}')
        one = printed.measured['0.0']
        self.assertEqual((MIB * 1024 // JOBS,) * JOBS, one.kib)
        for ms in one.ms:
            self.assertTrue(0 < ms <= taken * 1000, one)
        # each thread waits for its requests one after the other, or 4 at once
        requests = MIB * 1024 / 64 / JOBS
        depth = 4 if engine == 'async' else 1
        self.assertTrue(
            0 < one.latency_us * requests / depth <= taken * 1e6, one
        )
        self.assertTrue(0 < one.seconds <= taken, one)
        self.assertTrue(0 <= one.executing <= 1, one)
        self.assertAlmostEqual(1, sum(one.cpu.values()), places=2)
        result = outcome.combine(plan.Repetition(cell, 0), [one], one.cpu)
        self.assertGreater(result.mbps, 0)

    def test_a_missing_file(self):
        script = workload.script(
            [workload.line('0.0', samples.make_cell(), 0)],
            token='token',
            mib=MIB,
            kib=64,
            seconds=30,
            device=f'{self.disk}/missing',
        )
        done = fio.run(('sh', '-s'), '', script)
        printed = workload.parse(done.stdout, 'token')
        self.assertIn('file creation disallowed', printed.failed['0.0'])
        self.assertFalse(os.path.exists(f'{self.disk}/missing'))
