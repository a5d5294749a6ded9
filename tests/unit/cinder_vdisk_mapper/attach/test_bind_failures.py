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

import types
from unittest import mock

import testtools
from cinder import exception as cinder_exc

from cinder_vdisk_mapper.attach import bind_failures
from cinder_vdisk_mapper.cinder_api import errors
from nova_diskplacer import exception
from nova_diskplacer import nova_server
from nova_diskplacer.disks import bind_failures as counter
from tests.unit.cinder_vdisk_mapper import test_driver


class Counted:
    def __init__(self, backend):
        self.operations = types.SimpleNamespace(backend=backend)

    @bind_failures.counted
    def work(self, result):
        if isinstance(result, Exception):
            raise result
        return result


class CountedTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.backend = mock.Mock()

    def test_success_is_not_counted(self):
        self.assertEqual(3, Counted(self.backend).work(3))
        self.backend.count_bind_failure.assert_not_called()

    def test_reasons(self):
        for error, reason in (
            (errors.BindingError('', ''), 'refused'),
            (exception.DiskHung(), 'disk'),
            (exception.Conflict(), 'placement'),
            (nova_server.NovaError(), 'nova'),
            (exception.DiskPlacerError(), 'other'),
        ):
            self.assertIn(reason, counter.REASONS)
            self.backend.reset_mock()
            self.assertRaises(type(error), Counted(self.backend).work, error)
            self.backend.count_bind_failure.assert_called_once_with(reason)

    def test_the_error_survives_a_counter_that_fails(self):
        self.backend.count_bind_failure.side_effect = exception.DiskError('x')
        self.assertRaises(
            exception.PlacementError,
            Counted(self.backend).work,
            exception.PlacementError(),
        )


class DriverTestCase(test_driver.DriverTestCase):
    def test_a_volume_that_does_not_fit(self):
        volume = test_driver.volume(size=1000)
        self.assertRaises(
            cinder_exc.VolumeDriverException, self.export, volume
        )
        self.assertEqual(['refused'], self.driver.backend.bind_failures)
