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

import dataclasses

import testtools

from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import io_cost_model
from nova_diskplacer.monitor import types

MB = 10**6

# 20 MB/s, however it is read; a read on its own takes 0.4 ms
LIMITED = io_model.Model(20 * MB, 4882, 4882, 20 * MB, 4882, 4882, latency=400)
# seeks of 8 ms
ROTATIONAL = io_model.Model(
    150 * MB, 30_000, 200, 140 * MB, 30_000, 190, latency=8000
)


class AdaptiveModelTestCase(testtools.TestCase):
    def make(self, model=LIMITED):
        self.model = io_cost_model.AdaptiveModel(model)

    def update(
        self,
        usage,
        bytes_=20 * MB,
        size=16384,
        busy=1.0,
        queue=32.0,
        cgroup_share=None,
        intervals=1,
        seconds=1.0,
    ):
        """Take equal intervals into account; returns those that changed it."""
        device = Device('uuid', 'sdx', '8:0', False)
        state = types.DiskState(
            device, seconds, bytes_, 0.0, bytes_ / size, 0.0, busy, queue,
            0.02, None, False, 0.0,
        )  # fmt: skip
        updates = (
            self.model.update(
                dataclasses.replace(
                    state, iocost_usage=usage / self.model.rate
                ),
                cgroup_share,
            )
            for _ in range(intervals)
        )
        return [count for count, changed in enumerate(updates) if changed]

    def scale(self):
        return self.model.scales[io_cost_model.BYTES]

    def test_as_measured(self):
        self.make()
        self.assertEqual(
            {
                'rbps': '20000000', 'rseqiops': '4882', 'rrandiops': '4882',
                'wbps': '20000000', 'wseqiops': '4882', 'wrandiops': '4882',
            },
            self.model.coefficients(),
        )  # fmt: skip
        self.assertEqual(
            {io_cost_model.BYTES: 1.0, io_cost_model.REQUESTS: 1.0},
            self.model.scales,
        )

    def test_twice_too_fast(self):
        self.make()
        self.assertEqual([2], self.update(0.5, intervals=4))
        self.assertAlmostEqual(0.5, self.scale())
        self.assertEqual('10000000', self.model.coefficients()['wbps'])
        self.assertEqual('4882', self.model.coefficients()['rrandiops'])

    def test_time_in_which_nothing_is_done_does_not_count(self):
        self.make()
        self.update(0.45, busy=0.9, queue=28, intervals=3)
        self.assertAlmostEqual(0.5, self.scale())

    def test_rounds_in_a_row(self):
        self.make()
        for _ in range(4):
            self.assertEqual([], self.update(0.5, intervals=2))
            self.assertTrue(self.model.too_fast)
            self.assertEqual([], self.update(1.0, queue=1.0))
            self.assertFalse(self.model.too_fast)

    def test_the_disk_keeps_up(self):
        for usage in (0.98, 1.0, 1.07):
            self.make()
            self.assertEqual([], self.update(usage, queue=1.2, intervals=10))

    def test_it_keeps_up_but_is_full(self):
        self.make()
        for _ in range(3):
            self.assertEqual([0], self.update(1.0))
            self.assertAlmostEqual(0.85, self.model.rate)
            # it was empty in the end
            self.assertEqual([0], self.update(0.85, busy=0.93))
            self.assertEqual(1.0, self.model.rate)
            self.assertEqual([], self.update(1.0, queue=1.2, intervals=3))
            self.assertEqual(1.0, self.scale())

    def test_it_is_full_again_soon(self):
        self.make()
        for count in range(4):
            self.assertAlmostEqual(0.99 ** max(0, count - 1), self.scale())
            self.assertEqual([0], self.update(0.995))
            self.assertEqual([0], self.update(0.85, busy=0.93))

    def test_it_takes_long_to_empty(self):
        self.make()
        self.update(1.0)
        self.assertEqual([], self.update(0.85, intervals=2))
        self.assertEqual([0], self.update(0.85, busy=0.93))
        self.assertEqual([], self.update(1.0, queue=1.2, intervals=9))
        self.update(1.0)
        # it never does
        self.assertEqual([3], self.update(0.85, intervals=4))
        self.assertEqual((1.0, 1.0), (self.model.rate, self.scale()))

    def test_a_little_too_fast(self):
        # 4 %, of which the kernel shows no more than that the disk is full
        self.make()
        for _ in range(2):
            self.update(0.96)
            self.update(0.85, busy=0.93)
        self.assertAlmostEqual(0.96, self.scale())

    def test_long_rounds_are_drained_in_by_less(self):
        self.make()
        self.update(1.0, seconds=15.0)
        self.assertAlmostEqual(0.99, self.model.rate)

    def test_few_requests_at_once_prove_nothing(self):
        # one or two readers that wait for each answer
        for size, queue in ((4096, 1.0), (1 << 20, 1.0), (4096, 2.0)):
            self.make()
            usage = 0.4
            self.assertEqual(
                [],
                self.update(
                    usage,
                    bytes_=usage * 20 * MB,
                    size=size,
                    queue=queue,
                    intervals=10,
                ),
            )

    def test_two_long_requests_do(self):
        self.make()
        self.update(0.5, size=1 << 20, queue=2.0, intervals=3)
        self.assertAlmostEqual(0.5, self.scale())

    def test_a_disk_that_is_idle_most_of_the_time(self):
        self.make()
        self.assertEqual([], self.update(0.2, busy=0.4, intervals=10))

    def test_nothing_done(self):
        self.make()
        for idle in (
            {'usage': 0.0},
            {'usage': 0.5, 'bytes_': 0},
            {'usage': 0.5, 'busy': 0.0},
        ):
            self.assertEqual([], self.update(**idle, intervals=10))

    def test_what_the_root_cgroup_does_is_not_known(self):
        self.make()
        self.assertEqual([], self.update(0.5))
        self.assertEqual([], self.update(0.5, cgroup_share=0.5, intervals=10))
        self.assertEqual([2], self.update(0.5, cgroup_share=0.99, intervals=3))

    def test_only_what_is_wrong_is_corrected(self):
        # half as many seeks as the model has
        self.make(ROTATIONAL)
        self.update(0.5, bytes_=100 * 4096, size=4096, intervals=3)
        self.assertAlmostEqual(0.5, self.model.scales[io_cost_model.REQUESTS])
        self.assertEqual(1.0, self.scale())
        self.update(0.5, bytes_=75 * MB, size=1 << 20, intervals=3)
        self.assertAlmostEqual(0.5, self.scale())

    def lower(self):
        self.make()
        self.update(0.5, intervals=3)

    def limited(self, **kwargs):
        """Look at rounds in which io.cost holds all back that waits."""
        return self.update(
            1.0, bytes_=self.scale() * 20 * MB, busy=0.4, queue=0.5, **kwargs
        )

    def test_it_is_raised_again_after_a_while(self):
        self.lower()
        self.assertEqual([], self.limited(intervals=14))
        changed = self.limited(intervals=40)
        self.assertEqual(1.0, self.scale())
        self.assertEqual(self.model.coefficients()['rbps'], '20000000')
        self.assertEqual([2, 5, 8], changed[:3])

    def test_above_what_was_measured(self):
        # a little each minute, and a tenth in all
        self.make()
        self.assertEqual([], self.limited(intervals=59))
        self.assertEqual([2], self.limited(intervals=60))
        self.assertAlmostEqual(1.01, self.scale())
        self.limited(intervals=2000)
        self.assertAlmostEqual(1.1, self.scale())
        self.lower()
        for _ in range(2000):
            self.limited()
        self.assertAlmostEqual(1.1, self.scale())

    def test_raising_in_vain_becomes_rare(self):
        self.lower()
        waits = []
        for _ in range(5):
            waits.append(0)
            while self.scale() * 0.95 <= 0.5:
                self.limited()
                waits[-1] += 1
            # more than the disk does again
            self.update(0.5 / self.scale(), intervals=3)
            self.assertAlmostEqual(0.5, self.scale())
        self.assertEqual(sorted(waits), waits)
        self.assertGreater(waits[-1], 5 * waits[0])

    def test_a_slow_disk_with_little_to_do_is_left_alone(self):
        self.lower()
        self.assertEqual(
            [], self.update(0.3, busy=0.3, queue=0.4, intervals=100)
        )

    def test_least(self):
        self.make()
        for _ in range(20):
            self.update(0.1, intervals=3)
        self.assertGreater(self.scale(), 0.01)
        for value in self.model.coefficients().values():
            self.assertGreaterEqual(int(value), 1)
