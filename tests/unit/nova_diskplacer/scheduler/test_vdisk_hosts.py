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

"""Where a server with bound vdisks may be, with servers that move."""

import numpy as np
from nova.compute import task_states

from nova_diskplacer import conf
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.scheduler import decision_log
from nova_diskplacer.scheduler import room
from nova_diskplacer.scheduler import vdisk_hosts
from nova_diskplacer.scheduler.server_volumes import AttachedVolume
from tests.unit.nova_diskplacer.scheduler import fakes
from tests.unit.nova_diskplacer.scheduler import test_filter

SERVER = test_filter.SERVER


class MovesTestCase(test_filter.FilterTestCase):
    """Three hosts of three disks; a server has two vdisks on host1."""

    def setUp(self):
        super().setUp()
        group = 'diskplacer_scheduler'
        conf.CONF.set_override('moves', True, group)
        self.addCleanup(conf.CONF.clear_override, 'moves', group)
        self.asked = {'vdisks': '2', 'vdisk_gb': '10'}
        self.attached = [AttachedVolume(v, 'host1') for v in 'vw']
        # what Placement has of a host, by its provider
        self.fresh = {}
        self.report_all({1: 'vw'})

    def _look(self, provider):
        self.looks.append(provider)
        return self.fresh.get(provider, self.room)

    def report_all(self, volumes, **full):
        """Have all hosts report.

        :param volumes: names of the volumes on each host's first disks.
        :param full: GiB used on each disk of a host.
        """
        for number in range(3):
            disks = [
                fakes.disk(number, i, used_gb=full.get(f'host{number}', 0))
                for i in range(3)
            ]
            for disk, name in zip(
                disks, volumes.get(number, ''), strict=False
            ):
                disk['vdisks'] = [fakes.vdisk(name, SERVER)]
                disk['used_gb'] = max(10, disk['used_gb'])
            self._report(number, *disks)

    def offer(self, *numbers):
        """Have Nova offer these hosts."""
        self.hosts = [fakes.host_state(number) for number in numbers]

    def claims(self, host):
        """Return the disks that a host's candidate claims, with GiB."""
        (state,) = (one for one in self.hosts if one.host == host)
        (candidate,) = state.allocation_candidates
        number = int(host[-1])
        return {
            index: candidate['allocations'][uuid]['resources'][
                'CUSTOM_VDISK_GB'
            ]
            for index in range(3)
            if (uuid := fakes.disk_uuid(number, index))
            in candidate['allocations']
        }

    def passed(self, **asked):
        return self._passed(test_filter.spec(**{**self.asked, **asked}))

    def assert_pinned(self, hosts, reason, **asked):
        """Check the hosts that pass, and that the log has the reason."""
        with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO') as logs:
            self.assertEqual(hosts, self.passed(**asked))
        self.assertIn('can be on no other host, as ', logs.output[0])
        self.assertIn(reason, logs.output[0])


class MovesTest(MovesTestCase):
    def test_home_comes_first(self):
        with self.assertNoLogs(vdisk_hosts.LOG.logger):
            self.assertEqual(['host1'], self.passed())
        self.assertEqual({0: 10, 1: 10}, self.claims('host1'))

    def test_elsewhere_if_home_is_not_offered(self):
        self.offer(0, 2)
        with self.assertNoLogs(vdisk_hosts.LOG.logger):
            self.assertEqual(['host0', 'host2'], self.passed())
        # all vdisks are new there
        for host in ('host0', 'host2'):
            self.assertEqual([10, 10], list(self.claims(host).values()))

    def test_elsewhere_if_home_is_full(self):
        self.report_all({1: 'vw'}, host1=95)
        # the vdisks that it has fit, a third one does not
        self.assertEqual(['host0', 'host2'], self.passed(vdisks='3'))
        self.assertEqual([10] * 3, list(self.claims('host0').values()))

    def test_elsewhere_if_only_placement_knows_of_room_there(self):
        for hosts, everywhere in ((3, 0), (4, 1)):
            # without pending choices
            self.cache = fakes.make_cache(clock=self.clock)
            self.looks = []
            self.report_all({1: 'vw'}, host0=95, host1=95, host2=95)
            self._report(3, fakes.disk(3, 0, used_gb=95))
            self.offer(*range(hosts))
            self.room = {
                fakes.disk_uuid(0, i): placement_client.DiskCapacity(
                    100, 0, 150, 0
                )
                for i in range(3)
            }
            self.assertEqual(['host0'], self.passed(vdisks='3'))
            # one answer tells of all hosts, where there are many
            self.assertEqual(everywhere, self.looks.count('everywhere'))

    def test_elsewhere_if_only_placement_knows_that_home_is_full(self):
        """Nova would not come to the other hosts when the claim fails."""
        self.fresh = {fakes.host_uuid(1): {}}
        self.assertEqual(['host0', 'host2'], self.passed())
        self.assertEqual([10, 10], list(self.claims('host0').values()))

    def test_home_is_looked_at_only_if_there_is_another_one(self):
        home = fakes.host_uuid(1)
        for offered, looks in ((range(3), [home]), ((1,), []), ((0, 2), [])):
            self.looks = []
            self.offer(*offered)
            self.passed()
            self.assertEqual(looks, self.looks)

    def test_elsewhere_hosts_have_room_for_all_vdisks(self):
        self.offer(0, 2)
        self.report_all({1: 'vw'}, host0=95)
        self.assertEqual(['host2'], self.passed())

    def test_elsewhere_rather_than_compete_at_home(self):
        for number, free in ((1, 1), (0, 2)):
            self._report(
                number,
                *(
                    fakes.disk(
                        number,
                        i,
                        used_gb=90 if i < free else 100,
                        vdisks=[fakes.vdisk('v', SERVER)]
                        if (number, i) == (1, 2)
                        else [],
                    )
                    for i in range(3)
                ),
            )
        self.attached = self.attached[:1]
        row = self.cache.rows([fakes.host_uuid(1)])[0]
        self.cache.add_pending(row, np.array([1, 0, 0]), 10, 0)
        self.offer(0, 1)
        self.assertEqual(['host0'], self.passed())

    def test_off_is_the_default(self):
        conf.CONF.clear_override('moves', 'diskplacer_scheduler')
        self.offer(0, 2)
        with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO') as logs:
            self.assertEqual([], self.passed())
        self.assertIn('can be on no other host: 2 of 2', logs.output[0])

    def test_pinned_stays_at_home_only(self):
        self.attached.append(AttachedVolume('x', 'host1'))
        self.report_all({1: 'vwx'})
        self.assert_pinned(['host1'], 'it has 3 vdisks')
        self.offer(0, 2)
        self.assert_pinned([], 'it has 3 vdisks')
        # a flavor for all of them
        self.assertEqual(['host0', 'host2'], self.passed(vdisks='3'))

    def test_a_flavor_without_vdisks_stays(self):
        self.offer(0, 2)
        for wanted in ({}, {'io_tier': 'gold'}):
            with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO') as logs:
                self.assertEqual([], self._passed(test_filter.spec(**wanted)))
            self.assertIn('its flavor has no vdisks', logs.output[0])

    def test_the_debug_log_has_the_reason(self):
        self.attached.append(AttachedVolume('x', 'host1'))
        self.report_all({1: 'vwx'})
        with self.assertLogs(decision_log.LOG.logger, 'DEBUG') as logs:
            self.passed()
        self.assertRegex(
            '\n'.join(logs.output),
            'Host host0 is rejected .*: vdisks of the server are on another '
            'host, as it has 3 vdisks',
        )

    def test_the_debug_log_has_each_host_once(self):
        self.report_all({1: 'vw'}, host1=95, host0=95)
        with self.assertLogs(decision_log.LOG.logger, 'DEBUG') as logs:
            self.assertEqual(['host2'], self.passed(vdisks='3'))
        lines = [line for line in logs.output if ' is rejected for ' in line]
        self.assertEqual(2, len(lines), lines)
        self.assertIn('Host host1 is rejected', lines[0])
        self.assertIn('Host host0 is rejected', lines[1])

    def test_evacuation(self):
        self.task_state = task_states.REBUILDING
        self.offer(0, 2)
        self.assert_pinned([], 'evacuated')
        # the flavor allows it, and nobody has said that the host is lost
        self.assert_pinned([], 'evacuated', on_host_loss='blank')

    def test_a_server_of_a_lost_host_comes_back_blank(self):
        conf.CONF.set_override('moves', False, 'diskplacer_scheduler')
        self.task_state = task_states.REBUILDING
        self.is_host_lost = True
        self.offer(0, 2)
        with self.assertNoLogs(vdisk_hosts.LOG.logger):
            self.assertEqual(
                ['host0', 'host2'], self.passed(on_host_loss='blank')
            )
        for host in ('host0', 'host2'):
            self.assertEqual([10, 10], list(self.claims(host).values()))
        for flavor in ({}, {'on_host_loss': 'none'}):
            with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'):
                self.assertEqual([], self.passed(**flavor))

    def test_a_file_migrates_cold_only(self):
        self.attached = [one._replace(is_file=True) for one in self.attached]
        self.offer(0, 2)
        self.task_state = task_states.RESIZE_PREP
        self.assertEqual(['host0', 'host2'], self.passed())
        self.task_state = task_states.MIGRATING
        self.assert_pinned([], 'is attached as a file')


class UnsettledTest(MovesTestCase):
    """The server is on host1, and the data of a vdisk still on host0."""

    def setUp(self):
        super().setUp()
        self.attached = [
            AttachedVolume(v, 'host1', moving_from='host0') for v in 'vw'
        ]
        self.report_all({0: 'vw', 1: 'vw'})

    def test_it_stays_or_goes_back(self):
        for offered, passed in (
            ((0, 1, 2), ['host1']),
            ((0, 2), ['host0']),
            ((1, 2), ['host1']),
            ((2,), []),
        ):
            self.offer(*offered)
            self.assert_pinned(passed, 'volume v has not settled')
            for host in passed:
                self.assertEqual({0: 10, 1: 10}, self.claims(host))

    def test_it_goes_back_if_it_cannot_stay(self):
        self.report_all({0: 'vw', 1: 'vw'}, host1=95)
        self.assert_pinned(['host0'], 'volume v has not settled', vdisks='3')
        self.assertEqual([10] * 3, list(self.claims('host0').values()))

    def test_a_flavor_without_vdisks_stays_or_goes_back(self):
        for offered, passed in (((0, 1, 2), ['host1']), ((0, 2), ['host0'])):
            self.offer(*offered)
            with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'):
                self.assertEqual(passed, self._passed(test_filter.spec()))

    def test_it_is_evacuated_to_its_data_only(self):
        self.task_state = task_states.REBUILDING
        self.offer(0, 2)
        self.assert_pinned(['host0'], 'evacuated')
        # its data is not lost
        self.is_host_lost = True
        self.assert_pinned(['host0'], 'has not settled', on_host_loss='blank')

    def test_settled(self):
        self.report_all({1: 'vw'})
        self.assertEqual(['host1'], self.passed())
        self.offer(0, 2)
        self.assertEqual(['host0', 'host2'], self.passed())

    def test_one_of_two_is_settled(self):
        self.report_all({0: 'w', 1: 'vw'})
        self.assert_pinned(['host1'], 'volume w has not settled')
        self.offer(0, 2)
        self.assert_pinned([], 'volume w has not settled')

    def test_settled_while_the_agent_of_the_source_is_away(self):
        """Its last report counts for an hour."""
        self.report_all({0: 'vw', 1: 'vw'})
        self.offer(2)
        self.assert_pinned([], 'has not settled')
        self.clock.now += 3601
        for number, volumes in ((1, 'vw'), (2, '')):
            self._report(
                number,
                *(
                    fakes.disk(number, i, vdisks=[fakes.vdisk(v, SERVER)])
                    for i, v in enumerate(volumes)
                ),
                *(fakes.disk(number, i) for i in range(len(volumes), 3)),
            )
        self.assertEqual(['host2'], self.passed())

    def test_the_data_is_known_with_the_option_off(self):
        """Servers may go back, so that an evacuation finds the data."""
        conf.CONF.clear_override('moves', 'diskplacer_scheduler')
        self.offer(0, 2)
        with self.assertLogs(vdisk_hosts.LOG.logger, 'INFO'):
            self.assertEqual(['host0'], self.passed())


class RoomTest(MovesTestCase):
    """DiskRoomFilter passes each host with room where a server may be."""

    def setUp(self):
        super().setUp()
        self.filter = room.DiskRoomFilter()

    def passed(self, **asked):
        return self._passed(fakes.numa_spec(**{**self.asked, **asked}))

    def test_home_and_elsewhere(self):
        self.assertEqual(['host0', 'host1', 'host2'], self.passed())
        self.report_all({1: 'vw'}, host2=95)
        self.assertEqual(['host0', 'host1'], self.passed())

    def test_pinned(self):
        self.attached.append(AttachedVolume('x', 'host1'))
        self.report_all({1: 'vwx'})
        self.assert_pinned(['host1'], 'it has 3 vdisks')
