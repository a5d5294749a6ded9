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

from unittest import mock

import numpy
from oslotest import base

from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.monitor import guest_stats
from nova_diskplacer.monitor import types as monitor_types
from tests.fakes import disks as fake_disks
from tests.fakes import libvirt as fake_libvirt
from tests.unit.nova_diskplacer.monitor import samples

DISK = '/disks/d'
VDISK = f'{DISK}/vdisks/volume-1'
ROOT = '/var/lib/nova/instances/a/disk'


def make_stats(*disks):
    """Return what libvirt tells of a domain: (path, counters) of each."""
    stats = {'block.count': len(disks)}
    names = (
        'rd.bytes',
        'wr.bytes',
        'rd.reqs',
        'wr.reqs',
        'fl.reqs',
        'rd.times',
        'wr.times',
        'fl.times',
    )
    for index, (path, *counters) in enumerate(disks):
        stats[f'block.{index}.name'] = f'vd{index}'
        if path:
            stats[f'block.{index}.path'] = path
        for name, value in zip(names, counters, strict=True):
            stats[f'block.{index}.{name}'] = value
    return stats


def make_history(**read):
    """Return counters of servers on the disk: bytes read."""
    return monitor_types.PairTable(
        monitor_types.Pairs((server, 'd') for server in sorted(read)),
        counters=numpy.array(
            [(read[one], 0, 1, 1) for one in sorted(read)]
        ).reshape(-1, 4),
    )


class GuestPollerTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.libvirt = self.useFixture(fake_libvirt.DomainStats())
        self.poller = guest_stats.GuestPoller('test:///')
        self.disks = [fake_disks.make_disk('d', path=DISK, device='/dev/sda')]

    def tell(self, **domains):
        """Have libvirt tell of domains' disks, by UUID."""
        self.libvirt.tell(
            {uuid: make_stats(*disks) for uuid, disks in domains.items()}
        )

    def poll(self, now, **read):
        history = make_history(**read)
        servers = [
            libvirt_servers.Server(
                uuid, uuid, {}, (VDISK,), {}, True, False, ''
            )
            for uuid in 'ab'
        ]
        self.sample = samples.make_sample(
            history.pairs,
            servers=servers,
            prepared_disks=self.disks,
            history=history,
        )
        return self.poller.poll(now, self.sample)

    def test_uses(self):
        second = 10**9
        self.tell(
            a=[
                (VDISK, 100, 200, 10, 20, 5, second, 2 * second, 3 * second),
                ('', 1, 1, 1, 1, 1, 1, 1, 1),
                (ROOT, 0, 0, 0, 0, 0, 0, 0, 0),
            ]
        )
        self.assertEqual({}, self.poll(10.0).uses)
        self.tell(
            a=[
                (
                    VDISK,
                    300,
                    200,
                    20,
                    20,
                    9,
                    6 * second,
                    2 * second,
                    5 * second,
                ),
                ('', 2, 2, 2, 2, 2, 2, 2, 2),
                (ROOT, 0, 0, 0, 0, 0, 0, 0, 0),
            ]
        )
        uses = self.poll(12.0).uses
        self.assertEqual(['a'], list(uses))
        use, elsewhere = uses['a']
        self.assertEqual((ROOT, ''), (elsewhere.path, elsewhere.disk))
        self.assertIsNone(elsewhere.read_seconds)
        self.assertEqual(
            guest_stats.GuestDiskUse(
                VDISK, 'd', 100, 0, 5, 0, 2, 0.5, None, 0.5
            ),
            use,
        )
        self.assertEqual(2, self.libvirt.connection.close.call_count)

    def test_a_stripe_has_an_equal_part_on_each_disk(self):
        path = '/dev/mapper/diskplacer-striped-volume-1'
        piece = VDisk('volume-1', '1', None, 1, stripe=Location('de'))
        self.disks = [
            fake_disks.make_disk(uuid, held=[piece]) for uuid in 'de'
        ]
        with mock.patch(f'{__name__}.VDISK', path):
            self.tell(a=[(path, 0, 0, 0, 0, 0, 0, 0, 0)])
            self.poll(10.0, a=0)
            self.tell(a=[(path, 400, 0, 8, 0, 0, 4 * 10**9, 0, 0)])
            stats = self.poll(12.0, a=100)
        self.assertEqual(
            [
                guest_stats.GuestDiskUse(
                    path, disk, 100, 0, 2, 0, 0, 0.5, None, None
                )
                for disk in 'de'
            ],
            stats.uses['a'],
        )
        self.assertEqual({('a', 'd'): 50, ('a', 'e'): 100}, stats.unaccounted)

    def test_a_server_that_was_started_again(self):
        self.tell(a=[(VDISK, 100, 0, 1, 0, 0, 1, 0, 0)])
        self.poll(1.0)
        self.tell(
            a=[(VDISK, 90, 0, 1, 0, 0, 1, 0, 0)],
            b=[(VDISK, 90, 0, 1, 0, 0, 1, 0, 0)],
        )
        self.assertEqual({}, self.poll(2.0).uses)
        self.assertEqual(['a', 'b'], sorted(self.poll(3.0).uses))

    def test_what_accounts_do_not_have(self):
        none = (0, 0, 0, 0, 0, 0, 0, 0)
        self.tell(a=[(VDISK, *none)], b=[(VDISK, *none)])
        self.poll(1.0, a=1000, b=5000)
        self.tell(
            a=[(VDISK, 600, 400, 1, 1, 0, 0, 0, 0)],
            b=[(VDISK, 500, 0, 1, 0, 0, 0, 0, 0), (ROOT, *none)],
        )
        stats = self.poll(11.0, a=1300, b=5500)
        self.assertEqual({('a', 'd'): 70.0}, stats.unaccounted)
        self.tell(a=[(VDISK, 700, 400, 1, 1, 0, 0, 0, 0)])
        # its cgroup is another one, or it has none
        stats = self.poll(21.0, a=40)
        self.assertEqual({('a', 'd'): 10.0}, stats.unaccounted)
        self.tell(a=[(VDISK, 800, 400, 1, 1, 0, 0, 0, 0)])
        self.assertEqual({('a', 'd'): 10.0}, self.poll(31.0).unaccounted)

    def test_accounts_are_compared_once_for_each_sample(self):
        """Intervals may be longer than the time between two polls."""

        def tell(moved):
            self.tell(a=[(VDISK, moved, 0, 1, 0, 0, 1, 0, 0)])

        tell(0)
        self.poll(5.0, a=0)
        for now, moved in ((10.0, 500), (15.0, 1000)):
            tell(moved)
            stats = self.poller.poll(now, self.sample)
            self.assertEqual({}, stats.unaccounted)
            self.assertEqual(100, stats.uses['a'][0].read_bytes)
        tell(1500)
        self.assertEqual({}, self.poll(20.0, a=1500).unaccounted)
        # what is found stays until the next one
        tell(2500)
        self.assertEqual(
            {('a', 'd'): 80.0}, self.poll(30.0, a=1700).unaccounted
        )
        tell(2600)
        stats = self.poller.poll(35.0, self.sample)
        self.assertEqual({('a', 'd'): 80.0}, stats.unaccounted)

    def test_less_than_a_byte_per_second_is_nothing(self):
        self.tell(a=[(VDISK, 0, 0, 0, 0, 0, 0, 0, 0)])
        self.poll(1.0, a=0)
        self.tell(a=[(VDISK, 10, 20, 1, 1, 0, 1, 0, 5)])
        self.assertEqual({}, self.poll(11.0, a=21).unaccounted)

    def test_a_server_that_was_busy_at_the_last_poll(self):
        self.tell(a=[(VDISK, 900, 0, 1, 0, 0, 1, 0, 0)])
        self.poll(1.0, a=900)
        self.libvirt.tell({'a': {'block.count': 1, 'block.0.path': VDISK}})
        self.assertEqual({}, self.poll(2.0, a=900).uses)
        self.tell(a=[(VDISK, 900, 0, 1, 0, 0, 1, 0, 0)])
        stats = self.poll(3.0, a=900)
        self.assertEqual(({}, {}), (stats.uses, stats.unaccounted))

    def test_resources_are_known_at_the_first_poll(self):
        self.libvirt.tell({'a': {'cpu.time': 3 * 10**9}, 'b': {}})
        resources = self.poll(1.0).resources
        self.assertEqual(3.0, resources['a'].cpu_seconds)
        self.assertIsNone(resources['b'].cpu_seconds)


class LatenciesTest(base.BaseTestCase):
    def test_requests_to_all_vdisks_on_a_disk_count(self):
        def use(disk, reads, writes, read_seconds, write_seconds):
            return guest_stats.GuestDiskUse(
                '', disk, 0.0, 0.0, reads, writes, 0.0,
                read_seconds, write_seconds, None,
            )  # fmt: skip

        stats = guest_stats.GuestStats(
            {
                'a': [
                    use('x', 3.0, 1.0, 0.002, 0.01),
                    use('x', 0.0, 6.0, None, 0.004),
                    use('y', 0.0, 0.0, None, None),
                ],
                'b': [use('y', 2.0, 0.0, 0.5, None)],
            },
            {},
            {},
        )
        found = guest_stats.latencies(stats)
        self.assertEqual({('a', 'x'), ('b', 'y')}, found.keys())
        self.assertAlmostEqual(0.004, found['a', 'x'])
        self.assertEqual(0.5, found['b', 'y'])
