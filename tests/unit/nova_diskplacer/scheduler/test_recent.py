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

"""Tests of what was given away a moment ago."""

import datetime
import unittest

from nova import objects

from nova_diskplacer.scheduler import recent
from tests.unit.nova_diskplacer.scheduler import fakes


class RecentTest(unittest.TestCase):
    def setUp(self):
        objects.register_all()
        self.now = datetime.datetime(2026, 1, 1)
        self.recent = recent.Recent(lambda: self.now)
        self.host = fakes.numa_host(0, 0, 0)

    def _fitted(self, cell, **changes):
        fields = {'cpuset': {0, 1}, 'pcpuset': set(), 'memory': 1024}
        cells = [objects.InstanceNUMACell(id=cell, **{**fields, **changes})]
        return objects.InstanceNUMATopology(cells=cells)

    def _used(self):
        cells = self.recent.topology(self.host).cells
        return [cell.cpu_usage for cell in cells]

    def _pass(self, seconds):
        self.now += datetime.timedelta(seconds=seconds)

    def test_it_counts(self):
        self.assertEqual([0, 0], self._used())
        self.recent.add(self.host, self._fitted(0))
        self.recent.add(self.host, self._fitted(1))
        self.recent.add(self.host, self._fitted(1))
        self.assertEqual([2, 4], self._used())
        other = fakes.numa_host(1, 0, 0)
        self.assertIs(other.numa_topology, self.recent.topology(other))
        cells = self.host.numa_topology.cells
        self.assertEqual([0, 0], [cell.cpu_usage for cell in cells])

    def test_until_it_is_old(self):
        self.recent.add(self.host, self._fitted(0))
        self._pass(recent.HOLD_SECONDS - 1)
        self.recent.add(self.host, self._fitted(1))
        self._pass(2)
        self.assertEqual([0, 2], self._used())

    def test_until_the_host_says_something_newer(self):
        self.host.updated = self.now.replace(tzinfo=datetime.UTC)
        self._pass(1)
        self.recent.add(self.host, self._fitted(0))
        self.assertEqual([2, 0], self._used())
        self._pass(1)
        self.host.updated = self.now.replace(tzinfo=datetime.UTC)
        self.assertEqual([0, 0], self._used())

    def test_until_it_is_removed(self):
        given = self.recent.add(self.host, self._fitted(0))
        self.recent.add(self.host, self._fitted(0))
        self.recent.remove(self.host, given)
        self.assertEqual([2, 0], self._used())

    def test_until_its_cpus_are_taken(self):
        cell = self.host.numa_topology.cells[0]
        cell.pcpuset, cell.siblings = {0, 1, 2, 3}, [{0}, {1}, {2}, {3}]
        for taken, want in ((set(), {0, 1}), ({1, 2}, {1, 2})):
            cell.pinned_cpus = taken
            self.recent.clear()
            fitted = self._fitted(
                0, cpuset=set(), pcpuset={0, 1}, cpu_policy='dedicated'
            )
            fitted.cells[0].pin_vcpus((0, 0), (1, 1))
            self.recent.add(self.host, fitted)
            found = self.recent.topology(self.host).cells[0]
            self.assertEqual(want, found.pinned_cpus)

    def test_what_fits_nowhere_takes_nothing(self):
        self.recent.add(self.host, None)
        self.assertEqual([0, 0], self._used())
