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

"""Connections to libvirt."""

import collections.abc
import contextlib
import functools
from typing import Any

from oslo_log import log as logging

from nova_diskplacer import exception

LOG = logging.getLogger(__name__)


@functools.cache
def import_libvirt() -> Any:
    """Return the module libvirt, None without libvirt-python.

    The first call logs a warning if it is missing.
    """
    try:
        import libvirt
    except ImportError:
        LOG.warning(
            'libvirt-python is not installed: the agent does not know the '
            'servers and changes nothing for them.'
        )
        return None
    # by default libvirt prints every error and raises it
    libvirt.registerErrorHandler(lambda context, error: None, None)
    return libvirt


@contextlib.contextmanager
def connect(
    uri: str, purpose: str, *, read_only: bool = True
) -> collections.abc.Iterator[Any]:
    """Yield a connection to libvirt, which must be installed.

    :param purpose: a verb in the infinitive and its object, for errors.
    :raises HypervisorError: libvirt raised an error.
    """
    libvirt = import_libvirt()
    try:
        connection = (libvirt.openReadOnly if read_only else libvirt.open)(uri)
        try:
            yield connection
        finally:
            connection.close()
    except libvirt.libvirtError as error:
        raise exception.HypervisorError(
            f'libvirt at [diskplacer_agent] libvirt_uri={uri} cannot '
            f'{purpose}: {error}'
        ) from error
