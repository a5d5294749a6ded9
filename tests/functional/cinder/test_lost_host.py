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

"""A host that is lost for good: its servers come back with blank vdisks."""

import os
from unittest import mock

from cinder import objects
from cinder.tests.functional.api import client

from cinder_vdisk_mapper.server_moves import lost_host
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import store
from nova_diskplacer import exception
from tests.functional.cinder import moves_base

BACKENDS = ['host2@vdisk']


class LostHostTestCase(moves_base.MoveTestCase):
    """host1 is lost, with a server and its volume."""

    def setUp(self):
        super().setUp()
        self.have_flavor(on_host_loss='blank')
        self.kill(0)
        self.set_state(0, 'down')
        self.nova.lose('host1')

    def have_flavor(self, **specs):
        specs = {'vdisks': 1, 'vdisk_gb': 1} | specs
        self.nova.servers[self.server_id]['flavor'] = {
            'extra_specs': {
                f'diskplacer:{name}': str(value)
                for name, value in specs.items()
            }
        }

    def give_up(self, is_wanted=True):
        """Return why volumes stay."""
        entries = lost_host.give_up(BACKENDS, 'host1', is_wanted)
        return [entry.reason for entry in entries]

    def assertStays(self, reason, is_refused=False):
        """The volume is where it was, for this reason."""
        if is_refused:
            self.assertRaisesRegex(
                exception.DiskPlacerError, reason, self.give_up
            )
        else:
            (why,) = self.give_up()
            self.assertRegex(why, reason)
        self.assertEqual(moves_base.HERE, self.row.host)
        self.assertEqual(self.source, self.row.provider_location)

    def evacuate(self):
        """Do as Nova; returns the path of the vdisk on host2."""
        self.nova.evacuate(self.server_id, 'host2')
        self.placement._call('delete', f'/allocations/{self.server_id}')
        self.claim(self.server_id, {self.source: 1, self.target: 1})
        attachment = self.reserve(self.volume_, self.server_id)
        self.delete_attachment(self.first)
        info = self.connect(attachment, 'host2')
        self.complete(attachment)
        self.first = attachment
        self.nova.migrations.clear()
        self.is_on('host2')
        return info['device_path']

    def assertBlankThere(self, path):
        row = self.row
        self.assertEqual(
            (moves_base.THERE, self.target, 'in-use'),
            (row.host, row.provider_location, row.status),
        )
        self.assertEqual({self.target: self.server_id}, self.held(self.there))
        self.assertEqual({0}, set(self.there.reserved().values()))
        self.assertEqual(b'\0\0\0', self.content(path))

    def test_its_server_comes_back_blank(self):
        self.assertEqual([''], self.give_up(is_wanted=False))
        self.assertEqual(moves_base.HERE, self.row.host)
        self.assertEqual([''], self.give_up())
        row = self.row
        self.assertEqual(
            (moves_base.THERE, None, 'in-use'),
            (row.host, row.provider_location, row.status),
        )
        # a repetition finds nothing to do
        self.assertEqual([], self.give_up())
        path = self.evacuate()
        self.assertBlankThere(path)
        with open(path, 'r+b') as stream:
            stream.write(b'two')
        self.delete_attachment(self.first)
        self.delete(self.volume_)
        self.assertEqual({}, self.held(self.there))

    def test_the_host_that_took_it_is_lost_too(self):
        """Before the server is evacuated; any third host will do."""
        self.give_up()
        self.set_state(0, 'up')
        self.set_state(1, 'down')
        self.nova.lose('host2')
        (entry,) = lost_host.give_up(['host1@vdisk'], 'host2', True)
        self.assertEqual('', entry.reason)
        row = self.row
        self.assertEqual(
            (moves_base.HERE, None, 'in-use'),
            (row.host, row.provider_location, row.status),
        )

    def test_the_host_of_a_failed_evacuation_is_lost_too(self):
        """The server is where it was, and its vdisk was written elsewhere."""
        self.give_up()
        path = self.evacuate()
        with open(path, 'r+b') as stream:
            stream.write(b'two')
        self.is_on('host1')
        self.set_state(0, 'up')
        self.set_state(1, 'down')
        services = self.nova.services
        self.nova.lose('host2')
        # as long as one of both hosts lives, nothing is given up
        (entry,) = lost_host.give_up(['host1@vdisk'], 'host2', True)
        self.assertEqual('its server is on host host1', entry.reason)
        self.nova.services = services + self.nova.services
        (entry,) = lost_host.give_up(['host1@vdisk'], 'host2', True)
        self.assertEqual('', entry.reason)
        row = self.row
        self.assertEqual(
            (moves_base.HERE, None, 'in-use'),
            (row.host, row.provider_location, row.status),
        )

    def test_the_host_comes_back(self):
        """What is on its disks is nobody's, and stays as it is."""
        self.give_up()
        path = self.evacuate()
        self.set_state(0, 'up')
        self.restart_host(0)
        self.assertBlankThere(path)
        (disk,) = self.held(self.here)
        old = f'{self.here.root}/{disk}/vdisks/{self.name}'
        self.assertEqual(b'one', self.content(old))
        self.assertNotEqual(self.name, f'volume-{self.row.name_id}')
        # the server moves there, and its vdisk is another one
        with open(path, 'r+b') as stream:
            stream.write(b'two')
        other = max(self.here.disks())
        self.placement._call('delete', f'/allocations/{self.server_id}')
        self.claim(self.migration, {self.target: 1})
        self.claim(self.server_id, {other: 1})
        self.is_on('host2', 'migrating')
        self.attach_too('host1')
        self.assertEqual({disk, other}, self.held(self.here).keys())
        new = f'{self.here.root}/by-volume/volume-{self.row.name_id}'
        self.assertEqual(b'two', self.content(new))
        self.assertEqual(b'one', self.content(old))

    def test_a_host_that_may_be_alive(self):
        self.nova.lose('host1', seconds=5)
        self.assertStays('was heard of, or forced down, 5 s ago', True)
        self.nova.lose('host1')
        self.nova.services[0]['forced_down'] = False
        self.assertStays('is not forced down', True)
        self.nova.services.clear()
        self.assertStays('Nova knows no nova-compute of host host1', True)
        self.nova.lose('host1')
        self.nova.down = True
        self.assertStays('Nova does not answer', True)
        self.nova.down = False
        with mock.patch.object(objects.Service, 'is_up', True):
            self.assertStays('cinder-volume of host1@vdisk is up', True)
        # each backend has a cinder-volume of its own
        service = objects.Service(
            self.context,
            host='host1@other',
            binary='cinder-volume',
            topic='cinder-volume',
        )
        service.create()
        self.assertStays('cinder-volume of host1@other is up', True)
        service.destroy()
        # it comes back to life before a volume is changed
        decide = lost_host._decide

        def slow(*args):
            self.nova.services[0]['forced_down'] = False
            return decide(*args)

        name = 'cinder_vdisk_mapper.server_moves.lost_host._decide'
        with mock.patch(name, slow):
            self.assertStays('is not forced down', True)
        self.nova.lose('host1')

        # another operator is faster
        def faster(*args):
            found = list(decide(*args))
            with mock.patch(name, decide):
                self.assertEqual([''], self.give_up())
            return found

        with mock.patch(name, faster):
            self.assertEqual(
                ['it has changed meanwhile: repeat this'], self.give_up()
            )
        self.assertEqual([], self.give_up())
        self.assertBlankThere(self.evacuate())

    def test_what_keeps_a_volume(self):
        for specs in ({}, {'on_host_loss': 'none'}):
            self.have_flavor(**specs)
            self.assertStays('has no diskplacer:on_host_loss=blank')
        self.have_flavor(on_host_loss='blank')
        self.is_on('host1', 'powering-on')
        self.assertStays('has a task of Nova: powering-on')
        self.is_on('host1')
        for status in ('VERIFY_RESIZE', 'SUSPENDED', 'SHELVED'):
            self.nova.servers[self.server_id]['status'] = status
            self.assertStays(f'its server is {status}, and Nova evacuates')
        self.nova.servers[self.server_id]['status'] = 'ACTIVE'
        self.is_on('host2')
        self.assertStays('its server is on host host2')
        self.is_on('host1')
        self.have_flavor(on_host_loss='blank', vdisk_gb=2)
        self.assertStays('none of the vdisks of the flavor')
        self.have_flavor(on_host_loss='blank')
        move = record.Record(
            'host1@vdisk', 'host2@vdisk', self.server_id, record.LEFT
        )
        store.begin(self.volume_['id'], move)
        self.assertStays('has not settled')
        store.forget(self.volume_['id'], move)
        snapshot = objects.Snapshot(
            self.context,
            volume_id=self.volume_['id'],
            volume_size=1,
            user_id=self.row.user_id,
            project_id=self.row.project_id,
        )
        snapshot.create()
        self.assertStays('has snapshots')
        snapshot.destroy()
        self.assertEqual([''], self.give_up(is_wanted=False))

    def test_deletion(self):
        """Of a volume whose server is deleted, nobody waits for the data."""
        row = self.row
        self.api.api_post(
            f'/volumes/{row.id}/action',
            {
                'os-reset_status': {
                    'status': 'error',
                    'attach_status': 'detached',
                }
            },
            check_response_status=[202],
        )
        self.assertStays('attached to no server: delete it')
        self.api.delete_volume(row.id)
        self.wait(row.id, 'deleting')
        self.assertEqual([''], self.give_up())
        self.assertEqual('error', self.row.status)
        self.delete(self.volume_)

    def test_all_vdisks_of_a_server_or_none(self):
        self.nova.servers[self.server_id]['flavor'] = {}
        (why,) = self.give_up()
        self.assertIn('Nova does not show', why)
        row = objects.Volume.get_by_id(self.context, self.attach_second())
        row.encryption_key_id = '00000000-0000-0000-0000-000000000001'
        row.save()
        self.assertEqual(
            sorted(
                ['it is encrypted', f'volume {row.id} of its server stays']
            ),
            sorted(self.give_up()),
        )
        self.assertEqual(moves_base.HERE, self.row.host)
        row.encryption_key_id = None
        row.save()
        self.have_flavor(on_host_loss='blank')
        self.assertEqual(
            {'its server has 2 vdisks, and its flavor claims 1 elsewhere'},
            set(self.give_up()),
        )
        # this host has no such backend, and would leave it there
        row.host = 'host1@other#pool'
        row.save()
        self.assertStays(f'{row.id} of its server stays on {row.host}')
        move = record.Record(
            'host3@vdisk', 'host1@vdisk', self.server_id, record.LEFT
        )
        row.host = 'host3@vdisk#pool'
        row.save()
        store.begin(row.id, move)
        self.assertStays(f'{row.id} of its server moves')
        store.forget(row.id, move)
        # another user has made the attachment
        row.host, row.project_id = moves_base.HERE, 'another'
        row.save()
        self.assertEqual(
            {
                row.id: 'its server is of another project',
                self.volume_['id']: '',
            },
            {
                entry.volume: entry.reason
                for entry in lost_host.give_up(BACKENDS, 'host1', False)
            },
        )

    def attach_second(self):
        """Have the server have a second volume; returns its ID."""
        self.have_flavor(on_host_loss='blank', vdisks=2)
        self.set_state(0, 'up')
        self.restart_host(0)
        other = self.create(1)
        self.placement._call('delete', f'/allocations/{self.server_id}')
        self.claim(self.server_id, dict.fromkeys(self.here.disks(), 1))
        self.attach(other, self.server_id)
        self.kill(0)
        self.set_state(0, 'down')
        return other['id']

    def test_a_change_keeps_all_vdisks_of_a_server(self):
        """Whichever of them is changed, between the decision and the end."""
        other = self.attach_second()
        decide = lost_host._decide

        def changed(*args):
            for entries in decide(*args):
                objects.Volume.get_by_id(
                    self.context, entries[-1].volume
                ).conditional_update({'status': 'error'}, {})
                yield entries

        order = [
            entry.volume
            for entry in lost_host.give_up(BACKENDS, 'host1', False)
        ]
        self.assertEqual({other, self.volume_['id']}, {*order})
        name = 'cinder_vdisk_mapper.server_moves.lost_host._decide'
        with mock.patch(name, changed):
            entries = list(lost_host.give_up(BACKENDS, 'host1', True))
        self.assertEqual(
            [
                f'volume {order[1]} of its server stays',
                'it has changed meanwhile: repeat this',
            ],
            [entry.reason for entry in entries],
        )
        for id_ in order:
            row = objects.Volume.get_by_id(self.context, id_)
            self.assertEqual(moves_base.HERE, row.host)
            self.assertIsNotNone(row.provider_location)
            row.conditional_update({'status': 'in-use'}, {})
        self.assertEqual(['', ''], self.give_up())

    def test_a_volume_that_is_taken_already_keeps_no_other_one(self):
        """A command before this one was killed after the first volume."""
        other = self.attach_second()
        decide = lost_host._decide

        def first_only(context, volumes, *args):
            return decide(
                context, [one for one in volumes if one.id == other], *args
            )

        name = 'cinder_vdisk_mapper.server_moves.lost_host._decide'
        with (
            mock.patch(name, first_only),
            mock.patch.object(lost_host, '_kept_by_others', return_value=''),
        ):
            self.assertEqual([''], self.give_up())
        self.assertEqual(moves_base.HERE, self.row.host)
        self.assertEqual([''], self.give_up())
        self.assertEqual(moves_base.THERE, self.row.host)

    def test_an_evacuation_has_failed(self):
        """Nova has made a new attachment, and has completed none."""
        self.give_up()
        self.nova.evacuate(self.server_id, 'host2')
        self.reserve(self.volume_, self.server_id)
        self.delete_attachment(self.first)
        self.is_on('host1')
        self.nova.servers[self.server_id]['status'] = 'ERROR'
        self.nova.migrations.clear()
        self.assertEqual('reserved', self.row.status)
        self.set_state(0, 'up')
        self.set_state(1, 'down')
        self.nova.lose('host2')
        (entry,) = lost_host.give_up(['host1@vdisk'], 'host2', True)
        self.assertEqual('', entry.reason)
        row = self.row
        self.assertEqual(
            (moves_base.HERE, None, 'reserved'),
            (row.host, row.provider_location, row.status),
        )

    def test_evacuation_without_giving_up(self):
        """A cinder-volume that lives attaches no content elsewhere."""
        self.nova.evacuate(self.server_id, 'host2')
        self.set_state(0, 'up')
        self.restart_host(0)
        self.placement._call('delete', f'/allocations/{self.server_id}')
        self.claim(self.server_id, {self.source: 1, self.target: 1})
        attachment = self.reserve(self.volume_, self.server_id)
        self.delete_attachment(self.first)
        error = self.assertRaises(
            client.OpenStackApiException, self.connect, attachment, 'host2'
        )
        self.assertIn('only to servers on the same host', error.response.text)
        self.assertEqual(self.source, self.row.provider_location)
        self.assertEqual(b'one', self.content(self.path))
        self.assertTrue(os.path.exists(self.path))


class UnsettledTestCase(moves_base.MoveTestCase):
    """The server is on host2, which is lost, and its data on host1."""

    def test_its_data_is_kept_without_the_server(self):
        """Another vdisk of it has settled, so it comes back nowhere."""
        self.migrate()
        self.assertEqual(record.LEFT, self.phase)
        self.kill(1)
        self.set_state(1, 'down')
        del self.nova.servers[self.server_id]
        self.api.api_post(
            f'/volumes/{self.volume_["id"]}/action',
            {
                'os-reset_status': {
                    'status': 'available',
                    'attach_status': 'detached',
                }
            },
            check_response_status=[202],
        )
        other = self.server('host1', {self.source: 1}, vdisks=1, vdisk_gb=1)
        _, path = self.attach(self.volume_, other)
        self.assertEqual(b'one', self.content(path))
        self.assertEqual(
            (moves_base.HERE, 'in-use'), (self.row.host, self.row.status)
        )
        # host2 would undo the move when it starts
        self.assertEqual(record.ABORTING, self.phase)
