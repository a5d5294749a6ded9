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

"""Two hosts with disks in plain directories, and iSCSI between them.

Cinder's own target driver for LIO runs; its command, the kernel, and os-brick
are stand-ins, which check secret and initiator as the kernel does. A device
of a session is a link to the exported file.
"""

import contextlib
import logging
import os
import uuid

import fixtures
from cinder.volume import configuration
from cinder.volume import driver
from os_brick import exception as brick_exc

from cinder_vdisk_mapper import conf
from cinder_vdisk_mapper.backend import base as backend_base
from nova_diskplacer.disks import links
from nova_diskplacer.disks.vdisk import GIB
from tests.fakes import disks as fake_disks
from tests.functional.cinder import base
from tests.unit.cinder_vdisk_mapper import fakes

LOG = logging.getLogger(__name__)

#: address of the storage network by host
ADDRESSES = {'host1': '192.0.2.1', 'host2': '192.0.2.2'}


def initiator(host):
    """Return the initiator of a host."""
    return f'iqn.1993-08.org.debian:01:{host}'


class Backend(fakes.Backend):
    """Vdisks are sparse files, links are links; ``network`` has the rest."""

    connection_type = 'local'
    linked_disk = backend_base.Backend.linked_disk
    links = backend_base.Backend.links
    link = backend_base.Backend.link
    unlink = backend_base.Backend.unlink

    def __init__(self, root, network, *disks):
        super().__init__(*disks)
        self.disk_root = root
        self.network = network
        for disk in disks:
            os.makedirs(f'{root}/{disk.uuid}/vdisks')

    def _run(self, operation, *arguments):
        if operation == 'admit':
            return self.network.admit(*arguments)
        if operation == 'link':
            disk, name, _ = arguments
            return links.link(self.disk_root, disk, name)
        return getattr(links, operation)(self.disk_root, *arguments)

    def device_path(self, disk, name):
        return links.vdisk_path(self.disk_root, disk, name)

    def create(self, disk, name, volume_id, server_id, size_gb):
        super().create(disk, name, volume_id, server_id, size_gb)
        with open(self.device_path(disk, name), 'ab') as stream:
            stream.truncate(size_gb * GIB)

    def delete(self, disk, name):
        super().delete(disk, name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.device_path(disk, name))

    def copy_remote(self, disk, name, start):
        with (
            open(links.remote_device(self.disk_root, name), 'rb') as source,
            open(self.device_path(disk, name), 'r+b') as copy,
        ):
            copy.write(source.read(1 << 20))

    def condemn(self, disk, name):
        if self.in_use(disk, name):
            raise backend_base.exception.DiskError(f'{name} is in use')

    def written(self, disk, name):
        return bool(os.stat(self.device_path(disk, name)).st_blocks)


class Network(fixtures.Fixture):
    """LIO of both hosts, and sessions with it.

    ``targets`` has the device and the initiators, with their secrets, by the
    name of the target; ``sessions`` the names of targets. ``commands`` are
    the arguments of all commands. ``broken`` commands fail.
    """

    def _setUp(self):
        self.targets = {}
        self.sessions = set()
        self.commands = []
        self.broken = set()
        self.devices = self.useFixture(fixtures.TempDir()).path
        for name, value in (
            ('nova_diskplacer.disks.links._BY_PATH', self.devices),
            ('cinder.utils.execute', self.execute),
            (
                'cinder.volume.volume_utils.brick_get_connector',
                lambda *args, **kwargs: self,
            ),
            # they read sysfs, which has no files
            ('nova_diskplacer.disks.remote.size_bytes', os.path.getsize),
            (
                'nova_diskplacer.disks.remote.writes',
                lambda path: str(os.stat(path).st_mtime_ns),
            ),
            ('nova_diskplacer.disks.remote.in_use', lambda path: False),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))

    # the source

    def execute(self, *command, **kwargs):
        """Do as cinder-rtstool; logs as Cinder does."""
        LOG.debug('Running cmd (subprocess): %s', ' '.join(map(str, command)))
        self.commands.append(command)
        _, operation, *arguments = command
        if operation in self.broken:
            raise OSError(f'{operation} is broken')
        if operation == 'create':
            device, iqn, *_ = arguments
            self.targets.setdefault(iqn, (device, {}))
        elif operation == 'delete':
            self.targets.pop(arguments[0], None)
        return ('\n'.join(self.targets), '')

    def admit(self, iqn, initiator, user, secret):
        """Do as the kernel."""
        _, admitted = self.targets[iqn]
        admitted.clear()
        admitted[initiator] = user, secret

    # the destination

    def connect_volume(self, properties):
        """Do as os-brick."""
        portal, iqn = properties['target_portal'], properties['target_iqn']
        (host,) = (
            host
            for host, address in ADDRESSES.items()
            if not portal.startswith(f'{address}:')
        )
        device, admitted = self.targets.get(iqn, (None, {}))
        secret = properties['auth_username'], properties['auth_password']
        if admitted.get(initiator(host)) != secret:
            raise brick_exc.VolumeDeviceNotFound(device=iqn)
        path = links.device_of(portal, iqn, properties['target_lun'])
        with contextlib.suppress(FileExistsError):
            os.symlink(device, path)
        self.sessions.add(iqn)
        return {'path': os.path.realpath(path), 'type': 'block'}

    def disconnect_volume(self, properties, device_info, force=False):
        """Do as os-brick, for which a missing session is no error."""
        iqn = properties['target_iqn']
        path = links.device_of(properties['target_portal'], iqn, 0)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self.sessions.discard(iqn)

    def lose_power(self, host):
        """Forget what the kernel of a host has."""
        for iqn, (device, _) in list(self.targets.items()):
            if f'/{host}/' in device:
                del self.targets[iqn]
        for name in os.listdir(self.devices):
            if f'ip-{ADDRESSES[host]}:' not in name:
                os.unlink(f'{self.devices}/{name}')
                self.sessions.clear()


class Host(base.Host):
    """A compute node whose disks are directories."""

    backend = None

    def disks(self):
        return {disk.uuid: disk for disk in self.backend.disks()}


class ServerMovesTestCase(base.CinderTestCase):
    """Two hosts of two disks of 4 GiB."""

    def setUp(self):
        self.network = self.useFixture(Network())
        self.backends = {}
        self.useFixture(
            fixtures.MonkeyPatch(
                'cinder_vdisk_mapper.backend.base.load', self._load
            )
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.agent.placement_sync._inspect_again',
                self._inspect,
            )
        )
        super().setUp()

    def _inspect(self, disk):
        """Return a disk as it is now."""
        for backend in self.backends.values():
            if disk.uuid in backend.known:
                return backend.disk(disk.uuid)
        return disk

    def _load(self, options):
        backend = self.backends[options.vdisk_disk_root]
        backend.configuration = options
        return backend

    def _get_flags(self):
        flags = super()._get_flags()
        shared = configuration.SHARED_CONF_GROUP
        flags['target_helper'] = {'v': 'lioadm', 'g': shared}
        return flags

    def _start_host(self, name):
        directory = self.useFixture(fixtures.TempDir()).path
        root = os.path.join(directory, name, 'disks')
        self.placement._call(
            'post',
            '/resource_providers',
            {'name': name, 'uuid': str(uuid.uuid4())},
        )
        host = Host(name, root, self.placement)
        host.backend = self.backends[root] = Backend(
            root,
            self.network,
            *(fake_disks.make_disk(str(uuid.uuid4()), 4) for _ in range(2)),
        )
        host.publish()
        self.hosts[name] = host
        configuration.Configuration(
            [*conf.OPTS, *driver.volume_opts], config_group=name
        )
        self.override_config('vdisk_disk_root', root, name)
        self.override_config('target_ip_address', ADDRESSES[name], name)
        return self.restart(name)
