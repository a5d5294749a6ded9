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

"""Tests of what is relied on of Cinder's code, against Cinder itself."""

import pathlib
import unittest
from unittest import mock

from cinder import objects
from cinder.volume import volume_utils

import cinder_vdisk_mapper
from cinder_vdisk_mapper import scheduler
from cinder_vdisk_mapper.cinder_api import internals as cinder_internals
from nova_diskplacer import internals
from tests.unit import used

ALL = cinder_internals.SCHEDULER + cinder_internals.VOLUME


class CinderInternalsTest(unittest.TestCase):
    def setUp(self):
        objects.register_all()
        internals.check.cache_clear()
        self.addCleanup(internals.check.cache_clear)

    def test_cinder_has_all_of_it(self):
        self.assertEqual([], internals.missing(ALL))

    def test_all_that_is_used_is_listed(self):
        """Add what this misses to cinder_internals, with what it is for."""
        package = pathlib.Path(cinder_vdisk_mapper.__file__).parent
        found = used.names(package.rglob('*.py'), 'cinder')
        self.assertIn('cinder.objects.Volume.get_by_id', found)
        listed = {name.name for name in ALL}
        self.assertEqual(set(), found - listed)

    def test_the_filter_says_what_is_missing(self):
        with mock.patch.object(volume_utils, 'extract_host'):
            del volume_utils.extract_host
            with self.assertLogs(internals.LOG.logger, 'ERROR') as logs:
                for _ in range(2):
                    scheduler.VDiskLocalityFilter()
        (line,) = logs.output
        self.assertIn(cinder_internals.RELEASE, line)
        self.assertTrue(
            line.endswith(': cinder.volume.volume_utils.extract_host'), line
        )
