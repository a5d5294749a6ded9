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

import concurrent.futures
import dataclasses
import types
from unittest import mock

import fixtures
import testtools

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.server_moves import other_host
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import stale_moves
from cinder_vdisk_mapper.server_moves import store
from nova_diskplacer import exception
from nova_diskplacer import nova_server

VOLUME = types.SimpleNamespace(id='volume', name_id='name')
KEPT = record.Record('there@vdisk', 'here@vdisk', 'server', record.ATTACHED)


class StaleMovesTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.attached = {'there': {}}
        self.server = None
        self.now = 0.0
        self.asked = []
        self.answer = concurrent.futures.Future()
        for target, name, value in (
            (store, 'connectors', lambda _: self.attached),
            (other_host, 'go_on', self.go_on),
            (nova_api, 'get', self.get),
            (
                stale_moves,
                'time',
                types.SimpleNamespace(monotonic=lambda: self.now),
            ),
        ):
            self.useFixture(fixtures.MockPatchObject(target, name, value))
        self.pool = mock.Mock(submit=self.submit)
        self.destination = mock.Mock()
        self.destination.open_places.return_value = []
        self.moves = stale_moves.StaleMoves()

    def get(self, context, server):
        self.assertEqual(KEPT.server, server)
        if isinstance(self.server, Exception):
            raise self.server
        return self.server

    def go_on(self, *arguments):
        self.assertEqual((VOLUME, 'there@vdisk', 'there'), arguments)
        self.asked.append(self.now)

    def submit(self, function, *arguments):
        function(*arguments)
        return self.answer

    def look(self, seconds, recorded=KEPT, volume=VOLUME):
        """Look every 3 seconds; returns when the source was asked."""
        self.asked.clear()
        end = self.now + seconds
        while self.now < end:
            self.moves.look(self.pool, self.destination, volume, recorded)
            self.now += 3.0
        return list(self.asked)

    def test_ever_more_rarely(self):
        self.answer.set_result(False)
        self.assertEqual(
            [300.0, 900.0, 2100.0, 4500.0, 8100.0, 11700.0], self.look(15000)
        )

    def test_one_at_a_time(self):
        self.assertEqual([300.0], self.look(4000))
        self.answer.set_result(False)
        self.assertEqual(1, len(self.look(60)))

    def test_an_attachment_in_progress(self):
        """Cinder saves the host of an attachment when it is complete."""
        attaching = dataclasses.replace(KEPT, phase=record.ATTACHING)
        self.assertEqual([], self.look(4000, attaching))
        self.assertEqual([], self.look(200))
        self.attached['here'] = {}
        self.assertEqual([], self.look(4000))
        del self.attached['here']
        self.assertEqual([], self.look(200))

    def test_nova_has_forgotten_to_detach(self):
        """Nobody uses it when the server is deleted."""
        self.answer.set_result(None)
        for phase in (record.ATTACHED, record.LEFT):
            kept = dataclasses.replace(KEPT, phase=phase)
            for attached, server, count in (
                (['here'], 'server', 0),
                (['here'], nova_server.NovaError('away'), 0),
                (['here'], None, 1),
                # Nova goes on with it, or nobody does any more
                (['here', 'there'], None, 0),
                ([], 'server', 1),
            ):
                self.moves = stale_moves.StaleMoves()
                self.attached = dict.fromkeys(attached)
                self.server = server
                found = self.look(400, kept)
                self.assertEqual(count, len(found), (phase, attached))

    def test_a_process_has_it_open(self):
        self.destination.open_places.return_value = ['/dev/session']
        self.answer.set_result(None)
        self.assertEqual([], self.look(4000))
        self.destination.open_places.assert_called_with('volume-name')
        self.destination.go_on.assert_not_called()
        aborting = dataclasses.replace(KEPT, phase=record.ABORTING)
        self.moves = stale_moves.StaleMoves()
        self.assertEqual([], self.look(400, aborting))
        self.destination.go_on.assert_called_once_with(VOLUME, aborting)
        self.destination.open_places.return_value = []
        self.assertEqual(1, len(self.look(1000)))
        error = exception.DiskError('no processes can be seen')
        self.destination.open_places.side_effect = error
        self.assertEqual([], self.look(4000))

    def test_another_move(self):
        self.assertEqual([], self.look(200))
        other = dataclasses.replace(KEPT, server='other')
        self.assertEqual([], self.look(200, other))
        # the volume was deleted, or has moved, meanwhile
        self.moves.keep(['another'])
        self.assertEqual([], self.look(200, other))

    def test_phases(self):
        for phase, count in (
            (record.ATTACHED, 1),
            (record.ABORTING, 1),
            (record.LEFT, 1),
            (record.DECIDING, 0),
            (record.RELEASING, 0),
        ):
            self.moves = stale_moves.StaleMoves()
            found = self.look(400, dataclasses.replace(KEPT, phase=phase))
            self.assertEqual(count, len(found), phase)
