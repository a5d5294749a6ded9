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

"""Tests of the warnings about the order of Nova's filters."""

import unittest

from nova_diskplacer import conf
from nova_diskplacer import flavor
from nova_diskplacer.scheduler import filter as filters
from nova_diskplacer.scheduler import filter_order
from nova_diskplacer.scheduler import pressure_weigher
from nova_diskplacer.scheduler import weigher
from tests.unit.nova_diskplacer.scheduler import fakes
from tests.unit.nova_diskplacer.scheduler import test_filter


def forget_warnings():
    filter_order.check.cache_clear()
    filter_order.check_numa.cache_clear()


class OrderTest(unittest.TestCase):
    def setUp(self):
        forget_warnings()
        self.addCleanup(forget_warnings)
        self.addCleanup(
            conf.CONF.clear_override, 'enabled_filters', 'filter_scheduler'
        )

    def _enable(self, *names):
        conf.CONF.set_override(
            'enabled_filters', names, group='filter_scheduler'
        )

    def _warning(self, *names):
        self._enable(*names)
        with self.assertLogs(filter_order.LOG.logger, 'WARNING') as logs:
            for _ in range(2):
                filters.DiskPlacementFilter()
        (line,) = logs.output
        return line

    def test_the_last_one(self):
        self._enable('NUMATopologyFilter', 'DiskPlacementFilter')
        with self.assertNoLogs(filter_order.LOG.logger):
            filters.DiskPlacementFilter()

    def test_weighers_without_it(self):
        self._enable('ComputeFilter')
        with self.assertLogs(filter_order.LOG.logger, 'WARNING') as logs:
            weigher.DiskPlacementWeigher()
            pressure_weigher.DiskPressureWeigher()
        (line,) = logs.output
        self.assertIn('servers claim no disks', line)

    def test_a_filter_is_behind_it(self):
        line = self._warning('DiskPlacementFilter', 'ComputeFilter')
        self.assertIn('behind it: ComputeFilter. ', line)
        self.assertNotIn('NUMA', line)

    def test_numa_is_behind_it(self):
        line = self._warning('DiskPlacementFilter', 'NUMATopologyFilter')
        self.assertIn('vCPUs cannot be pinned to the NUMA cells', line)


class NumaTest(test_filter.FilterTestCase):
    def setUp(self):
        super().setUp()
        forget_warnings()
        self.addCleanup(forget_warnings)
        conf.CONF.set_override(
            'enabled_filters',
            ['DiskPlacementFilter'],
            group='filter_scheduler',
        )
        self.addCleanup(
            conf.CONF.clear_override, 'enabled_filters', 'filter_scheduler'
        )

    def test_numa_is_asked_for_and_nobody_limits_it(self):
        for wanted in (
            fakes.numa_spec(vdisks='1', vdisk_gb='1'),
            fakes.numa_spec(0, vdisks='1', vdisk_gb='1', numa='required'),
        ):
            with self.assertNoLogs(filter_order.LOG.logger, 'WARNING'):
                self._passed(wanted)
        wanted = fakes.numa_spec(
            vdisks='1', vdisk_gb='1', numa=flavor.PREFERRED
        )
        with self.assertLogs(filter_order.LOG.logger, 'WARNING') as logs:
            for _ in range(2):
                self._passed(wanted)
        (line,) = logs.output
        self.assertIn('NUMATopologyFilter is not in', line)
