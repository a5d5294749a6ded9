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

from unittest import mock

import testtools
from cinder import context
from cinder import objects
from cinder.volume.targets import driver as targets

from cinder_vdisk_mapper.attach import export
from nova_diskplacer import exception
from nova_diskplacer.host import lio

objects.register_all()

LOCATION = '192.0.2.1:3260,1 iqn.test:volume-id 1'


class Target(targets.Target):
    """A target driver that remembers what is exported.

    ``parts`` has what is exported in part only: the driver takes one that is
    True for all of it, and fails with others.
    """

    exported = {}
    parts = {}
    broken = False
    without_portal = False

    def create_export(self, context, volume, volume_path):
        if self.broken:
            raise RuntimeError('tgt-admin: not found')
        if self.without_portal:
            self.parts[volume['id']] = False
            raise RuntimeError('This NetworkPortal cannot be bound')
        if not self.parts.get(volume['id'], True):
            raise RuntimeError('This Target already exists in configFS')
        self.exported[volume['id']] = volume_path
        return {'location': LOCATION, 'auth': 'CHAP user secret'}

    def ensure_export(self, context, volume, volume_path):
        raise NotImplementedError

    def remove_export(self, context, volume):
        if volume['provider_location'] == LOCATION:
            self.exported.pop(volume['id'], None)

    def remove_iscsi_target(self, tid, lun, vol_id, vol_name, **kwargs):
        if self.broken:
            raise RuntimeError('tgt-admin: not found')
        if vol_name != f'volume-{vol_id}':
            raise KeyError(vol_name)
        self.parts.pop(vol_id, None)
        self.exported.pop(vol_id, None)

    def initialize_connection(self, volume, connector):
        return {'data': [volume['provider_location'], connector]}

    def terminate_connection(self, volume, connector, **kwargs):
        self.ended = (volume['provider_location'], connector)


class ExporterTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        for name, value in (
            ('exported', {}),
            ('parts', {}),
            ('broken', False),
            ('without_portal', False),
        ):
            patch = mock.patch.object(Target, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        patch = mock.patch.object(lio, 'is_whole', self._is_whole)
        patch.start()
        self.addCleanup(patch.stop)
        self.exporter = self.make('tgtadm')
        self.volume = objects.Volume(
            context.get_admin_context(),
            id='00000000-0000-0000-0000-000000000001',
            _name_id=None,
            provider_location='disk',
            provider_id=None,
            provider_auth=None,
        )
        for name, value in (
            ('save', self._save),
            ('conditional_update', self._update),
        ):
            patch = mock.patch.object(objects.Volume, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.saved = []
        # what another process has written to the row
        self.changed = {}

    def _is_whole(self, iqn):
        self.assertEqual(f'iqn.test:volume-{self.volume.id}', iqn)
        id_ = self.volume.id
        return id_ in Target.exported and id_ not in Target.parts

    def configuration(self, helper, prefix='iqn.test:'):
        configuration = mock.Mock()
        configuration.safe_get.side_effect = {
            'target_helper': helper,
            'target_prefix': prefix,
        }.get
        return configuration

    def make(self, helper, prefix='iqn.test:'):
        return export.Exporter(
            self.configuration(helper, prefix),
            {helper: f'{__name__}.Target'},
        )

    def test_prefixes_that_cinder_does_not_find(self):
        for prefix in ('iqn.test:host-', 'iqn.test:host:', 'iqn.test', ''):
            error = self.assertRaises(
                exception.DiskPlacerError, self.make, 'lioadm', prefix
            )
            self.assertIn(f'target_prefix={prefix} must', str(error))
            self.assertFalse(
                export.can_move(self.configuration('lioadm', prefix))
            )
            self.make('tgtadm', prefix)
        self.make('lioadm')
        self.assertTrue(export.can_move(self.configuration('lioadm')))
        self.assertFalse(export.can_move(self.configuration('tgtadm')))

    def _save(self):
        self.saved.append(self.volume.provider_id)

    def _update(self, values, expected):
        for key, value in expected.items():
            row = self.changed.get(key, getattr(self.volume, key))
            if row != value and row not in value:
                return False
        self.volume.update(values)
        self._save()
        return True

    def create(self):
        self.volume.update(self.exporter.create(None, self.volume, '/path'))

    def test_export(self):
        self.create()
        self.assertEqual({self.volume.id: '/path'}, Target.exported)
        self.assertEqual(LOCATION, self.volume.provider_id)
        self.assertEqual('CHAP user secret', self.volume.provider_auth)
        self.assertEqual(
            {'data': [LOCATION, {'host': 'other'}]},
            self.exporter.connection(self.volume, {'host': 'other'}),
        )
        self.exporter.disconnect(self.volume, {'host': 'other'})
        self.assertEqual(
            (LOCATION, {'host': 'other'}), self.exporter.target.ended
        )
        self.assertEqual('disk', self.volume.provider_location)
        for _ in range(2):
            self.exporter.remove(None, self.volume, '/path')
            self.assertEqual({}, Target.exported)
            self.assertEqual('disk', self.volume.provider_id)
            self.assertIsNone(self.volume.provider_auth)
        self.assertEqual('disk', self.saved[-1])

    def test_killed_before_it_said_where(self):
        self.exporter.create(None, self.volume, '/path')
        self.assertEqual(['begun'], self.saved)
        self.volume.provider_id = self.saved[-1]
        self.exporter.remove(None, self.volume, '/path')
        self.assertEqual({}, Target.exported)

    def test_a_target_without_a_portal_does_not_stay(self):
        Target.without_portal = True
        self.assertRaises(exception.DiskPlacerError, self.create)
        self.assertEqual({}, Target.parts)
        self.assertEqual('disk', self.volume.provider_id)

    def test_never_exported(self):
        self.exporter.disconnect(self.volume, {'host': 'other'})
        self.exporter.remove(None, self.volume, '/path')
        self.assertEqual([], self.saved)

    def test_for_a_move(self):
        """The secret in use is not that of the command's arguments."""
        made = self.exporter.create_for_move(None, self.volume, '/path')
        self.assertEqual(LOCATION, made['provider_id'])
        method, user, secret = made['provider_auth'].split()
        self.assertEqual('CHAP', method)
        self.assertNotIn('secret', (user, secret))
        self.assertEqual(made['provider_auth'], self.volume.provider_auth)
        self.assertEqual(['begun'], self.saved)
        self.assertIsNone(
            self.exporter.target._get_target_chap_auth(None, self.volume)
        )
        # after a restart it is the same
        again = self.exporter.create_for_move(None, self.volume, '/path')
        self.assertEqual(made, again)
        # and where it cannot be made again
        self.volume.update(made)
        Target.broken = True
        self.assertRaises(
            exception.DiskPlacerError,
            self.exporter.create_for_move,
            None,
            self.volume,
            '/path',
        )
        self.assertEqual(made['provider_auth'], self.volume.provider_auth)

    def test_parts_of_a_killed_run(self):
        for seems_whole in (True, False):
            Target.parts[self.volume.id] = seems_whole
            self.volume.provider_id = 'begun'
            made = self.exporter.create_for_move(None, self.volume, '/path')
            self.assertEqual({}, Target.parts)
            self.assertEqual(LOCATION, made['provider_id'])
            self.volume.provider_id = 'begun'
        Target.parts[self.volume.id] = False
        self.exporter.remove(None, self.volume, '/path')
        self.assertEqual({}, Target.parts)
        self.assertEqual('disk', self.volume.provider_id)

    def test_parts_of_a_boot(self):
        self.create()
        Target.parts[self.volume.id] = False
        self.exporter.create_for_move(None, self.volume, '/path')
        self.assertEqual({}, Target.parts)

    def test_in_use(self):
        """What is whole stays, whatever fails, or dies."""
        self.volume.update(
            self.exporter.create_for_move(None, self.volume, '/path')
        )
        in_use = dict(Target.exported)
        Target.broken = True
        self.assertRaises(
            exception.DiskPlacerError,
            self.exporter.create_for_move,
            None,
            self.volume,
            '/path',
        )
        self.assertEqual(in_use, Target.exported)
        self.assertEqual(LOCATION, self.volume.provider_id)
        Target.broken = False
        with mock.patch.object(
            Target, 'remove_iscsi_target', side_effect=AssertionError
        ):
            self.exporter.create_for_move(None, self.volume, '/path')
        self.assertEqual(['begun', LOCATION, LOCATION], self.saved)

    def test_removed_in_two_steps(self):
        self.create()
        self.exporter.stop(None, self.volume, '/path')
        self.assertEqual({}, Target.exported)
        self.assertEqual(LOCATION, self.volume.provider_id)
        self.exporter.forget(self.volume)
        self.assertEqual('disk', self.volume.provider_id)
        self.assertIsNone(self.volume.provider_auth)

    def test_a_row_that_has_changed_meanwhile(self):
        """As Cinder exchanges the rows of the volumes of a migration."""
        self.create()
        saved = list(self.saved)
        for changed in (
            {'provider_location': 'other'},
            {'provider_id': 'other'},
            {'provider_id': 'disk'},
        ):
            self.changed = changed
            self.exporter.forget(self.volume)
            self.assertEqual(LOCATION, self.volume.provider_id)
        self.assertEqual(saved, self.saved)
        # it was found again after a kill, see stop
        self.changed = {'provider_id': 'begun'}
        self.exporter.forget(self.volume)
        self.assertEqual('disk', self.volume.provider_id)

    def test_killed_while_it_was_removed(self):
        """The target of LIO is gone already, and the vdisk still open."""
        self.exporter = self.make('lioadm')
        self.create()
        Target.exported.clear()
        Target.parts[self.volume.id] = False
        self.exporter.remove(None, self.volume, '/path')
        self.assertEqual({}, Target.parts)
        self.assertEqual('disk', self.volume.provider_id)
        # without its tool the volume stays exported
        self.create()
        Target.broken = True
        self.assertRaises(
            exception.DiskPlacerError,
            self.exporter.remove,
            None,
            self.volume,
            '/path',
        )
        self.assertEqual(LOCATION, self.volume.provider_id)

    def test_no_tool(self):
        configuration = mock.Mock()
        configuration.safe_get.return_value = 'lioadm'
        with mock.patch.object(Target, '__init__', side_effect=OSError('no')):
            error = self.assertRaises(
                exception.DiskPlacerError,
                export.Exporter,
                configuration,
                {'lioadm': f'{__name__}.Target'},
            )
        self.assertIn('target_helper=lioadm', str(error))

    def test_no_target(self):
        Target.broken = True
        error = self.assertRaises(exception.DiskPlacerError, self.create)
        self.assertIn('target_helper=tgtadm (tgt-admin: not', str(error))
        # nor can its absence keep the volume from being deleted
        self.assertEqual(['begun', 'disk'], self.saved)
        self.volume.provider_id = 'begun'
        self.exporter.remove(None, self.volume, '/path')
        self.assertEqual('disk', self.volume.provider_id)


class WantedTestCase(testtools.TestCase):
    def test_only_to_be_filled(self):
        server = mock.Mock(instance_uuid='server')
        copier = mock.Mock(instance_uuid=None)
        for migration_status, attachments, wanted in (
            ('target:id', [], True),
            ('target:id', [copier], True),
            ('target:id', [server], False),
            ('migrating', [], False),
            (None, [], False),
        ):
            volume = mock.Mock(
                migration_status=migration_status,
                volume_attachment=attachments,
            )
            self.assertEqual(wanted, export.needs_remote_export(volume))
