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

"""The host's guests, by libvirt, in the driver's helper process.

There is no libvirt in this module until it is needed: a host whose volumes
are never in group snapshots can do without.
"""

import re
from typing import Any

from cinder_vdisk_mapper import privsep
from nova_diskplacer import exception

# Other transports have libvirt run commands, which the helper must not.
_URI = re.compile(r'qemu(\+unix)?:///system(\?socket=/[\w./-]+)?')


@privsep.as_root
def suspend(uri: str, uuid: str) -> bool:
    """Suspend a guest; False if it does not run.

    When this returns, all that it was writing is written.

    :raises DiskError: libvirt cannot be asked, or refuses.
    """
    return _change(uri, uuid, 'VIR_DOMAIN_RUNNING', 'suspend')


@privsep.as_root
def resume(uri: str, uuid: str) -> bool:
    """Resume a guest; False if it is not suspended.

    :raises DiskError: libvirt cannot be asked, or refuses.
    """
    return _change(uri, uuid, 'VIR_DOMAIN_PAUSED', 'resume')


@privsep.as_root
def running(uri: str, uuid: str) -> bool:
    """Tell whether a guest runs.

    :raises DiskError: libvirt cannot be asked.
    """
    return _change(uri, uuid, 'VIR_DOMAIN_RUNNING', None)


def _change(uri: str, uuid: str, state: str, action: str | None) -> bool:
    """Act on a guest if there is one and it is in a state."""
    if not _URI.fullmatch(uri):
        raise exception.DiskError(
            f'vdisk_libvirt_uri={uri} is not qemu:///system or '
            'qemu+unix:///system?socket=PATH'
        )
    libvirt = _libvirt()
    try:
        connection = libvirt.open(uri)
        try:
            domain = connection.lookupByUUIDString(uuid)
            if domain.state()[0] != getattr(libvirt, state):
                return False
            if action:
                getattr(domain, action)()
            return True
        finally:
            connection.close()
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return False
        raise exception.DiskError(
            f'libvirt at {uri} does not {action or "find"} server {uuid}: '
            f'{error}'
        ) from error


def _libvirt() -> Any:
    try:
        import libvirt
    except ImportError as error:
        raise exception.DiskError(
            'group snapshots of volumes in use need libvirt-python '
            '(python3-libvirt) where cinder-volume runs'
        ) from error
    # it would print every error, beside raising it
    libvirt.registerErrorHandler(_ignore, None)
    return libvirt


def _ignore(context: Any, error: Any) -> None:
    """Leave an error to the exception that it is raised as."""
