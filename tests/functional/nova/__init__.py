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

"""Nova's API, conductor, scheduler and computes with Placement, in-process.

Native threading where Nova's own functional tests can, since Nova 34. With it
Nova's fixtures use SQLite files, so that requests are served concurrently.
"""

import os
from importlib import metadata

_THREADS = int(metadata.version('nova').partition('.')[0]) >= 34
os.environ.setdefault(
    'OS_NOVA_DISABLE_EVENTLET_PATCHING', 'true' if _THREADS else 'false'
)

from nova import monkey_patch  # noqa: E402

# Nova 31 patches the process when the module is imported
if hasattr(monkey_patch, 'patch'):
    monkey_patch.patch()

import nova.tests.functional  # noqa: E402,F401
