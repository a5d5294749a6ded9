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

"""The driver on disks that exist in memory only."""

import socket
from unittest import mock

import fixtures
import testtools
from cinder import exception as cinder_exc
from cinder import objects
from cinder.volume import configuration
from cinder.volume import volume_utils
from oslo_config import cfg
from oslo_config import fixture as config_fixture

from cinder_vdisk_mapper import driver
from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.vdisks import naming
from nova_diskplacer import exception
from nova_diskplacer import internals
from nova_diskplacer import mapping
from nova_diskplacer.exception import DiskError
from nova_diskplacer.exception import DiskPlacerError
from nova_diskplacer.placement import client as placement_client
from tests.fakes import disks as fake_disks
from tests.unit.cinder_vdisk_mapper import fakes

objects.register_all()


def volume(**fields):
    """Return a volume as the manager hands it to a driver."""
    return mock.Mock(
        **{
            'id': 'id',
            'host': 'node@vdisk#vdisk',
            'name_id': 'id',
            'bootable': False,
            'size': 10,
            'project_id': fakes.PROJECT,
            'display_name': 'data',
            'provider_location': None,
            'provider_id': None,
            'migration_status': None,
            'volume_type': None,
            'encryption_key_id': None,
            'volume_attachment': [],
            **fields,
        }
    )


def attachment(server_id, status='reserved'):
    """Return an attachment of a volume to a server."""
    return mock.Mock(
        instance_uuid=server_id, attach_status=status, connection_info={}
    )


class DriverTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        patch = mock.patch.object(
            nova_api,
            'get',
            side_effect=lambda context, uuid: nova_api.Server(
                uuid, fakes.PROJECT, 'node', None
            ),
        )
        self.get = patch.start()
        self.addCleanup(patch.stop)
        self.conf = self.useFixture(config_fixture.Config(cfg.CONF))
        path = self.useFixture(fixtures.TempDir()).path
        self.conf.config(lock_path=path, group='oslo_concurrency')
        self.conf.config(host='conf-host')
        self.disks = [
            fake_disks.make_disk('a', 100),
            fake_disks.make_disk('b', 50, 'ssd'),
            fake_disks.make_disk('c', 200, health='missing'),
        ]
        # no volume here is in a database
        self.useFixture(
            fixtures.MonkeyPatch(
                'cinder_vdisk_mapper.driver.VDiskMapperDriver._server_moves',
                lambda *_: None,
            )
        )
        self.driver = driver.VDiskMapperDriver(
            host='node@vdisk#vdisk',
            configuration=configuration.Configuration([]),
        )
        self.driver.backend = fakes.Backend(*self.disks)
        self.placement = fakes.Placement(*self.disks)
        self.driver.placement = self.placement

    def export(self, what, host='node'):
        """Have a volume bound; returns its disk."""
        with mock.patch.object(
            objects.VolumeAttachmentList,
            'get_all_by_instance_uuid',
            return_value=[],
        ):
            update = self.driver.create_export(
                mock.sentinel.context, what, {'host': host}
            )
        return update and update['provider_location']


class SetupTestCase(DriverTestCase):
    def test_backend_plugin(self):
        self.driver.do_setup(None)
        self.assertEqual('gpfs', self.driver.backend.connection_type)
        self.assertEqual(
            '/var/lib/diskplacer/disks', self.driver.backend.disk_root
        )

    def test_what_cinder_lacks_is_said(self):
        internals.check.cache_clear()
        self.addCleanup(internals.check.cache_clear)
        with mock.patch.object(volume_utils, 'clear_volume'):
            del volume_utils.clear_volume
            with self.assertLogs(internals.LOG.logger, 'ERROR') as logs:
                self.driver.do_setup(None)
        (line,) = logs.output
        self.assertTrue(
            line.endswith(': cinder.volume.volume_utils.clear_volume'), line
        )

    def test_lock_path(self):
        self.driver.check_for_setup_error()
        self.conf.config(lock_path=None, group='oslo_concurrency')
        error = self.assertRaises(
            DiskPlacerError, self.driver.check_for_setup_error
        )
        self.assertIn('[oslo_concurrency] lock_path', str(error))

    def test_options(self):
        names = {option.name for option in self.driver.get_driver_options()}
        self.assertEqual(
            {
                'vdisk_disk_root',
                'vdisk_media',
                'vdisk_default_mapping',
                'vdisk_backend',
                'vdisk_connection',
            },
            names,
        )


class ConnectorTestCase(DriverTestCase):
    def test_this_host_by_any_of_its_names(self):
        for host in ('node', 'conf-host', socket.gethostname()):
            self.driver.validate_connector({'host': host})
            self.assertEqual('a', self.export(volume(), host))

    def test_no_host(self):
        for connector in ({'host': None}, {}):
            self.assertRaises(
                cinder_exc.InvalidConnectorException,
                self.driver.validate_connector,
                connector,
            )

    def test_other_host(self):
        for what in (
            volume(),
            volume(migration_status='migrating'),
            # Nova would swap the disk of a server that stays where it is
            volume(
                migration_status='target:id',
                volume_attachment=[attachment('server')],
            ),
        ):
            error = self.assertRaises(
                cinder_exc.VolumeDriverException, self.export, what, 'other'
            )
            self.assertIn('only to servers on the same host', str(error))
            self.assertIn("no server on host 'other'", self.log.output)
        self.assertEqual((), self.driver.backend.known['a'].vdisks)

    def test_a_host_is_one_line_of_the_log(self):
        """Whoever calls the API writes the connector."""
        host = 'other\nERROR all is lost\x1b[2J'
        self.assertRaises(
            cinder_exc.VolumeDriverException, self.export, volume(), host
        )
        self.assertIn(repr(host), self.log.output)
        self.assertNotIn(host, self.log.output)


class VolumeTestCase(DriverTestCase):
    def test_create_checks_the_mapping_of_the_type(self):
        self.driver.create_volume(volume())
        type_ = mock.Mock(extra_specs={'vdisk:mapping': 'scattered'})
        error = self.assertRaises(
            cinder_exc.InvalidVolumeType,
            self.driver.create_volume,
            volume(volume_type=type_),
        )
        self.assertIn(
            'vdisk:mapping=scattered is not one of: '
            + ', '.join(mapping.names_on_one_disk()),
            str(error),
        )

    def test_target_of_a_migration_is_unbound(self):
        self.assertEqual(
            {'shared_targets': False}, self.driver.create_volume(volume())
        )
        self.assertEqual(
            naming.created() | naming.bound_to(None),
            self.driver.create_volume(volume(provider_location='a')),
        )

    def test_bound_for_the_server_that_it_is_attached_to(self):
        what = volume(
            volume_attachment=[
                attachment('old', 'detached'),
                attachment('server'),
                attachment(None),
            ]
        )
        self.assertEqual('a', self.export(what))
        (vdisk,) = self.driver.backend.known['a'].vdisks
        self.assertEqual(
            ('volume-id', 'id', 'server', 10),
            (vdisk.name, vdisk.volume_id, vdisk.server_id, vdisk.size_gb),
        )
        self.assertEqual(
            'Volume id of 10 GiB is bound to disk a for server server\n',
            self.log.output,
        )

    def test_bound_for_nobody(self):
        self.assertEqual('a', self.export(volume()))
        self.assertIn('is bound to disk a for no server', self.log.output)
        (vdisk,) = self.driver.backend.known['a'].vdisks
        self.assertIsNone(vdisk.server_id)
        self.get.assert_not_called()

    def test_several_servers(self):
        error = self.assertRaises(
            cinder_exc.VolumeDriverException,
            self.export,
            volume(volume_attachment=[attachment('a'), attachment('b')]),
        )
        self.assertIn('attached to several servers', str(error))
        self.assertIn('several servers: a, b', self.log.output)

    def test_bound_once(self):
        what = volume(volume_attachment=[attachment('server')])
        what.provider_location = self.export(what)
        self.assertIsNone(self.export(what))
        self.assertEqual(1, self.log.output.count('is bound to'))

    def test_server_of_another_project(self):
        for disk in (None, 'a'):
            error = self.assertRaises(
                cinder_exc.VolumeDriverException,
                self.export,
                volume(
                    project_id='other',
                    provider_location=disk,
                    volume_attachment=[attachment('server')],
                ),
            )
            self.assertIn('only to a server of its own project', str(error))
        self.assertEqual((), self.driver.backend.known['a'].vdisks)

    def test_connection(self):
        what = volume()
        what.provider_location = self.export(what)
        self.assertEqual(
            {
                'driver_volume_type': 'fake',
                'data': {
                    'device_path': '/disks/a/volume-id',
                    'vdisk': {'disk': 'a', 'host': 'node'},
                },
            },
            self.driver.initialize_connection(what, {'host': 'node'}),
        )
        for disk, reason in (('c', 'is missing'), (None, 'is not bound')):
            self.assertRaises(
                cinder_exc.VolumeDriverException,
                self.driver.initialize_connection,
                volume(provider_location=disk),
                {'host': 'node'},
            )
            self.assertIn(reason, self.log.output)

    def test_attached_by_cinder_itself(self):
        what = volume(__getitem__=getattr)
        with mock.patch.object(self.driver, '_connect_device') as connect:
            _, attached = self.driver._attach_volume(
                None, what, {'host': 'node'}
            )
        self.assertIs(what, attached)
        self.assertEqual('a', what.provider_location)
        (connection,) = connect.call_args.args
        self.assertEqual(
            '/disks/a/volume-id', connection['data']['device_path']
        )

    def test_cinder_itself_attaches_nothing_that_is_refused(self):
        """Cinder ignores what an export raises, such as for an image."""
        what = volume(__getitem__=getattr)
        what.provider_location = self.export(what)
        moves = self.driver._connections.moves = mock.Mock()
        moves.check_whole.side_effect = errors.BindingError('log', 'it moves')
        with mock.patch.object(self.driver, '_connect_device') as connect:
            error = self.assertRaises(
                cinder_exc.VolumeDriverException,
                self.driver._attach_volume,
                None,
                what,
                {'host': 'node'},
            )
        self.assertIn('it moves', str(error))
        connect.assert_not_called()

    def test_servers_get_a_path_that_stays(self):
        what = volume(volume_attachment=[attachment('server')])
        what.provider_location = self.export(what)
        connection = self.driver.initialize_connection(what, {'host': 'node'})
        self.assertEqual(
            '/disks/by-volume/volume-id', connection['data']['device_path']
        )
        self.assertEqual({'volume-id': 'a'}, self.driver.backend.linked)
        self.driver.remove_export(None, what)
        self.assertEqual({'volume-id': 'a'}, self.driver.backend.linked)
        # lost, and made again when cinder-volume starts
        self.driver.backend.linked.clear()
        self.driver.ensure_export(None, what)
        self.assertEqual({'volume-id': 'a'}, self.driver.backend.linked)
        self.driver.delete_volume(what)
        self.assertEqual({}, self.driver.backend.linked)

    def test_no_links_of_volumes_without_a_server(self):
        what = volume()
        what.provider_location = self.export(what)
        self.driver.ensure_export(None, what)
        self.assertEqual({}, self.driver.backend.linked)

    def truncated(self):
        """Yield volumes that Cinder fills, and whose vdisk it has cut."""
        for fields in (
            {'status': 'restoring-backup'},
            {'status': 'available', 'migration_status': 'target:other'},
        ):
            what = volume(**fields)
            what.provider_location = self.export(what)
            self.driver.backend._change('a', 'volume-id', 0, True, min)
            yield what

    def test_what_was_truncated_is_allocated_again(self):
        for what in self.truncated():
            self.driver.remove_export(None, what)
            (vdisk,) = self.driver.backend.known['a'].vdisks
            self.assertEqual(10, vdisk.size_gb)
            self.assertEqual(
                10,
                self.placement.offered['a'][placement_client.GB]['reserved'],
            )
            self.driver.delete_volume(what)

    def test_what_cannot_be_allocated_again(self):
        """The target of a copy that has failed can be deleted."""
        for what in self.truncated():
            with mock.patch.object(
                self.driver.backend, 'extend', side_effect=DiskError('full')
            ):
                if what.migration_status:
                    self.driver.remove_export(None, what)
                    self.assertIn(
                        'Volume id is not allocated in full: full',
                        self.log.output,
                    )
                else:
                    self.assertRaises(
                        cinder_exc.VolumeDriverException,
                        self.driver.remove_export,
                        None,
                        what,
                    )
            self.driver.delete_volume(what)
            self.assertEqual((), self.driver.backend.known['a'].vdisks)

    def test_no_connection_to_what_is_not_whole(self):
        what = volume()
        what.provider_location = self.export(what)
        self.driver.backend.interrupted = True
        self.driver.backend.shrink = mock.Mock(side_effect=DiskError('busy'))
        for attempt in (
            lambda: self.driver.extend_volume(what, 20),
            lambda: self.driver.initialize_connection(what, {'host': 'node'}),
            lambda: self.export(what),
            lambda: self.driver.create_cloned_volume(volume(id='2'), what),
            lambda: self.driver.revert_to_snapshot(
                None, what, mock.Mock(provider_location='a')
            ),
        ):
            self.assertRaises(cinder_exc.VolumeDriverException, attempt)
        self.driver.backend.interrupted = False
        self.driver.extend_volume(what, 20)
        self.export(what)
        self.driver.initialize_connection(what, {'host': 'node'})

    def test_ensure_export_never_fails(self):
        for disk in ('a', 'c', 'elsewhere', None):
            self.driver.ensure_export(None, volume(provider_location=disk))

    def test_delete(self):
        what = volume()
        what.provider_location = self.export(what)
        for _ in range(2):
            self.driver.delete_volume(what)
            self.assertEqual((), self.driver.backend.known['a'].vdisks)
        # one that the database does not know to be bound
        self.export(volume())
        self.driver.delete_volume(volume())
        self.assertEqual((), self.driver.backend.known['a'].vdisks)
        self.driver.delete_volume(volume())
        # bytes must not be left behind on a disk that is away
        self.assertRaises(
            cinder_exc.VolumeDriverException,
            self.driver.delete_volume,
            volume(provider_location='c'),
        )
        # unless the disk has been forgotten
        self.driver.delete_volume(volume(provider_location='elsewhere'))

    def test_claims_that_are_unknown_are_logged_once(self):
        answer = self.placement.free_gb
        for _ in range(2):
            self.placement.free_gb = mock.Mock(
                side_effect=exception.PlacementError('no answer')
            )
            for _ in range(3):
                self.driver._read_unclaimed(self.disks)
            self.placement.free_gb = answer
            self.driver._read_unclaimed(self.disks)
        self.assertEqual(
            2, self.log.output.count('claims of servers are unknown')
        )

    def test_a_deletion_is_logged_once(self):
        what = volume(volume_attachment=[attachment('server')])
        what.provider_location = self.export(what)
        for _ in range(2):
            self.driver.delete_volume(what)
        self.driver.delete_volume(volume())
        deleted = [
            line
            for line in self.log.output.splitlines()
            if 'is deleted' in line
        ]
        self.assertEqual(
            [
                'Volume id of 10 GiB is deleted from disk a, where it was for '
                'server server'
            ],
            deleted,
        )

    def test_delete_beside_a_disk_that_hangs(self):
        # as the last look has seen it
        held = [fake_disks.make_vdisk('held', None, 10)]
        known = self.driver.backend.known
        known['b'] = fake_disks.make_disk('b', health='hung', held=held)
        delete = self.driver.backend.delete

        def refuse(disk, name):
            if disk == 'b':
                raise DiskError('disk b is hung')
            delete(disk, name)

        self.driver.backend.delete = refuse
        what = volume()
        what.provider_location = self.export(what)
        self.assertEqual('a', what.provider_location)
        self.driver.delete_volume(what)
        self.assertEqual((), known['a'].vdisks)
        # never bound, and not there either
        self.driver.delete_volume(volume())
        # what may be there must not be left behind
        for location in (None, 'b'):
            self.assertRaises(
                cinder_exc.VolumeDriverException,
                self.driver.delete_volume,
                volume(id='held', name_id='held', provider_location=location),
            )

    def test_extend(self):
        self.driver.extend_volume(volume(), 100)
        error = self.assertRaises(
            cinder_exc.VolumeDriverException,
            self.driver.extend_volume,
            volume(),
            101,
        )
        self.assertIn('cannot be extended to 101 GiB', str(error))
        self.assertIn('the largest has 100 GiB', self.log.output)
        what = volume()
        what.provider_location = self.export(what)
        self.driver.extend_volume(what, 20)
        (vdisk,) = self.driver.backend.known['a'].vdisks
        self.assertEqual(20, vdisk.size_gb)
        self.assertRaises(
            cinder_exc.VolumeDriverException,
            self.driver.extend_volume,
            what,
            101,
        )
