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


import contextlib
from unittest import mock

import fixtures
import testtools

from cinder_vdisk_mapper import connections

OLD, NEW = 'a,a', 'a,b'


class ActivateTestCase(testtools.TestCase):
    def test_legs_that_have_moved_since_the_volume_was_read(self):
        """Its device would be on legs that are to be wiped."""
        held = []
        volume = mock.Mock(id='1', name_id='1', size=2, provider_location=OLD)

        def refresh():
            self.assertEqual(['volume-1'], held)
            volume.provider_location = NEW

        volume.refresh = refresh

        @contextlib.contextmanager
        def hold(name, *_):
            held.append(name)
            yield
            held.remove(name)

        self.useFixture(
            fixtures.MockPatchObject(connections.locks, 'hold', hold)
        )
        operations = mock.Mock()

        def activate(location, name, size):
            self.assertEqual(['volume-1'], held)
            self.assertEqual((NEW, 'volume-1', 2), (location, name, size))

        operations.striping.activate_stripe.side_effect = activate
        connections.Connections('node@lvm', None, operations, {})._activate(
            OLD, volume
        )
        operations.striping.activate_stripe.assert_called_once()
