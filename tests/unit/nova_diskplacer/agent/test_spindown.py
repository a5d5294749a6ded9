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
import threading

import fixtures
import testtools
from hypothesis import given
from hypothesis import strategies as st

from nova_diskplacer import exception
from nova_diskplacer.agent import spindown
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import standby
from nova_diskplacer.host.devices import Device
from tests import configured
from tests.fakes import hdparm
from tests.unit.nova_diskplacer.monitor import samples

A = '0a4c7a40-0000-4000-8000-00000000000a'
B = '0a4c7a40-0000-4000-8000-00000000000b'
SSD = '0a4c7a40-0000-4000-8000-00000000000c'

POWER = spindown.Power(5.0, 1.5)


class CountTest(testtools.TestCase):
    @given(
        st.lists(st.tuples(st.integers(0, 1000), st.booleans()), min_size=1)
    )
    def test_the_time_in_standby(self, steps):
        now, seen, seconds, expected = 0.0, None, 0.0, 0.0
        for pause, asleep in steps:
            now += pause
            if seen is not None and seen.now and asleep:
                expected += pause
            seen = spindown.count(seen, asleep, now, POWER)
            self.assertEqual(expected, seen.seconds)
            self.assertEqual(3.5 * expected, seen.joules)
            self.assertTrue(seconds <= seen.seconds <= now)
            seconds = seen.seconds

    def test_nothing_is_estimated_without_figures(self):
        first = spindown.count(None, True, 0.0, None)
        second = spindown.count(first, True, 9.0, None)
        self.assertEqual((9.0, None), (second.seconds, second.joules))


class PowerTest(testtools.TestCase):
    def test_models(self):
        self.assertEqual(
            {
                'ST8000NM0055-1RM': spindown.Power(5.0, 0.8),
                'WDC WD40EFRX-68W': spindown.Power(3.0, 0.0),
                'A=B': spindown.Power(1.0, 1.0),
            },
            spindown.parse_power(
                [
                    'ST8000NM0055-1RM=5.0:.8',
                    'WDC WD40EFRX-68W = 3 : 0',
                    'A=B=1:1',
                ]
            ),
        )

    def test_what_is_refused(self):
        for text in ('', 'A', 'A=5', '=5:1', 'A=1:5', 'A=5:-1', 'A=1.1.1:0'):
            error = self.assertRaises(
                exception.DiskPlacerError, spindown.parse_power, [text]
            )
            self.assertIn(f'disk_power={text} is not', str(error))


class SpindownTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.conf = self.useFixture(configured.Options()).conf
        self.root = self.useFixture(fixtures.TempDir()).path
        self.conf.set_override('disk_root', self.root, 'diskplacer')
        self.option(
            spindown_timeout=600, disk_power=['Paper=5:1', 'Stone=9:1']
        )
        self.sequences = {'sda': '1', 'sdb': '2', 'nvme0n1': '3'}
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.block_queue.diskseq',
                self.sequences.__getitem__,
            )
        )
        self.now = 0.0
        self.useFixture(
            fixtures.MonkeyPatch('time.monotonic', lambda: self.now)
        )
        self.hdparm = self.useFixture(hdparm.FakeHdparm())

    def option(self, **values):
        for name, value in values.items():
            self.conf.set_override(name, value, 'diskplacer_agent')

    def agent(self, on=True):
        self.option(spindown=on)
        return spindown.Spindown(self.conf)

    def run_all(self, one, seconds=10):
        self.now += seconds
        devices = {
            A: Device(A, 'sda', '8:0', rotational=True),
            B: Device(B, 'sdb', '8:16', rotational=True),
            SSD: Device(SSD, 'nvme0n1', '259:0', rotational=False),
        }
        disk = discover.missing(A, f'{self.root}/{A}')
        sample = samples.make_sample(
            devices=devices,
            prepared_disks=[
                dataclasses.replace(disk, model='Paper'),
                dataclasses.replace(disk, uuid=B, model='Scissors'),
            ],
        )
        one.run(sample)

    def timeouts(self):
        """Return the timeouts that were set since the last call."""
        found = sorted(call[6:] for call in self.hdparm.calls('-S'))
        os.truncate(f'{self.hdparm.path}/calls', 0)
        return found

    def marked(self):
        return standby.marked(self.root)

    def test_off(self):
        self.run_all(self.agent(on=False))
        self.assertEqual([], self.hdparm.calls())

    def test_set_once(self):
        one = self.agent()
        for _ in range(3):
            self.run_all(one)
        self.assertEqual(['120 /dev/sda', '120 /dev/sdb'], self.timeouts())
        self.assertEqual({A, B}, self.marked())
        # it was plugged in again
        self.sequences['sda'] = '4'
        self.run_all(one)
        self.assertEqual(['120 /dev/sda'], self.timeouts())
        # it was forgotten, which removes timeout and mark, and prepared again
        standby.set_mark(f'{self.root}/{A}', False)
        self.run_all(one)
        self.assertEqual(['120 /dev/sda'], self.timeouts())
        self.assertEqual({A, B}, self.marked())

    def test_seconds_and_energy(self):
        one = self.agent()
        for states in ({}, {'sda': 'standby', 'sdb': 'standby'}):
            self.hdparm.says(**states)
            for _ in range(3):
                self.run_all(one)
        self.assertEqual(
            {A: (True, 20.0, 80.0), B: (True, 20.0, None)},
            {
                uuid: (disk.now, disk.seconds, disk.joules)
                for uuid, disk in one.disks.items()
            },
        )
        self.hdparm.says()
        self.run_all(one)
        self.assertFalse(one.disks[A].now)
        self.assertEqual(20.0, one.disks[A].seconds)

    def test_removed_by_a_later_agent_when_awake(self):
        self.run_all(self.agent())
        self.timeouts()
        later = self.agent(on=False)
        self.hdparm.says(sda='standby')
        self.run_all(later)
        self.assertEqual(['0 /dev/sdb'], self.timeouts())
        self.assertEqual({A}, self.marked())
        self.hdparm.says()
        for _ in range(2):
            self.run_all(later)
        self.assertEqual(['0 /dev/sda'], self.timeouts())
        self.assertEqual((set(), {}), (self.marked(), later.disks))

    def test_a_new_timeout_wakes_no_disk(self):
        self.run_all(self.agent())
        self.timeouts()
        self.option(spindown_timeout=1800)
        later = self.agent()
        self.hdparm.says(sda='standby')
        for _ in range(2):
            self.run_all(later)
        self.assertEqual(['241 /dev/sdb'], self.timeouts())
        self.assertEqual(10.0, later.disks[A].seconds)
        self.hdparm.says()
        self.run_all(later)
        self.assertEqual(['241 /dev/sda'], self.timeouts())

    def test_a_disk_that_has_no_standby(self):
        """It is logged once, and read as before."""
        one = self.agent()
        self.hdparm.says(sda='unknown')
        for _ in range(3):
            self.run_all(one)
        self.assertEqual({B}, self.marked())
        self.assertEqual([B], list(one.disks))
        self.assertEqual(1, self.log.output.count(f'{A} has no standby'))

    def test_a_disk_that_refuses_the_timeout(self):
        one = self.agent()
        self.hdparm.says(5)
        for _ in range(3):
            self.run_all(one)
        self.assertEqual(set(), self.marked())
        self.assertEqual(2, self.log.output.count('has no standby timeout'))

    def test_killed_before_the_timeout(self):
        """A later agent sets it, or removes the mark."""
        for on, code in ((True, '120'), (False, '0')):
            standby.set_mark(f'{self.root}/{A}', True)
            self.run_all(self.agent(on=on))
            self.assertIn(f'{code} /dev/sda', self.timeouts())
            self.assertEqual(on, A in self.marked())

    def test_a_disk_that_does_not_answer_in_time(self):
        """It keeps what was counted."""
        one = self.agent()
        self.run_all(one)
        self.hdparm.says(sda='standby')
        for _ in range(2):
            self.run_all(one)
        seen = one.disks[A]
        self.assertEqual((True, 10.0), (seen.now, seen.seconds))
        answer = threading.Event()
        self.addCleanup(answer.set)
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.hdparm.in_standby',
                lambda name: answer.wait(),
            )
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.agent.spindown._TIMEOUT', 0.0
            )
        )
        self.run_all(one)
        self.assertEqual(dataclasses.replace(seen, now=False), one.disks[A])
