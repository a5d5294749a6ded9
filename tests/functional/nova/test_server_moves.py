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

"""Servers whose vdisks follow them to other hosts.

The claims of both hosts are checked at every step. Cinder is a fixture, see
``moving_volumes``; Nova and Placement are real.
"""

import concurrent.futures
import threading
import uuid
from unittest import mock

from nova.scheduler import utils as scheduler_utils

from nova_diskplacer.scheduler import server_volumes
from tests.functional.nova import base
from tests.functional.nova import moving_volumes
from tests.functional.nova import test_volumes


class ServerMovesTestCase(base.CloudTestCase):
    """Three hosts; a server of two vdisks."""

    volumes_fixture = moving_volumes.MovingVDisks
    asked = {'vdisks': 2, 'vdisk_gb': 100}

    def setUp(self):
        super().setUp()
        self.flags(moves=True, group='diskplacer_scheduler')
        self.flags(shelved_offload_time=0)
        self.report()
        self.vdisks = self.flavor(**self.asked)

    def boot_bound(self, flavor=None, number=2):
        """Boot a server whose vdisks are bound."""
        server = self.boot(flavor or self.vdisks)
        ids = [self.volumes.create(100) for _ in range(number)]
        for volume_id in ids:
            self.attach(server, volume_id)
        self.reconcile()
        return server, ids

    def disk_sizes(self, total_gb):
        """Give all disks this size."""
        for host in self.hosts.values():
            for disk in host.disks.values():
                disk.total_gb = total_gb
                host.publish(disk)
        self.report()

    def migration_claims(self, server):
        """Return what the migrations of a server claim, by host and disk."""
        claims = {}
        for migration in self.api.get_migrations():
            if migration['instance_uuid'] == server['id']:
                claims |= self.claims(migration['uuid'])
        return claims

    def reserved(self, host):
        """Return the GiB that each disk of a host reserves, if any."""
        return {
            disk.uuid: disk.reserved_gb
            for disk in self.hosts[host].disks.values()
            if disk.reserved_gb
        }

    def assert_on_claimed_disks(self, places, server):
        """Check that vdisks are where their server claims, one on each."""
        host = self.host_of(server).name
        disks = self.assert_claims(server, [100] * len(places))
        self.assertEqual(
            sorted((host, disk) for disk in disks), sorted(places)
        )
        return disks

    def targets(self, ids):
        return [self.volumes.targets[volume_id] for volume_id in ids]

    def places(self, ids):
        return [self.volumes.places[volume_id] for volume_id in ids]

    def settle(self, server, ids):
        """Settle, and check that the source reserves its vdisks till then."""
        sources = dict(self.places(ids))
        (source,) = sources
        self.reconcile()
        self.assertEqual([100] * len(ids), [*self.reserved(source).values()])
        self.volumes.settle(*ids)
        self.reconcile()
        self.assertEqual({}, self.reserved(source))
        self.assert_on_claimed_disks(self.places(ids), server)
        for host in self.hosts:
            self.assertEqual({}, self.reserved(host))

    def assert_gone(self, server, ids):
        """Check that nothing is left of a server and its vdisks."""
        self._delete_server(server)
        for volume_id in ids:
            self.volumes._delete(None, volume_id)
        self.reconcile()
        self.assert_unused()
        for host in self.hosts.values():
            self.assertEqual({}, self.reserved(host.name))
            self.assertEqual(
                [], [d.vdisks for d in host.disks.values() if d.vdisks]
            )


class ColdTest(ServerMovesTestCase):
    def migrated(self):
        """Boot a server and migrate it; it waits to be confirmed."""
        server, ids = self.boot_bound()
        source = self.host_of(server).name
        before = self.claims(server['id'])
        self._migrate_server(server)
        self.assertNotEqual(source, self.host_of(server).name)
        self.assert_on_claimed_disks(self.targets(ids), server)
        self.assertEqual(before, self.migration_claims(server))
        self.reconcile()
        # the agents look at both hosts meanwhile
        self.assert_on_claimed_disks(self.targets(ids), server)
        self.assertEqual(before, self.migration_claims(server))
        return server, ids, source, before

    def test_confirm(self):
        server, ids, _, _ = self.migrated()
        self._confirm_resize(server)
        self.assertEqual({}, self.migration_claims(server))
        self.assert_on_claimed_disks(self.targets(ids), server)
        self.settle(server, ids)
        self.assert_gone(server, ids)

    def test_revert(self):
        server, ids, source, before = self.migrated()
        self._revert_resize(server)
        self.assertEqual(source, self.host_of(server).name)
        self.assertEqual(before, self.claims(server['id']))
        self.assertEqual({}, self.migration_claims(server))
        self.reconcile()
        self.assertEqual({}, self.volumes.targets)
        self.assert_on_claimed_disks(self.places(ids), server)
        for host in self.hosts:
            self.assertEqual({}, self.reserved(host))
        # and it can be moved again
        self._migrate_server(server)
        self._confirm_resize(server)
        self.settle(server, ids)
        self.assert_gone(server, ids)

    def test_revert_to_full_disks(self):
        self.disk_sizes(100)
        server, _ = self.boot_bound()
        source = self.host_of(server).name
        before = self.claims(server['id'])
        self._migrate_server(server)
        # the agent reserves the vdisks beside the claims of the migration
        self.reconcile()
        self.assertEqual([100] * 2, [*self.reserved(source).values()])
        self.assertEqual(before, self.migration_claims(server))
        self._revert_resize(server)
        self.assertEqual(source, self.host_of(server).name)
        if not test_volumes.MOVES_ON_FULL_DISKS:
            # both keep what they have until an administrator looks
            self.assertEqual(before, self.migration_claims(server))
            self.assertNotIn(source, self.claims(server['id']))
            return
        self.assertEqual(before, self.claims(server['id']))
        self.assertEqual({}, self.migration_claims(server))
        self.reconcile()
        for host in self.hosts:
            for disk in self.hosts[host].disks.values():
                used = self.hosts[host].used(disk)[base.GB]
                bound = sum(vdisk['size_gb'] for vdisk in disk.vdisks)
                self.assertEqual(bound, used + disk.reserved_gb)

    def test_resize_to_more_vdisks(self):
        server, ids = self.boot_bound()
        source = self.host_of(server).name
        before = self.claims(server['id'])
        larger = self.flavor(vdisks=4, vdisk_gb=100)
        self._resize_server(server, larger)
        self.assertNotEqual(source, self.host_of(server).name)
        disks = self.assert_claims(server, [100] * 4)
        self.assertEqual(before, self.migration_claims(server))
        self._confirm_resize(server)
        self.assertEqual(disks, self.assert_claims(server, [100] * 4))
        self.assertLessEqual({disk for _, disk in self.targets(ids)}, disks)
        more = [self.volumes.create(100) for _ in range(2)]
        for volume_id in more:
            self.attach(server, volume_id)
        self.volumes.settle(*ids)
        self.reconcile()
        self.assert_on_claimed_disks(self.places(ids + more), server)
        self.assert_gone(server, ids + more)

    def test_resize_stays_at_home_if_it_can(self):
        self.flags(allow_resize_to_same_host=True)
        server, ids = self.boot_bound()
        host = self.host_of(server).name
        self._resize_server(server, self.flavor(vdisks=3, vdisk_gb=100))
        self.assertEqual(host, self.host_of(server).name)
        self.assert_claims(server, [100] * 3)
        self.assertEqual({}, self.volumes.targets)
        self._confirm_resize(server)
        self.reconcile()
        self._resize_server(server, self.vdisks)
        self.assertEqual(host, self.host_of(server).name)
        self.assert_on_claimed_disks(self.places(ids), server)

    def test_resize_goes_elsewhere_if_home_is_full(self):
        self.assert_resized_elsewhere()

    def test_resize_goes_elsewhere_if_home_is_full_since_its_report(self):
        self.assert_resized_elsewhere(is_reported=False)

    def assert_resized_elsewhere(self, is_reported=True):
        """Check a resize of a server whose home is full.

        :param is_reported: its agent has reported that.
        """
        self.flags(allow_resize_to_same_host=True)
        server, ids = self.boot_bound()
        home = self.host_of(server)
        for disk in home.disks.values():
            disk.reserved_gb = disk.total_gb - home.used(disk)[base.GB]
            home.publish(disk)
        if is_reported:
            self.report()
        before = self.claims(server['id'])
        self._resize_server(server, self.flavor(vdisks=3, vdisk_gb=100))
        self.assertNotEqual(home, self.host_of(server))
        self.assert_claims(server, [100] * 3)
        self.assertEqual(before, self.migration_claims(server))
        self._revert_resize(server)
        self.assertEqual(before, self.claims(server['id']))

    def test_files_move_cold_and_not_live(self):
        self.volumes.connection_type = 'gpfs'
        server, ids = self.boot_bound()
        host = self.host_of(server).name
        before = self.claims(server['id'])
        self._live_migrate(server, migration_expected_state='error')
        self.assertEqual(host, self.host_of(server).name)
        self.assertEqual(before, self.claims(server['id']))
        self.assertRegex(
            self.stdlog.logger.output,
            'can be on no other host, as volume .* is attached as a file',
        )
        self._migrate_server(server)
        self._confirm_resize(server)
        self.settle(server, ids)
        # it was attached as a block device there
        self._live_migrate(server)
        self.assertNotEqual(host, self.host_of(server))

    def test_the_driver_refuses(self):
        """Nova leaves the server on the other host, in error."""
        server, ids = self.boot_bound()
        source = self.host_of(server).name
        before = self.claims(server['id'])
        self.volumes.refused_volumes = ids
        self.api.post_server_action(server['id'], {'migrate': None})
        self._wait_for_state_change(server, 'ERROR')
        self._wait_for_migration_status(server, ['error'])
        destination = self.host_of(server).name
        self.assertNotEqual(source, destination)
        self.assertEqual({}, self.volumes.targets)
        self.assertEqual([destination], [*self.claims(server['id'])])
        self.volumes.refused_volumes = []
        self.reconcile()
        self.assertEqual([100] * 2, [*self.reserved(source).values()])
        # its data is where it was, and it comes back there
        self.api.post_server_action(
            server['id'], {'os-resetState': {'state': 'active'}}
        )
        self._migrate_server(server)
        self.assertEqual(source, self.host_of(server).name)
        self._confirm_resize(server)
        self.reconcile()
        self.assertEqual(before, self.claims(server['id']))
        self.assert_on_claimed_disks(self.places(ids), server)
        for host in self.hosts:
            self.assertEqual({}, self.reserved(host))


class SecondMoveTest(ServerMovesTestCase):
    """A server moves on before its data has arrived."""

    def setUp(self):
        super().setUp()
        self.server, self.ids = self.boot_bound()
        self.source = self.host_of(self.server).name
        self._migrate_server(self.server)
        self._confirm_resize(self.server)
        self.reconcile()
        self.destination = self.host_of(self.server).name
        (self.third,) = self.hosts.keys() - {self.source, self.destination}
        self.before = self.claims(self.server['id'])

    def assert_refused(self):
        self.assertRegex(
            self.stdlog.logger.output,
            f'Server {self.server["id"]} has vdisks on .* can be on no other '
            f'host, as volume .* has not settled: its data is on host '
            f'{self.source}',
        )

    def test_elsewhere_is_refused(self):
        self.api.microversion = '2.56'
        self.api.post_server_action(
            self.server['id'], {'migrate': {'host': self.third}}
        )
        self._assert_resize_migrate_action_fail(
            self.server, 'migrate', 'NoValidHost'
        )
        self.assertEqual(self.before, self.claims(self.server['id']))
        self.assert_refused()
        self.volumes.settle(*self.ids)
        self.reconcile()
        self._migrate_server(self.server, self.third)
        self.assertEqual(self.third, self.host_of(self.server).name)
        self.assert_on_claimed_disks(self.targets(self.ids), self.server)

    def test_back(self):
        self._migrate_server(self.server)
        self.assertEqual(self.source, self.host_of(self.server).name)
        # its vdisks are there, and are claimed where they are
        self.assert_on_claimed_disks(self.places(self.ids), self.server)
        self.assertEqual(self.before, self.migration_claims(self.server))
        self.assert_refused()
        self._confirm_resize(self.server)
        self.reconcile()
        self.assertEqual({}, self.volumes.targets)
        self.assert_on_claimed_disks(self.places(self.ids), self.server)
        for host in self.hosts:
            self.assertEqual({}, self.reserved(host))
        self.assert_gone(self.server, self.ids)

    def test_stay(self):
        self.flags(allow_resize_to_same_host=True)
        self._resize_server(self.server, self.flavor(vdisks=3, vdisk_gb=100))
        self.assertEqual(self.destination, self.host_of(self.server).name)
        disks = self.assert_claims(self.server, [100] * 3)
        self.assertLessEqual(
            {disk for _, disk in self.targets(self.ids)}, disks
        )

    def test_evacuation_finds_the_data(self):
        self.computes[self.destination].stop()
        self.api.put_service_force_down(
            self.computes[self.destination].service_ref.uuid, True
        )
        self._evacuate_server(self.server, expected_state='SHUTOFF')
        self.assertEqual(self.source, self.host_of(self.server).name)
        claims = self.claims(self.server['id'])[self.source]
        self.assertEqual(
            sorted((self.source, disk) for disk in claims),
            sorted(self.places(self.ids)),
        )

    def test_unshelve(self):
        self._shelve_server(self.server)
        self._wait_for_server_parameter(
            self.server, {'OS-EXT-SRV-ATTR:host': None}
        )
        self.reconcile()
        self._unshelve_server(self.server)
        # the destination has let go of it
        self.assertEqual(self.source, self.host_of(self.server).name)
        self.assertEqual({}, self.volumes.targets)
        self.assert_on_claimed_disks(self.places(self.ids), self.server)


class EvacuationTest(ServerMovesTestCase):
    def test_the_data_is_lost_with_the_host(self):
        server, _ = self.boot_bound()
        host = self.host_of(server).name
        before = self.claims(server['id'])
        self.computes[host].stop()
        self.api.put_service_force_down(
            self.computes[host].service_ref.uuid, True
        )
        self._evacuate_server(
            server,
            expected_state='ERROR',
            expected_task_state=None,
            expected_migration_status='error',
        )
        self.assertEqual(before, self.claims(server['id']))
        self.assertRegex(
            self.stdlog.logger.output,
            f'Server {server["id"]} has vdisks on the disks of host {host} '
            'and can be on no other host, as it is evacuated',
        )


class LostHostTest(ServerMovesTestCase):
    """The flavor lets its servers come back without their data."""

    asked = {'vdisks': 2, 'vdisk_gb': 100, 'on_host_loss': 'blank'}

    def setUp(self):
        super().setUp()
        # nothing is copied
        self.flags(moves=False, group='diskplacer_scheduler')
        self.server, self.ids = self.boot_bound()
        self.lost = self.host_of(self.server).name
        self.computes[self.lost].stop()

    def force_down(self):
        self.api.put_service_force_down(
            self.computes[self.lost].service_ref.uuid, True
        )

    def give_up(self):
        """Do as ``diskplacer-manage host give-up`` does."""
        for volume_id in self.ids:
            del self.volumes.places[volume_id]

    def test_it_comes_back_on_claimed_disks(self):
        self.force_down()
        self.give_up()
        self._evacuate_server(self.server, expected_state='SHUTOFF')
        host = self.host_of(self.server).name
        self.assertNotEqual(self.lost, host)
        claims = self.claims(self.server['id'])
        # as Nova does it: until the lost host is back, or is removed
        self.assertEqual({self.lost, host}, set(claims))
        self.assertEqual(
            [100] * 2, [claim[base.GB] for claim in claims[host].values()]
        )
        self.assertEqual(
            sorted((host, disk) for disk in claims[host]),
            sorted(self.places(self.ids)),
        )

    def test_it_stays_while_its_host_may_be_alive(self):
        """Its nova-compute does not answer, and nobody has fenced it."""
        before = self.claims(self.server['id'])
        service = 'nova.servicegroup.api.API.service_is_up'
        with mock.patch(
            service,
            lambda _, service: getattr(service, 'host', '') != self.lost,
        ):
            self._evacuate_server(
                self.server,
                expected_state='ERROR',
                expected_task_state=None,
                expected_migration_status='error',
            )
        self.assertEqual(before, self.claims(self.server['id']))
        self.assertIn(
            'and can be on no other host, as it is evacuated',
            self.stdlog.logger.output,
        )


class LostDestinationTest(ServerMovesTestCase):
    asked = LostHostTest.asked

    def test_data_that_has_not_arrived_is_kept(self):
        server, ids = self.boot_bound()
        source = self.host_of(server).name
        before = sorted(self.places(ids))
        self._migrate_server(server)
        self._confirm_resize(server)
        self.reconcile()
        lost = self.computes[self.host_of(server).name]
        lost.stop()
        self.api.put_service_force_down(lost.service_ref.uuid, True)
        self._evacuate_server(server, expected_state='SHUTOFF')
        self.assertEqual(source, self.host_of(server).name)
        self.assertEqual(before, sorted(self.places(ids)))
        self.assertEqual(
            before,
            sorted((source, d) for d in self.claims(server['id'])[source]),
        )


class OtherSizeTest(ServerMovesTestCase):
    def test_a_resize_to_another_size_does_not_change_hosts(self):
        server, ids = self.boot_bound()
        before = self.claims(server['id'])
        other = self.flavor(vdisks=2, vdisk_gb=50)
        # not to the same host
        self.api.post_server_action(
            server['id'], {'resize': {'flavorRef': other}}
        )
        self._assert_resize_migrate_action_fail(
            server, 'resize', 'NoValidHost'
        )
        self.assertEqual(before, self.claims(server['id']))
        self.assertRegex(
            self.stdlog.logger.output,
            f'can be on no other host, as volume ({"|".join(ids)}) has 100 '
            'GiB, and the flavor claims vdisks of 50 GiB',
        )


class OffTest(ServerMovesTestCase):
    """The option is off: servers stay, and Nova's tasks are not read."""

    def test_servers_stay(self):
        self.flags(moves=False, group='diskplacer_scheduler')
        server, _ = self.boot_bound()
        host = self.host_of(server).name
        before = self.claims(server['id'])
        with mock.patch.object(server_volumes, '_task_state') as read:
            self._live_migrate(server, migration_expected_state='error')
            self.api.post_server_action(server['id'], {'migrate': None})
            self._assert_resize_migrate_action_fail(
                server, 'migrate', 'NoValidHost'
            )
        read.assert_not_called()
        self.assertEqual(before, self.claims(server['id']))
        self.assertIn(
            f'Server {server["id"]} has vdisks on the disks of host {host} '
            'and can be on no other host: 2 of 2 hosts rejected.',
            self.stdlog.logger.output,
        )


class ShelveTest(ServerMovesTestCase):
    def setUp(self):
        super().setUp()
        self.server, self.ids = self.boot_bound()
        self.home = self.host_of(self.server)
        self._shelve_server(self.server)
        self._wait_for_server_parameter(
            self.server, {'OS-EXT-SRV-ATTR:host': None}
        )
        self.reconcile()
        self.assertEqual({}, self.claims(self.server['id']))

    def assert_elsewhere(self):
        self.assertNotEqual(self.home, self.host_of(self.server))
        self.assert_on_claimed_disks(self.targets(self.ids), self.server)
        self.settle(self.server, self.ids)
        self.assert_gone(self.server, self.ids)

    def test_home_comes_first(self):
        self._unshelve_server(self.server)
        self.assertEqual(self.home, self.host_of(self.server))
        self.assert_on_claimed_disks(self.places(self.ids), self.server)
        self.assertEqual({}, self.volumes.targets)

    def test_home_is_disabled(self):
        service = self.computes[self.home.name].service_ref.uuid
        self.api.put_service(service, {'status': 'disabled'})
        self._unshelve_server(self.server)
        self.assert_elsewhere()

    def test_home_is_full(self):
        # of what the server needs but its vdisks, which are there
        home = self._get_provider_uuid_by_host(self.home.name)
        inventories = self.placement.get(
            f'/resource_providers/{home}/inventories', version=base.VERSION
        ).body
        inventories['inventories']['VCPU']['reserved'] = inventories[
            'inventories'
        ]['VCPU']['total']
        done = self.placement.put(
            f'/resource_providers/{home}/inventories',
            inventories,
            version=base.VERSION,
        )
        self.assertEqual(200, done.status)
        self._unshelve_server(self.server)
        self.assert_elsewhere()

    def test_home_has_no_throughput_left(self):
        asked = {**self.asked, 'vdisk_mbps': 100}
        server, ids = self.boot_bound(self.flavor(**asked))
        home = self.host_of(server)
        self._shelve_server(server)
        self._wait_for_server_parameter(server, {'OS-EXT-SRV-ATTR:host': None})
        # 50 of 150 MB/s are left on each disk
        self.boot(
            self.flavor(vdisks=6, vdisk_gb=10, vdisk_mbps=100), host=home.name
        )
        self.reconcile()
        self._unshelve_server(server)
        self.assertNotEqual(home, self.host_of(server))
        disks = self.assert_claims(server, [100] * 2, [100] * 2)
        self.assertEqual(disks, {disk for _, disk in self.targets(ids)})

    def test_another_host_is_named(self):
        self.api.microversion = '2.91'
        other = min(self.hosts.keys() - {self.home.name})
        self.api.post_server_action(
            self.server['id'], {'unshelve': {'host': other}}
        )
        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assertEqual(other, self.host_of(self.server).name)
        self.assert_elsewhere()


class LiveTest(ServerMovesTestCase):
    def test_completed(self):
        server, ids = self.boot_bound()
        source = self.host_of(server).name
        self._live_migrate(server)
        self.assertNotEqual(source, self.host_of(server).name)
        self.assertEqual({}, self.migration_claims(server))
        self.assert_on_claimed_disks(self.targets(ids), server)
        self.settle(server, ids)
        self.assert_gone(server, ids)

    def test_the_driver_refuses(self):
        server, ids = self.boot_bound()
        source = self.host_of(server).name
        before = self.claims(server['id'])
        for refused in (ids, ids[1:]):
            # the second time the first volume has its target already
            self.volumes.refused_volumes = refused
            self._live_migrate(server, migration_expected_state='failed')
            self.assertEqual(source, self.host_of(server).name)
            self.assertEqual(before, self.claims(server['id']))
            self.assertEqual({}, self.migration_claims(server))
            self.assertEqual({}, self.volumes.targets)
            self.reconcile()
            for host in self.hosts:
                self.assertEqual({}, self.reserved(host))
        # Nova's record is that of the source again
        self.volumes.refused_volumes = []
        self._live_migrate(server)
        self.settle(server, ids)

    def test_volumes_beyond_the_flavor_stay(self):
        server, ids = self.boot_bound(number=3)
        host = self.host_of(server).name
        before = self.claims(server['id'])
        self._live_migrate(server, migration_expected_state='error')
        self.assertEqual(host, self.host_of(server).name)
        self.assertEqual(before, self.claims(server['id']))
        self.assertIn(
            'as it has 3 vdisks, and its flavor claims 2 elsewhere',
            self.stdlog.logger.output,
        )
        self.api.delete_server_volume(server['id'], ids[2])
        self._wait_for_volume_detach(server['id'], ids[2])
        self.reconcile()
        self._live_migrate(server)
        # the detached one stays
        self.assertEqual(host, self.places(ids)[2][0])
        self.assert_on_claimed_disks(self.targets(ids[:2]), server)
        self.volumes.settle(*ids[:2])
        self.reconcile()
        self.assert_on_claimed_disks(self.places(ids[:2]), server)
        self.assertEqual([self.places(ids)[2][1]], [*self.reserved(host)])


class AbortTest(ServerMovesTestCase):
    """A live migration runs until it is aborted or completed."""

    compute_driver = 'fake.FakeLiveMigrateDriver'

    def test_abort(self):
        server, ids = self.boot_bound()
        source = self.host_of(server).name
        before = self.claims(server['id'])
        self.api.post_server_action(
            server['id'],
            {'os-migrateLive': {'host': None, 'block_migration': 'auto'}},
        )
        migration = self._wait_for_migration_status(server, ['running'])
        targets = dict(self.targets(ids))
        (destination,) = targets
        self.assertEqual(before, self.migration_claims(server))
        self.assertEqual(
            sorted(self.targets(ids)),
            sorted(
                (destination, disk)
                for disk in self.claims(server['id'])[destination]
            ),
        )
        self.api.delete_migration(server['id'], migration['id'])
        self._wait_for_migration_status(server, ['cancelled'])
        self._wait_for_state_change(server, 'ACTIVE')
        self.assertEqual(source, self.host_of(server).name)
        self.assertEqual(before, self.claims(server['id']))
        self.assertEqual({}, self.migration_claims(server))
        self.assertEqual({}, self.volumes.targets)
        self.reconcile()
        for host in self.hosts:
            self.assertEqual({}, self.reserved(host))
        self.assert_on_claimed_disks(self.places(ids), server)


class RaceTest(ServerMovesTestCase):
    """Servers go to the one other host while its disks are taken."""

    hosts_count = 2
    disks_count = 4
    disk = {'total_gb': 100}

    def boot_there(self):
        server = self.boot(self.vdisks, host='host0')
        ids = [self.volumes.create(100) for _ in range(2)]
        for volume_id in ids:
            self.attach(server, volume_id)
        self.reconcile()
        return server, ids

    def test_two_at_once(self):
        servers = {
            server['id']: ids
            for server, ids in (self.boot_there() for _ in range(2))
        }
        before = {server: self.claims(server) for server in servers}
        barrier = threading.Barrier(2)

        def migrate(server):
            barrier.wait()
            self.api.post_server_action(server, {'migrate': None})

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(migrate, servers))
        taken = []
        for server, ids in servers.items():
            server = {'id': server}
            self._wait_for_state_change(server, 'VERIFY_RESIZE')
            taken += self.assert_on_claimed_disks(self.targets(ids), server)
            self.assertEqual(
                before[server['id']], self.migration_claims(server)
            )
        self.assertEqual(self.hosts['host1'].disks.keys(), set(taken))

    def taken_by_another(self, server, disks):
        """Have another scheduler claim disks when this one first claims.

        :param disks: how many: those that are about to be claimed first.
        """
        claim = scheduler_utils.claim_resources
        root = self.hosts['host1'].provider
        tries = []

        def late(context, client, spec, consumer, request, **more):
            if not tries:
                chosen = [*request['allocations'].keys() - {root}]
                rest = self.hosts['host1'].disks.keys() - {*chosen}
                taken = self.placement.put(
                    f'/allocations/{uuid.uuid4()}',
                    {
                        'allocations': {
                            disk: {'resources': {base.GB: 100}}
                            for disk in [*chosen, *rest][:disks]
                        },
                        'project_id': 'p',
                        'user_id': 'u',
                        'consumer_generation': None,
                        'consumer_type': 'INSTANCE',
                    },
                    version='1.38',
                )
                self.assertEqual(204, taken.status)
            tries.append(consumer)
            return claim(context, client, spec, consumer, request, **more)

        self.stub_out('nova.scheduler.utils.claim_resources', late)
        return tries

    def test_another_scheduler_takes_the_disks(self):
        server, ids = self.boot_there()
        tries = self.taken_by_another(server, 2)
        self._live_migrate(server)
        self.assertEqual([server['id']] * 2, tries)
        self.assertEqual('host1', self.host_of(server).name)
        self.assert_on_claimed_disks(self.targets(ids), server)

    def test_another_scheduler_takes_too_many(self):
        server, ids = self.boot_there()
        before = self.claims(server['id'])
        tries = self.taken_by_another(server, 3)
        self._live_migrate(server, migration_expected_state='error')
        self.assertEqual([server['id']], list(set(tries)))
        self.assertEqual('host0', self.host_of(server).name)
        self.assertEqual(before, self.claims(server['id']))
        self.assertEqual({}, self.migration_claims(server))
        self.assertEqual({}, self.volumes.targets)
