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

"""Moves of servers as Cinder's database has them."""

import types

import fixtures
import testtools

from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import store
from tests.fakes import disks as fake_disks
from tests.unit.cinder_vdisk_mapper import fakes

HERE, THERE = 'here@vdisk', 'there@vdisk'
A = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'
B = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d12'


class StoredMovesTestCase(testtools.TestCase):
    """A host with two disks, and the moves in the database.

    ``moves`` are the records by volume, or the errors of reading them,
    ``holders`` the hosts that have the volumes, and ``attached`` the
    connectors of all volumes.
    """

    def setUp(self):
        super().setUp()
        self.backend = fakes.Backend(*map(fake_disks.make_disk, (A, B)))
        self.moves, self.holders = {}, {}
        self.attached = {'here': {}}
        for name, value in (
            ('arriving_volumes', lambda _: sorted(self.moves)),
            ('read', self._read),
            ('fresh', self._fresh),
            ('connectors', lambda _: self.attached),
        ):
            self.useFixture(fixtures.MockPatchObject(store, name, value))

    def _read(self, volume_id):
        if isinstance(self.moves[volume_id], Exception):
            raise self.moves[volume_id]
        return self.moves[volume_id]

    def _fresh(self, volume_id):
        return types.SimpleNamespace(
            id=volume_id, name_id=volume_id, host=self.holders[volume_id]
        )

    def add(self, volume_id, *disks, phase=record.LEFT, to=HERE, holder=THERE):
        self.moves[volume_id] = record.Record(THERE, to, 's', phase)
        self.holders[volume_id] = f'{holder}#pool'
        for disk in disks:
            self.backend.create(disk, f'volume-{volume_id}', '1', 's', 1)
