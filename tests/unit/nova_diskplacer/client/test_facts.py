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

from hypothesis import given
from hypothesis import strategies as st
from oslotest import base

from nova_diskplacer.client import facts

names = st.sampled_from(['a', 'a.example', 'a.other', 'b', 'b.example', ''])


class HostNamesTest(base.BaseTestCase):
    @given(names, st.lists(names))
    def test_as_each_is_compared(self, name, hosts):
        self.assertEqual(
            any(facts.is_host(name, host) for host in hosts),
            name in facts.HostNames(hosts),
        )
