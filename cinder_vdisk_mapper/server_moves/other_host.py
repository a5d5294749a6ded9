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

"""Asks the cinder-volume of the other host of a server's move.

Its driver reads in the record what it has to do, and in the volume what it
needs: no secret is in a message.
"""

from typing import Any

import oslo_messaging
from cinder import context as cinder_context
from cinder import exception as cinder_exc
from cinder import objects
from cinder.volume import rpcapi
from oslo_log import log as logging

from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.types import Connector
from cinder_vdisk_mapper.cinder_api.types import Volume
from nova_diskplacer import exception

LOG = logging.getLogger(__name__)


def connect(volume: Volume, to: str, connector: Connector) -> dict[str, Any]:
    """Ask a destination to connect a volume, and return the connection.

    :param to: backend of the destination.
    :raises DiskPlacerError: it does not, or does not answer.
    """
    try:
        connection: dict[str, Any] = rpcapi.VolumeAPI().initialize_connection(
            cinder_context.get_admin_context(), _at(volume, to), connector
        )
    except (
        cinder_exc.CinderException,
        oslo_messaging.MessagingException,
    ) as error:
        # the other lines are the traceback of that host
        reason = str(error).partition('\n')[0]
        raise errors.BindingError(
            f'{to} does not attach volume {volume.id}: {reason}',
            'the host that the server moves to cannot attach the volume',
        ) from None
    return connection


def go_on(volume: Volume, backend: str, host: str) -> bool:
    """Ask the other host to go on with a move; return False if it fails.

    :param backend: of that host.
    :param host: name of that host.
    """
    try:
        with errors.cinder_errors():
            service = objects.Service.get_by_args(
                cinder_context.get_admin_context(), backend, 'cinder-volume'
            )
        if service.is_up:
            rpcapi.VolumeAPI().terminate_connection(
                cinder_context.get_admin_context(),
                _at(volume, backend),
                {'host': host},
                force=True,
            )
            return True
        reason = 'its cinder-volume is down'
    except (
        cinder_exc.CinderException,
        oslo_messaging.MessagingException,
        exception.DiskPlacerError,
    ) as error:
        reason = str(error).partition('\n')[0]
    LOG.warning(
        '%s goes on with volume %s only when it starts: %s',
        backend,
        volume.id,
        reason,
    )
    return False


@errors.cinder_errors()
def is_removed(backend: str) -> bool:
    """Return whether an operator has removed the service of a backend.

    Its host is lost then, and does nothing any more.

    :raises DiskPlacerError: the database does not answer.
    """
    try:
        objects.Service.get_by_args(
            cinder_context.get_admin_context(), backend, 'cinder-volume'
        )
    except cinder_exc.ServiceNotFound:
        return True
    return False


def _at(volume: Volume, backend: str) -> Volume:
    """Return a volume whose messages go to a backend, without its secret."""
    clone: Any = volume.obj_clone()
    clone.host = backend
    clone.cluster_name = clone.provider_auth = None
    clone.obj_reset_changes()
    at: Volume = clone
    return at
