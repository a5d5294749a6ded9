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

"""Errors, as operators and as owners of volumes read them."""

import traceback

import fixtures
import testtools
from cinder import exception as cinder_exc

from cinder_vdisk_mapper.cinder_api import errors
from nova_diskplacer import exception

SECRET = 'disk 3d1f of host node has 12 GiB'


class ExplainedTestCase(testtools.TestCase):
    def explained(self, error):
        """Return the text of what Cinder gets, with all its causes."""
        log = self.useFixture(fixtures.FakeLogger())
        try:
            with errors.as_driver_error():
                raise error
        except cinder_exc.VolumeDriverException as found:
            self.assertIn(SECRET, log.output)
            # remote calls answer with this
            return ''.join(traceback.format_exception(found))

    def test_own_sentence(self):
        text = self.explained(errors.BindingError(SECRET, 'there is no room'))
        self.assertIn('there is no room', text)
        self.assertNotIn(SECRET, text)

    def test_all_others(self):
        for kind in (exception.DiskError, exception.PlacementError):
            text = self.explained(kind(SECRET))
            self.assertIn('log of cinder-volume', text)
            self.assertNotIn(SECRET, text)
