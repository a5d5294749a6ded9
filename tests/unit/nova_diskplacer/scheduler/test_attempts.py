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

"""Tests of the attempts to choose disks, one after the other."""

import unittest
from unittest import mock

import numpy as np
from nova import objects

from nova_diskplacer import conf
from nova_diskplacer import flavor
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.scheduler import attempts
from nova_diskplacer.scheduler import placement_queries
from nova_diskplacer.scheduler.plan import DiskPlan
from tests.unit.nova_diskplacer.scheduler import fakes

HOSTS = 8


class AttemptsTest(unittest.TestCase):
    """Hosts with one disk of 10 GiB each, for a vdisk that takes it whole."""

    def setUp(self):
        objects.register_all()
        conf.register_opts(conf.CONF)
        self.hosts = [fakes.host_state(number) for number in range(HOSTS)]
        self.cache = fakes.make_cache(
            *(
                fakes.report(number, fakes.disk(number, 0, total_gb=10))
                for number in range(HOSTS)
            )
        )
        self.with_room, self.asked = set(), []
        for name, function in (
            ('compute_nodes_with_room', lambda _: self.with_room),
            ('disks_in_tree', self._disks_in_tree),
        ):
            patch = mock.patch.object(placement_queries, name, function)
            patch.start()
            self.addCleanup(patch.stop)

    def _disks_in_tree(self, provider):
        """Tell that the disk of a host is free again."""
        self.asked.append(provider)
        (number,) = (
            number
            for number, host in enumerate(self.hosts)
            if host.uuid == provider
        )
        free = placement_client.DiskCapacity(10, 0, 150, 0)
        return {fakes.disk_uuid(number, 0): free}

    def _fill(self):
        """Have the agents report that all disks are claimed."""
        for number in range(HOSTS):
            disk = fakes.disk(number, 0, total_gb=10, used_gb=10)
            self.cache.update(fakes.report(number, disk))

    def _add_pending(self):
        """Count a choice on each host."""
        for row in range(HOSTS):
            self.cache.add_pending(row, np.array([1]), 10, 0)

    def _choose(self, only_alternates=False):
        """Return the attempts, their outcome and how many hosts fit."""
        plan = DiskPlan(flavor.VDiskRequest(1, 10))
        made = attempts.Attempts(
            fakes.numa_spec(vdisks='1', vdisk_gb='10'),
            plan,
            self.cache,
            self.hosts,
        )
        outcome = made.choose(only_alternates)
        return made, outcome, int(outcome.choice.fits.sum())

    def test_by_reports(self):
        self.hosts.append(fakes.host_state(HOSTS))
        made, outcome, fit = self._choose()
        # one has never reported
        self.assertEqual(self.hosts[:HOSTS], made.hosts)
        self.assertEqual((HOSTS, True), (fit, outcome.include_pending))
        self.assertEqual([], self.asked)

    def test_hosts_that_have_room_by_now(self):
        self._fill()
        self.with_room = {host.uuid for host in self.hosts}
        _, outcome, fit = self._choose()
        # a few are enough, and they differ
        self.assertEqual(5, len(set(self.asked)))
        self.assertEqual((5, True), (fit, outcome.include_pending))

    def test_placement_is_asked_once_in_a_while(self):
        self._fill()
        self._choose()
        self.with_room = {self.hosts[0].uuid}
        self.assertEqual(0, self._choose()[2])
        self.assertEqual([], self.asked)

    def test_without_pending_choices(self):
        self._add_pending()
        _, outcome, fit = self._choose()
        self.assertEqual((HOSTS, False), (fit, outcome.include_pending))

    def test_pending_choices_do_not_hide_that_all_is_claimed(self):
        self._fill()
        self._add_pending()
        self.assertFalse(self._choose()[1].fits)

    def test_alternates_take_one_attempt(self):
        self._add_pending()
        self.with_room = {host.uuid for host in self.hosts}
        _, outcome, fit = self._choose(only_alternates=True)
        self.assertEqual((0, True), (fit, outcome.include_pending))
        self.assertEqual([], self.asked)
