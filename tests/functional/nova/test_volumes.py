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

"""Servers with volumes that are vdisks are booted and moved."""

from importlib import metadata

from nova_diskplacer.scheduler import report_listener
from tests.functional.nova import base

# Placement 13, that of 2025.1, refuses to give a claim to another consumer if
# its provider has more reserved than it has left.
MOVES_ON_FULL_DISKS = (
    int(metadata.version('openstack-placement').partition('.')[0]) > 13
)


def blank(number, size_gb):
    """Return block device mappings of an image and blank volumes."""
    image = {
        'boot_index': 0,
        'uuid': '155d900f-4e14-4e4c-a73d-069cbf4541e6',
        'source_type': 'image',
        'destination_type': 'local',
    }
    return [image] + [
        {
            'boot_index': -1,
            'source_type': 'blank',
            'destination_type': 'volume',
            'volume_size': size_gb,
        }
    ] * number


class VolumesTestCase(base.CloudTestCase):
    """Two hosts; a server goes to the one with more memory left."""

    hosts_count = 2
    disks_count = 2
    disk = {'total_gb': 100}

    def setUp(self):
        super().setUp()
        self.plain = self._create_flavor(
            memory_mb=512, vcpu=1, disk=1, ephemeral=0
        )

    def fill(self, host):
        """Have Nova prefer other hosts."""
        large = self._create_flavor(
            memory_mb=4096, vcpu=1, disk=1, ephemeral=0
        )
        self.boot(large, availability_zone=f'nova:{host}')

    def boot_bound(self, flavor):
        """Boot a server of a flavor without vdisks and attach one."""
        server = self.boot(flavor)
        volume = self.volumes.create(100)
        self.attach(server, volume)
        host = self.host_of(server).name
        self.assertEqual(host, self.volumes.places[volume][0])
        self.reconcile()
        self.fill(host)
        return server, host, volume

    def assert_kept(self, server, host):
        self.assertEqual(host, self.host_of(server).name)
        self.assertRegex(
            self.stdlog.logger.output,
            f'Server {server["id"]} has vdisks on the disks of host {host} ',
        )

    def shelve(self, server):
        self.flags(shelved_offload_time=0)
        self._shelve_server(server)
        self._wait_for_server_parameter(server, {'OS-EXT-SRV-ATTR:host': None})
        self.reconcile()


class BlankVolumesTestCase(VolumesTestCase):
    """Volumes that Nova creates when a server boots."""

    def boot_with_volumes(self, flavor, number, size_gb):
        server = self.boot(
            flavor, block_device_mapping_v2=blank(number, size_gb)
        )
        volumes = list(self.volumes.volume_ids_for_instance(server['id']))
        self.assertEqual(number, len(volumes))
        self.reconcile()
        return server, volumes

    def places(self, volumes):
        return sorted(self.volumes.places[volume] for volume in volumes)

    def test_unshelve_claims_throughput(self):
        asked = {'vdisk_gb': 60, 'vdisk_mbps': 100}
        flavor = self.flavor(vdisks=2, **asked)
        server, volumes = self.boot_with_volumes(flavor, 2, 60)
        host = self.host_of(server)
        disks = self.assert_claims(server, [60] * 2, [100] * 2)
        self.assertEqual(
            sorted((host.name, disk) for disk in disks), self.places(volumes)
        )
        self.shelve(server)
        self.assertEqual({}, self.claims(server['id']))
        self._unshelve_server(server)
        self.assertEqual(host, self.host_of(server))
        # its disks reserve the space all the time
        self.assertEqual(
            {host.name: {disk: {base.MBPS: 100} for disk in disks}},
            self.claims(server['id']),
        )
        self.reconcile()
        self.assertEqual(
            [60] * 2, [d.reserved_gb for d in host.disks.values()]
        )
        # 50 of 150 MB/s are left there
        other = self.boot(self.flavor(vdisks=2, vdisk_gb=10, vdisk_mbps=100))
        self.assertNotEqual(host, self.host_of(other))
        self.refuse(self.flavor(vdisks=1, vdisk_gb=10, vdisk_mbps=100))
        self._delete_server(server)
        self.assertEqual(
            0, sum(host.used(d).total() for d in host.disks.values())
        )

    def test_resize_to_a_flavor_without_vdisks_stays_on_its_host(self):
        self.flags(allow_resize_to_same_host=True)
        # the disks are full: there is no room to claim anything twice
        server, _ = self.boot_with_volumes(
            self.flavor(vdisks=2, vdisk_gb=100), 2, 100
        )
        host = self.host_of(server)
        claims = self.claims(server['id'])
        self.fill(host.name)
        self._resize_server(server, self.plain)
        self.assert_kept(server, host.name)
        self.assertEqual({}, self.claims(server['id']))
        # meanwhile the agent finds that no claim of the server covers them
        self.reconcile()
        self._revert_resize(server)
        self.assertEqual(
            claims if MOVES_ON_FULL_DISKS else {}, self.claims(server['id'])
        )
        self.reconcile()
        self.notifier.reset()
        self._resize_server(server, self.plain)
        self._confirm_resize(server)
        self.assert_kept(server, host.name)
        self.reconcile()
        self.assertEqual(
            [100] * 2, [disk.reserved_gb for disk in host.disks.values()]
        )
        # and it stays there for good
        self.api.post_server_action(server['id'], {'migrate': None})
        self._assert_resize_migrate_action_fail(
            server, 'migrate', 'NoValidHost'
        )

    def test_volumes_of_a_server_whose_user_is_no_administrator(self):
        self.flags(allow_resize_to_same_host=True)
        administrator, self.api = self.api, self.api_fixture.api
        self.api.microversion = administrator.microversion
        server, _ = self.boot_with_volumes(
            self.flavor(vdisks=2, vdisk_gb=50), 2, 50
        )
        self._resize_server(server, self.plain)
        self.api = administrator
        self.assert_kept(server, self.host_of(server).name)

    def test_a_host_named_by_the_availability_zone_claims_nothing(self):
        flavor = self.flavor(vdisks=2, vdisk_gb=100)
        for _ in range(2):
            server = self.boot(flavor, availability_zone='nova:host1')
            self.assertEqual('host1', self.host_of(server).name)
            self.assertEqual({}, self.claims(server['id']))
        # the filters see a host that is asked for by its name
        self.api.microversion = '2.74'
        server = self.boot(flavor, host='host1')
        self.assertEqual('host1', self.host_of(server).name)
        self.assert_claims(server, [100] * 2)
        self.refuse(flavor, host='host1')


class NoVDisksAskedTestCase(VolumesTestCase):
    """Servers whose flavors ask for no vdisks, but have some."""

    def test_a_plain_server_with_a_bound_vdisk_does_not_move(self):
        server, host, volume = self.boot_bound(self.plain)
        self.api.post_server_action(server['id'], {'migrate': None})
        self._assert_resize_migrate_action_fail(
            server, 'migrate', 'NoValidHost'
        )
        self.assert_kept(server, host)
        # a scheduler that was restarted does not know of the vdisk
        self.flags(warmup_timeout=1.0, group='diskplacer_scheduler')
        self.hosts[host].reporting = False
        report_listener.reset()
        self.report()
        self._live_migrate(server, migration_expected_state='error')
        self.assertEqual(host, self.host_of(server).name)
        self.hosts[host].reporting = True
        self.report()
        self.shelve(server)
        self._unshelve_server(server)
        self.assert_kept(server, host)
        self.assertEqual({}, self.claims(server['id']))
        # without its vdisk it may go
        self.api.delete_server_volume(server['id'], volume)
        self._wait_for_volume_detach(server['id'], volume)
        self._migrate_server(server)
        self.assertNotEqual(host, self.host_of(server).name)

    def test_a_server_with_a_usage_tier_and_a_bound_vdisk(self):
        server, host, _ = self.boot_bound(self.flavor(io_tier='gold'))
        self.api.post_server_action(server['id'], {'migrate': None})
        self._assert_resize_migrate_action_fail(
            server, 'migrate', 'NoValidHost'
        )
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
        self.assert_kept(server, host)

    def test_a_plain_server_boots_where_its_volume_is(self):
        server, host, volume = self.boot_bound(self.plain)
        self.api.delete_server_volume(server['id'], volume)
        self._wait_for_volume_detach(server['id'], volume)
        mapping = {
            'boot_index': -1,
            'uuid': volume,
            'source_type': 'volume',
            'destination_type': 'volume',
        }
        other = self.boot(
            self.plain, block_device_mapping_v2=[*blank(0, 0), mapping]
        )
        self.assert_kept(other, host)


class KeptVolumesTestCase(VolumesTestCase):
    """A server brings the vdisks of one that was deleted, or of none."""

    disks_count = 3

    def test_they_are_the_vdisks_of_the_next_server(self):
        self.assert_vdisks_of_the_next_server()

    def test_vdisks_of_no_server_are_those_of_the_next_one(self):
        """As of clones."""
        self.assert_vdisks_of_the_next_server(is_owned=False)

    def assert_vdisks_of_the_next_server(self, is_owned=True):
        """Check what the next server claims.

        :param is_owned: the vdisks were bound for the deleted one.
        """
        flavor = self.flavor(vdisks=2, vdisk_gb=100, vdisk_mbps=50)
        server = self.boot(flavor)
        kept = [self.volumes.create(100) for _ in range(2)]
        for volume in kept:
            self.attach(server, volume)
        host = self.host_of(server).name
        for volume in kept:
            self.api.delete_server_volume(server['id'], volume)
            self._wait_for_volume_detach(server['id'], volume)
        self._delete_server(server)
        if not is_owned:
            for disk in self.hosts[host].disks.values():
                for vdisk in disk.vdisks:
                    vdisk['server_id'] = None
        self.reconcile()
        self.fill(host)
        # one disk is left, and it needs none
        other = self.boot(
            flavor,
            block_device_mapping_v2=[
                *blank(0, 0),
                *(
                    {
                        'boot_index': -1,
                        'uuid': volume,
                        'source_type': 'volume',
                        'destination_type': 'volume',
                    }
                    for volume in kept
                ),
            ],
        )
        self.assert_kept(other, host)
        disks = {self.volumes.places[volume][1] for volume in kept}
        self.assertEqual(
            {host: {disk: {base.MBPS: 50} for disk in disks}},
            self.claims(other['id']),
        )


class RescheduleTestCase(VolumesTestCase):
    """A compute fails to build a server whose volumes are bound there."""

    compute_driver = 'fake.FakeRescheduleDriver'

    def test_the_alternate_claims_disks_for_the_volumes(self):
        self.volumes.hand_over = True
        server = self.boot(
            self.flavor(vdisks=2, vdisk_gb=100),
            block_device_mapping_v2=blank(2, 100),
        )
        self.assertRegex(
            self.stdlog.logger.output, f'{server["id"]} was re-scheduled'
        )
        disks = self.assert_claims(server, [100] * 2)
        self.assertEqual(
            {(self.host_of(server).name, disk) for disk in disks},
            set(self.volumes.places.values()),
        )
        self.reconcile()
        for host in self.hosts.values():
            for disk in host.disks.values():
                self.assertEqual(0, disk.reserved_gb)
