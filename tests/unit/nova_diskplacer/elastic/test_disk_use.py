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


import testtools

from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.elastic import discovery
from nova_diskplacer.elastic import disk_use
from nova_diskplacer.monitor import guest_stats
from tests.unit.nova_diskplacer.elastic import elastic_samples
from tests.unit.nova_diskplacer.elastic import on_disks

OTHER = naming.striped_device('volume-2')


class ObserveTest(testtools.TestCase):
    def observe(self, load, guests=None, others=(), **moved):
        """Observe ten seconds."""
        load.go(5, server_a=1)
        before = load.sample()
        load.go(10, others, **moved)
        vdisks = discovery.find(load.disks, {})
        return disk_use.observe(
            before, load.sample(), vdisks, guests, 100.0, 10.0
        )

    def assert_parts(self, expected, found):
        self.assertEqual(
            {('volume', disk): part for disk, part in expected.items()},
            {pair: round(part, 3) for pair, part in found.parts.items()},
        )

    def test_use_of_a_server(self):
        load = elastic_samples.Load(on_disks.disks('aab', 'c'))
        found = self.observe(load, server_a=60, server_b=30)
        self.assertEqual((100.0, 10.0), (found.end, found.seconds))
        self.assertEqual({'a': 0.6, 'b': 0.3, 'c': 0.0}, found.utilization)
        self.assert_parts({'a': 0.6, 'b': 0.3}, found)

    def test_others(self):
        other = elastic_samples.server('/dev/x', uuid='other')
        load = elastic_samples.Load(
            on_disks.disks('aa'), (elastic_samples.server(), other)
        )
        # 20 MB/s are of no consumer
        found = self.observe(load, others={'a': 20}, server_a=30, other_a=10)
        self.assertEqual({'a': 0.6}, found.utilization)
        self.assert_parts({'a': 0.3}, found)

    def test_charged_time(self):
        other = elastic_samples.server('/dev/x', uuid='other')
        load = elastic_samples.Load(
            on_disks.disks('aa'),
            (elastic_samples.server(), other),
            iocost='a',
        )
        found = self.observe(load, server_a=30, other_a=60)
        self.assert_parts({'a': 0.3}, found)

    def test_two_vdisks_of_a_server(self):
        """Libvirt tells them apart, if it answers."""
        (disk,) = on_disks.disks('aa')
        piece = on_disks.piece(
            'aa', 'a', name='volume-2', volume_id='other', minimum=0
        )
        disk = on_disks.disk('a', *disk.vdisks, piece)
        server = elastic_samples.server(elastic_samples.PATH, OTHER)

        def guests(mine, other):
            uses = [
                guest_stats.GuestDiskUse(
                    path, 'a', rate, 0.0, 1.0, 0.0, 0.0, None, None, None
                )
                for path, rate in (
                    (elastic_samples.PATH, mine),
                    (OTHER, other),
                    ('/dev/x', 9.0),
                )
            ]
            return guest_stats.GuestStats({'server': uses}, {}, {})

        for known, part in (
            (None, 0.4),
            (guests(3.0, 1.0), 0.6),
            (guests(0.0, 1.0), 0.0),
            (guests(0.0, 0.0), 0.4),
        ):
            load = elastic_samples.Load([disk], (server,))
            found = self.observe(load, known, server_a=80)
            self.assert_parts({'a': part}, found)

    def test_nobody_uses_it(self):
        load = elastic_samples.Load(on_disks.disks('aa'), ())
        found = self.observe(load, others={'a': 50})
        self.assertEqual({'a': 0.5}, found.utilization)
        self.assertEqual({}, found.parts)

    def test_disk_that_was_not_measured(self):
        load = elastic_samples.Load(on_disks.disks('ab'))
        load.go(5)
        before = load.sample()
        after = load.sample()
        vdisks = discovery.find(load.disks, {})
        for one, other in ((before, after), (before, before)):
            found = disk_use.observe(one, other, vdisks, None, 1.0, 1.0)
            self.assertEqual({}, found.utilization)
        load.go(5, server_a=10)
        after = load.sample()
        del before.disks['b']
        found = disk_use.observe(before, after, vdisks, None, 1.0, 1.0)
        self.assertEqual({'a': 0.1}, found.utilization)
        self.assert_parts({'a': 0.1}, found)

    def test_measuring_began_anew(self):
        load = elastic_samples.Load(on_disks.disks('ab'))
        load.go(50, server_a=10)
        before = load.sample()
        load = elastic_samples.Load(on_disks.disks('ab'))
        load.go(10, server_a=10)
        vdisks = discovery.find(load.disks, {})
        found = disk_use.observe(before, load.sample(), vdisks, None, 1.0, 1.0)
        self.assertEqual({}, found.utilization)
        self.assertEqual({}, found.parts)
