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

"""Two hosts in the guest: two backends of the driver, with LIO and iscsid.

They share the guest's kernel, with all targets and sessions. The driver,
Cinder's database, its target driver and os-brick are real. Messages between
the hosts are calls, and Nova and Placement are stand-ins.
"""

import contextlib
import dataclasses
import os
import subprocess
import tempfile
import time
import uuid

import fixtures
import os_brick.privileged
import testtools
from cinder import context
from cinder import objects
from cinder import privsep as cinder_privsep
from cinder.volume import configuration
from cinder.volume import driver as cinder_driver
from cinder.volume import volume_types
from oslo_config import cfg
from oslo_config import fixture as config_fixture

from cinder_vdisk_mapper import conf
from cinder_vdisk_mapper import driver
from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper import privsep
from cinder_vdisk_mapper import privsep_lvm
from cinder_vdisk_mapper import privsep_openers
from cinder_vdisk_mapper.server_moves import store
from nova_diskplacer import flavor
from nova_diskplacer.disks import prepare
from nova_diskplacer.placement import client as placement_client
from tests import shell
from tests.testbed.lvm import base
from tests.testbed.server_moves import database
from tests.testbed.server_moves import iscsi
from tests.testbed.server_moves import writer
from tools.testbed import udev

objects.register_all()

PROJECT = 'project'
SOURCE, TARGET = HOSTS = ('source', 'target')
ADDRESS = '127.0.0.1'
ZONE = 'nova'

# Seconds that anything may take in an emulated guest.
PATIENCE = 180


def initiator(host):
    """Return the initiator of a host."""
    return f'iqn.2016-04.com.example:{host}'


class Placement:
    """The claims of the one server, in GiB by disk."""

    claims: dict[str, int]

    def allocations(self, consumer):
        return placement_client.Allocations(
            PROJECT,
            {
                disk: {placement_client.GB: size}
                for disk, size in self.claims.items()
            },
        )

    def provider_allocations(self, disk):
        return {}


def connect(one, context, volume, connector):
    """Do as the manager of Cinder that attaches a volume."""
    one.validate_connector(connector)
    if update := one.create_export(context, volume, connector):
        volume.update(update)
        volume.save()
    try:
        return one.initialize_connection(volume, connector)
    except Exception:
        one.remove_export(context, volume)
        raise


class Writer:
    """A process that writes and verifies, in place of the server's QEMU."""

    def __init__(self, path, state):
        self.process = subprocess.Popen(
            ['python3', '-I', writer.__file__, path, state],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        os.set_blocking(self.process.stdout.fileno(), False)
        self._printed = ''

    @property
    def rounds(self):
        """The number of rounds that it has done."""
        self._printed += (self.process.stdout.read() or b'').decode()
        *lines, _ = self._printed.split('\n')
        if self.process.poll() or (lines and not lines[-1].isdigit()):
            raise AssertionError(self._printed[-2000:])
        return int(lines[-1]) if lines else 0

    def wait(self, more=3):
        """Wait for more rounds, and return the seconds that they took."""
        began, first = time.monotonic(), self.rounds
        while self.rounds < first + more:
            if time.monotonic() > began + PATIENCE:
                raise AssertionError(f'it waits after round {first}')
            time.sleep(0.05)
        return time.monotonic() - began

    def stop(self):
        """Have it end, and check all that it has read."""
        if self.process.stdin.closed:
            return
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self._done = self.rounds
        self.process.stdout.close()


class HostsTestCase(testtools.TestCase):
    """A server on ``source`` with a volume of 1 GiB, and room on ``target``.

    The disks are logical volumes of one kind, or files.
    """

    lvm_options = None
    volume_id = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        iscsi.start_targets(cls.addClassCleanup)
        iscsi.start_initiator(initiator(TARGET), cls.addClassCleanup)
        directory = tempfile.mkdtemp(dir='/root')
        cls.addClassCleanup(shell.run, 'rm', '--recursive', directory)
        cls.roots, cls.disks = {}, {}
        for host, device in zip(HOSTS, base.spare_devices(), strict=False):
            base.erase(device)
            cls.addClassCleanup(base.erase, device)
            cls._prepare(os.path.join(directory, host), host, device)

    @classmethod
    def _prepare(cls, directory, host, device):
        os.mkdir(directory)
        root = os.path.join(directory, 'disks')
        fstab = os.path.join(directory, 'fstab')
        disk = prepare.prepare(
            root,
            device,
            medium='hdd',
            fstab=fstab,
            lvm_options=cls.lvm_options,
        )
        cls.addClassCleanup(prepare.forget, root, disk.uuid, fstab)
        cls.roots[host], cls.disks[host] = root, disk.uuid

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.context = context.get_admin_context()
        self.path = self.useFixture(fixtures.TempDir(rootdir='/root')).path
        for one in (
            os_brick.privileged.default,
            cinder_privsep.sys_admin_pctxt,
            privsep.context,
            privsep_lvm.context,
            privsep_openers.context,
        ):
            self.addCleanup(one.set_client_mode, one.client_mode)
            one.set_client_mode(False)
        database.use(self)
        self.placement = Placement()
        self.placement.claims = {self.disks[SOURCE]: 1}
        self.server = nova_api.Server(
            str(uuid.uuid4()),
            PROJECT,
            SOURCE,
            flavor.VDiskRequest(1, 1),
            status='ACTIVE',
        )
        messages = 'cinder.volume.rpcapi.VolumeAPI'
        for name, value in (
            ('cinder.utils.execute', iscsi.rtstool),
            ('cinder.utils.get_root_helper', lambda: 'env'),
            (f'{messages}.__init__', lambda _: None),
            (f'{messages}.initialize_connection', self._connect),
            (f'{messages}.terminate_connection', self._terminate),
            ('cinder_vdisk_mapper.nova_api.get', lambda *_: self.server),
            (
                'cinder_vdisk_mapper.vdisks.operations.VDiskOperations.reserve',
                lambda *_: True,
            ),
            (
                'nova_diskplacer.placement.client.PlacementClient.from_conf',
                lambda _: self.placement,
            ),
        ):
            self.useFixture(fixtures.MockPatch(name, value))
        self._configure()
        self.drivers = {}
        for host in HOSTS:
            self._add_service(host)
            self.restart(host)
        self._create()
        self.addCleanup(udev.settle)
        self.addCleanup(self._purge)
        self.addCleanup(iscsi.clear)

    # messages to the other host, where its manager would do the same

    def _connect(self, ctxt, volume, connector):
        return connect(self._driver(volume), ctxt, volume, connector)

    def _terminate(self, ctxt, volume, connector, force=False):
        self._driver(volume).terminate_connection(
            volume, connector, force=force
        )

    def _driver(self, volume):
        """Return the driver that Cinder sends requests for a volume to."""
        return self.drivers[store.holder(volume).partition('@')[0]]

    def _configure(self):
        config = self.useFixture(config_fixture.Config(cfg.CONF))
        config.config(lock_path=self.path, group='oslo_concurrency')
        # neither says that it is there
        config.config(service_down_time=1 << 20)
        for host in HOSTS:
            configuration.Configuration(
                [*conf.OPTS, *cinder_driver.volume_opts], config_group=host
            )
            config.config(
                group=host,
                target_helper='lioadm',
                target_ip_address=ADDRESS,
                vdisk_disk_root=self.roots[host],
                vdisk_backend='lvm' if self.lvm_options else 'filesystem',
                vdisk_connection='block',
            )

    def _add_service(self, host):
        service = objects.Service(
            self.context,
            host=f'{host}@vdisk',
            binary='cinder-volume',
            topic='cinder-volume',
            availability_zone=ZONE,
        )
        service.create()
        self.addCleanup(service.destroy)

    def restart(self, host):
        """Start the driver of a host, as cinder-volume does."""
        self.drivers[host] = one = driver.VDiskMapperDriver(
            host=f'{host}@vdisk',
            configuration=configuration.Configuration([], config_group=host),
        )
        one.do_setup(None)
        one.check_for_setup_error()
        one.update_provider_info([], [])
        if self.volume_id and store.holder(self.volume) == f'{host}@vdisk':
            one.ensure_export(self.context, self.volume)

    def _create(self):
        volume_type = volume_types.create(self.context, str(uuid.uuid4()))
        volume = objects.Volume(
            self.context,
            display_name='data',
            host='source@vdisk#vdisk',
            availability_zone=ZONE,
            project_id=PROJECT,
            volume_type_id=volume_type.id,
            size=1,
            status='available',
            attach_status='detached',
            use_quota=False,
        )
        volume.create()
        self.volume_id, self.name = volume.id, f'volume-{volume.id}'

    def _purge(self):
        """Delete what a test that has failed may have left."""
        for host in HOSTS:
            backend = self.drivers[host].backend
            with contextlib.suppress(Exception):
                backend.unlink(self.name)
                backend.remove_remote(self.name)
            for disk in backend.disks_holding(self.name):
                backend.detach_device(disk, self.name)
                backend.delete(disk, self.name)
        self.volume.destroy()

    @property
    def volume(self):
        return store.fresh(self.volume_id)

    @property
    def phase(self):
        found = store.read(self.volume_id)
        return found and found.phase

    @property
    def target_name(self):
        return f'iqn.2010-10.org.openstack:{self.name}'

    def link(self, host):
        return self.drivers[host].backend.link_path(self.name)

    def held(self, host):
        """Return the disks of a host with the vdisk."""
        return self.drivers[host].backend.disks_holding(self.name)

    # what Nova and Cinder do

    def is_on(self, host, task=None, status='ACTIVE'):
        self.server = dataclasses.replace(
            self.server, host=host, task=task, status=status
        )

    def claim(self, *hosts):
        self.placement.claims = {self.disks[host]: 1 for host in hosts}

    def attach(self, host, **connector):
        """Attach the volume to a host, and return the attachment."""
        connector = {'host': host, 'initiator': initiator(host)} | connector
        attachment = objects.VolumeAttachment(
            self.context,
            volume_id=self.volume_id,
            instance_uuid=self.server.uuid,
            attach_status='reserved',
        )
        attachment.create()
        volume = self.volume
        try:
            connection = connect(
                self._driver(volume),
                self.context,
                volume,
                connector,
            )
        except Exception:
            # so does Nova
            attachment.destroy()
            raise
        attachment.connector = connector
        attachment.connection_info = {
            'driver_volume_type': connection['driver_volume_type'],
            **connection['data'],
        }
        attachment.attach_status = 'attached'
        attachment.attached_host = host
        attachment.save()
        volume = self.volume
        volume.status, volume.attach_status = 'in-use', 'attached'
        volume.save()
        self.assertEqual('local', connection['driver_volume_type'])
        self.assertEqual(self.link(host), connection['data']['device_path'])
        return attachment

    def detach(self, attachment):
        """Delete an attachment."""
        volume = self.volume
        one = self._driver(volume)
        stays = one.terminate_connection(
            volume, attachment.connector, force=False
        )
        if not stays:
            one.remove_export(self.context, volume)
        attachment.destroy()

    def delete(self):
        """Delete the volume, which is attached to nothing."""
        volume = self.volume
        volume.status = 'deleting'
        self._driver(volume).delete_volume(volume)

    def begin(self, **connector):
        """Do as Nova before a live migration; returns the attachment."""
        self.claim(TARGET)
        self.is_on(SOURCE, 'migrating')
        return self.attach(TARGET, **connector)

    def rollback(self):
        """Do as Nova when the server stays where it is."""
        self.claim(SOURCE)
        self.is_on(SOURCE)

    def write(self, host):
        """Have the server of a host write and verify."""
        self.writer = Writer(
            self.link(host), os.path.join(self.path, 'written')
        )
        self.addCleanup(self.writer.process.kill)
        self.writer.wait()
        return self.writer

    # what there is

    def assertNothingBetween(self):
        """There are no targets, sessions, and links to them."""
        self.assertIsNone(self.phase)
        volume = self.volume
        self.assertEqual(
            (volume.provider_location, None),
            (volume.provider_id, volume.provider_auth),
        )
        for found in (
            iscsi.targets(),
            iscsi.backstores(),
            iscsi.sessions(),
            iscsi.nodes(),
            self.drivers[TARGET].backend.remotes(),
        ):
            self.assertEqual([], found)

    def assertIsOn(self, host):
        """One host has the volume, and the other one nothing of it."""
        self.assertNothingBetween()
        self.assertEqual(f'{host}@vdisk#vdisk', self.volume.host)
        self.assertEqual(self.disks[host], self.volume.provider_location)
        self.assertEqual([self.disks[host]], self.held(host))
        (other,) = {*HOSTS} - {host}
        self.assertEqual([], self.held(other))
        self.assertFalse(os.path.lexists(self.link(other)))

    def assertAttachedThere(self):
        """The target uses the vdisk of the source, and nobody else can."""
        self.assertEqual([self.target_name], iscsi.targets())
        self.assertEqual(
            [initiator(TARGET)], iscsi.initiators(self.target_name)
        )
        self.assertEqual([self.target_name], iscsi.sessions())
        self.assertEqual('source@vdisk#vdisk', self.volume.host)
        self.assertEqual([self.disks[TARGET]], self.held(TARGET))
