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

"""Volumes that follow their server to another host, or may not."""

from unittest import mock

import fixtures
import testtools
from cinder import objects
from cinder.volume import rpcapi
from oslo_concurrency import lockutils
from oslo_config import fixture as config_fixture
from oslo_db import exception as db_exc

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.attach import bind_request
from cinder_vdisk_mapper.attach import handover
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.vdisks import layouts
from tests.fakes import disks as fake_disks
from tests.unit.cinder_vdisk_mapper import fakes
from tests.unit.cinder_vdisk_mapper import test_driver


class UnusedTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.snapshots = []
        for target, name, new in (
            (
                objects.SnapshotList,
                'get_all_for_volume',
                lambda *_: self.snapshots,
            ),
            (rpcapi, 'VolumeAPI', mock.Mock()),
        ):
            patch = mock.patch.object(target, name, new)
            patch.start()
            self.addCleanup(patch.stop)
        self.there = rpcapi.VolumeAPI().initialize_connection

    def volume(self, *reservations, **fields):
        """Return a volume with attachments of (server, status)."""
        return test_driver.volume(
            **{
                'group_id': None,
                'volume_attachment': [
                    test_driver.attachment(*one) for one in reservations
                ],
                **fields,
            }
        )

    def assertFollows(self, volume):
        handover._check_unused(None, volume)
        self.assertEqual(
            self.there.return_value,
            handover.connect_by_new_backend(volume, {'host': 'there'}),
        )

    def assertStays(self, reason, volume):
        self.there.reset_mock()
        for check in (
            lambda: handover._check_unused(None, volume),
            lambda: handover.connect_by_new_backend(volume, {'host': 'there'}),
        ):
            error = self.assertRaises(errors.BindingError, check)
            self.assertIn(reason, str(error))
        self.there.assert_not_called()

    def test_reservations(self):
        reserved = 's', 'reserved'
        for reservations in (
            [reserved],
            # one that was cut short, and its repetition
            [reserved, reserved],
            [reserved, ('other', 'detached')],
        ):
            self.assertFollows(self.volume(*reservations))
        for reservations in (
            [],
            [('s', 'detached')],
            [('s', 'attached')],
            [reserved, ('s', 'attached')],
            [reserved, ('s', 'attaching')],
            [reserved, ('other', 'reserved')],
            [reserved, (None, 'reserved')],
            [(None, 'reserved')],
        ):
            self.assertStays(
                'not reserved for one server', self.volume(*reservations)
            )

    def test_what_else_depends_on_it(self):
        reserved = 's', 'reserved'
        for migration in (None, '', 'success', 'error'):
            self.assertFollows(
                self.volume(reserved, migration_status=migration)
            )
        self.assertStays(
            'being migrated',
            self.volume(reserved, migration_status='target:x'),
        )
        self.assertStays('in group g', self.volume(reserved, group_id='g'))
        self.snapshots.append('snapshot')
        self.assertStays('has snapshots', self.volume(reserved))


class Row:
    """A volume; ``saved`` is its row in the database.

    Of its saves, number ``failing`` raises an error; ``lost`` tells if the
    answer of the database is lost, and not the request.
    """

    id = name_id = '1'
    _COLUMNS = ('host', 'provider_location', 'provider_id', 'service_uuid')

    def __init__(self, failing=None, lost=False):
        self.host, self.service_uuid = 'here@vdisk#vdisk', 'old'
        self.provider_location = self.provider_id = 'a'
        self.failing, self.lost = failing, lost
        self.saves = 0
        self.saved = self._read()

    def _read(self):
        return {one: getattr(self, one) for one in self._COLUMNS}

    def refresh(self):
        vars(self).update(self.saved)

    def save(self):
        self.saves += 1
        fails = self.saves - 1 == self.failing
        if self.lost or not fails:
            self.saved = self._read()
        if fails:
            raise db_exc.DBError


class HandOverTestCase(testtools.TestCase):
    """Volume 1 was bound to disk a and not written to."""

    def setUp(self):
        super().setUp()
        conf = self.useFixture(config_fixture.Config(lockutils.CONF))
        path = self.useFixture(fixtures.TempDir()).path
        conf.config(lock_path=path, group='oslo_concurrency')
        for name, new in (
            (
                'find_target',
                lambda *_: (mock.Mock(uuid='new'), 'there@vdisk#vdisk'),
            ),
            ('_check_unused', mock.Mock()),
        ):
            patch = mock.patch.object(handover, name, new)
            patch.start()
            self.addCleanup(patch.stop)
        self.bind()

    def bind(self):
        held = [fake_disks.make_vdisk('1', None, 1)]
        disks = [fake_disks.make_disk('a', held=held)]
        self.backend = fakes.Backend(*disks)
        self.backend.written = lambda disk, name: False
        self.backend.link('a', 'volume-1')
        self.operations = layouts.Operations(
            self.backend, fakes.Placement(*disks)
        )

    def hand_over(self, row):
        server = nova_api.Server('s', fakes.PROJECT, 'there', None)
        handover.hand_over(
            self.operations,
            None,
            row,
            bind_request.BindRequest(
                'volume-1', '1', 1, 'round_robin', server
            ),
            'there',
        )

    def assertIsThere(self, row):
        self.assertEqual(
            {
                'host': 'there@vdisk#vdisk',
                'provider_location': None,
                'provider_id': None,
                'service_uuid': 'new',
            },
            row.saved,
        )
        self.assertEqual([], self.backend.disks_holding('volume-1'))
        self.assertEqual({}, self.backend.linked)

    def test_the_database_fails(self):
        """At each moment it is bound here, or unbound here or there."""
        for failing in (0, 1):
            for lost in (False, True):
                self.bind()
                row = Row(failing, lost)
                self.assertRaises(db_exc.DBError, self.hand_over, row)
                row.refresh()
                if row.provider_location:
                    self.assertEqual(
                        ['a'], self.backend.disks_holding('volume-1')
                    )
                if row.host.startswith('here'):
                    self.hand_over(row)
                self.assertIsThere(row)

    def test_two_saves(self):
        """Those that fail above."""
        log = self.useFixture(fixtures.FakeLogger())
        row = Row()
        self.hand_over(row)
        self.assertEqual(
            'Volume 1 of 1 GiB is handed over from here@vdisk#vdisk (disk a) '
            'to there@vdisk#vdisk for server s\n',
            log.output,
        )
        self.assertEqual(2, row.saves)
        self.assertIsThere(row)
