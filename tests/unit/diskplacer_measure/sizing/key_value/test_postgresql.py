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


import ddt
import testtools

from diskplacer_measure.sizing import errors
from diskplacer_measure.sizing.key_value import postgresql


@ddt.ddt
class ConnectTest(testtools.TestCase):
    @ddt.data(
        'postgresql://me:secret@h/d',
        'postgresql://h/d?password=secret',
        'host=h password=secret',
    )
    def test_a_password_that_others_can_see(self, url):
        error = self.assertRaises(errors.SizingError, postgresql.connect, url)
        self.assertIn('PGPASSWORD', str(error))
        self.assertNotIn('secret', str(error))
