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

"""Root's helper process of the filesystem backend.

libvirt may give a vdisk's file to the user that QEMU runs as. Then only root
can read the owner of the vdisk, extend it or delete it.

The helper process runs only the operations of an allow-list. It takes UUIDs
and names, never paths, and works only on prepared disks in a directory that
only root can change.

Its capabilities:

CAP_DAC_OVERRIDE
    open, change and delete the file of a vdisk that libvirt gave to QEMU's
    user, and disks whose directories are closed to root.
CAP_LEASE
    find out if a process has such a file open.
CAP_CHOWN
    keep the owner of a file that a revert replaces, and take over the file of
    a vdisk that Cinder is to manage.

Loop devices take none of their own: ``/dev/loop-control`` and new devices
belong to root, and CAP_DAC_OVERRIDE opens one that libvirt gave to QEMU's
user.
"""

import collections.abc
import contextlib
import dataclasses
import functools
import inspect
import os
import stat
import typing
from typing import Any

from oslo_config import cfg
from oslo_privsep import capabilities
from oslo_privsep import priv_context

from nova_diskplacer import exception
from nova_diskplacer.disks import bind_failures
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import links
from nova_diskplacer.disks import move_records
from nova_diskplacer.disks import parking
from nova_diskplacer.disks import remote
from nova_diskplacer.disks.filesystem import copies
from nova_diskplacer.disks.filesystem import locks
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.location import Location
from nova_diskplacer.host import lio

# Concurrent calls of a helper process: each call about a disk that begins to
# hang takes a thread until the disk is known to hang.
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

_Function = typing.TypeVar(
    '_Function', bound=collections.abc.Callable[..., Any]
)

#: An operation takes the caller's arguments and, as ``root``, the disk root.
Operation = collections.abc.Callable[..., Any]


def entry_point(of: Any) -> collections.abc.Callable[[_Function], _Function]:
    """Make a function the entry point of a context's helper process."""
    decorator: collections.abc.Callable[[_Function], _Function]
    decorator = of.entrypoint
    return decorator


def call(
    operations: collections.abc.Mapping[str, Operation],
    disk_root: str,
    name: str,
    arguments: collections.abc.Sequence[Any],
) -> Any:
    """Call an operation of an allow-list.

    It gets a location in place of the location's text.

    :raises DiskError: the list lacks the operation, the arguments do not have
        its declared types, or other users than root can change ``disk_root``.
    """
    operation = operations.get(name)
    if operation is None:
        raise exception.DiskError(f'{name!r} is not an allowed operation')
    given = disk_root, *arguments
    declared = str, *declared_types(operation)
    if len(given) != len(declared) or not all(map(_is_a, given, declared)):
        # not the arguments: they may have a secret
        kinds = [type(value).__name__ for value in given]
        raise exception.DiskError(f'operation {name} does not take {kinds}')
    parsed = (
        Location.parse(value) if kind is Location else value
        for value, kind in zip(arguments, declared[1:], strict=True)
    )
    return operation(*parsed, root=check_root_owned(disk_root))


def declared_types(operation: Operation) -> list[Any]:
    """Return the types of the arguments of an operation."""
    return [
        parameter.annotation
        for parameter in inspect.signature(operation).parameters.values()
        if parameter.kind is not parameter.KEYWORD_ONLY
    ]


def _is_a(value: object, declared: Any) -> bool:
    """Return whether a value has exactly a declared type; a bool is no int.

    A location is a text.
    """
    if declared is Location:
        declared = str
    return type(value) in (typing.get_args(declared) or (declared,))


def check_root_owned(disk_root: str) -> str:
    """Return the real path of a directory that its caller cannot change.

    :raises DiskError: another user than root could change its entries or
        replace it by another directory.
    """
    path = part = os.path.realpath(disk_root)
    has_child = False
    while True:
        # the parent decides who can make a missing entry
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(part)
            # in a sticky directory other users cannot replace root's entries,
            # but they can make those that are missing
            closed = not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or (
                has_child and status.st_mode & stat.S_ISVTX
            )
            has_child = True
            if status.st_uid not in (0, os.geteuid()) or not closed:
                raise exception.DiskError(
                    f'vdisk_disk_root {disk_root}: {part} must be owned and '
                    'writable by root only'
                )
        if part == '/':
            return path
        part = os.path.dirname(part)


def list_disks(kind: str) -> Operation:
    """Return the operation that lists the disks of a kind.

    :param kind: FILESYSTEM or LVM of ``discover``.
    """

    def disks(wait: bool, *, root: str) -> list[tuple[Any, ...]]:
        read = discover.wait_for_all if wait else discover.discover
        return [dataclasses.astuple(disk) for disk in read(root, kind)]

    return disks


def inspect_disk(uuid: str, *, root: str) -> tuple[Any, ...]:
    """Return the fields of a ``discover.Disk``."""
    return dataclasses.astuple(discover.inspect(root, uuid))


def count_bind_failure(reason: str, *, root: str) -> None:
    """Count a failure as :func:`bind_failures.count`."""
    bind_failures.count(root, reason)


def link(uuid: str, name: str, to_device: bool | None, *, root: str) -> None:
    """Make a link as :func:`links.link`, and the loop device that it takes.

    :param to_device: None to keep what the vdisk was attached as.
    """
    is_to_device = links.is_to_device(root, name)
    if to_device is None:
        to_device = is_to_device
    if to_device:
        _attach_device(uuid, name, root=root)
    links.link(root, uuid, name, to_device)
    if is_to_device and not to_device:
        # a server that still has it open has the same vdisk
        with contextlib.suppress(exception.DiskError):
            _detach_device(uuid, name, root=root)


def admit(
    iqn: str, initiator: str, user: str, secret: str, *, root: str
) -> None:
    """Admit the initiator of another host, as :func:`lio.admit`."""
    lio.admit(iqn, initiator, user, secret)


def recorded_move(
    name: str, *, root: str
) -> tuple[str, str, int | None] | None:
    """Return the record of a move as :func:`move_records.read`."""
    return move_records.read(root, name)


def unlink(name: str, *, root: str) -> None:
    """Remove a link, and the record of a move that has ended."""
    links.unlink(root, name)
    move_records.remove(root, name)


def _in_root(function: collections.abc.Callable[..., Any]) -> Operation:
    """Return the operation of a function that takes the disk root first."""

    @functools.wraps(function)
    def operation(*arguments: Any, root: str) -> Any:
        return function(root, *arguments)

    signature = inspect.signature(function)
    _, *parameters = signature.parameters.values()
    operation.__signature__ = (  # type: ignore[attr-defined]
        signature.replace(parameters=parameters)
    )
    return operation


def _on_disk(function: collections.abc.Callable[..., Any]) -> Operation:
    """Return an operation that takes a disk's UUID in place of its path.

    It is refused for a disk that hangs.
    """

    @functools.wraps(function)
    def operation(uuid: str, *arguments: Any, root: str) -> Any:
        return discover.run_unless_hung(
            root,
            uuid,
            lambda: function(discover.require_mounted(root, uuid), *arguments),
        )

    return operation


_attach_device = _on_disk(vdisks.attach_device)
_detach_device = _on_disk(vdisks.detach_device)


def _copy(
    uuid: str, name: str, target: str, start: int, *, root: str
) -> int | None:
    """Copy one part of a vdisk, as :func:`copies.copy`.

    The helper process has few threads and finishes the calls of a killed
    caller, so each call copies only a part.
    """

    def copy() -> int | None:
        source = discover.require_mounted(root, uuid)
        place = discover.require_mounted(root, target)
        return copies.copy(source, name, place, start)

    # of both disks, none may hang
    to_target = functools.partial(discover.run_unless_hung, root, target, copy)
    return discover.run_unless_hung(root, uuid, to_target)


def copy_remote(uuid: str, name: str, start: int, *, root: str) -> int | None:
    """Copy one part of the vdisk of another host to that of this one.

    As :func:`copies.copy_remote`; the other vdisk is that of the link.
    """

    @_on_disk
    def from_remote(path: str) -> int | None:
        device = remote.path(root, name)
        return copies.copy_remote(path, name, device, start)

    next_start: int | None = from_remote(uuid, root=root)
    return next_start


#: operations of all backends: on links, records and targets of iSCSI
COMMON: dict[str, Operation] = {
    'disk': inspect_disk,
    'count_bind_failure': count_bind_failure,
    'add_remote': _in_root(links.add_remote),
    'admit': admit,
    'all_links': _in_root(links.all_links),
    'link': link,
    'link_remote': _in_root(links.link_remote),
    'linked_disk': _in_root(links.linked_disk),
    'is_parked': _in_root(links.is_parked),
    'park': _in_root(parking.park),
    'unpark': _in_root(parking.unpark),
    'recorded_move': recorded_move,
    'remote_device': _in_root(links.remote_device),
    'remotes': _in_root(links.remotes),
    'remove_remote': _in_root(links.remove_remote),
    'unlink': unlink,
}

OPERATIONS: dict[str, Operation] = {
    **COMMON,
    'disks': list_disks(discover.FILESYSTEM),
    'is_to_device': _in_root(links.is_to_device),
    'attach_device': _attach_device,
    'detach_device': _detach_device,
    'with_device': _on_disk(vdisks.with_device),
    'in_use': _on_disk(vdisks.in_use),
    'writes': _on_disk(vdisks.writes),
    'create': _on_disk(vdisks.create),
    'extend': _on_disk(vdisks.extend),
    'shrink': _on_disk(vdisks.shrink),
    'delete': _on_disk(vdisks.delete),
    'sweep': _on_disk(locks.sweep),
    'written': _on_disk(vdisks.written),
    'rename': _on_disk(vdisks.rename),
    'snapshot': _on_disk(copies.snapshot),
    'clone': _on_disk(copies.clone),
    'revert': _on_disk(copies.revert),
    'clear': _on_disk(copies.clear),
    'copy': _copy,
    'copy_remote': copy_remote,
}


@entry_point(context)
def run(disk_root: str, operation: str, *arguments: Any) -> Any:
    """Run an operation in the helper process.

    :raises DiskError: see :func:`call`; or the operation fails.
    """
    return call(OPERATIONS, disk_root, operation, arguments)
