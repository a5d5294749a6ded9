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
import os

import fixtures
import numpy
import testtools
from hypothesis import given
from hypothesis import strategies as st

from nova_diskplacer.host import cgroups
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import disk_health
from nova_diskplacer.monitor import disk_monitor
from nova_diskplacer.monitor import diskstats
from nova_diskplacer.monitor import types
from tests import configured

MB = 10**6
HDD = Device('hdd', 'none', '8:0', rotational=True, mbps=100)
SSD = Device('ssd', 'none', '8:16', rotational=False, mbps=400)
NOTHING = diskstats.Counters(0, 0, 0, 0, 0.0, 0.0)


def work(mbps, busy=1.0, waited=1.0):
    return diskstats.Counters(
        round(mbps * 10), 0, round(mbps * MB), 0, busy, waited
    )


PAIRS = types.Pairs(
    (key, uuid) for key in ('a', 'b', 'c') for uuid in ('hdd', 'ssd')
)


class DiskMonitorTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.conf = self.useFixture(configured.Options()).conf
        self.configure(
            'diskplacer_agent',
            state_dir=self.useFixture(fixtures.TempDir()).path,
        )
        self.counters = {'8:0': NOTHING, '8:16': NOTHING}
        self.patch(
            diskstats,
            'read',
            lambda numbers, path: {
                number: counters
                for number, counters in self.counters.items()
                if number in numbers
            },
        )
        self.used = {}
        self.patch(
            disk_monitor,
            'read_charged_seconds',
            lambda hierarchy: self.used.copy(),
        )
        self.now = 0.0
        self.devices = {'hdd': HDD, 'ssd': SSD}
        self.monitor = disk_monitor.DiskMonitor(self.conf, None)
        self.assertEqual({}, self.update())

    def patch(self, module, name, value):
        self.useFixture(
            fixtures.MonkeyPatch(f'{module.__name__}.{name}', value)
        )

    def configure(self, group, **values):
        for name, value in values.items():
            self.conf.set_override(name, value, group)

    def update(self, *active, seconds=1.0, **done):
        for uuid, more in done.items():
            number = self.devices[uuid].number
            before = dataclasses.astuple(self.counters[number])
            both = zip(before, dataclasses.astuple(more), strict=True)
            self.counters[number] = diskstats.Counters(*map(sum, both))
        self.now += seconds
        idle = numpy.array([pair not in active for pair in PAIRS])
        return self.monitor.update(self.now, self.devices, PAIRS, idle)


class DiskMonitorTest(DiskMonitorTestCase):
    def test_state(self):
        done = diskstats.Counters(30, 10, 6 * MB, 2 * MB, 1.0, 4.0)
        states = self.update(seconds=2.0, hdd=done)
        self.assertEqual(
            types.DiskState(
                device=HDD,
                seconds=2.0,
                read_bytes=3 * MB,
                write_bytes=MB,
                reads=15,
                writes=5,
                busy=0.5,
                queue=2.0,
                latency=0.1,
                score=None,
                flagged=False,
                pressure=states['hdd'].pressure,
                idle_seconds=0.0,
                totals=done,
                totals_seconds=2.0,
                used_seconds=1.0,
            ),
            states['hdd'],
        )
        self.assertIsNone(states['ssd'].latency)

    def test_utilization_of_all_intervals(self):
        self.update(seconds=2.0, hdd=work(50, busy=0.5))
        state = self.update(seconds=4.0, hdd=work(50, busy=3.0))['hdd']
        self.assertEqual(6.0, state.totals_seconds)
        self.assertEqual(3.5, state.used_seconds)

    def test_score(self):
        state = self.update(('a', 'hdd'), hdd=work(50, busy=0.5))['hdd']
        self.assertAlmostEqual(100 * MB, state.score)
        pairs = (('a', 'hdd'), ('b', 'hdd'), ('b', 'ssd'))
        state = self.update(*pairs, hdd=work(50, busy=0.5))['hdd']
        self.assertAlmostEqual(50 * MB, state.score)
        # nobody, or nothing
        self.assertIsNone(self.update(hdd=work(50))['hdd'].score)
        self.assertIsNone(self.update(('a', 'hdd'))['hdd'].score)

    def test_totals_add_up_while_a_disk_exists(self):
        done = diskstats.Counters(30, 10, 6 * MB, 2 * MB, 1.0, 4.0)
        for _ in range(3):
            state = self.update(hdd=done)['hdd']
        self.assertEqual(
            diskstats.Counters(90, 30, 18 * MB, 6 * MB, 3.0, 12.0),
            state.totals,
        )
        hdd = self.devices.pop('hdd')
        self.update()
        self.devices['hdd'] = hdd
        self.update()
        self.assertEqual(NOTHING, self.update()['hdd'].totals)

    def test_totals_with_a_disk_that_is_missing_once(self):
        states = []
        number = HDD.number
        for is_missing in (False, True, False):
            before = self.counters[number]
            if is_missing:
                del self.counters[number]
            done = {} if is_missing else {'hdd': work(50, busy=0.5)}
            states.append(self.update(**done))
            self.counters.setdefault(number, before)
        self.assertEqual([True, False, True], ['hdd' in s for s in states])
        self.assertEqual(self.counters[number], states[-1]['hdd'].totals)

    def test_pairs_change(self):
        self.update(('a', 'hdd'), hdd=work(50))
        self.counters['8:0'] = work(90, busy=2.0)
        state = self.monitor.update(
            self.now + 1,
            self.devices,
            types.Pairs([('z', 'hdd')]),
            numpy.array([False]),
        )
        self.assertAlmostEqual(40 * MB, state['hdd'].score)

    def test_flagged(self):
        """The example of P4 §IV-B: 20 of 100 MB/s, at full use."""
        both = (('a', 'hdd'), ('b', 'hdd'), ('a', 'ssd'))
        self.assertFalse(self.update(*both, hdd=work(90))['hdd'].flagged)
        self.assertTrue(self.update(*both, hdd=work(30))['hdd'].flagged)
        self.assertTrue(self.update(*both, hdd=work(1))['hdd'].flagged)
        # hardly used, or not rotational
        state = self.update(*both, hdd=work(0.1, busy=0.1))['hdd']
        self.assertFalse(state.flagged)
        self.assertFalse(self.update(*both, ssd=work(1))['ssd'].flagged)

    def test_many_sequential_consumers(self):
        """Each has a low score, and all have what the disk gives."""
        many = [(key, 'hdd') for key in 'abcdef']
        state = self.update(*many, hdd=work(50))['hdd']
        self.assertLess(state.score, 0.2 * 100 * MB)
        self.assertFalse(state.flagged)
        self.assertTrue(self.update(*many, hdd=work(15))['hdd'].flagged)

    def test_io_cost_itself_charges_for_seeks(self):
        with fixtures.MonkeyPatch(
            'nova_diskplacer.monitor.disk_monitor.read_charged_seconds',
            lambda hierarchy: {'8:0': self.now},
        ):
            self.update(('a', 'hdd'), hdd=work(1))
            state = self.update(('a', 'hdd'), hdd=work(1))['hdd']
        self.assertIsNotNone(state.iocost_usage)
        self.assertFalse(state.flagged)

    def test_never_flagged(self):
        self.configure('diskplacer_monitor', inspection_threshold=0.0)
        state = self.update(('a', 'hdd'), hdd=work(0.1))['hdd']
        self.assertFalse(state.flagged)

    def test_pressure(self):
        self.configure('diskplacer_monitor', pressure_window=100)
        for _ in range(100):
            states = self.update(hdd=work(1), ssd=work(100, waited=1.0))
        # after one time constant
        self.assertAlmostEqual(0.632, states['hdd'].pressure, 3)
        self.assertAlmostEqual(0.632 / 4, states['ssd'].pressure, 3)
        states = self.update(seconds=100.0)
        self.assertAlmostEqual(0.632 * 0.368, states['hdd'].pressure, 3)

    def test_idle(self):
        self.configure('diskplacer_monitor', idle_after=10)
        check = diskstats.Counters(2, 0, 8192, 0, 0.01, 0.01)
        for second in range(1, 12):
            state = self.update(hdd=check)['hdd']
            self.assertEqual(second, state.idle_seconds)
            self.assertEqual(second >= 10, state.idle)
        for pair, done in (
            (('a', 'hdd'), diskstats.Counters(1, 0, 4096)),
            (('a', 'ssd'), diskstats.Counters(0, 1, 0, 512)),
            (('a', 'ssd'), diskstats.Counters(1, 0, 65536)),
        ):
            self.assertLess(0, self.update()['hdd'].idle_seconds)
            state = self.update(pair, hdd=done)['hdd']
            self.assertEqual((0.0, False), (state.idle_seconds, state.idle))

    @given(
        st.floats(0.2, 60),
        st.integers(1, 4),
    )
    def test_checks_are_no_use(self, seconds, checks):
        """Checks in each second, of the agent and of services."""
        reads = int(checks * max(1.0, seconds))
        done = diskstats.Counters(reads, 0, 4096 * reads, 0, 0.1, 0.1)
        self.assertFalse(disk_monitor.is_used(done, seconds, 0))
        self.assertTrue(disk_monitor.is_used(done, seconds, 1))
        self.assertTrue(
            disk_monitor.is_used(
                dataclasses.replace(done, writes=1), seconds, 0
            )
        )

    def test_unplugged(self):
        self.configure('diskplacer_monitor', warn_queue=1, pressure_window=10)
        for _ in range(50):
            states = self.update(hdd=work(50, waited=9.0))
        self.assertEqual(['queue'], [*states['hdd'].warnings])
        del self.devices['hdd']
        self.assertEqual(['ssd'], list(self.update()))
        # as another device, with counters of its own
        self.devices['hdd'] = dataclasses.replace(HDD, number='8:32')
        self.counters['8:32'] = work(1)
        self.assertEqual(['ssd'], list(self.update()))
        state = self.update(hdd=work(10))['hdd']
        self.assertEqual(10 * MB, state.read_bytes)
        self.assertLess(state.pressure, 0.2)
        self.assertEqual({}, state.warnings)
        # listed, but gone from the kernel
        del self.counters['8:32']
        self.assertEqual(['ssd'], list(self.update()))

    def test_counters_jump_back(self):
        for _ in range(9):
            before = self.update(hdd=work(50))['hdd']
        self.counters['8:0'] = work(1)
        self.assertEqual(['ssd'], list(self.update()))
        state = self.update(hdd=work(10))['hdd']
        self.assertEqual(10 * MB, state.read_bytes)
        self.assertGreater(state.pressure, before.pressure)

    def test_measured(self):
        """It is known to give more now."""
        for _ in range(9):
            before = self.update(ssd=work(400))['ssd']
        self.devices['ssd'] = dataclasses.replace(SSD, mbps=800)
        after = self.update(ssd=work(400))['ssd']
        self.assertEqual(800, after.device.mbps)
        self.assertGreater(after.pressure, before.pressure)

    def test_clock_stands_still(self):
        self.update(hdd=work(50))
        self.assertEqual({}, self.update(seconds=0.0))

    def test_io_cost(self):
        self.configure('diskplacer_monitor', pressure_window=10)
        self.used['8:0'] = 1000.0
        self.update()
        for _ in range(99):
            self.used['8:0'] += 0.8
            state = self.update(hdd=work(1, busy=0.1))['hdd']
        self.assertAlmostEqual(0.8, state.pressure, 3)
        # it was off for a while, and counts from the beginning
        self.used['8:0'] = 0.0
        self.assertLess(self.update()['hdd'].pressure, 0.8)

    def test_slower_than_it_was(self):
        for _ in range(1000):
            self.update(('a', 'hdd'), hdd=work(90))
        for _ in range(4000):
            state = self.update(('a', 'hdd'), hdd=work(20))['hdd']
        self.assertIn(
            'its throughput in the last hour was ',
            state.warnings['performance'],
        )
        self.assertIn('warn_performance=0.5', state.warnings['performance'])
        self.assertEqual(1, self.log.output.count('its usual throughput'))
        self.assertNotIn('has ended', self.log.output)
        for _ in range(400):
            state = self.update(seconds=60.0)['hdd']
        self.assertEqual({}, state.warnings)
        self.assertIn('the warning of performance has ended', self.log.output)

    def test_known_after_a_restart(self):
        for _ in range(1000):
            self.update(hdd=work(90))
        self.monitor = disk_monitor.DiskMonitor(self.conf, None)
        self.update()
        for _ in range(4000):
            state = self.update(hdd=work(20))['hdd']
        self.assertIn(
            'its throughput in the last hour was',
            state.warnings['performance'],
        )

    def test_health(self):
        health = disk_health.HealthMonitor(self.conf)
        health.temperature = {'hdd': 41}.get
        health.warnings.update('ssd', 'kind', 'w', True)
        self.monitor = disk_monitor.DiskMonitor(self.conf, None, health)
        self.update()
        states = self.update()
        self.assertEqual(
            [(41, {}), (None, {'kind': 'w'})],
            [
                (states[uuid].temperature, states[uuid].warnings)
                for uuid in ('hdd', 'ssd')
            ],
        )


# as Linux 6.1 has it
STAT = """\
254:16 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=0 dios=0 cost.vrate=100.00 \
cost.usage=2500000
254:32 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=0 dios=0
"""


class IOCostUsageTest(testtools.TestCase):
    def test_read(self):
        root = self.useFixture(fixtures.TempDir()).path
        hierarchy = cgroups.Hierarchy(root)
        self.assertEqual({}, disk_monitor.read_charged_seconds(hierarchy))
        with open(os.path.join(root, 'io.stat'), 'w') as stream:
            stream.write(STAT)
        self.assertEqual(
            {'254:16': 2.5}, disk_monitor.read_charged_seconds(hierarchy)
        )


class UtilizationTest(testtools.TestCase):
    def full(self, device, done, depth=32, cost=0.0):
        return disk_monitor.utilization(device, depth, done, 1.0, cost)

    def test_rotational(self):
        self.assertEqual(0.4, self.full(HDD, work(1, busy=0.4)))
        # of a coarse clock
        self.assertEqual(1.0, self.full(HDD, work(1, busy=1.2)))

    def test_by_throughput(self):
        self.assertEqual(0.5, self.full(SSD, work(200)))
        # what it was said to give is not all
        self.assertEqual(1.0, self.full(SSD, work(900)))
        # in bursts
        self.assertEqual(0.2, self.full(SSD, work(200, busy=0.2)))

    def test_by_queue(self):
        """Many small requests fill it long before its throughput does."""
        self.assertEqual(0.5, self.full(SSD, work(20, waited=16.0)))
        self.assertEqual(1.0, self.full(SSD, work(20, waited=64.0)))
        self.assertEqual(0.05, self.full(SSD, work(20, waited=16.0), None))

    def test_nothing_known(self):
        device = dataclasses.replace(SSD, mbps=0)
        self.assertEqual(0.7, self.full(device, work(20, busy=0.7)))

    def test_held_back(self):
        self.assertEqual(0.9, self.full(HDD, work(1, busy=0.1), cost=0.9))
        self.assertEqual(1.0, self.full(SSD, work(1), cost=1.1))
