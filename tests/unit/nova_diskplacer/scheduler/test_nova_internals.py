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

"""Tests of what is relied on of Nova's code, against Nova itself."""

import pathlib
import unittest
from importlib import metadata
from unittest import mock

from nova import objects
from nova.virt import hardware

import nova_diskplacer
from nova_diskplacer import internals
from nova_diskplacer.api import nova_internals as api_internals
from nova_diskplacer.scheduler import filter as filters
from nova_diskplacer.scheduler import nova_internals
from tests.unit import used

ALL = (
    nova_internals.SCHEDULER
    + nova_internals.SERVICE
    + api_internals.API
    + nova_internals.COMPUTE
)


class NovaInternalsTest(unittest.TestCase):
    def setUp(self):
        objects.register_all()
        internals.check.cache_clear()
        self.addCleanup(internals.check.cache_clear)

    def test_nova_has_all_of_it(self):
        release = int(metadata.version('nova').partition('.')[0])
        wanted = [name for name in ALL if name.since <= release]
        self.assertEqual([], internals.missing(wanted))

    def test_all_that_is_used_is_listed(self):
        """Add what this misses to nova_internals, with what it is for."""
        package = pathlib.Path(nova_diskplacer.__file__).parent
        found = used.names(package.rglob('*.py'), 'nova')
        self.assertIn('nova.virt.hardware.numa_get_constraints', found)
        listed = {name.name for name in ALL}
        self.assertEqual(set(), found - listed)

    def test_the_filter_says_what_is_missing(self):
        with mock.patch.object(hardware, 'numa_get_constraints'):
            del hardware.numa_get_constraints
            with self.assertLogs(internals.LOG.logger, 'ERROR') as logs:
                filters.DiskPlacementFilter()
        (line,) = logs.output
        self.assertIn(internals.NOVA, line)
        self.assertTrue(
            line.endswith(': nova.virt.hardware.numa_get_constraints'), line
        )
        with self.assertNoLogs(internals.LOG.logger):
            # it has been said
            filters.DiskPlacementFilter()
