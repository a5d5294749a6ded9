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
import threading
from unittest import mock

import fixtures
from cinder import exception as cinder_exc
from cinder import objects
from cinder.tests.functional.api import client
from oslo_log import _options as log_options

from cinder_vdisk_mapper.cinder_api import releases
from cinder_vdisk_mapper.server_moves import at_rest
from cinder_vdisk_mapper.server_moves import end_move
from cinder_vdisk_mapper.server_moves import other_host
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import remote
from cinder_vdisk_mapper.server_moves import stale_moves
from cinder_vdisk_mapper.server_moves import store
from nova_diskplacer import exception
from nova_diskplacer.disks import move_records
from nova_diskplacer.disks import remote as remote_vdisks
from tests.functional.cinder import moves_base


class LiveMigrationTestCase(moves_base.MoveTestCase):
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

    def test_a_user_attaches_it_while_nova_does(self):
        """The other attachment finds an export that is not complete."""
        self.claim_there()
        self.is_on('host1', 'migrating')
        exporter = self.driver(0)._connections.exporter
        create, updates, others = exporter._create, [], []

        def attach():
            updates.append(
                self.driver(0).create_export(
                    self.context, self.row, self.connector('host2')
                )
            )

        def slow(*arguments):
            if not others:
                others.append(threading.Thread(target=attach))
                others[0].start()
                # as long as it takes without a lock, or longer
                others[0].join(1)
            return create(*arguments)

        with mock.patch.object(exporter, '_create', slow):
            attach()
            others[0].join()
        self.assertEqual(2, len(updates))
        self.assertEqual(updates[0], updates[1])
        self.assertEqual(self.row.provider_auth, updates[0]['provider_auth'])
        commands = [command[1] for command in self.network.commands]
        self.assertNotIn('delete', commands)

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


class RefusalTestCase(moves_base.MoveTestCase):
    def refuse(self, reason, **connector):
        """Try to attach on host2, which leaves nothing."""
        self.error = self.assertRaises(
            client.OpenStackApiException,
            self.attach_too,
            'host2',
            **connector,
        ).response.text
        self.assertIn(reason, self.log.output)
        # Nova deletes what it has not got a connection of
        (second,) = set(self.attachments()) - {self.first}
        self.delete_attachment(second)
        self.assertAtRest()
        # nothing has listened
        commands = [command[1] for command in self.network.commands]
        self.assertNotIn('create', commands)

    def assertTold(self, reason):
        """Nova is told the reason, and the owner finds a message."""
        self.assertIn(reason, self.error)
        self.assertNotIn('host1', self.error)
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

    def test_attached_by_a_user(self):
        """A detached volume stays on its disk, whatever the server claims."""
        self.claim_there()
        self.is_on('host2')
        self.refuse('it is not reserved for one server alone')
        self.assertNotIn('host1', self.error)

    def test_no_initiator(self):
        self.claim_there()
        self.is_on('host2', 'resize_finish')
        self.refuse('has no iSCSI initiator', initiator='')
        self.assertTold('has no iSCSI initiator')

    def test_a_drain(self):
        move_records.write(
            self.here.root,
            self.name,
            move_records.Record(self.source, max(self.here.disks())),
        )
        self.claim_there()
        self.is_on('host1', 'migrating')
        self.refuse('it is being moved to another disk')
        self.assertTold('it is being moved to another disk')

    def test_a_snapshot(self):
        objects.Snapshot(
            self.context,
            volume_id=self.volume_['id'],
            volume_size=1,
            status='available',
        ).create()
        self.claim_there()
        self.is_on('host2', 'resize_finish')
        self.refuse('it has snapshots')
        self.assertTold('it has snapshots')

    def test_down(self):
        self.claim_there()
        self.is_on('host2', 'resize_finish')
        service = objects.Service.get_by_args(
            self.context, 'host2@vdisk', 'cinder-volume'
        )
        service.disabled = True
        service.save()
        self.refuse('is down or disabled')
        self.assertTold('only to servers on the same host')


class RescheduledTestCase(moves_base.MoveTestCase):
    def test_a_server_that_never_was_active(self):
        """Nova builds it on the next host, and nobody misses its content."""
        server = self.server(
            'host1',
            {max(self.here.disks()): 1},
            launched=False,
            vdisks=1,
            vdisk_gb=1,
        )
        volume = self.create(1, f'{server}-blank-vol')
        attachment = self.reserve(volume, server)
        path = self.connect(attachment)['device_path']
        with open(path, 'r+b') as stream:
            stream.write(b'one')
        self.delete_attachment(attachment)
        self.placement._call('delete', f'/allocations/{server}')
        self.claim(server, {self.target: 1})
        self.nova.servers[server]['OS-EXT-SRV-ATTR:host'] = 'host2'
        self.connect(self.reserve(volume, server), 'host2')
        row = objects.Volume.get_by_id(self.context, volume['id'])
        self.assertEqual(moves_base.THERE, row.host)
        self.assertIsNone(store.read(volume['id']))
        self.assertEqual({}, self.network.targets)


class ColdMigrationTestCase(moves_base.MoveTestCase):
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

    def test_a_blank_vdisk_of_a_server_that_is_unshelved(self):
        """It is given to the host where the server has its claim."""
        self.delete_attachment(self.first)
        # its user attaches it to no other host
        self.is_on(None, 'spawning')
        backend = self.here.backend
        with mock.patch.object(backend, 'written', lambda *_: False):
            self.assertRaises(
                client.OpenStackApiException,
                self.connect,
                self.reserve(self.volume_, self.server_id),
                'host2',
            )
            self.assertEqual(moves_base.HERE, self.row.host)
            self.claim_there()
            (reserved,) = self.attachments()
            self.connect(reserved, 'host2')
        self.assertEqual(moves_base.THERE, self.row.host)
        self.assertIsNone(self.phase)
        self.assertEqual({self.target: self.server_id}, self.held(self.there))
        self.assertEqual({}, self.held(self.here))

    def test_reverted_after_a_blank_vdisk_was_handed_over(self):
        """What the server has written since goes back with it."""
        backend = self.here.backend
        with mock.patch.object(backend, 'written', lambda *_: False):
            second = self.resize()
        self.assertEqual(moves_base.THERE, self.row.host)
        self.assertIsNone(self.phase)
        with open(self.info['device_path'], 'r+b') as stream:
            stream.write(b'two')
        back = self.reserve(self.volume_, self.server_id)
        self.delete_attachment(second)
        self.claim_back()
        self.is_on('host1', 'resize_reverting')
        path = self.connect(back)['device_path']
        self.assertEqual(b'two', self.content(path))
        self.assertEqual(record.ATTACHED, self.phase)
        self.assertEqual(moves_base.THERE, self.row.host)

    def test_confirmed(self):
        """The source is left only when Nova takes nothing back any more."""
        self.resize()
        self.is_on('host2')
        server = self.nova.servers[self.server_id]
        server['status'] = 'VERIFY_RESIZE'
        self.assertRaises(at_rest.Waits, self.settle)
        self.assertEqual(record.ATTACHED, self.phase)
        server['status'] = 'ACTIVE'
        self.placement._call('delete', f'/allocations/{self.migration}')
        # the source does not answer
        with mock.patch.object(other_host, 'go_on', return_value=False):
            self.assertRaises(at_rest.Waits, self.settle)
        self.assertEqual(record.ATTACHED, self.phase)
        with (
            self.killed(1, self.there.backend, 'copy_remote', False),
            contextlib.suppress(moves_base.Killed),
        ):
            self.settle()
        self.assertEqual(record.LEFT, self.phase)
        self.assertEqual(1, self.here.reserved()[self.source])
        self.assertAttachedThere()
        self.settle()
        self.assertIsNone(self.phase)
        self.assertEqual(moves_base.THERE, self.row.host)
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


class OrderTestCase(moves_base.MoveTestCase):
    """Calls that are repeated, late, or of two who work at once."""

    @property
    def moves(self):
        return [self.driver(index)._connections.moves for index in (0, 1)]

    def test_the_export_fails(self):
        """No later call of Cinder would end the move."""
        self.network.broken.add('create')
        self.assertRaises(client.OpenStackApiException, self.begin_live)
        (second,) = set(self.attachments()) - {self.first}
        self.delete_attachment(second)
        self.claim_back()
        self.assertAtRest()

    def test_the_export_is_in_use(self):
        """A server keeps its session when an attachment of it fails."""
        self.migrate()
        targets = dict(self.network.targets)
        self.network.broken.add('create')
        self.assertRaises(
            cinder_exc.VolumeDriverException,
            self.driver(0).create_export,
            self.context,
            self.row,
            self.connector('host2'),
        )
        self.assertEqual(record.LEFT, self.phase)
        self.assertEqual(targets, self.network.targets)
        self.assertEqual(
            {remote.target_of(self.row).iqn}, self.network.sessions
        )
        commands = [command[1] for command in self.network.commands]
        self.assertNotIn('delete', commands)

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

    def test_beside_the_attachment_of_nova(self):
        """A user makes and deletes another attachment while it settles."""
        second = self.migrate()
        self.delete_attachment(self.attach_too('host2'))
        self.assertEqual(record.LEFT, self.phase)
        self.assertAttachedThere()
        # one with an initiator of the user's
        self.assertRaises(
            client.OpenStackApiException,
            self.attach_too,
            'host2',
            initiator='iqn.1993-08.org.debian:01:evil',
        )
        self.assertIn('by another iSCSI initiator', self.log.output)
        (third,) = set(self.attachments()) - {second}
        self.delete_attachment(third)
        self.assertEqual(record.LEFT, self.phase)
        self.assertAttachedThere()
        ((_, admitted),) = self.network.targets.values()
        self.assertEqual([moves_base.initiator('host2')], list(admitted))
        self.delete_attachment(second)
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

    def test_aborted_when_the_server_is_there(self):
        """A late request, of which Nova knows nothing, disturbs no QEMU."""
        second = self.migrate()
        self.network.open.add(os.path.realpath(self.link_there))
        self.assertTrue(
            self.driver(0).terminate_connection(
                self.row, self.connector('host2')
            )
        )
        self.assertIn(
            f'with volume {self.volume_["id"]} to host2 is not aborted: a '
            'process there has it open',
            self.log.output,
        )
        self.assertEqual(record.ATTACHED, self.phase)
        self.assertAttachedThere()
        # nor does one of two attachments that is deleted
        self.delete_attachment(self.attach_too('host2'))
        self.assertAttachedThere()
        # its data follows
        self.network.open.clear()
        self.settle()
        self.assertIsNone(self.phase)
        self.assertEqual([second], self.attachments())
        self.assertEqual({self.target: self.server_id}, self.held(self.there))

    def test_aborted_while_a_qemu_runs_on(self):
        """It keeps its disk until it ends, also if it begins meanwhile."""
        second = self.begin_live()
        opened = os.path.realpath(self.link_there)
        unlink = self.there.backend.unlink

        def begin(name):
            unlink(name)
            self.network.open.add(opened)

        with mock.patch.object(self.there.backend, 'unlink', begin):
            self.delete_attachment(second)
        for _ in range(2):
            self.assertEqual(record.ATTACHED, self.phase)
            self.assertAttachedThere()
            self.assertEqual([self.first], self.attachments())
            # another attachment is told why
            self.is_on('host1')
            driver = self.driver(0)
            error = self.assertRaises(
                cinder_exc.VolumeDriverException,
                driver.create_export,
                self.context,
                self.row,
                self.connector('host1'),
            )
            self.assertIn('in use on the host of its server', str(error))
        self.network.open.clear()
        self.claim_back()
        self.driver(0).create_export(
            self.context, self.row, self.connector('host1')
        )
        self.assertAtRest()

    def test_a_qemu_that_runs_on_when_nobody_can_ask_it(self):
        """diskplacer-settle runs there, and cinder-volume does not."""
        second = self.begin_live()
        opened = os.path.realpath(self.link_there)
        self.network.open.add(opened)
        self.delete_attachment(second)
        self.assertEqual(record.ATTACHED, self.phase)
        self.set_state(1, 'down')
        for phase in (record.ATTACHED, record.ABORTING):
            found = store.read(self.volume_['id'])
            store.advance(self.volume_['id'], found, phase)
            self.look_at_stale()
            self.assertEqual(record.ATTACHED, self.phase)
            self.assertAttachedThere()
            self.assertEqual(1, len(self.network.targets))
        self.set_state(1, 'up')
        self.network.open.clear()
        self.claim_back()
        self.look_at_stale()
        self.assertAtRest()

    def look_at_stale(self):
        """Have diskplacer-settle of host2 look for long."""
        pool = mock.Mock(submit=lambda method, *args: method(*args))
        stale = stale_moves.StaleMoves()
        with mock.patch.object(stale_moves, 'time') as time:
            for now in (0.0, 1e6):
                time.monotonic.return_value = now
                stale.look(
                    pool,
                    self.destination_there,
                    self.row,
                    store.read(self.volume_['id']),
                )

    def test_nova_forgets_to_detach_a_server_that_is_deleted(self):
        """A nova-compute that was killed had attached it to host2."""
        second = self.begin_live()
        self.is_on('host1')
        self.delete_attachment(self.first)
        self.look_at_stale()
        self.assertEqual(record.LEFT, self.phase)
        self.assertAttachedThere()
        del self.nova.servers[self.server_id]
        self.network.open.add(os.path.realpath(self.link_there))
        self.look_at_stale()
        self.assertEqual(record.LEFT, self.phase)
        self.assertAttachedThere()
        self.network.open.clear()
        self.look_at_stale()
        self.assertEqual([second], self.attachments())
        self.claim_back()
        self.assertAtRest()
        self.delete_attachment(second)
        self.wait(self.volume_['id'], 'available')
        self.assertAtRest()

    def test_asked_late_to_undo(self):
        """The next attachment has begun before the destination is asked."""
        destination = self.destination_there
        connect = destination.connect

        def asked(volume):
            self.driver(1).terminate_connection(
                other_host._at(volume, 'host2@vdisk'), {'host': 'host2'}
            )
            return connect(volume)

        with mock.patch.object(destination, 'connect', asked):
            self.begin_live()
        self.assertEqual(record.ATTACHED, self.phase)
        self.assertAttachedThere()
        self.assertEqual(b'one', self.content(self.link_there))

    def test_undone_by_two_at_once(self):
        """The slower one leaves the export of the next attachment."""
        second = self.begin_live()
        is_there = end_move._is_there

        def slow(volume, recorded):
            found = is_there(volume, recorded)
            # Nova detaches and attaches it meanwhile
            self.set_state(1, 'up')
            self.delete_attachment(second)
            self.assertIsNone(self.phase)
            self.attach_too('host2')
            return found

        self.set_state(1, 'down')
        with mock.patch.object(end_move, '_is_there', slow):
            stays = self.driver(0).terminate_connection(
                self.row, self.connector('host2')
            )
        self.assertTrue(stays)
        self.assertEqual(record.ATTACHED, self.phase)
        self.assertAttachedThere()
        iqn = remote.target_of(self.row).iqn
        self.assertEqual([iqn], list(self.network.targets))

    def test_undone_before_it_is_exported(self):
        """A detachment of that host comes while it is attached."""
        exports = self.driver(0)._connections.moves.source.export
        create = exports.create

        def late(context, volume):
            self.driver(0).terminate_connection(
                self.row, self.connector('host2')
            )
            self.assertIsNone(self.phase)
            return create(context, volume)

        with mock.patch.object(exports, 'create', late):
            self.assertRaises(client.OpenStackApiException, self.begin_live)
        (second,) = set(self.attachments()) - {self.first}
        self.delete_attachment(second)
        self.claim_back()
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
        self.assertEqual({self.name}, store.moving_vdisks())

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
        # a clone or a backup could lack what the server has written there
        driver = self.driver(0)
        backup = (self.context, self.row, {'host': 'host1'})
        for call, arguments in (
            (driver.create_cloned_volume, (None, self.row)),
            (driver.unmanage, (self.row,)),
            (driver.create_export, backup),
        ):
            error = self.assertRaises(
                cinder_exc.VolumeDriverException, call, *arguments
            )
            self.assertIn('try again later', str(error))
        # nor does it keep the source from starting
        self.network.lose_power('host1')
        self.restart_host(0)
        self.assertTrue(self.driver(0).initialized)
        self.assertEqual(1, len(self.network.targets))
        self.assertNotIn('Traceback', self.log.output)
        # it has not decided: the next attachment is at the source
        self.is_on('host1')
        self.first = self.reserve(self.volume_, self.server_id)
        self.connect(self.first)
        self.assertAtRest()
        self.assertRaises(
            store.Changed, store.forget, self.volume_['id'], found
        )

    def lose_while_it_decides(self):
        second = self.migrate()
        volume_id = self.volume_['id']
        store.advance(volume_id, store.read(volume_id), record.DECIDING)
        self.lose(1)
        # the server may run there without cinder-volume
        self.assert_not_extended()
        self.delete_attachment(second)

    def assert_not_extended(self):
        self.assertRaises(
            cinder_exc.VolumeDriverException,
            self.driver(0).extend_volume,
            self.row,
            2,
        )
        self.assertEqual(record.DECIDING, self.phase)

    def test_its_host_is_lost_while_it_decides(self):
        """The vdisk of the source is the volume again."""
        self.lose_while_it_decides()
        self.is_on('host1')
        self.connect(self.reserve(self.volume_, self.server_id))
        self.assertIsNone(self.phase)
        self.assertEqual({}, self.network.targets)
        self.assertEqual(b'one', self.content(self.path))
        self.assertIn('what the server wrote there last is', self.log.output)

    def test_it_is_deleted_when_its_host_was_lost(self):
        self.lose_while_it_decides()
        self.delete(self.volume_)
        self.assertEqual({}, self.network.targets)
        self.assertEqual({}, self.held(self.here))

    def test_both_lose_power_and_the_source_starts_last(self):
        self.migrate()
        for index, host in enumerate(('host1', 'host2')):
            self.kill(index)
            self.network.lose_power(host)
        self.network.broken.add('create')
        self.volume[1] = self.restart('host2')
        self.assertEqual(set(), self.network.sessions)
        self.assertRaises(remote_vdisks.Away, self.settle)
        self.network.broken.clear()
        self.volume[0] = self.restart('host1')
        self.settle()
        self.assertIsNone(self.phase)
        self.assertEqual(moves_base.THERE, self.row.host)
        self.assertEqual(b'one', self.content(self.link_there))

    def test_detached_before_the_decision_was_taken_back(self):
        """Nobody attaches the volume any more, and it can be changed."""
        second = self.migrate()
        volume_id = self.volume_['id']
        found = store.read(volume_id)
        found = store.advance(volume_id, found, record.DECIDING)
        self.delete_attachment(second)
        self.restart_host(1)
        self.assertEqual(record.LEFT, self.phase)
        # what the other host has to undo is not in the way, if it is away
        with mock.patch.object(other_host, 'go_on', return_value=False):
            self.driver(0).extend_volume(self.row, 2)
        self.assertEqual(record.ABORTING, self.phase)
        self.driver(0).extend_volume(self.row, 3)
        self.assertEqual({}, self.network.targets)
        self.restart_host(1)
        self.assertIsNone(self.phase)
        self.assertEqual({}, self.network.targets)
        self.assertEqual({}, self.held(self.there))

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
