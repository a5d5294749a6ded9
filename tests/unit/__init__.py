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

import tempfile

import hypothesis

from nova_diskplacer import http_retries
from nova_diskplacer.host import files
from tests import isolation

# what else the machine does is not the tests' concern
hypothesis.settings.register_profile(
    'unhurried',
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile('unhurried')

# a service that is away in a test stays away
http_retries.SECONDS = 0.0

# tests that run at the same time lock the same names
_locks = tempfile.TemporaryDirectory(prefix='diskplacer-locks-')
files.set_lock_directory(_locks.name)


def load_tests(loader, tests, pattern):
    return isolation.load_packages(loader, __file__)
