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

"""Tests of the filters, without Nova's services."""

import json
import logging
import pathlib
import tempfile
import unittest
import uuid
from unittest import mock

from nova import objects

from nova_diskplacer import conf
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.scheduler import boot_volumes
from nova_diskplacer.scheduler import filter as filters
from nova_diskplacer.scheduler import host_disk_cache
from nova_diskplacer.scheduler import numa_cells
from nova_diskplacer.scheduler import placement_queries
from nova_diskplacer.scheduler import request as disk_request
from nova_diskplacer.scheduler import room
from nova_diskplacer.scheduler import server_volumes
from nova_diskplacer.scheduler import vdisk_hosts
from nova_diskplacer.scheduler.plan import DiskPlan
from nova_diskplacer.scheduler.server_volumes import AttachedVolume
from nova_diskplacer.scheduler.server_volumes import BootVolume
from tests import profile_cache
from tests.unit.nova_diskplacer.scheduler import fakes

SERVER = '5e1f0000-0000-4000-8000-000000000001'

# a test case replaces it
COMPUTE_NODES_WITH_ROOM = placement_queries.compute_nodes_with_room


def spec(**extra_specs):
    return objects.RequestSpec(
        instance_uuid=SERVER,
        flavor=objects.Flavor(
            name='big',
            extra_specs={
                f'diskplacer:{name}': value
                for name, value in extra_specs.items()
            },
        ),
    )


class FilterTestCase(unittest.TestCase):
    def setUp(self):
        objects.register_all()
        self.clock = fakes.Clock()
        self.cache = fakes.make_cache(clock=self.clock)
        self.attached = []
        self.at_boot = None
        self.task_state = None
        self.is_host_lost = False
        self.read = []
        # of a host in Placement, None if it does not answer
        self.room = None
        self.looks = []
        self.claimed = {}
        for where, name, value in (
            (filters.report_listener, 'get_cache', lambda: self.cache),
            (
                server_volumes,
                'read',
                self._read_volumes,
            ),
            (
                placement_queries,
                'compute_nodes_with_room',
                self._with_room,
            ),
            (placement_queries, 'disks_in_tree', self._look),
            (placement_queries, 'claims_of', lambda _: self.claimed),
        ):
            patch = mock.patch.object(where, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.hosts = [fakes.host_state(number) for number in range(3)]
        self.filter = filters.DiskPlacementFilter()

    def _read_volumes(self, context, server_id, may_leave):
        self.read.append(server_id)
        return server_volumes.ServerVolumes(
            self.attached,
            self.at_boot,
            self.task_state,
            self.is_host_lost,
        )

    def _with_room(self, request):
        self.looks.append('everywhere')
        return {fakes.host_uuid(number) for number in range(9) if self.room}

    def _look(self, provider):
        self.looks.append(provider)
        return self.room

    def _report(self, number, *disks):
        self.cache.update(fakes.report(number, *disks))

    def _passed(self, wanted=None):
        wanted = wanted or spec(vdisks='2', vdisk_gb='10')
        passed = self.filter.filter_all(self.hosts, wanted)
        # few hosts pass several times, in any order
        return sorted({host.host for host in passed})


class FilterTest(FilterTestCase):
    def test_other_requests_pass_untouched(self):
        self.assertEqual(3, len(self._passed(spec())))
        for host in self.hosts:
            self.assertIsInstance(host.allocation_candidates, list)

    def test_bad_flavor_is_refused_and_logged(self):
        with self.assertLogs(filters.LOG.logger, 'WARNING') as logs:
            self.assertEqual([], self._passed(spec(vdisks='2')))
        self.assertIn('diskplacer:vdisk_gb is required', logs.output[0])

    def test_candidates_that_placement_may_have_left_out(self):
        conf = filters.nova_conf.CONF
        self.addCleanup(
            conf.clear_override, 'max_placement_results', 'scheduler'
        )
        wanted = spec(vdisks='1', vdisk_gb='10')
        for limit, warned in ((3, True), (6, True), (7, False)):
            conf.set_override('max_placement_results', limit, 'scheduler')
            with self.assertLogs(filters.LOG.logger, 'INFO') as logs:
                self.assertEqual([], self._passed(wanted))
            self.assertEqual(
                warned, 'Set trait:CUSTOM_DISKPLACER_HOST' in str(logs.output)
            )
        conf.set_override('max_placement_results', 3, 'scheduler')
        trait = 'trait:CUSTOM_DISKPLACER_HOST'
        wanted.flavor.extra_specs[trait] = 'required'
        with self.assertLogs(filters.LOG.logger, 'INFO') as logs:
            self.assertEqual([], self._passed(wanted))
        self.assertNotIn('trait', str(logs.output))

    def test_hosts_with_room(self):
        self._report(0, fakes.disk(0, 0), fakes.disk(0, 1))
        self._report(1, fakes.disk(1, 0), fakes.disk(1, 1, used_gb=95))
        self.assertEqual(['host0'], self._passed())

    def test_any_of_equal_hosts_may_be_the_first(self):
        self.hosts = [fakes.host_state(number) for number in range(8)]
        for number in range(8):
            self._report(number, *(fakes.disk(number, i) for i in range(2)))
        first = set()
        for number in range(200):
            wanted = spec(vdisks='2', vdisk_gb='10')
            wanted.instance_uuid = str(uuid.UUID(int=number))
            passed = self.filter.filter_all(self.hosts, wanted)
            self.assertEqual(8, len({host.host for host in passed}))
            first.add(passed[0].host)
        self.assertEqual(8, len(first))

    def test_no_reports(self):
        with self.assertLogs(filters.LOG.logger, 'INFO') as logs:
            self.assertEqual([], self._passed())
        self.assertIn('3 have no fresh report', logs.output[0])

    def test_looks_again_before_it_gives_up(self):
        for hosts in (1, 3):
            self.looks = []
            for number in range(hosts):
                full = [fakes.disk(number, i, used_gb=100) for i in range(2)]
                self._report(number, *full)
            self.assertEqual([], self._passed())
            self.room = {
                disk['uuid']: placement_client.DiskCapacity(100, 0, 150, 0)
                for disk in full
            }
            self.clock.now += host_disk_cache.ROOM_QUERY_SECONDS
            self.assertEqual([f'host{hosts - 1}'], self._passed())
            self.room = None

    def test_few_hosts_are_looked_at_at_any_time(self):
        """Nobody asks for room in the whole cloud."""
        for number in range(2):
            self._report(number, fakes.disk(number, 0, used_gb=100))
        for _ in range(3):
            self.looks = []
            self.assertEqual([], self._passed())
            self.assertEqual(
                [host.uuid for host in self.hosts[:2]], self.looks
            )

    def test_the_host_of_bound_vdisks_is_looked_at(self):
        """They are most of what the server needs, on disks that are full."""
        self.attached = [
            AttachedVolume(f'v{i}', None, size_gb=10) for i in range(2)
        ]
        self.at_boot = [BootVolume(10, None)] * 3
        vdisks = [[fakes.vdisk(v.volume_id, None)] for v in self.attached]
        self._report(
            1,
            *(
                fakes.disk(
                    1,
                    i,
                    vdisks=held,
                    reserved_gb=10 * len(held),
                    used_gb=100 - 10 * len(held),
                )
                for i, held in enumerate([*vdisks, []])
            ),
        )
        # a server has left the disk without a vdisk
        free_gb = 0, 0, 90
        capacities = {
            fakes.disk_uuid(1, i): placement_client.DiskCapacity(
                100 - 10 * (i < 2), 100 - 10 * (i < 2) - free, 150, 0
            )
            for i, free in enumerate(free_gb)
        }
        self.room = capacities
        with_room = [
            placement_client.Provider(disk, disk, 0, None, fakes.host_uuid(1))
            for disk, free in zip(capacities, free_gb, strict=True)
            if free >= 10
        ]
        with (
            mock.patch.object(
                placement_queries,
                'compute_nodes_with_room',
                COMPUTE_NODES_WITH_ROOM,
            ),
            mock.patch.object(
                placement_client.PlacementClient,
                'disks_with_room',
                lambda *_: with_room,
            ),
            self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'),
        ):
            wanted = spec(vdisks='3', vdisk_gb='10')
            self.assertEqual(['host1'], self._passed(wanted))
        candidate = self.hosts[1].allocation_candidates[0]
        self.assertEqual(
            {fakes.host_uuid(1), fakes.disk_uuid(1, 2)},
            candidate['allocations'].keys(),
        )

    def test_a_full_cloud_is_looked_at_once_a_second(self):
        self.hosts = [fakes.host_state(number) for number in range(9)]
        for number in range(9):
            self._report(number, fakes.disk(number, 0, used_gb=100))
        for _ in range(3):
            self.assertEqual([], self._passed())
        self.assertEqual(['everywhere'], self.looks)
        self.clock.now += host_disk_cache.ROOM_QUERY_SECONDS
        # room that is of no use for the request, for whatever reason
        self.room = {
            'another disk': placement_client.DiskCapacity(100, 0, 150, 0)
        }
        self.looks = []
        for _ in range(3):
            self.assertEqual([], self._passed())
        self.assertEqual('everywhere', self.looks.pop(0))
        self.assertEqual(5, len(set(self.looks)))
        self.assertEqual(5, len(self.looks))

    def _bind(self, server_id):
        for number in range(3):
            held = [fakes.vdisk('v', server_id)] if number == 1 else []
            self._report(
                number,
                fakes.disk(number, 0, vdisks=held),
                fakes.disk(number, 1),
                fakes.disk(number, 2),
            )
        self.attached = [AttachedVolume('v', 'host1')]

    def test_bound_vdisks_keep_the_server_on_their_host(self):
        self._bind(SERVER)
        with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO') as logs:
            self.assertEqual(['host1'], self._passed())
        self.assertIn('has vdisks on the disks of host host1', logs.output[0])
        (candidate,) = self.hosts[1].allocation_candidates
        self.assertIn(fakes.disk_uuid(1, 0), candidate['allocations'])

    def test_the_source_is_excluded(self):
        self._bind(SERVER)
        del self.hosts[1]
        with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO') as logs:
            self.assertEqual([], self._passed())
        self.assertIn('has vdisks on the disks of host host1', logs.output[0])

    def test_a_volume_with_bytes_keeps_a_new_server_there(self):
        self._bind('somebody-else')
        with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'):
            self.assertEqual(['host1'], self._passed())

    def _keep(self, owner, disks, kept, **asked):
        """Have a server of 4 vdisks bring volumes with vdisks on host1.

        :param owner: the server that they were bound for.
        :param disks: of each host; the first ones of host1 have a vdisk each.
        :param kept: the number of the volumes.
        :returns: what is claimed on the disks of host1, by number.
        """
        for number in range(3):
            held = range(kept if number == 1 else 0)
            self._report(
                number,
                *(
                    fakes.disk(
                        number,
                        i,
                        vdisks=[fakes.vdisk(f'v{i}', owner)]
                        if i in held
                        else [],
                        reserved_gb=10 if i in held else 0,
                    )
                    for i in range(disks)
                ),
            )
        self.attached = [
            AttachedVolume(f'v{i}', None, size_gb=10) for i in range(kept)
        ]
        self.hosts = [fakes.host_state(number) for number in range(3)]
        with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'):
            passed = self._passed(spec(vdisks='4', vdisk_gb='10', **asked))
        self.assertEqual(['host1'], passed)
        claimed = self.hosts[1].allocation_candidates[0]['allocations']
        return {
            i: claimed[disk]['resources']
            for i in range(disks)
            if (disk := fakes.disk_uuid(1, i)) in claimed
        }

    def test_kept_volumes_are_the_vdisks_of_the_next_server(self):
        """Their disks reserve them: nothing is claimed beside them."""
        for owner, at_boot in (
            ('deleted', None),
            ('deleted', [BootVolume(10, None)]),
            # clones, for example
            (None, None),
            (None, [BootVolume(10, None)]),
        ):
            for disks, kept, new in ((4, 4, 0), (12, 4, 0), (6, 2, 2)):
                # without pending choices
                self.cache = fakes.make_cache(clock=self.clock)
                self.at_boot = at_boot and at_boot * kept
                with self.subTest(owner=owner, at_boot=at_boot, kept=kept):
                    claims = self._keep(owner, disks, kept)
                    self.assertEqual(new, len(claims))
                    self.assertFalse(claims.keys() & set(range(kept)))

    def test_vdisks_of_another_server_count_before_those_of_none(self):
        self.attached = [AttachedVolume(v, 'host1') for v in 'vw']
        plans = []
        for owners in (('deleted', None), (None, 'deleted')):
            self._report(
                1,
                *(
                    fakes.disk(1, i, vdisks=[fakes.vdisk(name, owner)])
                    for i, (name, owner) in enumerate(
                        zip('vw', owners, strict=True)
                    )
                ),
            )
            wanted = spec(vdisks='1', vdisk_gb='10')
            with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'):
                self.assertEqual(['host1'], self._passed(wanted))
            plan, *_ = disk_request.state_of(wanted).choice
            plans.append([vdisk.volume_id for vdisk in plan.kept_vdisks])
        self.assertEqual([['v'], ['w']], plans)

    def test_kept_volumes_claim_the_mbps_of_the_flavor(self):
        for owner in ('deleted', None):
            self.assertEqual(
                dict.fromkeys(range(4), {'CUSTOM_VDISK_MBPS': 50}),
                self._keep(owner, 4, 4, vdisk_mbps='50'),
            )

    def test_the_root_takes_no_place_of_a_vdisk(self):
        """Nor does any other volume that is no vdisk of the flavor."""
        for kind, size, places in (
            ({'is_root': True}, '10', 3),
            ({}, '20', 3),
            # the driver has bound it, and found it beside the vdisks
            ({'is_blank': True}, '10', 2),
            ({}, '10', 3),
        ):
            self._bind('')
            self.attached = [AttachedVolume('v', 'host1', **kind)]
            for number in (2, 3):
                wanted = spec(vdisks=str(number), vdisk_gb=size)
                with (
                    self.subTest(**kind, size=size),
                    self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'),
                ):
                    self.assertEqual(
                        ['host1'] if number <= places else [],
                        self._passed(wanted),
                    )

    def _claimed_gb(self, server_id, size_gb, new_gb, **asked):
        """Return the GiB that a server claims beside a volume it brings.

        :param size_gb: of the volume.
        :param new_gb: of each new volume of the boot.
        """
        for number in range(3):
            held = [fakes.vdisk('v', server_id, size_gb)] * (number == 1)
            disks = [
                fakes.disk(
                    number,
                    i,
                    vdisks=held if i == 0 else [],
                    reserved_gb=size_gb if held and i == 0 else 0,
                    can_stripe=True,
                )
                for i in range(6)
            ]
            self._report(number, *disks)
        self.attached = [AttachedVolume('v', None, size_gb=size_gb)]
        self.at_boot = [
            server_volumes.BootVolume(gb, None, is_new=True) for gb in new_gb
        ] + [server_volumes.BootVolume(size_gb, None)]
        self.hosts = [fakes.host_state(number) for number in range(3)]
        with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'):
            self.assertEqual(['host1'], self._passed(spec(**asked)))
        candidate = self.hosts[1].allocation_candidates[0]
        return sum(
            allocation['resources'].get('CUSTOM_VDISK_GB', 0)
            for allocation in candidate['allocations'].values()
        )

    def test_volumes_beside_the_vdisks_take_no_claims(self):
        for mapping in (
            {},
            {'mapping': 'striped', 'stripe_disks': '2'},
        ):
            asked = {'vdisks': '2', 'vdisk_gb': '20', **mapping}
            # no vdisk of any server, as its type is another
            for server_id in (None, ''):
                self.assertEqual(
                    40, self._claimed_gb(server_id, 20, [20, 20], **asked)
                )
            # of another server, beside all that the boot creates
            self.assertEqual(
                40, self._claimed_gb('deleted', 20, [20, 20], **asked)
            )
            # of another size
            self.assertEqual(
                40, self._claimed_gb('deleted', 5, [20, 20], **asked)
            )
            self.assertEqual(
                20, self._claimed_gb('deleted', 20, [20], **asked)
            )

    def test_a_volume_moved_while_the_agent_of_its_old_host_is_dead(self):
        self._bind(SERVER)
        self.clock.now += host_disk_cache.FORGET_SECONDS + 1
        for number in (0, 2):
            self._report(
                number, *(fakes.disk(number, index) for index in range(2))
            )
        self.attached = [AttachedVolume('v', 'host2')]
        with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'):
            self.assertEqual(['host2'], self._passed())

    def test_what_nova_remembers_counts_while_the_agent_is_away(self):
        self._report(0, fakes.disk(0, 0), fakes.disk(0, 1))
        self.attached = [AttachedVolume('v', 'host1')]
        with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'):
            self.assertEqual([], self._passed())

    def test_vdisks_of_a_missing_disk_take_the_places_of_new_ones(self):
        """Nobody reports them; the root is none of them."""
        for missing, asked, disks in (
            ('', '2', 2),
            ('w', '2', 1),
            ('w', '3', 2),
            ('wx', '2', 1),
        ):
            # without pending choices
            self.cache = fakes.make_cache(clock=self.clock)
            self._bind(SERVER)
            self.attached += [
                AttachedVolume('root', 'host1', True),
                AttachedVolume('other', None),
                *(AttachedVolume(v, 'host1') for v in missing),
            ]
            wanted = spec(vdisks=asked, vdisk_gb='10')
            with (
                self.subTest(missing=missing, asked=asked),
                self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'),
            ):
                self.assertEqual(['host1'], self._passed(wanted))
                (candidate,) = self.hosts[1].allocation_candidates
                claimed = candidate['allocations'].keys() & {
                    fakes.disk_uuid(1, index) for index in range(3)
                }
                self.assertIn(fakes.disk_uuid(1, 0), claimed)
                self.assertEqual(disks, len(claimed))

    def test_volumes_of_a_missing_disk_that_are_no_vdisks(self):
        """Those of other sizes are none, except blank ones of the boot."""
        for blank, size_gb, disks in (
            (False, 10, 1),
            (False, 20, 2),
            (True, 20, 1),
        ):
            self.cache = fakes.make_cache(clock=self.clock)
            self._bind(SERVER)
            self.attached.append(
                AttachedVolume('w', 'host1', is_blank=blank, size_gb=size_gb)
            )
            with (
                self.subTest(blank=blank, size_gb=size_gb),
                self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'),
            ):
                self.assertEqual(['host1'], self._passed())
                (candidate,) = self.hosts[1].allocation_candidates
                claimed = candidate['allocations'].keys() & {
                    fakes.disk_uuid(1, index) for index in range(3)
                }
                self.assertEqual(disks, len(claimed))

    def test_all_vdisks_are_on_missing_disks(self):
        """Nothing is claimed, and the server stays on their host."""
        self._bind(None)
        self.attached = [AttachedVolume(v, 'host1') for v in 'wx']
        with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'):
            self.assertEqual(['host1'], self._passed())
        (candidate,) = self.hosts[1].allocation_candidates
        self.assertEqual({fakes.host_uuid(1)}, candidate['allocations'].keys())


class TwoReportersTest(FilterTestCase):
    """Cinder moves a volume to host1 and has not deleted it on host0."""

    def setUp(self):
        super().setUp()
        self.asked = {'vdisks': '2', 'vdisk_gb': '10'}
        self._both(SERVER, SERVER)

    def _both(self, before, after):
        """Have both hosts report it, the former one last."""
        for number, server_id in ((2, ''), (1, after), (0, before)):
            held = [fakes.vdisk('v', server_id)] if number < 2 else []
            self._report(
                number,
                fakes.disk(number, 0, vdisks=held),
                fakes.disk(number, 1),
            )

    def _assert_passed(self, hosts):
        """Check the hosts for flavors with vdisks and without."""
        for wanted in (spec(**self.asked), spec(), spec(io_tier='gold')):
            with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'):
                self.assertEqual(hosts, self._passed(wanted))

    def test_the_connection_tells_which_is_right(self):
        for number in (0, 1):
            self.attached = [AttachedVolume('v', f'host{number}')]
            self._assert_passed([f'host{number}'])
            # the vdisk of the other host is none of the server
            passed = spec(**self.asked)
            with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'):
                self._passed(passed)
            plan, *_ = disk_request.state_of(passed).choice
            self.assertEqual(
                [fakes.disk_uuid(number, 0)],
                [vdisk.disk for vdisk in plan.own_vdisks],
            )

    def test_the_connection_counts_while_its_agent_is_away(self):
        self.clock.now += host_disk_cache.FORGET_SECONDS + 1
        self._report(0, fakes.disk(0, 0, vdisks=[fakes.vdisk('v', SERVER)]))
        self.attached = [AttachedVolume('v', 'host1')]
        with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'):
            self.assertEqual(['host1'], self._passed(spec()))
        del self.hosts[1]
        with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'):
            self.assertEqual([], self._passed(spec()))

    def test_the_connection_counts_before_its_agent_has_reported(self):
        self.cache = fakes.make_cache(clock=self.clock)
        self._report(0, fakes.disk(0, 0, vdisks=[fakes.vdisk('v', SERVER)]))
        self.attached = [AttachedVolume('v', 'host1')]
        with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'):
            self.assertEqual(['host1'], self._passed(spec()))

    def test_a_report_counts_where_cinder_names_hosts_otherwise(self):
        self._report(0, fakes.disk(0, 0), fakes.disk(0, 1))
        self.attached = [AttachedVolume('v', 'node1.example')]
        self._assert_passed(['host1'])

    def test_each_host_is_possible_without_a_connection(self):
        self.attached = [AttachedVolume('v', None)]
        self._assert_passed(['host0', 'host1'])

    def test_one_host_has_all(self):
        self._report(
            1,
            fakes.disk(1, 0, vdisks=[fakes.vdisk('v', SERVER)]),
            fakes.disk(1, 1, vdisks=[fakes.vdisk('w', SERVER)]),
        )
        for w in (None, 'host1'):
            self.attached = [
                AttachedVolume('v', None),
                AttachedVolume('w', w),
            ]
            self._assert_passed(['host1'])

    def _claims(self):
        """Return what is claimed on each host that is possible."""
        wanted = spec(**self.asked)
        with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'):
            self._passed(wanted)
        claims = {}
        for number, host in enumerate(self.hosts):
            if not isinstance(host.allocation_candidates, list):
                (candidate,) = host.allocation_candidates
                claims[host.host] = {
                    index: candidate['allocations'][uuid]['resources']
                    for index in range(2)
                    if (uuid := fakes.disk_uuid(number, index))
                    in candidate['allocations']
                }
        return claims

    def test_each_host_claims_for_its_own_vdisks(self):
        self.attached = [AttachedVolume('v', None)]
        self.asked['vdisk_mbps'] = '50'
        each = {'CUSTOM_VDISK_GB': 10, 'CUSTOM_VDISK_MBPS': 50}
        # Cinder's copy may not say whose it is
        for after in (SERVER, None):
            self._both(SERVER, after)
            self.assertEqual(
                {host: {0: each, 1: each} for host in ('host0', 'host1')},
                self._claims(),
            )


class NoVDisksAskedTest(FilterTestCase):
    """The flavor asks for no vdisks; the server may have some."""

    def setUp(self):
        super().setUp()
        self.flavors = (spec(), spec(io_tier='gold'))
        for number in range(3):
            self._report(number, fakes.disk(number, 0))

    def _bind(self, number, server_id):
        self._report(
            number,
            fakes.disk(number, 0, vdisks=[fakes.vdisk('v', server_id)]),
        )

    def _kept(self, hosts):
        for wanted in self.flavors:
            with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO') as logs:
                self.assertEqual(hosts, self._passed(wanted))
            self.assertIn('has vdisks on the disks of host host1', str(logs))
        for host in self.hosts:
            # they are claimed by nobody: their disks reserve them
            self.assertIsInstance(host.allocation_candidates, list)

    def test_bound_vdisks_keep_the_server_on_their_host(self):
        self.attached = [AttachedVolume('v', 'host1')]
        self._bind(1, SERVER)
        self._kept(['host1'])
        del self.hosts[1]
        self._kept([])

    def test_a_volume_with_bytes_keeps_a_new_server_there(self):
        self.attached = [AttachedVolume('v', None)]
        self._bind(1, 'somebody-else')
        self._kept(['host1'])

    def test_what_nova_remembers_counts_while_the_agent_is_away(self):
        self.attached = [AttachedVolume('v', 'host1')]
        self._kept(['host1'])

    def test_other_volumes_keep_no_server(self):
        self.attached = [AttachedVolume('network-volume', None)]
        self._bind(1, SERVER)
        for wanted in self.flavors:
            self.assertEqual(3, len(self._passed(wanted)))

    def test_without_volumes_the_fleet_is_not_asked(self):
        with mock.patch.object(
            filters.report_listener, 'get_cache'
        ) as get_cache:
            for wanted in self.flavors:
                self.assertEqual(3, len(self._passed(wanted)))
        get_cache.assert_not_called()

    def test_a_rebuild_stays_whatever_its_flavor_says(self):
        self.attached = [AttachedVolume('v', 'host1')]
        self._bind(1, SERVER)
        for wanted in (spec(), spec(vdisks='2')):
            wanted.scheduler_hints = {'_nova_check_type': ['rebuild']}
            self.assertEqual(3, len(self._passed(wanted)))
        self.assertEqual([], self.read)


class ProfileTest(FilterTestCase):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        conf.register_opts(conf.CONF)
        conf.CONF.set_override('profile_dirs', [directory.name], 'diskplacer')
        self.addCleanup(conf.CONF.clear_override, 'profile_dirs', 'diskplacer')
        profile_cache.clear()
        self.addCleanup(profile_cache.clear)

    def _profile(self, **settings):
        profile = {'name': 'mine', 'title': 'T', 'description': 'D'}
        path = self.directory / 'mine.yaml'
        path.write_text(json.dumps({**profile, **settings}))

    def test_a_profile_is_enough(self):
        self._profile(
            specs={'diskplacer:vdisks': 2, 'diskplacer:vdisk_gb': 10}
        )
        self._report(0, fakes.disk(0, 0), fakes.disk(0, 1))
        self._report(1, fakes.disk(1, 0))
        self.assertEqual(['host0'], self._passed(spec(profile='mine')))

    def test_cache_mode(self):
        self._profile(cache_mode='none')
        for number, mode in enumerate(('none', 'writeback', None)):
            report = fakes.report(number, fakes.disk(number, 0))
            if mode:
                report['cache_mode'] = mode
            self.cache.update(report)
        wanted = spec(profile='mine', vdisks='1', vdisk_gb='10')
        self.assertEqual(['host0'], self._passed(wanted))
        del self.hosts[0]
        with self.assertLogs(filters.LOG.logger, 'INFO') as logs:
            self.assertEqual([], self._passed(wanted))
        self.assertIn('2 have another cache mode', logs.output[0])

    def test_an_unknown_profile(self):
        with self.assertLogs(filters.LOG.logger, 'WARNING') as logs:
            self.assertEqual([], self._passed(spec(profile='nobodys')))
        self.assertIn('diskplacer:profile=nobodys is not', logs.output[0])

    def test_profiles_are_live_defaults(self):
        self._report(0, fakes.disk(0, 0), fakes.disk(0, 1))
        self._report(1, fakes.disk(1, 0))
        for vdisks, hosts in ((2, ['host0']), (1, ['host0', 'host1'])):
            self._profile(
                specs={'diskplacer:vdisks': vdisks, 'diskplacer:vdisk_gb': 10}
            )
            profile_cache.clear()
            self.assertEqual(hosts, self._passed(spec(profile='mine')))
        (self.directory / 'mine.yaml').unlink()
        profile_cache.clear()
        with self.assertLogs(filters.LOG.logger, 'WARNING') as logs:
            self.assertEqual([], self._passed(spec(profile='mine')))
        self.assertIn('diskplacer:profile=mine is not', logs.output[0])

    def test_a_bad_catalogue(self):
        self._profile(cache_mode='sometimes')
        with self.assertLogs(filters.LOG.logger, 'WARNING') as logs:
            self.assertEqual([], self._passed(spec(profile='mine')))
        self.assertIn('cache_mode', logs.output[0])
        self.assertIn('sometimes', logs.output[0])
        # and it is read again once it has been repaired
        self._profile()
        self.assertEqual(3, len(self._passed(spec(profile='mine'))))


class NumaTest(FilterTestCase):
    def setUp(self):
        super().setUp()
        self.hosts = [fakes.numa_host(number, 0, 0) for number in range(3)]
        self.addCleanup(lambda: numa_cells._PENDING._expiry.clear())

    def _asked(self, numa='required', **kwargs):
        return fakes.numa_spec(numa=numa, vdisks='2', vdisk_gb='10', **kwargs)

    def _nodes(self, number, *nodes):
        self._report(
            number,
            *(
                fakes.disk(number, i, numa_node=node)
                for i, node in enumerate(nodes)
            ),
        )

    def test_required(self):
        self._nodes(0, 0, 1)
        self._nodes(1, 0, 0)
        self.assertEqual(['host1'], self._passed(self._asked()))
        self.assertEqual(2, len(self._passed(self._asked('preferred'))))
        self.assertEqual(2, len(self._passed(self._asked('none'))))

    def test_nobody_can_align(self):
        self._nodes(0, 0, 1)
        with self.assertLogs(filters.LOG.logger, 'INFO') as logs:
            self.assertEqual([], self._passed(self._asked()))
        self.assertIn('1 cannot align them with the NUMA', logs.output[0])

    def test_the_disks_are_taken_where_the_vcpus_will_be(self):
        self._nodes(0, 0, 0, 1, 1)
        self.hosts[0].numa_topology = fakes.numa_topology(2, 0)
        with mock.patch.object(
            placement_queries, 'disks_in_tree', lambda _: None
        ):
            self._passed(self._asked())
            candidate = self.hosts[0].allocation_candidates[0]
        disks = {fakes.disk_uuid(0, 2), fakes.disk_uuid(0, 3)}
        self.assertEqual(disks, disks & candidate['allocations'].keys())
        limits = self.hosts[0].limits['numa_topology']
        self.assertEqual({'cell1'}, limits.network_metadata.physnets)

    def test_further_tries_keep_the_cells(self):
        """Whether the answer to the claim was lost, or it has failed."""
        free = placement_client.DiskCapacity(100, 0, 150, 0)
        fresh = {fakes.disk_uuid(0, i): free for i in range(4)}
        for is_claimed in (True, False):
            self._nodes(0, 0, 0, 1, 1)
            self.hosts[0] = fakes.numa_host(0, 2, 0)
            with mock.patch.object(
                placement_queries, 'disks_in_tree', lambda _: fresh
            ):
                self._passed(self._asked())
                for _ in range(3):
                    found = self.hosts[0].allocation_candidates
                    self.assertTrue(found)
                    candidate = found[0]
                    limits = self.hosts[0].limits['numa_topology']
                    self.assertEqual(
                        {'cell1'}, limits.network_metadata.physnets
                    )
                    self.claimed = (
                        candidate['allocations'] if is_claimed else {}
                    )
            numa_cells._PENDING._expiry.clear()

    def test_candidates_of_a_server_with_devices(self):
        self._nodes(0, 1, 1)
        self.hosts[0].pci_stats = mock.Mock(pools=[])
        wanted = self._asked()
        wanted.pci_requests = objects.InstancePCIRequests(
            requests=[objects.InstancePCIRequest(count=1, spec=[{}])]
        )
        with mock.patch.object(
            placement_queries, 'disks_in_tree', lambda _: None
        ):
            self._passed(wanted)
            (candidate,) = self.hosts[0].allocation_candidates
        disks = {fakes.disk_uuid(0, disk) for disk in range(2)}
        self.assertLessEqual(disks, candidate['allocations'].keys())

    def test_a_host_that_turns_out_not_to_align_has_no_candidates(self):
        free, full = (
            placement_client.DiskCapacity(100, used, 150, 0)
            for used in (0, 100)
        )
        fresh = {
            fakes.disk_uuid(0, i): one
            for i, one in enumerate((free, full, free))
        }
        for numa, left in (('required', False), ('preferred', True)):
            self._nodes(0, 0, 0, 1)
            with mock.patch.object(
                placement_queries, 'disks_in_tree', lambda _: fresh
            ):
                self._passed(self._asked(numa))
                found = self.hosts[0].allocation_candidates
                # whichever way Nova takes them
                self.assertEqual(left, bool(found))
                self.assertEqual(left, bool(list(found)))
            self.hosts[0] = fakes.numa_host(0, 0, 0)


class RoomTest(FilterTestCase):
    def setUp(self):
        super().setUp()
        self.filter = room.DiskRoomFilter()

    def test_bad_flavor_is_the_other_filters(self):
        bad = fakes.numa_spec(vdisks='2')
        self.assertEqual(3, len(self._passed(bad)))

    def test_no_reports(self):
        self.assertEqual(3, len(self._passed()))

    def _passed(self, wanted=None):
        return super()._passed(
            wanted or fakes.numa_spec(vdisks='2', vdisk_gb='10')
        )

    def test_hosts_with_room_are_not_touched(self):
        self._report(0, fakes.disk(0, 0), fakes.disk(0, 1))
        self._report(1, fakes.disk(1, 0))
        self.assertEqual(['host0'], self._passed())
        self.assertIsInstance(self.hosts[0].allocation_candidates, list)

    def test_volumes_are_read_once_for_both_filters(self):
        for number in range(2):
            held = [fakes.vdisk('v', SERVER)] if number else []
            self._report(
                number,
                fakes.disk(number, 0, vdisks=held),
                fakes.disk(number, 1),
            )
        self.attached = [AttachedVolume('v', 'host1')]
        wanted = fakes.numa_spec(vdisks='2', vdisk_gb='10')
        with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO') as logs:
            left = self.filter.filter_all(self.hosts, wanted)
            left = filters.DiskPlacementFilter().filter_all(left, wanted)
        self.assertEqual({'host1'}, {host.host for host in left})
        self.assertEqual([SERVER], self.read)
        self.assertEqual(1, len(logs.output))
        self.assertIn('2 of 3 hosts rejected', logs.output[0])
        # the next server of a multi-create
        wanted.instance_uuid = 'another'
        self.attached = []
        self.filter.filter_all(self.hosts, wanted)
        self.assertEqual([SERVER, 'another'], self.read)

    def test_both_filters_plan_once(self):
        # the reasons of rejections, for the debug level, take further plans
        logger = logging.getLogger('nova_diskplacer')
        self.addCleanup(logger.setLevel, logger.level)
        logger.setLevel(logging.INFO)
        for number in range(2):
            self._report(number, fakes.disk(number, 0), fakes.disk(number, 1))
        wanted = fakes.numa_spec(vdisks='2', vdisk_gb='10')
        choose = DiskPlan.choose
        with mock.patch.object(
            DiskPlan, 'choose', autospec=True, side_effect=choose
        ) as chosen:
            left = self.filter.filter_all(self.hosts, wanted)
            del left[0]
            found = filters.DiskPlacementFilter().filter_all(left, wanted)
            self.assertEqual({'host1'}, {host.host for host in found})
            self.assertEqual(1, chosen.call_count)
            (candidate,) = found[0].allocation_candidates
        self.assertEqual(
            {fakes.disk_uuid(1, 0), fakes.disk_uuid(1, 1)},
            candidate['allocations'].keys() - {fakes.host_uuid(1)},
        )

    def test_hosts_that_report_in_between(self):
        self._report(0, fakes.disk(0, 0), fakes.disk(0, 1))
        wanted = fakes.numa_spec(vdisks='2', vdisk_gb='10')
        self.filter.filter_all(self.hosts, wanted)
        self._report(1, fakes.disk(1, 0), fakes.disk(1, 1))
        found = filters.DiskPlacementFilter().filter_all(self.hosts, wanted)
        self.assertEqual({'host0', 'host1'}, {host.host for host in found})

    def test_requests_without_topology_pass(self):
        self._report(0, fakes.disk(0, 0), fakes.disk(0, 1))
        self.assertEqual(
            3, len(self._passed(fakes.numa_spec(0, vdisks='2', vdisk_gb='1')))
        )


class BlankVolumesTest(FilterTestCase):
    """A new server brings fewer volumes than its flavor has vdisks."""

    def setUp(self):
        super().setUp()
        self._report(0, fakes.disk(0, 0), fakes.disk(0, 1))
        self.at_boot = [BootVolume(10, None)]

    def _treat(self, treatment):
        conf.CONF.set_override(
            'blank_volumes', treatment, 'diskplacer_scheduler'
        )
        self.addCleanup(
            conf.CONF.clear_override, 'blank_volumes', 'diskplacer_scheduler'
        )

    def test_warn_is_the_default(self):
        with self.assertLogs(boot_volumes.LOG.logger, 'WARNING') as logs:
            self.assertEqual(['host0'], self._passed())
        self.assertIn('brings 1 volumes of 10 GiB', logs.output[0])

    def test_ignore(self):
        self._treat('ignore')
        with self.assertNoLogs(boot_volumes.LOG.logger):
            self.assertEqual(['host0'], self._passed())

    def test_require(self):
        self._treat('require')
        with self.assertLogs(boot_volumes.LOG.logger, 'WARNING') as logs:
            self.assertEqual([], self._passed())
        self.assertIn('no host is valid', logs.output[0])
        self.at_boot *= 2
        with self.assertNoLogs(boot_volumes.LOG.logger):
            self.assertEqual(['host0'], self._passed())

    def test_a_move_is_not_affected(self):
        self._treat('require')
        self.at_boot = None
        with self.assertNoLogs(boot_volumes.LOG.logger):
            self.assertEqual(['host0'], self._passed())

    def test_a_flavor_without_vdisks_is_not_affected(self):
        self._treat('require')
        with self.assertNoLogs(boot_volumes.LOG.logger):
            self.assertEqual(['host0', 'host1', 'host2'], self._passed(spec()))
