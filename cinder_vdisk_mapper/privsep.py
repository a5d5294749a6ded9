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

"""What the driver does as root, in a helper process of its own.

libvirt may give a vdisk's file to the user that QEMU runs as; reading whose
vdisk it is, extending it or deleting it then takes root.
"""

import collections.abc
import dataclasses
import os
from typing import Any
from typing import TypeVar

from oslo_privsep import capabilities
from oslo_privsep import priv_context

from nova_diskplacer.disks import discover
from nova_diskplacer.disks import vdisks

context = priv_context.PrivContext(
    'cinder_vdisk_mapper',
    cfg_section='vdisk_privsep',
    pypath=__name__ + '.context',
    capabilities=[
        capabilities.CAP_DAC_OVERRIDE,
        capabilities.CAP_DAC_READ_SEARCH,
        capabilities.CAP_FOWNER,
    ],
)


_Function = TypeVar('_Function', bound=collections.abc.Callable[..., Any])


def _as_root(function: _Function) -> _Function:
    wrapped: _Function = context.entrypoint(function)
    return wrapped


def setup() -> None:
    """Do without the helper process in a process that is root already."""
    if os.geteuid() == 0:
        context.set_client_mode(False)


@_as_root
def inspect(disk_root: str, uuid: str) -> tuple[Any, ...]:
    """Return the fields of a ``Disk``."""
    return dataclasses.astuple(discover.inspect(disk_root, uuid))


@_as_root
def find(disk_root: str) -> list[tuple[Any, ...]]:
    """Return the fields of each ``Disk`` under ``disk_root``."""
    return [dataclasses.astuple(disk) for disk in discover.discover(disk_root)]


@_as_root
def create(
    disk: str,
    name: str,
    volume_id: str,
    server_id: str | None,
    size_bytes: int,
) -> None:
    """See :func:`nova_diskplacer.disks.vdisks.create`."""
    vdisks.create(disk, name, volume_id, server_id, size_bytes)


@_as_root
def extend(disk: str, name: str, size_bytes: int) -> None:
    """See :func:`nova_diskplacer.disks.vdisks.extend`."""
    vdisks.extend(disk, name, size_bytes)


@_as_root
def shrink(disk: str, name: str, size_bytes: int) -> None:
    """See :func:`nova_diskplacer.disks.vdisks.shrink`."""
    vdisks.shrink(disk, name, size_bytes)


@_as_root
def delete(disk: str, name: str) -> None:
    """See :func:`nova_diskplacer.disks.vdisks.delete`."""
    vdisks.delete(disk, name)
