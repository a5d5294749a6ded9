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

import testtools

from cinder_vdisk_mapper.vdisks import naming


class TestNaming(testtools.TestCase):
    def test_blank_volumes(self):
        for name, server in (
            ('1234-blank-vol', '1234'),
            ('blank-vol', None),
            ('1234-blank-volume', None),
            ('', None),
            (None, None),
        ):
            self.assertEqual(server, naming.server_of_blank_volume(name))
