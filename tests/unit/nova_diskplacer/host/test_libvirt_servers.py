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
from unittest import mock

import fixtures
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.host import libvirt_connection
from nova_diskplacer.host import libvirt_servers
from tests.fakes import libvirt as fake_libvirt

EMPTY = """
<domain type='kvm'>
  <name>mine</name>
  <uuid>9d7fd1ab-27b3-4d1c-9a67-8e1b8a5b1f01</uuid>
</domain>
"""


def make_xml(
    uuid='5f0c0f36-8b8e-4f7e-8d54-0a1a4c3d2e10',
    specs=None,
    paths=(),
    cpu='',
    extra='',
):
    """Return what libvirt says of a server, in the form of Nova 34."""
    disks = ''.join(
        f"""
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='none' io='native'/>
      <source file='{path}'/>
      <target dev='vdb' bus='virtio'/>
    </disk>"""
        for path in paths
    )
    specs = ''.join(
        f'<nova:extraSpec name="{name}">{value}</nova:extraSpec>'
        for name, value in (specs or {}).items()
    )
    return f"""
<domain type='kvm' id='3'>
  <name>instance-00000001</name>
  <uuid>{uuid}</uuid>
  <metadata>
    <nova:instance
        xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
      <nova:package version="34.0.0"/>
      <nova:flavor name="m1" id="7">
        <nova:vcpus>1</nova:vcpus>
        <nova:extraSpecs>{specs}</nova:extraSpecs>
      </nova:flavor>
    </nova:instance>
  </metadata>
  <vcpu placement='static'>1</vcpu>
  {cpu}
  <devices>{disks}{extra}
  </devices>
</domain>
"""


class ParseTest(base.BaseTestCase):
    def test_a_server(self):
        text = make_xml(
            specs={'diskplacer:profile': 'hadoop', 'hw:x': 'a b'},
            paths=['/disks/x/vdisks/volume-1'],
        )
        server = libvirt_servers.parse(text, True)
        self.assertEqual('5f0c0f36-8b8e-4f7e-8d54-0a1a4c3d2e10', server.uuid)
        self.assertEqual('instance-00000001', server.name)
        self.assertEqual(
            {'diskplacer:profile': 'hadoop', 'hw:x': 'a b'},
            server.extra_specs,
        )
        self.assertEqual(('/disks/x/vdisks/volume-1',), server.vdisks)
        self.assertEqual({'/disks/x/vdisks/volume-1': 'none'}, server.caches)
        self.assertTrue(server.running)
        self.assertFalse(server.pinned_by_nova)
        self.assertEqual(text, server.xml)

    def test_block_devices_and_drives_without_a_medium(self):
        server = libvirt_servers.parse(
            make_xml(
                extra="""
    <disk type='block' device='disk'>
      <driver name='qemu' type='raw'/>
      <source dev='/dev/diskplacer-x/volume-2'/>
    </disk>
    <disk type='block' device='disk'>
      <driver name='qemu' type='raw' cache='none'/>
      <source dev='/dev/diskplacer-x/volume-3'/>
      <shareable/>
    </disk>
    <disk type='file' device='cdrom'><target dev='sda' bus='sata'/></disk>
    <disk type='network' device='disk'>
      <source protocol='rbd' name='pool/x'/>
    </disk>"""
            ),
            False,
        )
        self.assertEqual(
            ('/dev/diskplacer-x/volume-2', '/dev/diskplacer-x/volume-3'),
            server.vdisks,
        )
        self.assertEqual({}, server.caches)

    def test_nova_pins_what_has_nodes_of_its_own(self):
        numa = "<cpu><numa><cell id='0' cpus='0' memory='9'/></numa></cpu>"
        pins = "<cputune><vcpupin vcpu='0' cpuset='1'/></cputune>"
        self.assertTrue(
            libvirt_servers.parse(
                make_xml(cpu=pins + numa), True
            ).pinned_by_nova
        )
        # anybody may have pinned it since
        self.assertFalse(
            libvirt_servers.parse(make_xml(cpu=pins), True).pinned_by_nova
        )

    def test_a_nova_that_does_not_tell_extra_specs(self):
        log = self.useFixture(fixtures.FakeLogger())
        libvirt_servers._warn_of_old_nova.cache_clear()
        text = make_xml().replace('nova:extraSpecs', 'nova:else')
        for _ in range(2):
            self.assertEqual({}, libvirt_servers.parse(text, True).extra_specs)
        self.assertEqual(1, log.output.count('extra specs'))

    def test_what_is_not_nova_s(self):
        self.assertIsNone(libvirt_servers.parse(EMPTY, True))


class DomainsTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.libvirt = fake_libvirt.FakeLibvirt(
            registerErrorHandler=mock.Mock(), openReadOnly=mock.Mock()
        )
        self.use(self.libvirt)

    def use(self, module):
        libvirt_connection.import_libvirt.cache_clear()
        self.addCleanup(libvirt_connection.import_libvirt.cache_clear)
        # in place: what is imported already is looked up in the dict itself
        patch = mock.patch.dict(sys.modules, {'libvirt': module})
        patch.start()
        self.addCleanup(patch.stop)

    def list(self, *answers):
        found = []
        for answer in answers:
            domain = mock.Mock()
            domain.XMLDesc.side_effect = [answer]
            domain.isActive.return_value = 1
            found.append(domain)
        connection = self.libvirt.openReadOnly.return_value
        connection.listAllDomains.return_value = found
        return libvirt_servers.list_servers('test:///')

    def test_sorted_and_nova_s_alone(self):
        found = self.list(make_xml('b'), EMPTY, make_xml('a'))
        self.assertEqual(['a', 'b'], [server.uuid for server in found])
        self.libvirt.openReadOnly.assert_called_once_with('test:///')
        self.libvirt.openReadOnly.return_value.close.assert_called_once_with()

    def test_one_that_goes_meanwhile(self):
        found = self.list(fake_libvirt.Error(42), make_xml('a'))
        self.assertEqual(['a'], [server.uuid for server in found])

    def test_one_that_cannot_be_described(self):
        error = self.assertRaises(
            exception.HypervisorError,
            self.list,
            make_xml('a'),
            fake_libvirt.Error(1),
        )
        self.assertIn('libvirt_uri=test:///', str(error))
        self.libvirt.openReadOnly.return_value.close.assert_called_once_with()

    def test_libvirt_does_not_answer(self):
        self.libvirt.openReadOnly.side_effect = fake_libvirt.Error(38)
        self.assertRaises(
            exception.HypervisorError, libvirt_servers.list_servers, 'x'
        )

    def test_no_libvirt(self):
        self.use(None)
        self.assertEqual([], libvirt_servers.list_servers('x'))
        self.assertEqual([], libvirt_servers.list_servers('x'))
        self.assertEqual(1, self.log.output.count('libvirt-python is not'))
