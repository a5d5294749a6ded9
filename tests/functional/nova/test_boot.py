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

"""Servers with vdisks are booted and deleted."""

import itertools

from nova.tests.functional.api import client

from nova_diskplacer.scheduler import decision_log
from nova_diskplacer.scheduler import report_listener
from nova_diskplacer.scheduler import server_volumes
from tests.functional.nova import base


class BootTestCase(base.CloudTestCase):
    """One request at a time."""

    def test_round_robin_takes_distinct_disks(self):
        flavor = self.flavor(vdisks=4, vdisk_gb=100, vdisk_mbps=20)
        server = self.boot(flavor)
        self.assert_claims(server, [100] * 4, [20] * 4)
        # the periodic task of nova-compute leaves the disks alone
        self._run_periodics()
        self.assert_claims(server, [100] * 4, [20] * 4)
        self._delete_server(server)
        self.assertEqual({}, self.allocations(server['id']))
        self.assert_unused()

    def test_round_robin_spreads_evenly_above_one_per_disk(self):
        flavor = self.flavor(vdisks=8, vdisk_gb=10, vdisks_per_disk=2)
        self.assert_claims(self.boot(flavor), [20] * 2 + [10] * 4)

    def test_consolidated_takes_one_disk(self):
        flavor = self.flavor(vdisks=4, vdisk_gb=100, mapping='consolidated')
        first = self.assert_claims(self.boot(flavor), [400])
        self.report()
        # the next one goes on the disk in use, not on an empty one
        self.assertEqual(first, self.assert_claims(self.boot(flavor), [400]))

    def test_round_robin_prefers_the_least_committed_host(self):
        flavor = self.flavor(vdisks=6, vdisk_gb=100)
        hosts = set()
        for _ in self.hosts:
            server = self.boot(flavor)
            self.assert_claims(server, [100] * 6)
            hosts.add(self.host_of(server).name)
            self.report()
        self.assertEqual(set(self.hosts), hosts)

    def test_multi_create(self):
        flavor = self.flavor(vdisks=2, vdisk_gb=600)
        self.api.post_server(self.request(flavor, min_count=8))
        servers = self.api.get_servers(detail=False)
        self.assertEqual(8, len(servers))
        taken = self.assert_distinct_disks(servers, [600] * 2)
        self.assertEqual(16, len(taken))
        for server in servers:
            self._delete_server(server)
        self.assert_unused()

    def test_multi_create_that_does_not_fit_claims_nothing(self):
        flavor = self.flavor(vdisks=6, vdisk_gb=600)
        self.api.post_server(self.request(flavor, min_count=4))
        for server in self.api.get_servers(detail=False):
            self.assertEqual('ERROR', self.settled(server)['status'])
            self.assertEqual({}, self.allocations(server['id']))
        self.assert_unused()

    def test_too_large_is_refused(self):
        self.refuse(self.flavor(vdisks=7, vdisk_gb=10))
        self.refuse(self.flavor(vdisks=1, vdisk_gb=1001))
        self.refuse(
            self.flavor(
                vdisks=2, vdisk_gb=501, mapping='round_robin', media='ssd'
            )
        )
        self.refuse(self.flavor(vdisks=1, vdisk_gb=10, vdisk_mbps=151))

    def test_deleted_room_is_found_before_the_next_report(self):
        flavor = self.flavor(vdisks=6, vdisk_gb=1000)
        servers = [self.boot(flavor) for _ in self.hosts]
        self.report()
        self.refuse(flavor)
        self._delete_server(servers[0])
        # as if a second had passed since the last look
        report_listener.get_cache()._next_room_query = float('-inf')
        self.assert_claims(self.boot(flavor), [1000] * 6)


class DecisionLogTestCase(base.CloudTestCase):
    """nova-scheduler's log tells why disks are chosen and hosts rejected."""

    def logged(self, boot, flavor):
        """Boot a server; return it, and the debug lines meanwhile."""
        with self.assertLogs(decision_log.LOG.logger, 'DEBUG') as logs:
            server = boot(flavor)
        return server, [record.getMessage() for record in logs.records]

    def test_chosen_disks_and_rejected_hosts(self):
        for disk in self.hosts['host1'].disks.values():
            disk.medium = 'ssd'
        self.hosts['host2'].reporting = False
        self.report()
        flavor = self.flavor(
            vdisks=2, vdisk_gb=100, vdisk_mbps=20, media='hdd'
        )
        server, lines = self.logged(self.boot, flavor)
        self.assertEqual('host0', self.host_of(server).name)
        claimed = self.assert_claims(server, [100] * 2, [20] * 2)
        id_ = server['id']
        self.assertEqual(4, len(lines), lines)
        self.assertEqual(
            f'2 of 3 hosts are rejected for server {id_}: no fresh report '
            'from diskplacer-agent: 1, too few disks with the medium: 1',
            self.ordered(lines[0]),
        )
        self.assertEqual(
            [
                f'Host host1 is rejected for server {id_}: too few disks with '
                'the medium (0 disks that may be used)',
                f'Host host2 is rejected for server {id_}: no fresh report '
                'from diskplacer-agent',
            ],
            sorted(lines[1:3]),
        )
        self.assertIn(
            f'Server {id_} is to claim disks of host host0 (try 1): ', lines[3]
        )
        for disk in claimed:
            self.assertIn(
                f'{disk} (100 {base.GB}, 20 {base.MBPS}, load 0.0000)',
                lines[3],
            )
        self.assertIn(
            'Weight 1000.0000 = 1000 x score 1.0000 (round_robin) - '
            '10 x pressure 0.0000',
            lines[3],
        )

    def ordered(self, summary):
        """Return a summary with its reasons, of one host each, in order."""
        start, _, reasons = summary.partition(': ')
        return f'{start}: ' + ', '.join(sorted(reasons.split(', ')))

    def test_a_refused_server(self):
        self.report()
        server, lines = self.logged(
            self.refuse, self.flavor(vdisks=1, vdisk_gb=1001)
        )
        self.assertEqual(4, len(lines), lines)
        self.assertEqual(
            f'3 of 3 hosts are rejected for server {server["id"]}: not '
            'enough free GiB: 3',
            lines[0],
        )
        for line in lines[1:]:
            self.assertIn(
                '(6000 GiB on 6 disks, at most 1000 on one)',
                line,
            )

    def test_nothing_at_info(self):
        self.report()
        with self.assertNoLogs(decision_log.LOG.logger, 'INFO'):
            self.boot(self.flavor(vdisks=1, vdisk_gb=10))
            self.refuse(self.flavor(vdisks=1, vdisk_gb=1001))


class ConflictTestCase(base.CloudTestCase):
    """Placement knows more than the agents have reported."""

    hosts_count = 2
    disks_count = 4

    def fill(self, disks, gb):
        """Claim room behind the scheduler's back."""
        for disk in disks:
            self.placement.put(
                f'/allocations/{disk.uuid}',
                {
                    'allocations': {disk.uuid: {'resources': {base.GB: gb}}},
                    'project_id': 'other',
                    'user_id': 'other',
                    'consumer_generation': None,
                    'consumer_type': 'UNKNOWN',
                },
                version='1.38',
            )
            self.assertEqual(gb, self.used(disk))

    def used(self, disk):
        return self.hosts['host0'].used(disk)[base.GB]

    def test_other_disks_of_the_host(self):
        self.report()
        filled = set()
        for host in self.hosts.values():
            disks = list(host.disks.values())[:2]
            self.fill(disks, 950)
            filled |= {disk.uuid for disk in disks}
        server = self.boot(self.flavor(vdisks=2, vdisk_gb=100))
        self.assertEqual(set(), filled & self.assert_claims(server, [100] * 2))

    def test_next_host(self):
        self.report()
        self.fill(self.hosts['host0'].disks.values(), 950)
        for _ in range(3):
            server = self.boot(self.flavor(vdisks=4, vdisk_gb=100))
            self.assert_claims(server, [100] * 4)
            self.assertEqual('host1', self.host_of(server).name)

    def test_no_host(self):
        self.report()
        for host in self.hosts.values():
            self.fill(list(host.disks.values())[:1], 950)
        self.refuse(self.flavor(vdisks=4, vdisk_gb=100))
        self.assert_not_oversold()


class ReportTestCase(base.CloudTestCase):
    """What the scheduler knows of a host comes from its agent."""

    hosts_count = 2
    disks_count = 4

    def setUp(self):
        super().setUp()
        self.plain = self._create_flavor(
            memory_mb=512, vcpu=1, disk=1, ephemeral=0
        )
        self.vdisks = self.flavor(vdisks=1, vdisk_gb=10)

    def test_plain_request_needs_no_report(self):
        self.flags(warmup_timeout=1.0, group='diskplacer_scheduler')
        for host in self.hosts.values():
            host.reporting = False
        read = []
        volumes = server_volumes.read

        def counted(context, server_id, may_leave):
            read.append(server_id)
            return volumes(context, server_id, may_leave)

        self.stub_out('nova_diskplacer.scheduler.server_volumes.read', counted)
        server = self.boot(self.plain)
        self.assertEqual({}, self.claims(server['id']))
        # whether it brings a vdisk
        self.assertEqual([server['id']], read)
        # not even a listener was started for it
        self.assertEqual({}, report_listener._listeners)
        self.refuse(self.vdisks)
        self.assert_unused()

    def test_host_without_report_is_left_out(self):
        self.flags(warmup_timeout=1.0, group='diskplacer_scheduler')
        self.hosts['host0'].reporting = False
        self.report()
        for _ in range(3):
            server = self.boot(self.vdisks)
            self.assert_claims(server, [10])
            self.assertEqual('host1', self.host_of(server).name)

    def test_report_expires(self):
        self.flags(report_timeout=1000, group='diskplacer_scheduler')
        self.report()
        self.boot(self.vdisks)
        cache = report_listener.get_cache()
        clock = cache._clock
        cache._clock = lambda: clock() + 1000.1
        self.refuse(self.vdisks)
        self.assertEqual({}, self.claims(self.boot(self.plain)['id']))
        self.report()
        self.assert_claims(self.boot(self.vdisks), [10])

    def test_unhealthy_disk_is_not_used(self):
        for host in self.hosts.values():
            for disk in list(host.disks.values())[:3]:
                disk.health = 'read-only'
                host.publish(disk)
        self.report()
        self.assert_claims(self.boot(self.vdisks), [10])
        self.refuse(self.flavor(vdisks=2, vdisk_gb=10))

    def test_media(self):
        for host in self.hosts.values():
            disk = list(host.disks.values())[0]
            disk.medium = 'ssd'
            host.publish(disk)
        self.report()
        disks = self.assert_claims(
            self.boot(self.flavor(vdisks=1, vdisk_gb=10, media='ssd')), [10]
        )
        media = {
            disk.uuid: disk.medium
            for host in self.hosts.values()
            for disk in host.disks.values()
        }
        self.assertEqual({'ssd'}, {media[disk] for disk in disks})
        disks = self.assert_claims(
            self.boot(self.flavor(vdisks=3, vdisk_gb=10, media='hdd')),
            [10] * 3,
        )
        self.assertEqual({'hdd'}, {media[disk] for disk in disks})
        self.refuse(self.flavor(vdisks=2, vdisk_gb=10, media='ssd'))


class ExtraSpecsTestCase(base.CloudTestCase):
    """Nova's API itself refuses extra specs that mean nothing."""

    hosts_count = 1
    disks_count = 1

    def refused(self, flavor, name, value):
        error = self.assertRaises(
            client.OpenStackApiException,
            self.admin_api.post_extra_spec,
            flavor,
            {'extra_specs': {f'diskplacer:{name}': value}},
        )
        self.assertEqual(400, error.response.status_code)
        return error.response.text

    def test_bad_extra_specs(self):
        flavor = self._create_flavor()
        self.assertIn(
            'consolidated', self.refused(flavor, 'mapping', 'scatter')
        )
        self.assertIn('ssd', self.refused(flavor, 'media', 'tape'))
        self.assertIn('64', self.refused(flavor, 'vdisks', '65'))
        self.refused(flavor, 'vdisks', 'four')
        self.refused(flavor, 'vdisk_gb', '0')
        self.refused(flavor, 'vdisk_gib', '10')

    def test_incomplete_extra_specs_are_refused_by_the_scheduler(self):
        flavor = self.flavor(vdisks=4)
        self.refuse(flavor)
        self.assertIn(
            'diskplacer:vdisk_gb is required', self.stdlog.logger.output
        )


class PlacementWeigherTestCase(base.CloudTestCase):
    """Multipliers by option and by aggregate."""

    hosts_count = 2
    disks_count = 4

    def commit_host0(self):
        for disk in self.hosts['host0'].disks.values():
            disk.reserved_gb = 500
            self.hosts['host0'].publish(disk)
        self.report()

    def boot_hosts(self, flavor):
        return {self.host_of(self.boot(flavor)).name for _ in range(4)}

    def test_multiplier(self):
        self.commit_host0()
        flavor = self.flavor(vdisks=4, vdisk_gb=1)
        self.assertEqual({'host1'}, self.boot_hosts(flavor))
        self.flags(
            disk_placement_weight_multiplier=-1000.0,
            group='diskplacer_scheduler',
        )
        self.assertEqual({'host0'}, self.boot_hosts(flavor))

    def test_aggregate_multiplier(self):
        self.commit_host0()
        flavor = self.flavor(vdisks=4, vdisk_gb=1)
        # score 0.5 with 10000 outweighs score 1 with 1000
        aggregate = self._create_aggregate('preferred')
        self.admin_api.add_host_to_aggregate(aggregate, 'host0')
        self.admin_api.post_aggregate_action(
            aggregate,
            {
                'set_metadata': {
                    'metadata': {'disk_placement_weight_multiplier': '10000'}
                }
            },
        )
        self.assertEqual({'host0'}, self.boot_hosts(flavor))

    def test_packing(self):
        self.commit_host0()
        flavor = self.flavor(vdisks=4, vdisk_gb=1)
        self.assertEqual({'host1'}, self.boot_hosts(flavor))
        # host0 has no vdisks and less free space
        self.flags(
            disk_spread_up_to=0.0,
            disk_pack_from=0.0,
            group='diskplacer_scheduler',
        )
        self.assertEqual('host0', self.host_of(self.boot(flavor)).name)
        # in an aggregate that spreads, host1 scores its free share
        aggregate = self._create_aggregate('spread')
        self.admin_api.add_host_to_aggregate(aggregate, 'host1')
        self.admin_api.post_aggregate_action(
            aggregate,
            {
                'set_metadata': {
                    'metadata': {
                        'disk_spread_up_to': '1',
                        'disk_pack_from': '1',
                    }
                }
            },
        )
        self.assertEqual({'host1'}, self.boot_hosts(flavor))


class PressureWeigherTestCase(base.CloudTestCase):
    """Hosts that are equal but for the pressure on their disks."""

    hosts_count = 2
    disks_count = 4
    option = 'disk_pressure_weight_multiplier'

    def setUp(self):
        super().setUp()
        # both weighers as they are by default
        self.flags(
            disk_placement_weight_multiplier=10.0, group='diskplacer_scheduler'
        )
        self.vdisks = self.flavor(vdisks=2, vdisk_gb=1)

    def press(self, host, *pressures):
        """Have a host's agent report pressure, the same of all disks."""
        host = self.hosts[host]
        for disk, pressure in zip(
            host.disks.values(), itertools.cycle(pressures), strict=False
        ):
            disk.pressure = pressure

    def boot_hosts(self, flavor=None):
        """Boot servers one after the other; return where they were."""
        hosts = set()
        for _ in range(3):
            server = self.boot(flavor or self.vdisks)
            hosts.add(self.host_of(server).name)
            self._delete_server(server)
        return hosts

    def test_a_host_under_pressure_loses_to_an_equal_one(self):
        for pressed, other in (('host0', 'host1'), ('host1', 'host0')):
            self.press(pressed, 50)
            # as agents of earlier releases report
            self.press(other, None)
            self.report()
            self.assertEqual({other}, self.boot_hosts())
        self.flags(**{self.option: -1.0}, group='diskplacer_scheduler')
        self.assertEqual({'host1'}, self.boot_hosts())

    def test_only_the_chosen_disks_count(self):
        self.press('host0', 100, 0)
        for disk in self.hosts['host0'].disks.values():
            if disk.pressure:
                disk.reserved_gb = disk.total_gb
                self.hosts['host0'].publish(disk)
        self.press('host1', 40)
        self.report()
        self.assertEqual({'host0'}, self.boot_hosts())

    def test_servers_that_get_their_vdisks_later(self):
        flavor = self.flavor(io_tier='gold')
        self.press('host0', 50)
        self.report()
        self.assertEqual({'host1'}, self.boot_hosts(flavor))

    def test_aggregate_multiplier(self):
        self.press('host0', 20)
        self.press('host1', 40)
        self.report()
        self.assertEqual({'host0'}, self.boot_hosts())
        aggregate = self._create_aggregate('pressed')
        self.admin_api.add_host_to_aggregate(aggregate, 'host0')
        self.admin_api.post_aggregate_action(
            aggregate, {'set_metadata': {'metadata': {self.option: '100'}}}
        )
        self.assertEqual({'host1'}, self.boot_hosts())

    def test_a_malformed_pressure_is_refused(self):
        self.press('host0', 50)
        self.report()
        self.press('host0', 101)
        self.press('host1', 70)
        other = self.hosts['host1'].provider
        before = self._taken[other]
        self.agents.send()
        self._wait_for_assert(
            lambda: self.assertRegex(
                self.stdlog.logger.output,
                r'Ignored a malformed report: disks\.0\.pressure=101 is not '
                'an integer from 0 to 100',
            )
        )
        self._wait_for_assert(
            lambda: self.assertLess(before, self._taken[other])
        )
        # what the host said before counts, and what the others say
        self.assertEqual({'host0'}, self.boot_hosts())
