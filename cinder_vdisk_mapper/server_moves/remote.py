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

"""Attaches the vdisk of another host by iSCSI: logs in and out.

Address, target and secret are those that the volume has in Cinder's database.
The link to the device is made before the login, and removed after the logout,
so that each session can be found by its link.
"""

import dataclasses
import os
import time
from collections.abc import Callable
from typing import Any

from cinder import exception as cinder_exc
from cinder.volume import volume_utils
from os_brick import exception as brick_exc
from os_brick.privileged import rootwrap
from oslo_concurrency import processutils
from oslo_log import log as logging

from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.types import Volume
from nova_diskplacer import exception
from nova_diskplacer.disks import links

LOG = logging.getLogger(__name__)

_ERRORS = (
    brick_exc.BrickException,
    cinder_exc.CinderException,
    processutils.ProcessExecutionError,
    OSError,
)

# Seconds that udev may take to name a device.
_PATIENCE = 10.0
_INTERVAL = 0.1

# Seconds that a command of a logout may take; 600 in os-brick. A session whose
# other host is away may take all of them.
_LONGEST = 60


class InUse(errors.BindingError):
    """A process of the destination has a vdisk open, which stays attached."""

    def __init__(self, message: str) -> None:
        super().__init__(
            message, 'the volume is in use on the host of its server'
        )


@dataclasses.dataclass(frozen=True)
class Target:
    """An iSCSI target and the secret to log in to it."""

    portal: str
    iqn: str
    lun: int
    user: str = dataclasses.field(default='', repr=False)
    secret: str = dataclasses.field(default='', repr=False)

    @property
    def device(self) -> str:
        """Path of the device of the session."""
        return links.device_of(self.portal, self.iqn, self.lun)


def target_of(volume: Volume) -> Target:
    """Return the target by which a volume is exported.

    :raises DiskError: it is not exported.
    """
    try:
        portals, iqn, lun = (volume.provider_id or '').split()
        _, user, secret = (volume.provider_auth or '').split()
        portal = portals.partition(',')[0].partition(';')[0]
        return Target(portal, iqn, int(lun), user, secret)
    except ValueError:
        # without the cause: it would have the secret
        raise exception.DiskError(
            f'volume {volume.id} is not exported by the host that has it'
        ) from None


def log_in(backend: base.Backend, name: str, target: Target) -> None:
    """Attach the vdisk of another host, whose device then is at its link.

    :param name: of the vdisk.
    :raises DiskError: the target refuses it, or does not answer.
    """
    backend.add_remote(name, target.portal, target.iqn, target.lun)
    try:
        connection = _connector(backend).connect_volume(_properties(target))
    except _ERRORS as error:
        raise exception.DiskError(
            f'{name}: no login to {target.iqn} at {target.portal} '
            f'({type(error).__name__}); os-brick logs the reason'
        ) from None
    deadline = time.monotonic() + _PATIENCE
    device = os.path.realpath(connection['path'])
    while os.path.realpath(target.device) != device:
        if time.monotonic() > deadline:
            raise exception.DiskError(
                f'{target.device} does not lead to {device}: udev has not '
                'named the device of the session'
            )
        time.sleep(_INTERVAL)


def log_out(backend: base.Backend, name: str, is_lost: bool = False) -> None:
    """Detach the vdisk of another host, if it may be attached.

    :param is_lost: whether a process that has it open gets errors; all of its
        requests wait for a host that does not come back.
    :raises InUse: a process has it open.
    :raises DiskError: the session does not end in time.
    """
    device = backend.remote_device(name)
    if device is None:
        return
    # os-brick and the kernel would end the session all the same
    if not is_lost and backend.remote_in_use(name):
        raise InUse(f'{name} is not detached: a process has {device} open')
    properties = _properties(Target(*links.target_of(device)))
    try:
        _connector(backend, _execute).disconnect_volume(
            properties, None, force=True
        )
    except _ERRORS as error:
        raise exception.DiskError(
            f'{name}: no logout from {device} ({type(error).__name__}); '
            'os-brick logs the reason'
        ) from None
    backend.remove_remote(name)


def _execute(*command: str, **options: Any) -> tuple[str, str]:
    """Run a command of os-brick once, and end it when it takes too long."""
    options |= {'timeout': _LONGEST, 'attempts': 1}
    output: tuple[str, str] = rootwrap.execute(*command, **options)
    return output


def _connector(
    backend: base.Backend, execute: Callable[..., Any] | None = None
) -> Any:
    return volume_utils.brick_get_connector(
        'iscsi',
        execute=execute,
        device_scan_attempts=(
            backend.configuration.num_volume_device_scan_tries
        ),
    )


def _properties(target: Target) -> dict[str, Any]:
    """Return the properties of a connection, as os-brick takes them."""
    properties = {
        'target_discovered': False,
        'target_portal': target.portal,
        'target_iqn': target.iqn,
        'target_lun': target.lun,
    }
    if target.secret:
        properties |= {
            'auth_method': 'CHAP',
            'auth_username': target.user,
            'auth_password': target.secret,
        }
    return properties
