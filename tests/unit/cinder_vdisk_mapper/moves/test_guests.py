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


import sys
import tempfile
import unittest
import xml.etree.ElementTree
from unittest import mock

from cinder_vdisk_mapper.moves import guests
from cinder_vdisk_mapper.moves import vdisk_steps
from nova_diskplacer import exception
from nova_diskplacer.host import libvirt_connection
from tests.fakes import libvirt as fake_libvirt

XML = """
<domain type='kvm'>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='none' io='native'/>
      <source file='/disks/by-volume/volume-1'/>
      <target dev='vdb' bus='virtio'/>
      {mirror}
      <serial>1</serial>
    </disk>
    <disk type='block' device='disk'>
      <source dev='/dev/diskplacer-d/volume-2'/>
      <target dev='vdc' bus='virtio'/>
      <serial>2</serial>
    </disk>
  </devices>
</domain>
"""
MIRROR = """
<mirror type='file' job='copy' {ready}>
  <source file='/disks/d/vdisks/volume-1'/>
</mirror>
"""


class Domain:
    """A domain of libvirt, with the jobs that were asked for."""

    def __init__(self):
        self.uuid = 's'
        self.active = True
        self.saved = False
        self.mirror = ''
        self.asked = []

    def XMLDesc(self):  # noqa: N802
        return XML.format(mirror=self.mirror)

    def isActive(self):  # noqa: N802
        return self.active

    def hasManagedSaveImage(self):  # noqa: N802
        return self.saved

    def blockJobInfo(self, target):  # noqa: N802
        return {'cur': 3, 'end': 4}

    def blockCopy(self, *arguments):  # noqa: N802
        self.asked.append(arguments)

    def blockJobAbort(self, *arguments):  # noqa: N802
        self.asked.append(arguments)


class GuestsTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.domain = Domain()
        self.libvirt = fake_libvirt.FakeLibvirt(
            self.domain,
            VIR_DOMAIN_BLOCK_COPY_BANDWIDTH='bandwidth',
            VIR_DOMAIN_BLOCK_COPY_REUSE_EXT=2,
            VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB=4,
            VIR_DOMAIN_BLOCK_COPY_SYNCHRONOUS_WRITES=8,
            VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT=2,
            registerErrorHandler=mock.Mock(),
        )
        self.use(self.libvirt)
        self.guests = guests.Guests('qemu:///system', 5)

    def use(self, module):
        libvirt_connection.import_libvirt.cache_clear()
        self.addCleanup(libvirt_connection.import_libvirt.cache_clear)
        patch = mock.patch.dict(sys.modules, {'libvirt': module})
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_server_that_runs(self):
        self.assertIsNone(self.guests.find('s', '1').job())

    def test_a_server_that_does_not_run(self):
        self.domain.active = False
        self.assertIsNone(self.guests.find('s', '1'))
        self.libvirt.running.clear()
        self.assertIsNone(self.guests.find('s', '1'))

    def test_a_suspended_server(self):
        self.domain.active, self.domain.saved = False, True
        with self.assertRaisesRegex(exception.DiskError, 'suspended'):
            self.guests.find('s', '1')

    def test_a_server_without_the_volume(self):
        with self.assertRaisesRegex(exception.DiskError, 'without'):
            self.guests.find('s', '3')

    def test_errors_of_libvirt(self):
        self.domain.isActive = mock.Mock(side_effect=fake_libvirt.Error(7))
        with self.assertRaisesRegex(exception.HypervisorError, 'error 7'):
            self.guests.find('s', '1')
        self.assertEqual(1, self.libvirt.closed)

    def test_without_libvirt_python(self):
        self.use(None)
        with self.assertRaisesRegex(
            exception.HypervisorError, 'not installed'
        ):
            self.guests.find('s', '1')

    def test_jobs(self):
        guest = self.guests.find('s', '1')
        for text, ready in (('', False), ("ready='yes'", True)):
            self.domain.mirror = MIRROR.format(ready=text)
            self.assertEqual(
                vdisk_steps.Job('/disks/d/vdisks/volume-1', 3, 4, ready),
                guest.job(),
            )

    def test_start(self):
        guest = self.guests.find('s', '1')
        with tempfile.NamedTemporaryFile() as file:
            guest.start(file.name)
        ((target, text, parameters, flags),) = self.domain.asked
        self.assertEqual('vdb', target)
        disk = xml.etree.ElementTree.fromstring(text)
        self.assertEqual(('disk', 'file'), (disk.tag, disk.get('type')))
        self.assertEqual(file.name, disk.find('source').get('file'))
        self.assertEqual(
            {'name': 'qemu', 'type': 'raw', 'cache': 'none', 'io': 'native'},
            disk.find('driver').attrib,
        )
        self.assertEqual({'bandwidth': 5 << 20}, parameters)
        self.assertEqual(2 | 4 | 8, flags)

    def test_block_devices(self):
        disk = xml.etree.ElementTree.fromstring(
            guests.target_xml('/dev/x', True, {})
        )
        self.assertEqual('block', disk.get('type'))
        self.assertEqual('/dev/x', disk.find('source').get('dev'))

    def test_ends(self):
        guest = self.guests.find('s', '1')
        guest.pivot()
        self.assertEqual([], self.domain.asked)
        self.domain.mirror = MIRROR.format(ready="ready='yes'")
        guest.pivot()
        guest.abort()
        self.assertEqual(
            [
                ('vdb', self.libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT),
                ('vdb', 0),
            ],
            self.domain.asked,
        )
