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

import contextlib
import dataclasses
from unittest import mock

import fixtures
import testtools

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.server_moves import end_move
from cinder_vdisk_mapper.server_moves import move_export
from cinder_vdisk_mapper.server_moves import other_host
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import remote
from cinder_vdisk_mapper.server_moves import source
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.vdisks import locks
from nova_diskplacer import exception
from tests.unit.cinder_vdisk_mapper import test_driver

SERVER = '3b241101-e2bb-4255-8caf-4136c566a962'


class FilesTestCase(testtools.TestCase):
    """Vdisks that are files, for which devices are made."""

    def setUp(self):
        super().setUp()
        self.calls = mock.Mock()
        self.operations, self.exporter = (
            self.calls.operations,
            self.calls.exporter,
        )
        self.backend = self.operations.backend
        self.backend.makes_devices = True
        self.vdisk = self.operations.of.return_value
        self.source = source.Source(
            'a@vdisk',
            move_export.MoveExport(
                frozenset(('a',)), self.operations, lambda: self.exporter
            ),
            'lioadm',
        )
        self.volume = test_driver.volume(
            host='a@vdisk#vdisk', provider_location='disk'
        )
        self.exporter.create_for_move.return_value = {'provider_id': 'there'}
        self.attached = {}
        self.answers = True
        self.server = None
        self.removed = False
        self.found = record.Record(
            'a@vdisk', 'b@vdisk', SERVER, record.ABORTING
        )
        for target, name, value in (
            (store, 'connectors', lambda _: self.attached),
            (store, 'is_shared', lambda *_: False),
            (store, 'read', lambda _: self.found),
            (store, 'forget', self.forget),
            (other_host, 'go_on', lambda *_: self.answers),
            (nova_api, 'get', lambda *_: self.server),
            (other_host, 'is_removed', lambda _: self.removed),
            (store, 'fresh', lambda _: self.volume),
            (store, 'advance', self.advance),
            (locks, 'hold', lambda _: contextlib.nullcontext()),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'{target.__name__}.{name}', value)
            )

    def forget(self, volume_id, before):
        self.calls.forget(volume_id, before)
        if self.forgets:
            self.found = None

    # whether the record is gone then
    forgets = False

    def advance(self, volume_id, before, phase):
        self.assertEqual(self.found, before)
        self.found = dataclasses.replace(before, phase=phase)
        return self.found

    def decide(self, **answers):
        self.found = dataclasses.replace(self.found, phase=record.DECIDING)
        self.forgets = True
        self.answers = False
        self.removed = answers.get('removed', False)

    def names(self):
        return [
            call[0].rpartition('.')[2]
            for call in self.calls.mock_calls
            if '.' in call[0] or call[0] == 'forget'
        ]

    def test_its_device_is_exported(self):
        self.found = dataclasses.replace(self.found, phase=record.ATTACHING)
        update = self.source.export.create(None, self.volume)
        self.assertEqual({'provider_id': 'there'}, update)
        self.assertEqual('there', self.volume.provider_id)
        self.vdisk.stable_path.assert_called_once_with(
            self.volume, to_device=True
        )
        self.exporter.create_for_move.assert_called_once_with(
            None, self.volume, self.backend.attached_path.return_value
        )
        names = self.names()
        order = [
            names.index(name)
            for name in (
                'check_location',
                'stable_path',
                'activate',
                'attached_path',
                'create_for_move',
            )
        ]
        self.assertEqual(sorted(order), order)

    def test_logical_volumes_keep_their_link(self):
        self.found = dataclasses.replace(self.found, phase=record.LEFT)
        self.backend.makes_devices = False
        self.source.export.create(None, self.volume)
        self.vdisk.stable_path.assert_not_called()

    def test_a_device_that_nobody_needs_goes_with_the_export(self):
        self.vdisk.deactivate.side_effect = exception.DiskError('in use')
        end_move.abort(self.source.export, self.volume, self.found)
        names = self.names()
        self.assertLess(names.index('remove'), names.index('deactivate'))
        self.calls.forget.assert_called_once_with('id', self.found)

    def test_the_server_here_keeps_its_device(self):
        self.attached = {'a': {'host': 'a'}, 'b': {'host': 'b'}}
        end_move.abort(self.source.export, self.volume, self.found)
        self.vdisk.deactivate.assert_not_called()
        self.exporter.remove.assert_called_once()

    def test_a_detachment_while_a_dead_destination_has_to_undo(self):
        """The record stays, and the device goes as that of any volume."""
        self.answers = False
        self.attached = {'a': {'host': 'a'}}
        self.assertIs(False, self.source.detach(self.volume, {'host': 'a'}))
        # the attachment that ends is still in the database
        self.assertFalse(self.source.unexport(self.volume))
        self.assertEqual(record.ABORTING, self.found.phase)
        self.exporter.remove.assert_called()
        # the server is there in truth, so the export stays
        self.attached |= {'b': {'host': 'b'}}
        self.server = mock.Mock(host='b')
        self.assertTrue(self.source.unexport(self.volume))
        # nor is that of a move under way removed
        self.found = dataclasses.replace(self.found, phase=record.ATTACHED)
        self.assertTrue(self.source.unexport(self.volume))

    def test_a_decided_move_whose_destination_is_lost(self):
        """Its service is removed, so what it has written is lost."""
        request = mock.Mock()
        request.server.uuid = SERVER
        self.decide()
        self.assertRaises(
            errors.BindingError,
            self.source.attach,
            None,
            self.volume,
            {'host': 'a'},
            request,
        )
        self.assertFalse(
            end_move.end_lost(self.source.export, self.volume, self.found)
        )
        self.assertEqual(record.DECIDING, self.found.phase)
        self.decide(removed=True)
        # its server may run there, only without cinder-volume
        self.attached = {'b': {'host': 'b'}}
        self.assertFalse(
            end_move.end_lost(self.source.export, self.volume, self.found)
        )
        self.attached = {}
        self.assertIsNone(
            self.source.attach(None, self.volume, {'host': 'a'}, request)
        )
        self.assertIsNone(self.found)
        self.exporter.remove.assert_called_once()

    def test_a_start_while_the_destination_decides(self):
        """Its server was deleted meanwhile, so it is detached there."""
        self.decide()
        self.backend.makes_devices = False
        target = mock.Mock(iqn='iqn', user='u', secret='s')
        self.useFixture(
            fixtures.MonkeyPatch(
                f'{remote.__name__}.target_of', lambda _: target
            )
        )
        self.source.start(self.volume, self.found)
        self.backend.admit.assert_not_called()
        self.attached = {'b': {'host': 'b', 'initiator': 'iqn.b'}}
        self.source.start(self.volume, self.found)
        self.backend.admit.assert_called_once_with('iqn', 'iqn.b', 'u', 's')

    def test_a_server_there_keeps_its_export(self):
        """The destination does not answer, and Nova says what it would."""
        self.answers = False
        self.server = mock.Mock(host='b')
        self.attached = {'b': {'host': 'b'}}
        error = self.assertRaises(
            remote.InUse,
            end_move.abort,
            self.source.export,
            self.volume,
            self.found,
        )
        self.assertIn('volume id to b is not aborted', str(error))
        self.assertTrue(self.source.detach(self.volume, {'host': 'b'}))
        # nor is it attached here as well
        request = mock.Mock()
        request.server.uuid = SERVER
        self.assertRaises(
            remote.InUse,
            self.source.attach,
            None,
            self.volume,
            {'host': 'a'},
            request,
        )
        self.exporter.remove.assert_not_called()
        for server, attached in (
            (mock.Mock(host='a'), self.attached),
            (None, self.attached),
            # it was detached there since
            (self.server, {}),
        ):
            self.server, self.attached = server, attached
            end_move.abort(self.source.export, self.volume, self.found)
        self.assertEqual(3, self.exporter.remove.call_count)
