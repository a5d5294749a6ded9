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
import shutil

import fixtures
import testtools

from nova_diskplacer.host import saved_settings
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import strict_bfq
from tests import configured

A = Device('disk-a', 'sda', '8:0', rotational=True)
B = Device('disk-b', 'sdb', '8:16', rotational=True)


class FindContendedTest(testtools.TestCase):
    def find(self, weights, idle=(False, False)):
        pairs = [('one', A.uuid), ('two', A.uuid)]
        return strict_bfq.find_contended(
            pairs, idle, dict(zip(pairs, weights, strict=False))
        )

    def test_weights_differ(self):
        self.assertEqual({A.uuid}, self.find([10, 100]))
        # without a weight it is the kernel's default
        self.assertEqual({A.uuid}, self.find([10]))

    def test_weights_are_equal(self):
        self.assertEqual(set(), self.find([10, 10]))
        self.assertEqual(set(), self.find([]))

    def test_only_one_is_active(self):
        self.assertEqual(set(), self.find([10, 100], idle=(False, True)))

    def test_disks_differ(self):
        weights = {('one', A.uuid): 10, ('one', B.uuid): 100}
        self.assertEqual(
            set(), strict_bfq.find_contended(weights, [False, False], weights)
        )


class StrictBFQTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.sys = self.useFixture(fixtures.TempDir()).path
        configuration = self.useFixture(configured.Options())
        self.conf, self.state_dir = configuration.conf, configuration.state_dir
        self.useFixture(
            fixtures.MockPatchObject(saved_settings, 'boot_id', lambda: 'boot')
        )
        for device in (A, B):
            os.makedirs(self.path(device, 'queue/iosched'))
            self.put(device, 'dev', device.number)
            self.put(device, 'diskseq', '7')
            self.set(device, '0')
        self.new()

    def new(self):
        """Have a new process."""
        self.strict = strict_bfq.StrictBFQ(self.conf, self.sys)

    def path(self, device, name):
        return f'{self.sys}/class/block/{device.name}/{name}'

    def put(self, device, name, text):
        with open(self.path(device, name), 'w') as stream:
            stream.write(text)

    def set(self, device, value):
        self.put(device, 'queue/iosched/strict_guarantees', f'{value}\n')

    def get(self, device):
        path = self.path(device, 'queue/iosched/strict_guarantees')
        with open(path) as stream:
            return stream.read().strip()

    def saved(self):
        try:
            return sorted(os.listdir(os.path.join(self.state_dir, 'bfq')))
        except FileNotFoundError:
            return []

    def apply(self, *contended, seconds=1.0):
        self.strict.apply({one.uuid: one for one in contended}, seconds)

    def test_set_while_contended_and_for_ten_seconds_after_it(self):
        for seconds in (0.5, 1.0, 5.0):
            self.apply(A, seconds=seconds)
            self.assertEqual(('1', '0'), (self.get(A), self.get(B)))
            for _ in range(int(10 / seconds) - 1):
                self.apply(seconds=seconds)
            self.assertEqual('1', self.get(A))
            self.apply(seconds=seconds)
            self.assertEqual('0', self.get(A))
            self.assertEqual([], self.saved())

    def test_an_operators_own_setting_stays(self):
        self.set(A, '1')
        self.apply(A)
        self.strict.restore()
        self.assertEqual('1', self.get(A))

    def test_restored_by_another_agent(self):
        self.apply(A, B)
        self.new()
        self.strict.restore()
        self.assertEqual(('0', '0'), (self.get(A), self.get(B)))
        self.assertEqual([], self.saved())

    def test_a_later_agent_goes_on(self):
        self.apply(A, B)
        self.new()
        self.apply(A)
        self.assertEqual(('1', '0'), (self.get(A), self.get(B)))
        self.assertEqual(['disk-a.json'], self.saved())

    def test_the_scheduler_was_chosen_anew(self):
        self.apply(A)
        self.set(A, '0')
        self.apply(A)
        self.assertEqual('1', self.get(A))
        self.strict.restore()
        self.assertEqual('0', self.get(A))

    def test_the_scheduler_is_another_one(self):
        self.apply(A)
        shutil.rmtree(self.path(A, 'queue/iosched'))
        self.apply(A, B)
        self.apply(A, B)
        self.assertEqual('1', self.get(B))
        self.assertEqual(1, self.log.output.count('is not changed'))
        self.strict.restore()
        self.assertEqual([], self.saved())

    def test_another_device_is_not_changed(self):
        self.apply(A)
        self.put(A, 'diskseq', '8')
        self.strict.restore()
        self.assertEqual('1', self.get(A))
        self.assertEqual([], self.saved())
