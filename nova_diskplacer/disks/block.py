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

"""Inspects block devices and makes filesystems on them.

Functions raise DiskError if a command fails.
"""

import collections.abc
import dataclasses
import json
import os
from typing import Any

from nova_diskplacer import exception
from nova_diskplacer.host import commands

# Label of prepared filesystems; XFS allows 12 characters.
LABEL = 'diskplacer'

Node = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Device:
    """A block device, its partitions and its holders.

    ``holders`` are the devices made of it (RAID, LVM, dm-crypt...).
    ``mountpoints`` are those of all of these. ``busy``: a process or the
    kernel has it open exclusively. ``signatures`` are (type, label, uuid) as
    wipefs reports them.
    """

    path: str
    read_only: bool = False
    on_root_disk: bool = False
    busy: bool = False
    mountpoints: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    signatures: tuple[tuple[str, str, str], ...] = ()


def inspect(path: str) -> Device:
    """Return the block device at ``path``.

    A device on the root disk is not probed for signatures.

    :raises DiskError: lsblk does not list the device.
    """
    columns = 'PATH,TYPE,RO,MOUNTPOINTS'
    # without --tree lsblk prints a tree only with the column NAME
    listed = commands.run(
        'lsblk', '--json', '--all', '--tree', '--output', columns
    )
    with commands.report_errors('lsblk', listed):
        device = parse_lsblk(path, json.loads(listed)['blockdevices'])
    if device.on_root_disk:
        return device
    columns = 'TYPE,LABEL,UUID'
    listed = commands.run('wipefs', '--json', '--output', columns, path)
    with commands.report_errors('wipefs', listed):
        signatures = parse_wipefs(listed)
    return dataclasses.replace(device, busy=_busy(path), signatures=signatures)


def parse_lsblk(path: str, forest: list[Node]) -> Device:
    """Return the block device at ``path`` in the trees of lsblk.

    :raises DiskError: they do not contain it.
    """
    matches = [
        (root, node)
        for root in forest
        for node in _walk(root)
        # lsblk lists mapped devices by a link
        if path in (node['path'], os.path.realpath(node['path']))
    ]
    if not matches:
        raise exception.DiskError(f'{path} is not known to lsblk')
    node = matches[0][1]
    below = [child for child in _walk(node) if child is not node]
    return Device(
        path,
        read_only=node['ro'],
        on_root_disk=any('/' in _mountpoints(root) for root, _ in matches),
        mountpoints=_mountpoints(node),
        holders=tuple(
            child['path'] for child in below if child['type'] != 'part'
        ),
        partitions=tuple(
            child['path'] for child in below if child['type'] == 'part'
        ),
    )


def parse_wipefs(listed: str) -> tuple[tuple[str, str, str], ...]:
    """Return the signatures in the report of wipefs, '' without any."""
    signatures = json.loads(listed)['signatures'] if listed.strip() else []
    return tuple(
        (signature['type'], signature['label'] or '', signature['uuid'] or '')
        for signature in signatures
    )


def refusal_reason(device: Device, wipe: bool) -> str | None:
    """Return the reason not to prepare a device, None without any.

    A device in use is always refused. A device with partitions or signatures
    is refused unless ``wipe`` is set or it was prepared before.
    """
    if device.on_root_disk:
        return 'is on the root disk'
    if device.mountpoints:
        return f'is in use: mounted at {", ".join(device.mountpoints)}'
    if device.holders:
        return f'is in use: by {", ".join(device.holders)}'
    if device.busy:
        return 'is in use: it is open exclusively'
    if device.read_only:
        return 'is read-only'
    if wipe or prepared_uuid(device):
        return None
    if device.partitions:
        parts = ', '.join(device.partitions)
        return f'is partitioned ({parts}); --wipe destroys its data'
    if device.signatures:
        types = ', '.join(signature[0] for signature in device.signatures)
        return f'carries a signature ({types}); --wipe destroys its data'
    return None


def prepared_uuid(device: Device) -> str | None:
    """Return the disk's UUID of a prepared device, None for others."""
    if len(device.signatures) != 1 or device.partitions:
        return None
    type_, label, uuid = device.signatures[0]
    return uuid if (type_, label) == ('xfs', LABEL) else None


def mkfs_interrupted(path: str) -> bool:
    """Tell whether mkfs.xfs was killed on a device."""
    with open(path, 'rb') as stream:
        superblock = stream.read(512)
    # sb_magicnum and sb_inprogress, which mkfs clears last
    return superblock[:4] == b'XFSB' and superblock[126] == 1


def wipe(device: Device) -> None:
    """Erase the signatures of a device and of its partitions."""
    for path in (*device.partitions, device.path):
        commands.run('wipefs', '--all', path)
    if device.partitions:
        commands.run(
            'blockdev',
            '--rereadpt',
            device.path,
            attempts=commands.DEVICE_ATTEMPTS,
        )


def make_filesystem(path: str, uuid: str) -> None:
    """Make an XFS with reflinks and the UUID ``uuid``.

    mkfs.xfs refuses a device with any signature.
    """
    commands.run(
        'mkfs.xfs', '-q', '-L', LABEL, '-m', f'reflink=1,uuid={uuid}', path
    )


def _walk(node: Node) -> collections.abc.Iterator[Node]:
    yield node
    for child in node.get('children', ()):
        yield from _walk(child)


def _mountpoints(node: Node) -> tuple[str, ...]:
    return tuple(
        point for part in _walk(node) for point in part['mountpoints'] if point
    )


def _busy(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL))
    except OSError:
        return True
    return False
