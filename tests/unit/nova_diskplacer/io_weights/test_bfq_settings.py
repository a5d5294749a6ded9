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
import json
import os
import shutil

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks.measure import plain_queue
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import saved_settings
from nova_diskplacer.host import state_file
from nova_diskplacer.host import sysfs
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import bfq_settings
from nova_diskplacer.io_weights import disk_trials
from tests import configured

A = Device('disk-a', 'sda', '8:0', rotational=True, mbps=160)
B = Device('disk-b', 'sdb', '8:16', rotational=True)


class FindContendedTest(testtools.TestCase):
    def find(self, weights, active=('one', 'two')):
        pairs = [('one', A.uuid), ('two', A.uuid)]
        return bfq_settings.find_contended(
            {A.uuid: active}, dict(zip(pairs, weights, strict=False))
        )

    def test_weights_differ(self):
        for weights in ([10, 100], [10, 60]):
            one, two = weights
            self.assertEqual(
                {A.uuid: {'one': one, 'two': two}}, self.find(weights)
            )
        # without a weight it is the kernel's default
        self.assertEqual({A.uuid: {'one': 10, 'two': 100}}, self.find([10]))

    def test_weights_are_equal(self):
        self.assertEqual({}, self.find([10, 10]))
        self.assertEqual({}, self.find([]))

    def test_only_one_is_active(self):
        self.assertEqual({}, self.find([10, 100], active=['one']))

    def test_disks_differ(self):
        weights = {('one', A.uuid): 10, ('one', B.uuid): 100}
        active = {A.uuid: ['one'], B.uuid: ['one']}
        self.assertEqual({}, bfq_settings.find_contended(active, weights))


SERVERS = frozenset({'one', 'two', 'three'})
STATE_WRITE = state_file.write
KERNEL_WRITE = block_queue.write


def write_whole(name, setting, value, sys):
    """Write a file that is whole afterwards, as the kernel's are."""
    queue = f'{sys}/class/block/{name}/queue'
    os.truncate(f'{queue}/{setting}', 0)
    KERNEL_WRITE(name, setting, value, sys)
    if (setting, value) == ('iosched/strict_guarantees', '1'):
        with open(f'{queue}/iosched/slice_idle_us', 'r+') as stream:
            if int(stream.read()) < 8000:
                stream.seek(0)
                stream.write('8000')


ORIGINAL = {
    'nomerges': '0',
    'strict_guarantees': '0',
    'low_latency': '1',
    'max_budget': '8192',
    'slice_idle_us': '8000',
}
CONTENDED = ORIGINAL | {
    'nomerges': '2',
    'strict_guarantees': '1',
    'low_latency': '0',
}
# 160 MB/s for 100 ms, in sectors of 512 bytes
SEVERAL = CONTENDED | {'max_budget': '31250'}


def attribute(name):
    """Return the path of a setting below that of its disk."""
    return f'queue/{name}' if name == 'nomerges' else f'queue/iosched/{name}'


class BFQSettingsTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.sys = self.useFixture(fixtures.TempDir()).path
        configuration = self.useFixture(configured.Options())
        self.conf, self.state_dir = configuration.conf, configuration.state_dir
        self.useFixture(
            fixtures.MockPatchObject(saved_settings, 'boot_id', lambda: 'boot')
        )
        self.useFixture(
            fixtures.MockPatchObject(block_queue, 'write', write_whole)
        )
        for device in (A, B):
            os.makedirs(self.path(device, 'queue/iosched'))
            self.put(device, 'dev', device.number)
            self.put(device, 'diskseq', '7')
            self.set(device)
        self.new()

    def new(self):
        """Have a new process."""
        self.settings = bfq_settings.BFQSettings(self.conf, self.sys)

    def path(self, device, name):
        return f'{self.sys}/class/block/{device.name}/{name}'

    def put(self, device, name, text):
        with open(self.path(device, name), 'w') as stream:
            stream.write(text)

    def set(self, device, **values):
        for name, value in (ORIGINAL | values).items():
            self.put(device, attribute(name), f'{value}\n')

    def get(self, device):
        found = {}
        for name in ORIGINAL:
            with open(self.path(device, attribute(name))) as stream:
                found[name] = stream.read().strip()
        return found

    def saved(self):
        try:
            return sorted(os.listdir(os.path.join(self.state_dir, 'bfq')))
        except FileNotFoundError:
            return []

    def apply(self, *contended, seconds=1.0, lowered=2, mbps=160):
        load = disk_trials.Load(lowered, mbps * 1e6, SERVERS)
        return self.settings.apply(dict.fromkeys(contended, load), seconds)

    def test_turns_cost_no_more_than_the_operator_prefers(self):
        """The disk loses half with any turns."""
        for prefer, kept in (
            ('throughput', ORIGINAL),
            ('balanced', ORIGINAL),
            ('latency', CONTENDED | {'max_budget': '625'}),
        ):
            self.conf.set_override('prefer', prefer, 'diskplacer_weights')
            self.new()
            for _ in range(45):
                own = self.get(A) == ORIGINAL
                trials = self.apply(A, lowered=1, mbps=160 if own else 80)
            self.assertEqual(kept, self.get(A), prefer)
            lost = 0.5 if prefer == 'latency' else 0.0
            self.assertEqual({A.uuid: lost}, {A.uuid: trials[A.uuid].lost})
            self.settings.restore()
        for said in (
            "Disk disk-a keeps BFQ's own settings: any turns cost more than "
            'the 2 % of',
            'Disk disk-a has turns of 2 ms: they cost 50 % of its throughput, '
            'and may cost 60 %.',
        ):
            self.assertEqual(1, self.log.output.count(said))

    def test_bfqs_own_settings_are_in_force_while_they_are_tried(self):
        seen = []
        for _ in range(26):
            self.apply(A, lowered=1)
            seen.append(self.get(A)['strict_guarantees'])
        self.assertEqual(['1'] * 19 + ['0'] * 3 + ['1'] * 4, seen)

    def test_a_disk_has_a_trial_until_it_is_restored(self):
        self.assertFalse(self.settings.has_trial(A.uuid))
        self.apply(A, lowered=1)
        self.assertTrue(self.settings.has_trial(A.uuid))
        for _ in range(10):
            self.settings.apply({}, 1.0)
        self.assertFalse(self.settings.has_trial(A.uuid))

    def test_turns_follow_what_the_disk_does(self):
        """A prepared disk has 150 MB/s if the operator has said nothing."""
        for _ in range(30):
            self.apply(A, lowered=1, mbps=19.5)
        # 19.5 MB/s for 2 ms, in sectors of 512 bytes
        self.assertEqual(CONTENDED | {'max_budget': '76'}, self.get(A))

    def test_several_servers_come_and_go(self):
        budgets = []
        for number in range(12):
            self.apply(A, lowered=1 + number % 2)
            budgets.append(self.get(A)['max_budget'])
        self.assertEqual(1, len({*budgets[1:]}), budgets)

    def begin_trial(self):
        """Have the first turns tried; BFQ's own settings were in force."""
        self.conf.set_override('prefer', 'throughput', 'diskplacer_weights')
        for _ in range(24):
            trials = self.apply(A, lowered=1)
        self.assertEqual(0, trials[A.uuid].choice)
        self.assertEqual('625', self.get(A)['max_budget'])

    def test_a_trial_is_given_up_when_its_load_has_gone(self):
        for others in ((), (B,)):
            self.new()
            self.begin_trial()
            for _ in range(11):
                self.apply(*others)
            self.assertEqual(ORIGINAL, self.get(A))
            trials = self.apply(A, lowered=1)
            self.assertEqual(
                (None, None), (trials[A.uuid].choice, trials[A.uuid].lost)
            )
            self.settings.restore()

    def test_a_trial_that_is_given_up_has_found_nothing(self):
        self.begin_trial()
        for _ in range(11):
            # the disk is not at its limit
            self.apply()
        trials = self.apply(A, lowered=1)
        self.assertIsNotNone(trials[A.uuid].left_s)
        self.assertEqual('', self.log.output)

    def test_a_trial_is_given_up_when_another_number_is_lowered(self):
        self.begin_trial()
        for _ in range(11):
            self.apply(A, lowered=2)
        trials = self.apply(A, lowered=1)
        self.assertIsNone(trials[A.uuid].choice)

    def count_files(self):
        """Return the calls that write a file durably, from now on."""
        writes = []

        def write(*args, **kwargs):
            writes.append(args)
            STATE_WRITE(*args, **kwargs)

        self.useFixture(fixtures.MockPatchObject(state_file, 'write', write))
        return writes

    def test_originals_are_saved_once_while_settings_come_and_go(self):
        """Each durable write would delay the I/O loop."""
        writes = self.count_files()
        # one lowered server costs nothing, several cost too much
        for _ in range(40):
            self.apply(A, lowered=1)
        for _ in range(45):
            own = self.get(A) == ORIGINAL
            self.apply(A, lowered=2, mbps=150 if own else 15)
        for _ in range(3):
            # several come and go
            for _ in range(11):
                self.apply(A, lowered=1)
            self.assertEqual('625', self.get(A)['max_budget'])
            self.apply(A, lowered=2)
            self.assertEqual(ORIGINAL, self.get(A))
        self.assertEqual(1, len(writes))
        for _ in range(11):
            self.apply()
        self.assertEqual([], self.saved())

    def test_own_settings_that_are_back_are_not_read_again(self):
        for _ in range(20):
            self.apply(A)
        self.assertEqual(ORIGINAL, self.get(A))
        with fixtures.MockPatchObject(
            sysfs, 'read', side_effect=AssertionError
        ):
            self.apply(A)
        # the next turns read them
        for _ in range(4):
            self.apply(A)
        self.assertEqual(CONTENDED | {'max_budget': '625'}, self.get(A))

    def test_bfqs_own_settings_need_no_file(self):
        writes = self.count_files()
        self.conf.set_override('prefer', 'throughput', 'diskplacer_weights')
        for _ in range(19):
            self.apply(A)
        self.assertEqual([], writes)

    def test_set_while_contended_and_for_ten_seconds_after_it(self):
        for seconds in (0.5, 1.0, 5.0):
            self.apply(A, seconds=seconds)
            self.assertEqual(SEVERAL, self.get(A))
            self.assertEqual(ORIGINAL, self.get(B))
            for _ in range(int(10 / seconds) - 1):
                self.assertEqual({A.uuid}, set(self.apply(seconds=seconds)))
            self.assertEqual(SEVERAL, self.get(A))
            self.assertEqual({}, self.apply(seconds=seconds))
            self.assertEqual(ORIGINAL, self.get(A))
            self.assertEqual([], self.saved())

    def test_turns_are_short_while_one_server_is_lowered(self):
        self.set(A, max_budget=9000)
        self.apply(A, B, lowered=1)
        # 160 MB/s for 12 ms, in sectors of 512 bytes
        self.assertEqual('3750', self.get(A)['max_budget'])
        # nobody knows what it does in that time
        self.assertEqual(CONTENDED, self.get(B))
        self.apply(A, lowered=2)
        self.assertEqual(SEVERAL, self.get(A))

    def test_an_operators_own_settings_stay(self):
        own = {'strict_guarantees': '1', 'max_budget': '9000'}
        self.set(A, **own)
        self.apply(A, lowered=1)
        self.settings.restore()
        self.assertEqual(ORIGINAL | own, self.get(A))

    def test_the_kernel_raises_slice_idle(self):
        """It does when guarantees become strict."""
        self.set(A, slice_idle_us=2500)
        self.apply(A)
        self.apply(A)
        self.assertEqual(SEVERAL, self.get(A))
        self.new()
        self.settings.restore()
        self.assertEqual(ORIGINAL | {'slice_idle_us': '2500'}, self.get(A))

    def test_settings_that_cannot_be_set_are_not_tried(self):
        """They would cost nothing."""
        full = fixtures.MockPatchObject(
            state_file, 'write', side_effect=exception.DiskError('full')
        )
        with full:
            for _ in range(45):
                self.assertEqual({}, self.apply(A))
        self.assertEqual(ORIGINAL, self.get(A))
        self.assertEqual(1, self.log.output.count('are not changed: full'))
        trials = self.apply(A)
        self.assertEqual(
            (4, None), (trials[A.uuid].choice, trials[A.uuid].lost)
        )
        self.assertEqual(SEVERAL, self.get(A))

    def test_a_failure_takes_nothing_from_what_trials_have_found(self):
        """A queue may hang for a moment, whatever its disk was tried with."""
        for _ in range(30):
            self.apply(A, lowered=2)
        for _ in range(40):
            own = self.get(A) == ORIGINAL
            before = self.apply(A, lowered=1, mbps=160 if own else 130)
        self.assertEqual(
            (0, 60.0), (before[A.uuid].choice, before[A.uuid].kept_s)
        )
        with fixtures.MockPatchObject(sysfs, 'read', side_effect=OSError):
            self.assertEqual({}, self.apply(A, lowered=1))
        # nobody knows what was set while this interval was measured
        after = self.apply(A, lowered=1, mbps=1)
        self.assertEqual(
            before[A.uuid],
            dataclasses.replace(after[A.uuid], paused_s=0.0),
        )
        after = self.apply(A, lowered=1)
        self.assertEqual(before[A.uuid].left_s - 1, after[A.uuid].left_s)
        # the trial of several servers has not failed at all
        self.assertEqual(0, self.apply(A, lowered=2)[A.uuid].choice)

    def test_a_failure_to_restore_takes_nothing_from_trials(self):
        for _ in range(30):
            self.apply(A, lowered=1)
        for _ in range(9):
            self.apply()
        with fixtures.MockPatchObject(
            block_queue, 'write', side_effect=OSError('busy')
        ):
            self.apply()
        self.assertEqual(
            1, self.log.output.count('disk-a are not changed: busy')
        )
        self.apply()
        self.assertEqual(ORIGINAL, self.get(A))
        self.assertEqual(0, self.apply(A, lowered=1)[A.uuid].choice)

    def test_a_result_that_cannot_be_set_is_not_logged(self):
        self.conf.set_override('prefer', 'throughput', 'diskplacer_weights')
        for _ in range(25):
            self.apply(A, lowered=1)
        with fixtures.MockPatchObject(sysfs, 'read', side_effect=OSError):
            self.apply(A, lowered=1)
        self.assertNotIn('has turns of', self.log.output)
        for _ in range(2):
            self.apply(A, lowered=1)
        self.assertEqual(1, self.log.output.count('has turns of 2 ms'))

    def test_restored_by_another_agent_after_each_write(self):
        steps = 0
        while True:
            writes = [0]

            def write(*args, writes=writes, last=steps):
                if writes[0] == last:
                    raise SystemExit
                writes[0] += 1
                return write_whole(*args)

            with fixtures.MockPatchObject(block_queue, 'write', write):
                try:
                    self.apply(A, lowered=1)
                    self.settings.restore()
                except SystemExit:
                    killed = True
                else:
                    killed = False
            self.new()
            self.apply(A, lowered=1)
            self.new()
            self.settings.restore()
            self.assertEqual(ORIGINAL, self.get(A), steps)
            self.assertEqual([], self.saved())
            if not killed:
                break
            steps += 1
        self.assertEqual(9, steps)

    def test_restored_after_a_kill_anywhere_in_a_trial(self):
        """An operator's slice_idle is among what is restored."""
        own = ORIGINAL | {'slice_idle_us': '2500'}
        last, killed = 0, True
        while killed:
            self.set(A, **own)
            self.new()
            writes = iter(range(last))

            def write(*args, writes=writes):
                if next(writes, None) is None:
                    raise SystemExit
                write_whole(*args)

            with fixtures.MockPatchObject(block_queue, 'write', write):
                try:
                    for _ in range(60):
                        mbps = 150 if self.get(A) == own else 120
                        self.apply(A, lowered=1, mbps=mbps)
                except SystemExit:
                    last += 1
                else:
                    killed = False
            self.new()
            self.apply(A, lowered=1)
            self.new()
            self.settings.restore()
            self.assertEqual(own, self.get(A), last)
            self.assertEqual([], self.saved())
        self.assertGreater(last, 9)

    def test_file_of_an_earlier_release(self):
        self.apply(A)
        self.set(A, strict_guarantees='1')
        path = os.path.join(self.state_dir, 'bfq', 'disk-a.json')
        with open(path) as stream:
            fields = json.load(stream)
        fields['values'] = {'iosched/strict_guarantees': '0'}
        with open(path, 'w') as stream:
            json.dump(fields, stream)
        self.new()
        self.apply(A)
        self.assertEqual(SEVERAL, self.get(A))
        self.settings.restore()
        self.assertEqual(ORIGINAL, self.get(A))

    def test_a_later_agent_goes_on(self):
        self.apply(A, B)
        self.new()
        self.apply(A)
        self.assertEqual((SEVERAL, ORIGINAL), (self.get(A), self.get(B)))
        self.assertEqual(['disk-a.json'], self.saved())

    def test_the_scheduler_was_chosen_anew(self):
        """The attributes of the queue stay as they are."""
        for own_settings_follow in (False, True):
            self.apply(A)
            self.set(A, nomerges='2')
            if own_settings_follow:
                for _ in range(19):
                    self.apply(A)
                self.assertEqual(ORIGINAL, self.get(A))
            else:
                self.apply(A)
                self.assertEqual(SEVERAL, self.get(A))
            self.settings.restore()
            self.assertEqual(ORIGINAL, self.get(A))
            self.new()

    def test_the_queue_is_tuned_or_measured(self):
        """Its settings are not those of weights meanwhile."""
        with plain_queue.lock(A.uuid, wait=False):
            self.assertEqual({}, self.apply(A))
            self.assertEqual(ORIGINAL, self.get(A))
        self.assertEqual({A.uuid}, self.apply(A).keys())
        with plain_queue.lock(A.uuid, wait=False):
            for _ in range(10):
                self.apply()
            failed = self.assertRaises(
                exception.DiskError, self.settings.restore
            )
            self.assertEqual(SEVERAL, self.get(A))
        self.assertIn(
            'disk disk-a: another process tunes or measures its queue',
            str(failed),
        )
        self.assertEqual('', self.log.output)
        self.new()
        self.settings.restore()
        self.assertEqual(ORIGINAL, self.get(A))

    def test_the_scheduler_is_another_one(self):
        self.apply(A)
        shutil.rmtree(self.path(A, 'queue/iosched'))
        self.apply(A, B)
        self.apply(A, B)
        self.assertEqual(CONTENDED, self.get(B))
        self.assertEqual(1, self.log.output.count('are not changed'))
        self.settings.restore()
        self.assertEqual([], self.saved())
        nomerges = self.path(A, 'queue/nomerges')
        with open(nomerges) as stream:
            self.assertEqual('0', stream.read())

    def test_another_device_is_not_changed(self):
        self.apply(A)
        self.put(A, 'diskseq', '8')
        self.settings.restore()
        self.assertEqual(SEVERAL, self.get(A))
        self.assertEqual([], self.saved())
