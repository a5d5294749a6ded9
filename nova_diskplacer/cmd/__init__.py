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

"""The commands of the project; they use threads, not eventlet."""

import warnings

try:
    from oslo_service import backend
except ImportError as error:
    raise SystemExit(
        f'{error}: the commands need an extra of the Python package '
        'nova-diskplacer, which are nova-diskplacer[agent] for a host with '
        'disks, [manage] and [vendordata]'
    ) from error

# futurist imports eventlet wherever it is installed
warnings.filterwarnings('ignore', r'\s*Eventlet is deprecated')

# oslo.service 4.1, of OpenStack 2025.1, knows eventlet only; what
# oslo.messaging takes of it works without
if hasattr(backend, 'register_backend_default_hook'):
    backend.register_backend_default_hook(
        lambda: backend.BackendType.THREADING
    )
