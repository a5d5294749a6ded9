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

from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.host import libvirt_connection
from nova_diskplacer.monitor import guest_counters
from tests.fakes import libvirt as fake_libvirt

# What libvirt 9 tells of a guest with one disk and two interfaces.
STATS = {
    'cpu.time': 12_500_000_000,
    'cpu.user': 9_000_000_000,
    'cpu.system': 3_500_000_000,
    'balloon.current': 2048,
    'balloon.maximum': 4096,
    'balloon.unused': 100,
    'balloon.available': 2000,
    'balloon.usable': 1500,
    'balloon.rss': 3000,
    'net.count': 2,
    'net.0.name': 'tap0',
    'net.0.rx.bytes': 90,
    'net.0.rx.pkts': 1,
    'net.0.tx.bytes': 70,
    'net.0.tx.pkts': 1,
    'net.1.name': 'tap1',
    'net.1.rx.bytes': 5,
    'net.1.tx.bytes': 6,
    'block.count': 1,
    'block.0.name': 'vda',
    'block.0.path': '/disks/d',
    'block.0.rd.reqs': 3,
    'block.0.rd.bytes': 1,
    'block.0.rd.times': 6,
    'block.0.wr.reqs': 4,
    'block.0.wr.bytes': 2,
    'block.0.wr.times': 7,
    'block.0.fl.reqs': 5,
    'block.0.fl.times': 8,
}

# What is left of these while another job in QEMU keeps the domain busy.
BUSY = {
    name: value
    for name, value in STATS.items()
    if name.startswith(('cpu.', 'net.', 'balloon.current', 'balloon.max'))
    or name in ('block.count', 'block.0.name', 'block.0.path')
}


class ReadTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.libvirt = self.useFixture(fake_libvirt.DomainStats())

    def read(self, **changes):
        """Return the counters of a guest."""
        self.libvirt.tell({'a': {**STATS, **changes}})
        return guest_counters.read('test:///')['a']

    def test_all_is_asked_for_in_one_call(self):
        self.libvirt.tell({'a': STATS, 'b': STATS})
        self.assertEqual({'a', 'b'}, set(guest_counters.read('test:///')))
        self.libvirt.connection.getAllDomainStats.assert_called_once_with(
            2 | 4 | 16 | 32, 1 | 2
        )
        self.libvirt.connection.close.assert_called_once_with()

    def test_counters(self):
        self.assertEqual(
            guest_counters.GuestCounters(
                {'/disks/d': (1, 2, 3, 4, 5, 6, 7, 8)},
                guest_counters.GuestResources(
                    cpu_seconds=12.5,
                    memory_bytes=2 << 20,
                    memory_used_bytes=500 << 10,
                    received_bytes={'tap0': 90, 'tap1': 5},
                    transmitted_bytes={'tap0': 70, 'tap1': 6},
                ),
            ),
            self.read(),
        )

    def test_a_disk_without_medium(self):
        stats = {'block.count': 2, 'block.1.name': 'sda'}
        self.assertEqual(
            {'/disks/d'},
            set(self.read(**stats, **{'block.1.rd.bytes': 0}).disks),
        )

    def test_a_guest_without_driver_of_the_balloon(self):
        stats = {
            name: value
            for name, value in STATS.items()
            if name not in ('balloon.available', 'balloon.usable')
        }
        self.libvirt.tell({'a': stats})
        resources = guest_counters.read('test:///')['a'].resources
        self.assertIsNone(resources.memory_used_bytes)
        self.assertEqual(2 << 20, resources.memory_bytes)

    def test_an_interface_without_counters(self):
        resources = self.read(**{'net.count': 3, 'net.2.name': 'x'}).resources
        self.assertEqual({'tap0', 'tap1'}, set(resources.received_bytes))

    def test_a_busy_domain(self):
        self.libvirt.tell({'a': BUSY})
        guest = guest_counters.read('test:///')['a']
        self.assertEqual({}, guest.disks)
        self.assertEqual(12.5, guest.resources.cpu_seconds)
        self.assertEqual(90, guest.resources.received_bytes['tap0'])
        self.assertIsNone(guest.resources.memory_used_bytes)

    def test_libvirt_refuses(self):
        self.libvirt.connection.getAllDomainStats.side_effect = (
            fake_libvirt.Error(1)
        )
        error = self.assertRaises(
            exception.HypervisorError, guest_counters.read, 'test:///'
        )
        self.assertIn('libvirt_uri=test:///', str(error))
        self.libvirt.connection.close.assert_called_once_with()

    def test_no_libvirt(self):
        with mock.patch.object(
            libvirt_connection, 'import_libvirt', return_value=None
        ):
            self.assertEqual({}, guest_counters.read('test:///'))
