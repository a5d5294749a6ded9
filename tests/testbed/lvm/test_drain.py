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


"""The logical volume of a server that has it open moves to another group."""

import contextlib
import functools
import os
import pathlib
import types
import xml.etree.ElementTree

import libvirt

from cinder_vdisk_mapper.backend import lvm as backend_lvm
from cinder_vdisk_mapper.moves import guests
from cinder_vdisk_mapper.moves import vdisk_steps
from cinder_vdisk_mapper.vdisks import copies
from nova_diskplacer.disks import links
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import volumes
from tests.testbed import hypervisor
from tests.testbed.lvm import base

SIZE = 64 << 20
NAME = 'volume-1'


def remove_cgroups():
    """Remove the control groups that libvirt leaves."""
    for directory, _, _ in os.walk('/sys/fs/cgroup/machine', topdown=False):
        os.rmdir(directory)


class DrainTestCase(base.LVMTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.addClassCleanup(remove_cgroups)
        hypervisor.start(cls)
        cls.source, cls.target = (
            cls.prepared(device).uuid for device in cls.spare
        )

    def setUp(self):
        super().setUp()
        context = backend_lvm.privsep_lvm.context
        self.addCleanup(context.set_client_mode, context.client_mode)
        self.backend = backend_lvm.LVMBackend(self.root)
        for uuid in (self.source, self.target):
            self.addCleanup(base.purge, uuid)
        volumes.create(self.source, NAME, '1', None, SIZE)
        for offset in range(0, SIZE, 8 << 20):
            base.write(
                naming.device_path(self.source, NAME),
                base.pattern(f'at {offset}'),
                offset,
            )
        self.backend.link(self.source, NAME)

    def define(self):
        """Return a server that is stopped and has the path of the link."""
        disk = xml.etree.ElementTree.fromstring(
            hypervisor.disk(links.path(self.root, NAME), 'block')
        )
        xml.etree.ElementTree.SubElement(disk, 'serial').text = '1'
        text = hypervisor.server(
            'drained',
            devices=xml.etree.ElementTree.tostring(disk, encoding='unicode'),
        )
        domain = self.libvirt.defineXML(text)
        self.addCleanup(domain.undefine)
        return domain

    def start(self):
        """Return a server that runs."""
        domain = self.define()
        domain.createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED)
        self.addCleanup(hypervisor.destroy, domain)
        return domain

    def place(self, uuid):
        return types.SimpleNamespace(
            path=naming.device_path(uuid, NAME),
            activate=functools.partial(self.backend.attach_device, uuid, NAME),
            condemn=functools.partial(self.backend.condemn, uuid, NAME),
            delete=functools.partial(volumes.delete, uuid, NAME),
            in_use=functools.partial(self.in_use, uuid),
        )

    def in_use(self, uuid):
        held = [vdisk.name for vdisk in self.backend.disk(uuid).vdisks]
        return NAME in held and self.backend.in_use(uuid, NAME)

    def flags(self):
        """Return the flags with which QEMU has opened the target."""
        device = os.path.realpath(naming.device_path(self.target, NAME))
        for path in pathlib.Path('/proc').glob('[0-9]*/fd/*'):
            with contextlib.suppress(OSError):
                # QEMU has a /dev of its own
                if os.path.basename(os.readlink(path)) == os.path.basename(
                    device
                ):
                    info = path.parent.parent / 'fdinfo' / path.name
                    return int(
                        info.read_text().split('flags:')[1].split()[0], 8
                    )
        raise LookupError(device)

    def move(self, server):
        """Return the steps of a move, as ``VDiskSteps`` has them."""
        return types.SimpleNamespace(
            source=self.place(self.source),
            target=self.place(self.target),
            create=lambda: volumes.create(self.target, NAME, '1', None, SIZE),
            guest=lambda: guests.Guests(self.uri, 0).find(server, '1'),
            copy=lambda: self.backend.copy(self.source, NAME, self.target),
            writes=lambda: self.backend.writes(self.source, NAME),
            fill=lambda: volumes.extend(self.target, NAME, SIZE),
            check_target=lambda: copies.check_whole(
                self.backend, self.target, NAME, SIZE
            ),
            is_decided=lambda: self.backend.linked_disk(NAME) == self.target,
            decide=lambda moved: self.backend.link(
                self.target if moved else self.source, NAME
            ),
            park=lambda: self.backend.park_link(NAME),
            unpark=lambda: self.backend.unpark_link(NAME),
            save=lambda: None,
            check=lambda: None,
            forget=lambda: None,
            locked=contextlib.nullcontext,
            progress=lambda done, total: None,
        )

    def assert_moved(self):
        self.assertEqual((), self.backend.disk(self.source).vdisks)
        (vdisk,) = self.backend.disk(self.target).vdisks
        self.assertEqual((NAME, SIZE), (vdisk.name, vdisk.size_bytes))
        path = links.path(self.root, NAME)
        self.assertEqual(
            os.path.realpath(naming.device_path(self.target, NAME)),
            os.path.realpath(path),
        )
        for offset in range(0, SIZE, 8 << 20):
            self.assertEqual(
                base.pattern(f'at {offset}'),
                base.read(path, base.MIB, offset),
            )

    def test_while_its_server_runs(self):
        domain = self.start()
        self.assertTrue(self.in_use(self.source))
        vdisk_steps.run(self.move(domain.UUIDString()))
        self.assertTrue(self.in_use(self.target))
        self.assertEqual(os.O_DIRECT, self.flags() & os.O_DIRECT)
        self.assert_moved()
        # as in a hard reboot, which uses the same path again
        hypervisor.destroy(domain)
        self.assertFalse(self.in_use(self.target))
        domain.createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED)
        self.assertTrue(self.in_use(self.target))

    def test_taken_back(self):
        domain = self.start()
        move = self.move(domain.UUIDString())
        move.create()
        move.guest().start(move.target.path)
        vdisk_steps.take_back(move)
        self.assertTrue(self.in_use(self.source))
        self.assertEqual((), self.backend.disk(self.target).vdisks)

    def test_while_its_server_is_stopped(self):
        vdisk_steps.run(self.move(self.define().UUIDString()))
        self.assert_moved()
