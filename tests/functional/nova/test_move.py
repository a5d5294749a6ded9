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

"""Servers with vdisks are resized, migrated and evacuated.

A vdisk is bound when it has been attached. Moves of servers whose flavors ask
for no vdisks are in ``test_volumes``.
"""

import functools
from unittest import mock

from nova.conductor.tasks import migrate as migrate_task

from tests.functional.nova import base


class MoveTestCase(base.CloudTestCase):
    """Two hosts can take a server, so that it has somewhere to go."""

    hosts_count = 2

    def setUp(self):
        super().setUp()
        self.vdisks = self.flavor(vdisks=2, vdisk_gb=100)

    def migration_claims(self, server):
        migration = self.get_migration_uuid_for_instance(server['id'])
        return self.claims(migration)

    def boot_bound(self):
        """Boot a server whose vdisks are bound."""
        server = self.boot(self.vdisks)
        for _ in range(2):
            self.attach(server, self.volumes.create(100))
        self.report()
        return server

    def assert_refused_for_vdisks(self, server):
        host = self.host_of(server).name
        self.assertRegex(
            self.stdlog.logger.output,
            f'Server {server["id"]} has vdisks on the disks of host {host} ',
        )

    def test_resize_to_same_host(self):
        self.flags(allow_resize_to_same_host=True)
        # the other host's disks are too small for the new flavor
        server = self.boot(self.vdisks)
        host = self.host_of(server)
        (other,) = set(self.hosts.values()) - {host}
        for disk in other.disks.values():
            disk.reserved_gb = 900
            other.publish(disk)
        self.report()
        old = self.claims(server['id'])
        larger = self.flavor(vdisks=3, vdisk_gb=200)
        self._resize_server(server, larger)
        self.assert_claims(server, [200] * 3)
        self.assertEqual(old, self.migration_claims(server))
        self._revert_resize(server)
        self.assertEqual(old, self.claims(server['id']))
        self.assert_claims(server, [100] * 2)

        self.report()
        self._resize_server(server, larger)
        self._confirm_resize(server)
        self.assert_claims(server, [200] * 3)
        self._delete_server(server)
        self.assert_unused()

    def test_migrate(self):
        server = self.boot(self.vdisks)
        source = self.host_of(server).name
        old = self.claims(server['id'])
        self._migrate_server(server)
        self.assertNotEqual(source, self.host_of(server).name)
        self.assert_claims(server, [100] * 2)
        self.assertEqual(old, self.migration_claims(server))
        self._revert_resize(server)
        self.assertEqual(old, self.claims(server['id']))

        self._migrate_server(server)
        self._confirm_resize(server)
        self.assertNotEqual(source, self.host_of(server).name)
        self.assert_claims(server, [100] * 2)
        self._delete_server(server)
        self.assert_unused()

    def test_migrate_off_disks_that_were_measured(self):
        """They have less throughput than the server claims of them."""
        server = self.boot(self.flavor(vdisks=2, vdisk_gb=100, vdisk_mbps=140))
        source = self.host_of(server)
        old = self.claims(server['id'])
        for disk in source.disks.values():
            disk.total_mbps = 122
            source.publish(disk)
        self.report()
        self._migrate_server(server)
        self.assertIsNot(source, self.host_of(server))
        self.assertEqual(old, self.migration_claims(server))
        self._revert_resize(server)
        self.assertEqual(old, self.claims(server['id']))

    def test_live_migrate(self):
        server = self.boot(self.vdisks)
        source = self.host_of(server).name
        self._live_migrate(server)
        self.assertNotEqual(source, self.host_of(server).name)
        self.assert_claims(server, [100] * 2)

    def test_shelve_and_unshelve(self):
        self.flags(shelved_offload_time=0)
        server = self.boot(self.vdisks)
        self._shelve_server(server)
        # the host lets go of it last
        self._wait_for_server_parameter(server, {'OS-EXT-SRV-ATTR:host': None})
        self.assert_unused()
        self._unshelve_server(server)
        self.assert_claims(server, [100] * 2)

    def test_migrate_with_bound_vdisks_is_refused(self):
        server = self.boot_bound()
        old = self.claims(server['id'])
        self.api.post_server_action(server['id'], {'migrate': None})
        self._assert_resize_migrate_action_fail(
            server, 'migrate', 'NoValidHost'
        )
        self.assertEqual(old, self.claims(server['id']))
        self.assert_refused_for_vdisks(server)
        self.assert_not_oversold()

    def test_resize_with_bound_vdisks_stays_on_its_host(self):
        self.flags(allow_resize_to_same_host=True)
        server = self.boot_bound()
        host = self.host_of(server).name
        (bound,) = self.claims(server['id']).values()
        self._resize_server(server, self.flavor(vdisks=4, vdisk_gb=100))
        self.assertEqual(host, self.host_of(server).name)
        disks = self.assert_claims(server, [100] * 4)
        # the vdisks that it has stay claimed where they are
        self.assertLessEqual(set(bound), disks)
        self._confirm_resize(server)
        self.assertEqual(disks, self.assert_claims(server, [100] * 4))
        self._delete_server(server)
        self.assert_unused()

    def resize_while_agents_look(self, server, flavor):
        """Resize; the agents look when the migration has got the claim."""
        move = migrate_task.replace_allocation_with_migration

        @functools.wraps(move)
        def moved(*args, **kwargs):
            result = move(*args, **kwargs)
            for host in self.hosts.values():
                host.reconcile()
            return result

        with mock.patch.object(
            migrate_task, 'replace_allocation_with_migration', moved
        ):
            self._resize_server(server, flavor)

    def test_resize_to_more_vdisks_holds_the_space_of_the_new_ones(self):
        self.flags(allow_resize_to_same_host=True)
        asked = {'vdisk_gb': 100, 'mapping': 'consolidated'}
        server = self.boot(self.flavor(vdisks=2, **asked))
        host = self.host_of(server)
        for _ in range(2):
            self.attach(server, self.volumes.create(100))
        (disk,) = self.claims(server['id'])[host.name]
        # a snapshot, and the vdisk of somebody else
        snapshot = {'volume_id': 's', 'server_id': None, 'is_snapshot': True}
        host.disks[disk].vdisks += [
            {**snapshot, 'size_gb': 50},
            {'volume_id': 'o', 'server_id': 'other', 'size_gb': 70},
        ]
        # the new one goes to the same disk
        for other in host.disks.keys() - {disk}:
            host.disks[other].health = 'missing'
        self.reconcile()
        self.resize_while_agents_look(server, self.flavor(vdisks=3, **asked))
        self.assertEqual(
            {host.name: {disk: {base.GB: 300}}}, self.claims(server['id'])
        )
        self._confirm_resize(server)
        self.reconcile()
        self.assert_claims(server, [300])
        self.assertEqual(120, host.disks[disk].reserved_gb)
        # what it has claimed is there when it is needed
        there = {'host': host.name}
        self.refuse(self.flavor(vdisks=1, vdisk_gb=581), **there)
        self.boot(self.flavor(vdisks=1, vdisk_gb=580), **there)
        self.attach(server, self.volumes.create(100))
        self.assert_not_oversold()
        self.reconcile()
        self.assertEqual(120, host.disks[disk].reserved_gb)

    def test_evacuate(self):
        server = self.boot(self.vdisks)
        source = self.host_of(server).name
        self.stop(source)
        self._evacuate_server(server, expected_state='SHUTOFF')
        target = self.host_of(server).name
        self.assertNotEqual(source, target)
        # as Nova does it: until the source host is back, both are claimed
        claims = self.claims(server['id'])
        self.assertEqual({source, target}, set(claims))
        for disks in claims.values():
            self.assertEqual([100] * 2, [c[base.GB] for c in disks.values()])
        self.assert_not_oversold()
        self.computes[source] = self.restart_compute_service(
            self.computes[source]
        )
        self._wait_for_assert(
            lambda: self.assertEqual([target], list(self.claims(server['id'])))
        )

    def test_evacuate_with_bound_vdisks_is_refused(self):
        server = self.boot_bound()
        host = self.host_of(server).name
        old = self.claims(server['id'])
        self.stop(host)
        self._evacuate_server(
            server,
            expected_state='ERROR',
            expected_task_state=None,
            expected_migration_status='error',
        )
        self.assertEqual(old, self.claims(server['id']))
        self.assert_refused_for_vdisks(server)

    def stop(self, host):
        """Stop a compute and say that it is down."""
        self.computes[host].stop()
        self.api.put_service_force_down(
            self.computes[host].service_ref.uuid, True
        )
