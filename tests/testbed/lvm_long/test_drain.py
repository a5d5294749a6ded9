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
import dataclasses
import os
import pathlib
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


@dataclasses.dataclass(frozen=True)
class Place(vdisk_steps.Place):
    """The logical volume in the volume group of a disk."""

    backend: backend_lvm.LVMBackend
    uuid: str

    @property
    def path(self):
        return naming.device_path(self.uuid, NAME)

    def activate(self):
        self.backend.attach_device(self.uuid, NAME)

    def condemn(self):
        self.backend.condemn(self.uuid, NAME)

    def delete(self):
        volumes.delete(self.uuid, NAME)

    def in_use(self):
        held = [vdisk.name for vdisk in self.backend.disk(self.uuid).vdisks]
        return NAME in held and self.backend.in_use(self.uuid, NAME)


@dataclasses.dataclass
class Move(vdisk_steps.VDiskSteps):
    """The move of the vdisk of a server, without Cinder and Placement."""

    backend: backend_lvm.LVMBackend
    disks: tuple[str, str]
    libvirt_uri: str
    server: str

    @property
    def source(self):
        return Place(self.backend, self.disks[0])

    @property
    def target(self):
        return Place(self.backend, self.disks[1])

    def create(self):
        volumes.create(self.target.uuid, NAME, '1', None, SIZE)

    def guest(self):
        return guests.Guests(self.libvirt_uri, 0).find(self.server, '1')

    def copy(self):
        self.backend.copy(self.source.uuid, NAME, self.target.uuid)

    def writes(self):
        return self.backend.writes(self.source.uuid, NAME)

    def fill(self):
        volumes.extend(self.target.uuid, NAME, SIZE)

    def check_target(self):
        copies.check_whole(self.backend, self.target.uuid, NAME, SIZE)

    def is_decided(self):
        return self.backend.linked_disk(NAME) == self.target.uuid

    def decide(self, moved):
        place = self.target if moved else self.source
        self.backend.link(place.uuid, NAME)

    def park(self):
        self.backend.park_link(NAME)

    def unpark(self):
        self.backend.unpark_link(NAME)

    def save(self):
        """Do nothing: Cinder has no such volume."""

    check = forget = save

    def locked(self):
        return contextlib.nullcontext()

    def progress(self, done, total):
        """Show nothing."""


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

    def in_use(self, uuid):
        return Place(self.backend, uuid).in_use()

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
        """Return the move of the vdisk of a server."""
        return Move(
            self.backend,
            (self.source, self.target),
            self.uri,
            server,
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
