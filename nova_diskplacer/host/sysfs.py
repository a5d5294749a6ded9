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

"""Reads and writes files of sysfs, and finds block devices in it.

Functions raise OSError if a file does not exist, or the kernel refuses.
"""

import collections.abc
import dataclasses
import errno
import glob
import os
import re
import time
import typing

from nova_diskplacer.host import files
from nova_diskplacer.host import probes

SYS = '/sys'

_Result = typing.TypeVar('_Result')

# The last work for each device, until it ends, and when it began.
_pending: dict[str, tuple[probes.Job[typing.Any], float]] = {}


@dataclasses.dataclass(frozen=True)
class Block:
    """A block device; ``device`` is the path of its node, '' if unknown."""

    device: str = ''
    model: str = ''
    rotational: bool = False
    numa_node: int | None = None
    read_only: bool = False


def device_path(name: str, sys: str = SYS) -> str:
    """Return the real path in sysfs of the device with a name."""
    return os.path.realpath(f'{sys}/class/block/{name}')


def find_filesystem_device(path: str, sys: str = SYS) -> Block:
    """Return the block device below the filesystem of ``path``."""
    return find_by_number(os.stat(path).st_dev, sys)


def find_device(path: str, sys: str = SYS) -> Block:
    """Return the block device with the node ``path``."""
    return find_by_number(os.stat(path).st_rdev, sys)


def find_by_number(number: int, sys: str = SYS) -> Block:
    """Return the block device with a device number.

    A partition is returned with its own node and the properties of its disk.
    The model and NUMA node of a virtual device are those of all devices below
    it, unknown if these differ.
    The number of a filesystem without a block device yields ``Block()``.
    """
    link = f'{sys}/dev/block/{os.major(number)}:{os.minor(number)}'
    if not os.path.exists(link):
        return Block()
    disk = block = os.path.realpath(link)
    if os.path.exists(f'{block}/partition'):
        disk = os.path.dirname(block)
    node = _of_lower(disk, sys, lambda path: _numa_node(path, sys))
    return Block(
        device='/dev/' + os.path.basename(block),
        model=_of_lower(disk, sys, _model),
        rotational=read_optional(f'{disk}/queue/rotational') == '1',
        numa_node=int(node) if node else None,
        read_only=read_optional(f'{block}/ro') == '1',
    )


def lower_devices(path: str, sys: str = SYS) -> list[str]:
    """Return the real paths in sysfs of the devices below a block device.

    They are the disk of a partition, the devices that a virtual one is built
    on, and the paths of the head of an NVMe disk with native multipath.
    """
    if os.path.exists(f'{path}/partition'):
        return [os.path.dirname(path)]
    try:
        names = sorted(os.listdir(f'{path}/slaves'))
    except FileNotFoundError:
        names = []
    return [device_path(name, sys) for name in names] or nvme_paths(path)


def logical_block_size(path: str, sys: str = SYS) -> int:
    """Return the bytes of a logical block of a device, 512 if unknown.

    :param path: of the device's node.
    :raises TimeoutError: the device hangs while somebody changes its queue.
    """
    block = device_path(os.path.basename(os.path.realpath(path)), sys)
    if os.path.exists(f'{block}/partition'):
        block = os.path.dirname(block)
    size = f'{block}/queue/logical_block_size'
    return int(
        run_for_device(
            os.path.basename(block), size, lambda: read_optional(size)
        )
        or 512
    )


def is_built_on(
    path: str, devices: collections.abc.Iterable[str], sys: str = SYS
) -> bool:
    """Return whether a block device is built on others, and on no more.

    It may be built on them in several layers. A device that was lost and has
    come back under another name is another one. A device that sysfs does not
    show counts as built on them.

    :param path: of the device's node.
    :param devices: paths of the others' nodes.
    """

    def is_on_them(device: str) -> bool:
        if os.path.basename(device) in names:
            return True
        lower = lower_devices(device, sys)
        return bool(lower) and all(map(is_on_them, lower))

    block = _of_node(path, sys)
    below = [_of_node(device, sys) for device in devices]
    if block is None or None in below:
        return True
    names = {os.path.basename(device) for device in below if device}
    return is_on_them(block)


def _of_node(path: str, sys: str) -> str | None:
    """Return the path in sysfs of the device with a node, None if unknown."""
    block = device_path(os.path.basename(os.path.realpath(path)), sys)
    if os.path.isdir(block):
        return block
    # where udev is not used, LVM makes nodes of its own below /dev/mapper
    try:
        number = os.stat(path).st_rdev
    except OSError:
        return None
    block = f'{sys}/dev/block/{os.major(number)}:{os.minor(number)}'
    return os.path.realpath(block) if os.path.isdir(block) else None


def nvme_paths(path: str) -> list[str]:
    """Return the real paths in sysfs of the paths of an NVMe head.

    The head of nvme0c0n1 is nvme0n1. Other devices have none.
    """
    head = re.fullmatch(r'(nvme\d+)(n\d+)', os.path.basename(path))
    if not head:
        return []
    # before Linux 6.15 only the controllers are linked to
    subsystem = glob.escape(os.path.dirname(path))
    paths = glob.glob(f'{subsystem}/nvme*/{head[1]}c*{head[2]}')
    return sorted(map(os.path.realpath, paths))


def _of_lower(
    path: str, sys: str, read_own: collections.abc.Callable[[str], str]
) -> str:
    """Return a property of a device, or of those below it.

    :returns: '' if it is unknown, or those below differ.
    """
    own = read_own(path)
    if own:
        return own
    lower = lower_devices(path, sys)
    values = {_of_lower(device, sys, read_own) for device in lower}
    return values.pop() if len(values) == 1 else ''


def _model(disk: str) -> str:
    return read_optional(f'{disk}/device/model')


def _numa_node(disk: str, sys: str) -> str:
    """Return the NUMA node of the nearest ancestor that states one, or ''."""
    while len(disk) > len(os.path.realpath(sys)):
        node = read_optional(f'{disk}/numa_node')
        if node:
            return node if int(node) >= 0 else ''
        disk = os.path.dirname(disk)
    return ''


def read(path: str) -> str:
    """Return the text of a kernel file, without surrounding white space."""
    with open(path, encoding='utf-8', errors='replace') as stream:
        return stream.read().strip()


def read_optional(path: str) -> str:
    """Return the text of a kernel file, '' if it cannot be read."""
    try:
        return read(path)
    except OSError:
        return ''


def run_for_device(
    device: str, path: str, work: collections.abc.Callable[[], _Result]
) -> _Result:
    """Read or write kernel files that concern a device, with a timeout.

    The kernel may wait for requests in flight for as long as the device
    hangs: a write of its queue does, and a read of it waits for the write,
    whoever writes. The work then continues in a thread, and further work for
    the device is refused until it ends.

    :param device: a unique name or number of the device.
    :raises TimeoutError: this work or an earlier one hangs.
    """
    pending, since = _pending.get(device, (None, 0.0))
    if pending is not None:
        left = since + probes.TIMEOUT - time.monotonic()
        if not pending.wait(max(0.0, left)):
            raise TimeoutError(
                errno.ETIMEDOUT, f'the device hangs, and {path} is not used'
            )
    job = probes.Job(work)
    _pending[device] = job, time.monotonic()
    if not job.wait(probes.TIMEOUT):
        raise TimeoutError(errno.ETIMEDOUT, f'{path}: the device hangs')
    if _pending.get(device, (None, 0.0))[0] is job:
        _pending.pop(device, None)
    return job.result()


def write_to_device(device: str, path: str, text: str) -> None:
    """Write a kernel file that concerns a device, as ``run_for_device``."""
    run_for_device(device, path, lambda: write(path, text))


def write(path: str, text: str) -> None:
    """Write an existing kernel file."""
    with files.opened(path, os.O_WRONLY) as descriptor:
        os.write(descriptor, text.encode())
