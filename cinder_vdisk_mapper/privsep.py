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

The helper trusts its caller with vdisks and with nothing else: it is told
UUIDs and names, never paths, and works on nothing but prepared disks in a
directory that only root can change.

Its capabilities:

CAP_DAC_OVERRIDE
    open, change and delete the file of a vdisk that libvirt gave to QEMU's
    user, and disks whose directories are closed to root.
CAP_LEASE
    see whether anybody has such a file open.
CAP_CHOWN
    give the file that replaces another one at a revert to the same user, and
    take over the file of a vdisk that is to be managed.
"""

import collections.abc
import contextlib
import dataclasses
import os
import stat
from typing import Any
from typing import TypeVar

from oslo_config import cfg
from oslo_privsep import capabilities
from oslo_privsep import priv_context

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.filesystem import copying
from nova_diskplacer.disks.filesystem import reflink
from nova_diskplacer.disks.filesystem import vdisks

# Calls that the helper has at once: those about a disk that has begun to hang
# take a thread each until it is known to hang.
THREADS = 64

context = priv_context.PrivContext(
    'cinder_vdisk_mapper',
    cfg_section='vdisk_privsep',
    pypath=__name__ + '.context',
    capabilities=[
        capabilities.CAP_DAC_OVERRIDE,
        capabilities.CAP_CHOWN,
        capabilities.CAP_LEASE,
    ],
)
cfg.CONF.set_default('thread_pool_size', THREADS, group=context.cfg_section)


_Function = TypeVar('_Function', bound=collections.abc.Callable[..., Any])
_Result = TypeVar('_Result')


def as_root(function: _Function) -> _Function:
    """Have a function run in the helper process."""
    wrapped: _Function = context.entrypoint(function)
    return wrapped


def setup() -> None:
    """Do without the helper process in a process that is root already."""
    if os.geteuid() == 0:
        context.set_client_mode(False)


def trusted(disk_root: str) -> str:
    """Return the real path of a directory that its caller cannot change.

    :raises DiskError: somebody else than root could change what is in it or
        put another directory in its place.
    """
    path = os.path.realpath(disk_root)
    part = path
    while True:
        # what is not there cannot be made by who cannot change its parent
        with contextlib.suppress(FileNotFoundError):
            _check(disk_root, part, os.stat(part), part == path)
        if part == '/':
            return path
        part = os.path.dirname(part)


def _check(
    disk_root: str, part: str, status: os.stat_result, itself: bool
) -> None:
    # in a sticky directory nobody can replace what is root's
    closed = not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or (
        not itself and status.st_mode & stat.S_ISVTX
    )
    if status.st_uid not in (0, os.geteuid()) or not closed:
        raise exception.DiskError(
            f'vdisk_disk_root {disk_root}: {part} must be owned and '
            'writable by root only'
        )


def _on_disk(
    disk_root: str,
    uuid: str,
    work: collections.abc.Callable[..., _Result],
    *arguments: Any,
) -> _Result:
    """Call ``work`` with the path of a disk, unless and until it hangs."""
    root = trusted(disk_root)
    return discover.work_on(
        root, uuid, lambda: work(discover.locate(root, uuid), *arguments)
    )


@as_root
def inspect(disk_root: str, uuid: str) -> tuple[Any, ...]:
    """Return the fields of a ``Disk``."""
    return dataclasses.astuple(discover.inspect(trusted(disk_root), uuid))


@as_root
def find(disk_root: str) -> list[tuple[Any, ...]]:
    """Return the fields of each filesystem under ``disk_root``."""
    disks = discover.discover(trusted(disk_root), discover.FILESYSTEM)
    return [dataclasses.astuple(disk) for disk in disks]


@as_root
def create(
    disk_root: str,
    uuid: str,
    name: str,
    volume_id: str,
    server_id: str | None,
    size_bytes: int,
) -> None:
    """See :func:`nova_diskplacer.disks.filesystem.vdisks.create`."""
    _on_disk(
        disk_root, uuid, vdisks.create, name, volume_id, server_id, size_bytes
    )


@as_root
def extend(disk_root: str, uuid: str, name: str, size_bytes: int) -> None:
    """See :func:`nova_diskplacer.disks.filesystem.vdisks.extend`."""
    _on_disk(disk_root, uuid, vdisks.extend, name, size_bytes)


@as_root
def shrink(disk_root: str, uuid: str, name: str, size_bytes: int) -> None:
    """See :func:`nova_diskplacer.disks.filesystem.vdisks.shrink`."""
    _on_disk(disk_root, uuid, vdisks.shrink, name, size_bytes)


@as_root
def delete(disk_root: str, uuid: str, name: str) -> None:
    """See :func:`nova_diskplacer.disks.filesystem.vdisks.delete`."""
    _on_disk(disk_root, uuid, vdisks.delete, name)


@as_root
def sweep(disk_root: str, uuid: str) -> None:
    """See :func:`nova_diskplacer.disks.filesystem.vdisks.sweep`."""
    _on_disk(disk_root, uuid, vdisks.sweep)


@as_root
def written(disk_root: str, uuid: str, name: str) -> bool:
    """See :func:`nova_diskplacer.disks.filesystem.vdisks.written`."""
    return _on_disk(disk_root, uuid, vdisks.written, name)


@as_root
def rename(
    disk_root: str, uuid: str, name: str, new_name: str, volume_id: str
) -> None:
    """See :func:`nova_diskplacer.disks.filesystem.vdisks.rename`."""
    _on_disk(disk_root, uuid, vdisks.rename, name, new_name, volume_id)


@as_root
def snapshot(
    disk_root: str, uuid: str, name: str, snapshot: str, snapshot_id: str
) -> None:
    """See :func:`nova_diskplacer.disks.filesystem.reflink.snapshot`."""
    _on_disk(disk_root, uuid, reflink.snapshot, name, snapshot, snapshot_id)


@as_root
def clone(
    disk_root: str,
    uuid: str,
    source: str,
    name: str,
    volume_id: str,
    size_bytes: int,
) -> None:
    """See :func:`nova_diskplacer.disks.filesystem.reflink.clone`."""
    _on_disk(
        disk_root, uuid, reflink.clone, source, name, volume_id, size_bytes
    )


@as_root
def revert(disk_root: str, uuid: str, name: str, snapshot: str) -> None:
    """See :func:`nova_diskplacer.disks.filesystem.reflink.revert`."""
    _on_disk(disk_root, uuid, reflink.revert, name, snapshot)


@as_root
def clear(disk_root: str, uuid: str, name: str) -> None:
    """See :func:`nova_diskplacer.disks.filesystem.reflink.clear`."""
    _on_disk(disk_root, uuid, reflink.clear, name)


@as_root
def copy(
    disk_root: str, uuid: str, name: str, target: str, start: int
) -> int | None:
    """See :func:`nova_diskplacer.disks.filesystem.copying.copy`.

    It is called for one part after the other: the helper has few threads,
    and goes on with a call whose caller was killed.
    """

    def to(target_disk: str, disk: str) -> int | None:
        return copying.copy(disk, name, target_disk, start)

    def between(disk: str) -> int | None:
        return _on_disk(disk_root, target, to, disk)

    return _on_disk(disk_root, uuid, between)
