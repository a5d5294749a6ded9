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

"""What Nova remembers of the services that it asks for vendor data."""

import fixtures
from nova import service_auth
from nova.api.metadata import vendordata_dynamic


class Sessions(fixtures.Fixture):
    """Has Nova authenticate anew, and again after the test."""

    def _setUp(self):
        self.forget()
        self.addCleanup(self.forget)

    def forget(self):
        """Have Nova authenticate anew at the next request."""
        service_auth.reset_globals()
        # where Nova 31 keeps them
        vendordata_dynamic._SESSION = vendordata_dynamic._ADMIN_AUTH = None
