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

"""How the project's errors reach Cinder."""

import contextlib
from collections.abc import Iterator

from cinder import exception as cinder_exc
from oslo_log import log as logging

from nova_diskplacer import exception

LOG = logging.getLogger(__name__)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Have Cinder report the project's errors as a driver's."""
    try:
        yield
    except exception.DiskPlacerError as error:
        # Cinder itself does not, when it attaches a volume to copy it
        LOG.error('%s', error)
        raise cinder_exc.VolumeDriverException(message=str(error)) from error
