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

import types
from unittest import mock

from cinder_vdisk_mapper.server_moves import arrivals
from cinder_vdisk_mapper.server_moves import record
from nova_diskplacer import exception
from nova_diskplacer.host import log_once
from tests.unit.cinder_vdisk_mapper.server_moves import stored_moves
from tests.unit.cinder_vdisk_mapper.server_moves.stored_moves import HERE
from tests.unit.cinder_vdisk_mapper.server_moves.stored_moves import A
from tests.unit.cinder_vdisk_mapper.server_moves.stored_moves import B


class ArrivalsTest(stored_moves.StoredMovesTestCase):
    def setUp(self):
        super().setUp()
        self.logged = []
        log = mock.create_autospec(log_once.ChangeLogger, instance=True)
        log.log = lambda key, text, *words: self.logged.append(text % words)
        destination = types.SimpleNamespace(backend=self.backend)
        self.arrivals = arrivals.Arrivals({HERE: destination}, log)

    def found(self):
        found = self.arrivals.find(mock.Mock())
        return {volume: vdisk.disk for volume, (_, vdisk) in found.items()}

    def test_what_is_due(self):
        self.add('left', A)
        self.add('elsewhere', A, to='third@vdisk')
        self.add('attaching', B, phase=record.ATTACHING)
        self.add('aborting', B, phase=record.ABORTING)
        self.add('releasing', B, phase=record.RELEASING, holder=HERE)
        self.assertEqual({'left': A, 'releasing': B}, self.found())

    def test_the_disk(self):
        self.add('1', A, B)
        self.add('2')
        self.assertEqual({'1': '', '2': ''}, self.found())
        self.assertEqual(
            [
                'volume-1 does not follow its server: its targets are on '
                f'disks {A}, {B}',
                'volume-2 does not follow its server: its targets are on '
                'disks none',
            ],
            self.logged,
        )
        # the decision tells
        self.backend.linked['volume-1'] = B
        self.assertEqual(B, self.found()['1'])

    def test_a_record_that_cannot_be_read(self):
        self.add('1', A)
        self.add('2', B)
        self.moves['1'] = exception.DiskError('odd')
        self.assertEqual({'2': B}, self.found())
        self.assertEqual(['Volume 1: odd'], self.logged)
