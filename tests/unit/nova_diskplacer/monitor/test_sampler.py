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

from oslotest import base

from nova_diskplacer.disks import discover
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import sampler
from tests.fakes import disks as fake_disks
from tests.unit.nova_diskplacer.host import test_block_queue


def make_disk(uuid, device, health=discover.OK, medium=''):
    return fake_disks.make_disk(
        uuid, device=device, health=health, mbps=0, medium=medium
    )


class DevicesTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.sysfs = self.useFixture(test_block_queue.Sysfs())

    def device(self, name, number, rotational='0', parts=()):
        path = self.sysfs.disk(name, *parts, rotational=rotational)
        self.sysfs.write(path, 'dev', number)
        self.sysfs.link(number, name)

    def find(self, *disks):
        return sampler.find_devices(disks, self.sysfs.path)

    def test_devices(self):
        self.device('sdy', '65:128', '1')
        self.device('nvme9n1', '259:700', parts=['nvme9n1p1'])
        found, missing = self.find(
            make_disk('hdd', '/dev/sdy'), make_disk('ssd', '/dev/nvme9n1p1')
        )
        self.assertEqual({}, missing)
        self.assertEqual(
            {
                'hdd': Device('hdd', 'sdy', '65:128', True),
                'ssd': Device('ssd', 'nvme9n1', '259:700', False),
            },
            found,
        )

    def test_the_operator_knows_the_medium(self):
        self.device('sdy', '65:128', '1')
        for medium, rotational in (('ssd', False), ('hdd', True), ('', True)):
            found, _ = self.find(make_disk('a', '/dev/sdy', medium=medium))
            self.assertEqual(rotational, found['a'].rotational)

    def test_below_the_device_mapper(self):
        self.device('sdy', '65:128', '1')
        self.sysfs.disk('dm-77', slaves=['sdy'])
        found, _ = self.find(make_disk('lvm', '/dev/dm-77'))
        self.assertEqual('65:128', found['lvm'].number)

    def test_nvme_multipath(self):
        self.sysfs.head()
        self.sysfs.link('259:7', 'nvme7n1')
        found, missing = self.find(make_disk('ssd', '/dev/nvme7n1'))
        self.assertEqual({}, missing)
        paths = ('nvme7c0n1', 'nvme7c1n1')
        self.assertEqual(
            {'ssd': Device('ssd', 'nvme7n1', '259:7', False, paths=paths)},
            found,
        )

    def test_those_without(self):
        self.device('sdx', '65:112', parts=['sdx1', 'sdx2'])
        self.device('sdy', '65:128')
        found, missing = self.find(
            make_disk('away', '', discover.MISSING),
            make_disk('unknown', ''),
            make_disk('shared', '/dev/sdx1'),
            make_disk('gone', '/dev/sdz'),
            make_disk('good', '/dev/sdy'),
        )
        self.assertEqual(['good'], list(found))
        self.assertEqual(
            ['away', 'gone', 'shared', 'unknown'], sorted(missing)
        )
        self.assertIn('missing', missing['away'])
        self.assertIn('not known', missing['unknown'])
        self.assertIn('sdx2', missing['shared'])
        self.assertIn('sdz', missing['gone'])
