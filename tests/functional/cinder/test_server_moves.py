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

"""Volumes whose server goes to another host, through Cinder's API."""

import contextlib
import logging
import os
import uuid
from unittest import mock

import fixtures
from cinder import exception as cinder_exc
from cinder import objects
from cinder.tests.functional.api import client
from oslo_log import _options as log_options

from cinder_vdisk_mapper.cinder_api import releases
from cinder_vdisk_mapper.server_moves import other_host
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import remote
from cinder_vdisk_mapper.server_moves import settle_move
from cinder_vdisk_mapper.server_moves import store
from nova_diskplacer import exception
from nova_diskplacer.disks import move_records
from tests.functional.cinder import moves_base

HERE, THERE = 'host1@vdisk#vdisk', 'host2@vdisk#vdisk'


class Killed(Exception):
    """The process ends here."""


class MoveTestCase(moves_base.ServerMovesTestCase):
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
            'initiator': moves_base.initiator(host),
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

    def restart_host(self, index):
        """Start the cinder-volume of a host that was killed."""
        self.volume[index].stop()
        self.volume[index] = self.restart(('host1', 'host2')[index])

    @property
    def destination(self):
        return self.driver(1)._connections.moves.destination

    def settle(self):
        """Do as the mover of the destination does."""
        guests = mock.Mock(rate=0)
        guests.find.return_value = None
        settle_move.settle(
            settle_move.SettleMove(
                self.destination,
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
        self.assertEqual([moves_base.initiator('host2')], [*admitted])
        self.assertEqual({target}, self.network.sessions)
        self.assertEqual(self.path, os.path.realpath(self.link_there))


class LiveMigrationTestCase(MoveTestCase):
    def test_migrated(self):
        second = self.begin_live()
        self.assertEqual(record.ATTACHED, self.phase)
        self.assertEqual('local', self.info['driver_volume_type'])
        self.assertEqual(self.link_there, self.info['device_path'])
        self.assertEqual(
            {
                'disk': self.target,
                'host': 'host2',
                'moving_from': 'host1',
            },
            self.info['vdisk'],
        )
        self.assertAttachedThere()
        self.assertEqual(0, self.here.reserved()[self.source])
        # the server is there now
        self.is_on('host2')
        self.delete_attachment(self.first)
        self.assertEqual(record.LEFT, self.phase)
        self.assertAttachedThere()
        self.placement._call('delete', f'/allocations/{self.migration}')
        self.here.publish()
        self.assertEqual(1, self.here.reserved()[self.source])
        with open(self.link_there, 'r+b') as stream:
            stream.write(b'two')
        self.assertEqual(b'two', self.content(self.path))
        # it is detached there before its data is
        self.delete_attachment(second)
        self.assertAtRest(b'two')

    def test_aborted(self):
        second = self.begin_live()
        self.delete_attachment(second)
        self.claim_back()
        self.is_on('host1')
        self.assertAtRest()
        # and again
        self.delete_attachment(self.migrate())
        self.assertAtRest()

    def test_back_before_it_has_settled(self):
        second = self.migrate()
        self.is_on('host2', 'migrating')
        self.attach_too('host1')
        self.assertEqual(self.path, os.path.realpath(self.info['device_path']))
        self.assertEqual(record.ATTACHED, self.phase)
        self.is_on('host1')
        self.delete_attachment(second)
        self.claim_back()
        self.assertAtRest()

    def test_secrets_and_logs(self):
        log = self.useFixture(fixtures.FakeLogger(level=logging.DEBUG))
        # what debug=True logs: oslo.policy would log whole volumes
        for one in log_options.DEFAULT_LOG_LEVELS:
            name, _, level = one.partition('=')
            logger = logging.getLogger(name)
            self.addCleanup(logger.setLevel, logger.level)
            logger.setLevel(level)
        second = self.begin_live()
        _, user, secret = self.row.provider_auth.split()
        self.assertTrue(len(secret) >= 16)
        self.delete_attachment(second)
        self.assertIn('cinder-rtstool create', log.output)
        self.assertNotIn(secret, log.output)
        arguments = [
            one for command in self.network.commands for one in command
        ]
        self.assertNotIn(secret, arguments)
        self.assertIn('-a192.0.2.1', arguments)
        self.assertNotIn(secret, str(self.info))
        # each export has its own
        self.claim_back()
        self.begin_live()
        self.assertNotIn(secret, self.row.provider_auth)
        self.assertNotIn(user, self.row.provider_auth)


class RefusalTestCase(MoveTestCase):
    def refuse(self, reason, **connector):
        """Try to attach on host2, which leaves nothing."""
        self.assertRaises(
            client.OpenStackApiException,
            self.attach_too,
            'host2',
            **connector,
        )
        self.assertIn(reason, self.log.output)
        # Nova deletes what it has not got a connection of
        (second,) = set(self.attachments()) - {self.first}
        self.delete_attachment(second)
        self.assertAtRest()
        # nothing has listened
        commands = [command[1] for command in self.network.commands]
        self.assertNotIn('create', commands)

    def assertTold(self):
        """The owner of the volume finds a message."""
        (message,) = self.api.api_get('/messages')['messages']
        self.assertEqual(
            ('attach volume:Failed to attach volume.', self.volume_['id']),
            (message['user_message'], message['resource_uuid']),
        )

    def test_a_server_at_rest(self):
        """A tenant can name any host, and any initiator, to Cinder."""
        self.refuse("no server on host 'host2' attaches it")
        self.is_on('host1', 'migrating')
        self.refuse("no server on host 'host2' attaches it")

    def test_no_initiator(self):
        self.claim_there()
        self.is_on('host2')
        self.refuse('has no iSCSI initiator', initiator='')
        self.assertTold()

    def test_a_drain(self):
        move_records.write(
            self.here.root,
            self.name,
            move_records.Record(self.source, max(self.here.disks())),
        )
        self.claim_there()
        self.is_on('host1', 'migrating')
        self.refuse('it is being moved to another disk')
        self.assertTold()

    def test_a_snapshot(self):
        objects.Snapshot(
            self.context,
            volume_id=self.volume_['id'],
            volume_size=1,
            status='available',
        ).create()
        self.claim_there()
        self.is_on('host2')
        self.refuse('it has snapshots')
        self.assertTold()

    def test_down(self):
        self.claim_there()
        self.is_on('host2')
        service = objects.Service.get_by_args(
            self.context, 'host2@vdisk', 'cinder-volume'
        )
        service.disabled = True
        service.save()
        self.refuse('is down or disabled')
        self.assertTold()


class ColdMigrationTestCase(MoveTestCase):
    def resize(self):
        """Do as Nova; returns the attachment at host2."""
        self.claim_there()
        empty = self.reserve(self.volume_, self.server_id)
        self.delete_attachment(self.first)
        self.assertIsNone(self.phase)
        self.is_on('host2', 'resize_finish')
        self.info = self.connect(empty, 'host2')
        self.complete(empty)
        return empty

    def test_reverted(self):
        second = self.resize()
        self.assertEqual(record.ATTACHED, self.phase)
        self.assertAttachedThere()
        back = self.reserve(self.volume_, self.server_id)
        self.delete_attachment(second)
        self.assertAtRest()
        self.is_on('host1')
        self.claim_back()
        self.assertEqual(
            self.path, os.path.realpath(self.connect(back)['device_path'])
        )
        self.assertAtRest()

    def test_confirmed(self):
        """The source is left only when Nova takes nothing back any more."""
        self.resize()
        self.is_on('host2')
        server = self.nova.servers[self.server_id]
        server['status'] = 'VERIFY_RESIZE'
        self.assertRaises(settle_move.Waits, self.settle)
        self.assertEqual(record.ATTACHED, self.phase)
        server['status'] = 'ACTIVE'
        self.placement._call('delete', f'/allocations/{self.migration}')
        # the source does not answer
        with mock.patch.object(other_host, 'go_on', return_value=False):
            self.assertRaises(settle_move.Waits, self.settle)
        self.assertEqual(record.ATTACHED, self.phase)
        with (
            self.killed(1, self.there.backend, 'copy_remote', False),
            contextlib.suppress(Killed),
        ):
            self.settle()
        self.assertEqual(record.LEFT, self.phase)
        self.assertEqual(1, self.here.reserved()[self.source])
        self.assertAttachedThere()
        self.settle()
        self.assertIsNone(self.phase)
        self.assertEqual(THERE, self.row.host)
        self.assertEqual(b'one', self.content(self.link_there))
        self.assertEqual({}, self.held(self.here))

    def test_nobody_there_takes_it(self):
        """The destination has no room, and Nova goes back."""
        self.claim_there()
        self.is_on('host2', 'resize_finish')
        empty = self.reserve(self.volume_, self.server_id)
        self.delete_attachment(self.first)
        self.there.backend.full = set(self.there.disks())
        self.assertRaises(
            client.OpenStackApiException, self.connect, empty, 'host2'
        )
        self.assertIsNone(self.phase)
        self.assertEqual({}, self.network.targets)
        self.assertEqual({}, self.held(self.there))


class KilledTestCase(MoveTestCase):
    """One of both hosts is killed at any act, and goes on when it starts."""

    def steps(self):
        """Return the acts of an attachment: host, and what is called."""
        here, there = self.here.backend, self.there.backend
        exporter = self.driver(0)._connections.exporter
        return (
            (0, store, 'begin'),
            (0, exporter, 'create_for_move'),
            (0, here, 'admit'),
            (0, other_host, 'connect'),
            (0, store, 'advance'),
            (1, there, 'create'),
            (1, there, 'add_remote'),
            (1, self.network, 'connect_volume'),
            (1, there, 'link_remote'),
        )

    def test_while_it_is_attached(self):
        self.claim_there()
        self.is_on('host1', 'migrating')
        for number in range(len(self.steps())):
            for done in (False, True):
                index, target, name = self.steps()[number]
                with self.killed(index, target, name, done):
                    self.assertRaises(
                        client.OpenStackApiException, self.attach_too, 'host2'
                    )
                # as Nova rolls back
                (second,) = set(self.attachments()) - {self.first}
                self.delete_attachment(second)
                self.restart_host(index)
                self.assertAtRest()

    def test_while_it_is_detached(self):
        """The attachment stays, and Nova, or an operator, repeats it."""
        there = self.there.backend
        steps = (
            (0, lambda: store, 'advance'),
            (0, lambda: other_host, 'go_on'),
            (0, lambda: self.driver(0)._connections.exporter, 'remove'),
            (0, lambda: store, 'forget'),
            (1, lambda: there, 'unlink'),
            (1, lambda: self.network, 'disconnect_volume'),
            (1, lambda: there, 'remove_remote'),
            (1, lambda: there, 'delete'),
        )
        for index, target, name in steps:
            for done in (False, True):
                second = self.begin_live()
                with (
                    self.killed(index, target(), name, done),
                    contextlib.suppress(client.OpenStackApiException),
                ):
                    self.delete_attachment(second)
                self.restart_host(index)
                if second in self.attachments():
                    self.delete_attachment(second)
                self.claim_back()
                self.assertAtRest()

    def test_hosts_lose_power(self):
        """Each comes back as it was, with the same secret."""
        second = self.migrate()
        secret = self.row.provider_auth
        for _ in range(2):
            for host, index in (('host1', 0), ('host2', 1)):
                self.network.lose_power(host)
                self.restart_host(index)
                # of host1, iscsid logs in again
                self.assertAttachedThere()
                ((_, admitted),) = self.network.targets.values()
                self.assertEqual(
                    [tuple(secret.split()[1:])], [*admitted.values()]
                )
        self.assertEqual(secret, self.row.provider_auth)
        self.assertEqual(record.LEFT, self.phase)
        self.delete_attachment(second)
        self.assertAtRest()

    def test_the_destination_is_away_for_long(self):
        """The volume is whole on the source, and goes nowhere else."""
        second = self.begin_live()
        self.set_state(1, 'down')
        self.delete_attachment(second)
        self.claim_back()
        self.assertEqual(record.ABORTING, self.phase)
        self.assertEqual({}, self.network.targets)
        # its server has it
        self.delete_attachment(self.first)
        self.is_on('host1')
        self.first = self.reserve(self.volume_, self.server_id)
        self.connect(self.first)
        self.assertEqual(b'one', self.content(self.path))
        self.complete(self.first)
        self.claim_there()
        self.is_on('host1', 'migrating')
        self.assertRaises(
            client.OpenStackApiException, self.attach_too, 'host2'
        )
        self.assertIn('its last move has not ended', self.log.output)
        (third,) = set(self.attachments()) - {self.first}
        self.delete_attachment(third)
        self.claim_back()
        self.set_state(1, 'up')
        self.restart_host(1)
        self.assertAtRest()

    def set_state(self, index, state):
        """Have a host be up or down, as Cinder sees it."""
        is_up = objects.Service.is_up.fget
        host = f'host{index + 1}@vdisk'
        self.useFixture(
            fixtures.MonkeyPatch(
                'cinder.objects.Service.is_up',
                property(
                    lambda service: (
                        is_up(service)
                        and (state == 'up' or service.host != host)
                    )
                ),
            )
        )


class SettledTestCase(MoveTestCase):
    """The data follows a server that is shut off."""

    def setUp(self):
        super().setUp()
        self.second = self.migrate()
        with open(self.link_there, 'r+b') as stream:
            stream.write(b'two')

    def assertSettled(self):
        self.assertIsNone(self.phase)
        row = self.row
        self.assertEqual(THERE, row.host)
        service = objects.Service.get_by_args(
            self.context, 'host2@vdisk', 'cinder-volume'
        )
        self.assertEqual(service.uuid, row.service_uuid)
        self.assertEqual(
            (self.target, self.target, None),
            (row.provider_location, row.provider_id, row.provider_auth),
        )
        self.assertEqual({}, self.network.targets)
        self.assertEqual(set(), self.network.sessions)
        self.assertEqual([], os.listdir(self.network.devices))
        self.assertEqual([], self.there.backend.remotes())
        self.assertEqual({}, self.held(self.here))
        self.assertEqual({}, self.here.backend.links())
        self.assertEqual({self.target: self.server_id}, self.held(self.there))
        self.assertEqual(b'two', self.content(self.link_there))
        self.assertEqual(0, sum(self.here.reserved().values()))
        self.assertEqual(0, sum(self.there.reserved().values()))

    def test_settled(self):
        self.settle()
        self.assertSettled()
        # it is a volume like any other, there
        self.delete_attachment(self.second)
        self.wait(self.volume_['id'], 'available')
        _, path = self.attach(self.volume_, self.server_id, 'host2')
        self.assertEqual(b'two', self.content(path))
        self.assertSettled()

    def test_killed_before_it_is_decided(self):
        for target, name, done in (
            (store, 'advance', False),
            (store, 'advance', True),
            (self.there.backend, 'link', False),
        ):
            with self.killed(1, target, name, done):
                self.assertRaises(Killed, self.settle)
            self.restart_host(1)
            self.assertEqual(record.LEFT, self.phase)
            self.assertAttachedThere()
            self.assertEqual(b'two', self.content(self.path))
        self.settle()
        self.assertSettled()

    def test_killed_when_it_is_decided(self):
        """The mover goes on; cinder-volume starts meanwhile."""
        for target, name, done in (
            (lambda: self.there.backend, 'link', True),
            (lambda: self.destination, 'save', False),
            (lambda: self.destination, 'save', True),
            (lambda: remote, 'log_out', False),
            (lambda: remote, 'log_out', True),
        ):
            with self.killed(1, target(), name, done):
                self.assertRaises(Killed, self.settle)
            self.assertEqual(b'two', self.content(self.link_there))
            if name == 'link':
                self.restart_host(0)
                self.restart_host(1)
        # the last of them has left nothing to settle
        self.restart_host(1)
        self.assertSettled()

    def test_killed_when_all_is_released(self):
        with self.killed(1, store, 'forget', False):
            self.assertRaises(Killed, self.settle)
        self.restart_host(1)
        self.assertSettled()

    def test_source_killed(self):
        exporter = self.driver(0)._connections.exporter
        for target, name, done in (
            (exporter, 'stop', False),
            (self.here.backend, 'delete', False),
            (self.here.backend, 'delete', True),
        ):
            with self.killed(0, target, name, done):
                self.settle()
            self.assertEqual(record.RELEASING, self.phase)
            self.assertEqual(b'two', self.content(self.link_there))
        self.restart_host(0)
        # the last kill came before Placement was told
        self.here.publish()
        self.assertSettled()

    def test_source_is_away(self):
        """A server is detached there, and a volume not deleted, meanwhile."""
        exporter = self.driver(0)._connections.exporter
        with self.killed(0, exporter, 'stop', False):
            self.settle()
            self.assertEqual(record.RELEASING, self.phase)
            self.delete_attachment(self.second)
            self.assertEqual(THERE, self.row.host)
            self.api.delete_volume(self.volume_['id'])
            self.wait(self.volume_['id'], 'error_deleting')
            self.assertEqual(record.RELEASING, self.phase)
        self.restart_host(0)
        self.assertIsNone(self.phase)
        self.assertEqual({}, self.held(self.here))
        self.assertEqual({}, self.network.targets)

    def test_it_is_not_changed_before_it_has_settled(self):
        for call in (
            lambda: self.driver(0).extend_volume(self.row, 2),
            lambda: self.driver(0).create_snapshot(
                mock.Mock(volume=self.row, id='id')
            ),
            lambda: self.driver(0).delete_volume(self.row),
        ):
            self.assertRaises(cinder_exc.VolumeDriverException, call)
        self.assertAttachedThere()

    def test_a_source_is_not_deleted_that_is_the_volume(self):
        found = store.read(self.volume_['id'])
        source = self.driver(0)._connections.moves.source
        self.assertRaises(exception.DiskError, source.release, self.row, found)
        self.settle()
        self.assertSettled()


class OrderTestCase(MoveTestCase):
    """Calls that are repeated, late, or of two who work at once."""

    @property
    def moves(self):
        return [self.driver(index)._connections.moves for index in (0, 1)]

    def test_repeated(self):
        """Cinder's API may have given up on the first call."""
        second = self.begin_live()
        secret = self.row.provider_auth
        third = self.attach_too('host2')
        self.assertEqual(record.ATTACHED, self.phase)
        self.assertEqual(secret, self.row.provider_auth)
        self.assertAttachedThere()
        # one of both goes; the volume is the source's
        for attachment in (second, third):
            self.delete_attachment(attachment)
        self.assertAtRest()

    def test_a_late_answer(self):
        """The destination is asked to attach what was aborted meanwhile."""
        self.claim_there()
        self.is_on('host1', 'migrating')
        connector = self.connector('host2')
        asked = []

        def later(volume, to, connector):
            asked.append((other_host._at(volume, to), connector))
            raise exception.DiskPlacerError('no answer')

        with mock.patch.object(other_host, 'connect', later):
            self.assertRaises(
                client.OpenStackApiException, self.attach_too, 'host2'
            )
        (second,) = set(self.attachments()) - {self.first}
        ((volume, connector),) = asked
        for call in ('create_export', 'initialize_connection'):
            arguments = [volume, connector]
            if call == 'create_export':
                arguments.insert(0, self.context)
            self.assertRaises(
                cinder_exc.VolumeDriverException,
                getattr(self.driver(1), call),
                *arguments,
            )
        self.delete_attachment(second)
        self.assertAtRest()

    def test_two_change_a_record(self):
        self.migrate()
        found = store.read(self.volume_['id'])
        store.advance(self.volume_['id'], found, record.DECIDING)
        for change in (
            lambda: store.advance(self.volume_['id'], found, record.ABORTING),
            lambda: store.forget(self.volume_['id'], found),
            lambda: store.begin(self.volume_['id'], found),
        ):
            self.assertRaises(store.Changed, change)
        self.assertEqual(record.DECIDING, self.phase)
        self.assertEqual([self.volume_['id']], store.moving_volumes())

    def test_detached_while_it_is_decided(self):
        """Only the destination knows who has the volume."""
        second = self.migrate()
        found = store.advance(
            self.volume_['id'],
            store.read(self.volume_['id']),
            record.DECIDING,
        )
        self.delete_attachment(second)
        self.assertEqual(record.DECIDING, self.phase)
        self.assertEqual(1, len(self.network.targets))
        # it has not decided: the next attachment is at the source
        self.is_on('host1')
        self.first = self.reserve(self.volume_, self.server_id)
        self.connect(self.first)
        self.assertAtRest()
        self.assertRaises(
            store.Changed, store.forget, self.volume_['id'], found
        )

    def test_a_bad_record(self):
        """Nobody guesses, and the start of others is not in its way."""
        second = self.begin_live()
        self.set_metadata(record.PHASE, 'moving')
        self.assertRaises(exception.DiskPlacerError, lambda: self.phase)
        with contextlib.suppress(client.OpenStackApiException):
            self.delete_attachment(second)
        for index in (0, 1):
            self.restart_host(index)
            self.assertTrue(self.driver(index).initialized)
        self.assertIn("vdisk_move_phase='moving'", self.log.output)
        self.assertEqual(1, len(self.network.targets))
        self.set_metadata(record.PHASE, record.ATTACHED)
        if second in self.attachments():
            self.delete_attachment(second)
        self.restart_host(0)
        self.assertAtRest()

    def set_metadata(self, key, value):
        releases.db_api.volume_admin_metadata_update(
            self.context, self.volume_['id'], {key: value}, False
        )

    def test_the_volume_is_deleted_meanwhile(self):
        """What the destination has left, its start removes."""
        second = self.begin_live()
        with mock.patch.object(other_host, 'go_on', return_value=False):
            self.delete_attachment(second)
            self.delete_attachment(self.first)
            self.delete(self.volume_)
        self.assertEqual([self.name], self.there.backend.remotes())
        self.restart_host(1)
        self.assertEqual([], self.there.backend.remotes())
        self.assertEqual(set(), self.network.sessions)
        self.assertEqual({}, self.held(self.there))
        self.assertEqual({}, self.held(self.here))
        self.assertEqual({}, self.network.targets)
