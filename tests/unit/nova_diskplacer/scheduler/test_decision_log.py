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

"""Tests of the debug lines about chosen disks and rejected hosts."""

from unittest import mock

from nova_diskplacer import conf
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.scheduler import decision_log
from nova_diskplacer.scheduler import filter as filters
from nova_diskplacer.scheduler import rejections
from nova_diskplacer.scheduler import room
from nova_diskplacer.scheduler import server_volumes
from nova_diskplacer.scheduler import vdisk_hosts
from tests.unit.nova_diskplacer.scheduler import fakes
from tests.unit.nova_diskplacer.scheduler import test_filter

SERVER = test_filter.SERVER


class DecisionLogTest(test_filter.FilterTestCase):
    def setUp(self):
        super().setUp()
        # Placement does not answer at the claim
        self.room = None
        for name in ('disk_spread_up_to', 'disk_pack_from'):
            conf.CONF.set_override(name, 1.0, 'diskplacer_scheduler')
            self.addCleanup(
                conf.CONF.clear_override, name, 'diskplacer_scheduler'
            )

    def _lines(self, wanted=None, level='DEBUG'):
        """Filter the hosts, and return the lines that are logged."""
        with self.assertLogs(decision_log.LOG.logger, level) as logs:
            self._passed(wanted)
        return [record.getMessage() for record in logs.records]

    def _candidate(self, number):
        """Return the candidate that Nova takes of a host, and the lines."""
        with self.assertLogs(decision_log.LOG.logger, 'DEBUG') as logs:
            candidate = self.hosts[number].allocation_candidates[0]
        return candidate, [record.getMessage() for record in logs.records]

    def test_rejected_hosts(self):
        self._report(0, fakes.disk(0, 0), fakes.disk(0, 1))
        self._report(1, fakes.disk(1, 0), fakes.disk(1, 1, used_gb=95))
        self.assertEqual(
            [
                f'2 of 3 hosts are rejected for server {SERVER}: not enough '
                'free GiB: 1, no fresh report from diskplacer-agent: 1',
                f'Host host1 is rejected for server {SERVER}: not enough free '
                'GiB (105 GiB on 2 disks, at most 100 on one)',
                f'Host host2 is rejected for server {SERVER}: no fresh report '
                'from diskplacer-agent',
            ],
            self._lines(),
        )

    def test_a_refused_request(self):
        for number in range(3):
            self._report(number, fakes.disk(number, 0))
        with self.assertLogs(filters.LOG.logger, 'INFO'):
            lines = self._lines()
        self.assertEqual(4, len(lines))
        self.assertIn(
            '3 of 3 hosts are rejected for server '
            f'{SERVER}: too few disks with the medium: 3',
            lines[0],
        )

    def test_a_line_for_a_handful_of_hosts(self):
        self.hosts = [fakes.host_state(number) for number in range(20)]
        for number in range(19):
            self._report(number, fakes.disk(number, 0))
        lines = self._lines()
        self.assertEqual(6, len(lines))
        self.assertIn('too few disks with the medium: 19', lines[0])
        # the reason that few hosts have is among them
        self.assertIn('Host host19 is rejected', lines[-1])

    def test_vdisks_on_another_host(self):
        for number in range(3):
            held = [fakes.vdisk('v', SERVER)] if number == 1 else []
            self._report(
                number,
                fakes.disk(number, 0, vdisks=held),
                fakes.disk(number, 1),
            )
        self.attached = [server_volumes.AttachedVolume('v', 'host1')]
        with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'):
            lines = self._lines()
        self.assertIn('vdisks of the server are on another host: 2', lines[0])

    def test_no_line_if_all_hosts_pass(self):
        for number in range(3):
            self._report(number, fakes.disk(number, 0), fakes.disk(number, 1))
        with self.assertNoLogs(decision_log.LOG.logger, 'DEBUG'):
            self._passed()

    def test_room_that_was_just_chosen_for_other_servers(self):
        for number in range(2):
            self._report(number, fakes.disk(number, 0), fakes.disk(number, 1))
        wanted = test_filter.spec(vdisks='2', vdisk_gb='60')
        wanted.instance_uuid = 'another'
        self._passed(wanted)
        candidate = self.hosts[0].allocation_candidates[0]
        self.assertTrue(candidate)
        lines = self._lines(test_filter.spec(vdisks='2', vdisk_gb='60'))
        self.assertIn(
            'its room was just chosen for other servers: 1', lines[0]
        )

    def test_at_info_nothing_is_computed(self):
        self._report(0, fakes.disk(0, 0), fakes.disk(0, 1))
        with (
            mock.patch.object(rejections, 'of_plan') as of_plan,
            self.assertNoLogs(decision_log.LOG.logger, 'INFO'),
        ):
            self._passed()
            self.assertTrue(self.hosts[0].allocation_candidates[0])
        of_plan.assert_not_called()

    def test_chosen_disks(self):
        self._report(
            0,
            fakes.disk(0, 0, used_gb=50, pressure=20),
            fakes.disk(0, 1, used_gb=30),
            fakes.disk(0, 2, used_gb=40),
        )
        self._passed(
            test_filter.spec(vdisks='2', vdisk_gb='50', vdisk_mbps='9')
        )
        candidate, lines = self._candidate(0)
        claimed = [fakes.disk_uuid(0, at) for at in (1, 2)]
        self.assertLessEqual(set(claimed), candidate['allocations'].keys())
        self.assertEqual(1, len(lines))
        self.assertIn(
            f'Server {SERVER} is to claim disks of host host0 (try 1): ',
            lines[0],
        )
        for disk, load in zip(claimed, ('0.3000', '0.4000'), strict=True):
            self.assertIn(
                f'{disk} (50 CUSTOM_VDISK_GB, 9 CUSTOM_VDISK_MBPS, '
                f'load {load})',
                lines[0],
            )
        self.assertIn(
            'Weight 6.5000 = 10 x score 0.6500 (round_robin) - 10 x pressure '
            '0.0000',
            lines[0],
        )

    def test_pressure_and_the_multipliers_of_an_aggregate(self):
        aggregate = mock.Mock(
            metadata={'disk_placement_weight_multiplier': '2.5'}
        )
        self._report(0, fakes.disk(0, 0, used_gb=40, pressure=50))
        self.hosts[0].aggregates = [aggregate]
        self._passed(test_filter.spec(vdisks='1', vdisk_gb='10'))
        _, lines = self._candidate(0)
        self.assertIn(
            'Weight -3.5000 = 2.5 x score 0.6000 (round_robin) - 10 x '
            'pressure 0.5000',
            lines[0],
        )

    def test_each_try_and_alternate(self):
        self._report(0, fakes.disk(0, 0, used_gb=40), fakes.disk(0, 1))
        self._report(1, fakes.disk(1, 0))
        self._passed(test_filter.spec(vdisks='1', vdisk_gb='10'))
        self.room = {
            fakes.disk_uuid(0, i): placement_client.DiskCapacity(
                100, used_gb, 150, 0
            )
            for i, used_gb in enumerate((40, 100))
        }
        for attempt in ('try 1', 'try 2'):
            kept, lines = self._candidate(0)
            self.assertIn(f'of host host0 ({attempt}): ', lines[0])
            # though loads make no difference from the second try on
            self.assertIn('load 0.4000', lines[0])
        self.hosts[0].num_instances += 1
        _, lines = self._candidate(1)
        self.assertIn('of host host1 (alternate): ', lines[0])
        self.assertIn(fakes.disk_uuid(0, 0), kept['allocations'])

    def test_a_host_that_is_full_by_now(self):
        self._report(0, fakes.disk(0, 0))
        self._passed(test_filter.spec(vdisks='1', vdisk_gb='10'))
        self._candidate(0)
        self.room = {
            fakes.disk_uuid(0, 0): placement_client.DiskCapacity(
                100, 95, 150, 0
            )
        }
        with self.assertLogs(decision_log.LOG.logger, 'DEBUG') as logs:
            self.assertFalse(self.hosts[0].allocation_candidates)
        self.assertIn(
            f'Host host0 is skipped for server {SERVER} by current figures: '
            'not enough free GiB (5 GiB on 1 disks, at most 5 on one)',
            logs.output[0],
        )


class RoomFilterLogTest(test_filter.FilterTestCase):
    def setUp(self):
        super().setUp()
        self.filter = room.DiskRoomFilter()
        self.wanted = fakes.numa_spec(vdisks='2', vdisk_gb='10')

    def test_rejected_hosts(self):
        self._report(0, fakes.disk(0, 0), fakes.disk(0, 1))
        self._report(1, fakes.disk(1, 0))
        with self.assertLogs(decision_log.LOG.logger, 'DEBUG') as logs:
            self.assertEqual(['host0'], self._passed(self.wanted))
        self.assertIn('2 of 3 hosts are rejected', logs.output[0])

    def test_the_other_filter_logs_why_none_is_left(self):
        self._report(0, fakes.disk(0, 0))
        with self.assertNoLogs(decision_log.LOG.logger, 'DEBUG'):
            self.assertEqual(3, len(self._passed(self.wanted)))
