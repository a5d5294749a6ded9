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
from unittest import mock

import fixtures
from cinder import objects
from cinder.volume import configuration
from cinder.volume import driver
from os_brick import exception as brick_exc

from cinder_vdisk_mapper import conf
from cinder_vdisk_mapper.backend import base as backend_base
from cinder_vdisk_mapper.server_moves import settle_attempt
from cinder_vdisk_mapper.server_moves import settle_move
from cinder_vdisk_mapper.server_moves import store
from nova_diskplacer import exception
from nova_diskplacer.disks import links
from nova_diskplacer.disks import parking
from nova_diskplacer.disks import remote
from nova_diskplacer.disks.vdisk import GIB
from tests.fakes import disks as fake_disks
from tests.functional.cinder import base
from tests.unit.cinder_vdisk_mapper import fakes

LOG = logging.getLogger(__name__)

HERE, THERE = 'host1@vdisk#vdisk', 'host2@vdisk#vdisk'

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
        module = parking if hasattr(parking, operation) else links
        return getattr(module, operation)(self.disk_root, *arguments)

    def remote_in_use(self, name):
        device = links.remote_device(self.disk_root, name)
        return device is not None and remote.in_use(device)

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

    def writes(self, disk, name):
        return str(os.stat(self.device_path(disk, name)).st_mtime_ns)

    def condemn(self, disk, name):
        if self.in_use(disk, name):
            raise exception.DiskError(f'{name} is in use')

    def written(self, disk, name):
        return bool(os.stat(self.device_path(disk, name)).st_blocks)


class Network(fixtures.Fixture):
    """LIO of both hosts, and sessions with it.

    ``targets`` has the device and the initiators, with their secrets, by the
    name of the target; ``sessions`` the names of targets. ``commands`` are
    the arguments of all commands. ``broken`` commands fail. ``open`` are the
    files that a QEMU of the destination has open.
    """

    def _setUp(self):
        self.targets = {}
        self.sessions = set()
        self.commands = []
        self.broken = set()
        self.open = set()
        self.devices = self.useFixture(fixtures.TempDir()).path
        for name, value in (
            ('nova_diskplacer.disks.links._BY_PATH', self.devices),
            ('cinder.utils.execute', self.execute),
            (
                'nova_diskplacer.host.lio.is_whole',
                lambda iqn: iqn in self.targets,
            ),
            (
                'cinder.volume.volume_utils.brick_get_connector',
                lambda *args, **kwargs: self,
            ),
            # they read sysfs, which has no files
            ('nova_diskplacer.disks.remote.size_bytes', self.size_bytes),
            (
                'nova_diskplacer.disks.remote.writes',
                lambda path: f'1/sda/{os.stat(path).st_mtime_ns}',
            ),
            (
                'nova_diskplacer.disks.remote.in_use',
                lambda path: os.path.realpath(path) in self.open,
            ),
            # nobody ends meanwhile
            ('cinder_vdisk_mapper.server_moves.destination._PATIENCE', 0.0),
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

    def size_bytes(self, path):
        if not os.path.exists(path):
            raise remote.Away(f'{path} is gone')
        return os.path.getsize(path)

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

    def _inspect(self, disk, is_new):
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


class Killed(Exception):
    """The process ends here."""


class MoveTestCase(ServerMovesTestCase):
    """A server on host1 with a volume of 1 GiB, which has content."""

    def setUp(self):
        super().setUp()
        self.here, self.there = self.hosts['host1'], self.hosts['host2']
        self.source = min(self.here.disks())
        self.target = min(self.there.disks())
        self.server_id = self.server(
            'host1', {self.source: 1}, vdisks=1, vdisk_gb=1
        )
        self.volume_ = self.create(1)
        self.name = f'volume-{self.volume_["id"]}'
        self.first, self.path = self.attach(self.volume_, self.server_id)
        self.assertEqual(self.source, self.row.provider_location)
        with open(self.path, 'r+b') as stream:
            stream.write(b'one')
        self.migration = str(uuid.uuid4())
        self.states = {}

    @property
    def row(self):
        return objects.Volume.get_by_id(self.context, self.volume_['id'])

    @property
    def phase(self):
        found = store.read(self.volume_['id'])
        return found and found.phase

    # Nova

    def claim_there(self):
        """Move the claim to the migration, and claim disks of host2."""
        self.placement._call('delete', f'/allocations/{self.server_id}')
        self.claim(self.migration, {self.source: 1})
        self.claim(self.server_id, {self.target: 1})

    def claim_back(self):
        self.placement._call('delete', f'/allocations/{self.server_id}')
        with contextlib.suppress(exception.PlacementError):
            self.placement._call('delete', f'/allocations/{self.migration}')
        self.claim(self.server_id, {self.source: 1})

    def is_on(self, host, task=None):
        self.nova.servers[self.server_id] |= {
            'OS-EXT-SRV-ATTR:host': host,
            'OS-EXT-STS:task_state': task,
        }

    def connect(self, attachment_id, host='host1', **connector):
        """Have the one attachment of the volume be of a host."""
        body = {'attachment': {'connector': self.connector(host, **connector)}}
        return self.api.api_put(f'/attachments/{attachment_id}', body)[
            'attachment'
        ]['connection_info']

    def attach_too(self, host, **connector):
        """Attach on a second host; returns the attachment's ID.

        ``info`` is the connection.
        """
        body = {
            'attachment': {
                'volume_uuid': self.volume_['id'],
                'instance_uuid': self.server_id,
                'connector': self.connector(host, **connector),
            }
        }
        made = self.api.api_post('/attachments', body)['attachment']
        self.info = made['connection_info']
        self.complete(made['id'])
        return made['id']

    def connector(self, host, **fields):
        return {
            'host': host,
            'initiator': initiator(host),
            **fields,
        }

    def complete(self, attachment_id):
        self.api.api_post(
            f'/attachments/{attachment_id}/action',
            {'os-complete': {}},
            check_response_status=[204],
        )

    def attachments(self):
        return [one.id for one in self.row.volume_attachment]

    def delete_attachment(self, attachment_id):
        self.api.api_delete(f'/attachments/{attachment_id}')

    def begin_live(self):
        """Do as Nova before a live migration; returns the attachment."""
        self.claim_there()
        self.is_on('host1', 'migrating')
        return self.attach_too('host2')

    def migrate(self):
        """Migrate live; returns the attachment at host2."""
        second = self.begin_live()
        self.is_on('host2')
        self.delete_attachment(self.first)
        self.placement._call('delete', f'/allocations/{self.migration}')
        return second

    # the hosts

    def content(self, path):
        with open(path, 'rb') as stream:
            return stream.read(3)

    @property
    def link_there(self):
        return f'{self.there.root}/by-volume/{self.name}'

    def held(self, host):
        return {
            uuid: vdisk.server_id
            for uuid, disk in host.disks().items()
            for vdisk in disk.vdisks
        }

    def driver(self, index):
        return self.volume[index].manager.driver

    def kill(self, index):
        """End the cinder-volume of a host."""
        self.volume[index].stop()

    def restart_host(self, index):
        """Start the cinder-volume of a host that was killed."""
        self.kill(index)
        self.volume[index] = self.restart(('host1', 'host2')[index])

    def lose(self, index):
        """Do as an operator whose host is lost for good."""
        self.kill(index)
        objects.Service.get_by_args(
            self.context, f'host{index + 1}@vdisk', 'cinder-volume'
        ).destroy()

    @property
    def destination_there(self):
        return self.driver(1)._connections.moves.destination

    def settle(self):
        """Do as the mover of the destination does."""
        guests = mock.Mock(rate=0)
        guests.find.return_value = None
        settle_attempt.settle(
            settle_move.SettleMove(
                self.destination_there,
                guests,
                self.volume_['id'],
                self.name,
                self.server_id,
                self.target,
                report=lambda done, total: None,
                stopped=lambda: False,
            )
        )

    @contextlib.contextmanager
    def killed(self, index, target, name, done):
        """Have the cinder-volume of a host end at a call.

        :param done: whether it ends after the call, not before.
        """
        call = getattr(target, name)
        ended = []

        def end(*args, **kwargs):
            if done:
                call(*args, **kwargs)
            ended.append(True)
            raise Killed

        def dead(method):
            def answer(*args, **kwargs):
                if ended:
                    raise Killed
                return method(*args, **kwargs)

            return answer

        driver = self.driver(index)
        with contextlib.ExitStack() as stack:
            for one in (
                'create_export',
                'remove_export',
                'initialize_connection',
                'terminate_connection',
            ):
                stack.enter_context(
                    mock.patch.object(driver, one, dead(getattr(driver, one)))
                )
            stack.enter_context(mock.patch.object(target, name, end))
            yield
        self.assertNotEqual([], ended, f'{name} is not called')

    def assertAtRest(self, content=b'one'):
        """The volume is on host1, and nothing else is anywhere."""
        self.assertIsNone(self.phase)
        row = self.row
        self.assertEqual(HERE, row.host)
        self.assertEqual(
            (self.source, self.source, None),
            (row.provider_location, row.provider_id, row.provider_auth),
        )
        self.assertEqual({}, self.network.targets)
        self.assertEqual(set(), self.network.sessions)
        self.assertEqual([], os.listdir(self.network.devices))
        self.assertEqual({}, self.held(self.there))
        self.assertFalse(os.path.lexists(self.link_there))
        self.assertEqual([], self.there.backend.remotes())
        self.assertEqual({self.source: self.server_id}, self.held(self.here))
        self.assertEqual(content, self.content(self.path))
        self.assertEqual(0, sum(self.there.reserved().values()))

    def assertAttachedThere(self):
        self.assertEqual({self.target: self.server_id}, self.held(self.there))
        # the claims pay for it
        self.assertEqual(0, sum(self.there.reserved().values()))
        self.assertEqual(HERE, self.row.host)
        (target,) = self.network.targets
        device, admitted = self.network.targets[target]
        self.assertEqual(self.path, device)
        self.assertEqual([initiator('host2')], [*admitted])
        self.assertEqual({target}, self.network.sessions)
        self.assertEqual(self.path, os.path.realpath(self.link_there))

    def set_state(self, index, state):
        """Have a host be up or down, as Cinder sees it."""
        if not self.states:
            is_up = objects.Service.is_up.fget
            self.useFixture(
                fixtures.MonkeyPatch(
                    'cinder.objects.Service.is_up',
                    property(
                        lambda service: (
                            is_up(service)
                            and self.states.get(service.host) != 'down'
                        )
                    ),
                )
            )
        self.states[f'host{index + 1}@vdisk'] = state
