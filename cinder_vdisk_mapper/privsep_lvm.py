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

"""What the LVM backend does as root, in a helper process of its own.

Its capabilities:

CAP_DAC_OVERRIDE
    open a volume that libvirt gave to QEMU's user.

LVM's commands, which it starts, have others:

CAP_SYS_ADMIN
    talk to the kernel's device mapper.
CAP_SYS_MODULE
    load what the device mapper makes snapshots with, if that is not loaded.
"""

import collections.abc
import dataclasses
import functools
import os
from typing import Any
from typing import TypeVar

from oslo_config import cfg
from oslo_privsep import capabilities
from oslo_privsep import priv_context

from cinder_vdisk_mapper import privsep
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.lvm import copies
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import volumes

context = priv_context.PrivContext(
    'cinder_vdisk_mapper',
    cfg_section='vdisk_lvm_privsep',
    pypath=__name__ + '.context',
    capabilities=[capabilities.CAP_DAC_OVERRIDE],
)
cfg.CONF.set_default(
    'thread_pool_size', privsep.THREADS, group=context.cfg_section
)

# A command that root starts has all capabilities, whatever root's process
# has, unless they are taken out of what it may ever have.
_CONFINED = (
    'setpriv',
    '--no-new-privs',
    '--inh-caps=-all',
    '--bounding-set=-all,+sys_admin,+sys_module',
)

_Function = TypeVar('_Function', bound=collections.abc.Callable[..., Any])


def _as_root(function: collections.abc.Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def confined(*arguments: Any) -> Any:
        groups.wrapper = _CONFINED
        return function(*arguments)

    return context.entrypoint(confined)


def _on_disk(function: _Function) -> _Function:
    """Run a function whose first argument is a disk, unless it hangs."""

    @functools.wraps(function)
    def isolated(uuid: str, *arguments: Any) -> Any:
        return groups.work_on(uuid, lambda: function(uuid, *arguments))

    wrapped: _Function = _as_root(isolated)
    return wrapped


def setup() -> None:
    """Do without the helper process in a process that is root already."""
    if os.geteuid() == 0:
        context.set_client_mode(False)


@_as_root
def inspect(disk_root: str, uuid: str) -> tuple[Any, ...]:
    """Return the fields of a ``Disk``."""
    return dataclasses.astuple(
        discover.inspect(privsep.trusted(disk_root), uuid)
    )


@_as_root
def find(disk_root: str) -> list[tuple[Any, ...]]:
    """Return the fields of each volume group under ``disk_root``."""
    disks = discover.discover(privsep.trusted(disk_root), discover.LVM)
    return [dataclasses.astuple(disk) for disk in disks]


@_on_disk
def create(
    uuid: str,
    name: str,
    volume_id: str,
    server_id: str | None,
    size_bytes: int,
) -> None:
    """See :func:`nova_diskplacer.disks.lvm.volumes.create`."""
    volumes.create(uuid, name, volume_id, server_id, size_bytes)


@_on_disk
def extend(uuid: str, name: str, size_bytes: int) -> None:
    """See :func:`nova_diskplacer.disks.lvm.volumes.extend`."""
    volumes.extend(uuid, name, size_bytes)


@_on_disk
def shrink(uuid: str, name: str, size_bytes: int) -> None:
    """See :func:`nova_diskplacer.disks.lvm.volumes.shrink`."""
    volumes.shrink(uuid, name, size_bytes)


@_on_disk
def condemn(uuid: str, name: str) -> tuple[str, int] | None:
    """See :func:`nova_diskplacer.disks.lvm.volumes.condemn`."""
    return volumes.condemn(uuid, name)


@_on_disk
def zero(uuid: str, name: str) -> None:
    """See :func:`nova_diskplacer.disks.lvm.volumes.zero`."""
    volumes.zero(uuid, name)


@_on_disk
def remove(uuid: str, name: str, wiped: bool) -> None:
    """See :func:`nova_diskplacer.disks.lvm.volumes.remove`."""
    volumes.remove(uuid, name, wiped)


@_on_disk
def snapshot(uuid: str, name: str, snapshot: str, snapshot_id: str) -> None:
    """See :func:`nova_diskplacer.disks.lvm.copies.snapshot`."""
    copies.snapshot(uuid, name, snapshot, snapshot_id)


@_on_disk
def allocate_clone(
    uuid: str, source: str, name: str, volume_id: str, size_bytes: int
) -> None:
    """See :func:`nova_diskplacer.disks.lvm.copies.allocate_clone`."""
    copies.allocate_clone(uuid, source, name, volume_id, size_bytes)


@_on_disk
def clone(
    uuid: str, source: str, name: str, volume_id: str, size_bytes: int
) -> None:
    """See :func:`nova_diskplacer.disks.lvm.copies.clone`."""
    copies.clone(uuid, source, name, volume_id, size_bytes)


@_on_disk
def revert(uuid: str, name: str, snapshot: str) -> None:
    """See :func:`nova_diskplacer.disks.lvm.copies.revert`."""
    copies.revert(uuid, name, snapshot)


@_on_disk
def clear(uuid: str, name: str) -> None:
    """See :func:`nova_diskplacer.disks.lvm.copies.clear`."""
    copies.clear(uuid, name)


@_on_disk
def copy(uuid: str, name: str, target: str) -> None:
    """See :func:`nova_diskplacer.disks.lvm.copies.copy`."""
    groups.work_on(target, lambda: copies.copy(uuid, name, target))


@_on_disk
def rename(uuid: str, name: str, new_name: str, volume_id: str) -> None:
    """See :func:`nova_diskplacer.disks.lvm.volumes.rename`."""
    volumes.rename(uuid, name, new_name, volume_id)
