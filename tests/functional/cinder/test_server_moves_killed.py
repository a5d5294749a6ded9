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

"""Hosts that are killed while a server moves, at each step."""

import contextlib
import os
from unittest import mock

from cinder import exception as cinder_exc
from cinder import objects
from cinder.tests.functional.api import client

from cinder_vdisk_mapper.server_moves import lost_host
from cinder_vdisk_mapper.server_moves import lost_source
from cinder_vdisk_mapper.server_moves import other_host
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import remote
from cinder_vdisk_mapper.server_moves import store
from nova_diskplacer import exception
from tests.functional.cinder import moves_base


class KilledTestCase(moves_base.MoveTestCase):
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

    def test_the_destination_is_lost(self):
        second = self.begin_live()
        self.lose(1)
        self.delete_attachment(second)
        self.assertIsNone(self.phase)
        self.assertEqual({}, self.network.targets)

    def test_the_source_is_lost_with_the_data(self):
        """An operator deletes the volume, and nothing is left or waits."""
        self.migrate()
        volume_id = self.volume_['id']
        destinations = {'host2@vdisk': self.destination_there}

        def discard(*reasons):
            if not reasons:
                return lost_source.discard(destinations, volume_id)
            error = self.assertRaises(
                exception.DiskPlacerError,
                lost_source.discard,
                destinations,
                volume_id,
            )
            for reason in (volume_id, *reasons):
                self.assertIn(reason, str(error))

        self.network.open.add(os.path.realpath(self.link_there))
        # it is only down
        self.kill(0)
        discard('service remove cinder-volume host1@vdisk')
        self.assertAttachedThere()
        self.lose(0)
        self.network.lose_power('host1')
        # its QEMU can be killed only then
        discard('is still attached', self.server_id)
        self.assertEqual(set(), self.network.sessions)
        self.network.open.clear()
        self.placement._call('delete', f'/allocations/{self.server_id}')
        # as "openstack volume set --state error --detached"
        self.api.api_post(
            f'/volumes/{volume_id}/action',
            {
                'os-reset_status': {
                    'status': 'error',
                    'attach_status': 'detached',
                }
            },
            check_response_status=[202],
        )
        with self.killed(1, store, 'forget', False):
            self.assertRaises(moves_base.Killed, discard)
        self.restart_host(1)
        discard('moves to this host')
        row = self.row
        self.assertEqual(
            (moves_base.THERE, 'error', None, None, None),
            (
                row.host,
                row.status,
                row.provider_location,
                row.provider_id,
                row.provider_auth,
            ),
        )
        # nobody gets an empty volume in its place
        self.assertRaises(
            client.OpenStackApiException,
            self.reserve,
            self.volume_,
            self.server_id,
        )
        self.assertIsNone(self.phase)
        self.assertEqual({}, self.held(self.there))
        self.assertEqual({}, self.there.backend.links())
        self.assertEqual([], self.there.backend.remotes())
        self.assertEqual(0, sum(self.there.reserved().values()))
        self.delete(self.volume_)


class SettledTestCase(moves_base.MoveTestCase):
    """The data follows a server that is shut off."""

    def setUp(self):
        super().setUp()
        self.second = self.migrate()
        with open(self.link_there, 'r+b') as stream:
            stream.write(b'two')

    def assertSettled(self):
        self.assertIsNone(self.phase)
        row = self.row
        self.assertEqual(moves_base.THERE, row.host)
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

    def test_the_source_is_lost(self):
        """The volume is whole here, and can be changed."""
        self.lose(0)
        self.settle()
        self.assertIsNone(self.phase)
        row = self.row
        self.assertEqual(
            (moves_base.THERE, self.target, self.target, None),
            (
                row.host,
                row.provider_location,
                row.provider_id,
                row.provider_auth,
            ),
        )
        self.assertIn('host1@vdisk, which was removed', self.log.output)
        self.driver(1).extend_volume(row, 2)

    def test_killed_before_it_is_decided(self):
        for target, name, done in (
            (store, 'advance', False),
            (store, 'advance', True),
            (self.there.backend, 'link', False),
        ):
            with self.killed(1, target, name, done):
                self.assertRaises(moves_base.Killed, self.settle)
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
            (lambda: self.destination_there, 'save', False),
            (lambda: self.destination_there, 'save', True),
            (lambda: remote, 'log_out', False),
            (lambda: remote, 'log_out', True),
        ):
            with self.killed(1, target(), name, done):
                self.assertRaises(moves_base.Killed, self.settle)
            self.assertEqual(b'two', self.content(self.link_there))
            if name == 'link':
                self.restart_host(0)
                self.restart_host(1)
        # the last of them has left nothing to settle
        self.restart_host(1)
        self.assertSettled()

    def test_killed_and_written_to_before_anybody_looks(self):
        """A server has opened the source just before the decision."""
        with self.killed(1, self.there.backend, 'link', True):
            self.assertRaises(moves_base.Killed, self.settle)
        self.assertEqual(record.DECIDING, self.phase)
        source = f'{self.here.root}/{self.source}/vdisks/{self.name}'
        with open(source, 'r+b') as stream:
            stream.write(b'new')
        self.assertRaisesRegex(
            exception.DiskError, 'was started and wrote', self.settle
        )
        self.assertEqual(record.LEFT, self.phase)
        self.assertEqual(b'new', self.content(self.link_there))
        self.settle()
        self.assertEqual(b'new', self.content(self.link_there))
        self.assertEqual(moves_base.THERE, self.row.host)
        self.assertIsNone(self.phase)

    def test_killed_when_all_is_released(self):
        with self.killed(1, store, 'forget', False):
            self.assertRaises(moves_base.Killed, self.settle)
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

    def test_the_destination_is_lost_before_it_is_released(self):
        """Its data is given up as any other, and the source forgets it."""
        exporter = self.driver(0)._connections.exporter
        with self.killed(0, exporter, 'stop', False):
            self.settle()
        self.assertEqual(record.RELEASING, self.phase)
        self.kill(1)
        self.set_state(1, 'down')
        self.nova.lose('host2')
        self.nova.servers[self.server_id]['flavor'] = {
            'extra_specs': {
                'diskplacer:vdisks': '1',
                'diskplacer:vdisk_gb': '1',
                'diskplacer:on_host_loss': 'blank',
            }
        }

        def give_up():
            (entry,) = lost_host.give_up(['host1@vdisk'], 'host2', True)
            return entry.reason

        with self.killed(0, exporter, 'stop', False):
            self.assertIn('of host1@vdisk, is not released', give_up())
        self.assertEqual(moves_base.THERE, self.row.host)
        self.assertEqual(record.RELEASING, self.phase)
        self.assertEqual('', give_up())
        self.assertIsNone(self.phase)
        row = self.row
        self.assertEqual(
            (moves_base.HERE, 'in-use', None, None, None),
            (
                row.host,
                row.status,
                row.provider_location,
                row.provider_id,
                row.provider_auth,
            ),
        )
        self.assertEqual({}, self.held(self.here))
        self.assertEqual({}, self.here.backend.links())
        self.assertEqual({}, self.network.targets)
        self.here.publish()
        self.assertEqual(0, sum(self.here.reserved().values()))

    def test_source_is_away(self):
        """A server is detached there, and a volume not deleted, meanwhile."""
        exporter = self.driver(0)._connections.exporter
        with self.killed(0, exporter, 'stop', False):
            self.settle()
            self.assertEqual(record.RELEASING, self.phase)
            self.delete_attachment(self.second)
            self.assertEqual(moves_base.THERE, self.row.host)
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
